//! How much of anything one request may hold. Beyond a limit a request is refused with the number.

/// Nesting of arrays and objects in a request body.
pub const DEPTH_MAX: usize = 64;
pub const MESSAGES_MAX: usize = 4096;
pub const TOOLS_MAX: usize = 1024;
/// Stop strings, and stop token ids, of one request.
pub const STOPS_MAX: usize = 32;
/// `n`.
pub const CHOICES_MAX: u32 = 16;
pub const TOP_LOGPROBS_MAX: u32 = 20;
/// Cache marks of one request that no notice is made of.
pub(crate) const CACHE_MARKS: usize = 4;
/// Tokens with a `logit_bias`.
pub(crate) const LOGIT_BIAS_MAX: usize = 1024;
/// Bytes of one stop string: the matcher holds this much text back.
pub(crate) const STOP_BYTES_MAX: usize = 1024;
/// Bytes of a model name, so that it may stand in errors and logs.
pub(crate) const NAME_BYTES_MAX: usize = 512;

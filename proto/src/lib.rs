//! The control protocol (`dynd.v1`), generated at build time, and the one look-up of the control
//! socket that daemon and client share.
//!
//! Knows nothing of what the messages describe.
#![forbid(unsafe_code)]

pub mod socket;

/// Generated messages, client and server of package `dynd.v1`.
#[expect(clippy::allow_attributes, reason = "generated code")]
pub mod v1 {
    tonic::include_proto!("dynd.v1");
}

/// `apiVersion` of every JSON document the protocol's clients print.
pub const API_VERSION: &str = "dynd/v1";

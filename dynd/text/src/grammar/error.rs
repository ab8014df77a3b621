//! Why a grammar could not be made.

/// Each message names the problem and its place. Of the client's text it holds names that the
/// client gave and at most a line of a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    #[error("{what} is larger than {limit}; make it smaller or leave parts of it out")]
    TooLarge { what: String, limit: &'static str },
    #[error("the schema of {what} cannot be enforced: {problem} (at {place}); change that part")]
    Schema { what: String, place: String, problem: String },
    #[error("the tool '{0}' that must be called is not among the tools; add it or choose another")]
    UnknownTool(String),
    #[error("a tool must be called, but the request has no tools; send at least one")]
    NoTools,
    #[error("the model writes no tool calls, so none can be required; use tool_choice 'auto'")]
    NoCalls,
    #[error("nothing in the request limits the answer")]
    Unlimited,
    #[error(
        "the tools and schemas together are too complex: {0}; send fewer tools or simpler schemas"
    )]
    TooComplex(String),
    #[error("the tokenizer cannot be used for constrained answers: {0}")]
    Tokenizer(String),
}

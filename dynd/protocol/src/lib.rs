//! The client protocols as pure functions: bytes to [`Request`], [`Event`]s to bytes, and the
//! canonical form of a conversation.
//!
//! Does no I/O and knows nothing of sockets, tokenizers, templates, sessions or workers. Whatever
//! it is given, it answers with a value or an [`ApiError`]; it never panics.
#![forbid(unsafe_code)]

mod billing;
mod cache;
mod canonical;
mod chat;
mod chat_form;
mod chat_messages;
mod completion;
mod diagnosis;
mod encode;
mod error;
mod error_body;
mod event;
mod fields;
mod json;
mod limits;
mod message;
mod messages;
mod models;
mod notice;
mod nvext;
mod piece;
mod request;
mod responses;
mod seal;
mod tool;

pub use billing::without_billing_line;
pub use cache::CacheControl;
pub use canonical::{canonical_chain, conversation_chain, message_link};
pub use chat::decode_chat;
pub use chat_form::chat_form;
pub use completion::decode_completion;
pub use diagnosis::CacheMiss;
pub use encode::{Encoder, OnFailure, ResponseHead};
pub use error::{ApiError, ErrorKind, Overflow};
pub use event::{Answer, Choice, Delta, Event, Finish, Part, ScoredToken, TokenScore, Usage};
pub use limits::{CHOICES_MAX, DEPTH_MAX, MESSAGES_MAX, STOPS_MAX, TOOLS_MAX, TOP_LOGPROBS_MAX};
pub use message::{Arguments, Block, Call, Content, Message, Role, ToolResult};
pub use messages::{count_tokens_body, decode_count_tokens, decode_messages};
pub use models::{ModelCard, model_body, models_body};
pub use notice::Notice;
pub use nvext::{
    Effect, HINT_FIELDS, HintOutcome, HintResult, Hints, PRIORITY_S_MAX, Pins, SessionFields,
    hints_header, hints_value,
};
pub use piece::Piece;
pub use request::{
    Chat, Diagnostics, Endpoint, History, OutputFormat, Prompt, Reasoning, Request,
    SamplingOverrides, ToolChoice,
};
pub use responses::{
    SocketCommand, answer_message, continue_history, decode_compaction, decode_responses,
    decode_socket_message, history_of, input_tokens_body,
};
pub use seal::Sealer;
pub use tool::{Tool, ToolKind};

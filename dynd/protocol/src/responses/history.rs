//! Answers that later requests build on: what to keep of one, and how it comes before new items.

use serde_json::Value;

use crate::{Arguments, Block, Call, Choice, Content, Message, Part, Prompt, Request, Role};

/// The messages of `request` as the history of its answer. Its instructions are not part of it: the
/// next request has its own.
pub fn history_of(request: &Request) -> Vec<Message> {
    match &request.prompt {
        Prompt::Chat(chat) => chat.messages[instructions(request)..].to_vec(),
        _ => Vec::new(),
    }
}

/// Puts `history` before the new messages of `request`. Answers in which nothing was said, as those
/// of a mere prefill, are left out.
pub fn continue_history(request: &mut Request, history: &[Message]) {
    let at = instructions(request);
    let Prompt::Chat(chat) = &mut request.prompt else { return };
    let said = |message: &&Message| message.role != Role::Assistant || !message.blocks.is_empty();
    chat.messages.splice(at..at, history.iter().filter(said).cloned());
}

/// An answer as a message of the history.
pub fn answer_message(choice: &Choice) -> Message {
    let block = |part: &Part| match part {
        Part::Text(text) if text.is_empty() => None,
        Part::Text(text) => Some(Block::text(text.as_str())),
        Part::Thinking(text) if text.is_empty() => None,
        Part::Thinking(text) => {
            Some(Block::new(Content::Thinking { text: text.clone(), signature: None }))
        }
        Part::Call { id, name, arguments } => Some(Block::new(Content::Call(Call {
            id: id.clone(),
            name: name.clone(),
            arguments: Arguments::Text(arguments.clone()),
        }))),
    };
    Message::new(Role::Assistant, choice.parts.iter().filter_map(block).collect())
}

/// How many of the first messages are `instructions`.
fn instructions(request: &Request) -> usize {
    let sent = request.repeated.get("instructions").and_then(Value::as_str);
    usize::from(sent.is_some_and(|text| !text.is_empty()))
}

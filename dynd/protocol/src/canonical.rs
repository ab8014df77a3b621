//! The canonical form of a conversation: one hash per message, each over all before it.
//!
//! What does not change what the model reads does not change a hash: how content is wrapped, cache
//! marks, ids, reasoning that some clients send back and others do not. Tools are left out, since a
//! session may gain some on its way.

use sha2::{Digest, Sha256};

use crate::{Block, Content, Message, Prompt, Request, Role};

/// The chain of a chat's messages; empty for a completion, whose lineage is its blocks.
///
/// Two conversations share their first `k` ids if and only if their first `k` messages are equal in
/// canonical form.
pub fn canonical_chain(request: &Request) -> Vec<[u8; 16]> {
    match &request.prompt {
        Prompt::Chat(chat) => conversation_chain(&chat.messages),
        Prompt::Text(_) | Prompt::Tokens(_) => Vec::new(),
    }
}

/// As [`canonical_chain`], of messages that are no request's.
pub fn conversation_chain(messages: &[Message]) -> Vec<[u8; 16]> {
    let mut parent = [0u8; 16];
    messages
        .iter()
        .map(|message| {
            parent = message_link(parent, message);
            parent
        })
        .collect()
}

/// The link of a message after those that end in `parent`; the first one's is all zeros.
pub fn message_link(parent: [u8; 16], message: &Message) -> [u8; 16] {
    let mut hash = Sha256::new();
    hash.update(b"dynd-message-v2");
    hash.update(parent);
    let role = match message.role {
        Role::Developer => Role::System,
        role => role,
    };
    part(&mut hash, b'r', role.as_str().as_bytes());
    blocks(&mut hash, &message.blocks);
    let mut id = [0; 16];
    id.copy_from_slice(&hash.finalize()[..16]);
    id
}

fn blocks(hash: &mut Sha256, blocks: &[Block]) {
    for block in blocks {
        match &block.content {
            Content::Text(text) if text.is_empty() => {}
            Content::Text(text) => part(hash, b't', text.as_bytes()),
            Content::Thinking { .. } => {}
            Content::Call(call) => {
                part(hash, b'n', call.name.as_bytes());
                let arguments = call.arguments.to_object();
                let arguments = arguments.unwrap_or_else(|| call.arguments.to_value());
                part(hash, b'a', arguments.to_string().as_bytes());
            }
            Content::Result(result) => {
                part(hash, b'e', &[u8::from(result.is_error)]);
                self::blocks(hash, &result.blocks);
            }
            Content::ToolReference(name) => part(hash, b'f', name.as_bytes()),
            Content::Unsupported { digest, .. } => part(hash, b'o', digest),
        }
    }
}

/// Framed, so that no two lists of parts hash alike.
fn part(hash: &mut Sha256, kind: u8, bytes: &[u8]) {
    hash.update([kind]);
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

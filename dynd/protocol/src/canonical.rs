//! The canonical form of a conversation: one hash per message, each over all before it.
//!
//! What does not change what the model reads does not change a hash: how content is wrapped, cache
//! marks, ids, reasoning that some clients send back and others do not. Tools are left out, since a
//! session may gain some on its way.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{Message, Prompt, Request};

/// The chain of a chat's messages; empty for a completion, whose lineage is its blocks.
///
/// Two conversations share their first `k` ids if and only if their first `k` messages are equal in
/// canonical form.
pub fn canonical_chain(request: &Request) -> Vec<[u8; 16]> {
    let Prompt::Chat(chat) = &request.prompt else { return Vec::new() };
    let mut parent = [0u8; 16];
    chat.messages
        .iter()
        .map(|message| {
            parent = link(parent, message);
            parent
        })
        .collect()
}

fn link(parent: [u8; 16], message: &Message) -> [u8; 16] {
    let mut hash = Sha256::new();
    hash.update(b"dynd-message-v1");
    hash.update(parent);
    part(&mut hash, b'r', message.role.as_bytes());
    part(&mut hash, b't', message.text.as_bytes());
    let parts = message.raw.get("content").and_then(Value::as_array);
    for other in parts.into_iter().flatten().filter(|part| !is_text(part)) {
        part(&mut hash, b'o', bare(other).to_string().as_bytes());
    }
    for (name, arguments) in message.tool_calls() {
        part(&mut hash, b'n', name.as_bytes());
        part(&mut hash, b'a', arguments.to_string().as_bytes());
    }
    let mut id = [0; 16];
    id.copy_from_slice(&hash.finalize()[..16]);
    id
}

/// Framed, so that no two lists of parts hash alike.
fn part(hash: &mut Sha256, kind: u8, bytes: &[u8]) {
    hash.update([kind]);
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

fn is_text(part: &Value) -> bool {
    part.is_string() || part.get("text").is_some_and(Value::is_string)
}

/// A part without what clients add to it for the cache or as a handle.
fn bare(part: &Value) -> Value {
    let mut part = part.clone();
    if let Value::Object(map) = &mut part {
        map.shift_remove("cache_control");
        map.shift_remove("id");
    }
    part
}

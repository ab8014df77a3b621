//! Conversations the server keeps for clients that send only what is new: by the id of an earlier
//! answer, as long as its session still owns that conversation.
//!
//! One conversation per session, within a byte budget, least recently used first out. Knows nothing
//! of tokens or of the cache: what is kept here is what a client would otherwise send again.

use std::collections::BTreeMap;

use dynd_protocol::{
    ApiError, Block, Content, Endpoint, Message, Prompt, Request, Tool, continue_history,
    conversation_chain,
};
use dynd_session::{Identity, SessionNumber};

/// Answers of one session that can be continued; the oldest are forgotten.
const ANSWERS_MAX: usize = 1024;
/// Rough cost of a message or a tool beside its text.
const ITEM_BYTES: usize = 256;

#[derive(Debug)]
pub(crate) struct Histories {
    bytes_max: usize,
    bytes: usize,
    clock: u64,
    conversations: BTreeMap<SessionNumber, Conversation>,
    by_use: BTreeMap<u64, SessionNumber>,
    /// Which session owns an answer.
    owners: BTreeMap<String, SessionNumber>,
}

#[derive(Debug)]
struct Conversation {
    identity: Option<Identity>,
    messages: Vec<Message>,
    tools: Vec<Tool>,
    answers: Vec<KeptAnswer>,
    bytes: usize,
    used: u64,
}

/// An answer, as the place in its conversation where it ends.
#[derive(Debug)]
struct KeptAnswer {
    id: String,
    messages: usize,
    link: [u8; 16],
}

/// What an answer followed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    pub(crate) identity: Option<Identity>,
    /// Up to and with the answer.
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: Vec<Tool>,
}

impl Histories {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Histories {
            bytes_max,
            bytes: 0,
            clock: 0,
            conversations: BTreeMap::new(),
            by_use: BTreeMap::new(),
            owners: BTreeMap::new(),
        }
    }

    /// Keeps the conversation of a session that `messages`, the answer `id` among them as the last,
    /// are the whole of. Earlier answers stay known where the conversation only grew.
    pub(crate) fn keep(
        &mut self,
        session: SessionNumber,
        identity: Option<Identity>,
        id: &str,
        messages: Vec<Message>,
        tools: Vec<Tool>,
    ) {
        let chain = conversation_chain(&messages);
        let Some(link) = chain.last().copied() else { return };
        let mut answers = self.remove(session).map(|old| old.answers).unwrap_or_default();
        answers.retain(|answer| {
            answer.messages <= chain.len() && chain[answer.messages - 1] == answer.link
        });
        answers.push(KeptAnswer { id: id.to_owned(), messages: messages.len(), link });
        let surplus = answers.len().saturating_sub(ANSWERS_MAX);
        answers.drain(..surplus);
        let bytes = messages.iter().map(message_bytes).sum::<usize>()
            + tools.iter().map(tool_bytes).sum::<usize>()
            + answers.len() * ITEM_BYTES;
        if bytes > self.bytes_max {
            return;
        }
        while self.bytes + bytes > self.bytes_max {
            let Some((_, oldest)) = self.by_use.first_key_value() else { break };
            self.remove(*oldest);
        }
        self.clock += 1;
        self.bytes += bytes;
        self.by_use.insert(self.clock, session);
        self.owners.extend(answers.iter().map(|answer| (answer.id.clone(), session)));
        let used = self.clock;
        let kept = Conversation { identity, messages, tools, answers, bytes, used };
        self.conversations.insert(session, kept);
    }

    /// The conversation up to the answer `id`, if its session still owns it.
    pub(crate) fn find(&mut self, id: &str) -> Option<Found> {
        let session = *self.owners.get(id)?;
        self.clock += 1;
        let kept = self.conversations.get_mut(&session)?;
        self.by_use.remove(&kept.used);
        kept.used = self.clock;
        self.by_use.insert(self.clock, session);
        let answer = kept.answers.iter().find(|answer| answer.id == id)?;
        Some(Found {
            identity: kept.identity.clone(),
            messages: kept.messages[..answer.messages].to_vec(),
            tools: kept.tools.clone(),
        })
    }

    /// The answer `id` can no longer be continued; whether it could. What is built upon it is kept.
    pub(crate) fn forget(&mut self, id: &str) -> bool {
        let Some(session) = self.owners.remove(id) else { return false };
        let Some(kept) = self.conversations.get_mut(&session) else { return false };
        kept.answers.retain(|answer| answer.id != id);
        if kept.answers.is_empty() {
            self.remove(session);
        }
        true
    }

    fn remove(&mut self, session: SessionNumber) -> Option<Conversation> {
        let kept = self.conversations.remove(&session)?;
        self.bytes -= kept.bytes;
        self.by_use.remove(&kept.used);
        for answer in &kept.answers {
            self.owners.remove(&answer.id);
        }
        Some(kept)
    }
}

/// Puts what a request continues before its messages. Whatever of it the client left out because it
/// has not changed, the tools of a thread, is put back too.
pub(crate) fn expand(
    request: &mut Request,
    histories: &mut Histories,
) -> Result<Option<Identity>, ApiError> {
    let Some(previous) = request.history.previous.as_deref() else { return Ok(None) };
    let endpoint = request.endpoint;
    let found = histories.find(bare_id(previous)).ok_or_else(|| match endpoint {
        Endpoint::Messages => ApiError::thread_not_found(),
        _ => ApiError::previous_response_not_found(),
    })?;
    continue_history(request, &found.messages);
    if let Prompt::Chat(chat) = &mut request.prompt
        && chat.tools.is_empty()
        && endpoint == Endpoint::Messages
    {
        chat.tools = found.tools;
    }
    Ok(found.identity)
}

/// `resp_…` and `msg_…` name the same answers in two protocols.
pub(crate) fn bare_id(id: &str) -> &str {
    ["resp_", "msg_"].iter().find_map(|prefix| id.strip_prefix(prefix)).unwrap_or(id)
}

fn message_bytes(message: &Message) -> usize {
    ITEM_BYTES + message.blocks.iter().map(block_bytes).sum::<usize>()
}

fn block_bytes(block: &Block) -> usize {
    size_of::<Block>()
        + match &block.content {
            Content::Text(text) | Content::Thinking { text, .. } => text.len(),
            Content::Call(call) => {
                call.id.len() + call.name.len() + call.arguments.to_value().to_string().len()
            }
            Content::Result(result) => result.blocks.iter().map(block_bytes).sum(),
            Content::ToolReference(name) => name.len(),
            Content::Unsupported { kind, .. } => kind.len(),
        }
}

fn tool_bytes(tool: &Tool) -> usize {
    ITEM_BYTES + tool.definition.to_string().len()
}

#[cfg(test)]
mod tests {
    use dynd_protocol::Role;

    use super::*;

    fn talk(texts: &[&str]) -> Vec<Message> {
        let role = |at: usize| if at.is_multiple_of(2) { Role::User } else { Role::Assistant };
        (0..).zip(texts).map(|(at, text)| Message::text_of(role(at), *text)).collect()
    }

    fn keep(histories: &mut Histories, session: u64, id: &str, texts: &[&str]) {
        histories.keep(SessionNumber(session), None, id, talk(texts), Vec::new());
    }

    #[test]
    fn an_answer_is_found_as_long_as_its_conversation_only_grows() {
        let mut histories = Histories::new(1 << 20);
        keep(&mut histories, 1, "a", &["q1", "a1"]);
        keep(&mut histories, 1, "b", &["q1", "a1", "q2", "a2"]);
        assert_eq!(histories.find("a").map(|found| found.messages), Some(talk(&["q1", "a1"])));
        assert_eq!(histories.find("b").map(|found| found.messages.len()), Some(4));
        keep(&mut histories, 1, "c", &["q1", "a1", "other", "a3"]);
        assert!(histories.find("b").is_none(), "the session has gone another way");
        assert!(histories.find("a").is_some() && histories.find("c").is_some());
        assert!(histories.find("nobody").is_none());
        assert!(histories.forget("a") && !histories.forget("a"));
        assert!(histories.find("a").is_none() && histories.find("c").is_some());
        assert!(histories.forget("c"));
        assert_eq!((histories.bytes, histories.conversations.len()), (0, 0), "nothing is left");
    }

    #[test]
    fn the_budget_holds_and_the_least_recently_used_goes() {
        let long = "x".repeat(1000);
        let one = {
            let mut probe = Histories::new(1 << 20);
            keep(&mut probe, 0, "p", &["q", &long]);
            probe.bytes
        };
        let mut histories = Histories::new(3 * one);
        for session in 0..3 {
            keep(&mut histories, session, &format!("s{session}"), &["q", &long]);
        }
        assert!(histories.find("s0").is_some());
        keep(&mut histories, 3, "s3", &["q", &long]);
        assert!(histories.find("s1").is_none(), "the least recently used");
        assert!(histories.find("s0").is_some() && histories.find("s3").is_some());
        for turn in 0..100 {
            keep(&mut histories, turn % 7, &format!("t{turn}"), &["q", &long]);
            assert!(histories.bytes <= histories.bytes_max);
            assert_eq!(histories.conversations.len(), histories.by_use.len());
        }
        keep(&mut histories, 1, "huge", &["q", &"x".repeat(10_000)]);
        assert!(histories.find("huge").is_none(), "it would push out everything");
    }
}

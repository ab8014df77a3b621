//! Conversations the server keeps for clients that send only what is new: by the id of an earlier
//! answer, as long as its session still owns that conversation.
//!
//! One conversation per session, and one of its side calls, within a byte budget, least recently used first out. Knows nothing
//! of tokens or of the cache: what is kept here is what a client would otherwise send again.

use std::collections::BTreeMap;
use std::sync::Arc;

use dynd_protocol::{
    ApiError, Block, Content, Endpoint, Message, Prompt, Request, Tool, continue_history,
    conversation_chain, history_of, message_link,
};
use dynd_session::{Identity, SessionNumber, Tenant};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::salt::tenant_of;

/// Answers of one conversation that can be continued; the oldest are forgotten.
const ANSWERS_MAX: usize = 1024;
/// Rough cost of a message or a tool beside its text.
const ITEM_BYTES: usize = 256;

/// Which conversation of its session: what a side call says does not take the place of the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TalkKey {
    pub(crate) session: SessionNumber,
    pub(crate) is_side: bool,
}

/// What was said so far, with what there is to know of it by reading it whole.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    messages: Vec<Message>,
    tools: Vec<Tool>,
    /// One link per message.
    chain: Vec<[u8; 16]>,
    bytes: usize,
}

impl Talk {
    /// What is kept of a request that may be continued by the id of its answer: nothing is where
    /// it may not. Reads the whole conversation.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        let Prompt::Chat(chat) = &request.prompt else { return None };
        // A summary is not a turn: the next request brings it as an item.
        if !request.history.store || request.compaction || request.n != 1 {
            return None;
        }
        let (messages, tools) = (history_of(request), chat.tools.clone());
        let chain = conversation_chain(&messages);
        let bytes = messages.iter().map(message_bytes).sum::<usize>()
            + tools.iter().map(tool_bytes).sum::<usize>();
        Some(Talk { messages, tools, chain, bytes })
    }

    pub(crate) fn push(&mut self, message: Message) {
        let parent = self.chain.last().copied().unwrap_or_default();
        self.chain.push(message_link(parent, &message));
        self.bytes += message_bytes(&message);
        self.messages.push(message);
    }
}

#[derive(Debug)]
pub(crate) struct Histories {
    bytes_max: usize,
    bytes: usize,
    clock: u64,
    conversations: BTreeMap<TalkKey, Conversation>,
    by_use: BTreeMap<u64, TalkKey>,
    /// Which conversation owns an answer.
    owners: BTreeMap<String, TalkKey>,
}

/// Whose a conversation is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Speaker {
    pub(crate) tenant: Tenant,
    pub(crate) identity: Option<Identity>,
}

#[derive(Debug)]
pub(crate) struct Conversation {
    speaker: Speaker,
    talk: Arc<Talk>,
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
#[derive(Debug, Clone)]
pub(crate) struct Found {
    identity: Option<Identity>,
    talk: Arc<Talk>,
    /// How many of its messages, up to and with the answer.
    count: usize,
}

impl Found {
    fn messages(&self) -> &[Message] {
        &self.talk.messages[..self.count]
    }
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

    /// Keeps a conversation, the answer `id` as its last message. Earlier answers stay known where
    /// the conversation only grew. Gives back what is no longer kept, to be dropped when this is
    /// unlocked.
    #[must_use]
    pub(crate) fn keep(
        &mut self,
        key: TalkKey,
        speaker: Speaker,
        id: &str,
        talk: Arc<Talk>,
    ) -> Vec<Conversation> {
        let Some(link) = talk.chain.last().copied() else { return Vec::new() };
        let mut gone: Vec<Conversation> = self.detach(key).into_iter().collect();
        let mut answers = gone.first_mut().map(|old| std::mem::take(&mut old.answers));
        let answers = answers.get_or_insert_default();
        let (chain, owners) = (&talk.chain, &mut self.owners);
        answers.retain(|answer| {
            let holds = chain.get(answer.messages - 1) == Some(&answer.link);
            if !holds {
                owners.remove(&answer.id);
            }
            holds
        });
        answers.push(KeptAnswer { id: id.to_owned(), messages: chain.len(), link });
        let bytes = talk.bytes + answers.len().min(ANSWERS_MAX) * ITEM_BYTES;
        let surplus = match bytes > self.bytes_max {
            true => answers.len(),
            false => answers.len().saturating_sub(ANSWERS_MAX),
        };
        for answer in answers.drain(..surplus) {
            owners.remove(&answer.id);
        }
        if answers.is_empty() {
            return gone;
        }
        while self.bytes + bytes > self.bytes_max {
            let Some((_, oldest)) = self.by_use.first_key_value() else { break };
            gone.extend(self.remove(*oldest));
        }
        self.clock += 1;
        self.bytes += bytes;
        self.by_use.insert(self.clock, key);
        self.owners.insert(id.to_owned(), key);
        let (answers, used) = (std::mem::take(answers), self.clock);
        self.conversations.insert(key, Conversation { speaker, talk, answers, bytes, used });
        gone
    }

    /// The conversation of `tenant` up to the answer `id`, if that is still a part of it.
    pub(crate) fn find(&mut self, tenant: &Tenant, id: &str) -> Option<Found> {
        let key = *self.owners.get(id)?;
        let kept = self.conversations.get_mut(&key)?;
        if kept.speaker.tenant != *tenant {
            return None;
        }
        self.clock += 1;
        self.by_use.remove(&kept.used);
        kept.used = self.clock;
        self.by_use.insert(self.clock, key);
        let answer = kept.answers.iter().find(|answer| answer.id == id)?;
        Some(Found {
            identity: kept.speaker.identity.clone(),
            talk: Arc::clone(&kept.talk),
            count: answer.messages,
        })
    }

    /// The answer `id` can no longer be continued; whether it could. What is built upon it is kept.
    pub(crate) fn forget(&mut self, id: &str) -> bool {
        let Some(key) = self.owners.remove(id) else { return false };
        let Some(kept) = self.conversations.get_mut(&key) else { return false };
        kept.answers.retain(|answer| answer.id != id);
        if kept.answers.is_empty() {
            self.remove(key);
        }
        true
    }

    fn remove(&mut self, key: TalkKey) -> Option<Conversation> {
        let kept = self.detach(key)?;
        for answer in &kept.answers {
            self.owners.remove(&answer.id);
        }
        Some(kept)
    }

    /// Takes a conversation out; its answers are still said to be of it.
    fn detach(&mut self, key: TalkKey) -> Option<Conversation> {
        let kept = self.conversations.remove(&key)?;
        self.bytes -= kept.bytes;
        self.by_use.remove(&kept.used);
        Some(kept)
    }
}

/// Puts what a request continues before its messages. Whatever of it the client left out because it
/// has not changed, the tools of a thread, is put back too. Copies the conversation.
pub(crate) fn expand(
    request: &mut Request,
    histories: &Mutex<Histories>,
) -> Result<Option<Identity>, ApiError> {
    let Some(previous) = request.history.previous.as_deref() else { return Ok(None) };
    let endpoint = request.endpoint;
    let tenant = tenant_of(request.cache_salt.as_deref());
    let found = histories.lock().find(&tenant, bare_id(previous));
    let found = found.ok_or_else(|| match endpoint {
        Endpoint::Messages => ApiError::thread_not_found(),
        _ => ApiError::previous_response_not_found(),
    })?;
    continue_history(request, found.messages());
    if let Prompt::Chat(chat) = &mut request.prompt
        && chat.tools.is_empty()
        && endpoint == Endpoint::Messages
    {
        chat.tools.clone_from(&found.talk.tools);
    }
    Ok(found.identity)
}

/// `resp_…` and `msg_…` name the same answers in two protocols.
pub(crate) fn bare_id(id: &str) -> &str {
    ["resp_", "msg_"].iter().find_map(|prefix| id.strip_prefix(prefix)).unwrap_or(id)
}

fn message_bytes(message: &Message) -> usize {
    let name = message.name.as_ref().map_or(0, String::len);
    let extra = map_bytes(&message.extra);
    ITEM_BYTES + name + extra + message.blocks.iter().map(block_bytes).sum::<usize>()
}

fn block_bytes(block: &Block) -> usize {
    size_of::<Block>()
        + match &block.content {
            Content::Text(text) => text.len(),
            Content::Thinking { text, signature } => {
                text.len() + signature.as_ref().map_or(0, String::len)
            }
            Content::Call(call) => {
                call.id.len() + call.name.len() + call.arguments.to_value().to_string().len()
            }
            Content::Result(result) => {
                result.call_id.len() + result.blocks.iter().map(block_bytes).sum::<usize>()
            }
            Content::ToolReference(name) => name.len(),
            Content::Unsupported { kind, .. } => kind.len(),
        }
}

fn map_bytes(map: &Map<String, Value>) -> usize {
    map.iter().map(|(name, value)| ITEM_BYTES + name.len() + value.to_string().len()).sum()
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

    fn key(session: u64) -> TalkKey {
        TalkKey { session: SessionNumber(session), is_side: false }
    }

    fn keep_as(histories: &mut Histories, key: TalkKey, id: &str, messages: Vec<Message>) {
        let mut all = Talk::default();
        messages.into_iter().for_each(|message| all.push(message));
        drop(histories.keep(key, Speaker::default(), id, Arc::new(all)));
    }

    fn keep(histories: &mut Histories, session: u64, id: &str, texts: &[&str]) {
        keep_as(histories, key(session), id, talk(texts));
    }

    fn find(histories: &mut Histories, id: &str) -> Option<Vec<Message>> {
        histories.find(&Tenant::default(), id).map(|found| found.messages().to_vec())
    }

    #[test]
    fn an_answer_is_found_as_long_as_its_conversation_only_grows() {
        let mut histories = Histories::new(1 << 20);
        keep(&mut histories, 1, "a", &["q1", "a1"]);
        keep(&mut histories, 1, "b", &["q1", "a1", "q2", "a2"]);
        assert_eq!(find(&mut histories, "a"), Some(talk(&["q1", "a1"])));
        assert_eq!(find(&mut histories, "b").map(|found| found.len()), Some(4));
        keep(&mut histories, 1, "c", &["q1", "a1", "other", "a3"]);
        assert!(find(&mut histories, "b").is_none(), "the session has gone another way");
        assert!(find(&mut histories, "a").is_some() && find(&mut histories, "c").is_some());
        assert!(find(&mut histories, "nobody").is_none());
        assert!(histories.forget("a") && !histories.forget("a"));
        assert!(find(&mut histories, "a").is_none() && find(&mut histories, "c").is_some());
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
        assert!(find(&mut histories, "s0").is_some());
        keep(&mut histories, 3, "s3", &["q", &long]);
        assert!(find(&mut histories, "s1").is_none(), "the least recently used");
        assert!(find(&mut histories, "s0").is_some() && find(&mut histories, "s3").is_some());
        for turn in 0..100 {
            keep(&mut histories, turn % 7, &format!("t{turn}"), &["q", &long]);
            assert!(histories.bytes <= histories.bytes_max);
            assert_eq!(histories.conversations.len(), histories.by_use.len());
        }
        keep(&mut histories, 1, "huge", &["q", &"x".repeat(10_000)]);
        assert!(find(&mut histories, "huge").is_none(), "it would push out everything");
    }
    #[test]
    fn a_side_call_and_another_tenant_leave_a_conversation_alone() {
        let mut histories = Histories::new(1 << 20);
        keep(&mut histories, 1, "a", &["q1", "a1"]);
        let side = TalkKey { is_side: true, ..key(1) };
        keep_as(&mut histories, side, "title", talk(&["name this", "a name"]));
        keep_as(&mut histories, side, "warm", talk(&["warm", ""]));
        assert!(find(&mut histories, "a").is_some() && find(&mut histories, "warm").is_some());
        assert!(find(&mut histories, "title").is_none(), "one side call takes another's place");
        let other = tenant_of(Some("salt"));
        assert!(histories.find(&other, "a").is_none());
    }

    #[test]
    fn everything_that_a_message_holds_counts() {
        let mut message = Message::text_of(Role::User, "x");
        let bare = message_bytes(&message);
        message.name = Some("n".repeat(1000));
        let named = message_bytes(&message);
        message.extra.insert("more".to_owned(), Value::String("e".repeat(1000)));
        assert!(named >= bare + 1000 && message_bytes(&message) >= named + 1000);
    }

    /// What is kept message by message is what would be kept of the whole.
    #[test]
    fn a_chain_grows_as_the_conversation_would_be_hashed() {
        let mut all = Talk::default();
        talk(&["q1", "a1", "q2"]).into_iter().for_each(|message| all.push(message));
        assert_eq!(all.chain, conversation_chain(&all.messages));
    }
}

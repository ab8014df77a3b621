//! Reads a request's session identity from its headers, then from keys of its body.
//!
//! Each harness has its own names (first match wins, in the order of [`identify`]). Values are
//! trimmed, empty is absent, a parent equal to the session is dropped, an id that is too long or
//! holds odd characters is ignored with a notice. Knows nothing of sessions that exist.

use serde::Deserialize;

use crate::signals::SignalHeaders;
use crate::{Family, Harness, Identity, Notice, Signals};

/// Longest session id that is accepted.
pub const ID_BYTES_MAX: usize = 256;

/// Longest `metadata.user_id` that is parsed as JSON.
const USER_ID_BYTES_MAX: usize = 4096;

/// Keys of a request body that can name a session. Absent for protocols without them.
#[derive(Debug, Clone, Copy, Default)]
pub struct BodyKeys<'a> {
    pub prompt_cache_key: Option<&'a str>,
    /// `metadata.session_id`.
    pub metadata_session_id: Option<&'a str>,
    /// `metadata.user_id`: Claude Code puts a JSON object with a `session_id` in this string.
    pub metadata_user_id: Option<&'a str>,
    pub agent: AgentKeys<'a>,
}

/// The session fields of `nvext`, of all generations. Three of them use `session_id` in two
/// meanings, so it is read by the other keys that are there.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgentKeys<'a> {
    /// `agent_context.session_id`: the run beside a `trajectory_id`, else the session.
    pub session_id: Option<&'a str>,
    pub parent_session_id: Option<&'a str>,
    pub trajectory_id: Option<&'a str>,
    pub parent_trajectory_id: Option<&'a str>,
    pub program_id: Option<&'a str>,
    pub parent_program_id: Option<&'a str>,
    pub workflow_id: Option<&'a str>,
    /// `agent_context.trajectory_final` or `session_final`.
    pub is_final: bool,
    /// `session_control.session_id`.
    pub control_session_id: Option<&'a str>,
    /// `session_control.action`: `open`, `bind` or `close`.
    pub control_action: Option<&'a str>,
    /// A session's name when nothing better is known.
    pub prefix_id: Option<&'a str>,
}

/// What [`identify`] found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identified {
    pub identity: Option<Identity>,
    /// The client its `User-Agent` names, also when no identity came.
    pub client: Option<Harness>,
    pub signals: Signals,
    pub notices: Vec<Notice>,
}

/// Finds the session a request belongs to. Header names are matched without regard to case; of a
/// header that comes twice the first counts.
pub fn identify<'a>(
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    body: &BodyKeys<'a>,
) -> Identified {
    let mut request = Request::read(headers);
    let client = request.client;
    let found = dynamo(&mut request)
        .or_else(|| claude_code(&mut request))
        .or_else(|| codex(&mut request))
        .or_else(|| open_code(&mut request))
        .or_else(|| generic_headers(&mut request))
        .or_else(|| agent_keys(&mut request, &body.agent))
        .or_else(|| body_keys(&mut request, body))
        .or_else(|| prefix_id(&mut request, &body.agent))
        .or_else(|| trace_context(&mut request));
    let is_final = request.is_final;
    let signals = request.signals();
    let identity = found.map(|found| {
        let parent = found.parent.filter(|parent| *parent != found.session);
        let harness = found.harness.or(client).unwrap_or(match found.family {
            Family::Dynamo => Harness::Dynamo,
            _ => Harness::Generic,
        });
        Identity {
            family: found.family,
            harness,
            session: found.session.to_owned(),
            root: found.root.map(str::to_owned),
            parent: parent.map(str::to_owned),
            run: found.run.map(str::to_owned),
            is_final: is_final || found.is_final,
        }
    });
    Identified { identity, client, signals, notices: request.notices }
}

/// The headers this module reads; the index of each is its place in `Request::values`.
const NAMES: [&str; 26] = [
    "x-dynamo-session-id",
    "x-dynamo-parent-session-id",
    "x-claude-code-session-id",
    "x-claude-code-agent-id",
    "x-claude-code-parent-agent-id",
    "thread-id",
    "x-codex-parent-thread-id",
    "x-opencode-session-id",
    "x-opencode-parent-session-id",
    "x-opencode-session",
    "x-session-id",
    "x-parent-session-id",
    "session_id",
    "session-id",
    "x-session-affinity",
    "parent_session_id",
    "traceparent",
    "user-agent",
    "x-dynamo-session-final",
    "x-claude-code-request-class",
    "x-claude-1p-request-class",
    "x-claude-code-compaction",
    "x-claude-code-context-compacted",
    "x-claude-code-prev-tool-durations",
    "x-codex-turn-metadata",
    "x-codex-window-id",
];

struct Request<'a> {
    values: [Option<&'a str>; NAMES.len()],
    client: Option<Harness>,
    is_final: bool,
    notices: Vec<Notice>,
}

struct Found<'a> {
    family: Family,
    /// None: as the `User-Agent` says.
    harness: Option<Harness>,
    session: &'a str,
    root: Option<&'a str>,
    parent: Option<&'a str>,
    run: Option<&'a str>,
    is_final: bool,
}

impl<'a> Found<'a> {
    fn new(family: Family, session: &'a str) -> Self {
        Found {
            family,
            harness: None,
            session,
            root: None,
            parent: None,
            run: None,
            is_final: false,
        }
    }
}

impl<'a> Request<'a> {
    fn read(headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut values = [None; NAMES.len()];
        for (name, value) in headers {
            let Some(at) = NAMES.iter().position(|known| known.eq_ignore_ascii_case(name)) else {
                continue;
            };
            let value = value.trim();
            if values[at].is_none() && !value.is_empty() {
                values[at] = Some(value);
            }
        }
        let mut request = Request { values, client: None, is_final: false, notices: Vec::new() };
        request.client = request.raw("user-agent").and_then(Harness::from_user_agent);
        request.is_final = request.raw("x-dynamo-session-final").is_some_and(is_true);
        request
    }

    fn raw(&self, name: &'static str) -> Option<&'a str> {
        NAMES.iter().position(|known| *known == name).and_then(|at| self.values[at])
    }

    fn signals(&self) -> Signals {
        Signals::read(&SignalHeaders {
            request_class: self.raw("x-claude-code-request-class"),
            first_party_class: self.raw("x-claude-1p-request-class"),
            compaction: self.raw("x-claude-code-compaction"),
            context_compacted: self.raw("x-claude-code-context-compacted"),
            tool_durations: self.raw("x-claude-code-prev-tool-durations"),
            turn_metadata: self.raw("x-codex-turn-metadata"),
            window_id: self.raw("x-codex-window-id"),
        })
    }

    /// The value of header `name` when it can be an id; notes one that cannot.
    fn id(&mut self, name: &'static str) -> Option<&'a str> {
        let value = self.raw(name)?;
        self.checked(name, value)
    }

    fn first_id(&mut self, names: &[&'static str]) -> Option<&'a str> {
        names.iter().find_map(|name| self.id(name))
    }

    fn checked(&mut self, source_name: &'static str, value: &'a str) -> Option<&'a str> {
        let value = value.trim();
        if value.is_empty() {
            return None;
        }
        if value.len() <= ID_BYTES_MAX && value.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Some(value);
        }
        let notice = Notice::OddId { source_name };
        if !self.notices.contains(&notice) {
            self.notices.push(notice);
        }
        None
    }
}

fn is_true(value: &str) -> bool {
    ["1", "true", "yes", "on"].iter().any(|word| word.eq_ignore_ascii_case(value))
}

fn dynamo<'a>(request: &mut Request<'a>) -> Option<Found<'a>> {
    let session = request.id("x-dynamo-session-id")?;
    let parent = request.id("x-dynamo-parent-session-id");
    Some(Found { parent, ..Found::new(Family::Dynamo, session) })
}

/// Sub-agents keep the session id of the root and add their own agent id; a sub-agent of the main
/// loop has no parent agent.
fn claude_code<'a>(request: &mut Request<'a>) -> Option<Found<'a>> {
    let root = request.id("x-claude-code-session-id")?;
    let agent = request.id("x-claude-code-agent-id");
    let parent = match agent {
        Some(_) => request.id("x-claude-code-parent-agent-id").or(Some(root)),
        None => None,
    };
    Some(Found {
        harness: Some(Harness::ClaudeCode),
        root: Some(root),
        parent,
        ..Found::new(Family::ClaudeCode, agent.unwrap_or(root))
    })
}

/// `session-id` names the whole tree, `thread-id` one agent of it. Older releases send
/// `session-id` alone; so does a client that says it is another one, which is left to the generic
/// names.
fn codex<'a>(request: &mut Request<'a>) -> Option<Found<'a>> {
    let thread = request.id("thread-id");
    let has_other_name = ["x-session-affinity", "x-session-id", "x-opencode-session-id"]
        .iter()
        .any(|name| request.raw(name).is_some());
    let is_other = request.client.map_or(has_other_name, |client| client != Harness::Codex);
    if thread.is_none() && is_other {
        return None;
    }
    let root = request.id("session-id");
    Some(Found {
        harness: Some(Harness::Codex),
        root,
        parent: request.id("x-codex-parent-thread-id"),
        ..Found::new(Family::Codex, thread.or(root)?)
    })
}

/// `x-session-id` may carry an affinity key that several sessions share; `x-opencode-session-id`
/// is the true id. Without any sign of OpenCode, `x-session-id` is left to the generic names.
fn open_code<'a>(request: &mut Request<'a>) -> Option<Found<'a>> {
    let has_own_name =
        ["x-opencode-session-id", "x-opencode-session", "x-opencode-parent-session-id"]
            .iter()
            .any(|name| request.raw(name).is_some());
    let has_own_id = request.raw("x-session-id").is_some_and(|id| id.starts_with("ses_"));
    if !has_own_name && !has_own_id && request.client != Some(Harness::OpenCode) {
        return None;
    }
    let session =
        request.first_id(&["x-opencode-session-id", "x-session-id", "x-opencode-session"])?;
    Some(Found {
        harness: Some(Harness::OpenCode),
        parent: request.first_id(&["x-opencode-parent-session-id", "x-parent-session-id"]),
        ..Found::new(Family::OpenCode, session)
    })
}

fn generic_headers<'a>(request: &mut Request<'a>) -> Option<Found<'a>> {
    let session =
        request.first_id(&["x-session-id", "session_id", "session-id", "x-session-affinity"])?;
    Some(generic(request, session))
}

/// The same names as Dynamo's headers give, so that both forms mean one session. An early
/// generation says `program_id`, the next `trajectory_id` with `session_id` for the whole run, the
/// newest `session_id` alone.
fn agent_keys<'a>(request: &mut Request<'a>, keys: &AgentKeys<'a>) -> Option<Found<'a>> {
    let mut id = |name, value: Option<&'a str>| request.checked(name, value?);
    let chains = [
        ("nvext trajectory_id", keys.trajectory_id, keys.parent_trajectory_id, keys.session_id),
        ("nvext program_id", keys.program_id, keys.parent_program_id, keys.workflow_id),
        ("nvext session_id", keys.session_id, keys.parent_session_id, None),
    ];
    for (name, session, parent, run) in chains {
        if let Some(session) = id(name, session) {
            return Some(Found {
                parent: id("nvext parent", parent),
                run: id("nvext run", run),
                is_final: keys.is_final,
                ..Found::new(Family::Dynamo, session)
            });
        }
    }
    let session = id("nvext session_control", keys.control_session_id)?;
    let is_final = keys.control_action.is_some_and(|action| action.eq_ignore_ascii_case("close"));
    Some(Found { is_final, ..Found::new(Family::Dynamo, session) })
}

fn prefix_id<'a>(request: &mut Request<'a>, keys: &AgentKeys<'a>) -> Option<Found<'a>> {
    let session = request.checked("nvext prefix_id", keys.prefix_id?)?;
    Some(Found::new(Family::Dynamo, session))
}

fn body_keys<'a>(request: &mut Request<'a>, body: &BodyKeys<'a>) -> Option<Found<'a>> {
    for (name, value) in [
        ("prompt_cache_key", body.prompt_cache_key),
        ("metadata.session_id", body.metadata_session_id),
    ] {
        if let Some(session) = value.and_then(|value| request.checked(name, value)) {
            return Some(generic(request, session));
        }
    }
    let session = session_in_user_id(body.metadata_user_id?)?;
    let session = request.checked("metadata.user_id", session)?;
    if request.client.is_none_or(|client| client == Harness::ClaudeCode) {
        // The same id as in its header: one session, whichever of the two a proxy lets through.
        return Some(Found {
            harness: Some(Harness::ClaudeCode),
            root: Some(session),
            ..Found::new(Family::ClaudeCode, session)
        });
    }
    Some(generic(request, session))
}

fn generic<'a>(request: &mut Request<'a>, session: &'a str) -> Found<'a> {
    let parent = request.first_id(&["x-parent-session-id", "parent_session_id"]);
    Found { parent, ..Found::new(Family::Generic, session) }
}

/// `{"device_id":"…","account_uuid":"","session_id":"…"}` as a string. A user id of any other
/// form names a person, not a session.
fn session_in_user_id(user_id: &str) -> Option<&str> {
    #[derive(Deserialize)]
    struct UserId<'a> {
        session_id: &'a str,
    }
    if user_id.len() > USER_ID_BYTES_MAX || !user_id.trim_start().starts_with('{') {
        return None;
    }
    serde_json::from_str::<UserId<'_>>(user_id).ok().map(|user_id| user_id.session_id)
}

/// `00-<32 hex trace id>-<16 hex span id>-<flags>`.
fn trace_context<'a>(request: &mut Request<'a>) -> Option<Found<'a>> {
    let mut parts = request.raw("traceparent")?.split('-');
    let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let is_known = is_hex(version, 2) && is_hex(trace, 32) && is_hex(span, 16);
    if !is_known || trace.bytes().all(|byte| byte == b'0') {
        return None;
    }
    Some(Found::new(Family::Trace, trace))
}

//! Prompts made of named parts, one token a byte, and a registry to send them to.

use std::sync::Arc;
use std::time::Duration;

use dynd_core::{Class, LineMarks, Time, WallMs};
use dynd_session::{
    Begun, BodyKeys, Chain, Limits, Outcome, Outline, OutlinePart, PartRole, RequestClass,
    SessionDetail, SessionRegistry, Signals, Tenant, TurnFacts, TurnFinish, TurnId, Verdict,
    VerdictFacts, identify,
};
use sha2::{Digest, Sha256};

/// Tokens of the template's own around each part.
pub(crate) const MARKUP: u32 = 4;

/// A prompt in the making.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prompt {
    parts: Vec<(PartRole, Class, Option<u32>, String)>,
    tools: Vec<String>,
    settings: u8,
    messages: u32,
    is_bare: bool,
}

impl Prompt {
    pub(crate) fn system(text: &str) -> Self {
        Prompt::default().part(PartRole::System, Class::System, text)
    }

    /// Lists the tools in a part of its own.
    pub(crate) fn tools<T: AsRef<str>>(mut self, tools: &[T]) -> Self {
        let names: Vec<&str> = tools.iter().map(AsRef::as_ref).collect();
        self.tools = names.iter().map(|name| (*name).to_owned()).collect();
        let text: String = names.iter().map(|name| format!("{name:-<100}")).collect();
        self.parts.push((PartRole::Tools, Class::Tools, None, text));
        self
    }

    pub(crate) fn settings(mut self, settings: u8) -> Self {
        self.settings = settings;
        self
    }

    /// Its chain begins with the first message after the system text.
    pub(crate) fn bare(self) -> Self {
        Prompt { is_bare: true, ..self }
    }

    /// With `new` in place of `old`, which is as long, in all texts.
    pub(crate) fn edited(mut self, old: &str, new: &str) -> Self {
        self.parts.iter_mut().for_each(|(.., text)| *text = text.replace(old, new));
        self
    }

    pub(crate) fn user(self, text: &str) -> Self {
        self.part(PartRole::User, Class::User, text)
    }

    pub(crate) fn assistant(self, text: &str) -> Self {
        self.part(PartRole::Assistant, Class::Assistant, text)
    }

    pub(crate) fn thinking_and(mut self, thinking: &str, text: &str) -> Self {
        let message = Some(self.messages);
        self.parts.push((PartRole::Assistant, Class::Thinking, message, thinking.to_owned()));
        self.assistant(text)
    }

    pub(crate) fn result(self, text: &str) -> Self {
        self.part(PartRole::Tool, Class::ToolResult, text)
    }

    fn part(mut self, role: PartRole, class: Class, text: &str) -> Self {
        self.parts.push((role, class, Some(self.messages), text.to_owned()));
        self.messages += 1;
        self
    }

    /// With the template's opening of the answer at the end.
    pub(crate) fn outline(&self) -> Outline {
        let mut first_token = 0;
        let opening = (PartRole::Template, Class::Assistant, None, "go".to_owned());
        let parts = self.parts.iter().chain([&opening]);
        let parts = parts.map(|(role, class, message, text)| {
            let tokens = text.len() as u32;
            let is_head = matches!(class, Class::System | Class::Tools);
            let part = OutlinePart {
                class: *class,
                role: *role,
                message: *message,
                hash: hash(text),
                first_token,
                tokens,
                bytes: tokens,
                marks: is_head.then(|| Arc::new(LineMarks::of(text))),
            };
            first_token += tokens + MARKUP;
            part
        });
        let parts: Vec<_> = parts.collect();
        let tool = |name: &String| hash::<8>(name);
        Outline {
            parts,
            tokens: first_token,
            tools: self.tools.iter().map(tool).collect(),
            settings: [self.settings; 16],
        }
    }

    pub(crate) fn tokens(&self) -> u32 {
        self.outline().tokens
    }

    fn chain(&self) -> Chain {
        let told = self.parts.iter().filter(|(_, class, message, _)| {
            let is_left_out = *class == Class::System && self.is_bare;
            message.is_some() && *class != Class::Thinking && !is_left_out
        });
        Chain::from_messages(&told.map(|(.., text)| hash(text)).collect::<Vec<_>>())
    }
}

fn hash<const N: usize>(text: &str) -> [u8; N] {
    let mut hash = [0; N];
    hash.copy_from_slice(&Sha256::digest(text)[..N]);
    hash
}

/// A registry whose clock moves a second per event.
pub(crate) struct Daemon {
    pub(crate) registry: SessionRegistry,
    now_s: u64,
}

impl Daemon {
    pub(crate) fn new() -> Self {
        Daemon { registry: SessionRegistry::new(Limits::default()), now_s: 0 }
    }

    pub(crate) fn tick(&mut self) -> (Time, WallMs) {
        self.now_s += 1;
        (Time(self.now_s * 1_000_000_000), WallMs(self.now_s * 1000))
    }

    pub(crate) fn begin(&mut self, session: &str, prompt: &Prompt, signals: Signals) -> TurnId {
        self.begun(session, prompt, signals).turn
    }

    pub(crate) fn begun(&mut self, session: &str, prompt: &Prompt, signals: Signals) -> Begun {
        let facts = TurnFacts { signals, ..facts(session, None, prompt) };
        let (now, wall) = self.tick();
        self.registry.begin_turn(facts, now, wall)
    }

    /// A child of `parent`.
    pub(crate) fn begin_below(&mut self, session: &str, parent: &str, prompt: &Prompt) -> TurnId {
        let (now, wall) = self.tick();
        self.registry.begin_turn(facts(session, Some(parent), prompt), now, wall).turn
    }

    pub(crate) fn end(&mut self, turn: TurnId, finish: TurnFinish) {
        let (now, wall) = self.tick();
        let outcome = Outcome {
            finish,
            prompt_tokens: 1,
            cached_tokens: Some(0),
            output_tokens: 1,
            guessed_tokens: 0,
        };
        self.registry.end_turn(turn, outcome, now, wall);
    }

    /// A whole turn, of whose prompt `cached_tokens` were cached.
    pub(crate) fn turn(&mut self, session: &str, prompt: &Prompt, cached_tokens: u32) -> Verdict {
        self.turn_with(session, prompt, Signals::default(), facts_cached(cached_tokens))
    }

    pub(crate) fn turn_with(
        &mut self,
        session: &str,
        prompt: &Prompt,
        signals: Signals,
        facts: VerdictFacts,
    ) -> Verdict {
        let turn = self.begin(session, prompt, signals);
        let verdict = self.registry.verdict(turn, &facts).unwrap();
        assert_eq!(
            verdict.cached_tokens + verdict.lost_tokens + verdict.new_tokens,
            prompt.tokens(),
            "each token has one source"
        );
        self.end(turn, TurnFinish::Stop);
        verdict
    }

    /// A turn with `old` and then one with `new`, of which nothing was cached.
    pub(crate) fn compare(&mut self, old: &Outline, new: &Outline) -> Verdict {
        for outline in [old, new] {
            let (now, wall) = self.tick();
            let facts = TurnFacts {
                prompt_tokens: outline.tokens,
                outline: Some(Arc::new(outline.clone())),
                ..facts("s", None, &Prompt::system("s").user("q"))
            };
            let turn = self.registry.begin_turn(facts, now, wall).turn;
            let verdict = self.registry.verdict(turn, &facts_cached(0)).unwrap();
            self.end(turn, TurnFinish::Stop);
            if outline == new {
                return verdict;
            }
        }
        unreachable!("the second is the new one");
    }

    pub(crate) fn detail(&self, session: &str) -> SessionDetail {
        self.registry.detail(session).unwrap()
    }
}

pub(crate) fn facts_cached(cached_tokens: u32) -> VerdictFacts {
    VerdictFacts { cached_tokens, seconds_per_token: Some(0.001), ..VerdictFacts::default() }
}

pub(crate) fn of_class(class: RequestClass) -> Signals {
    Signals { request_class: Some(class), ..Signals::default() }
}

/// What `lost_tokens` cost here.
pub(crate) fn cost(lost_tokens: u32) -> Option<Duration> {
    Some(Duration::from_millis(lost_tokens.into()))
}

fn facts(session: &str, parent: Option<&str>, prompt: &Prompt) -> TurnFacts {
    let mut headers = vec![("x-dynamo-session-id", session)];
    headers.extend(parent.map(|parent| ("x-dynamo-parent-session-id", parent)));
    TurnFacts {
        tenant: Tenant::default(),
        identity: identify(headers, &BodyKeys::default()).identity,
        client: None,
        chain: prompt.chain(),
        model: "m".into(),
        prompt_tokens: prompt.tokens(),
        signals: Signals::default(),
        outline: Some(Arc::new(prompt.outline())),
    }
}

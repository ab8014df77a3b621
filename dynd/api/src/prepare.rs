//! From a body to a prompt in tokens: everything about a request that needs no device.
//!
//! Pure functions; the caller decides on which thread they run.

use std::borrow::Cow;
use std::sync::Arc;

use dynd_core::{Constraint, TokenId, WallMs};
use dynd_protocol::{
    ApiError, Chat, Content, Endpoint, Message, Notice, OutputFormat, Prompt, Request, Sealer,
    canonical_chain, decode_chat, decode_compaction, decode_completion, decode_messages,
    decode_responses,
};
use dynd_session::{BodyKeys, Chain, Identified, identify};
use dynd_text::{
    BuiltPrompt, GrammarSpec, ReasoningFormat, Specials, TemplateError, ThinkingBudget, Transcript,
};
use http::HeaderMap;
use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::attempts::AttemptKey;
use crate::hints::{Hinted, agent_keys};
use crate::history::{self, Histories};
use crate::outline;
use crate::reading;
use crate::salt::tenant_of;
use crate::start::previous;
use crate::{Api, Serving};

/// A request that was understood, and who it is from.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) request: Request,
    pub(crate) identified: Identified,
    /// One link per message; empty for a completion.
    pub(crate) chain: Vec<[u8; 16]>,
    pub(crate) attempt: AttemptKey,
    pub(crate) hinted: Hinted,
    pub(crate) notices: Vec<Notice>,
}

pub(crate) fn decode(
    endpoint: Endpoint,
    headers: &HeaderMap,
    body: &[u8],
    sealer: &Sealer,
) -> Result<Decoded, ApiError> {
    let body_read = match says_farewell(headers) {
        true => with_prompt(endpoint, body),
        false => Cow::Borrowed(body),
    };
    let read = match endpoint {
        Endpoint::Chat => decode_chat(&body_read)?,
        Endpoint::Completion => decode_completion(&body_read)?,
        Endpoint::Messages => decode_messages(&body_read)?,
        Endpoint::Responses => decode_responses(&body_read, sealer)?,
        Endpoint::Compaction => decode_compaction(&body_read, sealer)?,
    };
    Ok(understand(read, headers, body, sealer))
}

/// What else has to be known of a request that was read from `body`.
pub(crate) fn understand(
    (mut request, mut notices): (Request, Vec<Notice>),
    headers: &HeaderMap,
    body: &[u8],
    sealer: &Sealer,
) -> Decoded {
    if let Prompt::Chat(chat) = &mut request.prompt
        && !open_thinking(&mut chat.messages, sealer)
    {
        notices.push(Notice::new("unverified_thinking"));
    }
    let hinted = Hinted::read(&mut request, pairs(headers));
    let metadata = |key: &str| request.metadata.as_ref()?.get(key)?.as_str();
    let keys = BodyKeys {
        prompt_cache_key: request.prompt_cache_key.as_deref(),
        metadata_session_id: metadata("session_id"),
        metadata_user_id: metadata("user_id"),
        agent: agent_keys(&hinted.hints.session),
    };
    let identified = identify(pairs(headers), &keys);
    notices.extend(identified.notices.iter().map(|notice| Notice::new(notice.code())));
    let session = identified.identity.as_ref().map_or("", |identity| &identity.session);
    let attempt = attempt_key(session, body);
    let chain = canonical_chain(&request);
    Decoded { request, identified, chain, attempt, hinted, notices }
}

/// Puts back the thinking that a client carries sealed, and takes away signatures, which are of no
/// further use. False when some of it was not signed here: it stays what the client says it is.
fn open_thinking(messages: &mut [Message], sealer: &Sealer) -> bool {
    let mut is_ours = true;
    for block in messages.iter_mut().flat_map(|message| &mut message.blocks) {
        let Content::Thinking { text, signature } = &mut block.content else { continue };
        let Some(signature) = signature.take() else { continue };
        if !text.is_empty() {
            is_ours &= sealer.verify(text, &signature);
            continue;
        }
        match sealer.open(&signature) {
            Some(opened) => *text = opened,
            None => is_ours = false,
        }
    }
    is_ours
}

/// Whether the headers alone say that their session sends nothing more.
pub(crate) fn says_farewell(headers: &HeaderMap) -> bool {
    let identified = identify(pairs(headers), &BodyKeys::default());
    identified.identity.is_some_and(|identity| identity.is_final)
}

pub(crate) fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
}

/// The body of a farewell, which may have no prompt or be nothing at all, with an empty prompt.
fn with_prompt(endpoint: Endpoint, body: &[u8]) -> Cow<'_, [u8]> {
    let body = if body.trim_ascii().is_empty() { b"{}" } else { body };
    let field = endpoint.prompt_field();
    match serde_json::from_slice(body) {
        Ok(Value::Object(mut fields)) if fields.get(field).is_none_or(Value::is_null) => {
            fields.insert(field.to_owned(), Value::Array(Vec::new()));
            Cow::Owned(Value::Object(fields).to_string().into_bytes())
        }
        _ => Cow::Borrowed(body),
    }
}

fn attempt_key(session: &str, body: &[u8]) -> AttemptKey {
    let digest = Sha256::new()
        .chain_update((session.len() as u64).to_le_bytes())
        .chain_update(session)
        .chain_update(body)
        .finalize();
    let mut key = [0; 16];
    key.copy_from_slice(&digest[..16]);
    key
}

impl Decoded {
    /// Puts the kept messages that the request continues before its own. Reads them all.
    pub(crate) fn continue_history(
        &mut self,
        histories: &Mutex<Histories>,
    ) -> Result<(), ApiError> {
        let kept = history::expand(&mut self.request, histories)?;
        if self.request.history.previous.is_some() {
            self.chain = canonical_chain(&self.request);
        }
        if self.identified.identity.is_none() {
            self.identified.identity = kept;
        }
        Ok(())
    }

    /// The ids that the answer to this would be given now.
    pub(crate) fn prompt_as_asked(
        &mut self,
        api: &Api,
        serving: &Serving,
        now: WallMs,
    ) -> Result<Vec<TokenId>, ApiError> {
        self.continue_history(&api.histories)?;
        let tenant = tenant_of(self.request.cache_salt.as_deref());
        let chain = Chain::from_blocks(self.chain.clone());
        let previous = previous(api, &tenant, self.identified.identity.as_ref(), &chain);
        let prompt = prompt(serving, &self.request, &mut self.hinted, previous.as_ref(), now)?;
        Ok(prompt.ids)
    }

    /// A session says good-bye and asks for nothing.
    pub(crate) fn is_farewell(&self) -> bool {
        let is_final = self.identified.identity.as_ref().is_some_and(|identity| identity.is_final);
        let is_empty = match &self.request.prompt {
            Prompt::Chat(chat) => chat.messages.is_empty(),
            Prompt::Text(text) => text.is_empty(),
            Prompt::Tokens(tokens) => tokens.is_empty(),
        };
        is_final && (is_empty || self.request.max_tokens == Some(0))
    }
}

/// A prompt as the worker is given it.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    pub(crate) ids: Vec<TokenId>,
    /// Chats only: how the prompt came about.
    pub(crate) built: Option<BuiltPrompt>,
    /// Tokens it begins with that the session's worker was given before.
    pub(crate) common_tokens: Option<u32>,
    /// Tokens up to the cache marks for five minutes and for an hour.
    pub(crate) marked_tokens: (u32, u32),
    /// What the answer is limited to.
    pub(crate) constraint: Option<Box<dyn Constraint>>,
    pub(crate) notices: Vec<Notice>,
}

impl Prepared {
    /// The end of the rendered text.
    pub(crate) fn tail(&self) -> &str {
        self.built.as_ref().map_or("", |built| &built.tail)
    }
}

/// Renders and tokenizes a prompt and checks it against the window. `previous` is what the
/// session's worker was given last.
pub(crate) fn prepare(
    serving: &Serving,
    request: &Request,
    hinted: &mut Hinted,
    previous: Option<&Arc<Transcript>>,
    now: WallMs,
) -> Result<Prepared, ApiError> {
    let prepared = prompt(serving, request, hinted, previous, now)?;
    let (window, length) = (serving.model.context_window, prepared.ids.len());
    if length >= window as usize {
        return Err(ApiError::context_overflow(window, length, request.endpoint.prompt_field()));
    }
    constrain(serving, request, prepared)
}

/// The prompt of any length, which its client may have tokenized itself.
pub(crate) fn prompt(
    serving: &Serving,
    request: &Request,
    hinted: &mut Hinted,
    previous: Option<&Arc<Transcript>>,
    now: WallMs,
) -> Result<Prepared, ApiError> {
    match hinted.token_ids(serving.worker.info().caps.vocab) {
        Some(ids) => Ok(Prepared { ids, ..Prepared::default() }),
        None => prepare_any(serving, request, previous, now),
    }
}

/// Makes what the request limits its answer to.
fn constrain(
    serving: &Serving,
    request: &Request,
    prepared: Prepared,
) -> Result<Prepared, ApiError> {
    let Prompt::Chat(chat) = &request.prompt else { return Ok(prepared) };
    let mut prepared = hold_to_grammar(serving, request, chat, prepared)?;
    if let Some(budget_tokens) = chat.reasoning.budget_tokens {
        let reasoning = serving.prompts.format().reasoning;
        let parser = reading::parser(serving, chat, prepared.tail());
        let (tokenizer, inner) = (&serving.tokenizer, prepared.constraint.take());
        prepared.constraint =
            ThinkingBudget::limit(tokenizer, reasoning, parser, budget_tokens, inner);
        // Channels are closed by no mark.
        if reasoning == ReasoningFormat::Harmony {
            prepared.notices.push(Notice::about("not_enforced", "thinking_budget"));
        }
    }
    Ok(prepared)
}

/// Compiles the grammar that the request's format and tools ask for.
fn hold_to_grammar(
    serving: &Serving,
    request: &Request,
    chat: &Chat,
    prepared: Prepared,
) -> Result<Prepared, ApiError> {
    let thinking = reading::thinking(serving, chat, prepared.tail());
    let spec = GrammarSpec::of_request(chat, &request.format, serving.prompts.format(), thinking);
    let Some(spec) = spec else { return Ok(prepared) };
    let compiled = serving.grammars.compile(&spec).map_err(|error| {
        let field = match (&request.format, &chat.tool_choice) {
            (OutputFormat::Text, _) => "tools",
            _ => "response_format",
        };
        ApiError::invalid(field, format!("The answer cannot be held to this: {error}."))
    })?;
    if !compiled.notices.is_empty() {
        tracing::debug!(notices = ?compiled.notices, "parts of a schema are not enforced");
    }
    let partly = (!compiled.notices.is_empty()).then(|| Notice::about("not_enforced", "schema"));
    let mut prepared = Prepared { constraint: Some(compiled.constraint), ..prepared };
    prepared.notices.extend(partly);
    Ok(prepared)
}

/// Renders and tokenizes a prompt of any length.
pub(crate) fn prepare_any(
    serving: &Serving,
    request: &Request,
    previous: Option<&Arc<Transcript>>,
    now: WallMs,
) -> Result<Prepared, ApiError> {
    let tokenizer = &serving.tokenizer;
    let field = request.endpoint.prompt_field();
    let prepared = match &request.prompt {
        Prompt::Chat(chat) if chat.messages.is_empty() => {
            return Err(ApiError::invalid(
                field,
                format!("'{field}' is empty; send at least one."),
            ));
        }
        Prompt::Chat(chat) => prepare_chat(serving, request, chat, previous, now)?,
        Prompt::Text(text) => {
            let bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
            let text = tokenizer.encode(text, Specials::Parse);
            Prepared { ids: bos.into_iter().chain(text).collect(), ..Prepared::default() }
        }
        Prompt::Tokens(tokens) => {
            let vocab = serving.worker.info().caps.vocab;
            if let Some(id) = tokens.iter().find(|id| **id >= vocab) {
                let message = format!("'prompt' has token id {id}; the largest is {}.", vocab - 1);
                return Err(ApiError::invalid("prompt", message));
            }
            Prepared { ids: tokens.clone(), ..Prepared::default() }
        }
    };
    if prepared.ids.is_empty() {
        return Err(ApiError::invalid(field, format!("'{field}' is empty.")));
    }
    Ok(prepared)
}

fn prepare_chat(
    serving: &Serving,
    request: &Request,
    chat: &Chat,
    previous: Option<&Arc<Transcript>>,
    now: WallMs,
) -> Result<Prepared, ApiError> {
    // The ids that another model was given or wrote are none of this one's.
    let continued = previous.filter(|previous| previous.domain == Some(serving.domain));
    let built = serving.prompts.build(chat, now, continued.map(|previous| &**previous));
    let built = built.map_err(|error| refused(request, &error))?;
    let fired = built.fired.iter().map(|rule| Notice::about("prompt_rule", rule.name()));
    Ok(Prepared {
        ids: built.ids.clone(),
        common_tokens: outline::common_tokens(previous, &built.ids),
        marked_tokens: outline::marked_tokens(request, chat, &built.spans),
        notices: fired.collect(),
        constraint: None,
        built: Some(built),
    })
}

/// What a template says about a conversation may quote it: not repeated.
fn refused(request: &Request, error: &TemplateError) -> ApiError {
    let message = match error {
        TemplateError::Refused(_) => {
            "The model's chat template refuses this conversation.".to_owned()
        }
        TemplateError::Render(_) => {
            "The model's chat template fails on this conversation.".to_owned()
        }
        other => format!("The conversation cannot be rendered: {other}."),
    };
    ApiError::invalid(request.endpoint.prompt_field(), message)
}

//! The life of one request, from what its body says to the work it starts (ARCHITECTURE, "life of a
//! request"). Knows nothing of how the request came and how its answer leaves.
//!
//! Everything that can refuse a request comes before its work begins, so that a refusal keeps its
//! status code.

use std::sync::Arc;

use dynd_core::{BlockId, Constraint, Domain, TokenId, block_chain};
use dynd_protocol::{ApiError, Encoder, Endpoint, Event, Notice, Request, ResponseHead};
use dynd_session::{
    Begun, Chain, Harness, Identified, Identity, Outline, RequestClass, Tenant, TurnFacts, TurnId,
    TurnKind, VerdictFacts,
};
use dynd_text::Transcript;
use uuid::Uuid;

use crate::attempts::{self, Attempt};
use crate::completions::in_background;
use crate::generate::{Generation, Terms, empty_answer};
use crate::hints::Hinted;
use crate::history::{Speaker, Talk, TalkKey};
use crate::job::{Jobs, Work};
use crate::keep::{Keep, KeptTalk, Over};
use crate::prepare::{Decoded, prepare};
use crate::salt::{domain_of, tenant_of};
use crate::turn::{Arrival, Turn};
use crate::{Api, Serving, outline, params, reading};

/// Seconds after which a client refused for want of room may come again.
const BUSY_RETRY_S: u32 = 2;
/// Longest answer of a completion that does not say; a chat may fill the window. Clients of the
/// legacy endpoint are written for this number.
const COMPLETION_TOKENS: u32 = 16;

/// A request whose answer has begun.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) encoder: Encoder,
    pub(crate) work: Running,
    pub(crate) stream: bool,
    pub(crate) hinted: Hinted,
}

#[derive(Debug)]
pub(crate) enum Running {
    Generation(Box<Generation>),
    /// There is nothing to compute: these are all events of the answer.
    Nothing(Vec<Event>),
}

/// Starts a request that came in at `begun`. What it got that it may not have meant goes to
/// `notices`, also when it is refused.
pub(crate) async fn start(
    api: &Arc<Api>,
    serving: &Arc<Serving>,
    mut decoded: Decoded,
    begun: Arrival,
    notices: &mut Vec<Notice>,
) -> Result<Started, ApiError> {
    notices.append(&mut decoded.notices);
    notices.extend(api.resolve(serving, &decoded.request.model)?);
    if decoded.request.history.previous.is_some() {
        let asked = Arc::clone(api);
        decoded = in_background(api, move || {
            decoded.continue_history(&asked.histories)?;
            Ok(decoded)
        })
        .await?;
    }
    let tenant = tenant_of(decoded.request.cache_salt.as_deref());
    let head = head(api, serving, &decoded.request);
    let id = head.id.clone();
    let client = decoded.identified.client.map_or("", Harness::name);
    let encoder = Encoder::new(&decoded.request, head).for_client(client);
    let stream = decoded.request.stream;

    if decoded.is_farewell() {
        if let Some(identity) = &decoded.identified.identity {
            let (now, wall) = (api.clock.now(), api.clock.wall());
            api.sessions.lock().close(&tenant, identity, now, wall);
            let last = previous(api, &tenant, Some(identity), &Chain::from_blocks(Vec::new()));
            let domain = domain_of(serving, decoded.request.cache_salt.as_deref());
            drop(last.map(|transcript| over(serving, domain, transcript)));
        }
        let events = empty_answer(serving, &decoded.request, Vec::new(), &decoded.hinted);
        let work = Running::Nothing(events);
        return Ok(Started { encoder, work, stream, hinted: decoded.hinted });
    }
    // A drain that began while the body was read does not wait for this request.
    api.ready()?;
    check_attempt(api, &decoded)?;
    let slot = api.take_slot().ok_or_else(|| {
        let message = format!(
            "{} requests are running or waiting, which is the limit (limits.requests).",
            api.settings.requests_max
        );
        ApiError::over_capacity(message, BUSY_RETRY_S)
    })?;
    api.ready()?;

    let Decoded { request, identified, chain, attempt, mut hinted, .. } = decoded;
    let mut chain = Chain::from_blocks(chain);
    let Last { transcript: previous, of_turn, outline: last } =
        last(api, &tenant, identified.identity.as_ref(), &chain);
    let (request, hinted, mut prepared, outline, talk) = {
        let (serving, wall) = (Arc::clone(serving), api.clock.wall());
        let previous = previous.clone();
        in_background(api, move || {
            let previous = previous.as_ref();
            let prepared = prepare(&serving, &request, &mut hinted, previous, wall)?;
            let built = prepared.built.as_ref();
            let model = &serving.model.id;
            let outline = built.map(|built| outline::of(built, &request, model, last.as_deref()));
            let talk = Talk::of(&request);
            Ok((request, hinted, prepared, outline, talk))
        })
        .await?
    };
    notices.append(&mut prepared.notices);
    let ids = std::mem::take(&mut prepared.ids);
    if request.max_tokens == Some(0) {
        let work = Running::Nothing(empty_answer(serving, &request, ids, &hinted));
        return Ok(Started { encoder, work, stream, hinted });
    }

    let mut work = work(serving, &request, ids, prepared.constraint.take());
    work.retire_after = retire_after(&request, &identified, &hinted, prepared.common_tokens);
    let jobs = Jobs::submit(&serving.worker, request.endpoint, &work)?;
    let prompt = work.prompt;
    let prompt_tokens = prompt.len() as u32;
    if request.endpoint == Endpoint::Completion {
        let blocks = block_chain(BlockId::ROOT, &work.domain, &prompt);
        chain = Chain::from_blocks(blocks.into_iter().map(|id| id.0).collect());
    }
    let identity = identified.identity.clone();
    let facts = TurnFacts {
        tenant: tenant.clone(),
        identity: identified.identity,
        client: identified.client,
        chain,
        model: Arc::clone(&serving.model.id),
        prompt_tokens,
        signals: identified.signals,
        outline: outline.map(Arc::new),
    };
    let Begun { turn, session, number, kind, changed_part, before, buries, notices: of_session } = {
        let mut sessions = api.sessions.lock();
        let begun = sessions.begin_turn(facts, begun.time, api.clock.wall());
        sessions.hints(begun.turn, hinted.for_session());
        sessions.note(begun.turn, notices.iter().map(|notice| notice.code));
        begun
    };
    if let Some(session) = session {
        api.submitters.lock().add(jobs.seqs(), &session);
    }
    notices.extend(of_session.iter().map(|notice| Notice::new(notice.code())));
    // What is kept may be of an earlier turn than the one whose prompt this is compared with.
    let is_of_before = before.is_some() && before == of_turn;
    let known = previous.as_ref().filter(|_| is_of_before);
    let compared = known.zip(prepared.built.as_ref()).zip(changed_part);
    let compared = compared.map(|((before, after), part)| (before, after, part));
    let judged_by = VerdictFacts {
        common_tokens: prepared.common_tokens.filter(|_| is_of_before),
        first_difference: compared
            .and_then(|(before, after, part)| outline::difference(before, after, part)),
        lines: compared
            .filter(|_| api.settings.keep_lines)
            .and_then(|(before, after, part)| outline::parted_lines(before, after, part)),
        ..VerdictFacts::default()
    };
    let choices = reading::choices(serving, &request, prepared.tail());
    // A side call does not take the place of what its session said last.
    let is_side = kind == Some(TurnKind::Side);
    let built = prepared.built.take().filter(|_| !is_side);
    let keep = number.filter(|_| request.n == 1).map(|session| {
        let (key, speaker) = (TalkKey { session, is_side }, Speaker { tenant, identity });
        let talk = talk.map(|talk| KeptTalk { key, speaker, id, talk });
        Keep::new(Arc::clone(api), Arc::clone(serving), session, turn, built, talk)
    });
    // Not before the new prompt is cached, so that what it shares with the dead one stays.
    let over = previous.filter(|_| buries).map(|transcript| over(serving, work.domain, transcript));
    let terms = Terms {
        keep,
        over,
        diagnostics: request.diagnostics.clone(),
        marked_tokens: prepared.marked_tokens,
        hinted: hinted.clone(),
        window_ends: request.max_tokens.is_none_or(|max| max > room(serving, prompt.len())),
        prefill_only: request.prefill_only,
    };
    let turn = Turn::new(Arc::clone(api), turn, attempt, begun, prompt_tokens, judged_by, slot);
    let generation = Generation::new(serving, &request, prompt, choices, jobs, turn, terms);
    Ok(Started { encoder, work: Running::Generation(Box::new(generation)), stream, hinted })
}

/// What is known of a session's newest prompt.
#[derive(Default)]
struct Last {
    /// What its worker was given, and in which turn.
    transcript: Option<Arc<Transcript>>,
    of_turn: Option<TurnId>,
    outline: Option<Arc<Outline>>,
}

fn last(api: &Api, tenant: &Tenant, identity: Option<&Identity>, chain: &Chain) -> Last {
    let (number, outline) = {
        let sessions = api.sessions.lock();
        let number = sessions.locate(tenant, identity, chain);
        (number, number.and_then(|number| sessions.outline(number)))
    };
    let kept = number.and_then(|number| api.transcripts.lock().stamped(number.0));
    let (transcript, stamp) = kept.unzip();
    Last { transcript, of_turn: stamp.map(TurnId), outline }
}

/// What the session's worker was last given, if the session is known and it is still kept.
pub(crate) fn previous(
    api: &Api,
    tenant: &Tenant,
    identity: Option<&Identity>,
    chain: &Chain,
) -> Option<Arc<Transcript>> {
    let number = api.sessions.lock().locate(tenant, identity, chain)?;
    api.transcripts.lock().get(number.0)
}

fn head(api: &Api, serving: &Serving, request: &Request) -> ResponseHead {
    // Clients compare the answer's model with what they asked for, so an alias stays one.
    let asked = Some(&*request.model).filter(|name| !name.is_empty());
    ResponseHead {
        id: Uuid::new_v4().simple().to_string(),
        created_s: api.clock.wall().0 / 1000,
        model: asked.unwrap_or(&serving.model.id).to_owned(),
        sealer: api.sealer.clone(),
    }
}

fn check_attempt(api: &Api, decoded: &Decoded) -> Result<(), ApiError> {
    match api.attempts.lock().begin(decoded.attempt, api.clock.now()) {
        Attempt::First => Ok(()),
        Attempt::Again => {
            api.metrics.duplicate_turns.inc();
            Ok(())
        }
        Attempt::TooMany => Err(ApiError::over_capacity(
            "The same request was sent and given up many times in a row. Wait for its answer, or \
             raise the client's timeout.",
            attempts::RETRY_AFTER_S,
        )),
    }
}

/// What a request asks of the worker, defaults filled in.
fn work(
    serving: &Serving,
    request: &Request,
    prompt: Vec<TokenId>,
    constraint: Option<Box<dyn Constraint>>,
) -> Work {
    let room = room(serving, prompt.len());
    let default = match request.endpoint {
        Endpoint::Completion => COMPLETION_TOKENS,
        _ => room,
    };
    let max_tokens = match request.prefill_only {
        true => 1,
        false => request.max_tokens.unwrap_or(default).min(room),
    };
    let (_, seed) = Uuid::new_v4().as_u64_pair();
    let mut stop_ids = request.stop_token_ids.clone();
    if !request.ignore_eos {
        stop_ids.extend(serving.end_tokens());
    }
    Work {
        prompt,
        choices: request.n,
        max_tokens,
        min_tokens: request.min_tokens,
        stop_ids,
        params: params::resolve(request, &serving.defaults, seed),
        constraint,
        domain: domain_of(serving, request.cache_salt.as_deref()),
        retire_after: None,
    }
}

/// Of how many tokens of a request somebody may still have use when it has ended, if not of all. Of
/// the request for a summary it is what the conversation was before.
fn retire_after(
    request: &Request,
    identified: &Identified,
    hinted: &Hinted,
    common_tokens: Option<u32>,
) -> Option<u32> {
    let is_last = hinted.hints.turns_left == Some(0)
        || request.cache_control.is_some_and(|control| control.evict_on_complete)
        || identified.identity.as_ref().is_some_and(|identity| identity.is_final);
    let is_summary =
        request.compaction || identified.signals.request_class == Some(RequestClass::Compaction);
    match (is_last, is_summary) {
        (true, _) => Some(0),
        (false, true) => common_tokens,
        (false, false) => None,
    }
}

fn over(serving: &Arc<Serving>, domain: Domain, transcript: Arc<Transcript>) -> Over {
    Over { serving: Arc::clone(serving), domain, transcript }
}

/// Tokens that the window leaves for an answer.
fn room(serving: &Serving, prompt_tokens: usize) -> u32 {
    serving.model.context_window.saturating_sub(prompt_tokens as u32)
}

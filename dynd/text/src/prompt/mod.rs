//! Conversations to token ids, for one model: canonical rules, the template, the tokenizer, and the
//! ids that the session's worker already holds.
//!
//! What a harness only re-spelled keeps its ids: what differs without meaning anything is left out,
//! contents are encoded apart from markup, turns that the model wrote get the ids it wrote, and
//! what the last prompt had in common is taken over without looking at its text again.
//!
//! Contents are never markup: text that looks like a special token stays text, whoever sent it, the
//! model's own included. Only the template writes special tokens, and the ids a model generated stay
//! what they are. Marks of thinking and calls that the tokenizer lists as ordinary added tokens
//! (`<think>` of most models) are tokens only in the model's own text, where templates look for them;
//! in what users, tools and system prompts say they are text. Other added tokens are found anywhere.
//!
//! Knows nothing of sessions, requests or workers, and keeps no state but the tokenizer's cache.

mod canon;
mod echo;
mod encode;
mod extend;
mod facts;
mod fit;
mod form;
mod holes;
mod kept;
mod layout;
mod literals;
mod markup;
mod place;
mod probe;
mod report;
mod rules;
mod spans;
mod store;
mod tools;
mod transcript;
mod turns;

use std::sync::Arc;

use dynd_core::{Class, TokenId, WallMs};
use dynd_protocol::{Chat, Role};

pub use report::{BuiltPrompt, EchoReport, FiredRule, PromptSpan, Refused, RefusedWhy};
pub use rules::PromptRules;
pub use store::TranscriptStore;
pub use transcript::{Generated, Transcript};

use crate::tokenizer::Plain;
use crate::{AnswerFormat, ChatInput, ChatTemplate, ParserOptions, TemplateError, Tokenizer};
use canon::{Canon, LateTool, canonical, head_tools};
use encode::{Encoder, Source};
use extend::Base;
use facts::{ALL_BARE, Facts};
use fit::fit;
use holes::Holes;
use kept::Kept;
use layout::{Laid, fill, search};
use spans::frame;
use tools::{HeadTools, ToolMode};
use transcript::Record;
use turns::Turn;

/// Characters of the prompt's end that are told for the answer's parser.
const TAIL_CHARS: usize = 512;
/// Thinking that is remembered of one session.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Builds the prompts of one model.
#[derive(Debug)]
pub struct PromptBuilder {
    tokenizer: Arc<Tokenizer>,
    template: Arc<ChatTemplate>,
    format: AnswerFormat,
    rules: PromptRules,
    facts: Facts,
}

impl PromptBuilder {
    /// Probes the template, which takes some milliseconds.
    pub fn new(
        tokenizer: Arc<Tokenizer>,
        template: Arc<ChatTemplate>,
        format: AnswerFormat,
        rules: PromptRules,
    ) -> Self {
        let facts = Facts::of(&template, &tokenizer, format);
        PromptBuilder { tokenizer, template, format, rules, facts }
    }

    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    pub fn format(&self) -> AnswerFormat {
        self.format
    }

    pub fn rules(&self) -> &PromptRules {
        &self.rules
    }

    /// The prompt of `chat`. `previous` is what the session's worker was last given and generated:
    /// it changes how long this takes, which generated ids are used again and which thinking is
    /// put back, nothing else.
    pub fn build(
        &self,
        chat: &Chat,
        now: WallMs,
        previous: Option<&Transcript>,
    ) -> Result<BuiltPrompt, TemplateError> {
        let late_tools = self.late_tools(chat, previous);
        let kept = previous.map_or(&[][..], |previous| &previous.kept);
        let Canon { turns, mut fired } =
            canonical(chat, &self.rules, kept, &late_tools, self.facts.fit.late_system);
        let turns = fit(turns, &self.facts.fit, &mut fired);
        let last = previous.map(|previous| &*previous.record);
        let order = last.map(|last| last.tool_names.as_slice());
        let definitions = head_tools(chat, &self.rules, order, &late_tools, &mut fired);
        let tools = HeadTools::shared(&definitions, self.facts.tools, last.map(|last| &last.tools));
        fired.sort_unstable();
        fired.dedup();

        let reasoning = &chat.reasoning;
        let keep_thinking = self.rules.keep_thinking;
        let input = ChatInput {
            add_generation_prompt: chat.add_generation_prompt,
            extra: self.facts.variables(&chat.template_kwargs, reasoning, keep_thinking),
            now,
            ..ChatInput::default()
        };
        let follow = match last {
            None => Follow::Checked,
            Some(last) if last.is_misled => Follow::Not,
            Some(_) => Follow::Trusting,
        };
        let extended = last.and_then(|last| self.extended(&turns, &tools, &input, last));
        let rendered = match extended {
            Some(extended) => extended,
            None => self.rendered(&turns, &tools, &input, follow, last)?,
        };
        let Rendered { laid, base, is_searched, is_misled, text_dropped } = rendered;

        let roles: Vec<Role> = turns.iter().map(|turn| turn.role).collect();
        let opens_answer = chat.add_generation_prompt;
        let framed = frame(&laid.text, &laid.hits, &roles, &self.facts.frames, opens_answer);
        let plain = laid.hits.iter().map(|hit| Plain {
            bytes: hit.bytes.clone(),
            foreign: hit.place.role != Role::Assistant,
        });
        let plain: Vec<Plain> = plain.collect();
        let source = Source { text: &laid.text, plain: &plain, framed: &framed };
        let encoder = Encoder {
            tokenizer: &self.tokenizer,
            format: self.format,
            rules: &self.rules,
            foreign: &self.facts.foreign,
            variables: &input.extra,
        };
        let encoded = encoder.encode(source, previous);
        let spans = place::spans(source, &encoded, previous, &self.tokenizer, self.format);

        let answers = chat.messages.iter().filter(|message| message.role == Role::Assistant);
        let answers = index(answers.count());
        let kept = kept.iter().filter(|kept| kept.answer < answers).cloned().collect();
        let tail = tail(&laid.text);
        let record = Record {
            text: laid.text,
            variables: input.extra,
            plain,
            cuts: encoded.cuts,
            generated: encoded.generated,
            kept,
            tool_names: tools.names(),
            tools,
            late_tools,
            answers,
            is_misled,
            is_searched,
            base,
        };
        Ok(BuiltPrompt {
            ids: encoded.ids,
            spans,
            fired,
            echo: encoded.echo,
            tail,
            assistant_keeps_thinking: self.facts.keeps_thinking(&record.variables),
            reasoning_dropped: record.base.reasoning_dropped,
            text_dropped,
            reused_tokens: index(encoded.reused),
            is_searched,
            record: Arc::new(record),
        })
    }

    /// What the worker holds once it has computed `built` and `generated` after it, the token that
    /// ended the answer included. Tokens that a grammar forced count as generated.
    pub fn transcript(&self, built: &BuiltPrompt, generated: &[TokenId]) -> Transcript {
        let prompt_tokens = index(built.ids.len());
        let mut kept = built.record.kept.clone();
        let last = generated.last();
        let is_whole = last.is_some_and(|last| self.tokenizer.end_tokens().contains(last));
        if !generated.is_empty() {
            let content = &generated[..generated.len() - usize::from(is_whole)];
            let options = ParserOptions {
                prompt_tail: built.tail.clone(),
                calls: true,
                ..ParserOptions::default()
            };
            let text = echo::written(&self.tokenizer, content);
            let parts = crate::parse_answer(self.format, options, &text, !is_whole).parts;
            kept.push(Arc::new(Kept::new(built.record.answers, &parts)));
            let mut bytes: usize = kept.iter().map(|kept| kept.size_bytes()).sum();
            let excess = kept.iter().take_while(|kept| {
                let is_over = bytes > KEPT_BYTES_MAX;
                bytes -= kept.size_bytes();
                is_over
            });
            let excess = excess.count();
            kept.drain(..excess);
        }
        let end = built.record.text.len();
        let newest = (!generated.is_empty()).then(|| Generated {
            first_token: prompt_tokens,
            tokens: index(generated.len()),
            bytes: end..end,
            boundary: 0,
            is_whole,
        });
        Transcript {
            ids: built.ids.iter().chain(generated).copied().collect(),
            prompt_tokens,
            spans: built.spans.clone(),
            domain: None,
            newest,
            kept,
            record: built.record.clone(),
        }
    }

    /// The tools that are shown on the way, when that is asked for: those the session's head does
    /// not have, each where it first came up.
    fn late_tools(&self, chat: &Chat, previous: Option<&Transcript>) -> Vec<LateTool> {
        let Some(last) = previous.filter(|_| self.rules.late_tools) else { return Vec::new() };
        let last = &*last.record;
        let Some(end) = chat.messages.len().checked_sub(1).map(index) else { return Vec::new() };
        let is_shown = |name: &str| chat.tools.iter().any(|tool| tool.name == name);
        let known = last.late_tools.iter();
        let mut late: Vec<LateTool> = known
            .filter(|tool| tool.after_message <= end && is_shown(&tool.name))
            .cloned()
            .collect();
        for tool in &chat.tools {
            let is_left_out = self.rules.deferred_tools && tool.deferred;
            let is_in_head = last.tool_names.contains(&tool.name);
            if !is_left_out && !is_in_head && late.iter().all(|late| late.name != tool.name) {
                late.push(LateTool { name: tool.name.clone(), after_message: end });
            }
        }
        late
    }

    /// The text of the prompt, with contents taken out if the template can be followed.
    fn rendered(
        &self,
        turns: &[Turn<'_>],
        tools: &HeadTools,
        input: &ChatInput,
        follow: Follow,
        last: Option<&Record>,
    ) -> Result<Rendered, TemplateError> {
        let defuse = |text: &str, is_foreign: bool| self.defused(text, is_foreign);
        let mut is_misled = follow == Follow::Not;
        if !is_misled {
            let holes = Holes::new(self.facts.modes, &self.facts.literals);
            let known = last.map(|last| (&last.base.known, last.text.as_str()));
            let mut holes = holes.defusing(&defuse).knowing(known);
            let values = tools.values(self.facts.tools, &mut holes);
            let text = self.text(turns, values, input, &mut holes);
            let laid = text.ok().and_then(|text| fill(&text, &holes.holes));
            if let Some(laid) = laid {
                let mut plain = Holes::new(ALL_BARE, &self.facts.literals);
                let is_right = follow == Follow::Trusting
                    || holes.differs
                    || self.text(turns, tools.definitions.clone(), input, &mut plain)? == laid.text;
                if is_right {
                    return Ok(self.seen(turns, laid, &holes));
                }
                is_misled = true;
            }
        }
        let mut bare = Holes::new(ALL_BARE, &self.facts.literals).defusing(&defuse);
        let values = tools.values(ToolMode::Bare, &mut bare);
        let text = self.text(turns, values, input, &mut bare)?;
        let laid = search(text, &bare.bare);
        Ok(Rendered { is_searched: true, is_misled, ..self.seen(turns, laid, &bare) })
    }

    fn seen(&self, turns: &[Turn<'_>], laid: Laid, holes: &Holes<'_, '_>) -> Rendered {
        let [reasoning_dropped, text_dropped] = hidden(&laid, holes);
        let base = Base::new(turns, &self.facts, &laid, holes, reasoning_dropped);
        Rendered { laid, base, is_searched: false, is_misled: false, text_dropped }
    }

    /// The last prompt with more rounds of tools after it.
    fn extended(
        &self,
        turns: &[Turn<'_>],
        tools: &Arc<HeadTools>,
        input: &ChatInput,
        last: &Record,
    ) -> Option<Rendered> {
        let is_same_head = Arc::ptr_eq(tools, &last.tools) && input.extra == last.variables;
        if !is_same_head || last.is_searched {
            return None;
        }
        let (facts, text) = (&self.facts, last.text.as_str());
        let window = extend::window(turns, facts, &last.base, text)?;
        let known = Some((&last.base.known, text));
        let defuse = |text: &str, is_foreign: bool| self.defused(text, is_foreign);
        let holes = Holes::new(facts.modes, &facts.literals).defusing(&defuse);
        let mut holes = holes.knowing(known);
        let values = tools.values(facts.tools, &mut holes);
        let messages = window.messages(turns, facts, &last.base, &mut holes);
        let input = ChatInput { tools: values, ..input.clone() };
        let rendered = self.template.render_formed(messages, &input, facts.fit.system).ok()?;
        if !holes.bare.is_empty() {
            return None;
        }
        let (laid, mut base) = window.joined(&rendered, &holes, turns, facts, &last.base, text)?;
        let [reasoning_dropped, text_dropped] = hidden(&laid, &holes);
        let dropped = [base.reasoning_dropped, reasoning_dropped];
        base.reasoning_dropped = dropped.into_iter().flatten().min();
        Some(Rendered { laid, base, is_searched: false, is_misled: false, text_dropped })
    }

    fn text<'t>(
        &self,
        turns: &'t [Turn<'_>],
        tools: Vec<serde_json::Value>,
        input: &ChatInput,
        holes: &mut Holes<'t, '_>,
    ) -> Result<String, TemplateError> {
        let messages = form::messages(turns, &self.facts, holes);
        let input = ChatInput { tools, ..input.clone() };
        self.template.render_formed(messages, &input, self.facts.fit.system)
    }

    /// `text` with a blank of no width in whatever looks like a special token, and like markup if the
    /// text `is_foreign` to the model.
    fn defused(&self, text: &str, is_foreign: bool) -> Option<String> {
        let specials = self.tokenizer.specials_in(text, &[]);
        let mut out: Option<String> = None;
        let is_forged = |id: TokenId| {
            self.tokenizer.is_special(id) || (is_foreign && self.facts.markup.contains(id))
        };
        for (at, _) in specials.iter().rev().filter(|(_, id)| is_forged(*id)) {
            let after = text[*at..].chars().next().map_or(0, char::len_utf8);
            out.get_or_insert_with(|| text.to_owned()).insert(at + after, '\u{200b}');
        }
        out
    }
}

/// Whether contents are taken out of what the template is given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Follow {
    /// And the result compared with the plain rendering: once per conversation.
    Checked,
    Trusting,
    /// It went wrong for this conversation.
    Not,
}

/// A text and what was noticed about it.
struct Rendered {
    laid: Laid,
    is_searched: bool,
    /// With its contents taken out the conversation renders to another text.
    is_misled: bool,
    base: Base,
    text_dropped: Option<u32>,
}

/// The first message of which the template has not printed thinking, and other text.
fn hidden(laid: &Laid, holes: &Holes<'_, '_>) -> [Option<u32>; 2] {
    [true, false].map(|is_thinking| {
        let places = holes.holes.iter().zip(&laid.starts);
        let hidden = places.filter(|(_, start)| start.is_none());
        hidden
            .filter(|(hole, _)| (hole.place.class == Class::Thinking) == is_thinking)
            .filter_map(|(hole, _)| hole.place.message)
            .min()
    })
}

fn tail(text: &str) -> String {
    let start = text.char_indices().rev().nth(TAIL_CHARS - 1).map_or(0, |(at, _)| at);
    text[start..].to_owned()
}

/// Sizes of prompts fit: no prompt comes near 4 GiB.
fn index(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

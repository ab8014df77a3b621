//! What is known of a template: found out once, by reading its source and rendering probes.

use dynd_core::WallMs;
use serde_json::{Map, Value};

use super::fit::Fit;
use super::holes::{Kind, Mode, Modes};
use super::literals::Literals;
use super::markup::Markup;
use super::probe::Prober;
use super::spans::Frames;
use super::tools::ToolMode;
use crate::template::Needs;
use crate::tokenizer::Foreign;
use crate::{AnswerFormat, ChatTemplate, Tokenizer};

/// The names under which templates look for a message's thinking.
const THINKING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];
/// Variables that switch thinking on and off.
const THINKING_SWITCHES: [&str; 2] = ["enable_thinking", "thinking"];
const EFFORT: &str = "reasoning_effort";
/// Variables that keep the thinking of all turns, and the value that does.
const KEEPING: [(&str, bool); 3] =
    [("preserve_thinking", true), ("keep_thinking", true), ("clear_thinking", false)];

#[derive(Debug)]
pub(super) struct Facts {
    pub(super) needs: Needs,
    pub(super) fit: Fit,
    pub(super) thinking_fields: Vec<&'static str>,
    pub(super) thinking_switches: Vec<&'static str>,
    pub(super) has_effort: bool,
    pub(super) keeping: Option<(&'static str, bool)>,
    /// Thinking of an answer is rendered also after the next user message: by default, and with
    /// `keeping`.
    pub(super) keeps_thinking: [bool; 2],
    /// An object is printed as its JSON text is.
    pub(super) objects_equal_text: bool,
    pub(super) literals: Literals,
    pub(super) markup: Markup,
    /// What is found in texts that the model has not written.
    pub(super) foreign: Foreign,
    pub(super) modes: Modes,
    pub(super) tools: ToolMode,
    pub(super) frames: Frames,
    /// More rounds of tools change nothing of what was rendered before them.
    pub(super) is_steady: bool,
}

/// Everything as it is: for probes, checks, and templates that cannot be followed.
pub(super) const ALL_BARE: Modes = Modes([Mode::Bare; Kind::ALL.len()]);

impl Facts {
    pub(super) fn of(template: &ChatTemplate, tokenizer: &Tokenizer, format: AnswerFormat) -> Self {
        let mentioned = |names: &[&'static str]| -> Vec<&'static str> {
            names.iter().filter(|name| template.mentions(name)).copied().collect()
        };
        let markup = Markup::of(template, tokenizer);
        let mut facts = Facts {
            needs: template.needs(),
            fit: Fit::unprobed(),
            thinking_fields: mentioned(&THINKING_FIELDS),
            thinking_switches: mentioned(&THINKING_SWITCHES),
            has_effort: template.mentions(EFFORT),
            keeping: KEEPING.into_iter().find(|(name, _)| template.mentions(name)),
            keeps_thinking: [false; 2],
            objects_equal_text: false,
            literals: Literals::of(template.source(), |literal| {
                markup.forged_by(literal, tokenizer)
            }),
            foreign: markup.foreign(tokenizer),
            markup,
            modes: ALL_BARE,
            tools: ToolMode::Bare,
            frames: Frames::default(),
            is_steady: false,
        };
        let prober = Prober { template };
        facts.fit = prober.fit(&facts, format);
        facts.objects_equal_text = prober.objects_equal_text(&facts);
        facts.modes = prober.modes(&facts);
        facts.tools = prober.tools(&facts);
        facts.frames = prober.frames(&facts);
        facts.is_steady = prober.is_steady(&facts);
        facts.keeps_thinking = [false, true].map(|keep| prober.keeps_thinking(&facts, keep));
        facts
    }

    /// The variables of one rendering: the client's own, and those that its wishes about thinking
    /// stand for.
    pub(super) fn variables(
        &self,
        sent: &Map<String, Value>,
        reasoning: &dynd_protocol::Reasoning,
        keep_thinking: bool,
    ) -> Map<String, Value> {
        let mut variables = sent.clone();
        let mut set = |name: &str, value: Value| {
            if !variables.contains_key(name) {
                variables.insert(name.to_owned(), value);
            }
        };
        if let Some(enabled) = reasoning.enabled {
            self.thinking_switches.iter().for_each(|name| set(name, enabled.into()));
        }
        if let (true, Some(effort)) = (self.has_effort, &reasoning.effort) {
            set(EFFORT, effort.as_str().into());
        }
        if let (true, Some((name, value))) = (keep_thinking, self.keeping) {
            set(name, value.into());
        }
        variables
    }

    /// Whether thinking stays after the next user message, with these variables.
    pub(super) fn keeps_thinking(&self, variables: &Map<String, Value>) -> bool {
        let is_kept = self.keeping.is_some_and(|(name, value)| {
            variables.get(name).and_then(Value::as_bool) == Some(value)
        });
        self.keeps_thinking[usize::from(is_kept)]
    }
}

/// The date that probes are rendered with.
pub(super) const PROBE_DATE: WallMs = WallMs(0);

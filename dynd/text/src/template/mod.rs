//! Chat templates: messages and tools to one prompt text, as transformers' `apply_chat_template`.
//!
//! A template comes with the model file and is not trusted: a rendering is bounded in work, memory,
//! nesting and output. One thing the template engine does not bound: a list that a template nests in
//! itself dozens of times and then turns into text (`[x, x]` over and over, then `x ~ ""`) or joins
//! to itself (`x + x`) takes exponential time and memory. Conversations cannot do that, only a
//! model's own template can. Nothing here reads a clock; the date is part of the input.

mod date;
mod environment;
mod hermes;
mod json;
mod messages;
mod probe;

use std::collections::BTreeMap;
use std::io;

use dynd_core::WallMs;
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind};
use serde_json::{Map, Value};

use environment::Raised;
pub(crate) use json::dumps;
pub(crate) use messages::{Arguments as ArgumentForm, Needs};

/// Work a rendering may do beside what its input needs: instructions, or 64 bytes of data each.
const FUEL_BASE: u64 = 2_000_000;
/// Further work per byte of input.
const FUEL_PER_INPUT_BYTE: u64 = 1;
/// Length of the output beside what the input needs, and per byte of input.
const OUTPUT_BYTES_BASE: usize = 4 << 20;
const OUTPUT_BYTES_PER_INPUT_BYTE: usize = 8;
/// Longest template source; the longest known is 20 KiB.
const SOURCE_BYTES_MAX: usize = 1 << 20;
const NAME: &str = "chat_template";

/// The ChatML format, for models that bring no template. It knows no tools, so they are written in
/// the Hermes format; reasoning of earlier turns is left out.
const CHATML: &str = "{%- for message in messages %}\
    {{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>\\n' }}\
    {%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

/// What a template renders. Messages and tools are in the form of chat completions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChatInput {
    pub messages: Vec<Value>,
    pub tools: Vec<Value>,
    pub add_generation_prompt: bool,
    /// `chat_template_kwargs`: further variables such as `enable_thinking`. They cannot replace
    /// the fields above.
    pub extra: Map<String, Value>,
    /// What `strftime_now` shows, in UTC.
    pub now: WallMs,
}

/// Why a template does not compile or a conversation does not render.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("the chat template is not valid: {0}; use another template or none (ChatML)")]
    Syntax(String),
    /// The template's own `raise_exception`: the conversation is not one it supports.
    #[error("the chat template refuses this conversation: {0}")]
    Refused(String),
    #[error("the chat template fails on this conversation: {0}")]
    Render(String),
    #[error("the chat template takes more {0} than this conversation can need")]
    Limit(&'static str),
    #[error("message {0} is not an object")]
    Message(usize),
}

/// A compiled template and what it expects of its input.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    bos: Option<String>,
    eos: Option<String>,
    knows_tools: bool,
    needs: Needs,
}

impl ChatTemplate {
    /// Compiles `source` and finds out, by rendering small conversations, which form of call
    /// arguments and empty contents it is written for. `bos` and `eos` become `bos_token` and
    /// `eos_token`.
    pub fn new(source: &str, bos: Option<&str>, eos: Option<&str>) -> Result<Self, TemplateError> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(TemplateError::Syntax("it is longer than 1 MiB".into()));
        }
        let mut environment = environment::environment();
        environment
            .add_template_owned(NAME, environment::without_generation_tags(source))
            .map_err(|error| TemplateError::Syntax(describe(&error)))?;
        let mut template = ChatTemplate {
            environment,
            source: source.to_owned(),
            bos: bos.map(str::to_owned),
            eos: eos.map(str::to_owned),
            knows_tools: mentions(source, "tools"),
            needs: probe::UNPROBED,
        };
        template.needs = probe::needs(&template, mentions(source, "developer"));
        Ok(template)
    }

    /// The fallback for models without a template.
    pub fn chatml() -> Self {
        Self::new(CHATML, None, None).expect("the built-in template is valid")
    }

    /// Whether the template has its own format for tools; else they are written as Hermes does.
    pub fn knows_tools(&self) -> bool {
        self.knows_tools
    }

    /// The text it was made from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether `word` occurs in the source as a whole word.
    pub(crate) fn mentions(&self, word: &str) -> bool {
        mentions(&self.source, word)
    }

    pub(crate) fn needs(&self) -> Needs {
        self.needs
    }

    /// Renders one question: a template that fails on it, or leaves it out, would on every conversation.
    pub fn try_out(&self) -> Result<(), TemplateError> {
        const WORD: &str = "ping";
        let input = ChatInput {
            messages: vec![serde_json::json!({ "role": "user", "content": WORD })],
            tools: Vec::new(),
            add_generation_prompt: true,
            extra: Map::new(),
            now: WallMs(0),
        };
        if self.render(&input)?.contains(WORD) {
            return Ok(());
        }
        Err(TemplateError::Render("the text of a message is not in its prompt".into()))
    }

    /// The prompt text.
    pub fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        let messages = input.messages.iter().enumerate();
        let mut messages = messages
            .map(|(at, message)| {
                messages::normalise(message, self.needs).ok_or(TemplateError::Message(at))
            })
            .collect::<Result<Vec<_>, _>>()?;
        if !self.knows_tools {
            messages = hermes::rewrite(messages, &input.tools, true);
        }
        self.render_raw(&messages, input)
    }

    /// Renders messages in the form that [`Self::needs`] tells of. `has_system`: the template takes
    /// a system message.
    pub(crate) fn render_formed(
        &self,
        messages: Vec<Value>,
        input: &ChatInput,
        has_system: bool,
    ) -> Result<String, TemplateError> {
        if self.knows_tools {
            return self.render_raw(&messages, input);
        }
        self.render_raw(&hermes::rewrite(messages, &input.tools, has_system), input)
    }

    /// Renders messages that already have the template's form.
    fn render_raw(&self, messages: &[Value], input: &ChatInput) -> Result<String, TemplateError> {
        let input_bytes = size_bytes(&input.tools)
            + size_bytes(messages)
            + input.extra.values().map(value_bytes).sum::<usize>();
        let mut context: BTreeMap<String, minijinja::Value> = input
            .extra
            .iter()
            .map(|(name, value)| (name.clone(), minijinja::Value::from(Serde(value))))
            .collect();
        let mut set = |name: &str, value: minijinja::Value| context.insert(name.to_owned(), value);
        set("messages", minijinja::Value::from(Serde(messages)));
        let tools = (self.knows_tools && !input.tools.is_empty()).then_some(&input.tools);
        set("tools", minijinja::Value::from(Serde(tools)));
        set("documents", minijinja::Value::from(()));
        set("add_generation_prompt", input.add_generation_prompt.into());
        set("strftime_now", environment::strftime_now(input.now));
        for (name, token) in [("bos_token", &self.bos), ("eos_token", &self.eos)] {
            if let Some(token) = token {
                set(name, token.as_str().into());
            }
        }

        let mut environment = self.environment.clone();
        environment.set_fuel(Some(FUEL_BASE + FUEL_PER_INPUT_BYTE * input_bytes as u64));
        let mut out = Bounded {
            bytes: Vec::new(),
            bytes_max: OUTPUT_BYTES_BASE + OUTPUT_BYTES_PER_INPUT_BYTE * input_bytes,
        };
        let template = environment.get_template(NAME).map_err(|error| classify(&error))?;
        template.render_captured_to(context, &mut out).map_err(|error| classify(&error))?;
        String::from_utf8(out.bytes).map_err(|_| TemplateError::Render("not UTF-8".into()))
    }
}

/// Output that refuses to grow beyond a limit.
struct Bounded {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.bytes_max {
            return Err(io::Error::other("output limit"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn classify(error: &minijinja::Error) -> TemplateError {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = source {
        if let Some(Raised(message)) = cause.downcast_ref() {
            return TemplateError::Refused(message.clone());
        }
        match cause.downcast_ref::<minijinja::Error>().map(minijinja::Error::kind) {
            Some(ErrorKind::OutOfFuel) => return TemplateError::Limit("work or memory"),
            Some(ErrorKind::WriteFailure) => return TemplateError::Limit("output"),
            _ => source = cause.source(),
        }
    }
    TemplateError::Render(describe(error))
}

/// What failed and where, without values: those may be a user's text.
fn describe(error: &minijinja::Error) -> String {
    let about_names = matches!(
        error.kind(),
        ErrorKind::SyntaxError
            | ErrorKind::UnknownFilter
            | ErrorKind::UnknownFunction
            | ErrorKind::UnknownMethod
            | ErrorKind::UnknownTest
            | ErrorKind::MissingArgument
            | ErrorKind::TooManyArguments
    );
    let detail = error.detail().filter(|_| about_names);
    let detail = detail.map(|detail| format!(": {detail}")).unwrap_or_default();
    let line = error.line().map(|line| format!(" in line {line}")).unwrap_or_default();
    format!("{}{detail}{line}", error.kind())
}

/// Whether `word` occurs in the source as a whole word.
pub(crate) fn mentions(source: &str, word: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    source.match_indices(word).any(|(at, _)| {
        !source[..at].ends_with(is_word) && !source[at + word.len()..].starts_with(is_word)
    })
}

/// About as many bytes as the values have when written as JSON.
pub(crate) fn size_bytes(values: &[Value]) -> usize {
    values.iter().map(value_bytes).sum()
}

/// About as many bytes as the value has when written as JSON.
fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + size_bytes(items),
        Value::Object(fields) => {
            2 + fields.iter().map(|(key, value)| key.len() + 4 + value_bytes(value)).sum::<usize>()
        }
    }
}

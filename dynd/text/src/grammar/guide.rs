//! The library behind grammars (llguidance): expressions written in its language, its vocabulary
//! tree, its state as a [`Constraint`]. Nothing else knows it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use dynd_core::{Constraint, ConstraintError, TokenId, TokenMask};
use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};
use toktrie::{ApproximateTokEnv, InferenceCapabilities, TokRxInfo, TokTrie};

use super::expr::{Expr, Limits};
use super::schema::Schema;
use crate::tokenizer::{Markup, Tokenizer};

/// Longer tokens do not fit into the tree; no model's text needs them.
const TOKEN_BYTES_MAX: usize = 1000;
/// White space between two tokens of JSON: a blank, or a line break with its indentation. The bound
/// keeps models from filling an answer with it; what is nested deeper is indented as far as this.
const JSON_SPACE: &str = r" |\r?\n(?: {0,16}|\t{0,8})";
/// Characters that free text is counted to.
const LENGTH_MAX: u64 = 1000;
/// States of the lexer that one constraint may make: some 1-2 KiB each.
const LEXER_STATES_MAX: usize = 100_000;
/// Possibilities that are open at one place of an output: some four per optional property.
const ROW_ITEMS_MAX: usize = 10_000;
/// The same over all tokens of one mask; some 20,000 take a millisecond.
const MASK_ITEMS_MAX: usize = 400_000;
/// How the library's messages about its limits begin.
const LIMITS: [&str; 3] =
    ["Parser Error: Current row has", "parser error: Too many", "lexer error:"];
/// How its message begins where no token can follow.
const DEAD_END: &str = "NoExtensionBias";

/// Makes constraints over one vocabulary.
pub(super) struct Guide {
    factory: ParserFactory,
    end_tokens: Vec<TokenId>,
}

impl Guide {
    /// Builds the tree of the vocabulary: tens of megabytes, and a good part of a second for a
    /// large one.
    pub(super) fn new(tokenizer: &Tokenizer) -> Result<Self, String> {
        let mut words: Vec<Vec<u8>> = (0..tokenizer.vocab_size())
            .map(|id| word(tokenizer, u32::try_from(id).unwrap_or(TokenId::MAX)))
            .collect();
        let mut end_tokens = tokenizer.end_tokens().to_vec();
        if end_tokens.is_empty() {
            // The library wants one; this id is past every model's vocabulary or unused in it.
            end_tokens.push(u32::try_from(words.len()).unwrap_or(TokenId::MAX));
            words.push(b"\xff<|end of output|>".to_vec());
        }
        let vocab_size = u32::try_from(words.len()).map_err(|_| "its vocabulary is too large")?;
        let info = TokRxInfo::new(vocab_size, end_tokens[0]);
        let trie = TokTrie::from(&info, &words).with_eos_tokens(&end_tokens);
        let environment = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new(
            &(environment as _),
            InferenceCapabilities::default(),
            &llguidance::earley::SlicedBiasComputer::general_slices(),
        )
        .map_err(|error| error.to_string())?;
        factory.quiet();
        let limits = factory.limits_mut();
        limits.verbose_errors = false;
        limits.max_lexer_states = LEXER_STATES_MAX;
        limits.max_items_in_row = ROW_ITEMS_MAX;
        limits.step_max_items = MASK_ITEMS_MAX;
        Ok(Guide { factory, end_tokens })
    }

    /// Compiles `expr`; also returns what the library left out of its schemas. The error is the
    /// library's.
    pub(super) fn compile(
        &self,
        expr: &Expr,
        tokenizer: &Tokenizer,
    ) -> Result<(GuideConstraint, Vec<String>), String> {
        let mut writer = Writer::new(tokenizer);
        let start = writer.write(expr);
        let grammars = writer.finish(&start);
        let parser = self.factory.create_parser(TopLevelGrammar { grammars, max_tokens: None });
        let mut matcher = Matcher::new(parser);
        if let Some(error) = matcher.get_error() {
            return Err(error);
        }
        let warnings = matcher.grammar_warnings();
        Ok((GuideConstraint { matcher, end_tokens: self.end_tokens.clone() }, warnings))
    }
}

impl fmt::Debug for Guide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guide").field("end_tokens", &self.end_tokens).finish_non_exhaustive()
    }
}

/// A token as the tree holds it: the bytes of its text, or of a special token its name after a byte
/// that no text has.
fn word(tokenizer: &Tokenizer, id: TokenId) -> Vec<u8> {
    let word = match tokenizer.special_text(id) {
        Some(name) => [&[TokTrie::SPECIAL_TOKEN_MARKER], name.as_bytes()].concat(),
        None => tokenizer.token_bytes(id).unwrap_or_default().to_vec(),
    };
    if word.len() > TOKEN_BYTES_MAX { Vec::new() } else { word }
}

/// Writes an expression in the library's variant of Lark.
struct Writer<'a> {
    tokenizer: &'a Tokenizer,
    rules: String,
    /// Names of rules that end with a text at the first place where they can, by what they match.
    lazy: BTreeMap<String, String>,
    /// Names of terminals, by what they match.
    terminals: BTreeMap<String, String>,
    /// Names of JSON grammars, by schema.
    names: BTreeMap<String, String>,
    json: Vec<GrammarWithLexer>,
}

impl<'a> Writer<'a> {
    fn new(tokenizer: &'a Tokenizer) -> Self {
        Writer {
            tokenizer,
            rules: "ANY: /(?s:.*)/\n".to_owned(),
            lazy: BTreeMap::new(),
            terminals: BTreeMap::new(),
            names: BTreeMap::new(),
            json: Vec::new(),
        }
    }

    /// An operand; empty for an expression that is the empty text alone.
    fn write(&mut self, expr: &Expr) -> String {
        match expr {
            Expr::Text(text) => self.markup(text),
            Expr::Any => "ANY".to_owned(),
            Expr::Mark(mark) => self.lazy("", mark),
            Expr::Until(mark) => self.lazy("ANY ", mark),
            Expr::UntilWithin { mark, limits } => {
                let text = self.limited(limits);
                self.lazy(&format!("{text} "), mark)
            }
            Expr::Regex(regex) => format!("/{regex}/"),
            Expr::Json(schema) => self.json(schema),
            Expr::Seq(parts) => {
                let parts = parts.iter().map(|part| self.write(part));
                parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
            }
            Expr::Either(options) => {
                let options: Vec<String> =
                    options.iter().map(|option| self.write(option)).collect();
                let has_empty = options.iter().any(String::is_empty);
                let some: Vec<String> =
                    options.into_iter().filter(|option| !option.is_empty()).collect();
                match (some.is_empty(), has_empty) {
                    (true, _) => String::new(),
                    (false, true) => format!("({})?", some.join(" | ")),
                    (false, false) => format!("({})", some.join(" | ")),
                }
            }
            Expr::Optional(part) => suffixed(&self.write(part), '?'),
            Expr::Many(part) => suffixed(&self.write(part), '*'),
        }
    }

    fn markup(&self, text: &str) -> String {
        self.pieces(self.tokenizer.split_markup(text).into_iter()).join(" ")
    }

    /// Markup without the tokens that end an output: where they stand the grammar ends.
    fn pieces(&self, pieces: impl Iterator<Item = Markup>) -> Vec<String> {
        let ends = self.tokenizer.end_tokens();
        let pieces = pieces.filter_map(|piece| match piece {
            Markup::Text(text) => Some(literal(&text)),
            Markup::Token(id) if ends.contains(&id) => None,
            Markup::Token(id) => Some(format!("<[{id}]>")),
        });
        pieces.collect()
    }

    /// Free text within limits, as an expression over terminals. Lengths beyond what the library
    /// counts well are not counted.
    fn limited(&self, limits: &Limits) -> String {
        let counted = |length: &u64| *length <= LENGTH_MAX;
        let least = Some(limits.length_min).filter(counted).unwrap_or(0);
        let most = limits.length_max.filter(counted).filter(|most| *most >= least);
        let text = match (least, most) {
            (0, None) => "ANY".to_owned(),
            (least, None) => format!("/(?s:.{{{least},}})/"),
            (least, Some(most)) => format!("/(?s:.{{{least},{most}}})/"),
        };
        // A special token is in no free text anyway.
        let without = limits.without.iter().filter_map(|without| {
            match &self.tokenizer.split_markup(without)[..] {
                [Markup::Text(without)] => Some(literal(without)),
                _ => None,
            }
        });
        let without: Vec<String> = without.collect();
        match without.is_empty() {
            true => text,
            false => format!("({text} & ~(ANY ({}) ANY))", without.join(" | ")),
        }
    }

    /// `before`, then the first place where `mark` stands.
    fn lazy(&mut self, before: &str, mark: &str) -> String {
        let mut pieces = self.tokenizer.split_markup(mark).into_iter();
        let Some(Markup::Text(first)) = pieces.next() else {
            // Free text has no special tokens, so it ends where one stands.
            let text = self.terminal(before.trim_end());
            return format!("{text} {}", self.markup(mark));
        };
        let (count, rules) = (self.lazy.len(), &mut self.rules);
        let body = format!("{before}{}", literal(&first));
        let name = self.lazy.entry(body).or_insert_with_key(|body| {
            let name = format!("lazy_{count}");
            rules.push_str(&format!("{name}[lazy]: {body}\n"));
            name
        });
        let name = name.clone();
        [name].into_iter().chain(self.pieces(pieces)).collect::<Vec<_>>().join(" ")
    }

    /// An operand that matches what an expression over terminals does.
    fn terminal(&mut self, body: &str) -> String {
        if body.is_empty() || body == "ANY" {
            return body.to_owned();
        }
        let count = self.terminals.len();
        let rules = &mut self.rules;
        let name = self.terminals.entry(body.to_owned()).or_insert_with_key(|body| {
            let name = format!("TEXT_{count}");
            rules.push_str(&format!("{name}: {body}\n"));
            name
        });
        name.clone()
    }

    fn json(&mut self, schema: &Schema) -> String {
        let mut value = schema.value().clone();
        if let Value::Object(keys) = &mut value {
            let options = json!({ "whitespace_pattern": JSON_SPACE, "lenient": true });
            keys.insert("x-guidance".to_owned(), options);
        }
        let (count, json) = (self.names.len(), &mut self.json);
        let name = self.names.entry(value.to_string()).or_insert_with(|| {
            let name = format!("json_{count}");
            json.push(GrammarWithLexer {
                name: Some(name.clone()),
                ..GrammarWithLexer::from_json_schema(value)
            });
            name
        });
        format!("@{name}")
    }

    fn finish(self, start: &str) -> Vec<GrammarWithLexer> {
        let start = if start.is_empty() { "\"\"" } else { start };
        let lark = GrammarWithLexer::from_lark(format!("start: {start}\n{}", self.rules));
        [lark].into_iter().chain(self.json).collect()
    }
}

fn suffixed(part: &str, suffix: char) -> String {
    if part.is_empty() { String::new() } else { format!("({part}){suffix}") }
}

/// The language's string literals are JSON's.
fn literal(text: &str) -> String {
    Value::from(text).to_string()
}

/// A grammar in the state after some tokens.
pub(super) struct GuideConstraint {
    matcher: Matcher,
    end_tokens: Vec<TokenId>,
}

impl GuideConstraint {
    /// The library's own message could hold text of the output, so another one says the same. A
    /// matcher that failed keeps nothing else of the reason.
    fn error(&self) -> ConstraintError {
        let error = self.matcher.get_error().unwrap_or_default();
        if LIMITS.iter().any(|limit| error.starts_with(limit)) {
            ConstraintError::unfollowable(
                "the schema leaves too many possibilities open; make it simpler",
            )
        } else if error.starts_with(DEAD_END) {
            ConstraintError::unfollowable(
                "the schema leads to where no value fits it; loosen it or ask without it",
            )
        } else {
            ConstraintError::fault(
                "the output left the grammar, which is a fault of the server; report it",
            )
        }
    }
}

impl Constraint for GuideConstraint {
    fn allowed(&mut self, mask: &mut TokenMask) -> Result<(), ConstraintError> {
        if self.is_finished() {
            mask.set_words(&[]);
            return Ok(());
        }
        let allowed = self.matcher.compute_mask().map_err(|_| self.error())?;
        mask.set_words(allowed.as_slice());
        self.end_tokens.iter().for_each(|token| mask.forbid(*token));
        Ok(())
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        self.matcher.consume_token(token).map_err(|_| self.error())
    }

    fn may_end(&mut self) -> bool {
        self.is_finished() || self.matcher.is_accepting().unwrap_or(false)
    }

    fn is_finished(&self) -> bool {
        self.matcher.is_stopped() && self.matcher.stop_reason().is_ok()
    }

    fn fork(&self) -> Box<dyn Constraint> {
        let end_tokens = self.end_tokens.clone();
        Box::new(GuideConstraint { matcher: self.matcher.deep_clone(), end_tokens })
    }
}

impl fmt::Debug for GuideConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = self.matcher.stop_reason();
        f.debug_struct("GuideConstraint").field("state", &reason).finish_non_exhaustive()
    }
}

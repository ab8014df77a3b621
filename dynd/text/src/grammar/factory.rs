//! Compiles grammars for one model; finds and names what is wrong with a schema.

use std::fmt;
use std::sync::{Arc, OnceLock};

use dynd_core::{Constraint, TokenMask};
use parking_lot::Mutex;
use serde_json::Value;

use super::GrammarError;
use super::answer::answer;
use super::cache::{Cache, Key};
use super::expr::Expr;
use super::guide::Guide;
use super::schema::Schema;
use super::spec::GrammarSpec;
use super::trial;
use crate::tokenizer::Tokenizer;

/// Compilations that looking for the faults of one schema may take.
const ATTEMPTS_MAX: u32 = 200;
/// What a schema may lose when it cannot be enforced with it.
const DISPENSABLE: [&str; 5] = ["pattern", "patternProperties", "format", "multipleOf", "allOf"];
/// Characters of the library's message that an error repeats.
const PROBLEM_CHARS_MAX: usize = 160;
/// Bytes of a schema that may leave so many possibilities open that no mask can be computed.
const LARGE_BYTES_MIN: usize = 8 << 10;
/// Schemas of one grammar that are tried out.
const TRIALS_MAX: usize = 16;

/// Makes the constraints of one model. The tree of its vocabulary is built on first use.
pub struct GrammarFactory {
    tokenizer: Arc<Tokenizer>,
    guide: OnceLock<Result<Guide, GrammarError>>,
    cache: Mutex<Cache>,
}

/// A compiled grammar.
#[derive(Debug)]
pub struct Compiled {
    /// In the state before the first token of the answer.
    pub constraint: Box<dyn Constraint>,
    /// What the schemas say and nobody enforces, in words for the client.
    pub notices: Vec<String>,
}

impl GrammarFactory {
    /// Costs nothing: the first compilation does the work.
    pub fn new(tokenizer: Arc<Tokenizer>) -> Self {
        GrammarFactory { tokenizer, guide: OnceLock::new(), cache: Mutex::default() }
    }

    /// Compiles what `spec` asks for, or copies what was compiled for the same before. Takes
    /// milliseconds, the first time up to a second.
    pub fn compile(&self, spec: &GrammarSpec) -> Result<Compiled, GrammarError> {
        let key = Key::of(spec);
        if let Some(outcome) = self.cache.lock().get(key) {
            return outcome;
        }
        let outcome = self.compile_anew(spec);
        self.cache.lock().put(key, &outcome);
        outcome
    }

    fn compile_anew(&self, spec: &GrammarSpec) -> Result<Compiled, GrammarError> {
        let guide = self
            .guide
            .get_or_init(|| Guide::new(&self.tokenizer).map_err(GrammarError::Tokenizer))
            .as_ref()
            .map_err(Clone::clone)?;
        let mut notices = Vec::new();
        let writes_token = |name: &str| self.tokenizer.special_id(name).is_some();
        let mut expr = answer(spec, &writes_token, &mut notices)?;
        let compiled = guide.compile(&expr, &self.tokenizer).or_else(|error| {
            let mut repair = Repair { factory: self, guide, attempts: 0, notices: &mut notices };
            if !repair.all(&mut expr)? {
                return Err(GrammarError::TooComplex(shortened(&error)));
            }
            let again = guide.compile(&expr, &self.tokenizer);
            again.map_err(|error| GrammarError::TooComplex(shortened(&error)))
        });
        let (mut constraint, warnings) = compiled?;
        self.try_out(guide, &expr)?;
        // The first mask is the dearest, and every copy begins with it.
        let mut mask = TokenMask::none(0);
        constraint.allowed(&mut mask).map_err(|error| GrammarError::TooComplex(error.message))?;
        notices.extend(warnings.iter().map(|warning| format!("not enforced: {warning}")));
        notices.sort();
        notices.dedup();
        Ok(Compiled { constraint: Box::new(constraint), notices })
    }

    /// Begins an output under each large schema: some that compile cannot be followed.
    fn try_out(&self, guide: &Guide, expr: &Expr) -> Result<(), GrammarError> {
        let mut schemas = Vec::new();
        expr.schemas(&mut schemas);
        let is_large = |schema: &&Schema| schema.value().to_string().len() >= LARGE_BYTES_MIN;
        for schema in schemas.into_iter().filter(is_large).take(TRIALS_MAX) {
            let alone = Expr::Json(schema.clone());
            let refused = |problem: String| GrammarError::Schema {
                what: schema.what().to_owned(),
                place: "/".to_owned(),
                problem,
            };
            let compiled = guide.compile(&alone, &self.tokenizer);
            let (mut constraint, _) = compiled.map_err(|error| refused(shortened(&error)))?;
            trial::attempt(&mut constraint, &self.tokenizer)
                .map_err(|error| refused(error.message))?;
        }
        Ok(())
    }
}

impl fmt::Debug for GrammarFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let built = self.guide.get().is_some();
        f.debug_struct("GrammarFactory").field("built", &built).finish_non_exhaustive()
    }
}

/// Looks for the parts of schemas that cannot be enforced.
struct Repair<'a> {
    factory: &'a GrammarFactory,
    guide: &'a Guide,
    attempts: u32,
    notices: &'a mut Vec<String>,
}

impl Repair<'_> {
    /// Repairs every schema within `expr`; whether any needed it.
    fn all(&mut self, expr: &mut Expr) -> Result<bool, GrammarError> {
        match expr {
            Expr::Json(schema) => self.schema(schema),
            Expr::Seq(parts) | Expr::Either(parts) => {
                parts.iter_mut().try_fold(false, |repaired, part| Ok(self.all(part)? || repaired))
            }
            Expr::Optional(part) | Expr::Many(part) => self.all(part),
            Expr::Text(_)
            | Expr::Mark(_)
            | Expr::Any
            | Expr::Until(_)
            | Expr::UntilWithin { .. }
            | Expr::Regex(_) => Ok(false),
        }
    }

    /// Drops what keeps `schema` from being enforced, one thing after the other.
    fn schema(&mut self, schema: &mut Schema) -> Result<bool, GrammarError> {
        let mut repaired = false;
        while let Some(problem) = self.problem(schema) {
            let (place, part) = self.deepest(schema, String::new(), schema.value().clone());
            let key = DISPENSABLE.iter().find(|key| {
                let mut without = part.clone();
                let dropped = without.as_object_mut().and_then(|keys| keys.shift_remove(**key));
                dropped.is_some() && self.problem(&schema.part(&without)).is_none()
            });
            let mut value = schema.value().clone();
            let keys = value.pointer_mut(&place).and_then(Value::as_object_mut);
            let (Some(key), Some(keys), true) = (key, keys, self.attempts < ATTEMPTS_MAX) else {
                return Err(GrammarError::Schema {
                    what: schema.what().to_owned(),
                    place: if place.is_empty() { "/".to_owned() } else { place },
                    problem: shortened(&problem),
                });
            };
            keys.shift_remove(*key);
            self.notices.push(format!("not enforced: '{key}' of {} at {place}", schema.what()));
            *schema = schema.with_value(value);
            repaired = true;
        }
        Ok(repaired)
    }

    /// The deepest part that cannot be enforced by itself, below `part` at `place`.
    fn deepest(&mut self, root: &Schema, place: String, part: Value) -> (String, Value) {
        for (step, child) in children(&part) {
            if self.attempts < ATTEMPTS_MAX && self.problem(&root.part(child)).is_some() {
                return self.deepest(root, format!("{place}{step}"), child.clone());
            }
        }
        (place, part)
    }

    /// Why `schema` alone cannot be enforced.
    fn problem(&mut self, schema: &Schema) -> Option<String> {
        self.attempts += 1;
        self.guide.compile(&Expr::Json(schema.clone()), &self.factory.tokenizer).err()
    }
}

/// The schemas right within a schema, with the JSON pointer to each.
fn children(schema: &Value) -> Vec<(String, &Value)> {
    let mut children = Vec::new();
    for key in ["properties", "patternProperties", "$defs", "definitions"] {
        if let Some(Value::Object(parts)) = schema.get(key) {
            let name = |name: &str| name.replace('~', "~0").replace('/', "~1");
            let parts = parts.iter();
            children.extend(parts.map(|(part, value)| (format!("/{key}/{}", name(part)), value)));
        }
    }
    for key in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        if let Some(Value::Array(parts)) = schema.get(key) {
            let parts = parts.iter().enumerate();
            children.extend(parts.map(|(index, value)| (format!("/{key}/{index}"), value)));
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(part @ Value::Object(_)) = schema.get(key) {
            children.push((format!("/{key}"), part));
        }
    }
    children
}

/// The first line of a message, cut to a length that quotes nothing at length.
fn shortened(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(PROBLEM_CHARS_MAX).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

//! Measures what grammars cost with a real vocabulary: the tree, compiling, and one mask.
//!
//! `cargo run --release -p dynd-text --example mask_cost -- path/to/tokenizer.json`

use std::error::Error;
use std::io::{Write, stdout};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dynd_core::TokenMask;
use dynd_text::{
    AnswerFormat, CallRule, GrammarFactory, GrammarSpec, ReasoningFormat, Specials, TextRule,
    Thinking, Tokenizer, ToolFormat, ToolRule, ToolSchema,
};
use serde_json::{Value, json};

/// Tools of an agent's usual list.
const TOOLS: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("give the path of a tokenizer.json")?;
    let tokenizer = Arc::new(Tokenizer::from_json(&std::fs::read(path)?)?);
    let factory = GrammarFactory::new(Arc::clone(&tokenizer));
    let mut out = stdout().lock();
    writeln!(out, "vocabulary of {} tokens", tokenizer.vocab_size())?;
    let (_, first) = timed(|| factory.compile(&json_object()));
    writeln!(out, "first compilation, with the tree: {first:?}")?;
    let cases = [
        ("any object", json_object(), argument_text().to_owned()),
        ("schema", by_schema(), argument_text().to_owned()),
        ("one of 20 tools", calls(CallRule::Required), call_text()),
        ("text or strict calls", calls(CallRule::Auto), format!("{} {}", prose(), call_text())),
    ];
    for (name, spec, text) in cases {
        let (compiled, compiling) = timed(|| factory.compile(&spec));
        let mut constraint = compiled?.constraint;
        let mut mask = TokenMask::none(u32::try_from(tokenizer.vocab_size())?);
        let mut costs = Vec::new();
        let mut accepting = Duration::ZERO;
        for token in tokenizer.encode(&text, Specials::Parse) {
            let (allowed, cost) = timed(|| constraint.allowed(&mut mask));
            allowed?;
            costs.push(cost);
            if !mask.contains(token) {
                return Err(format!("{name}: the text leaves the grammar").into());
            }
            let (accepted, cost) = timed(|| constraint.accept(token));
            accepted?;
            accepting += cost;
        }
        let steps = u32::try_from(costs.len())?;
        let mean = costs.iter().sum::<Duration>() / steps;
        costs.sort();
        let worst = costs[costs.len() - 1];
        let p95 = costs[costs.len() * 95 / 100];
        writeln!(
            out,
            "{name}: compiled in {compiling:?}; {steps} masks of {mean:?} (95 % below {p95:?}, \
             worst {worst:?}); {:?} a token to accept",
            accepting / steps
        )?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "an example that measures time")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

fn spec(text: TextRule, tools: Option<ToolRule>) -> GrammarSpec {
    let format = AnswerFormat { tools: ToolFormat::Hermes, reasoning: ReasoningFormat::Think };
    GrammarSpec { format, thinking: Thinking::Allowed, text, tools }
}

fn json_object() -> GrammarSpec {
    spec(TextRule::JsonObject, None)
}

fn by_schema() -> GrammarSpec {
    spec(TextRule::JsonSchema(schema()), None)
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "minLength": 1, "description": "the file to change" },
            "old": { "type": "string" },
            "new": { "type": "string", "maxLength": 100000 },
            "limit": { "type": "integer", "exclusiveMinimum": 0, "maximum": 600000 },
            "mode": { "type": "string", "enum": ["read", "write", "append"] },
            "tags": { "type": "array", "items": { "type": "string" }, "maxItems": 8 }
        },
        "required": ["path", "old", "new"],
        "additionalProperties": false
    })
}

fn calls(choice: CallRule) -> GrammarSpec {
    let tool =
        |number| ToolSchema { name: format!("tool_{number}"), schema: schema(), strict: true };
    let tools = (0..TOOLS).map(tool).collect();
    spec(TextRule::Free, Some(ToolRule { tools, choice, parallel: true }))
}

fn argument_text() -> &'static str {
    "{\"path\": \"src/main.rs\", \"old\": \"fn main() {\\n    println!(\\\"hello\\\");\\n}\", \
     \"new\": \"fn main() -> Result<(), Error> {\\n    run(std::env::args())\\n}\\n// Größe: 5 €\", \
     \"limit\": 25000, \"mode\": \"write\", \"tags\": [\"rust\", \"main\"]}"
}

fn call_text() -> String {
    let arguments = argument_text();
    format!("<tool_call>\n{{\"name\": \"tool_7\", \"arguments\": {arguments}}}\n</tool_call>")
}

fn prose() -> &'static str {
    "I'll look at the file first, then change what is wrong in it, and run the tests again."
}

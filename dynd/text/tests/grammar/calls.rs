//! Tool calls: the grammar of each format writes what the parser of that format reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use dynd_core::Constraint;
use dynd_text::{
    AnswerFormat, ArgumentSyntax, CallRule, GrammarError, GrammarFactory, GrammarSpec,
    ParserOptions, Part, ReasoningFormat, TextRule, Thinking, Tokenizer, ToolFormat, ToolRule,
    ToolSchema, parse_answer,
};
use serde_json::{Value, json};

use crate::validate::validate;
use crate::walk::{Random, check, factories, harmony_tokenizer, text_of, tokenizers, walk};

fn search() -> Value {
    json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "minLength": 1 },
            "limit": { "type": "integer", "minimum": 1, "maximum": 50 },
            "order": { "type": "string", "enum": ["new", "old"] },
            "deep": { "type": "boolean" }
        },
        "required": ["query", "limit"],
        "additionalProperties": false
    })
}

fn open() -> Value {
    json!({
        "type": "object",
        "properties": { "paths": { "type": "array", "items": { "type": "integer" } } },
        "required": ["paths"],
        "additionalProperties": false
    })
}

fn schemas() -> BTreeMap<String, Value> {
    BTreeMap::from([("search".to_owned(), search()), ("search-in".to_owned(), open())])
}

fn rule(choice: CallRule, parallel: bool) -> ToolRule {
    let tools = schemas();
    let tools = tools.into_iter().map(|(name, schema)| ToolSchema { name, schema, strict: true });
    ToolRule { tools: tools.collect(), choice, parallel }
}

fn spec(format: ToolFormat, choice: CallRule, parallel: bool) -> GrammarSpec {
    let reasoning = match format {
        ToolFormat::Harmony => ReasoningFormat::Harmony,
        _ => ReasoningFormat::Think,
    };
    GrammarSpec {
        format: AnswerFormat { tools: format, reasoning },
        thinking: Thinking::Allowed,
        text: TextRule::Free,
        tools: Some(rule(choice, parallel)),
    }
}

/// Every format with tokenizers that write it: where its marks are the end of strings for whoever
/// reads it, one that has them as special tokens.
fn cases() -> Vec<(ToolFormat, Arc<Tokenizer>, Arc<GrammarFactory>)> {
    let factory = |tokenizer: &Arc<Tokenizer>| Arc::new(GrammarFactory::new(Arc::clone(tokenizer)));
    let plain = tokenizers().map(|tokenizer| (factory(&tokenizer), tokenizer));
    let harmony = harmony_tokenizer();
    let formats = ToolFormat::ALL.into_iter().map(|(format, _)| format);
    let cases = formats.flat_map(|format| match format {
        ToolFormat::None => Vec::new(),
        ToolFormat::Harmony => vec![(format, Arc::clone(&harmony), factory(&harmony))],
        _ => {
            let pairs = plain.iter();
            pairs.map(|(factory, t)| (format, Arc::clone(t), Arc::clone(factory))).collect()
        }
    });
    cases.collect()
}

/// Texts that bring a random walk through `format` to its end.
fn ways_out(format: ToolFormat) -> Vec<&'static str> {
    let syntax = format.call_syntax().expect("has calls");
    let mut ways = vec!["\"", "}", "]", "1", "</think>", "<|end|>"];
    if let ArgumentSyntax::Tagged { after_value, .. } = syntax.arguments {
        ways.extend([after_value, syntax.end]);
    }
    ways
}

fn parts(spec: &GrammarSpec, text: &str) -> Vec<Part> {
    let prompt_tail = match spec.is_harmony() {
        true => "<|start|>assistant".to_owned(),
        false => String::new(),
    };
    let options = ParserOptions { prompt_tail, calls: true, schemas: Arc::new(schemas()) };
    parse_answer(spec.format, options, text, false).parts
}

/// The calls of an answer, each with arguments that follow its tool's schema.
fn calls(spec: &GrammarSpec, text: &str) -> Vec<String> {
    let calls = parts(spec, text).into_iter().filter_map(|part| match part {
        Part::Call { name, arguments, .. } => Some((name, arguments)),
        Part::Text(_) | Part::Thinking(_) => None,
    });
    let checked = calls.map(|(name, arguments)| {
        let value: Value = serde_json::from_str(&arguments)
            .unwrap_or_else(|error| panic!("{error}: {arguments} in {text:?}"));
        validate(&schemas()[&name], &value).unwrap_or_else(|error| panic!("{error} in {text:?}"));
        name
    });
    checked.collect()
}

#[test]
fn a_required_call_is_what_the_parser_reads_in_every_format() {
    for (format, tokenizer, factory) in cases() {
        let spec = spec(format, CallRule::Required, true);
        let compiled = factory.compile(&spec).expect("compiles");
        let mut most = 0;
        for seed in 0..16 {
            let mut random = Random(seed);
            let output =
                walk(&tokenizer, &*compiled.constraint, &mut random, "", &ways_out(format));
            let text = text_of(&tokenizer, &output);
            let calls = calls(&spec, &text);
            assert!(!calls.is_empty(), "{format}: {text:?}");
            let has_text = parts(&spec, &text).iter().any(|part| matches!(part, Part::Text(_)));
            assert!(!has_text || spec.is_harmony(), "{format}: {text:?}");
            most = most.max(calls.len());
        }
        let several = format.call_syntax().expect("has calls").between.is_some();
        assert_eq!(most > 1, several, "{format} writes up to {most} calls");
    }
}

#[test]
fn fr_054_a_named_tool_gets_arguments_by_its_schema_and_nothing_else() {
    for (format, tokenizer, factory) in cases() {
        let spec = spec(format, CallRule::Named("search".to_owned()), true);
        let compiled = factory.compile(&spec).expect("compiles");
        for seed in 0..10 {
            let mut random = Random(seed);
            let output =
                walk(&tokenizer, &*compiled.constraint, &mut random, "", &ways_out(format));
            let text = text_of(&tokenizer, &output);
            assert_eq!(calls(&spec, &text), ["search"], "{format}: {text:?}");
        }
    }
}

#[test]
fn strict_tools_leave_text_free_and_bind_calls() {
    for (format, tokenizer, factory) in cases() {
        for parallel in [true, false] {
            let spec = spec(format, CallRule::Auto, parallel);
            let compiled = factory.compile(&spec).expect("compiles");
            for seed in 0..6 {
                let mut random = Random(seed);
                let syntax = format.call_syntax().expect("has calls");
                let before = if syntax.begin.starts_with('{') { "" } else { "so: " };
                let opening = match seed % 3 {
                    0 => String::new(),
                    1 => format!("{before}{}{}", syntax.section_begin, syntax.begin),
                    _ => format!("{}{}", syntax.section_begin, syntax.begin),
                };
                let opening = if spec.is_harmony() { syntax.begin } else { &opening };
                let ways = ways_out(format);
                let output = walk(&tokenizer, &*compiled.constraint, &mut random, opening, &ways);
                let text = text_of(&tokenizer, &output);
                let calls = calls(&spec, &text);
                assert!(parallel || calls.len() <= 1, "{format}: {text:?}");
                assert!(opening.is_empty() || !calls.is_empty(), "{format}: {text:?}");
            }
        }
    }
}

fn hermes(factory: &GrammarFactory, spec: GrammarSpec) -> Box<dyn Constraint> {
    factory.compile(&spec).expect("compiles").constraint
}

#[test]
fn calls_are_bound_wherever_they_stand() {
    for (tokenizer, factory) in factories() {
        let call = "<tool_call>\n{\"name\": \"search\", \"arguments\": {\"query\": \"a\", \"limit\": 5}}\n</tool_call>";
        let bad = call.replace('5', "\"5\"");
        let auto = hermes(&factory, spec(ToolFormat::Hermes, CallRule::Auto, true));
        let says = |text: &str| check(&tokenizer, &*auto, text);
        assert_eq!(says("no call at all"), Ok(true));
        assert_eq!(says(&format!("first {call} then {call} done")), Ok(true));
        assert_eq!(says(&format!("<think>hm</think>\n\nfirst {call} done")), Ok(true));
        assert_eq!(says(&format!("<think>hm {call}")), Ok(true), "a call ends the thinking");
        for before in ["", "first ", "<think>hm</think>", "<think>hm "] {
            assert!(says(&format!("{before}{bad}")).is_err(), "{before}");
        }
        let required = hermes(&factory, spec(ToolFormat::Hermes, CallRule::Required, false));
        let says = |text: &str| check(&tokenizer, &*required, text);
        assert_eq!(says(&format!("<think>hm </thin</think>\n\n{call}")), Ok(true));
        assert_eq!(says(&format!("<think>hm {call}")), Ok(true));
        assert!(says(&format!("<think>hm {bad}")).is_err());
        assert_eq!(says(&format!("{call}\n{call}")), Err(call.len()), "one call only");
        assert_eq!(says("no call at all"), Err(0));
        assert_eq!(says("<think>no call at all"), Ok(false));
    }
}

#[test]
fn an_answer_by_schema_or_calls_where_both_are_asked_for() {
    for (tokenizer, factory) in factories() {
        let text = TextRule::JsonSchema(json!({
            "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"],
            "additionalProperties": false
        }));
        let mut spec = spec(ToolFormat::Hermes, CallRule::Auto, true);
        spec.tools.as_mut().unwrap().tools.iter_mut().for_each(|tool| tool.strict = false);
        let both = hermes(&factory, GrammarSpec { text, ..spec });
        let says = |text: &str| check(&tokenizer, &*both, text);
        assert_eq!(says("{\"ok\": true}"), Ok(true));
        assert!(says("{\"ok\": 1}").is_err());
        let call =
            "<tool_call>\n{\"name\": \"search\", \"arguments\": {\"anything\": 5}}\n</tool_call>";
        assert_eq!(says(call), Ok(true), "arguments of a tool that is not strict are any object");
        assert_eq!(says("plain"), Err(0));
    }
}

#[test]
fn what_cannot_be_called_is_refused() {
    let [(_, factory), _] = factories();
    let compile = |spec: &GrammarSpec| factory.compile(spec).map(drop);
    let unknown = spec(ToolFormat::Hermes, CallRule::Named("delete".to_owned()), true);
    assert_eq!(compile(&unknown), Err(GrammarError::UnknownTool("delete".to_owned())));
    let none = spec(ToolFormat::None, CallRule::Required, true);
    assert_eq!(compile(&none), Err(GrammarError::NoCalls));
    let mut empty = spec(ToolFormat::Hermes, CallRule::Required, true);
    empty.tools.as_mut().unwrap().tools.clear();
    assert_eq!(compile(&empty), Err(GrammarError::NoTools));
    let free = GrammarSpec { tools: None, ..spec(ToolFormat::Hermes, CallRule::Auto, true) };
    assert!(!free.limits());
    assert_eq!(compile(&free), Err(GrammarError::Unlimited));
    let mut broken = spec(ToolFormat::Hermes, CallRule::Required, true);
    broken.tools.as_mut().unwrap().tools[0].schema = json!({ "properties": { "n": { "type": "integer", "minimum": 9, "maximum": 3 } }, "required": ["n"] });
    let error = compile(&broken).expect_err("impossible").to_string();
    assert!(error.contains("the tool 'search'") && error.contains("/properties/n"), "{error}");
}

//! Grammars under a real executor: a small random model writes JSON and calls when it is held to
//! them, beside others, through preemptions, and as it would alone.

#[expect(dead_code, reason = "this file uses its part")]
mod support;

use std::sync::Arc;

use dynd_core::{FinishReason, SamplingParams, SeqId, Time, TokenId};
use dynd_engine::cpu::{CpuConfig, CpuExecutor, KvDtype};
use dynd_engine::model::Model;
use dynd_text::{
    AnswerFormat, CallRule, GrammarFactory, GrammarSpec, ParserOptions, Part, ReasoningFormat,
    TextRule, Thinking, Tokenizer, ToolFormat, ToolRule, ToolSchema, parse_answer,
};
use dynd_worker::{Job, WorkerCore};
use serde_json::{Value, json};
use support::Reader;
use support::device::{config, text};

const ROWS_MAX: u32 = 8;
const BYTES: u32 = 256;

fn core(slots: u32) -> WorkerCore<CpuExecutor> {
    let cpu =
        CpuConfig { threads: 1, isa: None, kv_dtype: KvDtype::F32, slots, sampler_slots: ROWS_MAX };
    let executor = CpuExecutor::new(&Model::tiny(), cpu).expect("the built-in model fits");
    WorkerCore::new(executor, &config(ROWS_MAX, 128))
}

fn drain(core: &mut WorkerCore<CpuExecutor>) {
    for now in 1..20_000 {
        let worked = core.step(Time(now)).expect("step");
        if !worked && core.is_idle() {
            core.check().expect("invariants hold");
            return;
        }
    }
    panic!("does not end: {:?}", core.stats());
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "minLength": 1, "maxLength": 12 },
            "mode": { "enum": ["r", "w"] },
            "lines": { "type": "array", "items": { "type": "integer", "minimum": 0, "maximum": 99 },
                "minItems": 1, "maxItems": 3 }
        },
        "required": ["path", "mode", "lines"],
        "additionalProperties": false
    })
}

fn spec(choice: CallRule) -> GrammarSpec {
    let tool = |name: &str| ToolSchema { name: name.to_owned(), schema: schema(), strict: false };
    GrammarSpec {
        format: AnswerFormat { tools: ToolFormat::Hermes, reasoning: ReasoningFormat::None },
        thinking: Thinking::Off,
        text: TextRule::JsonSchema(schema()),
        tools: Some(ToolRule {
            tools: vec![tool("open"), tool("search")],
            choice,
            parallel: false,
        }),
    }
}

/// A job of the byte tokenizer's model, ended by its end tokens, held to `spec`.
fn job(reader: &Reader, factory: &GrammarFactory, spec: Option<&GrammarSpec>, seed: u32) -> Job {
    let constraint = spec.map(|spec| factory.compile(spec).expect("compiles").constraint);
    let temperature = if seed.is_multiple_of(2) { 0.0 } else { 1.0 };
    let params = SamplingParams { temperature, seed: seed.into(), ..SamplingParams::GREEDY };
    let max_tokens = if spec.is_some() { 800 } else { 60 };
    let stop_ids = vec![257, 258];
    Job { constraint, params, stop_ids, ..reader.job(&text(seed, 25, BYTES), max_tokens) }
}

fn text_of(tokens: &[TokenId]) -> String {
    Tokenizer::bytes().decode(tokens)
}

fn assert_follows_the_schema(arguments: &str) {
    let value: Value = serde_json::from_str(arguments).expect("JSON");
    let path = value["path"].as_str().expect("required").chars().count();
    assert!((1..=12).contains(&path), "{arguments}");
    assert!(["r", "w"].contains(&value["mode"].as_str().expect("required")), "{arguments}");
    let lines = value["lines"].as_array().expect("required");
    assert!((1..=3).contains(&lines.len()), "{arguments}");
    assert!(lines.iter().all(|line| line.as_u64().is_some_and(|line| line <= 99)), "{arguments}");
    assert_eq!(value.as_object().expect("an object").len(), 3);
}

#[test]
fn fr_054_a_required_tool_is_called_with_arguments_by_its_schema() {
    let factory = GrammarFactory::new(Arc::new(Tokenizer::bytes()));
    for (choice, names) in [
        (CallRule::Named("search".to_owned()), &["search"][..]),
        (CallRule::Required, &["open", "search"]),
    ] {
        let spec = spec(choice);
        let mut core = core(400);
        let readers: Vec<Reader> = (0..6).map(|_| Reader::default()).collect();
        for (seed, reader) in (0..).zip(&readers) {
            core.submit(SeqId(seed.into()), job(reader, &factory, Some(&spec), seed));
        }
        drain(&mut core);
        for reader in &readers {
            assert_eq!(reader.failure(), None);
            assert_eq!(reader.done().expect("done").0, FinishReason::Stop);
            let answer = text_of(&reader.tokens());
            let options = ParserOptions { calls: true, ..ParserOptions::default() };
            let parts = parse_answer(spec.format, options, &answer, false).parts;
            let [Part::Call { name, arguments, .. }] = &parts[..] else {
                panic!("not one call: {answer:?}");
            };
            assert!(names.contains(&name.as_str()), "{name}");
            assert_follows_the_schema(arguments);
        }
    }
}

#[test]
fn rows_with_and_without_a_grammar_are_what_they_are_alone() {
    let factory = GrammarFactory::new(Arc::new(Tokenizer::bytes()));
    let json = GrammarSpec { tools: None, ..spec(CallRule::Auto) };
    let call = spec(CallRule::Required);
    let specs = [None, Some(&json), None, Some(&call), Some(&json)];
    let alone: Vec<Vec<TokenId>> = (0..)
        .zip(&specs)
        .map(|(seed, spec)| {
            let (mut core, reader) = (core(400), Reader::default());
            core.submit(SeqId(0), job(&reader, &factory, *spec, seed));
            drain(&mut core);
            reader.tokens()
        })
        .collect();
    // The small pool makes the five preempt each other.
    for (slots, preempts) in [(400, false), (20, true)] {
        let mut core = core(slots);
        let readers: Vec<Reader> = specs.iter().map(|_| Reader::default()).collect();
        for (seed, (reader, spec)) in (0..).zip(readers.iter().zip(&specs)) {
            core.submit(SeqId(seed.into()), job(reader, &factory, *spec, seed));
        }
        drain(&mut core);
        assert_eq!(core.stats().scheduler.preemptions > 0, preempts, "{:?}", core.stats());
        for ((reader, alone), spec) in readers.iter().zip(&alone).zip(&specs) {
            assert_eq!(reader.tokens(), *alone);
            if *spec == Some(&json) {
                assert_follows_the_schema(&text_of(&reader.tokens()));
            }
        }
    }
}

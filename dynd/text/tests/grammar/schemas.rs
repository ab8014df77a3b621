//! JSON answers: they parse, they follow their schema, and what is not enforced is said.

use dynd_text::{
    AnswerFormat, Compiled, GrammarError, GrammarFactory, GrammarSpec, ReasoningFormat, TextRule,
    Thinking, ToolFormat,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::validate::validate;
use crate::walk::{Random, check, factories, read, text_of, walk};

const WAYS_OUT: [&str; 5] = ["\"", "}", "]", "\"}", "0"];

fn spec(text: TextRule) -> GrammarSpec {
    GrammarSpec {
        format: AnswerFormat { tools: ToolFormat::None, reasoning: ReasoningFormat::None },
        thinking: Thinking::Off,
        text,
        tools: None,
    }
}

fn compile(factory: &GrammarFactory, schema: &Value) -> Result<Compiled, GrammarError> {
    factory.compile(&spec(TextRule::JsonSchema(schema.clone())))
}

/// What agents use in the schemas of their tools.
fn schemas() -> Vec<Value> {
    vec![
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "mode": { "type": "string", "enum": ["read", "write", "read/write"] },
                "name": { "type": "string", "pattern": "^[a-z]{2,4}$" },
                "limit": { "type": "integer", "exclusiveMinimum": 0, "maximum": 600000 },
                "ratio": { "type": "number", "minimum": -1.5, "maximum": 2 },
                "title": { "type": "string", "maxLength": 5, "default": "x" },
                "tags": {
                    "type": "array", "minItems": 1, "maxItems": 3,
                    "items": { "type": "string", "minLength": 1, "maxLength": 3 }
                },
                "kind": { "const": "file" }
            },
            "required": ["mode", "limit", "tags"],
            "additionalProperties": false
        }),
        json!({
            "type": "object",
            "properties": { "id": { "type": "integer" } },
            "patternProperties": { "^x-": { "type": "boolean" } },
            "required": ["id"],
            "additionalProperties": false
        }),
        json!({
            "type": "object",
            "properties": {
                "value": { "anyOf": [
                    { "type": "null" },
                    { "type": "integer", "minimum": 10, "maximum": 99 },
                    {
                        "type": "object",
                        "properties": { "on": { "type": "boolean" } },
                        "required": ["on"],
                        "additionalProperties": false
                    }
                ] }
            },
            "required": ["value"],
            "additionalProperties": false
        }),
        json!({ "type": "array", "items": { "type": "string", "pattern": "[0-9]" }, "maxItems": 2 }),
        json!({ "enum": [1, "one", null, true, { "a": [] }] }),
    ]
}

#[test]
fn every_output_under_a_schema_parses_and_follows_it() {
    for (tokenizer, factory) in factories() {
        for (number, schema) in schemas().iter().enumerate() {
            let compiled = compile(&factory, schema).expect("compiles");
            assert!(compiled.notices.is_empty(), "{:?}", compiled.notices);
            for seed in 0..30 {
                let mut random = Random(seed * 31 + number as u64);
                let output = walk(&tokenizer, &*compiled.constraint, &mut random, "", &WAYS_OUT);
                let text = text_of(&tokenizer, &output);
                let value = read(&text).expect("all numbers are bounded");
                validate(schema, &value).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }
}

#[test]
fn a_json_object_is_any_object_and_nothing_else() {
    for (tokenizer, factory) in factories() {
        let compiled = factory.compile(&spec(TextRule::JsonObject)).expect("compiles");
        for seed in 0..30 {
            let output = walk(&tokenizer, &*compiled.constraint, &mut Random(seed), "", &WAYS_OUT);
            let text = text_of(&tokenizer, &output);
            assert!(read(&text).is_none_or(|value| value.is_object()), "{text}");
        }
        let says = |text| check(&tokenizer, &*compiled.constraint, text);
        assert_eq!(says("{\"a\": [1, 2.5e3, null], \"ü\": \"\\n\"}"), Ok(true));
        assert_eq!(says("{\n  \"a\": {\n    \"b\": 1\n  }\n}"), Ok(true));
        assert_eq!(says("{\"a\""), Ok(false));
        assert_eq!(says("[1]"), Err(0));
        assert_eq!(says("Sure: {}"), Err(0));
        let spaces = format!("{{{}}}", " ".repeat(500));
        assert!(says(&spaces).is_err(), "white space has a bound");
    }
}

#[test]
fn thinking_passes_freely_before_json() {
    for (tokenizer, factory) in factories() {
        let think = |thinking| GrammarSpec {
            format: AnswerFormat { tools: ToolFormat::None, reasoning: ReasoningFormat::Think },
            thinking,
            ..spec(TextRule::JsonObject)
        };
        let allowed = factory.compile(&think(Thinking::Allowed)).expect("compiles").constraint;
        let says = |text| check(&tokenizer, &*allowed, text);
        assert_eq!(says("<think>\nhm {\"</think>\n\n{\"a\":1}"), Ok(true));
        assert_eq!(says("{\"a\":1}"), Ok(true));
        assert_eq!(says("<think>\nhm {}"), Ok(false));
        assert_eq!(says("hm"), Err(0));
        let open = factory.compile(&think(Thinking::Open)).expect("compiles").constraint;
        let says = |text| check(&tokenizer, &*open, text);
        assert_eq!(says("hm {}</think>{\"a\":1}"), Ok(true));
        assert_eq!(says("{}"), Ok(false), "still thinking");
        let off = factory.compile(&think(Thinking::Off)).expect("compiles").constraint;
        assert_eq!(check(&tokenizer, &*off, "<think>"), Err(0));
    }
}

#[test]
fn what_is_not_enforced_is_left_out_and_said() {
    let [(tokenizer, factory), _] = factories();
    let schema = json!({
        "type": "object",
        "propertyNames": { "pattern": "^[a-z]+$" },
        "properties": {
            "a/b": { "type": "string", "pattern": "^(?!x)[a-z]+$" },
            "n": { "type": "array", "uniqueItems": true, "items": { "type": "integer" } }
        },
        "x-guidance": { "lenient": false }
    });
    let compiled = compile(&factory, &schema).expect("compiles");
    for said in ["propertyNames", "uniqueItems", "x-guidance", "'pattern'", "/properties/a~1b"] {
        assert!(compiled.notices.iter().any(|notice| notice.contains(said)), "{said}");
    }
    let text = "{\"a/b\": \"x\", \"n\": [1, 1]}";
    assert_eq!(check(&tokenizer, &*compiled.constraint, text), Ok(true));
    assert!(check(&tokenizer, &*compiled.constraint, "{\"n\": [true]}").is_err());
}

#[test]
fn an_impossible_schema_is_refused_with_its_place() {
    let [(_, factory), _] = factories();
    let inner = json!({ "type": "integer", "minimum": 9, "maximum": 3 });
    let cases = [
        (
            json!({ "type": "object", "properties": { "n": inner }, "required": ["n"] }),
            "/properties/n",
        ),
        (
            json!({ "type": "array", "items": { "anyOf": [{ "type": "thing" }] }, "minItems": 1 }),
            "/items/anyOf/0",
        ),
        (json!({ "$ref": "https://example.com/schema.json" }), "(at /)"),
        (json!(false), "(at /)"),
        (json!([]), "(at /)"),
    ];
    for (schema, place) in cases {
        let error = compile(&factory, &schema).expect_err("impossible").to_string();
        assert!(error.contains("the response format") && error.contains(place), "{error}");
        assert!(error.len() < 400, "{error}");
    }
}

#[test]
fn large_and_deep_schemas_are_refused() {
    let [(_, factory), _] = factories();
    let deep = (0..70).fold(json!({}), |inner, _| json!({ "items": inner }));
    let error = compile(&factory, &deep).expect_err("too deep").to_string();
    assert!(error.contains("64 levels"), "{error}");
    let large = json!({ "description": "x".repeat(300 << 10) });
    let error = compile(&factory, &large).expect_err("too large").to_string();
    assert!(error.contains("256 KiB"), "{error}");
    let heavy = json!({ "type": "string", "pattern": "^((a{1,999}){1,999}){1,999}$" });
    drop(compile(&factory, &heavy));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whatever a client sends as a schema: a grammar or an error, and an output that parses.
    #[test]
    fn no_schema_panics(schema in any_schema(), seed in any::<u64>()) {
        let [(tokenizer, factory), _] = factories();
        if let Ok(compiled) = compile(&factory, &schema) {
            let mut random = Random(seed);
            let output = walk(&tokenizer, &*compiled.constraint, &mut random, "", &WAYS_OUT);
            let text = text_of(&tokenizer, &output);
            read(&text);
        }
    }
}

/// Objects of the keywords with values that mostly fit them.
fn any_schema() -> impl Strategy<Value = Value> {
    let number = prop_oneof![(-5i64..50).prop_map(Value::from), Just(json!(1.5)), Just(json!("1"))];
    let leaf = prop_oneof![
        prop_oneof![
            Just("string"),
            Just("integer"),
            Just("number"),
            Just("boolean"),
            Just("null"),
            Just("object"),
            Just("array"),
            Just("thing"),
        ]
        .prop_map(|kind| json!({ "type": kind })),
        prop::collection::vec(number.clone(), 0..4).prop_map(|values| json!({ "enum": values })),
        prop_oneof![Just("^a+$"), Just("("), Just("(?=a)b"), Just("\\p{L}"), Just("[^\\x00]")]
            .prop_map(|pattern| json!({ "pattern": pattern })),
        Just(json!({ "$ref": "#/$defs/a" })),
        Just(json!(true)),
        Just(json!(false)),
        Just(json!(null)),
        Just(json!({ "format": "date-time", "type": "string" })),
        Just(json!({ "format": "no-such-format" })),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let keys = prop_oneof![
            Just("items"),
            Just("additionalProperties"),
            Just("not"),
            Just("propertyNames"),
            Just("contains"),
            Just("$defs"),
            Just("properties"),
            Just("anyOf"),
        ];
        let sizes = prop_oneof![
            Just("minItems"),
            Just("maxItems"),
            Just("minLength"),
            Just("maxLength"),
            Just("minimum"),
            Just("exclusiveMaximum"),
            Just("multipleOf"),
            Just("minProperties"),
            Just("required"),
        ];
        prop_oneof![
            (keys, inner.clone()).prop_map(|(key, value)| json!({ key: value })),
            (sizes, number.clone(), inner.clone()).prop_map(|(key, size, other)| {
                let mut schema = other;
                if let Value::Object(keys) = &mut schema {
                    keys.insert(key.to_owned(), size);
                }
                schema
            }),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({
                "type": "object",
                "properties": { "a": a, "b": b },
                "required": ["a"],
                "$defs": { "a": { "type": "integer" } }
            })),
            (
                prop_oneof![Just("anyOf"), Just("oneOf"), Just("allOf")],
                prop::collection::vec(inner, 0..4)
            )
                .prop_map(|(key, parts)| json!({ key: parts })),
        ]
    })
}

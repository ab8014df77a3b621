//! What a grammar cannot follow is refused before an answer; what it follows has bounds.

use std::sync::Arc;

use dynd_text::{
    AnswerFormat, CallRule, Compiled, GrammarError, GrammarFactory, GrammarSpec, ReasoningFormat,
    Specials, TextRule, Thinking, Tokenizer, ToolFormat, ToolRule, ToolSchema,
};
use serde_json::{Map, Value, json};

use crate::walk::{Random, check, factories, mask_for, read, text_of, tokenizers, walk};

const WAYS_OUT: [&str; 5] = ["\"", "}", "]", "\"}", "0"];

fn spec(text: TextRule) -> GrammarSpec {
    GrammarSpec {
        format: AnswerFormat { tools: ToolFormat::None, reasoning: ReasoningFormat::None },
        thinking: Thinking::Off,
        text,
        tools: None,
    }
}

fn tool(tools: ToolFormat, schema: &Value) -> GrammarSpec {
    let tool = ToolSchema { name: "act".to_owned(), schema: schema.clone(), strict: true };
    let rule = ToolRule { tools: vec![tool], choice: CallRule::Required, parallel: false };
    GrammarSpec {
        format: AnswerFormat { tools, reasoning: ReasoningFormat::None },
        tools: Some(rule),
        ..spec(TextRule::Free)
    }
}

fn compile(factory: &GrammarFactory, schema: &Value) -> Result<Compiled, GrammarError> {
    factory.compile(&spec(TextRule::JsonSchema(schema.clone())))
}

/// An object of `count` optional strings.
fn options(name: &str, count: usize) -> Value {
    let properties = (0..count).map(|at| (format!("{name}_{at}"), json!({ "type": "string" })));
    json!({
        "type": "object",
        "properties": properties.collect::<Map<_, _>>(),
        "additionalProperties": false
    })
}

/// An array of any of `kinds` such objects.
fn kinds(kinds: usize, count: usize) -> Value {
    let kinds: Vec<Value> = (0..kinds).map(|kind| options(&format!("k{kind}"), count)).collect();
    json!({ "type": "array", "items": { "anyOf": kinds } })
}

/// No finite value fits these.
fn endless() -> Vec<Value> {
    let definitions = json!({
        "a": { "$ref": "#/$defs/b" },
        "b": { "allOf": [{ "type": "object" }, { "$ref": "#/$defs/a" }] },
        "list": { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/list" } }
    });
    let whole = |mut schema: Value| {
        schema["$defs"] = definitions.clone();
        schema
    };
    vec![
        json!({ "$ref": "#" }),
        whole(json!({ "$ref": "#/$defs/a" })),
        whole(json!({ "anyOf": [{ "$ref": "#/$defs/a" }, { "$ref": "#/$defs/list" }] })),
        json!({ "allOf": [{ "$ref": "#" }] }),
        json!({
            "type": "object", "properties": { "a": { "$ref": "#" } }, "required": ["a"]
        }),
        whole(json!({
            "type": "object", "properties": { "a": { "$ref": "#/$defs/list" } }, "required": ["a"]
        })),
    ]
}

#[test]
fn a_schema_that_only_leads_back_to_itself_is_refused() {
    let [(_, factory), _] = factories();
    for schema in endless() {
        let error = compile(&factory, &schema).expect_err("endless").to_string();
        assert!(error.contains("no finite value"), "{error}");
        for format in [ToolFormat::Hermes, ToolFormat::Qwen3Coder] {
            let error = factory.compile(&tool(format, &schema)).expect_err("endless").to_string();
            assert!(error.contains("the tool 'act'"), "{error}");
        }
    }
}

#[test]
fn ways_into_endless_values_are_closed_and_others_stay_open() {
    let schema = json!({
        "type": "object",
        "properties": {
            "next": { "$ref": "#" },
            "gone": { "$ref": "#/$defs/loop" },
            "one": { "anyOf": [{ "$ref": "#/$defs/loop" }, { "type": "integer" }] }
        },
        "additionalProperties": false,
        "$defs": { "loop": { "$ref": "#/$defs/loop" } }
    });
    for (tokenizer, factory) in factories() {
        let compiled = compile(&factory, &schema).expect("has finite values");
        let says = |text| check(&tokenizer, &*compiled.constraint, text);
        assert_eq!(says(r#"{"next": {"next": {"one": 1}}}"#), Ok(true));
        assert!(says(r#"{"gone": 1}"#).is_err());
        for seed in 0..10 {
            let random = &mut Random(seed);
            let output = walk(&tokenizer, &*compiled.constraint, random, "", &WAYS_OUT);
            read(&text_of(&tokenizer, &output));
        }
    }
}

/// A parameter in markup stands alone, and what it refers to is still the tool's whole schema.
#[test]
fn a_parameter_may_refer_to_the_schema_that_it_is_part_of() {
    let schema = json!({
        "type": "object",
        "properties": { "size": { "type": "integer" }, "child": { "$ref": "#" } },
        "additionalProperties": false
    });
    let mut child = schema.clone();
    child["properties"]["child"] = json!({
        "type": "object",
        "properties": { "of": { "$ref": "#/properties/size" }, "in": { "$ref": "#" } },
        "additionalProperties": false
    });
    let [(tokenizer, factory), _] = factories();
    let call = |child: &str| {
        format!(
            "<tool_call>\n<function=act>\n<parameter=child>\n{child}\n</parameter>\n</function>\n</tool_call>"
        )
    };
    let compiled = factory.compile(&tool(ToolFormat::Qwen3Coder, &child)).expect("compiles");
    let says = |text: &str| check(&tokenizer, &*compiled.constraint, &call(text));
    assert_eq!(says(r#"{"of": 3, "in": {"size": 1, "child": {"of": 2}}}"#), Ok(true));
    assert!(says(r#"{"in": {"of": 2}}"#).is_err());
}

#[test]
fn a_large_schema_is_followed_or_refused_before_the_answer() {
    let [_, (tokenizer, factory)] = factories();
    let follow = |schema: &Value, text: &str| {
        let compiled = compile(&factory, schema).expect("within the limits");
        assert_eq!(check(&tokenizer, &*compiled.constraint, text), Ok(true));
    };
    follow(&options("p", 700), r#"{"p_3": "x", "p_650": "y"}"#);
    follow(&kinds(50, 40), r#"[{"k7_3": "x", "k7_39": "y"}, {"k49_0": ""}]"#);
    for schema in [options("p", 3000), kinds(80, 40)] {
        let error = compile(&factory, &schema).expect_err("too much").to_string();
        assert!(error.contains("too many possibilities"), "{error}");
        let call = tool(
            ToolFormat::Hermes,
            &json!({
                "type": "object", "properties": { "of": schema }, "required": ["of"]
            }),
        );
        let error = factory.compile(&call).expect_err("too much").to_string();
        assert!(error.contains("the tool 'act'") && error.contains("too many"), "{error}");
    }
}

/// Outside of strings.
fn longest_space(text: &str) -> usize {
    let (mut longest, mut run, mut is_text, mut is_escaped) = (0, 0, false, false);
    for letter in text.chars() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if is_text => is_escaped = true,
            '"' => is_text = !is_text,
            _ => {}
        }
        run = if letter.is_whitespace() && !is_text { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// The JSON that a model writes which wants nothing but white space.
fn spaced(tokenizer: &Tokenizer, compiled: &Compiled, random: &mut Random) -> String {
    const OTHER: [&str; 9] = ["}", "]", "\"", ":", ",", "{", "[", "1", "a"];
    let first = |text: &str| tokenizer.encode(text, Specials::Plain)[0];
    let mut constraint = compiled.constraint.fork();
    let (mut mask, mut output) = (mask_for(tokenizer), Vec::new());
    let is_space = |token: &u32| {
        let text = text_of(tokenizer, &[*token]);
        !text.is_empty() && text.chars().all(char::is_whitespace)
    };
    let spaces: Vec<u32> = (0..tokenizer.vocab_size() as u32).filter(is_space).collect();
    while !constraint.is_finished() && output.len() < 400 {
        constraint.allowed(&mut mask).expect("within the limits");
        let text = text_of(tokenizer, &output);
        let is_text = text.chars().filter(|letter| *letter == '"').count() % 2 == 1;
        let allowed = |tokens: &[u32]| -> Vec<u32> {
            tokens.iter().copied().filter(|token| mask.contains(*token)).collect()
        };
        let mut wishes = if is_text { Vec::new() } else { allowed(&spaces) };
        if wishes.is_empty() {
            wishes = allowed(&OTHER.map(first));
        }
        if wishes.is_empty() {
            wishes = allowed(&(0..mask.vocabulary()).collect::<Vec<_>>());
        }
        if wishes.is_empty() {
            break;
        }
        let token = wishes[random.below(wishes.len())];
        constraint.accept(token).expect("an allowed token");
        output.push(token);
    }
    text_of(tokenizer, &output)
}

#[test]
fn white_space_in_json_is_a_blank_or_a_line_break_with_its_indentation() {
    /// A line break of two characters and its indentation.
    const LONGEST: usize = 18;
    let schema = json!({
        "type": "object",
        "properties": { "n": { "type": "integer" }, "l": { "type": "array" } },
        "required": ["n", "l"],
        "additionalProperties": false
    });
    for (tokenizer, factory) in factories() {
        let specs = [
            spec(TextRule::JsonObject),
            spec(TextRule::JsonSchema(schema.clone())),
            tool(ToolFormat::Hermes, &schema),
        ];
        for (number, spec) in specs.iter().enumerate() {
            let compiled = factory.compile(spec).expect("compiles");
            for seed in 0..8 {
                let mut random = Random(seed * 7 + number as u64);
                let text = spaced(&tokenizer, &compiled, &mut random);
                assert!(longest_space(&text) <= LONGEST, "{text:?}");
            }
        }
        let object = factory.compile(&spec(TextRule::JsonObject)).expect("compiles");
        let says = |text: &str| check(&tokenizer, &*object.constraint, text);
        for text in
            ["{\"a\":1,\"b\":2}", "{\"a\": 1, \"b\": 2}", "{\r\n\t\"a\": [\r\n\t\t1\r\n\t]\r\n}"]
        {
            assert_eq!(says(text), Ok(true), "{text:?}");
        }
        for text in ["{\n\n\"a\": 1}", "{\t\t\"a\": 1}", "{    \"a\": 1}"] {
            assert!(says(text).is_err(), "{text:?}");
        }
    }
}

/// Masks of the same walk through both.
fn assert_equal(tokenizer: &Tokenizer, one: &Compiled, other: &Compiled, seed: u64) {
    assert_eq!(one.notices, other.notices);
    let output = walk(tokenizer, &*one.constraint, &mut Random(seed), "", &WAYS_OUT);
    let mut both = [one.constraint.fork(), other.constraint.fork()];
    let mut masks = [mask_for(tokenizer), mask_for(tokenizer)];
    for token in output {
        for (constraint, mask) in both.iter_mut().zip(&mut masks) {
            constraint.allowed(mask).expect("within the limits");
        }
        assert_eq!(masks[0], masks[1]);
        let ends = both.each_mut().map(|constraint| constraint.may_end());
        assert_eq!(ends[0], ends[1]);
        both.iter_mut().for_each(|constraint| constraint.accept(token).expect("allowed"));
    }
}

#[test]
fn a_grammar_that_was_kept_has_the_masks_of_a_fresh_one() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": { "type": "string", "maxLength": 9 },
            "b": { "type": "array", "items": { "type": "integer" }, "uniqueItems": true }
        },
        "required": ["b"]
    });
    for tokenizer in tokenizers() {
        let factory = GrammarFactory::new(Arc::clone(&tokenizer));
        for seed in 0..6 {
            for spec in
                [spec(TextRule::JsonSchema(schema.clone())), tool(ToolFormat::Hermes, &schema)]
            {
                let mut kept = factory.compile(&spec).expect("compiles");
                let fresh = GrammarFactory::new(Arc::clone(&tokenizer)).compile(&spec);
                assert_equal(&tokenizer, &fresh.expect("compiles"), &kept, seed);
                // What is done to a copy is not done to the next.
                let mut mask = mask_for(&tokenizer);
                kept.constraint.allowed(&mut mask).expect("within the limits");
                let token = (0..mask.vocabulary()).find(|token| mask.contains(*token));
                kept.constraint.accept(token.expect("some token")).expect("allowed");
            }
        }
    }
}

/// Two schemas that are equal but for the order of their properties are two grammars.
#[test]
fn kept_grammars_differ_by_the_order_of_properties() {
    let [(tokenizer, factory), _] = factories();
    let schema = |first: &str, second: &str| {
        json!({
            "type": "object",
            "properties": { first: { "type": "integer" }, second: { "type": "integer" } },
            "required": ["a", "b"]
        })
    };
    for (first, second) in [("a", "b"), ("b", "a"), ("a", "b")] {
        let compiled = compile(&factory, &schema(first, second)).expect("compiles");
        let text = format!("{{\"{first}\": 1, \"{second}\": 2}}");
        assert_eq!(check(&tokenizer, &*compiled.constraint, &text), Ok(true));
    }
}

//! Measures what building prompts costs: `cargo run --release -p dynd-text --example prompt_cost
//! [tokenizer.json]`. Without a tokenizer's file bytes stand for tokens.
#![expect(clippy::print_stdout, reason = "a measuring tool prints")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dynd_core::WallMs;
use dynd_protocol::{Arguments, Block, Call, Chat, Content, Message, Role, Tool, ToolResult};
use dynd_text::{
    AnswerFormat, ChatTemplate, PromptBuilder, PromptRules, ReasoningFormat, Specials, Tokenizer,
    ToolFormat, Transcript,
};
use serde_json::json;

const TEMPLATE: &str = include_str!("../tests/fixtures/qwen3.jinja");
const REPEATS: usize = 15;

fn main() {
    let tokenizer = match std::env::args().nth(1) {
        Some(path) => {
            let bytes = std::fs::read(Path::new(&path)).expect("the tokenizer's file is readable");
            Tokenizer::from_json(&bytes).expect("a tokenizer.json")
        }
        None => Tokenizer::bytes(),
    };
    let end = tokenizer.special_id("<|im_end|>").into_iter().collect::<Vec<_>>();
    let tokenizer = Arc::new(tokenizer.with_end_tokens(&end));
    let template = ChatTemplate::new(TEMPLATE, None, None).expect("the fixture is valid");
    let format = AnswerFormat { tools: ToolFormat::Hermes, reasoning: ReasoningFormat::Think };
    let builder = PromptBuilder::new(tokenizer, Arc::new(template), format, PromptRules::default());

    for (messages, tokens) in [(20, 6_000), (100, 30_000), (500, 150_000)] {
        measure(&builder, messages, tokens);
    }
}

fn measure(builder: &PromptBuilder, messages: usize, tokens: usize) {
    let mut chat = session(builder, messages, tokens);
    let (cold, first) = timed(1, || builder.build(&chat, WallMs(0), None).expect("renders"));
    let answer = "<think>\nNext.\n</think>\n\n<tool_call>\n{\"name\": \"read\", \"arguments\": \
        {\"path\": \"a\"}}\n</tool_call><|im_end|>";
    let answer = builder.tokenizer().encode(answer, Specials::Parse);
    let previous = builder.transcript(&first, &answer);
    let (again, _) = timed(REPEATS, || builder.build(&chat, WallMs(0), Some(&previous)));
    chat.messages.extend(round("Next.", "{\"path\":\"a\"}", &words(builder, 1000, 7)));
    let mut times: Vec<Duration> = Vec::new();
    let mut last: Option<Transcript> = None;
    for _ in 0..REPEATS {
        let (time, built) =
            timed(1, || builder.build(&chat, WallMs(0), Some(last.as_ref().unwrap_or(&previous))));
        let built = built.expect("renders");
        assert!(built.ids.starts_with(&previous.ids), "{:?}", built.echo);
        times.push(time);
        last = Some(builder.transcript(&built, &answer));
        chat.messages.extend(round(
            "Next.",
            "{\"path\":\"a\"}",
            &words(builder, 1000, times.len()),
        ));
    }
    times.sort_unstable();
    let last = last.expect("there was a round");
    chat.messages.push(Message::text_of(Role::User, "Another question."));
    let (question, _) = timed(REPEATS, || builder.build(&chat, WallMs(0), Some(&last)));
    println!(
        "{messages} messages, {} tokens: cold {cold:?}, repeated {again:?}, +1k tokens {:?} (best \
         {:?}), a new question {question:?}, transcript {} KiB",
        first.ids.len(),
        times[times.len() / 2],
        times[0],
        last.size_bytes() / 1024
    );
}

/// The shortest of some runs, and the last result.
#[expect(clippy::disallowed_methods, reason = "it measures time")]
fn timed<T>(repeats: usize, mut run: impl FnMut() -> T) -> (Duration, T) {
    let mut once = || {
        let start = Instant::now();
        let result = run();
        (start.elapsed(), result)
    };
    let (mut best, mut result) = once();
    for _ in 1..repeats {
        let (time, next) = once();
        best = best.min(time);
        result = next;
    }
    (best, result)
}

/// A loop of tools of about so many tokens.
fn session(builder: &PromptBuilder, messages: usize, tokens: usize) -> Chat {
    let per_round = tokens / (messages / 2);
    let mut chat = Chat {
        messages: vec![
            Message::text_of(Role::System, words(builder, 4000.min(tokens / 4), 1)),
            Message::text_of(Role::User, "Fix the bug."),
        ],
        add_generation_prompt: true,
        ..Chat::default()
    };
    for at in 0..20 {
        let function = json!({"name": format!("tool_{at}"), "description": "Does things. ".repeat(30),
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}});
        let function = function.as_object().cloned().expect("an object");
        chat.tools.push(Tool::function(&format!("tool_{at}"), function));
    }
    while chat.messages.len() < messages {
        let at = chat.messages.len();
        let thought = format!("Step {at}: {}", words(builder, per_round / 5, at));
        chat.messages.extend(round(
            &thought,
            "{\"path\":\"src/a\"}",
            &words(builder, per_round, at),
        ));
    }
    chat
}

fn round(thought: &str, arguments: &str, output: &str) -> [Message; 2] {
    let call = Call {
        id: "call_1".into(),
        name: "read".into(),
        arguments: Arguments::Text(arguments.into()),
    };
    let thinking = Content::Thinking { text: thought.into(), signature: None };
    let result =
        ToolResult { call_id: "call_1".into(), blocks: vec![Block::text(output)], is_error: false };
    [
        Message::new(Role::Assistant, vec![Block::new(thinking), Block::new(Content::Call(call))]),
        Message::new(Role::Tool, vec![Block::new(Content::Result(result))]),
    ]
}

/// Text of about so many tokens that differs by `seed`.
fn words(builder: &PromptBuilder, tokens: usize, seed: usize) -> String {
    const WORDS: [&str; 12] = [
        "fn ",
        "main() ",
        "{\n    ",
        "let value = ",
        "compute(x, y);\n",
        "// a comment about ",
        "the error ",
        "return ",
        "Ok(()) ",
        "}\n\n",
        "pub struct ",
        "Vec<String> ",
    ];
    let sample: String = WORDS.concat();
    let per_word = builder.tokenizer().encode(&sample, Specials::Plain).len() as f64 / 12.0;
    let count = (tokens as f64 / per_word) as usize;
    (0..count).map(|at| WORDS[(at * 7 + at / 5 + seed) % WORDS.len()]).collect()
}

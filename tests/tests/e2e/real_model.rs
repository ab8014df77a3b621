//! The real model end to end, where it is there.

use std::path::PathBuf;

use dynd_tests::{Launch, test_binary};
use serde_json::json;

use crate::support::{answer, cached_tokens, fully_cached, prompt_tokens, text_of};

/// The path of SmolLM2; `None` says so on stderr. `cargo xtask test` names it.
#[expect(clippy::print_stderr, reason = "a skipped test must be heard of")]
fn smollm2() -> Option<PathBuf> {
    let path = std::env::var_os("DYND_TEST_SMOLLM2").map(PathBuf::from);
    if path.is_none() {
        eprintln!("SKIPPED: DYND_TEST_SMOLLM2 names no model; run `cargo xtask test`");
    }
    path
}

#[test]
fn a_real_model_answers_sensibly_and_remembers_its_prompt() {
    let Some(path) = smollm2() else { return };
    let daemon =
        Launch::new(&test_binary("dynd"), &path.display().to_string()).unwrap().start().unwrap();
    let client = daemon.client();
    let question = "What is the capital of France? Answer in one sentence.";
    let body = json!({
        "model": "smollm2",
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": 24,
    });
    let cold = answer(&client, &[], &body);
    assert!(text_of(&cold).contains("Paris"), "{cold}");
    assert_eq!(cold["choices"][0]["finish_reason"], "stop");
    let warm = answer(&client, &[], &body);
    assert_eq!(text_of(&warm), text_of(&cold));
    assert_eq!(cached_tokens(&warm), fully_cached(prompt_tokens(&warm)));
}

//! Bodies as real harnesses send them, with their texts shortened, and what is read from each.
//!
//! A file of `tests/corpora/responses` holds a `body`, the `roles` of its messages with the kinds of
//! their blocks, its `tools` and the `notices` about it.

use std::fs;
use std::path::Path;

use dynd_protocol::decode_responses;
use serde_json::{Value, json};

use crate::{chat, decoded, outline, sealer};

fn cases() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpora/responses");
    let read = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path()).expect("a file");
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, serde_json::from_str(&text).expect("JSON"))
    };
    let cases: Vec<_> = fs::read_dir(folder)
        .expect("the corpus")
        .map(|entry| read(entry.expect("an entry")))
        .collect();
    assert!(cases.len() > 10, "the corpus is not empty");
    cases
}

#[test]
fn every_body_of_the_corpus_reads_as_it_says() {
    for (name, case) in cases() {
        let (request, notices) = decoded(&case["body"]);
        let chat = chat(&request);
        let roles: Vec<_> = chat.messages.iter().map(outline).collect();
        let tools: Vec<_> = chat.tools.iter().map(|tool| &tool.name).collect();
        let read = json!({ "roles": roles, "tools": tools, "notices": notices });
        let expected = json!({
            "roles": case["roles"], "tools": case["tools"], "notices": case["notices"],
        });
        assert_eq!(read, expected, "{name}");
    }
}

#[test]
fn what_identifies_a_codex_session_is_read_and_is_not_part_of_the_prompt() {
    for (name, mut case) in cases().into_iter().filter(|(name, _)| name.starts_with("codex")) {
        let (request, _) = decoded(&case["body"]);
        assert!(request.prompt_cache_key.is_some(), "{name}");
        let body = case["body"].as_object_mut().expect("an object");
        body.insert("client_metadata".into(), json!({ "other": "order" }));
        assert_eq!(decoded(&case["body"]).0, request, "{name}");
    }
}

#[test]
fn a_body_that_breaks_off_is_refused() {
    for (name, case) in cases() {
        let body = case["body"].to_string().into_bytes();
        for end in (0..body.len()).step_by(61) {
            let error = decode_responses(&body[..end], &sealer()).expect_err("broken");
            assert_eq!(error.status, 400, "{name} at {end}");
        }
    }
}

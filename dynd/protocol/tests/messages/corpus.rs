//! Bodies as real harnesses send them, with their texts shortened, and what is read from each.
//!
//! A file of `tests/corpora/messages` holds a `body`, the `roles` of its messages with the kinds of
//! their blocks, its `tools` and the `notices` about it.

use std::fs;
use std::path::Path;

use dynd_protocol::{Block, Content, decode_count_tokens, decode_messages};
use serde_json::{Value, json};

use crate::chat;

fn kinds(blocks: &[Block]) -> String {
    let kinds: Vec<_> = blocks
        .iter()
        .map(|block| {
            let kind = match &block.content {
                Content::Text(_) => "text".to_owned(),
                Content::Thinking { .. } => "thinking".to_owned(),
                Content::Call(_) => "call".to_owned(),
                Content::Result(result) => format!("result({})", kinds(&result.blocks)),
                Content::ToolReference(_) => "reference".to_owned(),
                Content::Unsupported { .. } => "unsupported".to_owned(),
            };
            if block.cache_control.is_some() { kind + "*" } else { kind }
        })
        .collect();
    kinds.join(" ")
}

#[test]
fn every_body_of_the_corpus_reads_as_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpora/messages");
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("the corpus") {
        let path = entry.expect("an entry").path();
        let case: Value =
            serde_json::from_str(&fs::read_to_string(&path).expect("a file")).expect("JSON");
        let body = case["body"].to_string();
        let (request, notices) = decode_messages(body.as_bytes()).expect("accepted");
        let chat = chat(&request);
        let roles: Vec<_> = chat
            .messages
            .iter()
            .map(|message| format!("{}: {}", message.role.as_str(), kinds(&message.blocks)))
            .collect();
        let tools: Vec<_> = chat
            .tools
            .iter()
            .map(|tool| if tool.deferred { format!("{}?", tool.name) } else { tool.name.clone() })
            .collect();
        let notices: Vec<_> = notices.iter().map(ToString::to_string).collect();
        let read = json!({ "roles": roles, "tools": tools, "notices": notices });
        let expected = json!({
            "roles": case["roles"], "tools": case["tools"], "notices": case["notices"],
        });
        assert_eq!(read, expected, "{}", path.display());
        let (counted, _) = decode_count_tokens(body.as_bytes()).expect("accepted");
        assert_eq!(counted.prompt, request.prompt, "{}", path.display());
        count += 1;
    }
    assert!(count >= 8, "the corpus has {count} files");
}

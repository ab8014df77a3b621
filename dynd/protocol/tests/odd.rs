//! Odd histories that must not refuse a request: it would be refused with every later turn.

use dynd_protocol::{Message, Prompt, canonical_chain, decode_chat, decode_completion};
use serde_json::{Value, json};

/// The messages of a body and the notices about it.
fn decoded(body: &str) -> (Vec<Message>, Vec<String>) {
    let (request, notices) = decode_chat(body.as_bytes()).expect(body);
    let Prompt::Chat(chat) = request.prompt else { panic!("a chat") };
    (chat.messages, notices.iter().map(ToString::to_string).collect())
}

/// The text of a message whose content is the JSON string `escaped`, and the notices.
fn text(escaped: &str) -> (String, Vec<String>) {
    let body = format!(r#"{{"messages":[{{"role":"user","content":"{escaped}"}}]}}"#);
    let (messages, notices) = decoded(&body);
    (messages[0].text(), notices)
}

#[test]
fn half_a_surrogate_pair_reads_as_a_replacement_character() {
    for (escaped, read) in [
        (r"a\ud83d", "a\u{fffd}"),
        (r"\ud83db", "\u{fffd}b"),
        (r"\uDE00", "\u{fffd}"),
        (r"\ude00\ud83d", "\u{fffd}\u{fffd}"),
        (r"\ud83d\ud83d\ude00", "\u{fffd}😀"),
        (r"\ud83d\u0041", "\u{fffd}A"),
        (r"\ud83d\\ude00", "\u{fffd}\\ude00"),
        (r"\ud83d\n", "\u{fffd}\n"),
        (r"\\\ud83d", "\\\u{fffd}"),
    ] {
        assert_eq!(
            text(escaped),
            (read.to_owned(), vec!["lone_surrogate".to_owned()]),
            "{escaped}"
        );
    }
    for (escaped, read) in
        [(r"\ud83d\ude00", "😀"), (r"\\ud83d", "\\ud83d"), (r"\u00e9\\", "é\\"), ("ud83d", "ud83d")]
    {
        assert_eq!(text(escaped), (read.to_owned(), Vec::new()), "{escaped}");
    }
    let (request, _) = decode_completion(br#"{"prompt": "\udfff"}"#).expect("accepted");
    assert_eq!(request.prompt, Prompt::Text("\u{fffd}".to_owned()));
}

/// Escapes cut anywhere are errors of the JSON, told with the place where the client has them.
#[test]
fn broken_escapes_stay_errors_at_their_place() {
    for broken in
        [r#"{"a": "\"#, r#"{"a": "\ud8"#, r#"{"a": "\ud83d"#, r#"{"a": "\ud83x"}"#, r"\ud800"]
    {
        let error = decode_chat(broken.as_bytes()).expect_err(broken);
        assert_eq!((error.status, error.code), (400, Some("invalid_json")), "{broken}");
    }
    let error = decode_chat(br#"{"a": "\ud83d", oops"#).expect_err("junk");
    assert!(error.message.contains("line 1 column 17"), "{}", error.message);
}

#[test]
fn a_message_without_a_role_is_the_users() {
    for role in [None, Some(json!(null)), Some(json!(7)), Some(json!(["user"])), Some(json!({}))] {
        let mut message = json!({"content": "x"});
        if let Some(role) = role {
            message["role"] = role;
        }
        let (messages, notices) = decoded(&json!({"messages": [message]}).to_string());
        assert_eq!((messages[0].role.as_str(), messages[0].text().as_str()), ("user", "x"));
        assert_eq!(notices, ["no_role"]);
    }
}

#[test]
fn content_of_any_type_is_text() {
    for (content, text, notice) in [
        (json!(7), "7", Some("odd_content")),
        (json!(true), "true", Some("odd_content")),
        (json!({"a": 1}), "{\"a\":1}", Some("odd_content")),
        (json!({"type": "text", "text": "t"}), "t", None),
        (
            json!({"type": "image_url", "image_url": {}}),
            "[image_url omitted]",
            Some("unsupported_content_part"),
        ),
    ] {
        let body = json!({"messages": [{"role": "user", "content": content}]});
        let (messages, notices) = decoded(&body.to_string());
        assert_eq!(messages[0].text(), text);
        assert_eq!(notices.first().map(String::as_str), notice);
    }
    let chain = |content: Value| {
        let body = json!({"messages": [{"role": "user", "content": content}]});
        canonical_chain(&decode_chat(body.to_string().as_bytes()).expect("accepted").0)
    };
    assert_ne!(chain(json!({"a": 1})), chain(json!({"a": 2})), "they read differently");
}

#[test]
fn odd_tool_calls_are_noticed() {
    for calls in [json!("f"), json!({"name": "f"}), json!(["f"]), json!([null])] {
        let body = json!({"messages": [{"role": "assistant", "tool_calls": calls}]});
        assert_eq!(decoded(&body.to_string()).1, ["odd_tool_call"]);
    }
    let body = json!({"messages": [{"role": "assistant", "tool_calls": null}]});
    assert_eq!(decoded(&body.to_string()).1, Vec::<String>::new());
}

//! What clients get: answers, streams, usage, models.

use serde_json::json;

use crate::support::{
    CHAT, answer, cached_tokens, chat, fully_cached, prompt_tokens, read_all, start, streamed,
    text_of,
};

#[test]
fn a_stream_carries_the_same_text_and_usage_as_one_answer() {
    let daemon = start();
    let client = daemon.client();
    let body = chat("Say something.", 60);
    let whole = answer(&client, &[], &body);
    let mut stream = client.stream(CHAT, &[], &streamed(body)).unwrap();
    assert_eq!(stream.status, 200);
    let (text, usage) = read_all(&mut stream);
    assert_eq!(text, text_of(&whole));
    assert!(!text.is_empty());
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    for field in ["prompt_tokens", "completion_tokens", "total_tokens"] {
        assert_eq!(usage[field], whole["usage"][field], "{field}");
    }
    assert_eq!(usage["completion_tokens"], 60);
}

#[test]
fn a_repeated_prompt_is_cached_up_to_its_last_token() {
    let daemon = start();
    let client = daemon.client();
    let body = chat(&"All work and no play. ".repeat(20), 8);
    let cold = answer(&client, &[], &body);
    let warm = answer(&client, &[], &body);
    assert_eq!(cached_tokens(&cold), 0);
    assert_eq!(cached_tokens(&warm), fully_cached(prompt_tokens(&warm)));
    assert_eq!(text_of(&warm), text_of(&cold));
}

#[test]
fn a_text_completion_continues_token_ids_as_it_continues_their_text() {
    let daemon = start();
    let client = daemon.client();
    let ask = |prompt: serde_json::Value| {
        let body = json!({
            "model": "tiny", "prompt": prompt, "max_tokens": 12, "temperature": 0,
            "ignore_eos": true, "return_token_ids": true,
        });
        let response = client.post("/v1/completions", &[], &body).unwrap();
        assert_eq!(response.status, 200, "{}", response.text());
        response.json().unwrap()
    };
    let from_text = ask(json!("once upon a time"));
    let ids = &from_text["choices"][0]["prompt_token_ids"];
    assert!(ids.is_array(), "{from_text}");
    let from_ids = ask(ids.clone());
    assert_eq!(from_ids["choices"][0]["text"], from_text["choices"][0]["text"]);
    assert_eq!(from_text["choices"][0]["token_ids"].as_array().map(Vec::len), Some(12));
}

#[test]
fn the_model_list_tells_the_context_length() {
    let daemon = start();
    let client = daemon.client();
    let list = client.get("/v1/models").unwrap().json().unwrap();
    let model = &list["data"][0];
    assert!(model["context_length"].as_u64().is_some_and(|length| length > 0), "{list}");
    let id = model["id"].as_str().unwrap();
    let one = client.get(&format!("/v1/models/{id}")).unwrap().json().unwrap();
    assert_eq!(one["id"], model["id"]);
}

#[test]
fn health_metrics_and_version_answer() {
    let daemon = start();
    let client = daemon.client();
    for path in ["/live", "/ready", "/metrics"] {
        assert_eq!(client.get(path).unwrap().status, 200, "{path}");
    }
}

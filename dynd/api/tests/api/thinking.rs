//! Thinking is switched and bounded as the request says, on every API.

use crate::support::{Reply, Rig, Script, Setup};
use serde_json::{Value, json};

/// Opens a block of thinking unless it is told not to.
const TEMPLATE: &str = "{%- for message in messages %}\
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}\
    {%- endfor %}\
    {%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}\
    {%- if enable_thinking is not defined or enable_thinking %}{{- '<think>\\n' }}{%- endif %}\
    {%- endif %}";

/// A model that only ever thinks.
async fn rig() -> Rig {
    let script = Script::repeats("Hm, ");
    Rig::with(Setup { script, template: Some(TEMPLATE), ..Setup::default() }).await
}

async fn messages(rig: &Rig, more: Value) -> Reply {
    let mut body = json!({"max_tokens": 60, "messages": [{"role": "user", "content": "hi"}]});
    for (name, value) in more.as_object().expect("fields") {
        body[name] = value.clone();
    }
    rig.send("POST", "/v1/messages", &[], body.to_string()).await
}

async fn chat(rig: &Rig, more: Value) -> Reply {
    let mut body = json!({"max_tokens": 60, "messages": [{"role": "user", "content": "hi"}]});
    for (name, value) in more.as_object().expect("fields") {
        body[name] = value.clone();
    }
    rig.chat(body).await
}

/// What the answer thinks and what it says.
fn parts(body: &Value) -> (String, String) {
    let mut parts = (String::new(), String::new());
    for block in body["content"].as_array().expect("blocks") {
        match block["type"].as_str() {
            Some("thinking") => parts.0 += block["thinking"].as_str().expect("text"),
            _ => parts.1 += block["text"].as_str().expect("text"),
        }
    }
    parts
}

/// One token is one byte here, and the closing mark is eight of them.
#[tokio::test]
async fn fr_024_a_model_that_thinks_for_ever_answers_within_its_budget() {
    let rig = rig().await;
    let endless = messages(&rig, json!({})).await.json();
    assert_eq!(parts(&endless), ("Hm, ".repeat(15), String::new()));

    let asked = json!({"thinking": {"type": "enabled", "budget_tokens": 10}});
    let body = messages(&rig, asked).await.json();
    assert_eq!(body["content"][0]["type"], "thinking");
    let (thinking, text) = parts(&body);
    assert_eq!(thinking, "Hm, Hm, Hm");
    assert_eq!(text.len(), 60 - 10 - 8, "the answer is not cut: {text:?}");
    assert_eq!(body["stop_reason"], "max_tokens");

    for field in [
        json!({"thinking_token_budget": 10}),
        json!({"nvext": {"max_thinking_tokens": 10, "extra_fields": ["hints"]}}),
    ] {
        let body = chat(&rig, field).await.json();
        let message = &body["choices"][0]["message"];
        assert_eq!(message["reasoning_content"], "Hm, Hm, Hm");
        assert_eq!(message["content"].as_str().map(str::len), Some(42));
        if let Some(hints) = body["nvext"]["hints"].as_array() {
            let of = |name: &str| hints.iter().find(|hint| hint["name"] == name);
            assert_eq!(of("max_thinking_tokens").expect("answered")["outcome"], "accepted");
        }
    }
}

#[tokio::test]
async fn fr_024_no_budget_at_all_closes_the_block_at_once() {
    let rig = rig().await;
    let body = chat(&rig, json!({"thinking_token_budget": 0})).await.json();
    let message = &body["choices"][0]["message"];
    assert_eq!(message["reasoning_content"].as_str().unwrap_or_default(), "");
    assert_eq!(message["content"].as_str().map(str::len), Some(52));
}

#[tokio::test]
async fn fr_024_thinking_that_is_off_is_neither_shown_nor_hidden() {
    let rig = rig().await;
    let body = messages(&rig, json!({"thinking": {"type": "disabled"}})).await.json();
    assert_eq!(parts(&body), (String::new(), "Hm, ".repeat(15)));
    for off in [
        json!({"chat_template_kwargs": {"enable_thinking": false}}),
        json!({"nvext": {"max_thinking_tokens": 0}}),
    ] {
        let body = chat(&rig, off).await.json();
        let message = &body["choices"][0]["message"];
        assert_eq!(message["content"], "Hm, ".repeat(15));
        assert_eq!(message["reasoning_content"].as_str().unwrap_or_default(), "");
        let details = &body["usage"]["completion_tokens_details"];
        assert_eq!(details["reasoning_tokens"].as_u64().unwrap_or_default(), 0);
    }
}

/// A grammar begins where the budget ends.
#[tokio::test]
async fn fr_024_a_budget_leads_to_the_format_that_was_asked_for() {
    let rig = rig().await;
    let schema = json!({
        "type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"],
        "additionalProperties": false,
    });
    let body = chat(
        &rig,
        json!({
            "thinking_token_budget": 7,
            "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}},
        }),
    )
    .await
    .json();
    let message = &body["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], "Hm, Hm,");
    let content = message["content"].as_str().expect("text");
    let value: Value =
        serde_json::from_str(content).unwrap_or_else(|error| panic!("{error}: {content:?}"));
    assert!(value["ok"].is_boolean());
}

//! What clients get for good requests, through a real socket.

use crate::support::{Reply, Rig, Script, Setup};
use dynd_engine::model::GenerationDefaults;
use serde_json::{Value, json};

fn hi(more: Value) -> Value {
    let mut body =
        json!({"model": "org/scripted", "messages": [{"role": "user", "content": "hi"}]});
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

/// Everything a stream says about one choice, as a body would say it.
fn joined(reply: &Reply, choice: u64) -> (String, Vec<Value>, Vec<Value>, Value) {
    let (mut text, mut ids, mut scores, mut finish) =
        (String::new(), Vec::new(), Vec::new(), Value::Null);
    for chunk in reply.chunks() {
        for one in chunk["choices"].as_array().expect("choices") {
            if one["index"] != choice {
                continue;
            }
            let piece = one["delta"]["content"].as_str().or_else(|| one["text"].as_str());
            text.push_str(piece.unwrap_or_default());
            ids.extend(one["token_ids"].as_array().into_iter().flatten().cloned());
            scores.extend(one["logprobs"]["content"].as_array().into_iter().flatten().cloned());
            if !one["finish_reason"].is_null() {
                assert_eq!(finish, Value::Null, "one finish per choice");
                finish = one["finish_reason"].clone();
            }
        }
    }
    (text, ids, scores, finish)
}

#[tokio::test]
async fn a_streamed_answer_says_what_the_whole_one_says() {
    let rig = Rig::says("Grüße, 世界 😀!").await;
    let options = json!({
        "return_token_ids": true, "logprobs": true, "top_logprobs": 2,
        "stream_options": {"include_usage": true},
    });
    let whole = rig.chat(hi(options.clone())).await.json();
    let mut streaming = hi(options);
    streaming["stream"] = json!(true);
    let stream = rig.chat(streaming).await;
    assert_eq!(stream.header("content-type"), "text/event-stream; charset=utf-8");
    assert_eq!(stream.header("cache-control"), "no-cache, no-transform");
    assert_eq!(stream.header("x-accel-buffering"), "no");

    let (text, ids, scores, finish) = joined(&stream, 0);
    let choice = &whole["choices"][0];
    assert_eq!(choice["message"]["content"], "Grüße, 世界 😀!");
    assert_eq!(choice["message"]["content"], text);
    assert_eq!(choice["token_ids"], Value::from(ids));
    assert_eq!(choice["logprobs"]["content"], Value::from(scores));
    assert_eq!((&choice["finish_reason"], &finish), (&json!("stop"), &json!("stop")));
    assert_eq!(whole["model"], "org/scripted");

    let chunks = stream.chunks();
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(chunks[0]["prompt_token_ids"], whole["prompt_token_ids"]);
    let last = chunks.last().expect("chunks");
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
    let ids_of_all: std::collections::BTreeSet<&str> =
        chunks.iter().filter_map(|chunk| chunk["id"].as_str()).collect();
    assert_eq!(ids_of_all.len(), 1, "one id per answer");
    rig.is_idle().await;
}

#[tokio::test]
async fn fr_053_usage_counts_the_prompt_the_cache_and_the_end_token() {
    let rig = Rig::says("abc").await;
    let body = json!({"prompt": "x".repeat(40), "max_tokens": 10, "return_token_ids": true});
    let cold = rig.completion(body.clone()).await.json();
    assert_eq!(cold["choices"][0]["text"], "abc");
    assert_eq!(cold["choices"][0]["token_ids"], json!([97, 98, 99, 257]));
    assert_eq!(
        cold["usage"],
        json!({
            "prompt_tokens": 40, "completion_tokens": 4, "total_tokens": 44,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
        })
    );
    rig.is_idle().await;
    let warm = rig.completion(body).await.json();
    assert_eq!(warm["usage"]["prompt_tokens_details"]["cached_tokens"], 32);
}

#[tokio::test]
async fn completions_take_text_or_tokens_and_echo_either() {
    let rig = Rig::says("!").await;
    for prompt in [json!("hi"), json!(["hi"]), json!([104, 105]), json!([[104, 105]])] {
        let body = json!({"prompt": prompt, "echo": true, "return_token_ids": true});
        let reply = rig.completion(body.clone()).await.json();
        assert_eq!(reply["object"], "text_completion");
        assert_eq!(reply["choices"][0]["text"], "hi!");
        assert_eq!(reply["choices"][0]["prompt_token_ids"], json!([104, 105]));
        let mut body = body;
        body["stream"] = json!(true);
        assert_eq!(joined(&rig.completion(body).await, 0).0, "hi!");
    }
    let reply = rig.completion(json!({"prompt": "hi", "echo": true, "max_tokens": 0})).await.json();
    assert_eq!(reply["choices"][0]["text"], "hi");
    assert_eq!(reply["choices"][0]["finish_reason"], "length");
    assert_eq!(reply["usage"]["completion_tokens"], 0);
}

#[tokio::test]
async fn every_choice_has_its_own_text_and_end() {
    let mut script = Script::says("abcdef");
    script.varies_by_seed = true;
    let rig = Rig::with(Setup { script, ..Setup::default() }).await;
    let options =
        json!({"n": 3, "seed": 0, "stream": true, "stream_options": {"include_usage": true}});
    let stream = rig.chat(hi(options.clone())).await;
    let texts: Vec<String> = (0..3).map(|choice| joined(&stream, choice).0).collect();
    assert_eq!(texts[0], "abcdef", "the first choice has the request's seed");
    assert_ne!(texts[0], texts[1]);
    for choice in 0..3 {
        assert_eq!(joined(&stream, choice).3, "stop");
    }
    let mut whole = options;
    whole["stream"] = json!(false);
    let whole = rig.chat(hi(whole)).await.json();
    for (choice, text) in texts.iter().enumerate() {
        assert_eq!(whole["choices"][choice]["message"]["content"], **text);
    }
    let completed: usize = texts.iter().map(|text| text.len() + 1).sum();
    assert_eq!(whole["usage"]["completion_tokens"], completed);
    rig.is_idle().await;
}

/// The byte tokenizer splits every stop string; its text must not show, and the row must end.
#[tokio::test]
async fn stop_strings_end_an_answer_wherever_tokens_split() {
    let script = Script::repeats("one two three ");
    let rig = Rig::with(Setup { script, ..Setup::default() }).await;
    for (stop, text) in [
        (json!("three"), "one two "),
        (json!(["xyz", "e o"]), "one two thre"),
        (json!("e t"), "on"),
    ] {
        let whole = rig.chat(hi(json!({"stop": stop}))).await.json();
        assert_eq!(whole["choices"][0]["message"]["content"], text);
        assert_eq!(whole["choices"][0]["finish_reason"], "stop");
        let stream = rig.chat(hi(json!({"stop": stop, "stream": true}))).await;
        let (streamed, _, _, finish) = joined(&stream, 0);
        assert_eq!(
            (Value::from(streamed), finish),
            (
                whole["choices"][0]["message"]["content"].clone(),
                whole["choices"][0]["finish_reason"].clone(),
            )
        );
        rig.is_idle().await;
    }
    let reply = rig.chat(hi(json!({"stop_token_ids": [119]}))).await.json();
    assert_eq!(reply["choices"][0]["message"]["content"], "one t");
}

/// One choice of two has reached its stop string: it computes nothing more while the other goes on.
#[tokio::test]
async fn a_stopped_choice_leaves_the_worker_at_once() {
    let mut script = Script::repeats("abcdefg");
    script.varies_by_seed = true;
    let rig = Rig::with(Setup { script, ..Setup::default() }).await;
    rig.gate.close();
    let mut open =
        rig.open_chat(hi(json!({"n": 2, "seed": 0, "stop": "ab", "stream": true}))).await;
    let mut heard = String::new();
    while !heard.contains("\"finish_reason\":\"stop\"") {
        rig.gate.allow(1);
        heard.push_str(&open.next().await.expect("goes on"));
    }
    // The step being computed, and one more, for its figures come after it.
    rig.gate.allow(2);
    rig.until("one choice is left", || rig.worker.stats().jobs == 1).await;
    rig.gate.open();
    assert!(open.rest().await.ends_with("[DONE]\n\n"));
    rig.is_idle().await;
}

#[tokio::test]
async fn ignore_eos_goes_on_after_the_end_token() {
    let rig = Rig::says("ab").await;
    let options = json!({"ignore_eos": true, "max_tokens": 7, "return_token_ids": true});
    let choice = rig.chat(hi(options)).await.json()["choices"][0].clone();
    assert_eq!(choice["token_ids"], json!([97, 98, 257, 97, 98, 257, 97]));
    assert_eq!(choice["message"]["content"], "ababa");
    assert_eq!(choice["finish_reason"], "length");
}

#[tokio::test]
async fn max_tokens_is_clamped_to_the_window() {
    let script = Script::repeats("x");
    let rig = Rig::with(Setup { script, window: 64, ..Setup::default() }).await;
    let reply = rig.completion(json!({"prompt": "0123456789", "max_tokens": 100_000})).await.json();
    assert_eq!(reply["choices"][0]["finish_reason"], "length");
    assert_eq!(reply["usage"]["completion_tokens"], 54);
}

#[tokio::test]
async fn log_probabilities_in_the_legacy_shape() {
    let rig = Rig::says("hé").await;
    let reply = rig.completion(json!({"prompt": "a", "logprobs": 1})).await.json();
    let scores = &reply["choices"][0]["logprobs"];
    assert_eq!(scores["tokens"][0], "h");
    assert_eq!(scores["token_logprobs"], json!([-0.5, -0.5, -0.5, -0.5]), "the end token's too");
    assert_eq!(scores["top_logprobs"][0], json!({"h": -0.5}));
    assert_eq!(scores["text_offset"][1], 1);
}

#[tokio::test]
async fn any_model_name_is_served_under_that_name_with_a_notice() {
    let rig = Rig::start().await;
    let mut body = hi(json!({"flavour": 1}));
    body["model"] = json!("claude-haiku-4-5");
    let reply = rig.chat(body).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json()["model"], "claude-haiku-4-5");
    assert_eq!(
        reply.header("x-dynd-notice"),
        "unknown_field:flavour, model_substituted:org/scripted"
    );
    assert_eq!(rig.chat(hi(json!({}))).await.header("x-dynd-notice"), "");
    assert!(
        rig.get("/metrics").await.text().contains("dynd_notices_total{code=\"unknown_field\"} 1")
    );
}

#[tokio::test]
async fn the_model_s_own_sampling_defaults_apply() {
    let mut script = Script::says("abcdef");
    script.varies_by_seed = true;
    let defaults = GenerationDefaults { eos_ids: vec![99], ..GenerationDefaults::default() };
    let rig = Rig::with(Setup { script, defaults, ..Setup::default() }).await;
    let reply = rig.chat(hi(json!({"seed": 0}))).await.json();
    assert_eq!(reply["choices"][0]["message"]["content"], "ab", "its end tokens too");
}

//! `POST /v1/responses` and what lies below it.

use crate::support::{Rig, Script, Setup};
use serde_json::{Value, json};

const PATH: &str = "/v1/responses";

async fn post(rig: &Rig, path: &str, body: &Value) -> Value {
    let reply = rig.send("POST", path, &[], body.to_string()).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// The events of a stream that ended.
async fn stream(rig: &Rig, body: &Value) -> Vec<Value> {
    let reply = rig.send("POST", PATH, &[], body.to_string()).await;
    assert_eq!(reply.header("content-type"), "text/event-stream; charset=utf-8");
    let data = |frame: &str| {
        let data = frame.lines().find_map(|line| line.strip_prefix("data: ").map(str::to_owned));
        serde_json::from_str(&data.expect("data")).expect("JSON")
    };
    reply.text().split_terminator("\n\n").map(data).collect()
}

#[tokio::test]
async fn fr_035_a_stream_has_every_event_and_the_whole_answer_at_its_end() {
    let rig = Rig::start().await;
    let mut body = json!({ "model": "org/scripted", "input": "hi" });
    let whole = post(&rig, PATH, &body).await;
    assert_eq!(whole["object"], "response");
    assert_eq!(whole["status"], "completed");
    assert_eq!(whole["output"][0]["content"][0]["text"], "Hello, world!");
    body["stream"] = true.into();
    let events = stream(&rig, &body).await;
    let kinds: Vec<_> =
        events.iter().map(|event| event["type"].as_str().expect("a type")).collect();
    assert_eq!(
        kinds[..4],
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
        ]
    );
    assert_eq!(kinds.last(), Some(&"response.completed"));
    let last = &events.last().expect("an end")["response"];
    assert_eq!(last["output"][0]["content"], whole["output"][0]["content"]);
    assert_eq!(last["usage"]["input_tokens"], whole["usage"]["input_tokens"]);
    rig.is_idle().await;
}

#[tokio::test]
async fn fr_037_a_stored_answer_is_built_upon_and_an_unknown_one_refused() {
    let rig = Rig::start().await;
    let first = post(&rig, PATH, &json!({ "input": "hi" })).await;
    let next = json!({ "input": "more", "previous_response_id": first["id"] });
    let second = post(&rig, PATH, &next).await;
    let whole = post(&rig, PATH, &json!({ "input": [
        { "role": "user", "content": "hi" }, first["output"][0], { "role": "user", "content": "more" },
    ]}))
    .await;
    assert_eq!(second["usage"]["input_tokens"], whole["usage"]["input_tokens"]);
    assert_eq!(second["previous_response_id"], first["id"]);

    let unstored = post(&rig, PATH, &json!({ "input": "other", "store": false })).await;
    for id in [&unstored["id"], &json!("resp_nobody")] {
        let body = json!({ "input": "x", "previous_response_id": id });
        let reply = rig.send("POST", PATH, &[], body.to_string()).await;
        assert_eq!(reply.status, 404);
        assert_eq!(reply.error_code(), "previous_response_not_found");
    }
}

#[tokio::test]
async fn a_stored_answer_is_given_again_until_it_is_deleted() {
    let rig = Rig::start().await;
    let get = async |id: &Value| {
        let path = format!("{PATH}/{}", id.as_str().expect("an id"));
        rig.send("GET", &path, &[], "").await
    };
    let whole = post(&rig, PATH, &json!({ "input": "hi", "metadata": { "a": "b" } })).await;
    let events = stream(&rig, &json!({ "input": "hi", "stream": true })).await;
    let streamed = events.last().expect("an end")["response"].clone();
    for answer in [&whole, &streamed] {
        let reply = get(&answer["id"]).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()),
            (200, answer),
            "the object as it was sent"
        );
    }
    let unstored = post(&rig, PATH, &json!({ "input": "hi", "store": false })).await;
    for id in [&unstored["id"], &json!("resp_nobody")] {
        let reply = get(id).await;
        assert_eq!((reply.status.as_u16(), &*reply.error_code()), (404, "response_not_found"));
    }

    let path = format!("{PATH}/{}", whole["id"].as_str().expect("an id"));
    let reply = rig.send("GET", &format!("{path}?stream=true"), &[], "").await;
    assert_eq!(reply.status, 400, "{}", reply.text());
    let deleted = rig.send("DELETE", &path, &[], "").await;
    let said = json!({ "id": whole["id"], "object": "response", "deleted": true });
    assert_eq!((deleted.status.as_u16(), deleted.json()), (200, said));
    assert_eq!(rig.send("DELETE", &path, &[], "").await.status, 404);
    assert_eq!(get(&whole["id"]).await.status, 404);
    assert_eq!(get(&streamed["id"]).await.status, 200, "the other one is still there");
    let next = json!({ "input": "more", "previous_response_id": whole["id"] });
    let reply = rig.send("POST", PATH, &[], next.to_string()).await;
    assert_eq!(reply.status, 404, "nor is it built upon");
}

#[tokio::test]
async fn fr_038_a_conversation_is_compacted_over_its_cached_prefix() {
    let rig = Rig::start().await;
    let history = json!([
        { "role": "developer", "content": "You are a coding agent. ".repeat(8) },
        { "role": "user", "content": "fix the parser" },
    ]);
    post(&rig, PATH, &json!({ "input": history, "store": false })).await;
    let compacted = post(&rig, "/v1/responses/compact", &json!({ "input": history })).await;
    assert_eq!(compacted["object"], "response.compaction");
    let cached = &compacted["usage"]["input_tokens_details"]["cached_tokens"];
    assert!(cached.as_u64().expect("tokens") > 150, "{compacted}");
    let output = compacted["output"].as_array().expect("a list");
    let kinds: Vec<_> = output.iter().map(|item| item["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds, ["message", "compaction"]);

    let mut input = output.clone();
    input.push(json!({ "role": "user", "content": "go on" }));
    let body = json!({ "input": input });
    let reply = rig.send("POST", PATH, &[], body.to_string()).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("x-dynd-notice"), "", "the summary was read");
}

#[tokio::test]
async fn a_count_is_the_length_of_the_prompt() {
    let rig = Rig::start().await;
    let body = json!({ "instructions": "Be brief.", "input": "hi" });
    let counted = post(&rig, "/v1/responses/input_tokens", &body).await;
    let answered = post(&rig, PATH, &body).await;
    assert_eq!(counted["object"], "response.input_tokens");
    assert_eq!(counted["input_tokens"], answered["usage"]["input_tokens"]);
    let next = json!({ "input": "more", "previous_response_id": answered["id"] });
    let counted = post(&rig, "/v1/responses/input_tokens", &next).await;
    let answered = post(&rig, PATH, &next).await;
    assert_eq!(counted["input_tokens"], answered["usage"]["input_tokens"]);
}

#[tokio::test]
async fn fr_031_a_request_with_hosted_tools_runs() {
    let rig = Rig::start().await;
    let body = json!({ "input": "hi", "tools": [{ "type": "web_search" }, { "type": "mcp" }] });
    let reply = rig.send("POST", PATH, &[], body.to_string()).await;
    assert_eq!(reply.status, 200);
    assert!(reply.header("x-dynd-notice").contains("unsupported_tool"));
}

#[tokio::test]
async fn a_call_of_a_namespace_comes_back_as_it_was_sent() {
    let script =
        Script::says("<tool_call>\n{\"name\": \"ns__f\", \"arguments\": {\"a\": 1}}\n</tool_call>");
    let rig = Rig::with(Setup { script, ..Setup::default() }).await;
    let answer = post(
        &rig,
        PATH,
        &json!({ "input": "hi", "tools": [{
            "type": "namespace", "name": "ns", "tools": [{
                "type": "function", "name": "f",
                "parameters": { "type": "object", "properties": { "a": { "type": "number" } } },
            }],
        }]}),
    )
    .await;
    let item = &answer["output"][0];
    assert_eq!(item["type"], "function_call", "{answer}");
    assert_eq!((&item["name"], &item["namespace"]), (&json!("f"), &json!("ns")));
    let arguments: Value =
        serde_json::from_str(item["arguments"].as_str().expect("text")).expect("JSON");
    assert_eq!(arguments, json!({ "a": 1 }));
    assert!(item["call_id"].as_str().expect("an id").starts_with("call_"));
}

/// A title, asked for between two turns, is of the same session and not of its conversation.
#[tokio::test]
async fn a_side_call_leaves_the_conversation_of_its_session_where_it_was() {
    let rig = Rig::start().await;
    let headers = [("x-dynamo-session-id", "s")];
    let ask = async |body: Value| {
        let reply = rig.send("POST", PATH, &headers, body.to_string()).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        rig.is_idle().await;
        reply.json()
    };
    let first = ask(json!({ "input": "x".repeat(300) })).await;
    let side = ask(json!({ "input": "name this" })).await;
    assert_eq!(rig.sessions.lock().list().len(), 1, "one session");
    let second = ask(json!({ "input": "more", "previous_response_id": first["id"] })).await;
    ask(json!({ "input": "another", "previous_response_id": side["id"] })).await;
    ask(json!({ "input": "yet more", "previous_response_id": second["id"] })).await;
    ask(json!({ "input": "again", "previous_response_id": first["id"] })).await;
}

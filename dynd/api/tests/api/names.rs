//! Names of models: what is listed, what is asked for, what is shown.

use crate::support::Rig;
use serde_json::{Value, json};

/// Agents ask for small models by names of their vendor's; titles and sub-agents hang on it.
#[tokio::test]
async fn fr_030_any_name_is_served_and_answered_under_that_name() {
    let rig = Rig::start().await;
    for (name, is_known) in [
        ("claude-haiku-4-5-20251001", false),
        ("haiku", false),
        ("MiniMaxAI/MiniMax-M2.5", false),
        ("scripted", true),
        ("org/scripted", true),
    ] {
        for path in ["/v1/messages", "/v1/messages?beta=true", "/v1/chat/completions"] {
            let body = json!({
                "model": name, "max_tokens": 20, "messages": [{"role": "user", "content": "hi"}],
            });
            let reply = rig.send("POST", path, &[], body.to_string()).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
            assert_eq!(reply.json()["model"], name);
            let notice = reply.header("x-dynd-notice");
            assert_eq!(notice.contains("model_substituted:org/scripted"), !is_known, "{notice}");
        }
    }
    rig.is_idle().await;
    for view in rig.sessions.lock().list() {
        assert_eq!(view.model.as_deref(), Some("org/scripted"), "what really answered");
    }
}

#[tokio::test]
async fn the_list_has_aliases_and_comes_in_parts() {
    let rig = Rig::start().await;
    let ids = |list: &Value| -> Vec<String> {
        let ids = list["data"].as_array().expect("a list").iter();
        ids.map(|card| card["id"].as_str().expect("an id").to_owned()).collect()
    };
    let all = rig.get("/v1/models?limit=1000").await.json();
    assert_eq!(ids(&all), ["org/scripted", "scripted"]);
    assert_eq!((&all["object"], &all["has_more"]), (&json!("list"), &json!(false)));
    let first = rig.get("/v1/models?limit=1").await.json();
    assert_eq!((ids(&first), &first["has_more"]), (vec!["org/scripted".to_owned()], &json!(true)));
    let next = rig.get("/v1/models?limit=1&after_id=org%2Fscripted").await.json();
    assert_eq!((ids(&next), &next["has_more"]), (vec!["scripted".to_owned()], &json!(false)));
    for odd in ["limit=x", "limit=-1", "limit=0", "after_id=nobody", "beta=true", "%"] {
        assert_eq!(ids(&rig.get(&format!("/v1/models?{odd}")).await.json()).len(), 2, "{odd}");
    }
    for id in ["%00%ff", "%", "nobody", "org/"] {
        let reply = rig.get(&format!("/v1/models/{id}")).await;
        assert_eq!(reply.status, 404);
        assert_eq!(reply.json()["error"]["code"], "model_not_found");
    }
    for id in ["org/scripted", "org%2Fscripted", "scripted"] {
        let card = rig.get(&format!("/v1/models/{id}")).await.json();
        assert_eq!((&card["object"], &card["type"]), (&json!("model"), &json!("model")));
        assert_eq!(
            (&card["created"], &card["created_at"]),
            (&json!(1_700_000_000), &json!("2023-11-14T22:13:20Z"),)
        );
        assert_eq!((&card["context_length"], &card["max_model_len"]), (&json!(2048), &json!(2048)));
        assert_eq!(card["display_name"], card["id"]);
    }
}

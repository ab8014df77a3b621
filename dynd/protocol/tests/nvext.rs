//! Hints of harnesses: which are read, where from, within which limits, and how they are answered.

use std::collections::BTreeSet;
use std::time::Duration;

use dynd_protocol::{
    ApiError, Effect, HINT_FIELDS, HintOutcome, HintResult, Hints, Notice, PRIORITY_S_MAX, Pins,
    Prompt, Request, Sealer, decode_chat, decode_messages, decode_responses, hints_header,
    hints_value,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(nvext: &Value, headers: &[(&str, &str)]) -> (Hints, Vec<HintOutcome>) {
    Hints::read(Some(nvext), headers.iter().copied(), None, None)
}

/// `name=outcome`, with the detail where there is one.
fn told(outcomes: &[HintOutcome]) -> Vec<String> {
    outcomes
        .iter()
        .map(|HintOutcome { name, result, detail }| match detail.as_str() {
            "" => format!("{name}={result}"),
            detail => format!("{name}={result}: {detail}"),
        })
        .collect()
}

fn outcome<'a>(outcomes: &'a [HintOutcome], name: &str) -> &'a HintOutcome {
    outcomes.iter().find(|outcome| outcome.name == name).expect(name)
}

/// A good value of every hint, by its path.
fn good(name: &str) -> Value {
    match name {
        "agent_hints.priority" => json!(10),
        "cache_control" => json!({"type": "ephemeral", "ttl": "1h"}),
        "extra_fields" | "annotations" | "routing_constraints.required_taints" => json!(["hints"]),
        "retention" => json!([{"token_start": 0, "token_end": 10, "priority": 80}]),
        "token_data" => json!([1, 2]),
        "routing_constraints.preferred_taints" => json!({"fast": 0.5}),
        "session_control.action" => json!("close"),
        "cache_salt" | "prefix_id" | "metadata_upload.url" => json!("x"),
        "iat" | "request_timestamp_ms" | "router.ttft_target" | "router.itl_target" => json!(1.5),
        "agent_hints.latency_sensitivity" => json!(2.0),
        "agent_hints.speculative_prefill" | "greed_sampling" | "use_raw_prompt" => json!(true),
        "agent_context.session_final" | "agent_context.trajectory_final" => json!(true),
        name if name.ends_with("session_id") || name.starts_with("agent_context.") => json!("s"),
        _ => json!(3),
    }
}

/// An `nvext` with one hint.
fn one(name: &str, value: Value) -> Value {
    match name.split_once('.') {
        Some((group, inner)) => json!({ group: { inner: value } }),
        None => json!({ name: value }),
    }
}

#[test]
fn every_hint_is_answered_once() {
    for (name, effect) in HINT_FIELDS {
        let (hints, outcomes) = read(&one(name, good(name)), &[]);
        let expected = match effect {
            Effect::Acts => HintResult::Accepted,
            Effect::Waits(_) => HintResult::Deferred,
            Effect::Lacks(_) => HintResult::Missing,
            Effect::Never(_) => HintResult::Rejected,
        };
        assert_eq!(outcomes.len(), 1, "{name}: {outcomes:?}");
        assert_eq!((outcomes[0].name.as_str(), outcomes[0].result), (name, expected));
        let (none, _) = read(&json!({}), &[]);
        let is_kept = !matches!(effect, Effect::Never(_)) && name != "session_control.action";
        assert!(!is_kept || hints != none, "{name} is kept");

        let (hints, outcomes) = read(&one(name, json!({"odd": [true]})), &[]);
        if name != "cache_control" && name != "routing_constraints.preferred_taints" {
            assert_eq!(outcome(&outcomes, name).result, HintResult::Rejected, "{name}");
            assert_eq!(hints, none, "{name}: a bad value is as if it had not come");
        }
        let (hints, outcomes) = read(&one(name, Value::Null), &[]);
        assert_eq!((hints, outcomes), (none, Vec::new()), "{name}: null is absent");
    }
}

fn with_key(body: &[u8]) -> Result<(Request, Vec<Notice>), ApiError> {
    decode_responses(body, &Sealer::new([0; 32]))
}

#[test]
fn the_hints_of_the_golden_request_are_the_same_on_every_endpoint() {
    type Decode = fn(&[u8]) -> Result<(Request, Vec<Notice>), ApiError>;
    let nvext = r#""nvext":{"agent_hints":{"osl":256,"speculative_prefill":true,"priority":10},"cache_control":{"type":"ephemeral","ttl":"1h"}}"#;
    let messages = r#""messages":[{"role":"user","content":"hi"}]"#;
    for (decode, prompt) in [
        (decode_chat as Decode, messages.to_owned()),
        (decode_messages as Decode, format!("{messages},\"max_tokens\":10")),
        (with_key as Decode, r#""input":"hi""#.to_owned()),
    ] {
        let body = format!(r#"{{"model":"MiniMaxAI/MiniMax-M2.5",{prompt},{nvext}}}"#);
        let (request, notices) = decode(body.as_bytes()).expect("accepted");
        assert_eq!(notices, []);
        assert_eq!(request.model, "MiniMaxAI/MiniMax-M2.5");
        let (hints, outcomes) = Hints::of(&request, std::iter::empty());
        let mark = hints.cache_control.expect("a mark");
        let expected = Hints {
            is_asked: true,
            priority_s: Some(10),
            osl_tokens: Some(256),
            speculative_prefill: Some(true),
            cache_control: Some(mark),
            ..Hints::default()
        };
        assert_eq!(hints, expected);
        assert_eq!(mark.ttl, Duration::from_secs(3600));
        let names: BTreeSet<_> = outcomes.iter().map(|outcome| outcome.name.as_str()).collect();
        let expected = [
            "agent_hints.osl",
            "agent_hints.priority",
            "agent_hints.speculative_prefill",
            "cache_control",
        ];
        assert_eq!(names, expected.into());
        assert!(outcomes.iter().all(|outcome| outcome.result == HintResult::Deferred));
    }
}

/// More is earlier, for every engine behind (negative: nobody waits for it).
#[test]
fn a_priority_is_clamped_and_says_so() {
    for (sent, taken, result) in [
        (json!(10), 10, HintResult::Deferred),
        (json!(-10), -10, HintResult::Deferred),
        (json!(5.0), 5, HintResult::Deferred),
        (json!(i32::MAX), PRIORITY_S_MAX, HintResult::Clipped),
        (json!(i64::MIN), -PRIORITY_S_MAX, HintResult::Clipped),
        (json!(1e300), PRIORITY_S_MAX, HintResult::Clipped),
    ] {
        let (hints, outcomes) = read(&json!({"agent_hints": {"priority": sent}}), &[]);
        assert_eq!(hints.priority_s, Some(taken));
        assert_eq!(outcomes[0].result, result);
    }
    let (_, outcomes) = read(&json!({"agent_hints": {"priority": 9_999_999}}), &[]);
    assert_eq!(told(&outcomes), ["agent_hints.priority=clipped: 3600 s"]);
    // The deprecated hint counts only without the newer one, and never postpones.
    for (fields, taken) in [
        (json!({"latency_sensitivity": 2.5}), 2),
        (json!({"latency_sensitivity": -7}), 0),
        (json!({"latency_sensitivity": 2, "priority": -1}), -1),
    ] {
        assert_eq!(read(&json!({ "agent_hints": fields }), &[]).0.priority_s, Some(taken));
    }
}

#[test]
fn a_header_wins_over_the_body_field_by_field() {
    let nvext = json!({
        "agent_hints": {"priority": 5, "strict_priority": 1, "osl": 7},
        "cache_salt": "body", "backend_instance_id": 1, "decode_worker_id": 2, "dp_rank": 3,
    });
    let (hints, outcomes) = read(
        &nvext,
        &[
            ("X-Dynamo-Request-Priority", " -3 "),
            ("x-dynamo-request-strict-priority", "many"),
            ("x-tenant-id", "first"),
            ("x-tenant-id", " last "),
            ("x-tenant-id", ""),
            ("x-worker-instance-id", "8"),
            ("x-dynamo-worker-instance-id", "9"),
            ("x-data-parallel-rank", "0"),
            ("x-dynamo-prefill-dp-rank", "4294967295"),
        ],
    );
    assert_eq!(hints.priority_s, Some(-3), "also zero and negative");
    assert_eq!(hints.strict_priority, Some(1), "a malformed header leaves the body's value");
    assert_eq!(hints.osl_tokens, Some(7));
    assert_eq!(hints.cache_salt.as_deref(), Some("last"));
    let pins = Pins {
        backend_instance_id: Some(9),
        decode_worker_id: Some(9),
        dp_rank: Some(0),
        ..Pins::default()
    };
    assert_eq!(hints.pins, pins);
    let malformed = outcome(&outcomes, "x-dynamo-request-strict-priority");
    assert_eq!(
        (malformed.result, malformed.detail.as_str()),
        (HintResult::Rejected, "not a whole number")
    );
    assert_eq!(outcome(&outcomes, "dp_rank").result, HintResult::Missing);
}

#[test]
fn headers_alone_are_enough() {
    let headers = [("x-dynamo-request-priority", "4"), ("x-tenant-id", "t")];
    let (hints, outcomes) = Hints::read(None, headers.into_iter(), Some("top"), None);
    assert_eq!((hints.priority_s, hints.cache_salt.as_deref()), (Some(4), Some("t")));
    assert!(!hints.is_asked, "the answer has no nvext for one that sent none");
    assert_eq!(outcomes.len(), 2);
    let (hints, _) = Hints::read(None, std::iter::empty(), Some("top"), None);
    assert_eq!(hints.cache_salt.as_deref(), Some("top"));
}

#[test]
fn metadata_headers_are_bounded_and_hold_no_credentials() {
    let names: Vec<String> = (0..70).map(|at| format!("X-Dynamo-Meta-k{at}")).collect();
    let mut headers: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
    headers.insert(0, ("x-dynamo-meta-authorization", "x"));
    headers.insert(0, ("x-dynamo-meta-token", "Bearer x"));
    headers.insert(0, ("x-dynamo-meta-k0", "first"));
    let (hints, outcomes) = read(&json!({}), &headers);
    assert_eq!(hints.metadata.len(), 64);
    assert_eq!(hints.metadata["k0"], "first");
    assert!(!hints.metadata.contains_key("authorization") && !hints.metadata.contains_key("token"));
    assert_eq!(told(&outcomes), ["x-dynamo-meta=clipped: 64 kept"]);
    let huge = "v".repeat(64 * 1024);
    assert!(read(&json!({}), &[("x-dynamo-meta-a", &huge)]).0.metadata.is_empty());
}

#[test]
fn older_spellings_mean_the_same() {
    for name in ["turns_left", "total_requests", "reuse_budget"] {
        for nvext in [json!({ name: 0 }), json!({"agent_hints": { name: 0 }})] {
            let (hints, outcomes) = read(&nvext, &[]);
            assert_eq!(hints.turns_left, Some(0), "{nvext}");
            assert_eq!(outcome(&outcomes, name).result, HintResult::Accepted);
        }
    }
    let (hints, _) = read(&json!({"turns_left": 3, "total_requests": 9}), &[]);
    assert_eq!(hints.turns_left, Some(3));
    let (hints, _) = read(&json!({"agent_hints": {"prefix_id": "p", "iat": 250}}), &[]);
    assert_eq!((hints.session.prefix_id.as_deref(), hints.gap_ms), (Some("p"), Some(250.0)));
}

#[test]
fn session_fields_of_all_generations_are_kept_as_sent() {
    let (hints, outcomes) = read(
        &json!({
            "agent_context": {
                "session_type_id": "t", "session_id": "run", "trajectory_id": "chain",
                "parent_trajectory_id": "parent", "trajectory_final": true,
            },
            "session_control": {"action": "CLOSE", "session_id": "c"},
        }),
        &[],
    );
    let session = &hints.session;
    assert_eq!(session.session_id.as_deref(), Some("run"));
    assert_eq!(session.trajectory_id.as_deref(), Some("chain"));
    assert_eq!(session.parent_trajectory_id.as_deref(), Some("parent"));
    assert_eq!(session.control_action.as_deref(), Some("close"));
    assert!(session.is_final);
    assert!(outcomes.iter().all(|outcome| outcome.result == HintResult::Accepted));
    let (hints, _) = read(&json!({"session_id": "s", "parent_session_id": "p"}), &[]);
    assert_eq!(hints.session.session_id.as_deref(), Some("s"));
    assert_eq!(hints.session.parent_session_id.as_deref(), Some("p"));
}

/// Names are shortened to what is safe in a header; values are never repeated.
#[test]
fn what_is_not_known_is_said_without_its_value() {
    let (hints, outcomes) = read(
        &json!({
            "fantasy": "secret", "agent_hints": {"mood\n\"": "secret"}, "router": "secret",
            "cache_control": {"type": "ephemeral", "ttl": "secret"},
        }),
        &[],
    );
    assert_eq!(
        told(&outcomes),
        [
            "router=rejected: not an object",
            "cache_control=clipped: unreadable ttl; ttl 300 s",
            "fantasy=rejected: unknown",
            "agent_hints.mood=rejected: unknown",
        ]
    );
    assert_eq!(hints.cache_control.map(|mark| mark.ttl), Some(Duration::from_secs(300)));
    assert!(!hints_header(&outcomes).contains("secret"));
    let (hints, outcomes) = read(&json!("odd"), &[]);
    assert_eq!(hints, Hints::default());
    assert_eq!(told(&outcomes), ["nvext=rejected: not an object"]);
}

#[test]
fn lists_are_cut_and_say_so() {
    let many: Vec<_> = (0..100).map(|at| at.to_string()).collect();
    let ranges: Vec<_> = (0..100).map(|at| json!({ "token_start": at })).collect();
    let nvext = json!({"extra_fields": many, "annotations": ["a", 7], "retention": ranges});
    let (hints, outcomes) = read(&nvext, &[]);
    assert_eq!((hints.extra_fields.len(), hints.retention.len()), (64, 64));
    assert_eq!(hints.annotations, ["a"]);
    assert_eq!(
        told(&outcomes),
        [
            "extra_fields=clipped: 64 of 100",
            "retention=clipped: 64 ranges",
            "annotations=clipped: 1 of 2",
        ]
    );
    let unknown: Value = (0..1000).map(|at| (format!("f{at}"), json!(1))).collect();
    assert_eq!(read(&unknown, &[]).1.len(), 64);
}

fn applied(nvext: Value, messages: Value) -> (Request, Vec<HintOutcome>) {
    let body = json!({
        "messages": messages, "nvext": nvext, "cache_salt": "top", "thinking_token_budget": 100,
    });
    let (mut request, _) = decode_chat(body.to_string().as_bytes()).expect("accepted");
    let (hints, mut outcomes) = Hints::of(&request, std::iter::empty());
    hints.apply(&mut request, &mut outcomes);
    (request, outcomes)
}

#[test]
fn hints_about_prompt_and_sampling_act() {
    let one = json!([{"role": "user", "content": "raw"}]);
    let nvext = json!({
        "greed_sampling": true, "max_thinking_tokens": 50, "cache_salt": "s",
        "cache_control": {"type": "ephemeral"},
    });
    let (request, _) = applied(nvext, one.clone());
    assert_eq!(request.sampling.temperature, Some(0.0));
    assert_eq!(request.cache_salt.as_deref(), Some("s"));
    assert!(request.cache_control.is_some());
    let Prompt::Chat(chat) = &request.prompt else { panic!("a chat") };
    assert_eq!(chat.reasoning.budget_tokens, Some(50));

    let (request, _) = applied(json!({"max_thinking_tokens": 200}), one.clone());
    let Prompt::Chat(chat) = &request.prompt else { panic!("a chat") };
    assert_eq!(chat.reasoning.budget_tokens, Some(100), "the smaller of two budgets");
    assert_eq!(request.cache_salt.as_deref(), Some("top"));

    let (request, outcomes) = applied(json!({"max_thinking_tokens": 0}), one.clone());
    let Prompt::Chat(chat) = &request.prompt else { panic!("a chat") };
    assert_eq!(chat.reasoning.enabled, Some(false));
    assert_eq!(outcomes[0].result, HintResult::Accepted);

    let (request, outcomes) = applied(json!({"use_raw_prompt": true}), one.clone());
    assert_eq!(request.prompt, Prompt::Text("raw".to_owned()));
    assert_eq!(outcomes[0].result, HintResult::Accepted);
}

#[test]
fn a_hint_that_cannot_be_followed_leaves_the_request_as_it_is() {
    let two = json!([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]);
    let (request, outcomes) = applied(json!({"use_raw_prompt": true}), two);
    assert!(matches!(request.prompt, Prompt::Chat(_)));
    let why = "needs one message of text, no tools";
    assert_eq!((outcomes[0].result, outcomes[0].detail.as_str()), (HintResult::Rejected, why));
    // An empty prompt would refuse the request.
    let empty = json!([{"role": "user", "content": ""}]);
    for nvext in [json!({"use_raw_prompt": true}), json!({"token_data": []})] {
        let (request, outcomes) = applied(nvext, empty.clone());
        assert!(matches!(request.prompt, Prompt::Chat(_)));
        assert_eq!(outcomes[0].result, HintResult::Rejected);
    }
}

#[test]
fn outcomes_are_answered_in_a_body_and_in_a_header() {
    let (_, outcomes) = read(
        &json!({"agent_hints": {"priority": 9999}, "greed_sampling": true, "Odd/Name": 1}),
        &[],
    );
    assert_eq!(
        hints_value(&outcomes),
        json!([
            {"name": "agent_hints.priority", "outcome": "clipped", "detail": "3600 s"},
            {"name": "greed_sampling", "outcome": "accepted"},
            {"name": "Odd/Name", "outcome": "rejected", "detail": "unknown"},
        ])
    );
    assert_eq!(
        hints_header(&outcomes),
        r#"agent_hints.priority=clipped;detail="3600 s", greed_sampling=accepted, odd_name=rejected;detail="unknown""#
    );
    assert_eq!(hints_header(&[]), "");
}

#[test]
fn the_header_is_bounded_and_plain() {
    let odd = HintOutcome {
        name: "é/Ü 1".to_owned(),
        result: HintResult::Rejected,
        detail: "a \"quoted\\\" é\n".to_owned(),
    };
    let header = hints_header(&vec![odd; 500]);
    assert!(header.len() <= 1024 && header.len() > 900);
    assert!(header.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{header}");
    assert!(!header.ends_with(", "), "items are whole");
}

/// The paths of all hints in a schema, those of one group with its name in front.
fn paths(schema: &Value, prefix: &str, out: &mut BTreeSet<String>) {
    for (name, inner) in schema["properties"].as_object().expect("properties") {
        assert!(inner["description"].is_string(), "{prefix}{name} has a description");
        let path = format!("{prefix}{name}");
        if inner.get("properties").is_some() && path != "cache_control" {
            paths(inner, &format!("{path}."), out);
        } else {
            out.insert(path);
        }
    }
}

#[test]
fn the_schema_has_the_fields_that_are_read() {
    let schema: Value =
        serde_json::from_str(include_str!("../../../docs/agent-hints.schema.json")).expect("JSON");
    let mut described = BTreeSet::new();
    paths(&schema, "", &mut described);
    let mut expected: BTreeSet<String> =
        HINT_FIELDS.iter().map(|(name, _)| (*name).to_owned()).collect();
    // The newest generation's fields may stand without the object around them.
    expected.extend(["session_id", "parent_session_id", "session_final"].map(str::to_owned));
    assert_eq!(described, expected);
    for example in schema["examples"].as_array().expect("examples") {
        for outcome in read(example, &[]).1 {
            assert_ne!(outcome.result, HintResult::Rejected, "{outcome:?}");
            assert_ne!(outcome.result, HintResult::Clipped, "{outcome:?}");
        }
    }
}

#[test]
fn the_page_names_each_field_with_its_answer() {
    let page = include_str!("../../../docs/agent-hints.md");
    for (name, effect) in HINT_FIELDS {
        let row = page
            .lines()
            .find(|line| line.starts_with('|') && line.contains(&format!("`{name}`")))
            .unwrap_or_else(|| panic!("docs/agent-hints.md has no row for {name}"));
        let (answer, _) = match effect {
            Effect::Acts => ("accepted", ()),
            Effect::Waits(_) => ("deferred", ()),
            Effect::Lacks(_) => ("missing", ()),
            Effect::Never(_) => ("rejected", ()),
        };
        let last = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        assert!(last.contains(answer), "the row of {name} says {answer}: {last}");
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    let names: Vec<String> = HINT_FIELDS
        .iter()
        .flat_map(|(name, _)| name.split('.').map(str::to_owned))
        .chain(["ttl", "x\"\n"].map(str::to_owned))
        .collect();
    leaf.prop_recursive(3, 48, 8, move |inner| {
        let name = prop::sample::select(names.clone());
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..8)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_and_any_headers_are_answered(nvext in value(), header in ".{0,12}") {
        let headers = ["x-dynamo-request-priority", "x-tenant-id", "x-dp-rank", "x-dynamo-meta-a"];
        let headers = headers.map(|name| (name, header.as_str()));
        let (hints, outcomes) = read(&nvext, &headers);
        prop_assert!(hints.priority_s.is_none_or(|s| (-PRIORITY_S_MAX..=PRIORITY_S_MAX).contains(&s)));
        let text = hints_header(&outcomes);
        prop_assert!(text.len() <= 1024 && text.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        prop_assert!(outcomes.len() <= 64);
    }
}

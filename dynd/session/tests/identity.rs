//! One case per combination of identity headers and body keys that agents send.

use std::time::Duration;

use dynd_session::{AgentKeys, BodyKeys, Family, Harness, Notice, RequestClass, identify};

struct Case {
    name: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: BodyKeys<'static>,
    /// Family, harness, session, root, parent, final.
    expected: Option<Expected>,
}

type Expected = (Family, Harness, &'static str, Option<&'static str>, Option<&'static str>, bool);

const NO_AGENT: AgentKeys<'static> = AgentKeys {
    session_id: None,
    parent_session_id: None,
    trajectory_id: None,
    parent_trajectory_id: None,
    program_id: None,
    parent_program_id: None,
    workflow_id: None,
    is_final: false,
    control_session_id: None,
    control_action: None,
    prefix_id: None,
};
const NO_BODY: BodyKeys<'static> = BodyKeys {
    prompt_cache_key: None,
    metadata_session_id: None,
    metadata_user_id: None,
    agent: NO_AGENT,
};
const USER_ID: &str = r#"{"device_id":"d","account_uuid":"","session_id":"S"}"#;
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const TRACE_ID: &str = "0af7651916cd43dd8448eb211c80319c";

const fn case(
    name: &'static str,
    headers: &'static [(&'static str, &'static str)],
    expected: Option<Expected>,
) -> Case {
    Case { name, headers, body: NO_BODY, expected }
}

#[test]
fn each_combination_of_headers_names_its_session() {
    use Family as F;
    use Harness as H;
    let cases = [
        case("nothing", &[], None),
        case("unrelated", &[("accept", "*/*"), ("user-agent", "curl/8")], None),
        // Dynamo's canonical headers.
        case(
            "dynamo",
            &[("x-dynamo-session-id", "S")],
            Some((F::Dynamo, H::Dynamo, "S", None, None, false)),
        ),
        case(
            "dynamo with parent",
            &[("x-dynamo-session-id", "S"), ("x-dynamo-parent-session-id", "P")],
            Some((F::Dynamo, H::Dynamo, "S", None, Some("P"), false)),
        ),
        case(
            "dynamo final",
            &[("x-dynamo-session-id", "S"), ("x-dynamo-session-final", "Yes")],
            Some((F::Dynamo, H::Dynamo, "S", None, None, true)),
        ),
        case(
            "dynamo not final",
            &[("x-dynamo-session-id", "S"), ("x-dynamo-session-final", "false")],
            Some((F::Dynamo, H::Dynamo, "S", None, None, false)),
        ),
        case(
            "dynamo wins over a harness, which still labels it",
            &[
                ("x-claude-code-session-id", "C"),
                ("x-dynamo-session-id", "S"),
                ("user-agent", "claude-cli/2.1.332 (external, cli)"),
            ],
            Some((F::Dynamo, H::ClaudeCode, "S", None, None, false)),
        ),
        case(
            "own parent",
            &[("x-dynamo-session-id", "S"), ("x-dynamo-parent-session-id", " S ")],
            Some((F::Dynamo, H::Dynamo, "S", None, None, false)),
        ),
        case("dynamo parent alone", &[("x-dynamo-parent-session-id", "P")], None),
        case("final alone", &[("x-dynamo-session-final", "1")], None),
        case(
            "empty is absent",
            &[("x-dynamo-session-id", "  "), ("x-session-id", "G")],
            Some((F::Generic, H::Generic, "G", None, None, false)),
        ),
        case(
            "trimmed, any case of the name",
            &[("X-Dynamo-Session-Id", "\t S ")],
            Some((F::Dynamo, H::Dynamo, "S", None, None, false)),
        ),
        case(
            "first of two",
            &[("x-dynamo-session-id", "A"), ("x-dynamo-session-id", "B")],
            Some((F::Dynamo, H::Dynamo, "A", None, None, false)),
        ),
        // Claude Code.
        case(
            "claude code main",
            &[("x-claude-code-session-id", "R")],
            Some((F::ClaudeCode, H::ClaudeCode, "R", Some("R"), None, false)),
        ),
        case(
            "claude code sub-agent",
            &[("x-claude-code-session-id", "R"), ("x-claude-code-agent-id", "a1")],
            Some((F::ClaudeCode, H::ClaudeCode, "a1", Some("R"), Some("R"), false)),
        ),
        case(
            "claude code nested sub-agent",
            &[
                ("x-claude-code-session-id", "R"),
                ("x-claude-code-agent-id", "a2"),
                ("x-claude-code-parent-agent-id", "a1"),
            ],
            Some((F::ClaudeCode, H::ClaudeCode, "a2", Some("R"), Some("a1"), false)),
        ),
        case(
            "claude code main ignores a parent agent",
            &[("x-claude-code-session-id", "R"), ("x-claude-code-parent-agent-id", "a1")],
            Some((F::ClaudeCode, H::ClaudeCode, "R", Some("R"), None, false)),
        ),
        case("claude code agent without session", &[("x-claude-code-agent-id", "a1")], None),
        case(
            "claude code wins over generic names",
            &[("x-session-id", "X"), ("x-claude-code-session-id", "R")],
            Some((F::ClaudeCode, H::ClaudeCode, "R", Some("R"), None, false)),
        ),
        case(
            "claude code closes",
            &[("x-claude-code-session-id", "R"), ("x-dynamo-session-final", "on")],
            Some((F::ClaudeCode, H::ClaudeCode, "R", Some("R"), None, true)),
        ),
        // Codex.
        case(
            "codex main",
            &[("session-id", "R"), ("thread-id", "R")],
            Some((F::Codex, H::Codex, "R", Some("R"), None, false)),
        ),
        case(
            "codex sub-agent",
            &[("session-id", "R"), ("thread-id", "T"), ("x-codex-parent-thread-id", "P")],
            Some((F::Codex, H::Codex, "T", Some("R"), Some("P"), false)),
        ),
        case(
            "codex thread alone",
            &[("thread-id", "T")],
            Some((F::Codex, H::Codex, "T", None, None, false)),
        ),
        case(
            "older codex: session-id alone",
            &[("session-id", "R")],
            Some((F::Codex, H::Codex, "R", Some("R"), None, false)),
        ),
        case(
            "older codex by its user agent",
            &[("session-id", "R"), ("user-agent", "codex_exec/0.171.0 (Linux)")],
            Some((F::Codex, H::Codex, "R", Some("R"), None, false)),
        ),
        case(
            "session-id of pi",
            &[("session-id", "R"), ("user-agent", "pi/1.6.0")],
            Some((F::Generic, H::Pi, "R", None, None, false)),
        ),
        // OpenCode.
        case(
            "opencode own pair",
            &[("x-opencode-session-id", "O"), ("x-opencode-parent-session-id", "P")],
            Some((F::OpenCode, H::OpenCode, "O", None, Some("P"), false)),
        ),
        case(
            "opencode pair wins over affinity keys",
            &[
                ("x-session-id", "shared"),
                ("x-session-affinity", "shared"),
                ("x-parent-session-id", "shared-parent"),
                ("x-opencode-session", "shared"),
                ("x-opencode-session-id", "O"),
                ("x-opencode-parent-session-id", "P"),
            ],
            Some((F::OpenCode, H::OpenCode, "O", None, Some("P"), false)),
        ),
        case(
            "opencode id with the older parent",
            &[("x-opencode-session-id", "O"), ("x-parent-session-id", "P")],
            Some((F::OpenCode, H::OpenCode, "O", None, Some("P"), false)),
        ),
        case(
            "opencode x-session-id before x-opencode-session",
            &[("x-opencode-session", "B"), ("x-session-id", "A")],
            Some((F::OpenCode, H::OpenCode, "A", None, None, false)),
        ),
        case(
            "opencode x-opencode-session alone",
            &[("x-opencode-session", "B")],
            Some((F::OpenCode, H::OpenCode, "B", None, None, false)),
        ),
        case(
            "opencode by the form of its id",
            &[
                ("x-session-id", "ses_1"),
                ("x-session-affinity", "ses_1"),
                ("x-parent-session-id", "ses_0"),
            ],
            Some((F::OpenCode, H::OpenCode, "ses_1", None, Some("ses_0"), false)),
        ),
        case(
            "opencode by its user agent",
            &[("x-session-id", "S"), ("user-agent", "opencode/1.18.33 ai-sdk/provider")],
            Some((F::OpenCode, H::OpenCode, "S", None, None, false)),
        ),
        // Generic names.
        case(
            "x-session-id",
            &[("x-session-id", "S"), ("x-parent-session-id", "P")],
            Some((F::Generic, H::Generic, "S", None, Some("P"), false)),
        ),
        case(
            "session_id with parent_session_id",
            &[("session_id", "S"), ("parent_session_id", "P")],
            Some((F::Generic, H::Generic, "S", None, Some("P"), false)),
        ),
        case(
            "order of the generic names",
            &[
                ("x-session-affinity", "D"),
                ("session-id", "C"),
                ("session_id", "B"),
                ("x-session-id", "A"),
            ],
            Some((F::Generic, H::Generic, "A", None, None, false)),
        ),
        case(
            "pi chat with session affinity",
            &[("session_id", "S"), ("x-session-affinity", "S"), ("user-agent", "pi/1.6.0")],
            Some((F::Generic, H::Pi, "S", None, None, false)),
        ),
        case(
            "affinity alone",
            &[("x-session-affinity", "S"), ("user-agent", "Hermes/0.19")],
            Some((F::Generic, H::Hermes, "S", None, None, false)),
        ),
        case(
            "traceparent",
            &[("traceparent", TRACE), ("user-agent", "openclaw/2026.9.6")],
            Some((F::Trace, H::OpenClaw, TRACE_ID, None, None, false)),
        ),
        case(
            "traceparent comes last",
            &[("traceparent", TRACE), ("x-session-affinity", "S")],
            Some((F::Generic, H::Generic, "S", None, None, false)),
        ),
        case("broken traceparent", &[("traceparent", "00-xyz-1-01")], None),
        case(
            "zero trace id",
            &[("traceparent", "00-00000000000000000000000000000000-b7ad6b7169203331-01")],
            None,
        ),
        // Body keys.
        Case {
            name: "prompt_cache_key before metadata",
            headers: &[("user-agent", "pi/1.6.0"), ("traceparent", TRACE)],
            body: BodyKeys {
                prompt_cache_key: Some("K"),
                metadata_session_id: Some("M"),
                metadata_user_id: Some(USER_ID),
                ..NO_BODY
            },
            expected: Some((F::Generic, H::Pi, "K", None, None, false)),
        },
        Case {
            name: "metadata.session_id with a parent header",
            headers: &[("parent_session_id", "P")],
            body: BodyKeys { metadata_session_id: Some(" M "), ..NO_BODY },
            expected: Some((F::Generic, H::Generic, "M", None, Some("P"), false)),
        },
        Case {
            name: "metadata.user_id is the id of Claude Code's header",
            headers: &[],
            body: BodyKeys { metadata_user_id: Some(USER_ID), ..NO_BODY },
            expected: Some((F::ClaudeCode, H::ClaudeCode, "S", Some("S"), None, false)),
        },
        Case {
            name: "metadata.user_id of another client",
            headers: &[("user-agent", "openclaw/1")],
            body: BodyKeys { metadata_user_id: Some(USER_ID), ..NO_BODY },
            expected: Some((F::Generic, H::OpenClaw, "S", None, None, false)),
        },
        Case {
            name: "metadata.user_id that names a person",
            headers: &[],
            body: BodyKeys { metadata_user_id: Some("jane"), ..NO_BODY },
            expected: None,
        },
        Case {
            name: "metadata.user_id with broken JSON",
            headers: &[],
            body: BodyKeys { metadata_user_id: Some(r#"{"session_id":"S""#), ..NO_BODY },
            expected: None,
        },
        Case {
            name: "headers before body keys",
            headers: &[("session_id", "H")],
            body: BodyKeys { prompt_cache_key: Some("K"), ..NO_BODY },
            expected: Some((F::Generic, H::Generic, "H", None, None, false)),
        },
        Case {
            name: "nvext of the newest generation is the id of Dynamo's header",
            headers: &[],
            body: BodyKeys {
                agent: AgentKeys {
                    session_id: Some("S"),
                    parent_session_id: Some("P"),
                    is_final: true,
                    ..NO_AGENT
                },
                prompt_cache_key: Some("K"),
                ..NO_BODY
            },
            expected: Some((F::Dynamo, H::Dynamo, "S", None, Some("P"), true)),
        },
        Case {
            name: "headers before nvext",
            headers: &[("x-session-id", "H")],
            body: BodyKeys { agent: AgentKeys { session_id: Some("S"), ..NO_AGENT }, ..NO_BODY },
            expected: Some((F::Generic, H::Generic, "H", None, None, false)),
        },
        Case {
            name: "session_control names a session, and closes it",
            headers: &[],
            body: BodyKeys {
                agent: AgentKeys {
                    control_session_id: Some("S"),
                    control_action: Some("close"),
                    ..NO_AGENT
                },
                ..NO_BODY
            },
            expected: Some((F::Dynamo, H::Dynamo, "S", None, None, true)),
        },
        Case {
            name: "prefix_id when nothing better is known",
            headers: &[("traceparent", TRACE)],
            body: BodyKeys { agent: AgentKeys { prefix_id: Some("X"), ..NO_AGENT }, ..NO_BODY },
            expected: Some((F::Dynamo, H::Dynamo, "X", None, None, false)),
        },
        Case {
            name: "prefix_id after a body key",
            headers: &[],
            body: BodyKeys {
                agent: AgentKeys { prefix_id: Some("X"), ..NO_AGENT },
                prompt_cache_key: Some("K"),
                ..NO_BODY
            },
            expected: Some((F::Generic, H::Generic, "K", None, None, false)),
        },
    ];
    for case in cases {
        let found = identify(case.headers.iter().copied(), &case.body);
        let identity = found.identity.as_ref().map(|found| {
            let (root, parent) = (found.root.as_deref(), found.parent.as_deref());
            (found.family, found.harness, &*found.session, root, parent, found.is_final)
        });
        assert_eq!(identity, case.expected, "{}", case.name);
        assert!(found.notices.is_empty(), "{}: {:?}", case.name, found.notices);
    }
}

#[test]
fn the_user_agent_labels_a_client_without_identity() {
    for (user_agent, expected) in [
        ("claude-cli/2.1.332 (external, sdk-cli)", Some(Harness::ClaudeCode)),
        ("codex_exec/0.171.0 (Debian)", Some(Harness::Codex)),
        ("codex_cli_rs/0.171.0", Some(Harness::Codex)),
        ("opencode/1.18.33 ai-sdk/x", Some(Harness::OpenCode)),
        ("pi/1.6.0", Some(Harness::Pi)),
        ("openclaw", Some(Harness::OpenClaw)),
        ("hermes-agent/0.19.0", Some(Harness::Hermes)),
        ("pip/24.0", None),
        ("OpenAI/JS 6.1", None),
        ("", None),
    ] {
        let found = identify([("user-agent", user_agent)], &NO_BODY);
        assert_eq!((found.client, found.identity), (expected, None), "{user_agent}");
    }
}

#[test]
fn an_id_that_cannot_be_one_is_ignored_with_a_notice_and_the_next_source_is_used() {
    let longest = "x".repeat(256);
    let too_long = "x".repeat(257);
    assert!(identify([("session_id", &*longest)], &NO_BODY).identity.is_some());
    for odd in [&*too_long, "two words", "esc\u{1b}[31m", "naïve", "tab\tin"] {
        let found = identify([("x-session-id", odd), ("session_id", "fine")], &NO_BODY);
        assert_eq!(found.identity.unwrap().session, "fine", "{odd:?}");
        assert_eq!(found.notices, [Notice::OddId { source_name: "x-session-id" }], "{odd:?}");
        assert!(!found.notices[0].to_string().contains(odd), "a notice never carries the value");
    }
    let body = BodyKeys { prompt_cache_key: Some("a b"), ..NO_BODY };
    let found = identify([], &body);
    assert_eq!(found.identity, None);
    assert_eq!(found.notices, [Notice::OddId { source_name: "prompt_cache_key" }]);
}

/// `session_id` is the whole run in one generation of `nvext` and the session in another: the keys
/// beside it tell which.
#[test]
fn the_generation_of_nvext_is_told_by_its_keys() {
    let second = AgentKeys {
        session_id: Some("run"),
        trajectory_id: Some("chain"),
        parent_trajectory_id: Some("up"),
        ..NO_AGENT
    };
    let first = AgentKeys {
        workflow_id: Some("run"),
        program_id: Some("chain"),
        parent_program_id: Some("up"),
        ..NO_AGENT
    };
    for agent in [first, second] {
        let identity = identify([], &BodyKeys { agent, ..NO_BODY }).identity.unwrap();
        assert_eq!((identity.family, &*identity.session), (Family::Dynamo, "chain"));
        assert_eq!((identity.parent.as_deref(), identity.root.as_deref()), (Some("up"), None));
        assert_eq!(identity.run.as_deref(), Some("run"), "kept as a label");
    }
}

#[test]
fn harnesses_say_what_a_request_is() {
    use RequestClass as C;
    let metadata = r#"{"request_kind":"compaction","window_number":3,"workspaces":{"a":{}}}"#;
    for (name, value, class) in [
        ("x-claude-code-request-class", "auxiliary", Some(C::Auxiliary)),
        ("X-Claude-Code-Request-Class", "subagent", Some(C::Subagent)),
        ("x-claude-code-request-class", "something-new", None),
        ("x-claude-1p-request-class", "summary-extraction", Some(C::Auxiliary)),
        ("x-claude-1p-request-class", "blocking-subagent", Some(C::Subagent)),
        ("x-claude-code-compaction", "auto", Some(C::Compaction)),
        ("x-codex-turn-metadata", metadata, Some(C::Compaction)),
        ("x-codex-turn-metadata", r#"{"request_kind":"prewarm"}"#, Some(C::Prewarm)),
        ("x-codex-turn-metadata", r#"{"request_kind":7}"#, None),
        ("x-codex-turn-metadata", "{", None),
    ] {
        let signals = identify([(name, value)], &NO_BODY).signals;
        assert_eq!(signals.request_class, class, "{name}: {value}");
    }
    let both = [("x-claude-code-compaction", "auto"), ("x-claude-code-request-class", "main")];
    assert_eq!(identify(both, &NO_BODY).signals.request_class, Some(C::Compaction));
    let window = |headers: [(&'static str, &'static str); 1]| {
        identify(headers, &NO_BODY).signals.window_number
    };
    assert_eq!(window([("x-codex-window-id", "thread:2")]), Some(2));
    assert_eq!(window([("x-codex-window-id", "thread")]), None);
    assert_eq!(window([("x-codex-turn-metadata", metadata)]), Some(3));
    let compacted = identify([("x-claude-code-context-compacted", "auto")], &NO_BODY).signals;
    assert!(compacted.is_after_compaction && compacted.request_class.is_none());
}

#[test]
fn times_of_tools_are_added_up_within_bounds() {
    let time = |value: &str| {
        identify([("x-claude-code-prev-tool-durations", value)], &NO_BODY).signals.tool_time
    };
    assert_eq!(time("Bash=742;Bash=9;custom%3Btool=2"), Some(Duration::from_millis(753)));
    assert_eq!(time("Bash=x; Read=5 ;;Edit"), Some(Duration::from_millis(5)));
    assert_eq!(time("Bash"), None, "unknown is not zero");
    assert_eq!(time(&"a=1;".repeat(100)), Some(Duration::from_millis(32)));
    assert_eq!(time(&"a=1;".repeat(2000)), None);
}

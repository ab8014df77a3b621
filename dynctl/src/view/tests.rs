//! Whole screens, as a person sees them.

use dynd_proto::v1;

use super::*;
use crate::output::Style;

fn session(id: &str, depth: u32, turns: u64) -> v1::Session {
    v1::Session {
        id: id.to_owned(),
        root: "root".to_owned(),
        harness: "claude-code".to_owned(),
        phase: "idle".to_owned(),
        admission: "admitted".to_owned(),
        depth,
        turns,
        unique_prefix: 8,
        created_ms: 1_000,
        last_active_ms: 58_000,
        ..v1::Session::default()
    }
}

fn tree() -> v1::ListSessionsReply {
    let measured = |session: v1::Session, prompt_tokens, cached_tokens| v1::Session {
        model: Some("SmolLM2".to_owned()),
        prompt_tokens,
        cached_tokens,
        output_tokens: 320,
        hit_rate: Some(cached_tokens as f64 / prompt_tokens as f64),
        last_ttft_ms: Some(41.7),
        ..session
    };
    v1::ListSessionsReply {
        now_ms: 100_000,
        sessions: vec![
            measured(session("5f0c9e52-77aa-4c09-9c5e-1f0b1c9d2e3f", 0, 5), 12_400, 10_900),
            v1::Session {
                phase: "reasoning".to_owned(),
                ..measured(session("a3b1c5d7e9f01234", 1, 2), 3_000, 3_000)
            },
            v1::Session { phase: "acting".to_owned(), ..session("a9", 2, 0) },
            v1::Session {
                phase: "reasoning".to_owned(),
                admission: "queued".to_owned(),
                ..session("b\u{1b}[31m", 1, 1)
            },
        ],
    }
}

#[test]
fn the_session_tree() {
    let expected = "\
SESSION              PHASE      TURNS  PROMPT  CACHED    HIT  OUTPUT  TTFT
5f0c9e52             idle           5   12.4k   10.9k  87.9%     320  42ms
├─ a3b1c5d7e9f01234  reasoning      2    3000    3000   100%     320  42ms
│  └─ a9             acting         0       0       0      –       0     –
└─ b\\u{1b}[31m       queued         1       0       0      –       0     –
";
    let shown = session_tree(&tree(), Style::Plain);
    assert_eq!(shown, expected, "\n{shown}");
}

#[test]
fn the_session_list() {
    let expected = "\
ID                HARNESS      PHASE      TURNS  PROMPT    HIT  OUTPUT  ACTIVE
5f0c9e52          claude-code  idle           5   12.4k  87.9%     320     42s
a3b1c5d7e9f01234  claude-code  reasoning      2    3000   100%     320     42s
a9                claude-code  acting         0       0      –       0     42s
b\\u{1b}[31m       claude-code  queued         1       0      –       0     42s
";
    let shown = session_list(&tree(), false, Style::Plain);
    assert_eq!(shown, expected, "\n{shown}");
    let none = v1::ListSessionsReply::default();
    assert_eq!(session_list(&none, true, Style::Plain), "No active session.\n");
    assert_eq!(session_list(&none, false, Style::Plain), "No session yet.\n");
    assert_eq!(session_tree(&none, Style::Plain), "No session yet.\n");
}

#[test]
fn one_session_with_its_turns() {
    let turn = |number, finish: Option<&str>| v1::Turn {
        number,
        kind: "extends".to_owned(),
        prompt_tokens: 1_600,
        finish: finish.map(str::to_owned),
        ..v1::Turn::default()
    };
    let reply = v1::GetSessionReply {
        now_ms: 100_000,
        session: Some(v1::Session {
            parent: Some("root".to_owned()),
            requests_in_flight: 1,
            repeated_turns: 2,
            ..session("a9", 1, 3)
        }),
        turns: vec![
            v1::Turn {
                cached_tokens: Some(1_520),
                output_tokens: Some(64),
                ttft_ms: Some(38.2),
                total_ms: Some(1_420.0),
                ..turn(2, Some("tool_calls"))
            },
            turn(3, None),
        ],
        children: ["b", "c", "d", "e", "f"].map(str::to_owned).to_vec(),
    };
    let expected = "\
session:   a9
parent:    root
root:      root
children:  b, c, d and 2 more
harness:   claude-code
model:     –
phase:     idle
turns:     3 (1 in flight, 2 repeated)
tokens:    0 prompt, 0 cached (–), 0 output
created:   1m ago
active:    42s ago

TURN  KIND     PROMPT  CACHED    HIT  OUTPUT  TTFT  TOTAL  FINISH
   2  extends    1600    1520  95.0%      64  38ms  1.42s  tool_calls
   3  extends    1600       –      –       –     –      –  –
";
    let shown = super::session(&reply, Style::Plain);
    assert_eq!(shown, expected, "\n{shown}");
}

#[test]
fn the_status_screen() {
    let reply = v1::StatusReply {
        now_ms: 3_700_000,
        started_ms: 0,
        version: "0.1.0".to_owned(),
        state: "serving".to_owned(),
        pid: 42,
        listen: vec!["127.0.0.1:8484".to_owned()],
        models: vec![v1::Model {
            id: "SmolLM2".to_owned(),
            context_tokens: Some(8192),
            architecture: "llama".to_owned(),
            quantization: "Q4_1".to_owned(),
        }],
        workers: vec![v1::Worker {
            name: "cpu0".to_owned(),
            executor: "cpu avx512-vnni x2".to_owned(),
            state: "up".to_owned(),
            running: Some(2),
            ..v1::Worker::default()
        }],
        sessions: Some(v1::SessionCounts { total: 3, idle: 3, ..v1::SessionCounts::default() }),
        totals: Some(v1::Totals { turns: 8, prompt_tokens: 20_000, ..v1::Totals::default() }),
        warnings: vec!["disk is slow".to_owned()],
    };
    let expected = "\
dynd 0.1.0 is serving, up 1h, pid 42
warning: disk is slow

listen:    127.0.0.1:8484
models:    SmolLM2 (llama, Q4_1, 8192 tokens)
sessions:  3: 0 reasoning, 0 acting, 3 idle, 0 closed
turns:     8: 20.0k prompt tokens, 0 cached (–), 0 output

WORKER  RUNNING  WAITING  STATE  EXECUTOR
cpu0          2        –  up     cpu avx512-vnni x2
";
    let shown = status(&reply, Style::Plain);
    assert_eq!(shown, expected, "\n{shown}");
}

#[test]
fn the_cache_screen() {
    let reply = v1::CacheStatsReply {
        now_ms: 0,
        pools: vec![v1::CachePool {
            worker: "cpu0".to_owned(),
            tier: "device".to_owned(),
            block_tokens: 16,
            block_bytes: Some(184_320),
            blocks_total: Some(2_048),
            blocks_free: Some(1_536),
            blocks_cached: Some(512),
            prompt_tokens: Some(1_000),
            cached_tokens: Some(900),
            hit_rate: Some(0.9),
            ..v1::CachePool::default()
        }],
    };
    let expected = "\
cpu0 (device)
size:       2048 blocks of 16 tokens: 32.8k tokens, 360.0 MiB
active:     –
cached:     512 blocks (25.0%)
free:       1536 blocks (75.0%)
hit rate:   90.0%
hits:       900 of 1000 prompt tokens
evicted:    –
preempted:  –
";
    let shown = cache(&reply, Style::Plain);
    assert_eq!(shown, expected, "\n{shown}");
    let none = cache(&v1::CacheStatsReply::default(), Style::Plain);
    assert!(none.contains("loading"), "{none}");
}

/// The widest figures there are still fit a terminal of 80 columns.
#[test]
fn tables_fit_80_columns() {
    let mut reply = tree();
    for session in &mut reply.sessions {
        session.turns = 9_999;
        session.prompt_tokens = 999_900_000;
        session.cached_tokens = 999_900_000;
        session.output_tokens = 999_900_000;
        session.hit_rate = Some(0.875);
        session.last_ttft_ms = Some(59_990.0);
        session.phase = "reasoning".to_owned();
    }
    for text in [session_list(&reply, false, Style::Plain), session_tree(&reply, Style::Plain)] {
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80, "{widest}\n{text}");
    }
}

#[test]
fn version_without_a_daemon_says_so() {
    assert!(version(None).contains("dynd:    – (not reachable)"));
}

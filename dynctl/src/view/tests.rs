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
        last_verdict: Some("volatile_line".to_owned()),
        last_lost_tokens: Some(12_345),
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
SESSION         PHASE      TURNS  PROMPT  CACHED    HIT  OUTPUT  TTFT
5f0c9e52…       idle           5   12.4k   10.9k  87.9%     320  42ms
├─ a3b1c5d7…    reasoning      2    3000    3000   100%     320  42ms
│  └─ a9        acting         0       0       0      –       0     –
└─ b\\u{1b}[31m  queued         1       0       0      –       0     –
";
    let shown = session_tree(&tree(), Style::Plain);
    assert_eq!(shown, expected, "\n{shown}");
}

#[test]
fn the_session_list() {
    let expected = "\
ID           HARNESS      PHASE      TURNS    HIT  LAST   LOST  ACTIVE
5f0c9e52…    claude-code  idle           5  87.9%  line  12.3k     42s
a3b1c5d7…    claude-code  reasoning      2   100%  line  12.3k     42s
a9           claude-code  acting         0      –  –         –     42s
b\\u{1b}[31m  claude-code  queued         1      –  –         –     42s
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
                guessed_tokens: Some(48),
                ttft_ms: Some(38.2),
                total_ms: Some(1_420.0),
                ..turn(2, Some("tool_calls"))
            },
            turn(3, None),
        ],
        children: ["b", "c", "d", "e", "f"].map(str::to_owned).to_vec(),
        ..v1::GetSessionReply::default()
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

TURN  KIND     PROMPT  CACHED    HIT  OUTPUT  TOK/STEP  TTFT  TOTAL  FINISH
   2  extends    1600    1520  95.0%      64       4.0  38ms  1.42s  tool_calls
   3  extends    1600       –      –       –         –     –      –  –
";
    let shown = super::session(&reply, TurnView::default(), Style::Plain);
    assert_eq!(shown, expected, "\n{shown}");
}

/// A session whose turns missed in every way that is shown in its own words.
fn missed() -> v1::GetSessionReply {
    let place = |message, role: &str, class: &str, byte_offset, token| v1::Place {
        message,
        role: role.to_owned(),
        class: class.to_owned(),
        byte_offset,
        token,
    };
    let verdict = |cause: &str, lost_tokens| v1::Verdict {
        cause: cause.to_owned(),
        lost_tokens,
        lost_ms: Some(lost_tokens as f64 / 2.0),
        ..v1::Verdict::default()
    };
    let verdicts = [
        v1::Verdict {
            place: Some(place(None, "system", "system", Some(500), 120)),
            line: Some("date".to_owned()),
            against: Some("monday".to_owned()),
            ..verdict("volatile_line", 26_000)
        },
        verdict("full_hit", 0),
        v1::Verdict {
            place: Some(place(None, "tools", "tools", None, 900)),
            tools: Some(v1::ToolsChange { added: 1, removed: 0, index: 20 }),
            ..verdict("tools_changed", 4_000)
        },
        v1::Verdict {
            place: Some(place(Some(3), "assistant", "thinking", None, 2_000)),
            ..verdict("reasoning_dropped", 800)
        },
        v1::Verdict {
            evicted: Some(v1::Eviction {
                by: Some("0199a3b1-7c4d-7000-8000-000000000000".to_owned()),
                ago_ms: Some(40_000.0),
            }),
            ..verdict("evicted", 16_000)
        },
        v1::Verdict {
            place: Some(place(Some(7), "user", "user", Some(12), 30_000)),
            ..verdict("client_appended_moving_tail", 300)
        },
    ];
    let turns = verdicts.into_iter().zip(1..).map(|(verdict, number)| v1::Turn {
        number,
        prompt_tokens: 30_000,
        verdict: Some(verdict),
        ..v1::Turn::default()
    });
    v1::GetSessionReply {
        now_ms: 100_000,
        session: Some(v1::Session {
            last_verdict: Some("client_appended_moving_tail".to_owned()),
            last_lost_tokens: Some(300),
            lost_tokens: 47_100,
            ..session("a9", 0, 7)
        }),
        turns: turns
            .chain([v1::Turn { number: 7, prompt_tokens: 5, ..v1::Turn::default() }])
            .collect(),
        ..v1::GetSessionReply::default()
    }
}

#[test]
fn why_the_turns_of_a_session_missed() {
    let expected = "\
TURN  VERDICT            WHERE                     TOKEN   LOST    COST
   1  date line          system, byte 500            120  26.0k  13.00s
   2  full hit           –                             –      0       –
   3  tools changed +1   tool 20                     900   4000   2.00s
   4  reasoning dropped  #3 thinking                2000    800   400ms
   5  evicted            by 0199a3b1…, 40s before      –  16.0k   8.00s
   6  moving tail        #7 user, byte 12          30.0k    300   150ms
   7  –                  –                             –      –       –

lost: 47.1k of 180.0k prompt tokens (26.2%), about 23.55s
turn 1 is compared with session monday
moving tail: the client moves a message of its own to the end
evicted: others needed the room; see `dynctl cache stats`
reasoning dropped: earlier thinking left the prompt; see the template's switches
tools changed: tools came, went or changed; give them all from the start
volatile line: a line that changes by itself; move it to the end of the prompt
";
    let misses = TurnView { misses: true, hints: false };
    let shown = super::session(&missed(), misses, Style::Plain);
    let (fields, table) = shown.split_once("\n\n").unwrap();
    assert_eq!(table, expected, "\n{table}");
    assert!(fields.ends_with("lost:      47.1k tokens; last turn 300: moving tail"), "{fields}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
}

#[test]
fn what_became_of_hints() {
    let hint = |name: &str, outcome: &str, detail: &str| v1::Hint {
        name: name.to_owned(),
        outcome: outcome.to_owned(),
        detail: detail.to_owned(),
    };
    let mut reply = missed();
    let hints = TurnView { misses: false, hints: true };
    let none = super::session(&reply, hints, Style::Plain);
    assert!(none.ends_with("None of these turns came with hints.\n"), "{none}");
    reply.turns[1].hints = vec![
        hint("agent_hints.priority", "clipped", "to 100"),
        hint("cache_control", "accepted", ""),
    ];
    let expected = "\
TURN  HINT                  OUTCOME   DETAIL
   2  agent_hints.priority  clipped   to 100
   2  cache_control         accepted  –
";
    let shown = super::session(&reply, hints, Style::Plain);
    let (_, table) = shown.split_once("\n\n").unwrap();
    assert_eq!(table, expected, "\n{table}");
}

#[test]
fn what_not_every_session_has_is_shown_where_it_is() {
    let mut reply = missed();
    reply.run = Some("nightly".to_owned());
    reply.tool_time_ms = Some(42_000.0);
    reply.dead_branches = 2;
    reply.dead_tokens = 60_000;
    reply.notices = vec![v1::Notice { code: "model_substituted".to_owned(), count: 3 }];
    reply.siblings = vec![v1::SiblingGroup {
        sessions: 8,
        first: "agent-0".to_owned(),
        common_tokens: 36,
        prompt_tokens: 9_110,
        place: Some(v1::Place {
            class: "system".to_owned(),
            byte_offset: Some(36),
            token: 36,
            ..v1::Place::default()
        }),
        line: Some("path".to_owned()),
    }];
    reply.turns[6].progress = Some(v1::Progress {
        done_tokens: 12_300,
        total_tokens: 60_000,
        cached_tokens: 8_192,
        tokens_per_second: Some(850.2),
        remaining_ms: Some(56_000.0),
    });
    let expected = "\
run:        nightly
tools ran:  42.00s
lost:       47.1k tokens; last turn 300: moving tail
compacted:  2 times, 60.0k tokens are dead
prompt:     turn 7: 12.3k of 60.0k tokens, 8192 cached, 850 tokens/s, 56s left
siblings:   8 children from agent-0 on part at token 36 of 9110: path line in system, byte 36
notices:    model_substituted (3)

TURN";
    let shown = super::session(&reply, TurnView::default(), Style::Plain);
    assert!(shown.contains(expected), "\n{shown}");
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
        requests_in_flight: 5,
        requests_queued: 3,
        misses: [("full_hit", 0), ("evicted", 900), ("volatile_line", 12_300)]
            .map(|(cause, lost_tokens)| v1::MissCount {
                cause: cause.to_owned(),
                turns: 2,
                lost_tokens,
            })
            .to_vec(),
    };
    let expected = "\
dynd 0.1.0 is serving, up 1h, pid 42
warning: disk is slow

listen:    127.0.0.1:8484
models:    SmolLM2 (llama, Q4_1, 8192 tokens)
sessions:  3: 0 reasoning, 0 acting, 3 idle, 0 closed
turns:     8: 20.0k prompt tokens, 0 cached (–), 0 output
lost:      13.2k tokens: volatile line 12.3k, evicted 900
requests:  5: 2 running, 3 waiting

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
        session.last_verdict = Some("reasoning_dropped".to_owned());
        session.last_lost_tokens = Some(999_900);
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

#[test]
fn one_worker_in_full() {
    let worker = v1::Worker {
        name: "cpu0".to_owned(),
        executor: "cpu avx2 x2".to_owned(),
        model: "m".to_owned(),
        state: "up".to_owned(),
        running: Some(2),
        numerics: "cpu-1".to_owned(),
        kv_dtype: "f16".to_owned(),
        window_tokens: Some(8192),
        steps: Some(1200),
        output_tokens: Some(3000),
        draft_tokens: Some(2500),
        accepted_tokens: Some(2000),
        ..v1::Worker::default()
    };
    let expected = "\
cpu0
state:       up
executor:    cpu avx2 x2
arithmetic:  cpu-1
kv:          f16
model:       m
window:      8192 tokens
running:     2
waiting:     –
steps:       1200
prefilled:   –
generated:   3000 tokens, 3.0 for each step of a sequence
guesses:     2000 of 2500 right (80.0%)
";
    let shown = super::workers(&[worker], Style::Plain);
    assert_eq!(shown, expected, "\n{shown}");
    let expected = "No worker yet: the model is still loading.\n";
    assert_eq!(super::workers(&[], Style::Plain), expected);
    assert_eq!(super::worker_list(&[], Style::Plain), expected);
}

//! The built binary against a control server: what it prints, where, and how it exits.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use dynd_proto::v1;
use dynd_proto::v1::control_server::{Control, ControlServer};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

/// An id such as only a hostile client would choose.
const HOSTILE: &str = "evil\u{1b}[2J\u{9b}";

/// Answers with a tree of two sessions.
struct FixedDaemon;

fn sessions() -> Vec<v1::Session> {
    let session = |id: &str, depth| v1::Session {
        id: id.to_owned(),
        root: "root".to_owned(),
        harness: "codex".to_owned(),
        phase: "idle".to_owned(),
        admission: "admitted".to_owned(),
        unique_prefix: 8,
        depth,
        ..v1::Session::default()
    };
    vec![
        v1::Session {
            model: Some("m".to_owned()),
            turns: 2,
            prompt_tokens: 400,
            cached_tokens: 100,
            output_tokens: 9,
            hit_rate: Some(0.25),
            created_ms: 1_700_000_000_000,
            last_active_ms: u64::MAX,
            ..session("root", 0)
        },
        v1::Session { parent: Some("root".to_owned()), ..session(HOSTILE, 1) },
    ]
}

#[tonic::async_trait]
impl Control for FixedDaemon {
    async fn status(
        &self,
        _: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusReply>, Status> {
        Ok(Response::new(v1::StatusReply {
            version: "9.9.9".to_owned(),
            state: "serving".to_owned(),
            ..v1::StatusReply::default()
        }))
    }

    async fn list_sessions(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsReply>, Status> {
        let sessions = if request.into_inner().active { Vec::new() } else { sessions() };
        Ok(Response::new(v1::ListSessionsReply { now_ms: 1_700_000_000_000, sessions }))
    }

    async fn get_session(
        &self,
        request: Request<v1::GetSessionRequest>,
    ) -> Result<Response<v1::GetSessionReply>, Status> {
        let request = request.into_inner();
        let line = |line: &str| v1::PartedLines { old: line.to_owned(), new: HOSTILE.to_owned() };
        match request.id.as_str() {
            "mute" if request.show_text => Err(Status::failed_precondition(
                "this daemon keeps no text (sessions.show_text is off)",
            )),
            "root" | "@last" => Ok(Response::new(v1::GetSessionReply {
                session: sessions().into_iter().next(),
                turns: vec![v1::Turn {
                    number: 2,
                    kind: "extends".to_owned(),
                    prompt_tokens: 200,
                    ttft_ms: Some(12.5),
                    verdict: Some(v1::Verdict {
                        cause: "volatile_line".to_owned(),
                        place: Some(v1::Place { token: 7, ..v1::Place::default() }),
                        line: Some("date".to_owned()),
                        lost_tokens: 50,
                        lines: request.show_text.then(|| line("Today is Monday.")),
                        ..v1::Verdict::default()
                    }),
                    hints: vec![v1::Hint {
                        name: "agent_hints.osl".to_owned(),
                        outcome: "accepted".to_owned(),
                        ..v1::Hint::default()
                    }],
                    ..v1::Turn::default()
                }],
                ..v1::GetSessionReply::default()
            })),
            "r" => Err(Status::invalid_argument("2 sessions begin with it, such as ra, rb")),
            "secret" => Err(Status::permission_denied("user 7 may not control this dynd")),
            "slow" => std::future::pending().await,
            _ => Err(Status::not_found("no session has this id")),
        }
    }

    async fn cache_stats(
        &self,
        _: Request<v1::CacheStatsRequest>,
    ) -> Result<Response<v1::CacheStatsReply>, Status> {
        let pools = vec![v1::CachePool { worker: "cpu0".to_owned(), ..v1::CachePool::default() }];
        Ok(Response::new(v1::CacheStatsReply { now_ms: 0, pools }))
    }

    async fn version(
        &self,
        _: Request<v1::VersionRequest>,
    ) -> Result<Response<v1::VersionReply>, Status> {
        Ok(Response::new(v1::VersionReply {
            version: "9.9.9".to_owned(),
            api_version: "dynd/v1".to_owned(),
        }))
    }
}

/// A control server on a socket of its own, stopped when dropped.
struct Server {
    dir: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = {
            let _in_runtime = runtime.enter();
            UnixListener::bind(dir.path().join("c.sock")).unwrap()
        };
        runtime.spawn(
            tonic::transport::Server::builder()
                .add_service(ControlServer::new(FixedDaemon))
                .serve_with_incoming(UnixListenerStream::new(listener)),
        );
        Server { dir, _runtime: runtime }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("c.sock")
    }

    fn run(&self, args: &[&str]) -> Output {
        dynctl(&self.socket()).args(args).output().unwrap()
    }
}

fn dynctl(socket: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dynctl"));
    command.env_clear().env("DYNCTL_CONTROL", socket).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{error}: {}", text(bytes)))
}

#[test]
fn each_read_command_answers_in_both_formats() {
    let server = Server::start();
    for (args, kind, shown) in [
        (&["status"][..], "Status", "is serving"),
        (&["session", "ls"], "SessionList", "codex"),
        (&["session", "list"], "SessionList", "codex"),
        (&["session", "ls", "--active"], "SessionList", "No active session."),
        (&["session", "tree"], "SessionTree", "└─ "),
        (&["session", "show", "root"], "Session", "extends"),
        (&["session", "show", "@last"], "Session", "extends"),
        (&["session", "show", "root…"], "Session", "extends"),
        (&["session", "show", "root", "--misses"], "Session", "date line"),
        (&["session", "show", "root", "--misses", "--show-text"], "Session", "Today is Monday."),
        (&["session", "show", "root", "--hints"], "Session", "agent_hints.osl"),
        (&["session", "show", "root", "--misses", "--hints"], "Session", "agent_hints.osl"),
        (&["cache", "stats"], "CacheStats", "cpu0"),
        (&["version"], "Version", "9.9.9"),
    ] {
        let table = server.run(args);
        assert_eq!(table.status.code(), Some(0), "{args:?}: {}", text(&table.stderr));
        assert!(text(&table.stdout).contains(shown), "{args:?}: {}", text(&table.stdout));
        let output = server.run(&[args, &["-o", "json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        let document = json(&output.stdout);
        assert_eq!(document["apiVersion"], "dynd/v1", "{args:?}");
        assert_eq!(document["kind"], kind, "{args:?}");
    }
}

#[test]
fn a_session_item_has_the_promised_fields() {
    let server = Server::start();
    let document = json(&server.run(&["session", "ls", "-o", "json"]).stdout);
    let item = &document["items"][0];
    let expected = serde_json::json!({
        "id": "root",
        "parent": null,
        "root": "root",
        "harness": "codex",
        "model": "m",
        "phase": "idle",
        "admission": "admitted",
        "turns": 2,
        "prompt_tokens": 400,
        "cached_tokens": 100,
        "output_tokens": 9,
        "hit_rate": 0.25,
        "created_ms": 1_700_000_000_000u64,
        "last_active_ms": u64::MAX,
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&item[name], value, "{name}");
    }
    assert_eq!(document["items"][1]["hit_rate"], serde_json::Value::Null, "unknown is not zero");
    assert_eq!(document["items"][1]["id"], HOSTILE);
    let none = json(&server.run(&["session", "ls", "--active", "-o", "json"]).stdout);
    assert_eq!(none["items"], serde_json::json!([]), "an empty list is a list");
    let shown = json(&server.run(&["session", "show", "root", "-o", "json"]).stdout);
    assert_eq!(shown["recent_turns"][0]["ttft_ms"], 12.5);
    assert_eq!(shown["recent_turns"][0]["finish"], serde_json::Value::Null);
    let turn = &shown["recent_turns"][0];
    let expected = serde_json::json!({
        "cause": "volatile_line",
        "place": { "message": null, "role": "", "class": "", "byte_offset": null, "token": 7 },
        "line": "date",
        "tools": null,
        "evicted": null,
        "against": null,
        "cached_tokens": 0,
        "lost_tokens": 50,
        "new_tokens": 0,
        "lost_ms": null,
    });
    assert_eq!(turn["verdict"], expected);
    let hints = serde_json::json!([
        { "name": "agent_hints.osl", "outcome": "accepted", "detail": null },
    ]);
    assert_eq!(turn["hints"], hints);
    assert_eq!(turn["progress"], serde_json::Value::Null);
}

#[test]
fn exit_statuses_tell_what_happened_and_errors_tell_the_fix() {
    let server = Server::start();
    for (args, status, code) in [
        (&["session", "show", "nope"][..], 3, "not_found"),
        (&["session", "show", "r"], 2, "usage"),
        (&["session", "show", "root", "--show-text"], 2, "usage"),
        (&["session", "show", "mute", "--misses", "--show-text"], 1, "failed"),
        (&["session", "show", "secret"], 4, "permission_denied"),
        (&["session", "show", "slow", "--timeout", "50ms"], 7, "timeout"),
        (&["sessoin"], 2, "usage"),
        (&["session"], 2, "usage"),
        (&[], 2, "usage"),
        (&["session", "show"], 2, "usage"),
        (&["status", "--timeout", "soon"], 2, "usage"),
        (&["status", "--control", "/nonexistent/c.sock"], 5, "daemon_unreachable"),
    ] {
        let output = server.run(args);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains("\nfix: "), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
        let output = server.run(&[args, &["-o", "json"]].concat());
        assert_eq!(output.status.code(), Some(status), "{args:?}");
        let error = json(&output.stderr);
        assert_eq!(error["error"]["code"], code, "{args:?}: {error}");
        assert!(error["error"]["message"].is_string() && error["error"]["hint"].is_string());
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    let typo = text(&server.run(&["sessoin"]).stderr);
    assert!(typo.contains("did you mean `session`?"), "a typo gets the best suggestion: {typo}");
    let missing = text(&server.run(&["session", "show"]).stderr);
    assert!(missing.contains("why: <ID>"), "what is missing is named: {missing}");
}

#[test]
fn a_missing_daemon_is_status_5_and_says_how_to_start_one() {
    let dir = tempfile::tempdir().unwrap();
    let stale = dir.path().join("stale.sock");
    drop(StdListener::bind(&stale).unwrap());
    for socket in [dir.path().join("none.sock"), stale] {
        for args in [&["status"][..], &["session", "ls"], &["session", "tree"], &["cache", "stats"]]
        {
            let output = dynctl(&socket).args(args).output().unwrap();
            assert_eq!(output.status.code(), Some(5), "{args:?}");
            assert!(text(&output.stderr).contains("dynd --model"), "{}", text(&output.stderr));
        }
        let output = dynctl(&socket).args(["version", "-o", "json"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "its own version needs no daemon");
        assert_eq!(json(&output.stdout)["daemon"], serde_json::Value::Null);
    }
}

#[test]
fn a_socket_that_does_not_speak_the_protocol_is_an_error_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("mute.sock");
    let _listener = StdListener::bind(&socket).unwrap();
    let output = dynctl(&socket).args(["status", "--timeout", "100ms"]).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
}

#[test]
fn the_socket_is_found_in_the_runtime_directory() {
    let server = Server::start();
    let runtime_dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(runtime_dir.path().join("dyn")).unwrap();
    std::os::unix::fs::symlink(server.socket(), runtime_dir.path().join("dyn/control.sock"))
        .unwrap();
    let output = dynctl(&server.socket())
        .env_remove("DYNCTL_CONTROL")
        .env("XDG_RUNTIME_DIR", runtime_dir.path())
        .arg("status")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn control_characters_never_reach_the_terminal() {
    let server = Server::start();
    for args in [
        &["session", "ls"][..],
        &["session", "tree"],
        &["session", "ls", "-o", "json"],
        &["session", "show", "\u{1b}[31mx"],
        &["session", "show", "\u{1b}[31mx", "-o", "json"],
        &["\u{1b}[31mx"],
    ] {
        let output = server.run(args);
        for stream in [&output.stdout, &output.stderr] {
            let odd = text(stream).chars().any(|c| c.is_control() && c != '\n');
            assert!(!odd, "{args:?}: {:?}", text(stream));
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let server = Server::start();
    let mut child = dynctl(&server.socket())
        .args(["session", "ls", "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn a_full_disk_is_an_error() {
    let server = Server::start();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = dynctl(&server.socket()).arg("status").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
}

#[test]
fn a_version_mismatch_is_warned_of() {
    let server = Server::start();
    let stderr = text(&server.run(&["status"]).stderr);
    assert!(stderr.starts_with("warning: dynd is version 9.9.9"), "{stderr}");
}

#[test]
fn completions_and_help_need_no_daemon() {
    let none = Path::new("/nonexistent/c.sock");
    for (args, expected) in [
        (&["completion", "bash"][..], "_dynctl"),
        (&["completion", "zsh"], "#compdef dynctl"),
        (&["completion", "fish"], "complete -c dynctl"),
        (&["--help"], "Exit status"),
        (&["session", "show", "--help"], "@last"),
        (&["session", "show", "--help"], "VERDICT  why"),
        (&["session", "ls", "--help"], "LOST     tokens"),
        (&["session", "tree", "--help"], "TTFT     time"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
    ] {
        let output = dynctl(none).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(text(&output.stdout).contains(expected), "{args:?}");
    }
    let help = text(&dynctl(none).arg("--help").output().unwrap().stdout);
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
}

#[test]
fn a_socket_of_another_user_is_a_permission_error() {
    let dir = tempfile::tempdir().unwrap();
    let locked = dir.path().join("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o000)).unwrap();
    let output = dynctl(&locked.join("c.sock")).arg("status").output().unwrap();
    // Root may enter any directory, and finds nothing there.
    assert!(matches!(output.status.code(), Some(4 | 5)), "{}", text(&output.stderr));
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o700)).unwrap();
}

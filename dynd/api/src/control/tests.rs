//! The control service over a real Unix socket, and who may take that socket.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use dynd_core::Time;
use dynd_proto::socket::{Owner, SocketPath};
use dynd_proto::v1::control_client::ControlClient;
use dynd_proto::v1::{
    CacheStatsRequest, GetSessionRequest, ListSessionsRequest, StatusRequest, VersionRequest,
};
use dynd_session::{
    BodyKeys, Chain, EvictedFacts, HintOutcome, HintResult, Limits, Outcome, Signals, Tenant,
    TurnFacts, TurnFinish, VerdictFacts, identify,
};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};

use super::*;

#[derive(Debug)]
struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Time {
        Time::ZERO
    }

    fn wall(&self) -> WallMs {
        WallMs(5_000)
    }
}

#[derive(Debug)]
struct FixedDaemon;

impl DaemonView for FixedDaemon {
    fn status(&self) -> DaemonStatus {
        DaemonStatus {
            state: DaemonState::Serving,
            listen: vec![([127, 0, 0, 1], 8484).into()],
            models: vec![ModelStatus { id: "m".into(), ..ModelStatus::default() }],
            workers: vec![WorkerStatus {
                name: "cpu0".into(),
                down: Some("out of memory".into()),
                numerics: "cpu-1".to_owned(),
                kv_dtype: "f16",
                window_tokens: 4096,
                steps: 9,
                prefill_tokens: 100,
                output_tokens: 7,
                draft_tokens: 6,
                accepted_tokens: 4,
                pool: PoolStatus {
                    prompt_tokens: Some(200),
                    cached_tokens: Some(50),
                    ..PoolStatus::default()
                },
                ..WorkerStatus::default()
            }],
            warnings: Vec::new(),
        }
    }
}

fn state() -> ControlState {
    ControlState {
        sessions: Arc::new(Mutex::new(SessionRegistry::new(Limits::default()))),
        daemon: Arc::new(FixedDaemon),
        clock: Arc::new(FixedClock),
        version: "1.2.3",
        started: WallMs(1_000),
        keeps_lines: false,
    }
}

/// Adds a turn of session `id` below `parent`; ended unless it runs.
fn add_turn(state: &ControlState, id: &str, parent: Option<&str>, finish: Option<TurnFinish>) {
    let mut headers = vec![("x-dynamo-session-id", id)];
    headers.extend(parent.map(|parent| ("x-dynamo-parent-session-id", parent)));
    let facts = TurnFacts {
        tenant: Tenant::default(),
        identity: identify(headers, &BodyKeys::default()).identity,
        client: None,
        chain: Chain::from_messages(&[[1; 16]]),
        model: "m".into(),
        prompt_tokens: 100,
        signals: Signals::default(),
        outline: None,
    };
    let mut sessions = state.sessions.lock();
    let turn = sessions.begin_turn(facts, Time::ZERO, WallMs(2_000)).turn;
    if let Some(finish) = finish {
        let outcome = Outcome {
            finish,
            prompt_tokens: 100,
            cached_tokens: Some(25),
            output_tokens: 7,
            guessed_tokens: 4,
        };
        sessions.end_turn(turn, outcome, Time(3_000_000), WallMs(3_000));
    }
}

struct Place {
    _dir: tempfile::TempDir,
    at: SocketPath,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("control.sock");
    Place { _dir: dir, at: SocketPath { path, owner: Owner::User } }
}

async fn connect(path: PathBuf) -> ControlClient<Channel> {
    let connector = tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://dynd.local");
    ControlClient::new(endpoint.connect_with_connector(connector).await.unwrap())
}

#[tokio::test]
async fn every_call_answers_and_shutdown_removes_the_socket() {
    let place = place();
    let state = state();
    add_turn(&state, "parent", None, Some(TurnFinish::ToolCalls));
    add_turn(&state, "child", Some("parent"), Some(TurnFinish::Stop));
    let listener = ControlListener::bind(&place.at).unwrap();
    let mode = fs::metadata(&place.at.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(serve(listener, state, async {
        let _ = stopped.await;
    }));
    let mut client = connect(place.at.path.clone()).await;

    let status = client.status(StatusRequest {}).await.unwrap().into_inner();
    assert_eq!((status.state.as_str(), status.version.as_str()), ("serving", "1.2.3"));
    assert_eq!((status.now_ms, status.started_ms), (5_000, 1_000));
    assert_eq!(status.listen, ["127.0.0.1:8484"]);
    assert_eq!((&*status.workers[0].state, &*status.workers[0].reason), ("down", "out of memory"));
    let counts = status.sessions.unwrap();
    assert_eq!((counts.total, counts.acting, counts.idle), (2, 1, 1));
    let totals = status.totals.unwrap();
    assert_eq!((totals.turns, totals.hit_rate), (2, Some(0.25)));

    let list = |active, tree| ListSessionsRequest { active, tree };
    let tree = client.list_sessions(list(false, true)).await.unwrap().into_inner();
    let shape: Vec<_> = tree.sessions.iter().map(|item| (&*item.id, item.depth)).collect();
    assert_eq!(shape, [("parent", 0), ("child", 1)]);
    let active = client.list_sessions(list(true, false)).await.unwrap().into_inner();
    assert_eq!(active.sessions.len(), 1, "a session whose harness runs a tool is active");

    let get = |id: &str| GetSessionRequest { id: id.to_owned(), show_text: false };
    let found = client.get_session(get("par")).await.unwrap().into_inner();
    assert_eq!((found.children, found.turns.len()), (vec!["child".to_owned()], 1));
    assert_eq!(found.turns[0].total_ms, Some(3.0));
    assert_eq!(client.get_session(get("nope")).await.unwrap_err().code(), Code::NotFound);
    let with_text = GetSessionRequest { show_text: true, ..get("child") };
    let refused = client.get_session(with_text).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "this daemon keeps no text");
    assert!(refused.message().contains("sessions.show_text is off"), "{refused}");

    let cache = client.cache_stats(CacheStatsRequest {}).await.unwrap().into_inner();
    assert_eq!((cache.pools[0].hit_rate, cache.pools[0].blocks_free), (Some(0.25), None));
    let version = client.version(VersionRequest {}).await.unwrap().into_inner();
    assert_eq!(version.api_version, "dynd/v1");

    drop(client);
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
    assert!(!place.at.path.exists());
}

#[test]
fn a_turn_is_shown_with_its_verdict_its_hints_and_its_progress() {
    let state = state();
    add_turn(&state, "s", None, None);
    let mut sessions = state.sessions.lock();
    let facts = |identity| TurnFacts {
        tenant: Tenant::default(),
        identity,
        client: None,
        chain: Chain::from_messages(&[[1; 16], [2; 16]]),
        model: "m".into(),
        prompt_tokens: 200,
        signals: Signals::default(),
        outline: None,
    };
    let identity = identify([("x-dynamo-session-id", "s")], &BodyKeys::default()).identity;
    let turn = sessions.begin_turn(facts(identity), Time::ZERO, WallMs(2_000)).turn;
    sessions.verdict(
        turn,
        &VerdictFacts {
            common_tokens: Some(100),
            cached_tokens: 16,
            seconds_per_token: Some(0.01),
            evicted: Some(EvictedFacts { by: Some("other".into()), ago: None }),
            ..VerdictFacts::default()
        },
    );
    let hint = HintOutcome {
        name: "agent_hints.osl".into(),
        outcome: HintResult::Clipped,
        detail: "to 100".into(),
    };
    sessions.hints(turn, vec![hint]);
    sessions.progress(turn, 16, 16, Time(0));
    sessions.progress(turn, 116, 16, Time(2_000_000_000));
    sessions.note(turn, ["model_substituted"]);
    let reply = convert::session_detail(7, sessions.detail("s").unwrap(), false);
    assert_eq!(convert::misses(sessions.misses()).len(), 1, "causes that came");
    let session = reply.session.unwrap();
    assert_eq!(session.last_verdict.as_deref(), Some("evicted"));
    assert_eq!((session.last_lost_tokens, session.lost_tokens), (Some(80), 80));
    assert_eq!((&*reply.notices[0].code, reply.notices[0].count), ("model_substituted", 1));
    let turn = &reply.turns[1];
    let verdict = turn.verdict.as_ref().unwrap();
    assert_eq!((verdict.cached_tokens, verdict.lost_tokens, verdict.new_tokens), (16, 80, 104));
    assert_eq!(verdict.lost_ms, Some(800.0));
    assert_eq!(verdict.evicted.as_ref().unwrap().by.as_deref(), Some("other"));
    assert_eq!((&*turn.hints[0].outcome, &*turn.hints[0].detail), ("clipped", "to 100"));
    let progress = turn.progress.unwrap();
    assert_eq!((progress.done_tokens, progress.total_tokens), (116, 200));
    assert_eq!((progress.tokens_per_second, progress.remaining_ms), (Some(50.0), Some(1680.0)));
}

#[test]
fn an_ambiguous_prefix_is_refused_with_candidates() {
    let state = state();
    add_turn(&state, "aaa1", None, None);
    add_turn(&state, "aaa2", None, None);
    let error = state.sessions.lock().detail("aaa").unwrap_err();
    assert!(error.to_string().contains("aaa1, aaa2"), "{error}");
}

#[test]
fn a_peer_without_credentials_is_refused() {
    let refused = service::check_peer(Request::new(()), 0).unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn only_root_and_the_own_user_pass() {
    let (one, _other) = UnixStream::pair().unwrap();
    let uid = one.peer_cred().unwrap().uid();
    let request = || {
        let mut request = Request::new(());
        let info = tonic::transport::server::Connected::connect_info(&one);
        request.extensions_mut().insert(info);
        request
    };
    assert!(service::check_peer(request(), uid).is_ok());
    let of_another = service::check_peer(request(), uid + 1);
    // Root may control any user's daemon.
    assert_eq!(of_another.is_ok(), uid == 0);
}

#[test]
fn a_stale_socket_is_taken_over_and_a_live_one_is_not() {
    let place = place();
    drop(UnixListener::bind(&place.at.path).unwrap());
    assert!(place.at.path.exists(), "what a killed daemon leaves");
    let first = ControlListener::bind(&place.at).unwrap();
    let error = ControlListener::bind(&place.at).unwrap_err();
    assert!(matches!(error, ControlError::AlreadyRunning { .. }), "{error}");
    assert!(place.at.path.exists(), "the live socket is still there");
    drop(first);
    ControlListener::bind(&place.at).unwrap();
}

/// Two daemons that find the same stale socket: the lock lets one of them on.
#[test]
fn a_daemon_about_to_bind_counts_as_running() {
    let place = place();
    let lock_path = place.at.path.with_extension("sock.lock");
    let lock = fs::File::create(lock_path).unwrap();
    lock.lock().unwrap();
    let error = ControlListener::bind(&place.at).unwrap_err();
    assert!(matches!(error, ControlError::AlreadyRunning { .. }), "{error}");
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let place = place();
    fs::write(&place.at.path, "precious").unwrap();
    let error = ControlListener::bind(&place.at).unwrap_err();
    assert!(matches!(error, ControlError::NotASocket { .. }), "{error}");
    assert_eq!(fs::read_to_string(&place.at.path).unwrap(), "precious");
}

#[test]
fn a_directory_that_cannot_be_written_is_an_error_with_the_fix() {
    let at = SocketPath { path: "/proc/none/control.sock".into(), owner: Owner::User };
    let error = ControlListener::bind(&at).unwrap_err().to_string();
    assert!(error.contains("--control"), "{error}");
}

//! A daemon with a script, an agent with a home, and turns between the two.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use dynd_tests::{Daemon, Launch, test_binary, until};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tempfile::TempDir;

use crate::agent::{Agent, Place, Session};
use crate::record::{self, Spoken};
use crate::script;

/// Some agents take a minute to start on a busy machine.
const TURN_MAX: Duration = Duration::from_secs(300);
/// How many tokens of an answer are out when its turn is interrupted.
const INTERRUPT_AFTER: usize = 20;

pub(crate) struct Stage<'a> {
    agent: &'a dyn Agent,
    place: Place,
    daemon: Daemon,
    record: PathBuf,
    folder: TempDir,
}

impl<'a> Stage<'a> {
    /// `None`, and said aloud, where the agent or the model is not there.
    pub(crate) fn new(agent: &'a dyn Agent) -> Option<Self> {
        let installed = setting("DYND_AGENTS_DIR")?;
        if !installed.join(agent.folder()).is_dir() {
            eprintln!("WARNING: {} is not installed: SKIPPED", agent.folder());
            return None;
        }
        let model = setting("DYND_TEST_QWEN3")?;
        let folder = tempfile::Builder::new().prefix("agent-").tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        for name in ["home", "project", "tmp"] {
            fs::create_dir(path(name)).expect("create a folder");
        }
        let mut place = Place {
            installed,
            home: path("home"),
            project: path("project"),
            base: String::new(),
            model: "qwen3-random".to_owned(),
        };
        make_project(&place.project);
        let script = script::for_agent(agent, &place);
        fs::write(path("script.json"), script.to_string()).expect("write the script");
        // A million tokens: nothing is evicted, so whatever is computed twice is a fault.
        fs::write(path("dynd.toml"), "[kv]\npool = \"256MiB\"\n").expect("write the configuration");

        let record = path("record.jsonl");
        let model = model.to_str().expect("a path that is text");
        let daemon = Launch::new(&test_binary("dynd-scripted"), model)
            .expect("a home for the daemon")
            .set("--script", &path("script.json").to_string_lossy())
            .set("--record", &record.to_string_lossy())
            .set("--config", &path("dynd.toml").to_string_lossy())
            .start()
            .expect("the scripted daemon");
        place.base = format!("http://{}", daemon.address());
        agent.configure(&place);
        Some(Stage { agent, place, daemon, record, folder })
    }

    /// One turn to its end; gives what the agent printed, which must hold `answer`.
    pub(crate) fn turn(&self, ask: &str, session: Session, answer: &str) {
        let mut child = self.start(ask, session);
        let ended = until("the agent ends", TURN_MAX, || Ok(child.try_wait()?));
        let Ok(status) = ended else {
            end(&mut child, Signal::KILL);
            panic!("the turn {ask} takes too long\n{}", self.told());
        };
        // The answer is compared because the status is no proof: some agents exit with 0 and nothing.
        let printed = self.printed("out");
        assert!(
            status.success() && printed.contains(answer),
            "the turn {ask} ended with {status} and did not print {answer:?}\n{}",
            self.told()
        );
    }

    /// One turn that is interrupted, as with Ctrl-C, while its answer is being given.
    pub(crate) fn interrupt(&self, ask: &str, session: Session) {
        let mut child = self.start(ask, session);
        let speaks = until("the answer begins", TURN_MAX, || {
            let spoken = self.spoken();
            let last = spoken.iter().rfind(|spoken| spoken.ask.as_deref() == Some(ask));
            Ok(last.filter(|last| last.said.len() >= INTERRUPT_AFTER).map(|_| ()))
        });
        end(&mut child, if speaks.is_ok() { Signal::INT } else { Signal::KILL });
        assert!(speaks.is_ok(), "the turn {ask} gets no answer\n{}", self.told());
        if until("the agent obeys", TURN_MAX, || Ok(child.try_wait()?)).is_err() {
            end(&mut child, Signal::KILL);
            panic!("the agent goes on after its interruption\n{}", self.told());
        }
    }

    fn start(&self, ask: &str, session: Session) -> Child {
        let mut command = self.agent.command(&self.place, &script::ask(ask), session);
        let path = std::env::var("PATH").unwrap_or_default();
        let log = |name: &str| File::create(self.file(name)).expect("a log");
        let own: Vec<_> = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect();
        command
            .env_clear()
            .env("HOME", &self.place.home)
            .env("PATH", format!("{}:{path}", self.place.node24().display()))
            .env("TMPDIR", self.file("tmp"))
            .env("LANG", "C.UTF-8")
            .env("TERM", "dumb")
            .env("NO_COLOR", "1")
            .env("DO_NOT_TRACK", "1")
            .envs(own)
            .current_dir(&self.place.project)
            .stdin(Stdio::null())
            .stdout(log("out"))
            .stderr(log("err"))
            .process_group(0);
        command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn printed(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.file(name)).unwrap_or_default()).into_owned()
    }

    /// Everything that helps to see why a turn failed.
    pub(crate) fn told(&self) -> String {
        let spoken: Vec<String> = self.spoken().iter().map(Spoken::place).collect();
        format!(
            "--- stdout\n{}\n--- stderr\n{}\n--- sequences\n{}\n--- daemon\n{}",
            end_of(&self.printed("out")),
            end_of(&self.printed("err")),
            spoken.join("\n"),
            end_of(&self.daemon.log())
        )
    }

    pub(crate) fn spoken(&self) -> Vec<Spoken> {
        record::read(&self.record)
    }

    /// The sessions of `dynctl session tree`.
    pub(crate) fn sessions(&self) -> Vec<Value> {
        let tree = self.dynctl(&["session", "tree"]);
        tree["items"].as_array().expect("a list of sessions").clone()
    }

    /// The turns of a session, with why each one's prompt was or was not in the cache.
    pub(crate) fn turns_of(&self, session: &str) -> Vec<Value> {
        let session = self.dynctl(&["session", "show", session]);
        session["recent_turns"].as_array().expect("a list of turns").clone()
    }

    fn dynctl(&self, args: &[&str]) -> Value {
        let args = [args, &["-o", "json"]].concat();
        let output = self.daemon.dynctl(&test_binary("dynctl"), &args).expect("dynctl");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

/// A path that `cargo xtask test --long` sets; a missing one means that there is nothing to run.
fn setting(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    if value.is_none() {
        eprintln!("WARNING: {name} is not set: SKIPPED. Run `cargo xtask test --long`");
    }
    value.map(PathBuf::from)
}

/// A repository with one file, as most agents expect it.
fn make_project(folder: &Path) {
    fs::write(folder.join(script::FILE), format!("{}\n", script::FILE_TEXT)).expect("a file");
    for args in [
        &["init", "-q", "."][..],
        &["add", "-A"],
        &["-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qm", "first"],
    ] {
        let status = Command::new("git").args(args).current_dir(folder).status();
        assert!(status.as_ref().is_ok_and(ExitStatus::success), "git {args:?}: {status:?}");
    }
}

/// Signals the agent with all that it has started, as a terminal does.
fn end(child: &mut Child, signal: Signal) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process id");
    // Fails only when all have ended already.
    let _ = kill_process_group(group, signal);
    if signal == Signal::KILL {
        let _ = child.wait();
    }
}

fn end_of(text: &str) -> &str {
    let start = text.len().saturating_sub(4000);
    let start = (start..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    &text[start..]
}

//! The command line: what can be said, not what it does.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use dynd_core::HumanDuration;

const EXAMPLES: &str = "\
Examples:
  dynctl status                  what dynd is doing, on one screen
  dynctl session tree            agent sessions with turns, cache hits and times
  dynctl session show @last      the turns of the latest active session
  dynctl session ls -o json      the same for scripts

Exit status:
  0 done · 1 failed · 2 usage · 3 not found · 4 not permitted
  5 dynd not reachable · 7 timeout · 9 doctor found problems · 130 interrupted";

const LIST_COLUMNS: &str = "\
Columns:
  ID       as much of the session's id as names it alone; … stands for the rest
  HARNESS  the agent that drives it
  PHASE    queued: its request waits · reasoning: its request is answered
           acting: its tools run · idle · closed
  TURNS    requests so far
  HIT      share of its prompt tokens that were in the cache
  LAST     why its last prompt missed; hit: it did not; see `session show ID --misses`
  LOST     tokens of that prompt that were computed again although known
  ACTIVE   time since its last request began or ended
  –        not known";

const TREE_COLUMNS: &str = "\
Columns:
  SESSION  as much of the session's id as names it alone; … stands for the rest
  PHASE    as in `session ls`
  TURNS    requests so far
  PROMPT   prompt tokens of them all
  CACHED   those of them that were in the cache
  HIT      CACHED as a share of PROMPT
  OUTPUT   generated tokens
  TTFT     time to the first token of the last request
  –        not known";

const SHOW_COLUMNS: &str = "\
Columns:
  KIND     first · extends the last prompt · rewrites it · repeats it: a retry
           side: a call beside the conversation, such as a title
  HIT      share of the prompt's tokens that were in the cache
  TOK/STEP tokens of the answer by the steps computed for it: above 1 where it repeats
           what the conversation has said
  TTFT     time to the first token
  TOTAL    time to the last one
  FINISH   stop · length · tool_calls · cancelled · failed

With --misses:
  VERDICT  why the prompt, or part of it, was not in the cache
  WHERE    where it departs from the prompt before: #3 is the message of that index,
           byte counts within that part
  TOKEN    the same as a token of the prompt
  LOST     tokens computed again although known
  COST     the time that took, as an estimate";

const PREFIX_COLUMNS: &str = "\
Columns:
  BODIES     1 > 2: body 2 follows body 1 in the same conversation
             1 | 3: body 3 begins another one; only what comes before it is compared
  VERDICT    why it does not begin with the other; the words of `session show --misses`
  WHERE      #3 is the message of that index, the system text being #0; system[1] is the
             second block of the system text; bytes count within the part
  TOOLS 1ST  share of the old prompt's bytes that both begin with, for templates that print
             the tools first
  SYSTEM 1ST the same for templates that print the system text first
  LOST       tokens computed again although known, of the worse of the two; an estimate of
             3.5 bytes per token
  RULE       the rule of `[prompts]` in dynd's configuration that mends it; with ?, would

Figures are those of dynd's default rules; -o json has those without them too. What only a
template or a tokenizer could tell is not seen.

Exit status:
  0 nothing breaks the prefix that need not · 9 something does";

/// See and steer dynd, the daemon that serves models to coding agents.
#[derive(Debug, Parser)]
#[command(name = "dynctl", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Output format
    #[arg(short, long, global = true, value_enum, default_value_t, env = "DYNCTL_OUTPUT")]
    pub(crate) output: OutputFormat,
    /// Control socket of the daemon [default: the first of $XDG_RUNTIME_DIR/dyn/control.sock,
    /// /run/dyn/control.sock and your own directory under the temporary one]
    #[arg(long, global = true, value_name = "SOCKET", env = "DYNCTL_CONTROL")]
    pub(crate) control: Option<PathBuf>,
    /// How long to wait for the daemon
    #[arg(long, global = true, value_name = "DURATION", default_value = "5s")]
    pub(crate) timeout: HumanDuration,
    /// Plain text, also on a terminal
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum OutputFormat {
    #[default]
    Table,
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// State of the daemon, its models, workers and sessions
    Status,
    /// Agent sessions
    Session {
        #[command(subcommand)]
        command: SessionCommand,
    },
    /// The devices that compute
    Worker {
        #[command(subcommand)]
        command: WorkerCommand,
    },
    /// The KV cache
    Cache {
        #[command(subcommand)]
        command: CacheCommand,
    },
    /// Look for what is wrong
    Doctor {
        #[command(subcommand)]
        command: DoctorCommand,
    },
    /// Versions of dynctl and of the daemon
    Version,
    /// Print a completion script, e.g. `source <(dynctl completion bash)`
    Completion {
        #[arg(value_parser = clap::builder::EnumValueParser::<Shell>::new())]
        shell: Shell,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List sessions, the latest active first
    #[command(visible_alias = "list", name = "ls", after_long_help = LIST_COLUMNS)]
    List {
        /// Only those with a request in flight or a tool running
        #[arg(long)]
        active: bool,
    },
    /// Show sessions below their parents
    #[command(after_long_help = TREE_COLUMNS)]
    Tree,
    /// Show one session and its latest turns
    #[command(after_long_help = SHOW_COLUMNS)]
    Show {
        /// Session id, the beginning of one, or @last
        id: String,
        /// Why each turn's prompt missed the cache, where, and what that cost
        #[arg(long)]
        misses: bool,
        /// With the line of text where the prompts part, if the daemon keeps it
        /// (sessions.show_text)
        #[arg(long, requires = "misses")]
        show_text: bool,
        /// What became of each hint that came with a turn
        #[arg(long)]
        hints: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkerCommand {
    /// List workers
    #[command(visible_alias = "list", name = "ls")]
    List,
    /// Show what a worker computes with, and what it has computed
    Show {
        /// Worker name; all of them when not given
        name: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Fill and hit rate of each worker's pool
    Stats,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DoctorCommand {
    /// How stable a harness's prompt is, from saved request bodies; needs no daemon
    #[command(after_long_help = PREFIX_COLUMNS)]
    Prefix {
        /// Bodies of messages, responses or chat completions requests, in their order: one per
        /// file, a JSON array, or JSON lines; - is standard input
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Each body begins a session: compare all with the first, up to the conversation
        #[arg(long)]
        siblings: bool,
        /// Show the text around each difference
        #[arg(long)]
        show_text: bool,
    },
}

/// The output format among arguments that could not be parsed, for the error about them.
pub(crate) fn format_of(args: &[OsString]) -> OutputFormat {
    let words: Vec<_> = args.iter().filter_map(|arg| arg.to_str()).collect();
    let is_json = words.iter().any(|word| matches!(*word, "-ojson" | "-o=json" | "--output=json"))
        || words.windows(2).any(|pair| matches!(pair, ["-o" | "--output", "json"]));
    if is_json { OutputFormat::Json } else { OutputFormat::Table }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_tree_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_format_is_found_in_broken_arguments() {
        let format =
            |line: &str| format_of(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        for line in ["dynctl -o json nope", "dynctl nope --output=json", "dynctl -ojson"] {
            assert_eq!(format(line), OutputFormat::Json, "{line}");
        }
        assert_eq!(format("dynctl json -o table"), OutputFormat::Table);
    }
}

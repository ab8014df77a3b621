//! The scripted job: who asks what, in which order, and what is measured.

use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use dynd_tests::{Client, now};
use serde_json::{Value, json};

use super::prompt;
use super::table;

/// How long the pretended tools take.
const TOOL_PAUSE: Duration = Duration::from_millis(300);
const OUTPUT_TOKENS: u32 = 40;
/// The cancelled turn's client goes away after this many pieces of text.
const CANCEL_AFTER: u32 = 8;

/// One row of the table.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) session: &'static str,
    pub(super) number: u32,
    /// Absent when the turn was cancelled: no usage came.
    pub(super) usage: Option<Usage>,
    pub(super) first_token: Duration,
    pub(super) text: String,
    pub(super) note: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    pub(super) prompt: u64,
    pub(super) cached: u64,
    pub(super) output: u64,
}

/// Plays the whole job and prints a row as each turn ends.
pub(super) fn play(client: &Client, model: &str, tiny: bool) -> anyhow::Result<()> {
    let system = if tiny { prompt::short_system() } else { prompt::system() };
    table::head();
    let mut root = Agent::new(client, model, "root", None, &system);
    root.say(prompt::TASK);
    table::row(&root.turn("")?);
    root.tool_result(prompt::TOOL_RESULTS[0]);
    table::row(&root.turn("")?);

    // Both sub-agents start at once, on the prefix that the root session has left in the cache.
    let children = ["explorer", "tester"].map(|name| {
        let mut child = Agent::new(client, model, name, Some("root"), &system);
        child.say(if name == "explorer" { prompt::EXPLORE } else { prompt::TEST });
        child
    });
    for turn in run_together(children)? {
        table::row(&turn);
    }

    root.tool_result(prompt::TOOL_RESULTS[1]);
    table::row(&root.turn("")?);
    root.tool_result(prompt::TOOL_RESULTS[2]);
    table::row(&root.cancelled_turn()?);
    table::row(&root.turn("retry")?);
    root.tool_result(prompt::TOOL_RESULTS[3]);
    table::row(&root.turn("")?);
    Ok(())
}

/// Two turns of each child at the same time; the second says that it is the last.
fn run_together(children: [Agent<'_>; 2]) -> anyhow::Result<Vec<Turn>> {
    thread::scope(|scope| {
        let running = children.map(|mut child| {
            scope.spawn(move || -> anyhow::Result<[Turn; 2]> {
                let first = child.turn("")?;
                child.tool_result(prompt::CHILD_RESULT);
                child.last = true;
                Ok([first, child.turn("final")?])
            })
        });
        let mut turns = Vec::new();
        for child in running {
            turns.extend(child.join().map_err(|_| anyhow::anyhow!("a sub-agent panicked"))??);
        }
        Ok(turns)
    })
}

/// One session as a harness keeps it: the whole conversation, sent again each turn.
struct Agent<'a> {
    client: &'a Client,
    model: &'a str,
    session: &'static str,
    parent: Option<&'static str>,
    messages: Vec<Value>,
    turns: u32,
    last: bool,
}

impl<'a> Agent<'a> {
    fn new(
        client: &'a Client,
        model: &'a str,
        session: &'static str,
        parent: Option<&'static str>,
        system: &str,
    ) -> Self {
        let messages = vec![json!({"role": "system", "content": system})];
        Self { client, model, session, parent, messages, turns: 0, last: false }
    }

    fn say(&mut self, text: &str) {
        self.messages.push(json!({"role": "user", "content": text}));
    }

    /// Lets the pretended tool run, then hands its result to the model.
    fn tool_result(&mut self, text: &str) {
        thread::sleep(TOOL_PAUSE);
        self.say(text);
    }

    /// One request to its end; the answer becomes part of the conversation.
    fn turn(&mut self, note: &'static str) -> anyhow::Result<Turn> {
        if note != "retry" {
            self.turns += 1;
        }
        let turn = self.request(None, note)?;
        self.messages.push(json!({"role": "assistant", "content": turn.text}));
        Ok(turn)
    }

    /// One request whose client goes away while the answer streams.
    fn cancelled_turn(&mut self) -> anyhow::Result<Turn> {
        self.turns += 1;
        self.request(Some(CANCEL_AFTER), "cancelled")
    }

    fn request(&self, pieces_max: Option<u32>, note: &'static str) -> anyhow::Result<Turn> {
        let body = json!({
            "model": self.model,
            "messages": self.messages,
            "stream": true,
            "stream_options": {"include_usage": true},
            "temperature": 0,
            "max_tokens": OUTPUT_TOKENS,
        });
        let mut headers = vec![("x-dynamo-session-id", self.session)];
        headers.extend(self.parent.map(|parent| ("x-dynamo-parent-session-id", parent)));
        if self.last {
            headers.push(("x-dynamo-session-final", "true"));
        }

        let sent = now();
        let mut stream = self.client.stream("/v1/chat/completions", &headers, &body)?;
        if stream.status != 200 {
            let response = stream.collect()?;
            bail!("{} turn {}: {} {}", self.session, self.turns, response.status, response.text());
        }
        let (mut text, mut pieces, mut first_token, mut usage) = (String::new(), 0, None, None);
        while let Some(chunk) = stream.next_json()? {
            if let Some(error) = chunk.get("error") {
                bail!("{} turn {}: {error}", self.session, self.turns);
            }
            if let Some(delta) = chunk["choices"][0]["delta"]["content"].as_str()
                && !delta.is_empty()
            {
                first_token.get_or_insert_with(|| now() - sent);
                text.push_str(delta);
                pieces += 1;
                if pieces_max.is_some_and(|max| pieces >= max) {
                    break;
                }
            }
            if chunk["usage"].is_object() {
                usage = Some(read_usage(&chunk["usage"])?);
            }
        }
        Ok(Turn {
            session: self.session,
            number: self.turns,
            usage,
            first_token: first_token.unwrap_or_else(|| now() - sent),
            text,
            note,
        })
    }
}

fn read_usage(usage: &Value) -> anyhow::Result<Usage> {
    let number = |value: &Value| value.as_u64().with_context(|| format!("odd usage: {usage}"));
    Ok(Usage {
        prompt: number(&usage["prompt_tokens"])?,
        cached: number(&usage["prompt_tokens_details"]["cached_tokens"])?,
        output: number(&usage["completion_tokens"])?,
    })
}

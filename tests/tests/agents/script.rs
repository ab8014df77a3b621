//! What the model says in each part of a course, in the markup of Qwen3.
//!
//! Written as a model might: arguments spaced and ordered in its own way, words cut into other
//! tokens than the tokenizer's. A daemon that renders history from what it parsed would compute all
//! of that again.

use serde_json::{Value, json};

use crate::agent::{Agent, Call, Place};

/// Cuts the text around it into separately encoded parts; see `dynd-scripted`.
const CUT: char = '\u{241f}';

pub(crate) const FILE: &str = "notes.txt";
pub(crate) const FILE_TEXT: &str = "the password is swordfish";
/// What `COMMAND` prints is not part of it: only a command that ran can print it.
pub(crate) const COMMAND: &str = "echo from-$((40+2))";
pub(crate) const COMMAND_TEXT: &str = "from-42";

pub(crate) const TEXT: &str = "ANSWER-TEXT: all is well.";
pub(crate) const LOOP: &str = "ANSWER-LOOP: read and ran.";
pub(crate) const THINK: &str = "ANSWER-THINK: considered.";
pub(crate) const AFTER: &str = "ANSWER-AFTER: it went on.";
pub(crate) const PARENT: &str = "ANSWER-PARENT: the other one is done.";
pub(crate) const CHILD: &str = "ANSWER-CHILD: did my part.";
/// Tokens of the answer that is interrupted: minutes, if it were not.
const LONG_LINES: usize = 2000;

/// The prompt of a user that makes the model give the answers called `name`.
pub(crate) fn ask(name: &str) -> String {
    format!("[[{name}]] Please go ahead.")
}

/// The script for one agent.
pub(crate) fn for_agent(agent: &dyn Agent, place: &Place) -> Value {
    let run = call(&agent.run(COMMAND), 1);
    let read = call(&agent.read(place, FILE), 2);
    let long: String = (0..LONG_LINES).map(|line| format!("line {line} of many\n")).collect();
    let mut asks = json!({
        "text": [cut(TEXT)],
        "loop": [format!("I will read the file first.\n{read}"), run, cut(LOOP)],
        "think": [
            format!("<think>\nThe user wants the {CUT}command again.\n</think>\n\n{run}"),
            format!("<think>\nThat is all there is.\n</think>\n\n{THINK}"),
        ],
        "long": [long],
        "after": [cut(AFTER)],
    });
    if let Some(spawn) = agent.spawn(&ask("child")) {
        let mut parent = vec![call(&spawn, 2)];
        parent.extend(agent.collect().map(|collect| call(&collect, 1)));
        parent.push(cut(PARENT));
        asks["parent"] = parent.into();
        asks["child"] = json!([run, cut(CHILD)]);
    }
    json!({"asks": asks, "without_tools": "A title", "otherwise": "NOT-IN-THE-SCRIPT"})
}

/// Inserts a cut into the longest word.
fn cut(text: &str) -> String {
    let at = text.find('-').expect("answers have a hyphenated word") + 3;
    format!("{}{CUT}{}", &text[..at], &text[at..])
}

/// A call in one of several spellings that mean the same.
fn call(call: &Call, spelling: usize) -> String {
    let Call { name, arguments } = call;
    let arguments = arguments.as_object().expect("arguments are an object");
    let pairs = arguments.iter().map(|(name, value)| (json!(name), value));
    match spelling {
        1 => {
            let pairs: Vec<String> = pairs.map(|(name, value)| format!("{name}:{value}")).collect();
            format!(
                "<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {{{}}}}}\n</tool_call>",
                pairs.join(",")
            )
        }
        _ => {
            let pairs: Vec<String> =
                pairs.map(|(name, value)| format!("{name} :  {value}")).collect();
            format!(
                "<tool_call>\n{{ \"name\" : \"{name}\",  \"arguments\": {{ {} }} }}\n</tool_call>",
                pairs.join(" , ")
            )
        }
    }
}

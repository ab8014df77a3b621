//! Which session a request belongs to, as its body says. What it means is not decided here.

use super::outcome::HintResult;
use super::reader::Reader;

/// The session fields of all generations, as sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionFields {
    pub session_id: Option<String>,
    pub parent_session_id: Option<String>,
    pub trajectory_id: Option<String>,
    pub parent_trajectory_id: Option<String>,
    pub program_id: Option<String>,
    pub parent_program_id: Option<String>,
    pub workflow_id: Option<String>,
    /// `session_final` or `trajectory_final`: this is the session's last request.
    pub is_final: bool,
    /// `session_control.session_id`.
    pub control_session_id: Option<String>,
    /// `session_control.action`: `open`, `bind` or `close`.
    pub control_action: Option<String>,
    pub prefix_id: Option<String>,
}

pub(super) fn read(reader: &mut Reader) -> SessionFields {
    // The fields of the newest generation without the object around them.
    for name in ["session_id", "parent_session_id", "session_final"] {
        reader.rename(name, &format!("agent_context.{name}"));
    }
    // What kind of session it is says nothing here.
    for name in ["session_type_id", "workflow_type_id"] {
        reader.take(&format!("agent_context.{name}"));
    }
    let session_final = reader.boolean("agent_context.session_final");
    let trajectory_final = reader.boolean("agent_context.trajectory_final");
    let mut of_context = |name: &str| reader.text(&format!("agent_context.{name}"));
    SessionFields {
        session_id: of_context("session_id"),
        parent_session_id: of_context("parent_session_id"),
        trajectory_id: of_context("trajectory_id"),
        parent_trajectory_id: of_context("parent_trajectory_id"),
        program_id: of_context("program_id"),
        parent_program_id: of_context("parent_program_id"),
        workflow_id: of_context("workflow_id"),
        is_final: session_final == Some(true) || trajectory_final == Some(true),
        control_session_id: reader.text("session_control.session_id"),
        control_action: action(reader),
        prefix_id: reader.text("prefix_id"),
    }
}

fn action(reader: &mut Reader) -> Option<String> {
    const NAME: &str = "session_control.action";
    let value = reader.take(NAME)?;
    let action = value.as_str().map(str::to_ascii_lowercase);
    let known = action.filter(|action| matches!(action.as_str(), "open" | "bind" | "close"));
    match &known {
        Some(_) => reader.took(NAME),
        None => reader.tell(NAME, HintResult::Rejected, "not open, bind or close"),
    }
    known
}

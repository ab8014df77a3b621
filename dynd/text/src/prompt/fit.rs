//! Turns in the order and roles that a template takes: no template drops text or refuses a
//! conversation for its shape.

use std::borrow::Cow;
use std::collections::BTreeMap;

use dynd_protocol::Role;

use super::report::FiredRule;
use super::turns::Turn;

/// What a template takes, found out by rendering probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fit {
    /// A leading system message is rendered.
    pub(super) system: bool,
    /// A later one is rendered in its place.
    pub(super) late_system: bool,
    pub(super) user_after_user: bool,
    pub(super) user_after_tool: bool,
    pub(super) assistant_after_assistant: bool,
    pub(super) ids: Ids,
}

/// What the template does with ids of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    /// Not printed, or printed as they are.
    AsSent,
    /// Nine letters and digits.
    Nine,
    /// `functions.NAME:NUMBER`, counted through the conversation.
    Numbered,
}

/// The turns as the template takes them.
pub(super) fn fit<'a>(
    turns: Vec<Turn<'a>>,
    fit: &Fit,
    fired: &mut Vec<FiredRule>,
) -> Vec<Turn<'a>> {
    let mut fire = |rule| {
        if !fired.contains(&rule) {
            fired.push(rule);
        }
    };
    let is_system = |turn: &Turn| matches!(turn.role, Role::System | Role::Developer);
    let mut out: Vec<Turn<'a>> = Vec::with_capacity(turns.len());
    let mut leading: Option<Turn<'a>> = None;
    for mut turn in turns {
        if is_system(&turn) {
            let is_leading = out.iter().all(is_system);
            if is_leading && !fit.system {
                fire(FiredRule::SystemInUser);
                match &mut leading {
                    Some(before) => before.absorb(turn),
                    None => leading = Some(turn),
                }
                continue;
            }
            let is_first = out.is_empty();
            if !is_first && !fit.late_system {
                turn.role = Role::User;
                fire(FiredRule::SystemAsUser);
            }
        }
        if let Some(mut system) = leading.take() {
            system.role = Role::User;
            if turn.role == Role::User {
                system.absorb(turn);
                turn = system;
            } else {
                out.push(system);
            }
        }
        match out.last_mut() {
            Some(last) if joins(last.role, turn.role, fit) => {
                last.absorb(turn);
                fire(FiredRule::TurnsJoined);
            }
            _ => out.push(turn),
        }
    }
    out.extend(leading.map(|mut system| {
        system.role = Role::User;
        system
    }));
    if fit.ids != Ids::AsSent && rewrite_ids(&mut out, fit.ids) {
        fire(FiredRule::CallIds);
    }
    out.iter_mut().for_each(Turn::open_texts);
    out
}

fn joins(before: Role, after: Role, fit: &Fit) -> bool {
    match (before, after) {
        (Role::User, Role::User) => !fit.user_after_user,
        (Role::Tool, Role::User) => !fit.user_after_tool,
        (Role::Assistant, Role::Assistant) => !fit.assistant_after_assistant,
        _ => false,
    }
}

/// Gives each call an id that depends on its place alone, unless it has a proper one, and each
/// result the id of its call. Says whether any changed.
fn rewrite_ids(turns: &mut [Turn<'_>], ids: Ids) -> bool {
    let mut changed = false;
    let mut number = 0;
    let mut renamed: BTreeMap<String, String> = BTreeMap::new();
    for turn in turns {
        for call in &mut turn.calls {
            if !is_proper(&call.id, ids) {
                let id = match ids {
                    Ids::Numbered => format!("functions.{}:{number}", call.name),
                    Ids::Nine | Ids::AsSent => format!("c{number:08}"),
                };
                renamed.insert(call.id.clone().into_owned(), id.clone());
                call.id = Cow::Owned(id);
                changed = true;
            }
            number += 1;
        }
        if let Some(id) = renamed.get(turn.call_id.as_ref()) {
            turn.call_id = Cow::Owned(id.clone());
        }
    }
    changed
}

fn is_proper(id: &str, ids: Ids) -> bool {
    match ids {
        Ids::AsSent => true,
        Ids::Nine => id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        Ids::Numbered => id.strip_prefix("functions.").is_some_and(|rest| {
            rest.rsplit_once(':').is_some_and(|(name, number)| {
                !name.is_empty() && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
            })
        }),
    }
}

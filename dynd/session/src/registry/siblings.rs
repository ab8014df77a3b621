//! Children of one session that should share the beginning of their prompts, and how far they do.

use std::collections::BTreeMap;
use std::sync::Arc;

use dynd_core::LineKind;

use super::SessionRegistry;
use super::node::{Node, NodeId};
use super::outlines::HeadKey;
use crate::Outline;
use crate::verdict::{Place, compare};

/// Children that are looked at, from the first on.
const SIBLINGS_MAX: usize = 256;

/// Siblings with the same tools and settings.
#[derive(Debug, Clone, PartialEq)]
pub struct SiblingGroup {
    /// Of them.
    pub sessions: u32,
    /// The eldest.
    pub first: Arc<str>,
    /// Tokens that all of them begin with.
    pub common_tokens: u32,
    /// Of the shortest of their prompts.
    pub prompt_tokens: u32,
    /// Where the first two that differ most part; None when one prompt begins with the other.
    pub place: Option<Place>,
    /// What the line there holds.
    pub line: Option<LineKind>,
}

impl SessionRegistry {
    /// Groups of two and more, the eldest first.
    pub(super) fn siblings(&self, node: &Node) -> Vec<SiblingGroup> {
        let mut groups = BTreeMap::<&HeadKey, Vec<(NodeId, &Outline)>>::new();
        for id in node.children.iter().take(SIBLINGS_MAX) {
            if let (Some(head), Some(outline)) = (self.outlines.head(*id), self.outlines.get(*id)) {
                groups.entry(head).or_default().push((*id, outline.as_ref()));
            }
        }
        let mut groups: Vec<_> = groups.into_values().filter(|group| group.len() > 1).collect();
        groups.sort_by_key(|group| group[0].0);
        groups.iter().filter_map(|group| self.sibling_group(group)).collect()
    }

    fn sibling_group(&self, group: &[(NodeId, &Outline)]) -> Option<SiblingGroup> {
        let [(eldest, first), others @ ..] = group else { return None };
        let mut nearest: Option<(u32, Option<Place>, Option<LineKind>)> = None;
        for (_, other) in others {
            let comparison = compare(first, other);
            let (token, place, line) = match comparison.change {
                Some(change) => (change.place.token, Some(change.place), change.line),
                None => (first.tokens.min(other.tokens), None, None),
            };
            if nearest.is_none_or(|(nearest, ..)| token < nearest) {
                nearest = Some((token, place, line));
            }
        }
        let (common_tokens, place, line) = nearest?;
        Some(SiblingGroup {
            sessions: u32::try_from(group.len()).unwrap_or(u32::MAX),
            first: Arc::clone(&self.nodes.get(eldest)?.key.id),
            common_tokens,
            prompt_tokens: group.iter().map(|(_, outline)| outline.tokens).min().unwrap_or(0),
            place,
            line,
        })
    }
}

//! Joins sessions to their parents: placeholders for unknown ones, no cycles, bounded depth.

use dynd_core::{Time, WallMs};

use super::SessionRegistry;
use super::node::{Key, NodeId};
use crate::{Identity, Notice};

impl SessionRegistry {
    /// Makes the session named `parent` the parent of `id`, creating a placeholder for it. The
    /// first parent stays. Returns a notice when the parent is left out.
    pub(super) fn attach(
        &mut self,
        id: NodeId,
        identity: &Identity,
        parent: &str,
        now: Time,
        wall: WallMs,
    ) -> Option<Notice> {
        let own = self.nodes.get(&id)?;
        let key = Key { id: parent.into(), ..own.key.clone() };
        if own.key.family != identity.family || key.id == own.key.id {
            return None;
        }
        if let Some(known) = own.parent {
            let is_same = self.nodes.get(&known).is_some_and(|node| node.key == key);
            return (!is_same).then_some(Notice::ParentDiffers);
        }
        let parent_id = match self.by_key.get(&key) {
            Some(parent_id) => *parent_id,
            None => match self.create(key, identity.harness, now, wall) {
                Some(parent_id) => parent_id,
                None => return Some(Notice::RegistryFull),
            },
        };
        if self.ancestors(parent_id).any(|ancestor| ancestor == id) {
            return Some(Notice::ParentIsDescendant);
        }
        let depth = self.nodes.get(&parent_id)?.depth + 1;
        let subtree = self.subtree(id);
        let own_depth = self.nodes.get(&id)?.depth;
        let height =
            subtree.iter().filter_map(|id| self.nodes.get(id)).map(|node| node.depth - own_depth);
        if depth + height.max().unwrap_or(0) > self.limits.depth_max {
            return Some(Notice::TooDeep);
        }
        for below in subtree {
            if let Some(node) = self.nodes.get_mut(&below) {
                node.depth += depth - own_depth;
            }
        }
        self.nodes.get_mut(&id)?.parent = Some(parent_id);
        self.nodes.get_mut(&parent_id)?.children.insert(id);
        self.reindex(parent_id);
        None
    }

    /// `id` and its parents up to the root.
    pub(super) fn ancestors(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(Some(id), |id| self.nodes.get(id).and_then(|node| node.parent))
    }

    /// `id` and all below it, parents before children, children in order of creation.
    pub(super) fn subtree(&self, id: NodeId) -> Vec<NodeId> {
        let mut found = Vec::new();
        let mut next = vec![id];
        while let Some(id) = next.pop() {
            found.push(id);
            if let Some(node) = self.nodes.get(&id) {
                next.extend(node.children.iter().rev());
            }
        }
        found
    }
}

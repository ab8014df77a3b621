//! Outlines of the sessions' newest prompts, within a byte budget over all of them: beyond it the
//! longest unused go, and their sessions' verdicts know token counts only.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::node::NodeId;
use crate::{Outline, Tenant};

/// Prompts that should share their beginning: same tenant, settings and tools.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HeadKey {
    tenant: Tenant,
    digest: [u8; 16],
}

impl HeadKey {
    /// The order of the tools does not matter: that it changed is something to be told.
    fn of(tenant: &Tenant, outline: &Outline) -> Self {
        let mut tools = outline.tools.clone();
        tools.sort_unstable();
        let mut hash = Sha256::new().chain_update(outline.settings);
        tools.iter().for_each(|tool| hash.update(tool));
        let mut digest = [0; 16];
        digest.copy_from_slice(&hash.finalize()[..16]);
        HeadKey { tenant: tenant.clone(), digest }
    }
}

#[derive(Debug)]
struct Kept {
    outline: Arc<Outline>,
    head: HeadKey,
    stamp: u64,
    bytes: usize,
}

#[derive(Debug)]
pub(super) struct Outlines {
    kept: BTreeMap<NodeId, Kept>,
    /// From the longest unused on.
    order: BTreeMap<u64, NodeId>,
    /// The newest prompt of each kind.
    newest: BTreeMap<HeadKey, NodeId>,
    bytes: usize,
    bytes_max: usize,
    next_stamp: u64,
}

impl Outlines {
    pub(super) fn new(bytes_max: usize) -> Self {
        Outlines {
            kept: BTreeMap::new(),
            order: BTreeMap::new(),
            newest: BTreeMap::new(),
            bytes: 0,
            bytes_max,
            next_stamp: 0,
        }
    }

    pub(super) fn get(&self, id: NodeId) -> Option<&Arc<Outline>> {
        self.kept.get(&id).map(|kept| &kept.outline)
    }

    pub(super) fn head(&self, id: NodeId) -> Option<&HeadKey> {
        self.kept.get(&id).map(|kept| &kept.head)
    }

    /// The newest prompt of any session that `outline` should share its beginning with.
    pub(super) fn alike(
        &self,
        tenant: &Tenant,
        outline: &Outline,
    ) -> Option<(NodeId, &Arc<Outline>)> {
        let id = *self.newest.get(&HeadKey::of(tenant, outline))?;
        Some((id, self.get(id)?))
    }

    /// Keeps `outline` as the newest prompt of `id`, in place of the one before. One that alone
    /// exceeds the budget is not kept.
    pub(super) fn replace(&mut self, id: NodeId, tenant: &Tenant, outline: Option<Arc<Outline>>) {
        self.remove(id);
        let Some(outline) = outline else { return };
        let bytes = outline.size_bytes();
        if bytes > self.bytes_max {
            return;
        }
        let head = HeadKey::of(tenant, &outline);
        let stamp = self.next_stamp;
        self.next_stamp += 1;
        self.bytes += bytes;
        self.order.insert(stamp, id);
        self.newest.insert(head.clone(), id);
        self.kept.insert(id, Kept { outline, head, stamp, bytes });
        while self.bytes > self.bytes_max
            && let Some((_, oldest)) = self.order.first_key_value()
        {
            self.remove(*oldest);
        }
    }

    pub(super) fn remove(&mut self, id: NodeId) {
        let Some(kept) = self.kept.remove(&id) else { return };
        self.order.remove(&kept.stamp);
        self.bytes -= kept.bytes;
        if self.newest.get(&kept.head) == Some(&id) {
            self.newest.remove(&kept.head);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_holds_and_the_longest_unused_go() {
        let outline = || Some(Arc::new(Outline { tools: vec![[1; 8]; 100], ..Outline::default() }));
        let each = outline().unwrap().size_bytes();
        let tenant = Tenant::default();
        let mut outlines = Outlines::new(3 * each);
        for id in 0..4 {
            outlines.replace(NodeId(id), &tenant, outline());
        }
        assert!(outlines.get(NodeId(0)).is_none());
        outlines.replace(NodeId(1), &tenant, outline());
        outlines.replace(NodeId(5), &tenant, outline());
        let kept: Vec<_> = outlines.kept.keys().map(|id| id.0).collect();
        assert_eq!((kept.as_slice(), outlines.bytes), ([1, 3, 5].as_slice(), 3 * each));
        let huge = Outline { tools: vec![[1; 8]; 1000], ..Outline::default() };
        outlines.replace(NodeId(3), &tenant, Some(Arc::new(huge)));
        assert!(outlines.get(NodeId(3)).is_none(), "not kept, and its old one neither");
        assert!(outlines.get(NodeId(1)).is_some(), "nobody else paid for it");
        for id in 0..6 {
            outlines.remove(NodeId(id));
        }
        assert_eq!((outlines.bytes, outlines.order.len(), outlines.newest.len()), (0, 0, 0));
    }
}

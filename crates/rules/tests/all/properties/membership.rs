//! An incrementally updated membership equals one that is computed from scratch.

use std::sync::Arc;

use proptest::{prelude::*, sample::select};
use winpool_core::record::OwnershipKey;
use winpool_rules::{
    ownership::Ownership,
    pool::{Pool, Snapshot},
};

use super::{any_model, any_spec};
use winpool_model::{Model, POOL, cases};

/// Computes the membership of a snapshot from that of an earlier one, and from scratch.
fn assert_same(earlier: &Snapshot, current: Snapshot) -> Snapshot {
    // Unchanged nodes are shared, as in the caches.
    let nodes = current.nodes.values().map(|node| match earlier.nodes.get(&node.name) {
        Some(former) if former == node => former.clone(),
        _ => node.clone(),
    });
    let from_nothing = Snapshot { nodes: nodes.collect(), membership: Arc::default(), ..current };
    let updated = Snapshot { membership: earlier.membership(), ..from_nothing.clone() };
    assert_eq!(updated.membership(), from_nothing.membership());
    Snapshot { membership: updated.membership(), ..updated }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn an_updated_membership_equals_one_computed_from_scratch(
        mut model in any_model(),
        other in any_model(),
        deleted in select(vec!["win-0", "win-1", "win-4"]),
        deleting in select(vec!["pool-0", "pool-1"]),
        changing in select(vec!["pool-0", "pool-1", "pool-2"]),
        spec in any_spec(),
        verifies in any::<bool>(),
    ) {
        let mut known = assert_same(&Snapshot::default(), model.snapshot());
        model.converge_watched(|model| known = assert_same(&known, model.snapshot()));
        known = assert_same(&known, model.snapshot());
        // Nodes are deleted, pools change, records are no longer verified.
        let mut next = known.clone();
        next.nodes.remove(deleted);
        known = assert_same(&known, next);
        let mut next = known.clone();
        if let Some(pool) = next.pools.get(deleting).cloned() {
            next.pools.insert(Pool { deleting: true, ..pool.as_ref().clone() });
        }
        known = assert_same(&known, next);
        // The spec of one pool changes.
        if model.names(POOL).iter().any(|name| name == changing) {
            model.edit(POOL, changing, |pool| pool["spec"] = spec);
        }
        known = assert_same(&known, model.snapshot());
        if !verifies {
            known = assert_same(&known, Snapshot { ownership: Arc::new(Ownership::TrustNone), ..known.clone() });
            let key = OwnershipKey::new(&[7; OwnershipKey::LENGTH]);
            known = assert_same(&known, Snapshot { ownership: Arc::new(Ownership::signed(key)), ..known.clone() });
        }
        let end: Model = other;
        assert_same(&known, end.snapshot());
    }
}

//! A change of a node that concerns no pool changes nothing that the rules of any pool decide.

use std::sync::Arc;

use proptest::{prelude::*, sample::select};
use winpool::domain::{
    node::WindowsNode,
    operation::Operation,
    pool::{
        RuntimeClassView, Snapshot,
        plan::{Planner, plan},
        relevance::concerns_pools,
    },
};

use super::{any_world, said};

fn plans(snapshot: &Snapshot) -> Vec<(Vec<Vec<Operation>>, serde_json::Value)> {
    let plans = snapshot.pools.keys().filter_map(|pool| plan(snapshot, pool));
    plans.map(|plan| (plan.steps.clone(), said(snapshot, &plan))).collect()
}

fn without_pool(snapshot: &Snapshot) -> Vec<String> {
    Planner::new(snapshot).in_no_pool().map(|node| node.name.clone()).collect()
}

/// The label of a node that somebody changes: of the domains of others, of Kubernetes, of winpool, and of the pools.
fn any_label() -> impl Strategy<Value = (&'static str, &'static str)> {
    let keys = vec![
        "example.com/seen",
        "group",
        "team",
        "zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "node.kubernetes.io/windows-build",
        "winpool.dev/pool",
        "runs.winpool.dev/ltsc2022",
    ];
    (select(keys), select(vec!["", "a", "b", "pool-0", "pool-1", "10.0.20348", "10.0.17763"]))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn a_change_that_concerns_no_pool_changes_no_plan(
        mut world in any_world(),
        settled in any::<bool>(),
        (key, value) in any_label(),
        writer in select(vec![None, Some("somebody".to_owned())]),
    ) {
        if settled {
            world.settle();
        }
        let before = world.snapshot();
        for (name, node) in &before.nodes {
            let mut changed = WindowsNode { labels_writer: writer.clone(), taints_writer: writer.clone(), ..node.as_ref().clone() };
            match value {
                "" => changed.labels.remove(key),
                value => changed.labels.insert(key.to_owned(), value.to_owned()),
            };
            let classes = before.runtime_classes.values().map(AsRef::<RuntimeClassView>::as_ref);
            let concerns = concerns_pools(before.pools.values().map(AsRef::as_ref), classes, node, &changed);
            let changes_a_label = changed.labels != node.labels;
            prop_assert!(!concerns || changes_a_label);
            prop_assert!(concerns || !changes_a_label || ["example.com/seen", "team", "group", "zone", "kubernetes.io/hostname"].contains(&key));
            if !concerns {
                let mut after = before.clone();
                after.nodes.insert(name.clone(), Arc::new(changed));
                prop_assert_eq!(plans(&before), plans(&after));
                prop_assert_eq!(without_pool(&before), without_pool(&after));
            }
        }
    }
}

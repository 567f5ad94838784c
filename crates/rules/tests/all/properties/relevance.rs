//! A change of a node that is not relevant does not change any plan or status.

use proptest::{prelude::*, sample::select};
use winpool_core::{ForeignText, node::WindowsNode};
use winpool_rules::{
    operation::Steps,
    pool::{
        RuntimeClassView, Snapshot,
        plan::{Planner, plan},
        relevance::is_relevant,
    },
};

use super::{any_model, status_without_names};
use winpool_model::cases;

fn plans(snapshot: &Snapshot) -> Vec<(Steps, serde_json::Value)> {
    let plans = snapshot.pools.names().filter_map(|pool| plan(snapshot, pool));
    plans.map(|plan| (plan.steps.clone(), status_without_names(snapshot, &plan))).collect()
}

fn without_pool(snapshot: &Snapshot) -> Vec<String> {
    Planner::new(snapshot).unassigned().map(|node| node.name.clone()).collect()
}

/// A changed label: in a foreign domain, of Kubernetes, of winpool, or of the pools.
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
    #![proptest_config(cases(64))]

    #[test]
    fn a_change_that_is_not_relevant_changes_no_plan(
        mut model in any_model(),
        converged in any::<bool>(),
        (key, value) in any_label(),
        writer in select(vec![None, Some(ForeignText::from("kubectl"))]),
    ) {
        if converged {
            model.converge();
        }
        let before = model.snapshot();
        for node in &before.nodes {
            let mut changed = WindowsNode { labels_writer: writer.clone(), taints_writer: writer.clone(), ..node.as_ref().clone() };
            match value {
                "" => changed.labels.remove(key),
                value => changed.labels.insert(key.to_owned(), value.to_owned()),
            };
            let classes = before.runtime_classes.values().map(AsRef::<RuntimeClassView>::as_ref);
            let is_relevant = is_relevant(before.pools.values().map(AsRef::as_ref), classes, node, &changed);
            let changes_a_label = changed.labels != node.labels;
            prop_assert!(!is_relevant || changes_a_label);
            prop_assert!(is_relevant || !changes_a_label || ["example.com/seen", "team", "group", "zone", "kubernetes.io/hostname"].contains(&key));
            if !is_relevant {
                let mut after = before.clone();
                after.nodes.insert(changed);
                prop_assert_eq!(plans(&before), plans(&after));
                prop_assert_eq!(without_pool(&before), without_pool(&after));
            }
        }
    }
}

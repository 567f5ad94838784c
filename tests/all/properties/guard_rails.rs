//! The guard rails of `config/policies` and the plans of the operator.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::any_model;
use crate::{
    cases::cases,
    model::{CLASS, Model, NODE, POOL},
    policy_tables::guard_rails::{update_of_node, validate, write_of_class},
};

const OPERATOR: &str = "system:serviceaccount:winpool-system:winpool";
const ADMIN: &str = "kubernetes-admin";

/// The objects of a kind before and after a write, where they differ.
fn changes<'m>(kind: &'static str, before: &'m Model, after: &'m Model) -> Vec<(&'m Value, &'m Value)> {
    let names = before.names(kind).into_iter().chain(after.names(kind));
    let pairs = names.map(|name| {
        let of = |model: &'m Model| model.get(kind, &name).unwrap_or(&Value::Null);
        (of(before), of(after))
    });
    pairs.filter(|(before, after)| before != after).collect()
}

/// Runs all plans, and verifies that the policies allow each write of the operator.
fn converge_under_policies(model: &mut Model) {
    let mut before = model.clone();
    model.converge_watched(|after| {
        let pools: Vec<_> = after.all(POOL).cloned().collect();
        for (old, new) in changes(NODE, &before, after) {
            assert_eq!(validate(&pools, &update_of_node(OPERATOR, old, new)).rejections, []);
        }
        for (old, new) in changes(CLASS, &before, after) {
            assert_eq!(validate(&pools, &write_of_class(OPERATOR, old, new)).rejections, []);
        }
        before = after.clone();
    });
}

proptest! {
    #![proptest_config(cases(16))]

    #[test]
    fn the_policies_reject_no_write_of_the_operator(mut model in any_model()) {
        converge_under_policies(&mut model);
        for pool in model.names(POOL) {
            model.edit(POOL, &pool, |pool| pool["spec"]["deletionPolicy"] = json!("Cleanup"));
            converge_under_policies(&mut model);
            model.delete(POOL, &pool);
            converge_under_policies(&mut model);
        }
    }

    /// Exactly the taints of the pool of a node cannot be removed by others.
    #[test]
    fn others_remove_from_a_node_the_taints_that_are_not_of_its_pool(mut model in any_model()) {
        model.converge();
        let pools: Vec<_> = model.all(POOL).cloned().collect();
        for node in model.all(NODE) {
            let name = &node["metadata"]["labels"]["winpool.dev/pool"];
            let pool = pools.iter().find(|pool| pool["metadata"]["name"] == *name);
            let taints = node["spec"]["taints"].as_array().unwrap();
            for (index, taint) in taints.iter().enumerate() {
                let mut changed = node.clone();
                changed["spec"]["taints"].as_array_mut().unwrap().remove(index);
                let of_pool = pool.is_some_and(|pool| pool["spec"]["taints"].as_array().unwrap().contains(taint));
                let rejected = validate(&pools, &update_of_node(ADMIN, node, &changed)).rejected_by();
                prop_assert_eq!(rejected, if of_pool { "winpool-nodes" } else { "" }, "{}", taint);
            }
        }
    }
}

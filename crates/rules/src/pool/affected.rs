//! The pools that a change of a node or of another pool affects.

use std::{collections::BTreeSet, sync::Arc};

use winpool_api::names::label;
use winpool_core::{Objects, node::WindowsNode};

use super::{Pool, RuntimeClassView, Spec, assignment::Assigner, membership::may_have, taint_replacement::replaced};
use crate::ownership::Ownership;

/// A change of a pool: at least one of the two is `Some`.
#[derive(Clone, Copy)]
pub struct PoolChange<'a> {
    /// The pool before; `None` if it was created.
    pub before: Option<&'a Arc<Pool>>,
    /// The pool after; `None` if it was deleted.
    pub after: Option<&'a Arc<Pool>>,
}

/// The observed objects, after the change.
pub struct ObservedObjects<'a> {
    pub pools: &'a Objects<Pool>,
    pub nodes: &'a Objects<WindowsNode>,
    pub runtime_classes: &'a Objects<RuntimeClassView>,
    /// Verifies the records of nodes.
    pub ownership: &'a Arc<Ownership>,
}

impl<'a> PoolChange<'a> {
    /// The other pools that the change affects: those that share nodes with the pool if its membership changes, those
    /// that share a RuntimeClass with it if the desired classes change, and those that replace its taints, or the reverse.
    /// Its status affects no other pool.
    pub fn affected_pools(self, observed: &ObservedObjects<'_>) -> BTreeSet<String> {
        let mut affected = BTreeSet::new();
        if self.membership_differs() {
            affected.extend(self.sharing_nodes(observed));
        }
        if self.differs(desired_classes) {
            affected.extend(self.sharing_classes(observed));
            affected.extend(self.replacing(observed));
        }
        affected.retain(|pool| pool != self.name());
        affected
    }

    /// Whether the change may assign nodes to another pool, or to none.
    pub fn membership_differs(self) -> bool {
        self.differs(membership)
    }

    fn name(self) -> &'a str {
        self.after.or(self.before).map_or("", |pool| pool.name.as_str())
    }

    /// Whether a part of the pool differs, or the pool was created or deleted.
    fn differs<P: PartialEq>(self, part: impl Fn(&'a Pool) -> P) -> bool {
        let part = |pool: &'a Arc<Pool>| part(pool);
        self.before.map(part) != self.after.map(part)
    }

    fn states(self) -> impl Iterator<Item = &'a Pool> {
        self.before.into_iter().chain(self.after).map(AsRef::as_ref)
    }

    /// The pools that have, select or would take a node that this pool has, selects or would take, before or after.
    fn sharing_nodes(self, observed: &ObservedObjects<'_>) -> BTreeSet<String> {
        let assigners = [self.before, self.after].map(|state| {
            let mut pools = observed.pools.clone();
            match state {
                Some(pool) => pools.insert(pool.clone()),
                None => pools.remove(self.name()),
            };
            Assigner::new(&pools, observed.ownership)
        });
        let mut sharing = BTreeSet::new();
        let may_have = |node: &WindowsNode| self.states().any(|pool| may_have(pool, node, observed.ownership));
        for node in observed.nodes.values().filter(|node| may_have(node)) {
            let of = |assigner: &Assigner| {
                let selected_by = assigner.selected_by(node);
                let all = selected_by.into_iter().chain(assigner.assign(node).pool).chain(node.labelled_pool());
                all.map(str::to_owned).collect::<Vec<_>>()
            };
            let pools: Vec<String> = assigners.iter().flat_map(of).collect();
            if pools.iter().any(|pool| pool == self.name()) {
                sharing.extend(pools);
            }
        }
        // Of several fallback pools one takes precedence, and the others report it.
        if self.states().any(Pool::is_fallback) {
            let fallback_pools = observed.pools.values().filter(|pool| pool.is_fallback());
            sharing.extend(fallback_pools.map(|pool| pool.name.clone()));
        }
        sharing
    }

    /// The pools that replace a taint of this pool, or whose taints it replaces, before or after.
    fn replacing(&self, observed: &ObservedObjects<'_>) -> BTreeSet<String> {
        let specs: Vec<&Spec> = self.states().filter_map(|pool| pool.spec.as_ref().ok()).collect();
        let is_related = |own: &Spec, other: &Spec| replaced(own, other).or_else(|| replaced(other, own)).is_some();
        let is_replacing =
            |pool: &&Arc<Pool>| pool.spec.as_ref().is_ok_and(|spec| specs.iter().any(|own| is_related(own, spec)));
        observed.pools.values().filter(is_replacing).map(|pool| pool.name.clone()).collect()
    }

    /// The pools that name a class that this pool names or named, and those for which such a class was created.
    fn sharing_classes(self, observed: &ObservedObjects<'_>) -> BTreeSet<String> {
        let names: BTreeSet<&str> = self.states().flat_map(class_names).collect();
        let named = observed.pools.values().filter(|pool| class_names(pool).any(|name| names.contains(name)));
        let classes = names.iter().filter_map(|name| observed.runtime_classes.get(name));
        let created_for = classes.filter_map(|class| class.label(label::POOL).map(str::to_owned));
        named.map(|pool| pool.name.clone()).chain(created_for).collect()
    }
}

/// The fields that the assignment of nodes depends on.
fn membership(pool: &Pool) -> impl PartialEq + '_ {
    let members = pool.spec.as_ref().ok().map(|spec| &spec.members);
    (&pool.uid, pool.created, pool.deleting, members, pool.enforces())
}

/// The fields that the desired RuntimeClasses of a pool depend on.
fn desired_classes(pool: &Pool) -> impl PartialEq + '_ {
    let classes = pool.spec.as_ref().ok();
    let classes = classes.map(|spec| (spec.build, &spec.runtime_classes, &spec.taints, &spec.replaces_taints));
    (&pool.uid, pool.created, pool.deleting, pool.enforces(), classes)
}

/// The pools that a change of a node affects: those that have, select or would take it.
pub fn by_node_change(assigner: &Assigner, before: Option<&WindowsNode>, after: Option<&WindowsNode>) -> Vec<String> {
    let mut affected = BTreeSet::new();
    for node in before.into_iter().chain(after) {
        let assigned = assigner.assign(node).pool;
        let named = node.labelled_pool().into_iter().chain(assigner.ownership().pool_of(node));
        for pool in assigner.selected_by(node).into_iter().chain(assigned).chain(named) {
            affected.insert(pool.to_owned());
        }
    }
    affected.into_iter().collect()
}

fn class_names(pool: &Pool) -> impl Iterator<Item = &str> {
    pool.spec.iter().flat_map(|spec| &spec.runtime_classes).map(|class| class.name.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pool(name: &str, fields: Value) -> Pool {
        let mut spec = json!({
            "windowsVersion": "ltsc2022",
            "nodeSelector": {"matchLabels": {"agentpool": name}},
            "runtimeClasses": [{"name": name}],
        });
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let object = json!({
            "apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodePool",
            "metadata": {"name": name, "uid": name}, "spec": spec,
        });
        let pool = Pool::from_object(serde_json::from_value(object).unwrap());
        assert!(pool.spec.is_ok(), "{:?}", pool.spec);
        pool
    }

    fn fallback(name: &str) -> Pool {
        pool(name, json!({"nodeSelector": null, "fallback": true}))
    }

    /// A node with a record and a label of a pool.
    fn node(name: &str, agentpool: &str, pool: &str) -> WindowsNode {
        let labels = json!({"kubernetes.io/os": "windows", "agentpool": agentpool, "winpool.dev/pool": pool});
        let annotations = json!({"winpool.dev/owned": json!({"pool": pool}).to_string()});
        let object = json!({"metadata": {"name": name, "labels": labels, "annotations": annotations}});
        serde_json::from_value::<k8s_openapi::api::core::v1::Node>(object).unwrap().into()
    }

    /// The pools that a change affects among `web`, `batch`, `edge` and the fallback `rest`, which have a node each.
    fn affected(before: Option<Pool>, after: Option<Pool>) -> Vec<String> {
        let known = [pool("web", json!({})), pool("batch", json!({})), pool("edge", json!({})), fallback("rest")];
        let name = after.as_ref().or(before.as_ref()).unwrap().name.clone();
        let pools = known.into_iter().filter(|pool| pool.name != name).chain(after.clone());
        let nodes = [
            node("web-1", "web", "web"),
            node("batch-1", "batch", "batch"),
            node("edge-1", "edge", "edge"),
            node("rest-1", "other", "rest"),
        ];
        let class = json!({"metadata": {"name": "web", "labels": {"winpool.dev/pool": "edge"}}, "handler": "h"});
        let class: k8s_openapi::api::node::v1::RuntimeClass = serde_json::from_value(class).unwrap();
        let observed = ObservedObjects {
            pools: &pools.collect(),
            nodes: &nodes.into_iter().collect(),
            runtime_classes: &[RuntimeClassView::from(class)].into_iter().collect(),
            ownership: &Arc::new(Ownership::TrustAll),
        };
        let [before, after] = [before, after].map(|state| state.map(Arc::new));
        let change = PoolChange { before: before.as_ref(), after: after.as_ref() };
        change.affected_pools(&observed).into_iter().collect()
    }

    #[test]
    fn a_change_of_a_spec_affects_the_pools_that_share_nodes_or_classes() {
        let selects = |agentpool: &str| json!({"nodeSelector": {"matchLabels": {"agentpool": agentpool}}});
        let batch = |fields: Value| Some(pool("batch", fields));
        let none: &[&str] = &[];
        for (before, after, expected) in [
            (batch(json!({})), batch(json!({"labels": {"team": "a"}, "deletionPolicy": "Cleanup"})), none),
            (batch(json!({})), batch(json!({"profileRef": {"name": "standard"}})), none),
            (batch(json!({})), batch(json!({"taints": []})), none),
            (batch(json!({})), batch(json!({"runtimeClasses": [{"name": "other"}]})), none),
            // The class `web` was created for `edge`, which reports it if no pool names it.
            (batch(json!({})), batch(json!({"runtimeClasses": [{"name": "web"}]})), &["edge", "web"]),
            (batch(json!({"runtimeClasses": [{"name": "web"}]})), batch(json!({})), &["edge", "web"]),
            // Its node moves to `rest`, or from there.
            (batch(json!({})), batch(selects("elsewhere")), &["rest"]),
            (batch(json!({})), None, &["rest"]),
            (None, batch(json!({})), &["rest"]),
            (batch(json!({})), batch(json!({"mode": "Observe"})), none),
            // It selects nodes of other pools.
            (batch(json!({})), batch(selects("web")), &["rest", "web"]),
            (batch(selects("web")), batch(selects("other")), &["rest", "web"]),
            // A fallback pool affects the pools that its nodes move to or from, and other fallback pools.
            (Some(fallback("rest")), None, &[]),
            (None, Some(fallback("second")), &["rest"]),
        ] {
            let change = format!("{before:?} {after:?}");
            assert_eq!(affected(before, after), expected, "{change}");
        }
    }
}

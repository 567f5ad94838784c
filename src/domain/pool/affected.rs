//! Which pools a change of another pool concerns.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Members, Pool, RuntimeClassView, assignment::Assigner};
use crate::{
    api::names::label,
    domain::{node::WindowsNode, ownership::Ownership},
};

/// A pool as it was and as it is: at least one of the two is there.
#[derive(Clone, Copy)]
pub struct PoolChange<'a> {
    /// Before; `None` for a pool that is new.
    pub before: Option<&'a Pool>,
    /// Now; `None` for a pool that is gone.
    pub after: Option<&'a Pool>,
}

/// What else is known, with the change in it.
pub struct Surroundings<'a> {
    /// All pools.
    pub pools: &'a BTreeMap<String, Arc<Pool>>,
    /// All Windows nodes.
    pub nodes: &'a BTreeMap<String, Arc<WindowsNode>>,
    /// All RuntimeClasses.
    pub runtime_classes: &'a BTreeMap<String, Arc<RuntimeClassView>>,
    /// How the records on nodes are verified.
    pub ownership: &'a Ownership,
}

impl<'a> PoolChange<'a> {
    /// The pools beside itself that the change concerns: those that share nodes with it, where its membership changes, and
    /// those that share a RuntimeClass with it, where what it asks of its classes changes. Conditions, counts and annotations
    /// concern nobody else.
    pub fn concerns(self, surroundings: &Surroundings<'_>) -> BTreeSet<String> {
        let mut concerned = BTreeSet::new();
        if self.membership_differs() {
            concerned.extend(self.sharing_nodes(surroundings));
        }
        if self.differs(claim_on_classes) {
            concerned.extend(self.sharing_classes(surroundings));
        }
        concerned.retain(|pool| pool != self.name());
        concerned
    }

    /// Whether nodes may go to another pool, or to none.
    pub fn membership_differs(self) -> bool {
        self.differs(membership)
    }

    fn name(self) -> &'a str {
        self.after.or(self.before).map_or("", |pool| pool.name.as_str())
    }

    /// Whether a part of the pool is another, or came or went.
    fn differs<P: PartialEq>(self, part: impl Fn(&'a Pool) -> P) -> bool {
        self.before.map(&part) != self.after.map(&part)
    }

    fn states(self) -> impl Iterator<Item = &'a Pool> {
        self.before.into_iter().chain(self.after)
    }

    /// The pools that match, have or would take a node which this one matches, has or would take, before or after.
    fn sharing_nodes(self, surroundings: &Surroundings<'_>) -> BTreeSet<String> {
        let others = || surroundings.pools.values().map(AsRef::as_ref).filter(|pool| pool.name != self.name());
        let assigners =
            [self.before, self.after].map(|state| Assigner::new(others().chain(state), surroundings.ownership));
        let mut sharing = BTreeSet::new();
        for node in surroundings.nodes.values() {
            let of = |assigner: &Assigner<'_>| {
                let claims = assigner.claims(node);
                let all = claims.into_iter().chain(assigner.assign(node).pool).chain(node.labelled_pool());
                all.map(str::to_owned).collect::<Vec<_>>()
            };
            let concerned: Vec<String> = assigners.iter().flat_map(of).collect();
            if concerned.iter().any(|pool| pool == self.name()) {
                sharing.extend(concerned);
            }
        }
        // Of several fallback pools the oldest counts, and the others report it.
        let falls_back = |pool: &Pool| pool.spec.as_ref().is_ok_and(|spec| spec.members == Members::Fallback);
        if self.states().any(falls_back) {
            sharing.extend(others().filter(|pool| falls_back(pool)).map(|pool| pool.name.clone()));
        }
        sharing
    }

    /// The pools that name a class which this one names or named, and those that such a class was made for.
    fn sharing_classes(self, surroundings: &Surroundings<'_>) -> BTreeSet<String> {
        let names: BTreeSet<&str> = self.states().flat_map(class_names).collect();
        let named = surroundings.pools.values().filter(|pool| class_names(pool).any(|name| names.contains(name)));
        let classes = names.iter().filter_map(|name| surroundings.runtime_classes.get(*name));
        let made_for = classes.filter_map(|class| class.label(label::POOL).map(str::to_owned));
        named.map(|pool| pool.name.clone()).chain(made_for).collect()
    }
}

/// What decides which nodes are the pool's, and whether it would take one from another pool.
fn membership(pool: &Pool) -> impl PartialEq + '_ {
    let members = pool.spec.as_ref().ok().map(|spec| &spec.members);
    (&pool.uid, pool.created, pool.deleting, members, pool.enforces())
}

/// What a pool asks of its RuntimeClasses.
fn claim_on_classes(pool: &Pool) -> impl PartialEq + '_ {
    let claim = pool.spec.as_ref().ok().map(|spec| (spec.build, &spec.runtime_classes, &spec.taints));
    (&pool.uid, pool.created, pool.deleting, pool.enforces(), claim)
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

    /// A node that says that it is in a pool.
    fn node(name: &str, agentpool: &str, pool: &str) -> WindowsNode {
        let labels = json!({"kubernetes.io/os": "windows", "agentpool": agentpool, "winpool.dev/pool": pool});
        let annotations = json!({"winpool.dev/owned": json!({"pool": pool}).to_string()});
        let object = json!({"metadata": {"name": name, "labels": labels, "annotations": annotations}});
        serde_json::from_value::<k8s_openapi::api::core::v1::Node>(object).unwrap().into()
    }

    /// The pools `web`, `batch`, `edge` and `rest`, which takes what is left, with a node each; what concerns whom.
    fn concerned(before: Option<Pool>, after: Option<Pool>) -> Vec<String> {
        let known = [pool("web", json!({})), pool("batch", json!({})), pool("edge", json!({})), fallback("rest")];
        let name = after.as_ref().or(before.as_ref()).unwrap().name.clone();
        let pools = known.into_iter().filter(|pool| pool.name != name).chain(after.clone());
        let nodes = [
            node("web-1", "web", "web"),
            node("batch-1", "batch", "batch"),
            node("edge-1", "edge", "edge"),
            node("rest-1", "nobody", "rest"),
        ];
        let class = json!({"metadata": {"name": "web", "labels": {"winpool.dev/pool": "edge"}}, "handler": "h"});
        let class: k8s_openapi::api::node::v1::RuntimeClass = serde_json::from_value(class).unwrap();
        let surroundings = Surroundings {
            pools: &pools.map(|pool| (pool.name.clone(), Arc::new(pool))).collect(),
            nodes: &nodes.map(|node| (node.name.clone(), Arc::new(node))).into_iter().collect(),
            runtime_classes: &BTreeMap::from([("web".to_owned(), Arc::new(class.into()))]),
            ownership: &Ownership::Trusting,
        };
        let change = PoolChange { before: before.as_ref(), after: after.as_ref() };
        change.concerns(&surroundings).into_iter().collect()
    }

    #[test]
    fn a_change_of_a_spec_concerns_those_that_share_nodes_or_classes_with_it() {
        let selects = |agentpool: &str| json!({"nodeSelector": {"matchLabels": {"agentpool": agentpool}}});
        let batch = |fields: Value| Some(pool("batch", fields));
        let nobody: &[&str] = &[];
        for (before, after, expected) in [
            (batch(json!({})), batch(json!({"labels": {"team": "a"}, "deletionPolicy": "Cleanup"})), nobody),
            (batch(json!({})), batch(json!({"profileRef": {"name": "standard"}})), nobody),
            (batch(json!({})), batch(json!({"taints": []})), nobody),
            (batch(json!({})), batch(json!({"runtimeClasses": [{"name": "other"}]})), nobody),
            // The class `web` was made for `edge`, which may be the one to report that nobody names it.
            (batch(json!({})), batch(json!({"runtimeClasses": [{"name": "web"}]})), &["edge", "web"]),
            (batch(json!({"runtimeClasses": [{"name": "web"}]})), batch(json!({})), &["edge", "web"]),
            // Its node falls to `rest`, or comes from there.
            (batch(json!({})), batch(selects("elsewhere")), &["rest"]),
            (batch(json!({})), None, &["rest"]),
            (None, batch(json!({})), &["rest"]),
            (batch(json!({})), batch(json!({"mode": "Observe"})), nobody),
            // It matches nodes of others.
            (batch(json!({})), batch(selects("web")), &["rest", "web"]),
            (batch(selects("web")), batch(selects("nobody")), &["rest", "web"]),
            // A pool that takes what is left concerns those that lose nodes to it or get nodes from it, and its like.
            (Some(fallback("rest")), None, &[]),
            (None, Some(fallback("second")), &["rest"]),
        ] {
            let told = format!("{before:?} {after:?}");
            assert_eq!(concerned(before, after), expected, "{told}");
        }
    }

    #[test]
    fn a_status_concerns_nobody_else() {
        let mut after = pool("web", json!({"runtimeClasses": [{"name": "batch"}]}));
        let before = after.clone();
        after.status.applied.taints = vec!["foreign:NoSchedule".into()];
        after.status.nodes.ready = 7;
        assert_eq!(concerned(Some(before), Some(after)), Vec::<String>::new());
    }
}

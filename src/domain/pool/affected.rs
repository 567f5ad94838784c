//! Which pools a change of another pool concerns.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Members, Pool, RuntimeClassView, assignment::Assigner};
use crate::{
    api::{Taint, names::label},
    domain::{
        node::WindowsNode,
        owned::{Origin, TaintKey},
    },
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
}

impl<'a> PoolChange<'a> {
    /// The pools beside itself that the change concerns: those that share nodes with it, where its membership changes;
    /// those that share a RuntimeClass with it, where what it asks of its classes changes; and those whose nodes have what
    /// the pool is the first to have applied. Conditions, counts and annotations concern nobody else.
    pub fn concerns(self, surroundings: &Surroundings<'_>) -> BTreeSet<String> {
        let mut concerned = BTreeSet::new();
        if self.membership_differs() {
            concerned.extend(self.sharing_nodes(surroundings));
        }
        if self.differs(claim_on_classes) {
            concerned.extend(self.sharing_classes(surroundings));
        }
        concerned.extend(self.proven_by(surroundings));
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
        let assigners = [self.before, self.after].map(|state| Assigner::new(others().chain(state)));
        let mut sharing = BTreeSet::new();
        for node in surroundings.nodes.values() {
            let of = |assigner: &Assigner<'_>| {
                let claims = assigner.claims(node);
                let all = claims.into_iter().chain(assigner.assign(node).pool).chain(node.pool());
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

    /// The pools of nodes whose record has a key that no pool but this one has applied, and this one only now: the keys
    /// that pools have applied decide together what may be removed from a node.
    fn proven_by(self, surroundings: &Surroundings<'_>) -> BTreeSet<String> {
        let applied = |pool: &'a Pool| pool.status.applied.taints.iter().chain(&pool.status.applied.labels);
        let mut keys: BTreeSet<&str> = self.after.into_iter().flat_map(applied).map(String::as_str).collect();
        let others = surroundings.pools.values().map(AsRef::as_ref).filter(|pool| pool.name != self.name());
        for pool in others.chain(self.before) {
            for key in pool.status.applied.taints.iter().chain(&pool.status.applied.labels) {
                keys.remove(key.as_str());
            }
        }
        if keys.is_empty() {
            return BTreeSet::new();
        }
        let nodes = surroundings.nodes.values().filter(|node| records_one_of(node, &keys));
        nodes.filter_map(|node| node.pool().map(str::to_owned)).collect()
    }
}

/// What decides which nodes are the pool's, and whether it would take one from another pool.
fn membership(pool: &Pool) -> impl PartialEq + '_ {
    let members = pool.spec.as_ref().ok().map(|spec| &spec.members);
    (&pool.uid, pool.created, pool.deleting, members, pool.enforces())
}

/// What a pool asks of its RuntimeClasses, with the taints that its nodes may still have.
fn claim_on_classes(pool: &Pool) -> impl PartialEq + '_ {
    let claim = pool.spec.as_ref().ok().map(|spec| {
        let applied = pool.status.applied.taints.iter();
        let left: BTreeSet<&String> = applied.filter(|key| !asks_for(&spec.taints, key)).collect();
        (spec.build, &spec.runtime_classes, &spec.taints, left)
    });
    (&pool.uid, pool.created, pool.deleting, pool.enforces(), claim)
}

fn asks_for(taints: &[Taint], key: &str) -> bool {
    taints.iter().any(|taint| TaintKey::from(taint).to_string() == key)
}

fn class_names(pool: &Pool) -> impl Iterator<Item = &str> {
    pool.spec.iter().flat_map(|spec| &spec.runtime_classes).map(|class| class.name.as_str())
}

/// Whether the record of a node calls one of these keys added.
fn records_one_of(node: &WindowsNode, keys: &BTreeSet<&str>) -> bool {
    node.owned.as_ref().is_some_and(|owned| {
        let taints = owned.taints.iter().filter(|(_, origin)| **origin == Origin::Added);
        let labels = owned.labels.iter().filter(|(_, origin)| **origin == Origin::Added);
        taints.map(|(key, _)| key.to_string()).any(|key| keys.contains(key.as_str()))
            || labels.map(|(key, _)| key.as_str()).any(|key| keys.contains(key))
    })
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
    fn node(name: &str, agentpool: &str, pool: &str, owned: Value) -> WindowsNode {
        let labels = json!({"kubernetes.io/os": "windows", "agentpool": agentpool, "winpool.dev/pool": pool});
        let annotations = json!({"winpool.dev/owned": owned.to_string()});
        let object = json!({"metadata": {"name": name, "labels": labels, "annotations": annotations}});
        serde_json::from_value::<k8s_openapi::api::core::v1::Node>(object).unwrap().into()
    }

    /// The pools `web`, `batch`, `edge` and `rest`, which takes what is left, with a node each; what concerns whom.
    fn concerned(before: Option<Pool>, after: Option<Pool>) -> Vec<String> {
        let known = [pool("web", json!({})), pool("batch", json!({})), pool("edge", json!({})), fallback("rest")];
        let name = after.as_ref().or(before.as_ref()).unwrap().name.clone();
        let pools = known.into_iter().filter(|pool| pool.name != name).chain(after.clone());
        let by_others = json!({"taints": {"foreign:NoSchedule": "found"}, "labels": {"rack": "added"}});
        let nodes = [
            node("web-1", "web", "web", json!({"taints": {"os:NoSchedule": "added"}})),
            node("batch-1", "batch", "batch", by_others),
            node("edge-1", "edge", "edge", json!({})),
            node("rest-1", "nobody", "rest", json!({})),
        ];
        let class = json!({"metadata": {"name": "web", "labels": {"winpool.dev/pool": "edge"}}, "handler": "h"});
        let class: k8s_openapi::api::node::v1::RuntimeClass = serde_json::from_value(class).unwrap();
        let surroundings = Surroundings {
            pools: &pools.map(|pool| (pool.name.clone(), Arc::new(pool))).collect(),
            nodes: &nodes.map(|node| (node.name.clone(), Arc::new(node))).into_iter().collect(),
            runtime_classes: &BTreeMap::from([("web".to_owned(), Arc::new(class.into()))]),
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
    fn a_status_concerns_others_where_it_is_the_first_to_have_applied_what_their_nodes_record() {
        let web = |applied: &[&str], labels: &[&str], spec: Value| {
            let mut pool = pool("web", spec);
            pool.status.applied.taints = applied.iter().map(ToString::to_string).collect();
            pool.status.applied.labels = labels.iter().map(ToString::to_string).collect();
            pool.status.nodes.ready = 7;
            pool
        };
        let shared = || json!({"runtimeClasses": [{"name": "batch"}]});
        let nobody: &[&str] = &[];
        for (before, after, expected) in [
            (web(&[], &[], json!({})), web(&["os:NoSchedule"], &["team"], json!({})), nobody),
            (web(&["os:NoSchedule"], &[], json!({})), web(&[], &[], json!({})), nobody),
            (web(&[], &[], json!({})), web(&[], &["rack"], json!({})), &["batch"]),
            (web(&[], &["rack"], json!({})), web(&[], &["rack", "team"], json!({})), nobody),
            (web(&[], &[], json!({})), web(&["foreign:NoSchedule"], &[], json!({})), &["edge"]),
            // A taint that it asks for is tolerated anyway; one that is left on its nodes only as long as it is there.
            (web(&[], &[], shared()), web(&["os:NoSchedule"], &[], shared()), nobody),
            (web(&["old:NoSchedule"], &[], shared()), web(&[], &[], shared()), &["batch"]),
        ] {
            let told = format!("{:?} {:?}", before.status.applied, after.status.applied);
            assert_eq!(concerned(Some(before), Some(after)), expected, "{told}");
        }
    }
}

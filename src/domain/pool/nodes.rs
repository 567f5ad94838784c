//! What has to change on one node: one merge patch that keeps everything that others own.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use k8s_openapi::api::core::v1::Taint as NodeTaint;
use serde_json::{Map, Value, json};

use super::Snapshot;
use crate::{
    api::{
        Taint, TaintEffect,
        names::{annotation, label},
    },
    domain::{
        contest::Touch,
        node::WindowsNode,
        operation::{NodeChange, NodePatch, Purpose},
        owned::{Origin, Owned, Proof, TaintKey},
    },
};

/// What a pool wants on its nodes.
#[derive(Clone, Debug)]
pub struct Wish<'a> {
    /// The pool's name.
    pub pool: &'a str,
    /// Labels, beside those of ours.
    pub labels: &'a BTreeMap<String, String>,
    /// Taints.
    pub taints: &'a [Taint],
    /// NoExecute taints that may not be added for now, because they would evict pods.
    pub withheld: &'a [TaintKey],
    /// Whether a NoExecute taint may get another value, which evicts the pods that tolerate the present one.
    pub may_evict: bool,
}

/// The configuration that a node should run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Config<'a> {
    /// This ConfigMap.
    Named(&'a str),
    /// None: no profile is named.
    None,
    /// Whatever it has: the profile cannot be rendered for it now.
    AsItIs,
}

/// The plan for one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodePlan {
    /// What changes, if anything has to.
    pub change: Option<Arc<NodeChange>>,
    /// Taints of the same key and effect with another value: left as they are.
    pub taint_conflicts: Vec<String>,
    /// Labels with another value: left as they are.
    pub label_conflicts: Vec<String>,
    /// NoExecute taints that wait for a permission.
    pub would_evict: Vec<TaintKey>,
    /// Fields that another writer keeps undoing: left for a while.
    pub contested: Vec<String>,
    /// What admission said when it refused the taints lately.
    pub refused: Option<String>,
    /// Taints that are not on the node and not ours to add, because Cluster API keeps them.
    pub left_to_machine: Vec<TaintKey>,
}

impl NodePlan {
    /// Whether the node will have everything when the patch is written.
    pub fn complete(&self) -> bool {
        self.taint_conflicts.is_empty()
            && self.label_conflicts.is_empty()
            && self.would_evict.is_empty()
            && self.contested.is_empty()
            && self.refused.is_none()
            && self.left_to_machine.is_empty()
    }
}

/// How many kinds of nodes are remembered: the nodes of a pool are mostly alike.
const KINDS: usize = 16;

/// Plans nodes: with a wish to make them so, without one to take off what is ours.
///
/// Nodes that are alike in everything that matters have one plan, which is made once.
pub struct Planner<'a> {
    snapshot: &'a Snapshot,
    proof: &'a Proof,
    wish: Option<Wish<'a>>,
    kinds: VecDeque<Kind<'a>>,
}

/// The plan of a node, and what it depends on.
struct Kind<'a> {
    node: &'a WindowsNode,
    config: Config<'a>,
    registered: bool,
    /// The labels that matter, with what the node has.
    labels: Vec<(&'a str, Option<&'a String>)>,
    plan: Arc<NodePlan>,
}

impl<'a> Planner<'a> {
    /// Prepares the plans for the nodes of one pool.
    pub fn new(snapshot: &'a Snapshot, proof: &'a Proof, wish: Option<Wish<'a>>) -> Self {
        Self { snapshot, proof, wish, kinds: VecDeque::new() }
    }

    /// Plans one node, which should run this configuration.
    ///
    /// `registered` says that the node runs a configuration that we rendered, so that its taints came with it.
    pub fn plan(&mut self, node: &'a WindowsNode, config: Config<'a>, registered: bool) -> Arc<NodePlan> {
        let alike = |kind: &&Kind| kind.registered == registered && kind.config == config && kind.has(node);
        if let Some(kind) = self.kinds.iter().find(alike)
            && self.may_all(node, &kind.plan)
        {
            return kind.plan.clone();
        }
        let plan = Arc::new(self.plan_alone(node, config, registered));
        // What is left to a rival or refused concerns this node alone.
        if plan.contested.is_empty() && plan.refused.is_none() {
            let labels = self.labels_that_matter(node).map(|key| (key, node.labels.get(key))).collect();
            self.kinds.push_front(Kind { node, config, registered, labels, plan: plan.clone() });
            self.kinds.truncate(KINDS);
        }
        plan
    }

    fn plan_alone(&self, node: &WindowsNode, config: Config, registered: bool) -> NodePlan {
        let mut draft = Draft::new(self.snapshot, self.proof, node);
        match &self.wish {
            Some(wish) => {
                draft.want_labels(wish);
                draft.want_taints(wish, registered);
                draft.drop_rest();
                draft.annotate(config);
            }
            None => {
                draft.drop_rest();
                draft.let_go();
            }
        }
        draft.finish(self.wish.as_ref().map(|wish| wish.pool))
    }

    fn labels_that_matter(&self, node: &'a WindowsNode) -> impl Iterator<Item = &'a str> {
        let wished = self.wish.iter().flat_map(|wish| wish.labels.keys());
        let recorded = node.owned.iter().flat_map(|owned| owned.labels.keys());
        [label::POOL, label::WINDOWS_BUILD].into_iter().chain(wished.chain(recorded).map(String::as_str))
    }

    /// Whether nothing of a plan is left to a rival or refused on this node.
    fn may_all(&self, node: &WindowsNode, plan: &NodePlan) -> bool {
        let Some(change) = &plan.change else { return true };
        let left = |touch: &Touch| self.snapshot.contests.left_until(&node.name, touch, self.snapshot.now).is_some();
        !self.snapshot.refusals.contains_key(&node.name) && !change.touches.iter().any(left)
    }
}

impl Kind<'_> {
    /// Whether a node is of this kind.
    fn has(&self, node: &WindowsNode) -> bool {
        self.node.os == node.os
            && self.node.config == node.config
            && self.node.taints == node.taints
            && self.node.owned == node.owned
            && self.node.from_machine == node.from_machine
            && self.labels.iter().all(|(key, value)| node.labels.get(*key) == *value)
    }
}

/// The write of a plan, if it has any.
pub fn patch(node: &WindowsNode, plan: &NodePlan) -> Option<Arc<NodePatch>> {
    let change = plan.change.clone()?;
    let (node, resource_version) = (node.name.clone(), node.resource_version.clone());
    Some(Arc::new(NodePatch { node, resource_version, change }))
}

/// A node's plan in the making.
struct Draft<'a> {
    snapshot: &'a Snapshot,
    proof: &'a Proof,
    node: &'a WindowsNode,
    /// The record as it will be.
    owned: Owned,
    /// Labels to write; null takes one off.
    labels: Map<String, Value>,
    /// Annotations to write; null takes one off.
    annotations: Map<String, Value>,
    taints: Vec<NodeTaint>,
    plan: NodePlan,
    words: Vec<String>,
    touches: Vec<Touch>,
}

impl<'a> Draft<'a> {
    fn new(snapshot: &'a Snapshot, proof: &'a Proof, node: &'a WindowsNode) -> Self {
        Self {
            snapshot,
            proof,
            node,
            owned: Owned::default(),
            labels: Map::new(),
            annotations: Map::new(),
            taints: node.taints.clone(),
            plan: NodePlan::default(),
            words: Vec::new(),
            touches: Vec::new(),
        }
    }

    fn want_labels(&mut self, wish: &Wish) {
        self.set_own_label(wish.pool);
        for (key, value) in wish.labels {
            self.want_label(key, value);
        }
        // Kubelets before 1.17 did not set it, and classes lead pods by it.
        if let Ok(version) = self.node.os {
            self.want_label(label::WINDOWS_BUILD, &version.build.to_string());
        }
    }

    /// The pool's label is ours by its name; no record is kept of it.
    fn set_own_label(&mut self, pool: &str) {
        if self.node.pool() != Some(pool)
            && self.may_write(&format!("label {}", label::POOL), pool, self.node.labels_writer.as_deref())
        {
            self.labels.insert(label::POOL.to_owned(), json!(pool));
            self.words.push(format!("label {}={pool}", label::POOL));
        }
    }

    fn want_label(&mut self, key: &str, value: &str) {
        let present = self.node.labels.get(key);
        let recorded = self.node.owned.as_ref().and_then(|owned| owned.labels.get(key)).copied();
        if present.map(String::as_str) == Some(value) {
            self.owned.labels.insert(key.to_owned(), recorded.unwrap_or(Origin::Found));
            return;
        }
        let conflict = present.filter(|_| !self.proof.has_label(self.node.owned.as_ref(), key));
        if let Some(present) = conflict {
            self.plan.label_conflicts.push(format!("{key}={present} instead of {key}={value}"));
        } else if self.may_write(&format!("label {key}"), value, self.node.labels_writer.as_deref()) {
            self.owned.labels.insert(key.to_owned(), Origin::Added);
            self.labels.insert(key.to_owned(), json!(value));
            self.words.push(format!("label {key}={value}"));
            return;
        }
        self.owned.labels.extend(recorded.map(|origin| (key.to_owned(), origin)));
    }

    fn want_taints(&mut self, wish: &Wish, registered: bool) {
        for taint in wish.taints {
            self.want_taint(taint, wish, registered);
        }
    }

    fn want_taint(&mut self, taint: &Taint, wish: &Wish, registered: bool) {
        let key = TaintKey::from(taint);
        let position = self.taints.iter().position(|present| TaintKey::from(present) == key);
        let recorded = self.node.owned.as_ref().and_then(|owned| owned.taints.get(&key)).copied();
        let of_machine = self.node.from_machine.contains(&key);
        let present = position.map(|position| self.taints[position].value.clone().unwrap_or_default());
        match (position, present) {
            (_, Some(value)) if value == taint.value => {
                // A kubelet that registered with our configuration brought the taint; Cluster API's are never ours.
                let brought = self.node.owned.is_none() && registered && !of_machine;
                let origin = recorded.unwrap_or(if brought { Origin::Added } else { Origin::Found });
                self.owned.taints.insert(key, origin);
                return;
            }
            (Some(_), Some(value)) if of_machine || !self.proof.has_taint(self.node.owned.as_ref(), &key) => {
                let (present, wanted) = (in_words(&key, &value), in_words(&key, &taint.value));
                self.plan.taint_conflicts.push(format!("{present} instead of {wanted}"));
            }
            (Some(_), _) if taint.effect == TaintEffect::NoExecute && !wish.may_evict => {
                self.plan.would_evict.push(key.clone());
            }
            (Some(position), _) => {
                if self.may_write_taint(&key, &taint.value) {
                    self.taints[position].value = some_text(&taint.value);
                    return self.added(key, &taint.value);
                }
            }
            _ if of_machine => self.plan.left_to_machine.push(key.clone()),
            _ if wish.withheld.contains(&key) => self.plan.would_evict.push(key.clone()),
            _ => {
                if self.may_write_taint(&key, &taint.value) {
                    let (name, effect) = (key.key.clone(), key.effect.clone());
                    self.taints.push(NodeTaint { key: name, effect, value: some_text(&taint.value), time_added: None });
                    return self.added(key, &taint.value);
                }
            }
        }
        self.owned.taints.extend(recorded.map(|origin| (key, origin)));
    }

    fn added(&mut self, key: TaintKey, value: &str) {
        self.words.push(format!("taint {}", in_words(&key, value)));
        self.owned.taints.insert(key, Origin::Added);
    }

    /// What is recorded and no longer wanted: what is proven ours comes off, what is not stays on record.
    fn drop_rest(&mut self) {
        let Some(recorded) = &self.node.owned else { return };
        for (key, origin) in &recorded.taints {
            let position = self.taints.iter().position(|present| TaintKey::from(present) == *key);
            let (Some(position), Origin::Added) = (position, origin) else { continue };
            if self.owned.taints.contains_key(key) {
                continue;
            }
            let removable = self.proof.has_taint(Some(recorded), key) && !self.node.from_machine.contains(key);
            if removable && self.may_write_taint(key, "absent") {
                self.taints.remove(position);
                self.words.push(format!("remove taint {key}"));
            } else {
                self.owned.taints.insert(key.clone(), Origin::Added);
            }
        }
        for (key, origin) in &recorded.labels {
            if *origin != Origin::Added || self.owned.labels.contains_key(key) || !self.node.labels.contains_key(key) {
                continue;
            }
            if self.proof.has_label(Some(recorded), key)
                && self.may_write(&format!("label {key}"), "absent", self.node.labels_writer.as_deref())
            {
                self.labels.insert(key.clone(), Value::Null);
                self.words.push(format!("remove label {key}"));
            } else {
                self.owned.labels.insert(key.clone(), Origin::Added);
            }
        }
    }

    fn annotate(&mut self, config: Config) {
        let wanted = match config {
            Config::Named(name) => Some(name),
            Config::None => None,
            Config::AsItIs => self.node.config.as_deref(),
        };
        if self.node.config.as_deref() != wanted {
            self.annotations.insert(annotation::CONFIG.to_owned(), json!(wanted));
            self.words.push(match wanted {
                Some(name) => format!("config {name}"),
                None => "remove the config".to_owned(),
            });
        }
        if self.node.owned.as_ref() != Some(&self.owned) {
            self.annotations.insert(annotation::OWNED.to_owned(), json!(self.owned.write()));
        }
    }

    /// Takes our own label and annotations off.
    fn let_go(&mut self) {
        if self.node.pool().is_some() {
            self.labels.insert(label::POOL.to_owned(), Value::Null);
            self.words.push(format!("remove label {}", label::POOL));
        }
        if self.node.config.is_some() {
            self.annotations.insert(annotation::CONFIG.to_owned(), Value::Null);
        }
        if self.node.owned.is_some() {
            self.annotations.insert(annotation::OWNED.to_owned(), Value::Null);
        }
    }

    fn may_write_taint(&mut self, key: &TaintKey, value: &str) -> bool {
        if let Some(refusal) = self.snapshot.refusals.get(&self.node.name) {
            self.plan.refused = Some(refusal.clone());
            return false;
        }
        self.may_write(&format!("taint {key}"), value, self.node.taints_writer.as_deref())
    }

    /// Whether a field may be written now, or is left to whoever keeps undoing it.
    fn may_write(&mut self, field: &str, value: &str, rival: Option<&str>) -> bool {
        let touch = Touch { field: field.to_owned(), value: value.to_owned() };
        match self.snapshot.contests.left_until(&self.node.name, &touch, self.snapshot.now) {
            Some(until) => {
                let rival = rival.unwrap_or("another writer");
                self.plan.contested.push(format!("{field} is undone by {rival}; left alone until {until:.0}"));
                false
            }
            None => {
                self.touches.push(touch);
                true
            }
        }
    }

    fn finish(mut self, pool: Option<&str>) -> NodePlan {
        let taints = (self.taints != self.node.taints).then(|| json!(self.taints));
        if self.labels.is_empty() && self.annotations.is_empty() && taints.is_none() {
            return self.plan;
        }
        let purpose = match pool {
            None => Purpose::Release,
            Some(pool) if self.node.pool() != Some(pool) => Purpose::Guard,
            Some(_) if self.labels.is_empty() && taints.is_none() => Purpose::Configure,
            Some(_) => Purpose::Repair,
        };
        let mut body = json!({"metadata": {}});
        for (field, map) in [("labels", self.labels), ("annotations", self.annotations)] {
            if !map.is_empty() {
                body["metadata"][field] = Value::Object(map);
            }
        }
        if self.words.is_empty() {
            self.words.push("record what is ours".to_owned());
        }
        let record_without_taints = taints.is_some().then(|| {
            let taints = self.node.owned.as_ref().map(|owned| owned.taints.clone()).unwrap_or_default();
            Owned { taints, ..self.owned }
        });
        if let Some(taints) = taints {
            body["spec"] = json!({"taints": taints});
        }
        let (words, touches) = (self.words, self.touches);
        self.plan.change = Some(Arc::new(NodeChange { body, record_without_taints, words, touches, purpose }));
        self.plan
    }
}

fn in_words(key: &TaintKey, value: &str) -> String {
    if value.is_empty() { key.to_string() } else { format!("{}={value}:{}", key.key, key.effect) }
}

fn some_text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::Node;

    use super::*;
    use crate::domain::contest::Contests;

    fn node(name: &str, metadata: &Value, taints: &Value) -> WindowsNode {
        let mut object = json!({
            "metadata": metadata, "spec": {"taints": taints},
            "status": {"nodeInfo": {
                "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "containerd://1.7.28",
                "kernelVersion": "10.0.20348.4529", "kubeProxyVersion": "", "kubeletVersion": "v1.34.2",
                "machineID": "", "operatingSystem": "windows", "osImage": "", "systemUUID": "",
            }},
        });
        object["metadata"]["name"] = json!(name);
        object["metadata"]["resourceVersion"] = json!(format!("of {name}"));
        serde_json::from_value::<Node>(object).unwrap().into()
    }

    #[test]
    fn nodes_that_are_alike_are_planned_as_each_would_be_alone() {
        let host = |name: &str| json!({"labels": {"kubernetes.io/hostname": name}});
        let owned =
            json!({"labels": {"old": "x"}, "annotations": {annotation::OWNED: r#"{"labels":{"old":"added"}}"#}});
        let nodes = [
            node("new-1", &host("new-1"), &json!([])),
            node("new-2", &host("new-2"), &json!([])),
            node("contested", &host("contested"), &json!([])),
            node("refused", &host("refused"), &json!([])),
            node("new-3", &host("new-3"), &json!([])),
            node("team", &json!({"labels": {"team": "other"}}), &json!([])),
            node("tainted", &host("tainted"), &json!([{"key": "os", "value": "linux", "effect": "NoSchedule"}])),
            node("pooled", &json!({"labels": {label::POOL: "web"}}), &json!([])),
            node("owned", &owned, &json!([])),
            node("machine", &json!({"annotations": {annotation::TAINTS_FROM_MACHINE: "os:NoSchedule"}}), &json!([])),
        ];
        let mut contests = Contests::default();
        let touch = Touch { field: "taint os:NoSchedule".into(), value: "windows".into() };
        (0..6).for_each(|_| contests.note("contested", std::slice::from_ref(&touch), Timestamp::UNIX_EPOCH));
        let snapshot = Snapshot {
            contests: Arc::new(contests),
            refusals: [("refused".to_owned(), "denied".to_owned())].into(),
            ..Snapshot::default()
        };
        let (proof, labels) = (Proof::default(), BTreeMap::from([("team".to_owned(), "web".to_owned())]));
        let taints = [Taint { key: "os".into(), value: "windows".into(), effect: TaintEffect::NoSchedule }];
        let wish = Wish { pool: "web", labels: &labels, taints: &taints, withheld: &[], may_evict: true };
        for wish in [Some(wish), None] {
            let mut shared = Planner::new(&snapshot, &proof, wish.clone());
            let mut distinct = Vec::new();
            for (node, config, registered) in nodes
                .iter()
                .flat_map(|node| {
                    [Config::None, Config::Named("web-1")]
                        .map(|config| [false, true].map(|registered| (node, config, registered)))
                })
                .flatten()
            {
                let plan = shared.plan(node, config, registered);
                let alone = Planner::new(&snapshot, &proof, wish.clone()).plan(node, config, registered);
                assert_eq!(plan, alone, "{}", node.name);
                if !distinct.iter().any(|other| Arc::ptr_eq(other, &plan)) {
                    distinct.push(plan);
                }
            }
            assert!(distinct.len() < nodes.len() * 4, "some are shared");
        }
    }
}

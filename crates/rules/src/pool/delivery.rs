//! The delivery of configurations by node agents: the rollout of a pool in a snapshot, and its actions as operations.

mod agent_host;
mod omitted;
mod restarts;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use winpool_api::{Disruption, DrainPolicy, NodeConfigPhase, WindowsNodeConfigSpec};
use winpool_core::{
    kubernetes::whole_second,
    node::{Cordon, WindowsNode},
};
use winpool_render::{KUBE_PROXY_YAML, settings::FileSettings};
use winpool_workload::Pod;

use super::{
    ConfigMapView, NodeConfigView, Pool, Snapshot, Spec,
    config_in_effect::NodeConfigs,
    configs::ConfigPlan,
    member::Member,
    rollout::{
        self, Assigned, Cordoned, Desired, NodeFailure, PodsToEvict, RolloutAction, RolloutNode, RolloutPlan,
        RolloutRules, differing_files, disruption_of,
    },
};
use crate::operation::Write;

pub use agent_host::AgentObstacle;
pub use omitted::{KubeProxyObstacle, without_kube_proxy};
pub use restarts::{PlannedRestart, restarts};

/// The delivery to the nodes of a pool.
#[derive(Clone, Debug, Default)]
pub struct DeliveryPlan {
    pub state: DeliveryState,
    /// The nodes that cannot run the agent, by name. Nothing is assigned to them.
    pub without_agent: BTreeMap<String, AgentObstacle>,
    /// The nodes that are not drained, with the CSI drivers of their pods, which no other available node has.
    pub held: BTreeMap<String, Vec<String>>,
    /// The confirmations. They are written before the other operations: a place within the limit is free only then.
    pub confirmations: Vec<Write>,
    /// The other writes, which are independent of each other.
    pub operations: Vec<Write>,
}

#[derive(Clone, Debug, Default)]
pub enum DeliveryState {
    /// The pool has no agents.
    #[default]
    Off,
    /// The WindowsNodeConfigs are not known: the kind is not installed, or may not be read.
    Unknown,
    /// The agents apply the configurations.
    Rollout(Box<RolloutPlan>),
}

/// Plans the delivery to the members of a pool. `is_taken_over`: whether another pool with agents has a node.
pub fn plan(
    snapshot: &Snapshot,
    (pool, spec): (&Pool, &Spec),
    members: &[Member],
    configs: &ConfigPlan,
    is_taken_over: impl Fn(&WindowsNode) -> bool,
) -> DeliveryPlan {
    let mut operations = removed(snapshot, (pool, spec), members, is_taken_over);
    let mut confirmations = Vec::new();
    let (mut without_agent, mut held) = (BTreeMap::new(), BTreeMap::new());
    let state = match (&spec.rollout, &snapshot.node_configs) {
        (None, _) => {
            operations.extend(uncordoned(members.iter().map(|member| member.node.as_ref())));
            DeliveryState::Off
        }
        (Some(_), None) => DeliveryState::Unknown,
        (Some(rules), Some(_)) => {
            let node_configs = NodeConfigs::new(snapshot, pool, spec);
            let inputs = Inputs { snapshot, pool, rules, node_configs, configs };
            let obstacles = members
                .iter()
                .filter_map(|member| Some((member.node.name.clone(), inputs.obstacle(member.node.as_ref())?)));
            without_agent = obstacles.collect();
            let mut nodes: Vec<RolloutNode> = members.iter().map(|member| inputs.node(member)).collect();
            // It reads all pods, and matters only for a node that is drained, or is to be.
            let drains = |node: &RolloutNode| node.cordoned != Cordoned::No || node.desired.is_some_and(|of| of.drain);
            let drains = nodes.iter().any(drains);
            let volumes = if drains { Volumes::of(snapshot, rules, members) } else { Volumes::default() };
            nodes.iter_mut().for_each(|node| node.takers = volumes.takers(node.name));
            let mut rollout = rollout::plan(rules, spec.maintenance.at(snapshot.now), &nodes, snapshot.now);
            held = rollout.held.iter().map(|node| (node.clone(), volumes.drivers(node))).collect();
            rollout.next = rollout.next.into_iter().chain(inputs.request_ends()).min();
            for (action, operation) in inputs.operations(members, &rollout) {
                if action == Some(RolloutAction::Confirm) { &mut confirmations } else { &mut operations }
                    .push(operation);
            }
            DeliveryState::Rollout(Box::new(rollout))
        }
    };
    DeliveryPlan { state, without_agent, held, confirmations, operations }
}

/// The nodes whose agents wait for their confirmation: their Leases are read before the reconcile.
pub fn awaiting_confirmation(snapshot: &Snapshot, pool: &str) -> Vec<String> {
    let configs = snapshot.node_configs.iter().flat_map(|configs| configs.values());
    let waits = |config: &&std::sync::Arc<NodeConfigView>| {
        let reports = [NodeConfigPhase::Verifying, NodeConfigPhase::Applied].contains(&config.status.phase);
        let unconfirmed = |spec: &WindowsNodeConfigSpec| config.status.is_about(spec) && !spec.is_confirmed();
        config.pool() == Some(pool) && reports && config.spec.as_ref().is_some_and(unconfirmed)
    };
    configs.filter(waits).map(|config| config.name.clone()).collect()
}

/// The number of WindowsNodeConfigs of a pool in each phase, by its name.
pub fn phases(snapshot: &Snapshot, pool: &str) -> [(&'static str, usize); 7] {
    NodeConfigPhase::ALL
        .map(|phase| (phase.name(), of_pool(snapshot, pool).filter(|config| config.status.phase == phase).count()))
}

impl DeliveryPlan {
    /// The nodes where the desired configuration failed.
    pub fn failures(&self) -> &[NodeFailure] {
        match &self.state {
            DeliveryState::Rollout(rollout) => &rollout.progress.failures,
            DeliveryState::Off | DeliveryState::Unknown => &[],
        }
    }
}

/// Removes the operator's cordon from nodes.
pub fn uncordoned<'n>(nodes: impl IntoIterator<Item = &'n WindowsNode>) -> impl Iterator<Item = Write> {
    nodes.into_iter().filter(|node| node.cordon.is_some()).map(Write::uncordon_node)
}

/// Deletes all WindowsNodeConfigs of a pool.
pub fn deleted<'s>(snapshot: &'s Snapshot, pool: &'s str) -> impl Iterator<Item = Write> + 's {
    of_pool(snapshot, pool).map(NodeConfigView::delete)
}

fn of_pool<'s>(snapshot: &'s Snapshot, pool: &'s str) -> impl Iterator<Item = &'s NodeConfigView> {
    let configs = snapshot.node_configs.iter().flat_map(|configs| configs.values());
    configs.map(AsRef::as_ref).filter(move |config| config.pool() == Some(pool) && !config.deleting)
}

/// Deletes the WindowsNodeConfigs of nodes that do not exist or have left the pool, those that cannot be read, and all of
/// them if the pool has no agents.
fn removed(
    snapshot: &Snapshot,
    (pool, spec): (&Pool, &Spec),
    members: &[Member],
    is_taken_over: impl Fn(&WindowsNode) -> bool,
) -> Vec<Write> {
    let names: BTreeSet<&str> = members.iter().map(|member| member.node.name.as_str()).collect();
    let is_needed = |config: &NodeConfigView| match snapshot.nodes.get(&config.name) {
        Some(node) if config.is_for(&node.uid) => match names.contains(config.name.as_str()) {
            true => spec.rollout.is_some(),
            false => is_taken_over(node),
        },
        _ => false,
    };
    let unneeded = of_pool(snapshot, &pool.name).filter(|config| !is_needed(config));
    // A member's object that was written for an earlier node of the same name, or by another pool.
    let configs = snapshot.node_configs.iter();
    let of_members = configs.flat_map(|configs| members.iter().filter_map(|member| configs.get(&member.node.name)));
    let outdated = of_members.map(AsRef::as_ref).filter(|config: &&NodeConfigView| {
        let is_current = snapshot.nodes.get(&config.name).is_some_and(|node| config.is_for(&node.uid));
        spec.rollout.is_some() && !config.deleting && !is_current && config.pool() != Some(&pool.name)
    });
    unneeded.chain(outdated).map(NodeConfigView::delete).collect()
}

/// What the rollout of a pool is computed from.
struct Inputs<'a> {
    snapshot: &'a Snapshot,
    pool: &'a Pool,
    rules: &'a RolloutRules,
    node_configs: NodeConfigs<'a>,
    configs: &'a ConfigPlan,
}

/// The CSI drivers that the pods of members need which a drain evicts, if the storage is read and nodes are drained.
#[derive(Default)]
struct Volumes<'a> {
    by_node: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// The members that have all drivers of a set.
    takers: BTreeMap<BTreeSet<&'a str>, BTreeSet<&'a str>>,
}

impl<'a> Volumes<'a> {
    fn of(snapshot: &'a Snapshot, rules: &RolloutRules, members: &'a [Member]) -> Self {
        let mut volumes = Self::default();
        let drains = rules.drain != DrainPolicy::Never;
        let Some(storage) = snapshot.storage.known().filter(|_| drains) else { return volumes };
        let nodes: BTreeSet<&str> = members.iter().map(|member| member.node.name.as_str()).collect();
        let pods = snapshot.pods.iter().flat_map(|pods| pods.values()).filter(|pod| is_evicted(pod));
        for (node, pod) in pods.filter_map(|pod| Some((*nodes.get(pod.node.as_deref()?)?, pod))) {
            for driver in storage.drivers(pod) {
                volumes.by_node.entry(node).or_default().insert(driver);
            }
        }
        for drivers in volumes.by_node.values().cloned().collect::<BTreeSet<_>>() {
            let has_all = |node: &&str| drivers.iter().all(|driver| storage.has_driver(node, driver));
            let takers = nodes.iter().copied().filter(has_all).collect();
            volumes.takers.insert(drivers, takers);
        }
        volumes
    }

    fn takers(&self, node: &str) -> Option<&BTreeSet<&'a str>> {
        self.takers.get(self.by_node.get(node)?)
    }

    fn drivers(&self, node: &str) -> Vec<String> {
        self.by_node.get(node).into_iter().flatten().map(|driver| (*driver).to_owned()).collect()
    }
}

impl<'a> Inputs<'a> {
    /// The WindowsNodeConfig of a node. One that was written for an earlier node of this name is deleted first.
    fn config(&self, node: &WindowsNode) -> Option<&'a NodeConfigView> {
        self.snapshot.node_configs.as_ref()?.get(&node.name).map(AsRef::as_ref)
    }

    /// Why the node cannot run the agent. An agent that has reported runs.
    fn obstacle(&self, node: &WindowsNode) -> Option<AgentObstacle> {
        let reported = self.config(node).is_some_and(|config| config.is_for(&node.uid) && config.has_report());
        AgentObstacle::of(node).filter(|_| !reported)
    }

    fn node(&self, member: &'a Member) -> RolloutNode<'a> {
        let node = member.node.as_ref();
        let config = self.config(node);
        let assigned = config.and_then(|config| config.assigned(node));
        let is_outdated = config.is_some() && assigned.is_none();
        let desired = self.desired(node, assigned).filter(|_| !is_outdated && self.obstacle(node).is_none());
        RolloutNode {
            name: &node.name,
            created: node.created,
            ready: node.ready,
            occupied: node.occupied.is_some(),
            cordoned: cordoned(node),
            released: node.cordon.as_ref().filter(|cordon| cordon.released),
            desired,
            assigned,
            verified: assigned.is_some_and(|assigned| self.is_verified(node, assigned)),
            pods: self.pods_to_evict(node),
            takers: None,
        }
    }

    /// When a diagnosis of the node was requested, unless it is too long ago.
    fn diagnose(&self, node: &WindowsNode) -> Option<Time> {
        let request = self.pool.diagnosis_request.as_ref().filter(|request| request.node == node.name)?;
        request.valid_until(self.snapshot.now).map(|_| Time(request.at))
    }

    /// When the request of a diagnosis is removed.
    fn request_ends(&self) -> Option<Timestamp> {
        self.pool.diagnosis_request.as_ref()?.valid_until(self.snapshot.now)
    }

    /// The desired configuration, if its ConfigMap exists with the rendered content.
    fn desired(&self, node: &WindowsNode, assigned: Option<Assigned<'_>>) -> Option<Desired<'a>> {
        let map = self.configs.stored_for(self.snapshot, node)?;
        let restart = restart(node, self.changed_files(&map.settings, &map.digest, assigned).as_ref());
        Some(Desired { config: &map.name, digest: &map.digest, restart, drain: self.drains(node, restart) })
    }

    /// Whether the node is drained before this restart.
    fn drains(&self, node: &WindowsNode, restart: Disruption) -> bool {
        restart != Disruption::None
            && match self.rules.drain {
                DrainPolicy::Never => false,
                DrainPolicy::Always => true,
                // The load balancers of Services may be lost with RKE2's kube-proxy (kubernetes/kubernetes#135802).
                DrainPolicy::IfNeeded => node.is_rke2 || self.node_configs.shrinks(node),
            }
    }

    /// The files that differ from those that the node runs; `None` if those are not known.
    fn changed_files<'f>(
        &'f self,
        files: &'f FileSettings,
        digest: &str,
        assigned: Option<Assigned<'_>>,
    ) -> Option<BTreeSet<&'f str>> {
        let assigned = assigned?;
        let applied = assigned.status.applied.as_ref()?;
        if applied.digest == digest {
            // Only the agent knows which files something else has changed, or a rollback has left.
            let is_applied = assigned.status.phase == NodeConfigPhase::Applied || assigned.spec.digest != digest;
            return (is_applied && assigned.reapplied_from(self.rules).is_none()).then(BTreeSet::new);
        }
        let before = self.snapshot.config_maps.get(&applied.config).filter(|map| map.digest == applied.digest)?;
        Some(differing_files(&before.settings, files))
    }

    /// Whether the node is alive after its services have restarted, and its resources are those of the assigned
    /// configuration, also if another one is desired now. Heartbeats and the time of the restart are by the node's clock.
    fn is_verified(&self, node: &WindowsNode, assigned: Assigned<'_>) -> bool {
        let Assigned { spec, status } = assigned;
        let restarted = status.restarted_at.as_ref().map(|time| time.0);
        let since = restarted.or((spec.disruption != Disruption::None).then(|| spec.assigned_at()));
        let renewed = self.snapshot.lease_renewals.get(&node.name).copied();
        let heartbeat = renewed.into_iter().chain(*node.heartbeat).max();
        let is_alive = since.is_none_or(|since| heartbeat.is_some_and(|heartbeat| heartbeat > since));
        is_alive && !assigned.has_changed() && self.node_configs.has_assigned(node, spec)
    }

    fn pods_to_evict(&self, node: &WindowsNode) -> PodsToEvict {
        match &self.snapshot.pods {
            None => PodsToEvict::Unknown,
            Some(_) if node.cordon.is_some() && self.remaining_pods(node).next().is_some() => PodsToEvict::Some,
            Some(_) => PodsToEvict::None,
        }
    }

    /// The pods on a node that a drain has to wait for.
    fn remaining_pods(&self, node: &WindowsNode) -> impl Iterator<Item = &'a Pod> {
        let name = node.name.clone();
        let pods = self.snapshot.pods.iter().flat_map(|pods| pods.values()).map(AsRef::as_ref);
        pods.filter(move |pod: &&Pod| pod.node.as_ref() == Some(&name) && is_evicted(pod))
    }

    /// The operations, each with its action.
    fn operations(&self, members: &[Member], rollout: &RolloutPlan) -> Vec<(Option<RolloutAction>, Write)> {
        let mut operations = Vec::new();
        let mut actions = rollout.actions.iter().peekable();
        // Both are ordered by name.
        for member in members {
            let action = actions.next_if(|(name, _)| *name == member.node.name).map(|(_, action)| *action);
            operations.extend(self.node_operations(member, action).into_iter().map(|operation| (action, operation)));
        }
        operations
    }

    /// The writes of a node, at most one of which changes its WindowsNodeConfig.
    fn node_operations(&self, member: &Member, action: Option<RolloutAction>) -> Vec<Write> {
        let node = member.node.as_ref();
        let config = NodeConfigWriter {
            inputs: self,
            node,
            map: self.configs.stored_for(self.snapshot, node),
            current: self.config(node).filter(|config| config.is_for(&node.uid)).and_then(|it| it.spec.as_ref()),
            diagnose: self.diagnose(node),
        };
        // Another patch of the node changes its version first.
        let may_patch = member.plan.edit.is_none();
        let of_node = match action {
            Some(RolloutAction::Cordon) => config.map.map(|map| Write::cordon_node(node, &self.cordon(map))),
            Some(RolloutAction::Uncordon) => Some(Write::uncordon_node(node)),
            Some(RolloutAction::Release) => node.cordon.as_ref().map(|cordon| Write::release_node(node, cordon)),
            // Another client has removed the cordon.
            None if node.cordon.as_ref().is_some_and(|cordon| !cordon.released) && !node.unschedulable => {
                Some(Write::uncordon_node(node))
            }
            _ => None,
        };
        let mut operations: Vec<Write> = of_node.filter(|_| may_patch).into_iter().collect();
        if action == Some(RolloutAction::Evict) {
            // A pod without a controller is not created again, so it is not evicted.
            let evicted = self.remaining_pods(node).filter(|pod| pod.workload.kind != "Pod");
            operations.extend(evicted.filter_map(evict));
        }
        let of_config = match action {
            Some(RolloutAction::Assign(disruption)) => config.assign(disruption),
            Some(RolloutAction::Confirm) => config.confirm(),
            Some(RolloutAction::RecordAttempt) => config.record_attempt(),
            // One patch at a time.
            None if operations.is_empty() => config.take_over(),
            _ => None,
        };
        operations.extend(of_config.or_else(|| config.request_diagnosis()));
        operations
    }

    fn cordon(&self, map: &ConfigMapView) -> Cordon {
        let since = whole_second(self.snapshot.now);
        Cordon { config: map.name.clone(), attempt: self.rules.attempt, since, released: false }
    }
}

struct NodeConfigWriter<'a> {
    inputs: &'a Inputs<'a>,
    node: &'a WindowsNode,
    /// The ConfigMap with the desired configuration, if it is stored.
    map: Option<&'a ConfigMapView>,
    /// What is assigned to the node now.
    current: Option<&'a WindowsNodeConfigSpec>,
    diagnose: Option<Time>,
}

impl NodeConfigWriter<'_> {
    fn assign(&self, disruption: Disruption) -> Option<Write> {
        let (map, rules) = (self.map?, self.inputs.rules);
        let spec = WindowsNodeConfigSpec {
            pool: self.inputs.pool.name.clone(),
            node_uid: self.node.uid.clone(),
            config: map.name.clone(),
            digest: map.digest.clone(),
            disruption,
            attempt: rules.attempt,
            confirmed: None,
            confirm_timeout: confirm_timeout(rules.timeout),
            assigned_at: Time(whole_second(self.inputs.snapshot.now)),
            diagnose: self.diagnose.clone(),
        };
        Some(self.apply(assignment(&spec), &spec))
    }

    fn confirm(&self) -> Option<Write> {
        let kept = self.kept()?;
        let confirmed = Some(kept.digest.clone());
        Some(self.apply(format!("confirm {}", kept.config), &WindowsNodeConfigSpec { confirmed, ..kept }))
    }

    fn record_attempt(&self) -> Option<Write> {
        let (kept, attempt) = (self.kept()?, self.inputs.rules.attempt);
        let change = format!("record attempt {attempt} of {}", kept.config);
        Some(self.apply(change, &WindowsNodeConfigSpec { attempt, ..kept }))
    }

    /// Takes over what another pool has assigned, with the ConfigMap of this pool if that is equal.
    fn take_over(&self) -> Option<Write> {
        let current = self.current.filter(|current| current.pool != self.inputs.pool.name)?;
        let equal = self.map.filter(|map| map.digest == current.digest);
        let config = equal.map_or_else(|| current.config.clone(), |map| map.name.clone());
        let change = format!("take over {config} from pool {}", current.pool);
        Some(self.apply(change, &WindowsNodeConfigSpec { config, ..self.kept()? }))
    }

    /// Adds the request of a diagnosis, or removes it.
    fn request_diagnosis(&self) -> Option<Write> {
        self.current.filter(|current| current.diagnose != self.diagnose)?;
        let requests = self.diagnose.is_some();
        let change = if requests { "request a diagnosis" } else { "remove the request of a diagnosis" };
        Some(self.apply(change.to_owned(), &self.kept()?))
    }

    /// The earlier assignment, which stays what it is for the agent.
    fn kept(&self) -> Option<WindowsNodeConfigSpec> {
        let (pool, diagnose) = (self.inputs.pool.name.clone(), self.diagnose.clone());
        Some(WindowsNodeConfigSpec { pool, diagnose, ..self.current?.clone() })
    }

    fn apply(&self, change: String, spec: &WindowsNodeConfigSpec) -> Write {
        let version = self.inputs.config(self.node).map(|config| config.resource_version.as_str());
        Write::apply_node_config(&self.node.name, version, spec, change)
    }
}

/// What an assignment changes, such as `assign web-3f9a1c (KubeletRestart), attempt 2`.
fn assignment(WindowsNodeConfigSpec { config, disruption, attempt, .. }: &WindowsNodeConfigSpec) -> String {
    let repeated = if *attempt == 1 { String::new() } else { format!(", attempt {attempt}") };
    format!("assign {config} ({}){repeated}", disruption.name())
}

/// What the application of these files restarts: everything, if it is not known which files differ, or on a node of RKE2.
fn restart(node: &WindowsNode, changed_files: Option<&BTreeSet<&str>>) -> Disruption {
    let disruption = changed_files.map_or(Disruption::ContainerdRestart, |files| {
        // RKE2 starts kube-proxy itself: the agent does not apply its file.
        let applied = files.iter().filter(|file| !node.is_rke2 || **file != KUBE_PROXY_YAML);
        applied.map(|file| disruption_of(file)).max().unwrap_or_default()
    });
    match disruption {
        Disruption::KubeletRestart if node.is_rke2 => Disruption::ContainerdRestart,
        disruption => disruption,
    }
}

/// Whether a drain has to wait for a pod. Pods of DaemonSets would be created again at once, and those with HostProcess containers
/// belong to the node.
fn is_evicted(pod: &Pod) -> bool {
    let of_node = pod.workload.kind == "DaemonSet" || pod.template.containers.iter().any(|one| one.host_process);
    !pod.finished && !pod.is_static && !of_node
}

fn cordoned(node: &WindowsNode) -> Cordoned<'_> {
    match (&node.cordon, node.unschedulable) {
        (_, false) => Cordoned::No,
        (Some(cordon), true) if !cordon.released => Cordoned::ByOperator(cordon),
        (_, true) => Cordoned::ByOthers,
    }
}

fn evict(pod: &Pod) -> Option<Write> {
    let (namespace, name) = pod.key.split_once('/')?;
    Some(Write::evict_pod(namespace, name, &pod.uid))
}

/// Half of the timeout, so that the agent has rolled back when the operator counts a failure.
fn confirm_timeout(timeout: SignedDuration) -> String {
    format!("{}s", timeout.as_secs() / 2)
}

//! Configurations that agents apply to simulated nodes: the operator, the agents and the API server are the real ones.

mod delivery;
mod diagnosis;
mod killed_operator;
mod lost_nodes;
mod scale;
mod status;
mod tampering;
mod windows;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use e2e::{
    agent::{Agent, Machine},
    cluster::{Cluster, SOON},
    control_plane::{Options, User},
    kubelet::{Kubelets, SimulatedNode},
    operator::Operator,
    rollout::{RolloutLog, Step},
    wait::until,
};
use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{Api, Client, api::DeleteParams};
use serde_json::{Value, json};
use winpool_api::{NodeConfigPhase, WindowsNodeConfig};

const POOL: &str = "web";
/// The timeout of a rollout whose settings have none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// A pool whose nodes run agents, with the permissions of `config/agent`.
struct Fleet {
    cluster: Cluster,
    kubelets: Arc<Kubelets>,
    machines: BTreeMap<String, Machine>,
    agents: BTreeMap<String, Agent>,
    /// The client of the agents.
    client: Client,
}

impl Fleet {
    /// Starts a control plane, nodes, and their agents. A kubelet of a node in `failing` ends when its pods are limited to 77.
    async fn start(nodes: usize, failing: &[&str]) -> Self {
        let mut fleet = Self::without_agents(nodes).await;
        for name in failing {
            fleet.change_machine(name, |machine| machine.fails_with("maxPods: 77"));
        }
        fleet.start_agents();
        fleet
    }

    /// Starts a control plane and nodes `win-01`, `win-02` and so on.
    async fn without_agents(nodes: usize) -> Self {
        let options = Options { agents: true, ..Options::api_server_only() };
        let cluster = Cluster::start_with(options).await.unwrap();
        let names: Vec<String> = (1..=nodes).map(|number| format!("win-{number:02}")).collect();
        let simulated = names.iter().map(|name| node(name)).collect();
        let kubelets = Arc::new(Kubelets::start(cluster.client.clone(), simulated).await.unwrap());
        let machine = |name: &String| Machine::new(name, kubelets.clone(), &cluster.control_plane).unwrap();
        let machines = names.into_iter().map(|name| (name.clone(), machine(&name))).collect();
        let client = cluster.control_plane.client(User::Agent).await.unwrap();
        Self { cluster, kubelets, machines, agents: BTreeMap::new(), client }
    }

    /// Starts two nodes that run their configuration. The scripts of the agent of `win-01` print these lines.
    async fn configured(prints: &[&str]) -> (Self, Operator) {
        let mut fleet = Self::without_agents(2).await;
        fleet.change_machine("win-01", |machine| machine.prints(prints));
        fleet.start_agents();
        let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
        fleet.apply_profile(42).await;
        fleet.apply_pool(json!({ "maxUnavailable": 1 })).await;
        fleet.until_complete().await;
        (fleet, operator)
    }

    /// Changes a machine whose agent does not run yet.
    fn change_machine(&mut self, name: &str, change: impl FnOnce(Machine) -> Machine) {
        let machine = self.machines.remove(name).unwrap();
        self.machines.insert(name.to_owned(), change(machine));
    }

    /// Deletes a Node, by a user whose writes are in the audit log, and waits until it is gone.
    async fn delete_node(&self, name: &str) {
        let nodes: Api<Node> = Api::all(self.cluster.control_plane.client(User::OtherA).await.unwrap());
        nodes.delete(name, &DeleteParams::default()).await.unwrap();
        let found = async || Ok(nodes.get_opt(name).await?.is_some());
        until(&format!("node {name} is gone"), SOON, found, |found| !found).await.unwrap();
    }

    /// Starts the agents of all nodes.
    fn start_agents(&mut self) {
        for name in self.machines.keys().cloned().collect::<Vec<_>>() {
            self.start_agent(&name);
        }
    }

    fn start_agent(&mut self, name: &str) {
        self.agents.insert(name.to_owned(), self.machines[name].agent(self.client.clone()));
    }

    async fn apply_profile(&self, max_pods: u32) {
        self.cluster.apply_profile("standard", json!({ "kubelet": { "maxPods": max_pods } })).await.unwrap();
    }

    async fn apply_pool(&self, rollout: Value) {
        let spec = json!({
            "windowsVersion": "ltsc2022",
            "nodeSelector": { "matchLabels": { "agentpool": POOL } },
            "profileRef": { "name": "standard" },
            "delivery": { "method": "Agent", "rollout": rollout },
        });
        self.cluster.apply_pool(POOL, spec).await.unwrap();
    }

    /// The WindowsNodeConfig of each node.
    async fn configs(&self) -> BTreeMap<String, WindowsNodeConfig> {
        let configs = self.cluster.api::<WindowsNodeConfig>().list(&Default::default()).await.unwrap();
        configs.items.into_iter().map(|config| (config.metadata.name.clone().unwrap_or_default(), config)).collect()
    }

    /// The phase of each node.
    async fn phases(&self) -> BTreeMap<String, NodeConfigPhase> {
        let phase = |config: WindowsNodeConfig| config.status.map(|status| status.phase).unwrap_or_default();
        self.configs().await.into_iter().map(|(name, config)| (name, phase(config))).collect()
    }

    /// Waits until a node is assigned a configuration.
    async fn until_assigned(&self, name: &str) {
        let assigned = async || Ok(self.configs().await.into_keys().collect::<Vec<_>>());
        until(&format!("{name} is assigned"), SOON, assigned, |names| names.iter().any(|found| found == name))
            .await
            .unwrap();
    }

    /// Waits until a node has this phase.
    async fn until_phase(&self, name: &str, expected: NodeConfigPhase) {
        let phase = async || Ok(self.phases().await.get(name).copied());
        until(&format!("{name} is {expected:?}"), SOON, phase, |phase| *phase == Some(expected)).await.unwrap();
    }

    /// Waits until every node runs its configuration.
    async fn until_complete(&self) {
        let condition = async || self.cluster.condition(POOL, "ConfigInEffect").await;
        let complete = |found: &Condition| found.status == "True" && found.reason == "InEffect";
        until("every node runs its configuration", SOON * 5, condition, complete).await.unwrap();
    }

    /// The course of the rollouts until now.
    fn log(&self) -> RolloutLog {
        RolloutLog::read(&self.cluster.control_plane.stored_objects().unwrap()).unwrap()
    }

    /// Checks from the audit log that the number of nodes in progress never exceeded the budget, and that each configuration
    /// was confirmed on one node first. Returns the most that were in progress at once.
    fn check_budget(&self, budget: usize) -> usize {
        let log = self.log();
        log.check_canaries().unwrap();
        let most = log.most_in_progress(DEFAULT_TIMEOUT);
        assert!(most <= budget, "{most} nodes were in progress at once");
        most
    }

    async fn stop_agents(&mut self) {
        for agent in std::mem::take(&mut self.agents).into_values() {
            agent.stop().await.unwrap();
        }
    }

    async fn stop(mut self) {
        self.stop_agents().await;
    }
}

fn node(name: &str) -> SimulatedNode {
    SimulatedNode::windows(name, "10.0.20348.2700").label("agentpool", POOL).runtime("containerd://2.1.4")
}

/// Whether a configuration was assigned.
fn is_assignment(step: &Step) -> bool {
    matches!(step, Step::Assigned { .. })
}

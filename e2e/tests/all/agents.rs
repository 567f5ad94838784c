//! Configurations that agents apply to simulated nodes: the operator, the agents and the API server are the real ones.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use e2e::{
    agent::{Agent, KUBELET_CONFIG, Machine},
    cluster::{Cluster, SOON, edit},
    install::install_agent_permissions,
    kubelet::{Kubelets, SimulatedNode},
    wait::until,
};
use serde_json::{Value, json};
use winpool::api::{NodeConfigPhase, WindowsNodeConfig};

const POOL: &str = "web";

/// A pool whose nodes run agents.
struct Fleet {
    cluster: Cluster,
    machines: BTreeMap<String, Machine>,
    agents: Vec<Agent>,
}

impl Fleet {
    /// Starts a control plane, nodes, and their agents. A kubelet of a node in `failing` ends when its pods are limited to 77.
    async fn start(nodes: usize, failing: &[&str]) -> Self {
        let cluster = Cluster::start().await.unwrap();
        install_agent_permissions(&cluster.control_plane).unwrap();
        let names: Vec<String> = (1..=nodes).map(|number| format!("win-{number:02}")).collect();
        let simulated = names.iter().map(|name| {
            SimulatedNode::windows(name, "10.0.20348.2700").label("agentpool", POOL).runtime("containerd://2.1.4")
        });
        let kubelets = Arc::new(Kubelets::start(cluster.client.clone(), simulated.collect()).await.unwrap());
        let machine = |name: &String| {
            let machine = Machine::new(name, kubelets.clone());
            let fails = failing.contains(&name.as_str());
            (name.clone(), if fails { machine.fails_with("maxPods: 77") } else { machine })
        };
        let machines: BTreeMap<_, _> = names.iter().map(machine).collect();
        let agents = machines.values().map(|machine| machine.agent(cluster.client.clone())).collect();
        Self { cluster, machines, agents }
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

    /// The phase of each node.
    async fn phases(&self) -> BTreeMap<String, NodeConfigPhase> {
        let configs = self.cluster.api::<WindowsNodeConfig>().list(&Default::default()).await.unwrap();
        let phase = |config: WindowsNodeConfig| {
            (config.metadata.name.unwrap_or_default(), config.status.map(|status| status.phase).unwrap_or_default())
        };
        configs.items.into_iter().map(phase).collect()
    }

    async fn stop(self) {
        for agent in self.agents {
            agent.stop().await.unwrap();
        }
    }
}

/// The most nodes that were between the assignment and the confirmation of a configuration at once, while `work` runs.
async fn most_in_progress<T>(fleet: &Fleet, work: impl Future<Output = T>) -> (usize, T) {
    let mut most = 0;
    let observe = async {
        loop {
            let phases = fleet.phases().await;
            let changing = |phase: &NodeConfigPhase| {
                matches!(phase, NodeConfigPhase::Preflight | NodeConfigPhase::Applying | NodeConfigPhase::Verifying)
            };
            most = most.max(phases.values().filter(|phase| changing(phase)).count());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let done = tokio::select! {
        done = work => done,
        () = observe => unreachable!("it observes until the work is done"),
    };
    (most, done)
}

#[tokio::test]
async fn a_configuration_reaches_every_node_within_the_budget_and_is_proven() {
    let fleet = Fleet::start(6, &[]).await;
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({ "maxUnavailable": 2 })).await;
    let (most, condition) =
        most_in_progress(&fleet, fleet.cluster.until_condition(POOL, "ConfigInEffect", "True", "InEffect")).await;
    condition.unwrap();
    assert!((1..=2).contains(&most), "{most} nodes changed at once");
    for (name, machine) in &fleet.machines {
        assert!(machine.text(KUBELET_CONFIG).contains("maxPods: 42"), "{name}");
        assert_eq!((machine.kubelet_starts(), machine.has_restore_service()), (1, false), "{name}");
    }
    let status = fleet.cluster.status(POOL).await.unwrap();
    assert_eq!((status.nodes.matched, status.nodes.configured), (6, 6));

    // The next operator continues with what the agents report, and restarts nothing.
    operator.stop().await.unwrap();
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.cluster.until_idle().await.unwrap();
    assert!(fleet.machines.values().all(|machine| machine.kubelet_starts() == 1));
    fleet.cluster.nothing_was_forbidden().unwrap();
    operator.stop().await.unwrap();
    fleet.stop().await;
}

#[tokio::test]
async fn a_node_that_fails_is_rolled_back_and_halts_the_rollout_until_the_profile_is_corrected() {
    let fleet = Fleet::start(4, &["win-01"]).await;
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({ "maxUnavailable": 1 })).await;
    fleet.cluster.until_condition(POOL, "ConfigInEffect", "True", "InEffect").await.unwrap();

    fleet.apply_profile(77).await;
    let halted = fleet.cluster.until_condition(POOL, "ConfigInEffect", "False", "RolloutHalted").await.unwrap();
    assert!(halted.message.contains("win-01"), "{}", halted.message);
    let failed = &fleet.machines["win-01"];
    assert!(failed.text(KUBELET_CONFIG).contains("maxPods: 42"), "{}", failed.text(KUBELET_CONFIG));
    let restored = async || Ok(failed.kubelet_runs() && !failed.has_restore_service());
    until("the former configuration runs", SOON, restored, |restored| *restored).await.unwrap();
    let phases = fleet.phases().await;
    assert_eq!(phases["win-01"], NodeConfigPhase::RolledBack);
    for name in ["win-02", "win-03", "win-04"] {
        assert!(fleet.machines[name].text(KUBELET_CONFIG).contains("maxPods: 42"), "{name} was not changed");
    }

    fleet.apply_profile(55).await;
    fleet.cluster.until_condition(POOL, "ConfigInEffect", "True", "InEffect").await.unwrap();
    for (name, machine) in &fleet.machines {
        assert!(machine.text(KUBELET_CONFIG).contains("maxPods: 55"), "{name}");
    }
    operator.stop().await.unwrap();
    fleet.stop().await;
}

#[tokio::test]
async fn a_killed_agent_resumes_its_change_and_a_paused_rollout_begins_nothing() {
    let mut fleet = Fleet::start(2, &[]).await;
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({ "paused": true })).await;
    fleet.cluster.until_condition(POOL, "ConfigInEffect", "False", "RollingOut").await.unwrap();
    assert!(fleet.machines.values().all(|machine| machine.kubelet_starts() == 0));

    // The operator waits, and the change of the first node stays unconfirmed until its agent was restarted.
    fleet.apply_pool(json!({ "paused": false })).await;
    let first = fleet.machines["win-01"].clone();
    let changed = async || Ok(first.kubelet_starts());
    until("the kubelet is restarted", SOON, changed, |starts| *starts == 1).await.unwrap();
    drop(fleet.agents.remove(0));
    fleet.agents.insert(0, first.agent(fleet.cluster.client.clone()));
    fleet.cluster.until_condition(POOL, "ConfigInEffect", "True", "InEffect").await.unwrap();
    assert!(fleet.machines.values().all(|machine| machine.text(KUBELET_CONFIG).contains("maxPods: 42")));
    operator.stop().await.unwrap();
    fleet.stop().await;
}

#[tokio::test]
async fn without_delivery_nothing_is_assigned_and_a_pool_that_ends_delivery_leaves_its_nodes_as_they_are() {
    let fleet = Fleet::start(1, &[]).await;
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({})).await;
    fleet.cluster.until_condition(POOL, "ConfigInEffect", "True", "InEffect").await.unwrap();
    edit(&fleet.cluster.pools(), POOL, json!({ "spec": { "delivery": { "method": "None" } } })).await.unwrap();
    let assigned = async || Ok(fleet.phases().await.len());
    until("nothing is assigned", SOON, assigned, |count| *count == 0).await.unwrap();
    assert!(fleet.machines["win-01"].text(KUBELET_CONFIG).contains("maxPods: 42"));
    assert_eq!(fleet.machines["win-01"].kubelet_starts(), 1);
    operator.stop().await.unwrap();
    fleet.stop().await;
}

//! What a plan and the events on nodes say of the delivery.

use winpool_rules::{
    operation::Outcome,
    pool::delivery::{PlannedRestart, restarts, without_kube_proxy},
    status::{
        event::{Event, Regarding},
        rollout,
    },
};

use super::*;

/// The restarts that a plan announces, in text.
fn announced(cluster: &Cluster) -> Vec<String> {
    let snapshot = cluster.model.snapshot();
    let line = |restart: PlannedRestart| {
        let PlannedRestart { files, restart, drain, nodes, config: _ } = restart;
        let files = files.map_or("unknown files".to_owned(), |files| files.join(" "));
        format!("{}: {}{} for {files}", nodes.join(" "), restart.name(), if drain { " after a drain" } else { "" })
    };
    restarts(&snapshot, &plan(&snapshot, "web").unwrap()).into_iter().map(line).collect()
}

#[test]
fn a_plan_announces_what_restarts_on_which_nodes_per_changed_file() {
    let mut cluster = Cluster::new(2, json!({"maxUnavailable": 2}));
    cluster.model.allowances.hosts = vec!["*".parse().unwrap()];
    assert_eq!(announced(&cluster), ["win-1 win-2: ContainerdRestart after a drain for unknown files"]);
    cluster.converge();
    assert_eq!(announced(&cluster), [""; 0]);
    let announce = |cluster: &mut Cluster, spec: Value| {
        cluster.set_profile(spec);
        announced(cluster)
    };
    let mirror = |endpoint: &str| json!({"containerd": {"registryMirrors": [{"registry": "docker.io", "endpoints": [endpoint]}]}});
    for (spec, expected) in [
        (json!({"kubelet": {"maxPods": 120}}), "win-1 win-2: KubeletRestart for kubelet.yaml"),
        (json!({"kubelet": {"maxPods": 60}}), "win-1 win-2: KubeletRestart after a drain for kubelet.yaml"),
        (mirror("https://a.example"), "win-1 win-2: ContainerdRestart for containerd.toml hosts.docker.io.toml"),
    ] {
        assert_eq!(announce(&mut cluster, spec.clone()), [expected], "{spec}");
    }
    cluster.converge();
    assert_eq!(announce(&mut cluster, mirror("https://b.example")), ["win-1 win-2: None for hosts.docker.io.toml"]);
    cluster.model.set_spec("web", "delivery", json!({"method": "None"}));
    assert_eq!(announced(&cluster), [""; 0]);
}

#[test]
fn a_plan_names_the_nodes_of_rke2_and_those_whose_agents_report_that_kube_proxy_is_no_service() {
    let mut cluster = Cluster::new(3, json!({"maxUnavailable": 3, "drain": "Never"}));
    cluster.model.edit(NODE, "win-3", |node| node["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.34.1+rke2r1"));
    let without = |cluster: &Cluster| {
        let snapshot = cluster.model.snapshot();
        let nodes = without_kube_proxy(&snapshot, &plan(&snapshot, "web").unwrap());
        nodes.into_iter().map(|(obstacle, nodes)| format!("{obstacle:?}: {}", nodes.join(" "))).collect::<Vec<_>>()
    };
    assert_eq!(without(&cluster), [""; 0], "the profile has no settings of kube-proxy");
    cluster.set_profile(json!({"kubeProxy": {"winDSR": true}}));
    assert_eq!(without(&cluster), ["Rke2: win-3"], "no agent has reported");
    cluster.converge();
    assert_eq!(without(&cluster), ["Rke2: win-3"], "win-1 and win-2 report no obstacle");
    cluster.model.edit(NODE_CONFIG, "win-1", |config| config["status"]["reason"] = json!("PartlyApplied"));
    cluster.set_profile(json!({"kubeProxy": {"winDSR": false}}));
    assert_eq!(without(&cluster), ["Rke2: win-3", "NoService: win-1"]);
    cluster.model.set_spec("web", "delivery", json!({"method": "None"}));
    assert_eq!(without(&cluster), [""; 0]);
}

/// The events on nodes of one reconcile, as `type reason node: message`, and what identifies the failures. Each event has the
/// uid of its node.
fn node_events(cluster: &mut Cluster) -> (Vec<String>, Vec<String>) {
    let snapshot = cluster.model.snapshot();
    let plan = plan(&snapshot, "web").unwrap();
    let results = plan.steps.iter().flatten().map(|operation| (operation.clone(), Outcome::Done)).collect();
    let done = Done { results, complete: true };
    let failed = rollout::failed(&snapshot, &plan);
    let keys =
        failed.iter().map(|failed| format!("{} {} {}", failed.event.about.uid, failed.key.attempt, failed.key.kind));
    let keys = keys.collect();
    let events = rollout::confirmed(&snapshot, &done).into_iter().chain(failed.into_iter().map(|failed| failed.event));
    let text = |event: Event| {
        let Regarding { name, uid, .. } = &event.about;
        assert_eq!(snapshot.nodes.get(name).unwrap().uid, *uid);
        let (_, after) = event.message.split_once("configuration web-").unwrap();
        let kind = if event.warning { "Warning" } else { "Normal" };
        format!("{kind} {} {name}: {}", event.reason, after.split_once(' ').unwrap().1)
    };
    (events.map(text).collect(), keys)
}

#[test]
fn a_node_gets_an_event_when_its_configuration_is_confirmed_or_has_failed() {
    let mut cluster = Cluster::new(2, json!({"drain": "Never", "maxFailures": 2, "maxUnavailable": 2}));
    cluster.agents = |name| if name == "win-1" { Agent::Applies } else { Agent::RollsBack };
    cluster.set_profile(json!({"kubelet": {"maxPods": 42}}));
    cluster.reconcile("web");
    cluster.reconcile("web");
    cluster.act();
    let works = "Normal ConfigConfirmed win-1: works on the node and is confirmed";
    assert_eq!(node_events(&mut cluster), (vec![works.to_owned()], vec![]));
    cluster.reconcile("web");
    assert_eq!(node_events(&mut cluster), (vec![], vec![]), "it is confirmed once");
    cluster.converge();
    let (events, keys) = node_events(&mut cluster);
    assert_eq!(events, ["Warning ConfigFailed win-2: failed on the node, rolled back: KubeletNotHealthy"]);
    let uid = cluster.model.get(NODE, "win-2").unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(keys, [format!("{uid} 1 RolledBack")]);
}

#[test]
fn what_agents_report_of_an_applied_configuration_is_named_beside_what_is_worse() {
    let reported = |cluster: &mut Cluster, reason: &str| {
        cluster.model.edit(NODE_CONFIG, "win-1", |config| config["status"]["reason"] = json!(reason));
    };
    let mut cluster = Cluster::converged(2, never_drain());
    reported(&mut cluster, "PartlyApplied");
    assert_eq!(config_in_effect(&cluster.converge()).1, "PartlyApplied");
    let changed = "something else has changed 1 node since the configuration was applied: win-1. kubectl describe wnc NODE names \
                   the files. Restore it, or set spec.delivery.drift: Reapply, or spec.delivery.rollout.attempt: 2 to apply the \
                   configuration again";
    reported(&mut cluster, "ChangedOnNode");
    let (_, reason, message) = config_in_effect(&cluster.converge());
    assert_eq!((reason.as_str(), message), ("ChangedOnNode", format!("{changed}. {LIST}")));

    // A node joins.
    cluster.agents = |name| if name == "win-3" { Agent::Silent } else { Agent::Applies };
    cluster.model.put(NODE, "win-3", web_node());
    let (_, reason, message) = config_in_effect(&cluster.converge());
    let progress = "2 of 3 nodes run their configuration, in progress: win-3";
    assert_eq!((reason.as_str(), message), ("RollingOut", format!("{progress}. {changed}. {LIST}")));
    cluster.model.delete(NODE, "win-3");

    reported(&mut cluster, "PartlyApplied");
    cluster.converge();
    cluster.model.edit(NODE, "win-1", |node| node["status"]["allocatable"]["pods"] = json!("99"));
    assert_eq!(config_in_effect(&cluster.converge()).1, "Differs");
}

#[test]
fn nothing_is_assigned_to_nodes_that_cannot_run_the_agent_and_the_pool_names_them() {
    let mut cluster = Cluster::new(3, never_drain());
    cluster.model.put(NODE, "win-1", node(20348, "docker://27.5.1", &json!({"agentpool": "web"}), &json!([])));
    cluster.reconcile("web");
    let obstacle = "win-1: the agent needs containerd, and this is Docker. Replace the node, or move it to a pool with \
                    delivery.method: None";
    let (_, reason, message) = config_in_effect(&cluster.reconcile("web"));
    assert_eq!(reason, "RollingOut");
    assert!(message.contains(obstacle), "{message}");
    let status = cluster.converge();
    assert_eq!(config_in_effect(&status), ("Unknown".into(), "NotDelivered".into(), obstacle.into()));
    assert!(cluster.take_log().iter().all(|line| !line.contains("win-1")), "the others have their configurations");
    assert_eq!(cluster.model.names(NODE_CONFIG), ["win-2", "win-3"]);

    cluster.model.edit(NODE, "win-1", |node| node["status"]["nodeInfo"]["containerRuntimeVersion"] = json!(RUNTIME));
    assert_eq!(config_in_effect(&cluster.converge()).1, "InEffect", "after the change to containerd");
    assert_eq!(cluster.model.names(NODE_CONFIG), ["win-1", "win-2", "win-3"]);
}

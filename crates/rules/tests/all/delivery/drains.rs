//! Nodes that are drained before their configuration changes.

use winpool_model::storage::storage;
use winpool_workload::StorageState;

use super::*;

#[test]
fn a_node_is_drained_of_the_pods_that_would_be_created_elsewhere() {
    let mut cluster = Cluster::new(1, json!({"drain": "Always"}));
    let owned =
        |kind: &str| json!([{"kind": kind, "name": "owner", "uid": "o", "apiVersion": "apps/v1", "controller": true}]);
    let put = |cluster: &mut Cluster, name: &str, change: &dyn Fn(&mut Value)| {
        let mut pod = pod("win-1", &json!([]));
        pod["metadata"]["ownerReferences"] = owned("ReplicaSet");
        change(&mut pod);
        cluster.model.put(POD, name, pod);
    };
    put(&mut cluster, "web-1", &|_| {});
    put(&mut cluster, "elsewhere", &|pod| pod["spec"]["nodeName"] = json!("other"));
    put(&mut cluster, "of-daemon-set", &|pod| pod["metadata"]["ownerReferences"] = owned("DaemonSet"));
    put(&mut cluster, "static", &|pod| pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"}));
    put(&mut cluster, "ended", &|pod| pod["status"] = json!({"phase": "Succeeded"}));
    put(&mut cluster, "of-node", &|pod| {
        pod["spec"]["containers"] =
            json!([{"name": "a", "securityContext": {"windowsOptions": {"hostProcess": true}}}]);
    });
    let status = cluster.converge();
    assert_eq!(
        cluster.take_log(),
        [
            "Node win-1: cordon",
            "Pod default/web-1: evict",
            "WindowsNodeConfig win-1: assign CONFIG (Drain)",
            "WindowsNodeConfig win-1: confirm CONFIG",
            "Node win-1: uncordon",
        ]
    );
    assert_eq!(cluster.model.names(POD), ["elsewhere", "ended", "of-daemon-set", "of-node", "static"]);
    assert_eq!(config_in_effect(&status).1, "InEffect");
    let node = cluster.model.get(NODE, "win-1").unwrap();
    assert!(
        node["spec"].get("unschedulable").is_none()
            && node["metadata"]["annotations"].get("winpool.dev/cordoned").is_none()
    );
}

#[test]
fn a_drain_is_held_while_no_other_node_has_the_drivers_of_its_pods() {
    let mut cluster = Cluster::new(2, json!({"drain": "Always"}));
    let mut with_volume = pod("win-1", &json!([]));
    with_volume["metadata"]["namespace"] = json!("shop");
    with_volume["spec"]["volumes"] = json!([{"name": "share", "csi": {"driver": "csi.example.com"}}]);
    with_volume["metadata"]["ownerReferences"] =
        json!([{"kind": "ReplicaSet", "name": "owner", "uid": "o", "apiVersion": "apps/v1", "controller": true}]);
    cluster.model.put(POD, "app-0", with_volume);
    let registered = |other: Value| {
        StorageState::Known(storage(&[], &[], &[], &[("win-1", json!({"csi.example.com": null})), ("win-2", other)]))
    };
    cluster.model.storage = registered(json!({}));
    let (_, reason, message) = config_in_effect(&cluster.converge());
    assert!(cluster.take_log().iter().all(|line| line.contains("win-2")), "the other node goes on");
    let held = "win-1: not drained, because no other available node of the pool has the CSI drivers of its pods: csi.example.com. Install";
    assert!(reason == "RollingOut" && message.contains(held), "{reason} {message}");
    cluster.model.storage = registered(json!({"csi.example.com": null}));
    assert_eq!(config_in_effect(&cluster.converge()).1, "InEffect");
    assert!(cluster.take_log().contains(&"Pod shop/app-0: evict".to_owned()));
}

#[test]
fn a_node_of_rke2_is_drained_because_one_service_restarts_everything() {
    for (drain, expected) in [
        ("IfNeeded", ["Node win-1: cordon", "WindowsNodeConfig win-1: assign CONFIG (Drain)"]),
        (
            "Never",
            ["WindowsNodeConfig win-1: assign CONFIG (ContainerdRestart)", "WindowsNodeConfig win-1: confirm CONFIG"],
        ),
    ] {
        let mut cluster = Cluster::new(1, json!({"drain": drain}));
        cluster
            .model
            .edit(NODE, "win-1", |node| node["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.34.1+rke2r1"));
        cluster.converge();
        assert_eq!(cluster.take_log()[..2], expected, "{drain}");
    }
}

#[test]
fn a_node_of_rke2_is_not_drained_for_a_file_that_its_agent_does_not_apply() {
    let mut cluster = Cluster::new(1, json!({"drain": "IfNeeded"}));
    cluster.model.edit(NODE, "win-1", |node| node["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.34.1+rke2r1"));
    cluster.converge();
    cluster.take_log();
    cluster.set_profile(json!({"kubeProxy": {"winDSR": true}}));
    cluster.converge();
    let expected = ["WindowsNodeConfig win-1: assign CONFIG (None)", "WindowsNodeConfig win-1: confirm CONFIG"];
    assert_eq!(cluster.take_log(), expected);
}

#[test]
fn a_node_is_drained_each_time_before_its_configuration_is_applied_again() {
    let mut cluster = Cluster::converged(1, json!({"drain": "Always"}));
    cluster.model.edit(NODE_CONFIG, "win-1", |config| config["status"]["reason"] = json!("ChangedOnNode"));
    cluster.agents = |_| Agent::RollsBack;
    for attempt in [2, 3] {
        cluster.set_attempt(attempt);
        cluster.converge();
        let assigned = format!("WindowsNodeConfig win-1: assign CONFIG (Drain), attempt {attempt}");
        assert_eq!(cluster.take_log(), ["Node win-1: cordon", &assigned, "Node win-1: uncordon"]);
    }
}

#[test]
fn a_pod_without_a_controller_is_not_evicted_and_the_drain_fails() {
    let mut cluster = Cluster::new(1, json!({"drain": "Always"}));
    cluster.model.put(POD, "bare", pod("win-1", &json!([])));
    cluster.converge();
    assert_eq!(cluster.take_log(), ["Node win-1: cordon"]);
    cluster.model.now += SignedDuration::from_mins(10);
    let (_, reason, message) = config_in_effect(&cluster.converge());
    assert_eq!(reason, "RolloutHalted");
    assert!(message.contains("win-1 (its pods could not be evicted in time)"), "{message}");
    assert_eq!(cluster.model.names(POD), ["bare"]);
    assert_eq!(cluster.take_log(), ["Node win-1: uncordon"]);
    assert!(cluster.model.get(NODE, "win-1").unwrap()["spec"].get("unschedulable").is_none());

    // The cordon of an administrator who looks into it stays, and the failure is remembered until the next attempt.
    cluster.model.edit(NODE, "win-1", |node| node["spec"]["unschedulable"] = json!(true));
    assert_eq!(config_in_effect(&cluster.converge()).1, "RolloutHalted");
    cluster.model.edit(NODE, "win-1", |node| node["spec"]["unschedulable"] = json!(false));
    cluster.set_attempt(2);
    cluster.converge();
    assert_eq!(cluster.take_log(), ["Node win-1: cordon"]);
}

#[test]
fn the_record_of_a_drain_is_removed_and_the_cordon_of_others_stays() {
    let mut cluster = Cluster::new(1, json!({"drain": "Always"}));
    cluster.model.put(POD, "bare", pod("win-1", &json!([])));
    cluster.converge();
    cluster.model.now += SignedDuration::from_mins(10);
    cluster.converge();
    cluster.model.edit(NODE, "win-1", |node| node["spec"]["unschedulable"] = json!(true));
    cluster.take_log();
    cluster.model.set_spec("web", "delivery", json!({"method": "None"}));
    cluster.converge();
    assert_eq!(cluster.take_log(), ["Node win-1: remove the record of a drain that took too long"]);
    let node = cluster.model.get(NODE, "win-1").unwrap();
    assert_eq!(node["spec"]["unschedulable"], true);
    assert!(node["metadata"]["annotations"].get("winpool.dev/cordoned").is_none());
}

#[test]
fn any_time_in_the_annotation_of_a_cordon_leaves_the_pool_reconciled() {
    for since in ["9999-12-30T22:00:00Z", "2100-01-01T00:00:00Z", "0001-01-01T00:00:00Z"] {
        let mut cluster = Cluster::new(2, json!({"drain": "Always"}));
        let config = cluster.model.clone().names(CONFIG).first().cloned().unwrap_or_default();
        cluster.model.edit(NODE, "win-1", |node| {
            let cordon = json!({"config": config, "attempt": 1, "since": since}).to_string();
            node["metadata"]["annotations"] = json!({"winpool.dev/cordoned": cordon});
            node["spec"]["unschedulable"] = json!(true);
        });
        let status = cluster.converge();
        assert_eq!(status.nodes.tainted, 2, "{since}");
        assert_eq!(config_in_effect(&status).1, "InEffect", "{since}");
    }
}

#[test]
fn the_cordon_of_others_is_kept() {
    let mut cluster = Cluster::new(2, json!({"drain": "Always"}));
    cluster.model.edit(NODE, "win-1", |node| node["spec"]["unschedulable"] = json!(true));
    let (_, reason, message) = config_in_effect(&cluster.converge());
    assert_eq!(reason, "RollingOut");
    let waits = "the rollout waits, because 1 node is not Ready, cordoned or under maintenance: win-1. Repair or delete it, or raise \
                 spec.delivery.rollout.maxUnavailable. 0 of 2 nodes run their configuration";
    assert!(message.starts_with(waits), "{message}");
    cluster.model.edit(POOL, "web", |pool| pool["spec"]["delivery"]["rollout"]["maxUnavailable"] = json!("100%"));
    cluster.converge();
    assert!(cluster.take_log().iter().all(|line| !line.contains("win-1")));
    assert_eq!(cluster.model.get(NODE, "win-1").unwrap()["spec"]["unschedulable"], true);
}

#[test]
fn a_record_of_a_removed_cordon_is_deleted() {
    let mut cluster = Cluster::converged(1, never_drain());
    let record = json!({"config": "web-1", "attempt": 1, "since": "2026-06-01T12:00:00Z"}).to_string();
    cluster.model.edit(NODE, "win-1", |node| node["metadata"]["annotations"]["winpool.dev/cordoned"] = json!(record));
    cluster.converge();
    assert_eq!(cluster.take_log(), ["Node win-1: uncordon"]);
}

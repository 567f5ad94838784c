//! The operator is killed at any point of a rollout.

use std::time::Duration;

use anyhow::bail;
use e2e::{
    cluster::{Cluster, SOON, create, edit},
    control_plane::User,
    permissions::unused,
    rollout::Step,
    wait::{eventually, until},
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use serde_json::json;
use winpool_api::NodeConfigPhase::{Applied, Applying, Verifying};

use super::{Fleet, POOL, is_assignment};

/// What is counted in the audit log.
#[derive(Clone, Copy, Debug)]
enum Point {
    Rendered,
    Evicted,
    Step(fn(&Step) -> bool),
}

/// The operator is killed when each of these was seen once more than when it was started.
const POINTS: [(&str, Point); 10] = [
    ("the ConfigMap is written", Point::Rendered),
    ("a node is cordoned", Point::Step(|step| *step == Step::Cordoned)),
    ("a pod is evicted", Point::Evicted),
    ("a configuration is assigned", Point::Step(is_assignment)),
    ("a configuration is confirmed", Point::Step(|step| *step == Step::Confirmed)),
    ("a node is uncordoned", Point::Step(|step| *step == Step::Uncordoned)),
    ("an agent applies the configuration", Point::Step(|step| *step == Step::Reported(Applying))),
    ("an agent waits for the confirmation", Point::Step(|step| *step == Step::Reported(Verifying))),
    ("an agent reports the confirmed configuration", Point::Step(|step| *step == Step::Reported(Applied))),
    ("the next node is cordoned", Point::Step(|step| *step == Step::Cordoned)),
];
const NODES: usize = 10;

impl Point {
    /// How often it was seen.
    fn count(self, fleet: &Fleet) -> usize {
        let written = |resource: &str, subresource: &str| {
            let writes = fleet.cluster.writes().unwrap().into_iter();
            let is_it = |write: &e2e::audit::Request| write.resource == resource && write.subresource == subresource;
            writes.filter(|write| write.code < 300 && is_it(write)).count()
        };
        match self {
            Self::Rendered => written("configmaps", ""),
            Self::Evicted => written("pods", "eviction"),
            Self::Step(wanted) => fleet.log().count(wanted),
        }
    }

    /// Waits until it was seen more often than before.
    async fn until_more_than(self, before: usize, what: &str, fleet: &Fleet) {
        let more = || async {
            // The operator goes on within milliseconds.
            for _ in 0..100 {
                if self.count(fleet) > before {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            bail!("seen {before} times")
        };
        eventually(what, SOON, more).await.unwrap();
    }
}

/// A pod of a ReplicaSet, which would be created elsewhere after its eviction.
async fn run_pod(cluster: &Cluster, node: &str) {
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "5e4f3c2a-0000-4000-8000-000000000001",
        "controller": true,
    });
    let pod = json!({
        "metadata": { "name": format!("web-{node}"), "ownerReferences": [owner] },
        "spec": {
            "nodeName": node,
            "containers": [{ "name": "web", "image": "registry.invalid/web:1" }],
            "terminationGracePeriodSeconds": 1,
        },
    });
    create(&cluster.namespaced::<Pod>("default"), pod).await.unwrap();
}

// The agents run in this process, and the audit log is read without a pause.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_rollout_survives_ten_kills_of_the_operator_at_ten_points() {
    let mut fleet = Fleet::start(NODES, &[]).await;
    for node in fleet.machines.keys() {
        run_pod(&fleet.cluster, node).await;
    }
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({ "maxUnavailable": 2, "drain": "Always" })).await;
    for (what, point) in POINTS {
        let before = point.count(&fleet);
        let operator = fleet.cluster.start_operator(&["--registry=off"], &[]).await.unwrap();
        point.until_more_than(before, what, &fleet).await;
        operator.kill().unwrap();
    }
    let log = fleet.log();
    let left = NODES - log.count(|step| *step == Step::Confirmed);
    assert!(left > 0, "the rollout goes on when the operator was killed for the last time");

    let operator = fleet.cluster.start_operator(&["--registry=off"], &[]).await.unwrap();
    fleet.until_complete().await;
    fleet.cluster.until_idle().await.unwrap();
    let most = fleet.check_budget(2);
    println!("killed at {} points, {left} nodes were left, at most {most} in progress at once", POINTS.len());
    for (name, machine) in &fleet.machines {
        assert_eq!(machine.kubelet_starts(), 1, "{name}");
        assert_eq!(fleet.log().of(name, is_assignment).count(), 1, "{name}");
    }
    let nodes = fleet.cluster.nodes().list(&ListParams::default()).await.unwrap();
    let cordoned =
        nodes.items.iter().filter(|node| node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)));
    assert_eq!(cordoned.count(), 0);

    edit(&fleet.cluster.pools(), POOL, json!({ "spec": { "delivery": { "method": "None" } } })).await.unwrap();
    let assigned = async || Ok(fleet.phases().await.len());
    until("nothing is assigned", SOON, assigned, |count| *count == 0).await.unwrap();
    // The audit log gets a request after its answer.
    let of_operator = async || unused(&["config/agent/operator_role.yaml"], &fleet.cluster.requests()?);
    until("a rollout needs each permission of the operator", SOON, of_operator, Vec::is_empty).await.unwrap();
    fleet.stop_agents().await;
    // The audit log gets a watch at the latest when it ends. A simulated node has no kubelet that shows its configuration.
    let of_agents = async || {
        let requests = fleet.cluster.control_plane.requests_of(User::Agent)?;
        let unused = unused(&["config/agent/agent_role.yaml"], &requests)?;
        Ok(unused.into_iter().map(|unused| (unused.resource, unused.verb)).collect::<Vec<_>>())
    };
    let configz = [("nodes/configz".to_owned(), "get".to_owned())];
    until("the agents need each permission", SOON, of_agents, |unused| *unused == configz).await.unwrap();
    fleet.cluster.nothing_was_forbidden().unwrap();
    operator.stop().await.unwrap();
}

//! What the largest objects cost that a server takes: the policies look at sizes before they look at items.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{KUBELET, NODES, PODS, Request, Server, TENANT, node, pods};

/// How many times as much a request may cost under a policy. A policy that iterates over such tolerations costs ten times as much, and
/// over such labels fifty times.
const RATIO: u32 = 6;

/// The least time of the processor that the servers need for a request, and its outcome: they do other work meanwhile.
async fn cost(server: &Server, request: &Request) -> (Duration, String) {
    let (mut least, mut outcome) = (Duration::MAX, String::new());
    for _ in 0..3 {
        let before = server.shared.control_plane.cpu_time().await.unwrap();
        outcome = server.send(request).await.outcome;
        least = least.min(server.shared.control_plane.cpu_time().await.unwrap() - before);
    }
    (least, outcome)
}

#[tokio::test]
async fn the_largest_nodes_and_pods_cost_a_policy_next_to_nothing() {
    let server = Server::own().await;
    let labels: Map<String, Value> = (0..40_000).map(|index| (format!("l{index}"), json!("x"))).collect();
    let labels = json!({"metadata": {"labels": labels}});
    let (member, other) = (node(), json!({"metadata": {"labels": {"kubernetes.io/os": "windows"}}}));
    let mut patches = Vec::new();
    for node in [&other, &member] {
        let stored = server.store(NODES, node).await;
        let patch = Request::patch(KUBELET, NODES, &stored, "application/merge-patch+json", labels.clone());
        patches.push(Request { path: format!("{}/status", patch.path), ..patch });
    }
    let tolerations: Vec<Value> =
        (0..30_000).map(|index| json!({"key": format!("t{index}"), "operator": "Exists"})).collect();
    let pod = |more: Value| {
        let mut spec = json!({"tolerations": tolerations});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        pods::create(TENANT, PODS, &spec)
    };
    let rows = [
        ("winpool-nodes", &patches[0], &patches[1]),
        ("winpool-pods", &pod(json!({"nodeName": "win-1"})), &pod(json!({}))),
    ];
    for (policy, unguarded, guarded) in rows {
        let (base, outcome) = cost(&server, unguarded).await;
        assert_eq!(outcome, "", "{policy}");
        let (cost, outcome) = cost(&server, guarded).await;
        assert_eq!(outcome, policy);
        assert!(cost < base * RATIO, "{policy}: {cost:?}, and {base:?} without it");
    }
}

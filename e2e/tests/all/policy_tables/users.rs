//! What everybody does whose requests make nodes join and report, and a request for each policy.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use winpool::admission_policies::VALIDATING;

use super::{
    ADMIN, AGENT, ALLOWED, Answer, CLASSES, CLOUD_CONTROLLER, CONFIGS, KUBELET, MAPS, NODE_CONTROLLER, NODES, OPERATOR,
    PODS, POOLS, ROUTE_CONTROLLER, Request, SHOP, Server, agents, created, labels_of_others, node, node_of, objects,
    os, pods, web, with,
};

/// The node of a pool, with this value of the labels that kubelets and cloud controllers write.
fn labelled(pool: &str, value: &str) -> Value {
    labels_of_others().fold(node_of(pool), |node, key| with(node, &["metadata", "labels", key], json!(value)))
}

fn tainted(node: Value, more: &[Value]) -> Value {
    with(node, &["spec", "taints"], [&[os()], more].concat().into())
}

/// Requests with which nodes of a pool join the cluster and report: no policy may reject one of them.
async fn joining_and_reporting(server: &Server, pool: &str) -> Vec<(&'static str, Request)> {
    let uninitialized =
        json!({"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"});
    let unreachable = json!({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"});
    let node = || node_of(pool);
    let stored = server.store(NODES, &node()).await;
    let of_pool = server.store(NODES, &labelled(pool, "of-pool")).await;
    let new = server.store(NODES, &tainted(labelled(pool, "of-pool"), &[uninitialized])).await;
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let routed = json!({"conditions": [{"type": "NetworkUnavailable", "status": "False"}]});
    let selected = json!({"agentpool": pool});
    let initialized = with(tainted(labelled(pool, "of-cloud"), &[]), &["spec", "providerID"], json!("azure:///1"));
    let update = |user, changed: Value| Request::replace(user, NODES, &stored, &changed);
    let status = |user, changed: Value| Request::replace_status(user, NODES, &stored, &changed);
    let again = Request::replace_status(KUBELET, NODES, &of_pool, &labelled(pool, "of-kubelet"));
    vec![
        ("kubelet: registers", created::register(&selected, &json!([]))),
        ("kubelet: registers with the taint", created::register(&selected, &json!([os()]))),
        ("kubelet: registers a node of no pool", created::register(&json!({}), &json!([]))),
        ("kubelet: reports", status(KUBELET, with(node(), &["status"], ready))),
        ("kubelet: registers again with its labels", again),
        ("cloud controller: initializes", Request::replace(CLOUD_CONTROLLER, NODES, &new, &initialized)),
        (
            "cloud controller: corrects labels",
            Request::replace(CLOUD_CONTROLLER, NODES, &of_pool, &labelled(pool, "of-cloud")),
        ),
        ("route controller: reports routes", status(ROUTE_CONTROLLER, with(node(), &["status"], routed))),
        ("node controller: node is unreachable", update(NODE_CONTROLLER, tainted(node(), &[unreachable]))),
        ("node controller: node is ready", update(NODE_CONTROLLER, tainted(node(), &[]))),
        (
            "node controller: assigns addresses",
            update(NODE_CONTROLLER, with(node(), &["spec", "podCIDR"], json!("10.1.0.0/24"))),
        ),
    ]
}

/// A request for each policy, which rejects or changes it.
pub async fn of_each_policy(server: &Server) -> Vec<(&'static str, Request)> {
    let untainted = with(node(), &["spec", "taints"], Value::Null);
    let linux = with(node(), &["metadata", "labels", "kubernetes.io/os"], json!("linux"));
    let gpu = json!({"key": "gpu", "effect": "NoExecute"});
    let tolerations = json!([os()]);
    let windows_pod = json!({"os": {"name": "windows"}, "tolerations": tolerations});
    let (stored, stored_linux) = (server.store(NODES, &node()).await, server.store(NODES, &linux).await);
    let class = server.requests.get(&format!("{}/windows-ltsc2022", CLASSES.0)).await.unwrap().1;
    let pool = server.store(POOLS, &web()).await;
    let config = server.store(CONFIGS, &agents::config("a")).await;
    let map = server.store(MAPS, &agents::map(true, "a")).await;
    let of_another_node = Request {
        token_of: Some(("win-2", Some("uid-1"))),
        ..Request::replace_status(AGENT, CONFIGS, &config, &agents::config("a"))
    };
    let mut requests = vec![
        ("winpool-nodes", Request::replace(ADMIN, NODES, &stored, &untainted)),
        ("winpool-operator", Request::replace(OPERATOR, NODES, &stored_linux, &tainted(linux, &[gpu]))),
        ("winpool-pods", pods::create(ADMIN, PODS, &json!({"tolerations": tolerations}))),
        ("winpool-runtime-classes", Request::delete(ADMIN, CLASSES, &class)),
        ("winpool-pool-deletion", Request::delete(ADMIN, POOLS, &pool)),
        ("winpool-node-configs", Request::replace(ADMIN, CONFIGS, &config, &agents::config("b"))),
        ("winpool-configurations", Request::replace(ADMIN, MAPS, &map, &agents::map(true, "b"))),
        ("winpool-agent-status", of_another_node),
    ];
    if server.mutates() {
        requests.extend([
            ("winpool-node-registration", created::register(&json!({"agentpool": "web"}), &json!([]))),
            ("winpool-default-runtime-class", pods::create(ADMIN, SHOP, &windows_pod)),
        ]);
    }
    requests
}

/// The policy that rejects or changes the request of an answer.
pub fn effect(answer: &Answer) -> &str {
    let has = |path: &str| answer.object.pointer(path).is_some_and(Value::is_string);
    match answer.outcome.as_str() {
        ALLOWED if has("/metadata/annotations/winpool.dev~1registered-with") => "winpool-node-registration",
        ALLOWED if has("/spec/runtimeClassName") => "winpool-default-runtime-class",
        outcome => outcome,
    }
}

/// That each has its effect is checked before the first test.
#[tokio::test]
async fn every_policy_rejects_or_changes_a_request() {
    let server = Server::get().await;
    let policies = [objects(VALIDATING), objects(server.mutating()), agents::policies()].concat();
    let named = policies.iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned());
    let requests = of_each_policy(&server).await;
    let tested = requests.into_iter().map(|(policy, _)| policy.to_owned());
    assert_eq!(named.collect::<BTreeSet<_>>(), tested.collect());
}

#[tokio::test]
async fn no_policy_stops_a_node_from_joining_or_reporting() {
    let server = Server::get().await;
    for pool in ["web", "observed", "paused", "bare", "absent"] {
        let requests = joining_and_reporting(&server, pool).await.into_iter();
        server.outcomes(requests.map(|(what, request)| (format!("{pool}: {what}"), request, ALLOWED))).await;
    }
}

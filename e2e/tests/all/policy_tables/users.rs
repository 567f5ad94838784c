//! What everybody who writes nodes, classes, pods and configurations does, and which policy does what about it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use winpool::admission_policies::{MUTATING, VALIDATING};

use super::{
    ADMIN, AGENT, ALLOWED, AUTOSCALER, Answer, CLASSES, CLOUD_CONTROLLER, CONFIGS, KUBELET, MAPS, NODE_CONTROLLER,
    NODES, OF_OTHERS, OPERATOR, PODS, POOLS, ROUTE_CONTROLLER, Request, SHOP, Server, agents, created, node, node_of,
    objects, os, pods, web, with,
};

/// The node of a pool with these labels in addition.
fn labelled(pool: &str, value: &str) -> Value {
    OF_OTHERS.iter().fold(node_of(pool), |node, key| with(node, &["metadata", "labels", key], json!(value)))
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

/// Other requests of the same users, of agents, administrators and the operator.
async fn others(server: &Server) -> Vec<(&'static str, Request)> {
    let draining = json!({"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"});
    let untainted = with(node(), &["spec", "taints"], Value::Null);
    let linux = with(node(), &["metadata", "labels", "kubernetes.io/os"], json!("linux"));
    let tolerations = json!([{"key": "os", "operator": "Exists"}]);
    let windows_pod = json!({"os": {"name": "windows"}, "tolerations": tolerations});
    let (stored, stored_linux) = (server.store(NODES, &node()).await, server.store(NODES, &linux).await);
    let class = server.requests.get(&format!("{}/windows-ltsc2022", CLASSES.0)).await.unwrap().1;
    let pool = server.store(POOLS, &web()).await;
    let config = server.store(CONFIGS, &agents::config("a")).await;
    let map = server.store(MAPS, &agents::map(true, "a")).await;
    let update = |user, changed: Value| Request::replace(user, NODES, &stored, &changed);
    let without = |path: &[&str]| with(node(), path, Value::Null);
    let spec = |user, digit| Request::replace(user, CONFIGS, &config, &agents::config(digit));
    let report = |node| Request {
        token_of: Some((node, Some("uid-1"))),
        ..Request::replace_status(AGENT, CONFIGS, &config, &agents::config("a"))
    };
    let changed_map = |user| Request::replace(user, MAPS, &map, &agents::map(true, "b"));
    let unmarked = json!({"metadata": {}, "data": agents::map(true, "a")["data"]});
    vec![
        ("kubelet: leaves its pool", update(KUBELET, without(&["metadata", "labels", "winpool.dev/pool"]))),
        ("kubelet: removes its record", update(KUBELET, without(&["metadata", "annotations", "winpool.dev/owned"]))),
        (
            "kubelet: creates a mirror pod",
            pods::create(KUBELET, PODS, &json!({"nodeName": "win-1", "tolerations": tolerations})),
        ),
        ("cloud controller: replaces all taints", update(CLOUD_CONTROLLER, untainted.clone())),
        (
            "autoscaler: drains",
            update(AUTOSCALER, with(tainted(node(), &[draining]), &["spec", "unschedulable"], json!(true))),
        ),
        ("node controller: deletes", Request::delete(NODE_CONTROLLER, NODES, &stored)),
        ("administrator: removes the taint", update(ADMIN, untainted.clone())),
        ("administrator: cordons", update(ADMIN, with(node(), &["spec", "unschedulable"], json!(true)))),
        ("administrator: deletes the class", Request::delete(ADMIN, CLASSES, &class)),
        ("administrator: deletes the pool", Request::delete(ADMIN, POOLS, &pool)),
        ("administrator: creates a pod of no system", pods::create(ADMIN, PODS, &json!({"tolerations": tolerations}))),
        ("administrator: creates a Windows pod", pods::create(ADMIN, SHOP, &windows_pod)),
        ("administrator: changes a WindowsNodeConfig", spec(ADMIN, "b")),
        ("administrator: changes a configuration", changed_map(ADMIN)),
        ("administrator: removes all labels of a configuration", Request::replace(ADMIN, MAPS, &map, &unmarked)),
        ("operator: removes the taint", update(OPERATOR, untainted.clone())),
        (
            "operator: changes a Linux node",
            Request::replace(
                OPERATOR,
                NODES,
                &stored_linux,
                &tainted(linux.clone(), &[json!({"key": "a", "effect": "NoExecute"})]),
            ),
        ),
        (
            "operator: changes the class",
            Request::replace(OPERATOR, CLASSES, &class, &with(class.clone(), &["scheduling"], Value::Null)),
        ),
        ("operator: deletes the pool", Request::delete(OPERATOR, POOLS, &pool)),
        ("operator: changes a WindowsNodeConfig", spec(OPERATOR, "b")),
        ("operator: changes a configuration", changed_map(OPERATOR)),
        ("agent: reports", report("win-1")),
        ("agent: reports for another node", report("win-2")),
        ("agent: changes its WindowsNodeConfig", spec(AGENT, "b")),
        ("agent: changes a configuration", changed_map(AGENT)),
        ("agent: removes the taint of its node", update(AGENT, untainted)),
    ]
}

/// The requests that a policy rejects, with its name, or changes. All others pass as they are.
const EFFECTS: [(&str, &str); 19] = [
    ("kubelet: registers", "winpool-node-registration: taints os; registered-with web os:NoSchedule"),
    ("kubelet: registers with the taint", "winpool-node-registration: taints os; registered-with web"),
    ("kubelet: leaves its pool", "winpool-nodes"),
    ("kubelet: removes its record", "winpool-nodes"),
    ("cloud controller: replaces all taints", "winpool-nodes"),
    ("administrator: removes the taint", "winpool-nodes"),
    ("administrator: deletes the class", "winpool-runtime-classes"),
    ("administrator: deletes the pool", "winpool-pool-deletion"),
    ("administrator: creates a pod of no system", "winpool-pods"),
    ("administrator: creates a Windows pod", "winpool-default-runtime-class: windows-ltsc2022"),
    ("administrator: changes a WindowsNodeConfig", "winpool-node-configs"),
    ("administrator: changes a configuration", "winpool-configurations"),
    ("administrator: removes all labels of a configuration", "winpool-configurations"),
    ("operator: changes a Linux node", "winpool-operator"),
    ("operator: deletes the pool", "winpool-pool-deletion"),
    ("agent: reports for another node", "winpool-agent-status"),
    ("agent: changes its WindowsNodeConfig", "winpool-node-configs"),
    ("agent: changes a configuration", "winpool-configurations"),
    ("agent: removes the taint of its node", "winpool-nodes"),
];

/// All requests of the tables, each with the effect that it has on this server.
pub async fn requests(server: &Server) -> Vec<(&'static str, Request, Option<&'static str>)> {
    let all = [joining_and_reporting(server, "web").await, others(server).await].concat();
    let effect = |what: &str| EFFECTS.iter().find(|(request, _)| *request == what).map(|(_, effect)| *effect);
    let has = |effect: &&str| server.mutates() || !effect.contains(": ");
    all.into_iter().map(|(what, request)| (what, request, effect(what).filter(has))).collect()
}

/// What the policies do about a request; `None` if it passes as it is.
pub fn effect(request: &Request, answer: &Answer) -> Option<String> {
    if answer.outcome != ALLOWED {
        return Some(answer.outcome.clone());
    }
    let mark = |object: &Value| object.pointer("/metadata/annotations/winpool.dev~1registered-with").cloned();
    let class = |object: &Value| object.pointer("/spec/runtimeClassName").cloned();
    if let Some(mark) = mark(&answer.object).filter(|set| mark(&request.body).as_ref() != Some(set)) {
        let taints =
            answer.object["spec"]["taints"].as_array().unwrap().iter().map(|taint| taint["key"].as_str().unwrap());
        let taints: Vec<_> = taints.filter(|key| *key != "node.kubernetes.io/not-ready").collect();
        let (taints, mark) = (taints.join(","), mark.as_str().unwrap());
        return Some(format!("winpool-node-registration: taints {taints}; registered-with {mark}"));
    }
    let set = class(&answer.object).filter(|set| class(&request.body).as_ref() != Some(set))?;
    Some(format!("winpool-default-runtime-class: {}", set.as_str().unwrap()))
}

#[tokio::test]
async fn each_policy_rejects_or_changes_only_what_its_table_has() {
    let server = Server::get().await;
    for (what, request, expected) in requests(&server).await {
        assert_eq!(effect(&request, &server.send(&request).await).as_deref(), expected, "{what}");
    }
    let policies = [objects(VALIDATING), objects(MUTATING), agents::policies()].concat();
    let named = policies.iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned());
    let tables = EFFECTS.iter().map(|(_, effect)| effect.split(':').next().unwrap().to_owned());
    assert_eq!(named.collect::<BTreeSet<_>>(), tables.collect::<BTreeSet<_>>(), "every policy has a row");
}

#[tokio::test]
async fn no_policy_stops_a_node_from_joining_or_reporting() {
    let server = Server::get().await;
    for pool in ["web", "observed", "paused", "bare", "absent"] {
        let requests = joining_and_reporting(&server, pool).await;
        let rows = requests.into_iter().map(|(what, request)| (format!("{pool}: {what}"), request, ALLOWED));
        server.outcomes(rows.collect()).await;
    }
}

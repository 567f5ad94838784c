//! What everybody who writes nodes, classes, pods and configurations does, and what each policy does about it.

use serde_json::{Value, json};
use winpool::policies::{MUTATING, VALIDATING};

use super::{
    ADMIN, AGENT, KUBELET, OPERATOR, documents,
    evaluator::{Outcome, Request, evaluate},
    guard_rails::{
        AUTOSCALER, CLOUD_CONTROLLER, NODE_CONTROLLER, OF_CLOUD, class, create_node, create_pod, created_node, node,
        objects, pool, request, update_of_node, with, write_of_class,
    },
};

const ROUTE_CONTROLLER: &str = "system:serviceaccount:kube-system:route-controller";

/// Pool web, whose labels are also those that kubelets and cloud controllers write.
fn web() -> Value {
    let mut labels = json!({"team": "web", "kubernetes.io/hostname": "wrong"});
    OF_CLOUD.iter().for_each(|key| labels[*key] = json!("of-pool"));
    pool(&json!({"labels": labels}))
}

/// The node with these labels in addition.
fn labelled(value: &str) -> Value {
    let keys = OF_CLOUD.iter().chain(&["kubernetes.io/hostname"]);
    keys.fold(node(), |node, key| with(node, &["metadata", "labels", key], json!(value)))
}

fn tainted(more: &[Value]) -> Value {
    let os = json!({"key": "os", "value": "windows", "effect": "NoSchedule"});
    with(node(), &["spec", "taints"], [&[os], more].concat().into())
}

/// Requests with which nodes join the cluster and report: no policy may reject one of them.
fn joining_and_reporting() -> Vec<(&'static str, Request)> {
    let uninitialized =
        json!({"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"});
    let unreachable = json!({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"});
    let status =
        |user: &str, old: Value, new: Value| Request { resource: "nodes/status", ..update_of_node(user, &old, &new) };
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let routed = json!({"conditions": [{"type": "NetworkUnavailable", "status": "False"}]});
    let taints = json!({"taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}]});
    let web = || json!({"agentpool": "web"});
    vec![
        ("kubelet: registers", create_node(created_node(web(), json!({})))),
        ("kubelet: registers with the taint", create_node(created_node(web(), taints))),
        ("kubelet: registers a node of no pool", create_node(created_node(json!({}), json!({})))),
        ("kubelet: reports", status(KUBELET, node(), with(node(), &["status"], ready))),
        ("kubelet: registers again with its labels", status(KUBELET, labelled("of-pool"), labelled("of-kubelet"))),
        (
            "cloud controller: initializes",
            update_of_node(
                CLOUD_CONTROLLER,
                &with(labelled("of-pool"), &["spec"], tainted(&[uninitialized])["spec"].clone()),
                &{
                    let new = with(labelled("of-cloud"), &["spec"], tainted(&[])["spec"].clone());
                    with(new, &["spec", "providerID"], json!("azure:///1"))
                },
            ),
        ),
        (
            "cloud controller: corrects labels",
            update_of_node(CLOUD_CONTROLLER, &labelled("of-pool"), &labelled("of-cloud")),
        ),
        ("route controller: reports routes", status(ROUTE_CONTROLLER, node(), with(node(), &["status"], routed))),
        ("node controller: node is unreachable", update_of_node(NODE_CONTROLLER, &node(), &tainted(&[unreachable]))),
        ("node controller: node is ready", update_of_node(NODE_CONTROLLER, &node(), &tainted(&[]))),
        (
            "node controller: assigns addresses",
            update_of_node(NODE_CONTROLLER, &node(), &with(node(), &["spec", "podCIDR"], json!("10.1.0.0/24"))),
        ),
    ]
}

fn config_request(user: &str, resource: &'static str, token_of: &str, new: Value) -> Request {
    let extra = json!({
        "authentication.kubernetes.io/node-name": [token_of], "authentication.kubernetes.io/node-uid": ["uid-1"],
    });
    let old = super::config("a");
    Request { extra, name: "win-1".to_owned(), old, new, ..request(user, "UPDATE", ("winpool.dev", resource)) }
}

fn map_request(user: &str, new: Value) -> Request {
    let namespace = Some(json!({"kubernetes.io/metadata.name": "winpool-system"}));
    Request { old: super::map(true, "a"), new, namespace, ..request(user, "UPDATE", ("", "configmaps")) }
}

/// Other requests of the same users, of agents, administrators and the operator.
fn others() -> Vec<(&'static str, Request)> {
    let unlabelled = with(node(), &["metadata", "labels", "winpool.dev/pool"], Value::Null);
    let unrecorded = with(node(), &["metadata", "annotations", "winpool.dev/owned"], Value::Null);
    let untainted = with(node(), &["spec", "taints"], Value::Null);
    let draining = json!({"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"});
    let cordoned = with(tainted(&[draining]), &["spec", "unschedulable"], json!(true));
    let linux = with(node(), &["metadata", "labels", "kubernetes.io/os"], json!("linux"));
    let os = json!([{"key": "os", "operator": "Exists"}]);
    let windows_pod = json!({"os": {"name": "windows"}, "tolerations": os, "containers": [{"name": "app"}]});
    let default_class = json!({
        "kubernetes.io/metadata.name": "shop", "winpool.dev/default-runtime-class": "windows-ltsc2022",
    });
    let ours = || class("windows-ltsc2022");
    let deletion = |user: &str| Request { old: web(), ..request(user, "DELETE", ("winpool.dev", "windowsnodepools")) };
    let unmarked = json!({"metadata": {"name": "web-1"}, "data": super::map(true, "a")["data"]});
    let (specs, statuses) = ("windowsnodeconfigs", "windowsnodeconfigs/status");
    vec![
        ("kubelet: leaves its pool", update_of_node(KUBELET, &node(), &unlabelled)),
        ("kubelet: removes its record", update_of_node(KUBELET, &node(), &unrecorded)),
        ("kubelet: creates a mirror pod", create_pod(KUBELET, json!({"nodeName": "win-1", "tolerations": os}))),
        ("cloud controller: replaces all taints", update_of_node(CLOUD_CONTROLLER, &node(), &untainted)),
        ("autoscaler: drains", update_of_node(AUTOSCALER, &node(), &cordoned)),
        ("node controller: deletes", Request { old: node(), ..request(NODE_CONTROLLER, "DELETE", ("", "nodes")) }),
        ("administrator: removes the taint", update_of_node(ADMIN, &node(), &untainted)),
        (
            "administrator: cordons",
            update_of_node(ADMIN, &node(), &with(node(), &["spec", "unschedulable"], json!(true))),
        ),
        ("administrator: deletes the class", write_of_class(ADMIN, &ours(), &Value::Null)),
        ("administrator: deletes the pool", deletion(ADMIN)),
        ("administrator: creates a pod of no system", create_pod(ADMIN, json!({"tolerations": os}))),
        (
            "administrator: creates a Windows pod",
            Request { namespace: Some(default_class), ..create_pod(ADMIN, windows_pod) },
        ),
        ("administrator: changes a WindowsNodeConfig", config_request(ADMIN, specs, "", super::config("b"))),
        ("administrator: changes a configuration", map_request(ADMIN, super::map(true, "b"))),
        ("administrator: removes all labels of a configuration", map_request(ADMIN, unmarked)),
        ("operator: removes the taint", update_of_node(OPERATOR, &node(), &untainted)),
        (
            "operator: changes a Linux node",
            update_of_node(OPERATOR, &linux, &with(linux.clone(), &["spec"], json!({}))),
        ),
        ("operator: changes the class", write_of_class(OPERATOR, &ours(), &with(ours(), &["scheduling"], Value::Null))),
        ("operator: deletes the pool", deletion(OPERATOR)),
        ("operator: changes a WindowsNodeConfig", config_request(OPERATOR, specs, "", super::config("b"))),
        ("operator: changes a configuration", map_request(OPERATOR, super::map(true, "b"))),
        ("agent: reports", config_request(AGENT, statuses, "win-1", super::config("a"))),
        ("agent: reports for another node", config_request(AGENT, statuses, "win-2", super::config("a"))),
        ("agent: changes its WindowsNodeConfig", config_request(AGENT, specs, "win-1", super::config("b"))),
        ("agent: changes a configuration", map_request(AGENT, super::map(true, "b"))),
        ("agent: removes the taint of its node", update_of_node(AGENT, &node(), &untainted)),
    ]
}

/// The requests that each policy rejects or changes. It lets all others pass as they are.
const EFFECTS: [(&str, &[(&str, &str)]); 10] = [
    (
        "winpool-nodes",
        &[
            ("kubelet: leaves its pool", "rejected"),
            ("kubelet: removes its record", "rejected"),
            ("cloud controller: replaces all taints", "rejected"),
            ("administrator: removes the taint", "rejected"),
            ("agent: removes the taint of its node", "rejected"),
        ],
    ),
    ("winpool-operator", &[("operator: changes a Linux node", "rejected")]),
    ("winpool-runtime-classes", &[("administrator: deletes the class", "rejected")]),
    (
        "winpool-pool-deletion",
        &[("administrator: deletes the pool", "rejected"), ("operator: deletes the pool", "rejected")],
    ),
    ("winpool-pods", &[("administrator: creates a pod of no system", "rejected")]),
    (
        "winpool-node-registration",
        &[
            ("kubelet: registers", "taints os; registered-with web os:NoSchedule"),
            ("kubelet: registers with the taint", "taints os; registered-with web"),
        ],
    ),
    ("winpool-default-runtime-class", &[("administrator: creates a Windows pod", "runtimeClassName windows-ltsc2022")]),
    ("winpool-agent-status", &[("agent: reports for another node", "rejected")]),
    (
        "winpool-node-configs",
        &[
            ("administrator: changes a WindowsNodeConfig", "rejected"),
            ("agent: changes its WindowsNodeConfig", "rejected"),
        ],
    ),
    (
        "winpool-configurations",
        &[
            ("administrator: changes a configuration", "rejected"),
            ("administrator: removes all labels of a configuration", "rejected"),
            ("agent: changes a configuration", "rejected"),
        ],
    ),
];

/// All policies with their bindings.
fn all() -> Vec<Value> {
    [objects(VALIDATING), objects(MUTATING), documents("agent/admission_policy.yaml")].concat()
}

/// The policy of this name and its binding.
fn policy(name: &str) -> Vec<Value> {
    all().into_iter().filter(|object| object["metadata"]["name"] == name).collect()
}

/// What a policy does; `None` if the request passes as it is.
fn effect(request: &Request, outcome: &Outcome) -> Option<String> {
    if !outcome.rejections.is_empty() {
        return Some("rejected".to_owned());
    }
    let mark = |object: &Value| object.pointer("/metadata/annotations/winpool.dev~1registered-with").cloned();
    let class = |object: &Value| object.pointer("/spec/runtimeClassName").cloned();
    if let Some(mark) = mark(&outcome.object).filter(|set| mark(&request.new).as_ref() != Some(set)) {
        let taints = outcome.object["spec"]["taints"].as_array().unwrap().iter();
        let keys: Vec<&str> = taints.map(|taint| taint["key"].as_str().unwrap()).collect();
        return Some(format!("taints {}; registered-with {}", keys.join(","), mark.as_str().unwrap()));
    }
    let set = class(&outcome.object).filter(|set| class(&request.new).as_ref() != Some(set))?;
    Some(format!("runtimeClassName {}", set.as_str().unwrap()))
}

#[test]
fn each_policy_rejects_or_changes_only_what_its_table_has() {
    let requests: Vec<_> = joining_and_reporting().into_iter().chain(others()).collect();
    for (name, table) in EFFECTS {
        let objects = policy(name);
        assert_eq!(objects.len(), 2, "{name} and its binding");
        let effects = requests.iter().filter_map(|(what, request)| {
            let outcome = evaluate(&objects, &[web()], request);
            assert!(outcome.errors.is_empty(), "{name}: {what}: {:?}", outcome.errors);
            Some((*what, effect(request, &outcome)?))
        });
        let expected = table.iter().map(|(what, effect)| (*what, (*effect).to_owned()));
        assert_eq!(effects.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{name}");
    }
    let named = all().into_iter().filter(|object| !object["kind"].as_str().unwrap().ends_with("Binding"));
    let mut named: Vec<_> = named.map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    named.sort();
    let mut tables: Vec<_> = EFFECTS.iter().map(|(name, _)| (*name).to_owned()).collect();
    tables.sort();
    assert_eq!(named, tables, "every policy has a table");
}

#[test]
fn no_policy_stops_a_node_from_joining_or_reporting() {
    for pools in
        [vec![], vec![web()], vec![pool(&json!({"mode": "Observe"}))], vec![web(), pool(&json!({"fallback": true}))]]
    {
        for (what, request) in joining_and_reporting() {
            let outcome = evaluate(&all(), &pools, &request);
            assert!(outcome.rejections.is_empty() && outcome.errors.is_empty(), "{what}: {outcome:?}");
        }
    }
}

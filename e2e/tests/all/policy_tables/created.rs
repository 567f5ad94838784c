//! The policies that change objects at their creation: winpool-node-registration and winpool-default-runtime-class.

use serde_json::{Value, json};
use winpool_api::LabelSelector;

use super::{
    DAEMON_SETS, NODES, PODS, REPLICA_SETS, Request, SHOP, Server, os,
    pods::{self, affinity, one_node, term},
    pool, with,
};

/// The label by which the pools of this table select their nodes.
const GROUP: &str = "group";
/// The taint that the API server itself adds to every new node.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// The pools of the tables, each with its own group of nodes.
pub fn pools() -> Vec<Value> {
    let taint = |key: &str, effect: &str| json!({"key": key, "value": "windows", "effect": effect});
    let again = json!({"key": "again", "effect": "NoExecute"});
    let grouped = |name: &str, group: &str, spec: Value| {
        pool(name, &with(spec, &["nodeSelector"], json!({"matchLabels": {GROUP: group}})))
    };
    let mut pools = vec![
        grouped("born", "born", json!({"taints": [taint("born", "NoSchedule")]})),
        grouped("born-twice", "born-twice", json!({"taints": [taint("born", "NoSchedule"), again]})),
        grouped("born-observed", "observed", json!({"taints": [taint("x", "NoSchedule")], "mode": "Observe"})),
        grouped("born-paused", "paused", json!({"taints": [taint("x", "NoSchedule")], "paused": true})),
        grouped("born-bare", "bare", json!({"taints": []})),
        grouped("born-one", "contested", json!({"taints": [taint("one", "NoSchedule")]})),
        grouped("born-other", "contested", json!({"taints": [taint("other", "NoSchedule")]})),
    ];
    pools.extend(selectors().iter().enumerate().map(|(index, (labels, expressions))| {
        let mut labels = labels.clone();
        labels[GROUP] = json!(format!("selected-{index}"));
        let selector = json!({"matchLabels": labels, "matchExpressions": expressions});
        let spec = json!({"taints": [taint("selected", "NoSchedule")], "nodeSelector": selector});
        pool(&format!("selected-{index}"), &spec)
    }));
    pools
}

/// Labels and expressions of selectors: each operator alone, with each other, and with a label.
fn selectors() -> Vec<(Value, Vec<Value>)> {
    let expression = |operator: &str, key: &str| match operator {
        "In" | "NotIn" => json!({"key": key, "operator": operator, "values": ["web", "other"]}),
        _ => json!({"key": key, "operator": operator}),
    };
    let selectors = ["In", "NotIn", "Exists", "DoesNotExist"].map(|operator| {
        let on = |key| expression(operator, key);
        [
            (json!({}), vec![on("kind")]),
            (json!({}), vec![on("absent")]),
            (json!({"kind": "web"}), vec![on("kind")]),
            (json!({}), vec![on("kind"), expression("NotIn", "zone")]),
        ]
    });
    selectors.concat()
}

/// The registration of a Windows node with more labels.
pub fn register(labels: &Value, taints: &Value) -> Request {
    let mut node = json!({"metadata": {"name": "new", "labels": {"kubernetes.io/os": "windows"}}, "spec": {}});
    labels.as_object().unwrap().iter().for_each(|(key, value)| node["metadata"]["labels"][key] = value.clone());
    Request::create("system:node:new", NODES, &with(node, &["spec", "taints"], taints.clone()))
}

/// The taints of a created node, without the one of the API server, and the mark of the policy.
fn born(object: &Value) -> (Vec<String>, Option<&str>) {
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    let taints = object["spec"]["taints"].as_array().into_iter().flatten().filter(|taint| taint["key"] != NOT_READY);
    let taints = taints.map(|taint| ["key", "value", "effect"].map(|field| text(&taint[field])).join(" "));
    (taints.collect(), object["metadata"]["annotations"]["winpool.dev/registered-with"].as_str())
}

#[tokio::test]
async fn a_node_that_a_pool_selects_is_created_with_the_taints_of_the_pool_and_keeps_its_own() {
    const BORN: &str = "born windows NoSchedule";
    const AGAIN: &str = "again  NoExecute";
    const OWN: &str = "own  NoSchedule";
    const BOTH_ADDED: &str = "born-twice born:NoSchedule again:NoExecute";
    const ONE_ADDED: &str = "born-twice again:NoExecute";
    let server = Server::get().await;
    let in_group = |group: &str| json!({GROUP: group});
    let taint = |value: &str| json!({"key": "born", "value": value, "effect": "NoSchedule"});
    let own = json!({"key": "own", "effect": "NoSchedule"});
    let fillers: Vec<Value> =
        (0..1001).map(|index| json!({"key": format!("filler-{index}"), "effect": "NoSchedule"})).collect();
    let table = [
        ("no taint", in_group("born"), json!([]), vec![BORN], Some("born born:NoSchedule")),
        ("a taint of its own", in_group("born"), json!([own]), vec![OWN, BORN], Some("born born:NoSchedule")),
        ("the taint", in_group("born"), json!([taint("windows")]), vec![BORN], Some("born")),
        ("two taints", in_group("born-twice"), json!([]), vec![BORN, AGAIN], Some(BOTH_ADDED)),
        ("one of two", in_group("born-twice"), json!([taint("windows")]), vec![BORN, AGAIN], Some(ONE_ADDED)),
        // The API server rejects two taints with one key and effect.
        ("another value", in_group("born"), json!([taint("Windows")]), vec!["born Windows NoSchedule"], Some("born")),
        ("another group", in_group("other"), json!([own]), vec![OWN], None),
        ("a Linux node", json!({GROUP: "born", "kubernetes.io/os": "linux"}), json!([]), vec![], None),
        ("mode Observe", in_group("observed"), json!([]), vec![], None),
        ("paused", in_group("paused"), json!([]), vec![], None),
        ("a pool without taints", in_group("bare"), json!([]), vec![], None),
    ];
    for (case, labels, taints, expected, mark) in table {
        let answer = server.send(&register(&labels, &taints)).await;
        let expected = if server.mutates() {
            expected.into_iter().map(str::to_owned).collect()
        } else {
            born(&register(&labels, &taints).body).0
        };
        assert_eq!(born(&answer.object), (expected, mark.filter(|_| server.mutates())), "{case}: {}", answer.outcome);
    }
    let filled = server.send(&register(&in_group("born"), &json!(fillers))).await;
    assert_eq!(born(&filled.object), (born(&register(&json!({}), &json!(fillers)).body).0, None), "fillers");
}

#[tokio::test]
async fn a_node_that_two_pools_select_gets_the_taints_of_one_and_keeps_its_annotations() {
    let server = Server::get().await;
    let mut request = register(&json!({GROUP: "contested"}), &json!([]));
    request.body["metadata"]["annotations"] = json!({"example.com/note": "keep"});
    let created = server.send(&request).await.object;
    assert_eq!(created["metadata"]["annotations"]["example.com/note"], "keep");
    // An API server has no order of parameters.
    let possible = [
        (vec!["one windows NoSchedule".to_owned()], Some("born-one one:NoSchedule")),
        (vec!["other windows NoSchedule".to_owned()], Some("born-other other:NoSchedule")),
    ];
    let expected = if server.mutates() { &possible[..] } else { &[(vec![], None)] };
    assert!(expected.contains(&born(&created)), "{created}");
}

/// The expression for the selector of a pool is the rule of the operator.
#[tokio::test]
async fn a_node_is_tainted_at_its_creation_if_the_operator_would_select_it() {
    let server = Server::get().await;
    for (index, (labels, expressions)) in selectors().iter().enumerate() {
        let selector = json!({"matchLabels": labels, "matchExpressions": expressions});
        let selector: LabelSelector = serde_json::from_value(selector).unwrap();
        for kind in [None, Some("web"), Some("batch")] {
            let mut labels = json!({GROUP: format!("selected-{index}")});
            kind.into_iter().for_each(|kind| labels["kind"] = json!(kind));
            let selected = selector.matches(&serde_json::from_value(labels.clone()).unwrap());
            let (taints, _) = born(&server.send(&register(&labels, &json!([]))).await.object);
            assert_eq!(!taints.is_empty(), selected && server.mutates(), "{selector:?} {labels}");
        }
    }
}

#[tokio::test]
async fn a_windows_pod_without_a_class_gets_that_of_its_namespace() {
    let server = Server::get().await;
    let windows = || json!({"os": {"name": "windows"}});
    let and = |field: &str, value: Value| with(windows(), &[field], value);
    let selecting = |key: &str, value: &str| and("nodeSelector", json!({key: value}));
    let near = |terms: &[Value]| and("affinity", affinity(terms));
    let host_process = || json!({"windowsOptions": {"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"}});
    let container = |context: Value| json!([{"name": "app", "image": "app:1", "securityContext": context}]);
    let on_host = |spec: Value| with(spec, &["hostNetwork"], json!(true));
    let (given, none) = (Some("windows-ltsc2022"), None);
    let os_in = |values: &[&str]| term("kubernetes.io/os", "In", values);
    let to_disk = || term("disk", "In", &["ssd"]);
    let no_host_process = json!({"windowsOptions": {"hostProcess": false}});
    let table = [
        ("os.name", given, windows()),
        ("the selector", given, json!({"nodeSelector": {"kubernetes.io/os": "windows"}})),
        ("a Linux pod", none, json!({"os": {"name": "linux"}})),
        ("the selector of Linux", none, json!({"nodeSelector": {"kubernetes.io/os": "linux"}})),
        ("no system", none, json!({})),
        ("a class", Some("own"), and("runtimeClassName", json!("own"))),
        ("a selector of a build", none, selecting("node.kubernetes.io/windows-build", "10.0.17763")),
        ("a selector of a pool", none, selecting("winpool.dev/pool", "web")),
        ("a selector of a release", none, selecting("runs.winpool.dev/ltsc2022", "true")),
        ("a node", none, and("nodeName", json!("win-1"))),
        ("a selector of a node", none, selecting("kubernetes.io/hostname", "win-1")),
        ("an affinity to Windows", given, json!({"affinity": affinity(&[os_in(&["windows"])])})),
        ("an affinity to Windows or a disk", none, json!({"affinity": affinity(&[os_in(&["windows"]), to_disk()])})),
        ("an affinity to both systems", none, json!({"affinity": affinity(&[os_in(&["linux", "windows"])])})),
        ("a preferred affinity to Windows", none, json!({"affinity": {"nodeAffinity": {}}})),
        ("an affinity to a disk", given, near(&[to_disk()])),
        ("an affinity to a build", none, near(&[term("node.kubernetes.io/windows-build", "In", &["10.0.17763"])])),
        (
            "an affinity to a pool in one of two terms",
            none,
            near(&[to_disk(), term("winpool.dev/pool", "In", &["web"])]),
        ),
        ("an affinity to a release", none, near(&[term("runs.winpool.dev/ltsc2019", "In", &["true"])])),
        ("an affinity to a node", none, near(&[one_node()])),
        ("a HostProcess pod", none, on_host(and("securityContext", host_process()))),
        ("a HostProcess container", none, on_host(and("containers", container(host_process())))),
        ("a container that is no HostProcess one", given, and("containers", container(no_host_process))),
    ];
    for (case, expected, spec) in table {
        for (place, expected) in [(SHOP, expected), (PODS, expected.filter(|class| *class == "own"))] {
            let answer = server.send(&pods::create(REPLICA_SETS, place, &spec)).await;
            assert_eq!(answer.outcome, "", "{case}");
            let expected = expected.filter(|class| server.mutates() || *class == "own");
            assert_eq!(answer.object["spec"]["runtimeClassName"].as_str(), expected, "{case}");
        }
    }
    for (owner, expected) in [("ReplicaSet", given), ("DaemonSet", none)] {
        let mut request = pods::create(DAEMON_SETS, SHOP, &windows());
        request.body["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": owner, "name": "app", "uid": "uid-1"}]);
        let created = server.send(&request).await.object;
        assert_eq!(created["spec"]["runtimeClassName"].as_str(), expected.filter(|_| server.mutates()), "{owner}");
    }
}

/// The plugin RuntimeClass runs again after the policy, so that the pod gets the selector of the class.
#[tokio::test]
async fn a_pod_that_gets_a_class_gets_its_selector() {
    let server = Server::get().await;
    let tolerating = json!({"os": {"name": "windows"}, "tolerations": [os()]});
    let answer = server.send(&pods::create(REPLICA_SETS, SHOP, &tolerating)).await;
    let expected = if server.mutates() { json!({"kubernetes.io/os": "windows"}) } else { Value::Null };
    assert_eq!(answer.object["spec"]["nodeSelector"], expected, "{}", answer.outcome);
}

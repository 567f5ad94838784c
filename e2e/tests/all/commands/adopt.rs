//! `winpool adopt`: its output is applied in mode Observe and then Enforce, on nodes and RuntimeClasses made by hand.

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Stdio},
};

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use e2e::{
    certificates::Authority,
    cluster::{Cluster, SOON, create, edit, pool_spec},
    control_plane::{Options, User},
    kubelet::SimulatedNode,
    network::free_port,
    node_network::{NODE_ADDRESS, NodeNetwork},
    operator::{binary, winpool},
    wait::until,
};
use jiff::Timestamp;
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{CommandOutput, run, writes};
use crate::registry::server::Server;

const SERVER_2022: &str = "10.0.20348.4529";
const SERVER_2019: &str = "10.0.17763.5329";

/// A fleet with the taints of several platforms.
fn fleet() -> Vec<SimulatedNode> {
    let node = |name: &str, kernel: &str, key: &str, pool: &str| SimulatedNode::windows(name, kernel).label(key, pool);
    vec![
        node("aks-1", SERVER_2022, "agentpool", "win22"),
        node("aks-2", SERVER_2022, "agentpool", "win22"),
        node("eks-1", SERVER_2019, "eks.amazonaws.com/nodegroup", "Legacy").taint("os", "windows", "NoSchedule"),
        node("eks-2", SERVER_2019, "eks.amazonaws.com/nodegroup", "Legacy").taint("os", "windows", "NoSchedule"),
        node("gke-1", SERVER_2022, "cloud.google.com/gke-nodepool", "shop")
            .taint("node.kubernetes.io/os", "windows", "NoSchedule")
            .taint("team", "shop", "NoSchedule"),
        SimulatedNode::windows("ocp-1", SERVER_2022).taint("os", "Windows", "NoSchedule").label("rack", "7"),
        SimulatedNode::linux("linux-1"),
    ]
}

/// Creates a RuntimeClass for a build.
async fn add_class(cluster: &Cluster, name: &str, build: &str, tolerations: Value) {
    let selector = json!({
        "kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64", "node.kubernetes.io/windows-build": build,
    });
    let class = json!({
        "metadata": { "name": name }, "handler": "runhcs-wcow-process",
        "scheduling": { "nodeSelector": selector, "tolerations": tolerations },
    });
    create(&cluster.classes(), class).await.unwrap();
}

/// What must not change: the taints and the labels of others on each node, and the resource version of each RuntimeClass.
async fn foreign_state(cluster: &Cluster) -> BTreeMap<String, Value> {
    let nodes = cluster.nodes().list(&ListParams::default()).await.unwrap();
    let of_node = |node: k8s_openapi::api::core::v1::Node| {
        let mut labels = node.labels().clone();
        labels.retain(|key, _| !key.starts_with("winpool.dev/") && !key.starts_with("runs.winpool.dev/"));
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone());
        (format!("node {}", node.name_any()), json!({ "labels": labels, "taints": taints }))
    };
    let classes = cluster.classes().list(&ListParams::default()).await.unwrap();
    let classes =
        classes.items.into_iter().map(|class| (format!("class {}", class.name_any()), json!(class.resource_version())));
    nodes.items.into_iter().map(of_node).chain(classes).collect()
}

/// The output of `winpool adopt` as a file.
fn adopted(cluster: &Cluster) -> (String, String) {
    let output = run(cluster, &["adopt"]);
    assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{}", output.stdout);
    let file = cluster.control_plane.directory().join("adopted.yaml");
    fs::write(&file, &output.stdout).unwrap();
    (file.to_str().unwrap().to_owned(), output.stdout)
}

async fn enforce(cluster: &Cluster, pool: &str, nodes: &[&str]) {
    cluster.edit_pool(pool, json!({ "spec": { "mode": "Enforce" } })).await.unwrap();
    for node in nodes {
        cluster.until_pool_of(node, Some(pool)).await.unwrap();
    }
    cluster.until_ready(pool).await.unwrap();
}

#[tokio::test]
async fn adopted_pools_change_no_taint_no_foreign_label_and_no_class_of_a_consistent_cluster() {
    let cluster = Cluster::start().await.unwrap();
    let _kubelets = cluster.start_kubelets(fleet()).await.unwrap();
    let exact = json!([{ "key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule" }]);
    add_class(&cluster, "windows-2019", "10.0.17763", exact).await;
    let any_os =
        json!([{ "key": "os", "operator": "Exists" }, { "key": "node.kubernetes.io/os", "operator": "Exists" }]);
    add_class(&cluster, "windows-2022", "10.0.20348", any_os).await;
    let before = foreign_state(&cluster).await;

    let (file, text) = adopted(&cluster);
    let nothing = "# In mode Enforce, winpool adds its own labels and annotations to the nodes, and changes no taint";
    assert_eq!(text.matches(nothing).count(), 4, "{text}");
    assert!(!text.contains("adopt: true"), "{text}");
    assert_eq!(writes(&cluster), [], "winpool adopt writes nothing");

    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.kubectl(&["apply", "-f", &file]).unwrap();
    let pools: [(&str, &[&str]); 4] = [
        ("win22", &["aks-1", "aks-2"]),
        ("legacy", &["eks-1", "eks-2"]),
        ("shop", &["gke-1"]),
        ("windows-ltsc2022", &["ocp-1"]),
    ];
    for (pool, nodes) in pools {
        cluster.until_condition(pool, "Ready", "True", "Observing").await.unwrap();
        assert_eq!(cluster.status(pool).await.unwrap().nodes.matched as usize, nodes.len(), "{pool}");
    }
    cluster.until_idle().await.unwrap();
    assert_eq!(foreign_state(&cluster).await, before);
    assert!(cluster.node_changes().unwrap().is_empty(), "mode Observe changes no node");

    let output = run(&cluster, &["adopt"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stderr.contains("6 nodes already belong to a pool"), "{}", output.stderr);

    for (pool, nodes) in pools {
        enforce(&cluster, pool, nodes).await;
    }
    cluster.until_idle().await.unwrap();
    assert_eq!(foreign_state(&cluster).await, before);
    let output = run(&cluster, &["plan"]);
    assert_eq!(output.status, 0, "{}{}", output.stdout, output.stderr);
    operator.stop().await.unwrap();
    cluster.nothing_was_forbidden().unwrap();
}

/// The configuration in use that each of these kubelets shows at `/configz`, and what it measures, by the path of a request.
fn kubelet(path: &str) -> Response {
    let configuration = json!({
        "kind": "KubeletConfiguration",
        "maxPods": 60,
        "systemReserved": { "memory": "3Gi" },
        "kubeReserved": { "memory": "1Gi" },
        "evictionHard": { "imagefs.available": "15%", "memory.available": "500Mi", "nodefs.available": "10%" },
        "imageGCHighThresholdPercent": 85,
        "imageGCLowThresholdPercent": 80,
        "containerLogMaxSize": "10Mi",
        "containerLogMaxFiles": 5,
        "serializeImagePulls": false,
        "syncFrequency": "1m0s",
        "clusterDNS": ["10.0.0.10"],
    });
    match path {
        "/configz" => json!({ "kubeletconfig": configuration }).to_string().into_response(),
        "/stats/summary" => {
            let memory = json!({ "time": Timestamp::now(), "usageBytes": 6_i64 << 30, "workingSetBytes": 4_i64 << 30 });
            let node = json!({ "cpu": { "usageNanoCores": 900_000_000 }, "memory": memory });
            let pod = json!({ "cpu": { "usageNanoCores": 600_000_000 }, "memory": { "workingSetBytes": 1_i64 << 30 } });
            json!({ "node": node, "pods": [pod] }).to_string().into_response()
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Creates a Windows node of a [`NodeNetwork`] whose kubelet has this port.
async fn node_with_kubelet(cluster: &Cluster, name: &str, port: u16) {
    let labels = json!({ "kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64", "agentpool": "web" });
    create(&cluster.nodes(), json!({ "metadata": { "name": name, "labels": labels } })).await.unwrap();
    let resources = json!({ "cpu": "4", "memory": "16777216Ki", "pods": "110" });
    let status = json!({ "status": {
        "addresses": [{ "type": "InternalIP", "address": NODE_ADDRESS }],
        "daemonEndpoints": { "kubeletEndpoint": { "Port": port } },
        "capacity": resources, "allocatable": resources,
        "nodeInfo": {
            "kernelVersion": SERVER_2022, "operatingSystem": "windows", "architecture": "amd64", "machineID": "",
            "systemUUID": "", "bootID": "", "osImage": "", "kubeProxyVersion": "",
            "kubeletVersion": "v1.34.2", "containerRuntimeVersion": "containerd://2.1.4",
        },
    }});
    cluster.nodes().patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

// A second thread serves the kubelets while the command runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn profiles_have_the_configuration_that_the_kubelets_show_where_it_can_be_read() {
    let network = NodeNetwork::start().unwrap();
    let arguments = vec![network.api_server_argument()];
    let options = Options { api_server_arguments: arguments, ..Options::api_server_only() };
    let cluster = Cluster::start_with(options).await.unwrap();
    let server = Server::with_handler(&Authority::new().unwrap(), kubelet).await.unwrap();
    for name in ["web-1", "web-2"] {
        node_with_kubelet(&cluster, name, server.address.port()).await;
    }
    node_with_kubelet(&cluster, "web-3", free_port().unwrap()).await;

    let output = run(&cluster, &["adopt", "--configz"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stderr.contains("the configuration of 1 kubelet could not be read: web-3: "), "{}", output.stderr);
    for line in [
        "# Profile web: from the configuration in use (configz) of 2 of 3 nodes.",
        "# The settings are unknown of: web-3.",
    ] {
        assert!(output.stdout.contains(line), "{line} in {}", output.stdout);
    }
    let documents: Vec<Value> = serde_saphyr::from_multiple(&output.stdout).unwrap();
    let profile = documents.iter().find(|document| document["kind"] == "WindowsRuntimeProfile").unwrap();
    let expected = json!({
        "containerLogs": { "maxFiles": 5, "maxSize": "10Mi" },
        "extra": { "serializeImagePulls": false },
        "kubeReserved": { "memory": "1Gi" },
        "maxPods": 60,
        "systemReserved": { "memory": "3Gi" },
    });
    assert_eq!(profile["spec"]["kubelet"], expected);

    let requests = server.seen();
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert_eq!(writes(&cluster), [], "winpool adopt writes nothing");

    let file = cluster.control_plane.directory().join("adopted.yaml");
    fs::write(&file, &output.stdout).unwrap();
    cluster.kubectl(&["apply", "-f", file.to_str().unwrap()]).unwrap();
    nodes_are_measured(&cluster, &server).await;
}

/// The kubelets answer `winpool recommend` through the API server, until Ctrl-C.
async fn nodes_are_measured(cluster: &Cluster, server: &Server) {
    let file = cluster.control_plane.directory().join("samples.jsonl");
    edit(&cluster.pools(), "web", json!({ "spec": { "profileRef": { "name": "web" } } })).await.unwrap();
    let before = server.seen().len();
    let command = Command::new(binary().unwrap())
        .args(["recommend", "web", "--interval", "1s", "--save", file.to_str().unwrap()])
        .env("KUBECONFIG", cluster.control_plane.kubeconfig(User::Admin))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let requests = || async { Ok(server.seen().len() - before) };
    until("each kubelet was measured twice", SOON, requests, |count| *count >= 4).await.unwrap();
    Command::new("kill").args(["-INT", &command.id().to_string()]).status().unwrap();
    let output = CommandOutput::from(command.wait_with_output().unwrap());
    for expected in
        ["node web-3 has no sample: ", "too little was measured of pool web: 4 CPU, 16Gi: 2 of at least 2 nodes, "]
    {
        assert!(output.status == 1 && output.stderr.contains(expected), "{}", output.stderr);
    }
    let lines: Vec<Value> =
        fs::read_to_string(file).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["profile"], &lines[0]["kubelet"]["maxPods"]), (&json!("web"), &json!(60)));
    let usage = (&lines[1]["nodeUsage"], &lines[1]["podsUsage"]);
    let node = json!({ "cpu": 900, "workingSet": 4_i64 << 30, "commit": 6_i64 << 30 });
    assert_eq!(usage, (&node, &json!({ "cpu": 600, "workingSet": 1 << 30 })));
    assert_eq!(writes(cluster), [], "winpool recommend writes nothing");
}

#[tokio::test]
async fn without_the_permission_for_configz_profiles_have_what_the_nodes_report() {
    let cluster = Cluster::start().await.unwrap();
    let server = Server::with_handler(&Authority::new().unwrap(), kubelet).await.unwrap();
    node_with_kubelet(&cluster, "web-1", server.address.port()).await;
    let output = winpool(&cluster.control_plane, User::Operator, &["adopt", "--configz"]).unwrap();
    let output = CommandOutput::from(output);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stderr.contains("cannot get resource \"nodes/proxy\""), "{}", output.stderr);
    assert!(output.stdout.contains("# Profile web: from the resources of 1 of 1 node."), "{}", output.stdout);

    cluster.apply_pool("web", pool_spec("web", json!({}))).await.unwrap();
    let output = winpool(&cluster.control_plane, User::Operator, &["recommend", "web"]).unwrap();
    let output = CommandOutput::from(output);
    assert_eq!(output.status, 3, "{}", output.stderr);
    for expected in
        ["no kubelet can be read: ", "cannot get resource \"nodes/proxy\"", "metrics.k8s.io cannot be read either: "]
    {
        assert!(output.stderr.contains(expected), "{expected}: {}", output.stderr);
    }
}

//! `winpool adopt` and `winpool recommend` with what kubelets show through the API server.

use std::{
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
    network::free_port,
    node_network::{NODE_ADDRESS, NodeNetwork},
    operator::{binary, winpool},
    wait::until,
};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{CommandOutput, run, writes};
use crate::registry::server::Server;

const SERVER_2022: &str = "10.0.20348.4529";

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

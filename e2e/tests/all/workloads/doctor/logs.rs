//! `winpool doctor --node-logs`: an API server forwards its requests to kubelets of the test.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body, extract::Request, http::header::RANGE, response::Response};
use e2e::{
    certificates::Authority,
    cluster::Cluster,
    control_plane::Options,
    install,
    network::free_port,
    node_network::{NODE_ADDRESS, NodeNetwork},
};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{doctor, ids, user};
use crate::registry::server::{Server, answer, slow_body};

/// As the kubelet answers a query with options for a service that is no provider of the event log.
const FILES: &str = "\noptions present and query resolved to log files for [kubelet]\ntry without specifying options\n";
/// A message of nssm in the table that PowerShell prints, with its last column wrapped within a word.
const EVENTS: &str = "\n   ProviderName: nssm\n\n\
                      TimeCreated            Id LevelDisplayName Message\n\
                      -----------            -- ---------------- -------\n\
                      11/26/2026 2:00:00 AM 1024 Information      Program kubelet.exe --token=planted-se\n\
                      \u{20}                                          cret for service kubelet exited\n\
                      \u{20}                                          with return code 1.\n";
const PIECE: &[u8] = &[b'x'; 1 << 16];
const NO_FILE: &str = "the node has neither events nor a file of it";

/// The log of a kubelet, which is larger than what is read of it.
fn kubelet_log(at: Timestamp) -> String {
    let time = at.strftime("%m%d %H:%M:%S.000000");
    let old = "I1126 01:00:00.000000 1 a.go:1] password=planted-secret PLEG is not healthy\n".repeat(8_000);
    format!(
        "{old}E{time} 1 kubelet.go:1] PLEG is not healthy: pleg was last seen active 3m0s ago; token=planted-secret\n"
    )
}

/// The end of a file as `http.FileServer` of Go answers a request with a range.
fn file(content: &str, range: Option<&str>) -> Response {
    let asked = range.and_then(|range| range.strip_prefix("bytes=-")?.parse().ok());
    let begin = content.len() - content.len().min(asked.unwrap_or(content.len()));
    let range = format!("bytes {begin}-{}/{}", content.len() - 1, content.len());
    answer(206, &[("content-type", "text/plain"), ("content-range", &range)], content[begin..].to_owned())
}

/// A kubelet with the log query, in whose log of containerd `taken` bytes were read of 256 MiB.
async fn kubelet(authority: &Authority, taken: Arc<AtomicU64>) -> Server {
    let log = kubelet_log(Timestamp::now());
    let answers = move |request: Request| {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let range = request.headers().get(RANGE).and_then(|range| range.to_str().ok());
        let service = query.strip_prefix("query=").map(|query| query.split('&').next().unwrap());
        let answered = match (path, service) {
            ("/logs/", Some("nssm")) => answer(200, &[("content-type", "text/plain")], EVENTS),
            ("/logs/", Some("containerd")) => {
                let body: Body = slow_body(4_096, PIECE, Duration::ZERO, taken.clone());
                answer(200, &[("content-type", "text/plain")], body)
            }
            ("/logs/", Some(_)) => answer(200, &[("content-type", "text/plain")], FILES),
            ("/logs/kubelet/kubelet.log", None) => file(&log, range),
            _ => answer(404, &[], "404 page not found\n"),
        };
        async move { answered }
    };
    Server::start(Some(authority), Router::new().fallback(answers)).await.unwrap()
}

async fn node(cluster: &Cluster, name: &str, port: u16) {
    let node = json!({ "metadata": { "name": name, "labels": { "kubernetes.io/os": "windows" } } });
    cluster.nodes().create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let status = json!({ "status": {
        "addresses": [{ "type": "InternalIP", "address": NODE_ADDRESS }],
        "daemonEndpoints": { "kubeletEndpoint": { "Port": port } },
    }});
    cluster.nodes().patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

/// Why a symptom is not determinable.
fn because<'d>(diagnosis: &'d Value, id: &str) -> &'d str {
    let all = diagnosis["notDeterminable"].as_array().unwrap();
    let found = all.iter().find(|symptom| symptom["id"] == id).unwrap_or_else(|| panic!("{id} in {diagnosis:#}"));
    found["because"].as_str().unwrap()
}

// A second thread serves the kubelets while the command runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_of_nodes_are_read_within_bounds_without_credentials_and_each_absence_is_said() {
    let network = NodeNetwork::start().unwrap();
    let arguments = vec![network.api_server_argument()];
    let options = Options { api_server_arguments: arguments, ..Options::api_server_only() };
    let cluster = Cluster::start_with(options).await.unwrap();
    let (authority, taken) = (Authority::new().unwrap(), Arc::<AtomicU64>::default());
    let with_query = kubelet(&authority, taken.clone()).await;
    let off = Server::with_handler(&authority, |_| answer(405, &[], "logs endpoint is disabled.\n")).await.unwrap();
    let files_only = Server::with_handler(&authority, |path| match path {
        "/logs/" => answer(200, &[("content-type", "text/html; charset=utf-8")], "<pre>\n<a href=\"kube-proxy.log\">"),
        "/logs/kube-proxy.log" => answer(200, &[], "Unable to find HNS Network specified by cbr0.\n"),
        _ => answer(404, &[], ""),
    })
    .await
    .unwrap();
    let events = "1/5/2026 1:53:30 AM  Started\n".repeat(1_000);
    let many_events = Server::with_handler(&authority, move |_| answer(200, &[], events.clone())).await.unwrap();
    for (name, port) in [
        ("win-1", with_query.address.port()),
        ("win-2", off.address.port()),
        ("win-3", files_only.address.port()),
        ("win-4", free_port().unwrap()),
        ("win-5", many_events.address.port()),
    ] {
        node(&cluster, name, port).await;
    }
    let doctor = |arguments: &[&str]| doctor(&cluster.control_plane, arguments);

    let bundle = cluster.control_plane.directory().join("bundle");
    let (status, online) = doctor(&["node/win-1", "--node-logs", "--bundle", bundle.to_str().unwrap()]);
    assert_eq!(status, 1);
    let texts = |id: &str| {
        let found = online["found"].as_array().unwrap().iter().find(|found| found["id"] == id);
        found.unwrap_or_else(|| panic!("{id} in {online:#}"))["evidence"][0].clone()
    };
    let exits = texts("service-exits");
    assert_eq!(exits["place"], "log of nssm, event log Application");
    let text = exits["text"].as_str().unwrap();
    assert!(text.ends_with("--token=*** for service kubelet exited with return code 1."), "{text}");
    let pleg = texts("node-pleg-logged");
    assert_eq!(pleg["place"], r"log of kubelet, C:\var\log\kubelet\kubelet.log");
    assert!(pleg["text"].as_str().unwrap().ends_with("3m0s ago; token=***"), "{pleg}");
    let expected = format!("no line of the logs that were read shows it (kube-proxy on win-1 is not read: {NO_FILE})");
    assert!(because(&online, "kube-proxy-network").starts_with(&expected), "{online:#}");
    assert!(because(&online, "host-compute-slow").contains("containerd on win-1 is cut, kubelet on win-1 is cut"));
    assert!(taken.load(Ordering::Relaxed) < 64 << 20, "only the beginning is read");

    let (status, offline) = doctor(&["--from", bundle.to_str().unwrap()]);
    assert_eq!((status, &offline), (1, &online));
    let written = fs::read_to_string(bundle.join("nodeLogs.json")).unwrap();
    assert!(!written.contains("planted") && !written.contains("cret for"), "{written}");
    let seen = with_query.seen();
    let queries: Vec<_> = seen.iter().filter(|seen| seen.path.starts_with("/logs/?")).collect();
    assert!(queries.len() == 4 && queries.iter().all(|query| query.path.contains("&sinceTime=20")), "{seen:?}");
    assert!(queries.iter().all(|query| query.path.ends_with("&tailLines=1000")), "{seen:?}");

    let (_, diagnosis) = doctor(&["node/win-1"]);
    assert!(because(&diagnosis, "service-exits").starts_with("logs of nodes are not read: give --node-logs. Run on"));
    assert_eq!(with_query.seen().len(), seen.len(), "no log is read without the option");
    let (_, diagnosis) = doctor(&["node/win-2", "--node-logs=1h"]);
    let expected = "logs of nodes are not read: the kubelet serves no logs: enableSystemLogHandler or enableDebuggingHandlers is false in \
                    its configuration. ";
    assert!(because(&diagnosis, "service-exits").starts_with(expected), "{diagnosis:#}");
    let (_, diagnosis) = doctor(&["node/win-3", "--node-logs"]);
    assert!(ids(&diagnosis["found"]).contains(&"kube-proxy-network"), "{diagnosis:#}");
    let expected = "kubelet on win-3 is not read: the kubelet has no log query: NodeLogQuery is not enabled";
    assert!(because(&diagnosis, "node-pleg-logged").contains(expected), "{diagnosis:#}");
    let (_, diagnosis) = doctor(&["node/win-4", "--node-logs"]);
    let reason = because(&diagnosis, "node-pleg-logged");
    assert!(reason.contains("not read: ") && !reason.contains("give"), "{reason}");
    let (_, diagnosis) = doctor(&["node/win-5", "--node-logs"]);
    assert!(because(&diagnosis, "node-pleg-logged").contains("kubelet on win-5 is cut"), "{diagnosis:#}");
    the_role_of_doctor_does_not_permit_it(&cluster).await;
}

async fn the_role_of_doctor_does_not_permit_it(cluster: &Cluster) {
    for folder in ["config/doctor", "config/doctor/node-logs"] {
        install::apply(&cluster.control_plane, &["-k", &install::path(folder)]).unwrap();
    }
    let file = user(cluster, "on-call", "winpool-doctor").await;
    let arguments = ["node/win-1", "--node-logs", "--kubeconfig", file.to_str().unwrap()];
    let (_, diagnosis) = doctor(&cluster.control_plane, &arguments);
    let expected = "logs of nodes are not read: the permission to get nodes/proxy is missing, which the role \
                    winpool-doctor-node-logs in config/doctor/node-logs has. ";
    assert!(because(&diagnosis, "service-exits").starts_with(expected), "{diagnosis:#}");
    let binding = ["create", "clusterrolebinding", "logs", "--clusterrole=winpool-doctor-node-logs"];
    cluster.kubectl(&[&binding[..], &["--serviceaccount=default:on-call"]].concat()).unwrap();
    let (_, diagnosis) = doctor(&cluster.control_plane, &arguments);
    assert!(ids(&diagnosis["found"]).contains(&"service-exits"), "{diagnosis:#}");
}

//! Traces and logs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use anyhow::Result;
use e2e::{
    certificates::Authority,
    cluster::{Cluster, OS_WINDOWS, SOON},
    network::{self, free_port},
    wait::{stays, until},
};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

use super::{
    AT_ONCE, NODES, POOL, apply_pool,
    collector::{Collector, Span},
    nodes,
};

fn children<'a>(spans: &'a [Span], parent: &'a Span) -> impl Iterator<Item = &'a Span> {
    spans.iter().filter(|span| span.parent == parent.id && span.trace == parent.trace)
}

#[tokio::test]
async fn a_reconcile_is_a_trace_from_the_watch_event_to_each_request() {
    let cluster = Cluster::start().await.unwrap();
    let _kubelets = cluster.start_kubelets(nodes()).await.unwrap();
    let collector = Collector::start().unwrap();
    // As in a pod, where the log is JSON.
    let environment =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()), AT_ONCE, ("KUBERNETES_SERVICE_HOST", "127.0.0.1")];
    let arguments = ["--log", "info,winpool=debug"];
    let operator = cluster.start_operator(&arguments, &environment).await.unwrap();
    apply_pool(&cluster).await;

    // A span is exported when it ends: after its child spans.
    let reconciles = || async {
        let spans = collector.spans();
        let reconciles = spans.iter().filter(|span| span.name == "reconcile" && span.attribute("object") == POOL);
        let wrote =
            |reconcile: &&Span| children(&spans, reconcile).any(|span| span.attribute("operation") == "patch-node");
        let ended = |reconcile: &&Span| spans.iter().any(|span| span.id == reconcile.parent);
        Ok((reconciles.filter(wrote).filter(ended).cloned().collect::<Vec<_>>(), spans.clone()))
    };
    let (reconciles, spans) =
        until("the reconcile arrives", SOON, reconciles, |(reconciles, _)| !reconciles.is_empty()).await.unwrap();
    let reconcile = &reconciles[0];
    assert_eq!(reconcile.attribute("controller"), "pool");
    let watch = spans.iter().find(|span| span.id == reconcile.parent).unwrap();
    assert_eq!((watch.name.as_str(), watch.parent.as_str(), &watch.trace), ("watch", "", &reconcile.trace));
    assert!(reconcile.attribute("trigger").contains(watch.attribute("name")), "{watch:#?} {reconcile:#?}");

    let below: Vec<&Span> = children(&spans, reconcile).collect();
    let names: BTreeSet<&str> = below.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["events", "plan", "snapshot", "status", "write"].into());
    let requests = below.iter().filter(|span| span.name == "write");
    let requests: BTreeSet<_> = requests.map(|span| (span.attribute("operation"), span.attribute("object"))).collect();
    let mut expected: BTreeSet<(&str, String)> = NODES.map(|node| ("patch-node", format!("Node {node}"))).into();
    expected.insert(("record-applied", format!("WindowsNodePool {POOL}")));
    expected.insert(("apply-runtime-class", "RuntimeClass windows-ltsc2022".to_owned()));
    assert_eq!(requests, expected.iter().map(|(operation, object)| (*operation, object.as_str())).collect());
    for write in below.iter().filter(|span| span.name == "write") {
        assert_eq!(write.attribute("outcome"), "done");
        let request = children(&spans, write).map(|span| {
            let [method, status] =
                ["http.request.method", "http.response.status_code"].map(|key| span.attribute(key).to_owned());
            (span.name.as_str(), method, status)
        });
        let is_new = write.attribute("operation") == "apply-runtime-class";
        let (method, status) = if is_new { ("POST", "201") } else { ("PATCH", "200") };
        assert_eq!(request.collect::<Vec<_>>(), [("request", method.to_owned(), status.to_owned())], "{write:?}");
    }
    let status = below.iter().find(|span| span.name == "status").unwrap();
    let written: Vec<_> = children(&spans, status).map(|span| span.attribute("operation")).collect();
    assert_eq!(written, ["write-status"]);
    assert!(spans.iter().all(|span| span.resource["service.name"] == "winpool"), "{:?}", spans[0].resource);

    // The last spans are sent before the process ends, and the log contains the trace ids.
    assert!(operator.stop().await.unwrap().success());
    let traces: BTreeSet<String> = collector.spans().into_iter().map(|span| span.trace).collect();
    let log = operator.log().unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let traced: Vec<&str> = lines.iter().filter_map(|line| line["trace_id"].as_str()).collect();
    assert!(traced.contains(&reconcile.trace.as_str()), "the reconcile is in the log:\n{log}");
    assert!(traced.iter().all(|trace| traces.contains(*trace)), "each is the id of a trace that was sent");
    let changed = |line: &&Value| line["message"] == "changed" && line["trace_id"] == reconcile.trace.as_str();
    let changed: Vec<&Value> = lines.iter().filter(changed).collect();
    assert!(changed.len() == 1 && changed[0]["level"] == "INFO" && changed[0]["written"] == 5, "{changed:#?}");
    for line in &lines {
        assert!(line["timestamp"].is_string() && line["level"].is_string() && line["target"].is_string(), "{line}");
    }
    cluster.nothing_was_forbidden().unwrap();
}

/// A port of loopback that accepts connections, and never answers.
async fn never_answers(port: u16) -> JoinHandle<()> {
    let listener = TcpListener::from_std(network::listener_on(port).await.unwrap()).unwrap();
    tokio::spawn(async move {
        let mut connections = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            connections.push(connection);
        }
    })
}

/// With a receiver that is gone, back, slow, and gone again, the operator works; it logs when spans are lost, and sends those
/// of later reconciles.
#[tokio::test]
async fn a_receiver_of_traces_may_be_gone_or_slow() {
    let cluster = Cluster::start().await.unwrap();
    let kubelets = cluster.start_kubelets(nodes()).await.unwrap();
    let port = free_port().unwrap();
    let endpoint = format!("http://127.0.0.1:{port}");
    let environment =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("OTEL_EXPORTER_OTLP_TIMEOUT", "1000"), AT_ONCE];
    let operator = cluster.start_operator(&[], &environment).await.unwrap();
    let logged = |part: &'static str, count: usize| {
        let operator = &operator;
        let lines = move || async move { Ok(operator.log()?.lines().filter(|line| line.contains(part)).count()) };
        until(part, SOON, lines, move |found| *found == count)
    };
    // Reconciles the pool, whose status then has one more or one less ready node.
    let reconcile = async |ready: bool| {
        kubelets.set_ready(NODES[0], ready).await.unwrap();
        let expected = if ready { 3.0 } else { 2.0 };
        let count = async || operator.metric("winpool_nodes", &[("pool", POOL), ("state", "ready")]).await;
        until("the node is counted", SOON, count, |count: &f64| (*count - expected).abs() < 0.5).await.unwrap();
    };

    apply_pool(&cluster).await;
    logged("traces cannot be sent", 1).await.unwrap();
    let collector = Collector::start_on(port).await.unwrap();
    reconcile(false).await;
    let received = || async { Ok(collector.spans().iter().any(|span| span.name == "reconcile")) };
    until("a reconcile arrives", SOON, received, |received| *received).await.unwrap();
    logged("traces are sent again", 1).await.unwrap();

    drop(collector);
    let slow = never_answers(port).await;
    reconcile(true).await;
    logged("traces cannot be sent", 2).await.unwrap();
    assert!(operator.stop().await.unwrap().success(), "{}", operator.log().unwrap());
    slow.abort();
    cluster.nothing_was_forbidden().unwrap();
}

/// The TCP sockets in the network namespace of a process: inode and remote port.
fn tcp_sockets(pid: u32) -> Result<BTreeMap<String, u16>> {
    let mut sockets = BTreeMap::new();
    for table in ["tcp", "tcp6"] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}"))?;
        // A line: number, local address:port, remote address:port, …, inode in the tenth column; numbers are
        // hexadecimal.
        for line in text.lines().skip(1) {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let port = columns[2].rsplit(':').next().unwrap_or_default();
            sockets.insert(columns[9].to_owned(), u16::from_str_radix(port, 16)?);
        }
    }
    Ok(sockets)
}

/// The remote ports of a process's TCP connections, and the number of its other sockets except listeners.
fn connections(pid: u32) -> Result<(BTreeSet<u16>, usize)> {
    let mut tcp = tcp_sockets(pid)?;
    let mut inodes = Vec::new();
    for descriptor in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let Ok(target) = fs::read_link(descriptor?.path()) else { continue };
        let target = target.display().to_string();
        inodes.extend(target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')).map(str::to_owned));
    }
    // Read again, for connections that were opened in between.
    tcp.extend(tcp_sockets(pid)?);
    let ports: Vec<_> = inodes.iter().map(|inode| tcp.get(inode).copied()).collect();
    let other = ports.iter().filter(|port| port.is_none()).count();
    // A listener has no remote port.
    Ok((ports.into_iter().flatten().filter(|port| *port != 0).collect(), other))
}

#[tokio::test]
async fn traces_go_over_tls_to_a_collector_that_the_system_trusts() {
    let cluster = Cluster::start().await.unwrap();
    let authority = Authority::new().unwrap();
    let collector = Collector::start_with_tls(&authority.issue().unwrap()).unwrap();
    let trusted = authority.file();
    let environment =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()), ("SSL_CERT_FILE", trusted.to_str().unwrap()), AT_ONCE];
    let operator = cluster.start_operator(&[], &environment).await.unwrap();
    cluster.apply_tainting_pool(POOL, "ltsc2022", OS_WINDOWS).await.unwrap();
    let reconciles = || async { Ok(collector.spans().iter().filter(|span| span.name == "reconcile").count()) };
    until("a reconcile arrives", SOON, reconciles, |count| *count > 0).await.unwrap();
    assert!(operator.stop().await.unwrap().success());
}

#[tokio::test]
async fn without_an_endpoint_the_operator_connects_to_the_api_server_alone() {
    let cluster = Cluster::start().await.unwrap();
    let _kubelets = cluster.start_kubelets(nodes()).await.unwrap();
    // These variables alone do not enable the export.
    let environment = [("OTEL_SERVICE_NAME", "somebody"), AT_ONCE];
    let operator = cluster.start_operator(&[], &environment).await.unwrap();
    let api_server: u16 = cluster.control_plane.url().rsplit(':').next().unwrap().parse().unwrap();
    let pid = operator.process().pid();
    let (_, sockets_before) = connections(pid).unwrap();
    let work = apply_pool(&cluster);
    let watch = stays(
        "it is connected only to the API server",
        Duration::from_secs(5),
        || async { connections(pid) },
        |(remote, other)| remote.iter().all(|port| *port == api_server) && *other <= sockets_before,
    );
    let ((), watched) = tokio::join!(work, watch);
    watched.unwrap();
    assert_eq!(connections(pid).unwrap().0, [api_server].into());
    let log = operator.log().unwrap();
    assert!(!log.contains("trace_id"), "without traces the log has no trace ids:\n{log}");
    cluster.nothing_was_forbidden().unwrap();
}

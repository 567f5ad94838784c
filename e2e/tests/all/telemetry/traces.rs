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
    network::free_port,
    wait::{stays, until},
};
use serde_json::Value;

use super::{
    NODES, POOL, apply_pool,
    collector::{Collector, Span},
    nodes,
};

/// A short export delay, so that a test need not wait for a full batch.
const AT_ONCE: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "100");

fn children<'a>(spans: &'a [Span], parent: &'a Span) -> impl Iterator<Item = &'a Span> {
    spans.iter().filter(|span| span.parent == parent.id && span.trace == parent.trace)
}

#[tokio::test]
async fn a_reconcile_is_a_trace_from_the_watch_event_to_each_request() {
    let cluster = Cluster::start().await.unwrap();
    let _kubelets = cluster.start_kubelets(nodes()).await.unwrap();
    let collector = Collector::start().await.unwrap();
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()), AT_ONCE];
    let arguments = ["--log-format", "json", "--log", "info,winpool=debug"];
    let operator = cluster.start_operator(&arguments, &environment).await.unwrap();
    apply_pool(&cluster).await;

    // A span is exported when it ends, and a reconcile ends after its child spans.
    let reconciles = || async {
        let spans = collector.spans();
        let reconciles = spans.iter().filter(|span| span.name == "reconcile" && span.attribute("object") == POOL);
        let wrote =
            |reconcile: &&Span| children(&spans, reconcile).any(|span| span.attribute("operation") == "patch-node");
        Ok((reconciles.filter(wrote).cloned().collect::<Vec<_>>(), spans.clone()))
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
    assert_eq!(names, ["plan", "snapshot", "status", "write"].into());
    let requests = below.iter().filter(|span| span.name == "write");
    let requests: BTreeSet<_> = requests.map(|span| (span.attribute("operation"), span.attribute("object"))).collect();
    let mut expected: BTreeSet<(&str, String)> = NODES.map(|node| ("patch-node", format!("Node {node}"))).into();
    expected.insert(("record-applied", format!("WindowsNodePool {POOL}")));
    expected.insert(("apply-runtime-class", "RuntimeClass windows-ltsc2022".to_owned()));
    assert_eq!(requests, expected.iter().map(|(operation, object)| (*operation, object.as_str())).collect());
    assert!(below.iter().filter(|span| span.name == "write").all(|span| span.attribute("outcome") == "done"));
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
    for line in &lines {
        assert!(line["timestamp"].is_string() && line["level"].is_string() && line["target"].is_string(), "{line}");
    }
    cluster.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn an_unreachable_collector_delays_neither_the_work_nor_the_shutdown() {
    let cluster = Cluster::start().await.unwrap();
    let _kubelets = cluster.start_kubelets(nodes()).await.unwrap();
    let nobody = format!("http://127.0.0.1:{}", free_port().unwrap());
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", nobody.as_str()), AT_ONCE];
    let operator = cluster.start_operator(&[], &environment).await.unwrap();
    apply_pool(&cluster).await;
    cluster.until_idle().await.unwrap();
    assert!(operator.stop().await.unwrap().success(), "{}", operator.log().unwrap());
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
    let collector = Collector::start_with_tls(&authority.issue().unwrap()).await.unwrap();
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

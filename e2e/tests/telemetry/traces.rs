//! Traces and logs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use anyhow::Result;
use e2e::{
    certificates::Authority,
    kubelet::Kubelets,
    network::free_port,
    operator::Operator,
    wait::{stays, until},
    world::{SOON, World},
};
use serde_json::Value;

use crate::{
    NODES, OS_WINDOWS, POOL,
    collector::{Collector, Span},
    guard, nodes,
};

/// Sends spans soon, so that a test need not wait for a full batch.
const AT_ONCE: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "100");

fn children<'a>(spans: &'a [Span], parent: &'a Span) -> impl Iterator<Item = &'a Span> {
    spans.iter().filter(|span| span.parent == parent.id && span.trace == parent.trace)
}

#[tokio::test]
async fn a_pass_is_a_trace_from_the_watch_event_to_each_request() {
    let world = World::start().await.unwrap();
    let _kubelets = Kubelets::start(world.client.clone(), nodes()).await.unwrap();
    let collector = Collector::start().await.unwrap();
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()), AT_ONCE];
    let arguments = ["--log-format", "json", "--log", "info,winpool=debug"];
    let operator = Operator::start(&world.control_plane, &arguments, &environment).await.unwrap();
    guard(&world).await;

    // A span arrives when it ends, and a pass ends after all that is under it.
    let passes = || async {
        let spans = collector.spans();
        let passes = spans.iter().filter(|span| span.name == "pass" && span.attribute("object") == POOL);
        let wrote = |pass: &&Span| children(&spans, pass).any(|span| span.attribute("operation") == "patch-node");
        Ok((passes.filter(wrote).cloned().collect::<Vec<_>>(), spans.clone()))
    };
    let (passes, spans) = until("the pass arrives", SOON, passes, |(passes, _)| !passes.is_empty()).await.unwrap();
    let pass = &passes[0];
    assert_eq!(pass.attribute("controller"), "pool");
    let watch = spans.iter().find(|span| span.id == pass.parent).unwrap();
    assert_eq!((watch.name.as_str(), watch.parent.as_str(), &watch.trace), ("watch", "", &pass.trace));
    assert!(pass.attribute("trigger").contains(watch.attribute("name")), "{watch:#?} {pass:#?}");

    let below: Vec<&Span> = children(&spans, pass).collect();
    let names: BTreeSet<&str> = below.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["gather", "plan", "status", "write"].into());
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

    // The last spans are sent before the end, and the log leads to the traces.
    assert!(operator.stop().await.unwrap().success());
    let traces: BTreeSet<String> = collector.spans().into_iter().map(|span| span.trace).collect();
    let log = operator.log().unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let traced: Vec<&str> = lines.iter().filter_map(|line| line["trace_id"].as_str()).collect();
    assert!(traced.contains(&pass.trace.as_str()), "the pass is in the log:\n{log}");
    assert!(traced.iter().all(|trace| traces.contains(*trace)), "each leads to a trace that was sent");
    for line in &lines {
        assert!(line["timestamp"].is_string() && line["level"].is_string() && line["target"].is_string(), "{line}");
    }
    world.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn a_collector_that_is_away_disturbs_neither_the_work_nor_the_end() {
    let world = World::start().await.unwrap();
    let _kubelets = Kubelets::start(world.client.clone(), nodes()).await.unwrap();
    let nobody = format!("http://127.0.0.1:{}", free_port().unwrap());
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", nobody.as_str()), AT_ONCE];
    let operator = Operator::start(&world.control_plane, &[], &environment).await.unwrap();
    guard(&world).await;
    world.until_quiet().await.unwrap();
    assert!(operator.stop().await.unwrap().success(), "{}", operator.log().unwrap());
    world.nothing_was_forbidden().unwrap();
}

/// The ports at the other end of a process's TCP connections, and how many other sockets it has beside its listeners.
fn connections(pid: u32) -> Result<(BTreeSet<u16>, usize)> {
    let mut tcp = BTreeMap::new();
    for table in ["tcp", "tcp6"] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}"))?;
        // A line: number, local address:port, remote address:port, …, inode in the tenth column; numbers are hexadecimal.
        for line in text.lines().skip(1) {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let port =
                |address: &str| Ok::<_, anyhow::Error>(u16::from_str_radix(address.rsplit(':').next().unwrap(), 16)?);
            tcp.insert(columns[9].to_owned(), (port(columns[1])?, port(columns[2])?));
        }
    }
    let (mut remote, mut other) = (BTreeSet::new(), 0);
    for descriptor in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let Ok(target) = fs::read_link(descriptor?.path()) else { continue };
        let target = target.display().to_string();
        let Some(inode) = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')) else { continue };
        match tcp.get(inode) {
            // A listener has no other end.
            Some((_, 0)) => {}
            Some((_, port)) => {
                remote.insert(*port);
            }
            None => other += 1,
        }
    }
    Ok((remote, other))
}

#[tokio::test]
async fn traces_go_over_tls_to_a_collector_that_the_system_trusts() {
    let world = World::start().await.unwrap();
    let authority = Authority::new().unwrap();
    let collector = Collector::start_with_tls(&authority.issue().unwrap()).await.unwrap();
    let trusted = authority.file();
    let environment =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()), ("SSL_CERT_FILE", trusted.to_str().unwrap()), AT_ONCE];
    let operator = Operator::start(&world.control_plane, &[], &environment).await.unwrap();
    world.apply_pool(POOL, "ltsc2022", OS_WINDOWS).await.unwrap();
    let passes = || async { Ok(collector.spans().iter().filter(|span| span.name == "pass").count()) };
    until("a pass arrives", SOON, passes, |count| *count > 0).await.unwrap();
    assert!(operator.stop().await.unwrap().success());
}

#[tokio::test]
async fn without_an_endpoint_the_operator_connects_to_the_api_server_alone() {
    let world = World::start().await.unwrap();
    let _kubelets = Kubelets::start(world.client.clone(), nodes()).await.unwrap();
    // Whoever sets only these has asked for nothing to be sent.
    let environment = [("OTEL_SERVICE_NAME", "somebody"), AT_ONCE];
    let operator = Operator::start(&world.control_plane, &[], &environment).await.unwrap();
    let api_server: u16 = world.control_plane.url().rsplit(':').next().unwrap().parse().unwrap();
    let pid = operator.process().pid();
    let (_, sockets_before) = connections(pid).unwrap();
    let work = guard(&world);
    let watch = stays(
        "it is connected to the API server alone",
        Duration::from_secs(5),
        || async { connections(pid) },
        |(remote, other)| remote.iter().all(|port| *port == api_server) && *other <= sockets_before,
    );
    let ((), watched) = tokio::join!(work, watch);
    watched.unwrap();
    assert_eq!(connections(pid).unwrap().0, [api_server].into());
    let log = operator.log().unwrap();
    assert!(!log.contains("trace_id"), "without traces there are no ids of them:\n{log}");
    world.nothing_was_forbidden().unwrap();
}

//! /livez, /readyz and /metrics.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::{
    cluster::{Cluster, SOON},
    install::install_crds,
    kubelet::SimulatedNode,
    operator::Operator,
    wait::{eventually, until},
};
use kube::api::DeleteParams;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::{NODES, POOL, apply_pool, nodes};

#[tokio::test]
async fn readyz_names_the_kinds_without_crds_and_is_ready_when_they_are_installed() {
    let cluster = Cluster::start().await.unwrap();
    cluster.delete_crds().unwrap();
    let operator = Operator::spawn(&cluster.control_plane, &[], &[]).unwrap();

    let missing = "WindowsNodePool, WindowsRuntimeProfile";
    let readyz = || operator.get("/readyz");
    let waits = |(status, text): &(u16, String)| *status == 503 && text.trim_end().ends_with(&format!(": {missing}"));
    until("readyz names what is missing", SOON, readyz, waits).await.unwrap();
    assert_eq!(operator.get("/livez").await.unwrap().0, 200, "it is live although not ready");
    let logged = || async {
        let log = operator.log()?;
        ensure!(log.contains("kubectl apply -k crds/"), "{log}");
        Ok(())
    };
    eventually("the log contains the remedy", SOON, logged).await.unwrap();

    install_crds(&cluster.control_plane).unwrap();
    operator.wait_ready(SOON).await.unwrap();
    let _kubelets = cluster.start_kubelets(nodes()).await.unwrap();
    apply_pool(&cluster).await;
    assert_eq!(operator.get("/nothing").await.unwrap().0, 404);
}

/// Parses metrics in the Prometheus text format, and returns the samples as `name{labels}` and value.
fn samples(page: &str) -> Result<Vec<(String, f64)>> {
    let mut samples = Vec::new();
    for line in page.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let word = comment.split(' ').next().unwrap_or_default();
            ensure!(["HELP", "TYPE"].contains(&word), "{line}");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').ok_or_else(|| anyhow::anyhow!("{line}"))?;
        let name = series.split('{').next().unwrap_or_default();
        ensure!(name.starts_with("winpool_") && series.matches('{').count() <= 1, "{line}");
        samples.push((series.to_owned(), value.parse()?));
    }
    Ok(samples)
}

/// Every condition in the status of the pool has one series with 1, for its status and reason.
async fn assert_conditions(cluster: &Cluster, samples: &[(String, f64)]) {
    let status = cluster.pool(POOL).await.unwrap()["status"].clone();
    let mut expected: Vec<String> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| {
            let part = |field: &str| condition[field].as_str().unwrap();
            let status = part("status").to_lowercase();
            format!(
                "winpool_pool_condition{{pool=\"{POOL}\",condition=\"{}\",status=\"{status}\",reason=\"{}\"}}",
                part("type"),
                part("reason")
            )
        })
        .collect();
    let of_conditions = |(name, _): &&(String, f64)| name.starts_with("winpool_pool_condition{");
    assert_eq!(samples.iter().filter(of_conditions).count(), expected.len() * 3);
    let mut present: Vec<String> =
        samples.iter().filter(of_conditions).filter(|(_, value)| *value > 0.5).map(|(name, _)| name.clone()).collect();
    present.sort();
    expected.sort();
    assert_eq!(present, expected);
}

#[tokio::test]
async fn metrics_count_reconciles_operations_caches_and_the_nodes_of_each_pool() {
    let cluster = Cluster::start().await.unwrap();
    let lonely = SimulatedNode::windows("lonely", "10.0.17763.1");
    let all = nodes().into_iter().chain([lonely, SimulatedNode::linux("linux")]).collect();
    let kubelets = cluster.start_kubelets(all).await.unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    apply_pool(&cluster).await;
    cluster.until_idle().await.unwrap();

    let page = operator.metrics().await.unwrap();
    let read = samples(&page).unwrap();
    let value = |series: &str| {
        let found = read.iter().find(|(name, _)| name == series);
        found.unwrap_or_else(|| panic!("{series} is not in\n{page}")).1
    };
    #[allow(clippy::cast_precision_loss)]
    let count = NODES.len() as f64;
    for (series, expected) in [
        ("winpool_operations_total{operation=\"patch-node\",result=\"done\"}", count),
        ("winpool_operations_total{operation=\"apply-runtime-class\",result=\"done\"}", 1.0),
        ("winpool_cache_objects{kind=\"Node\"}", count + 1.0),
        ("winpool_cache_objects{kind=\"WindowsNodePool\"}", 1.0),
        ("winpool_cache_objects{kind=\"WindowsRuntimeProfile\"}", 0.0),
        ("winpool_nodes{pool=\"web\",state=\"matched\"}", count),
        ("winpool_nodes{pool=\"web\",state=\"ready\"}", count),
        ("winpool_nodes{pool=\"web\",state=\"tainted\"}", count),
        ("winpool_nodes{pool=\"web\",state=\"mismatched\"}", 0.0),
        ("winpool_nodes{pool=\"web\",state=\"ready_untainted\"}", 0.0),
        ("winpool_node_ready_before_taint_seconds_count{pool=\"web\"}", count),
        ("winpool_holds{pool=\"web\",reason=\"WouldEvict\"}", 0.0),
        ("winpool_queue_depth{controller=\"pool\"}", 0.0),
        ("winpool_leader", 1.0),
        ("winpool_unassigned_nodes", 1.0),
        ("winpool_pods{pool=\"web\",state=\"matched\"}", 0.0),
        ("winpool_registry_images{state=\"pending\"}", 0.0),
        ("winpool_pool_condition{pool=\"web\",condition=\"Ready\",status=\"true\",reason=\"AsSpecified\"}", 1.0),
        ("winpool_pool_condition{pool=\"web\",condition=\"Ready\",status=\"false\",reason=\"AsSpecified\"}", 0.0),
        ("winpool_pool_condition{pool=\"web\",condition=\"SpecValid\",status=\"true\",reason=\"Valid\"}", 1.0),
    ] {
        assert!((value(series) - expected).abs() < f64::EPSILON, "{series} is {}, not {expected}", value(series));
    }
    assert_conditions(&cluster, &read).await;
    assert!(value("winpool_pool_support_end_timestamp_seconds{pool=\"web\"}") > 1_700_000_000.0);
    assert!(value("winpool_api_requests_total{verb=\"patch\",code=\"200\"}") >= count);
    assert!(value("winpool_api_requests_total{verb=\"watch\",code=\"200\"}") >= 5.0);
    assert!(value("winpool_reconciles_total{controller=\"pool\",outcome=\"changed\"}") >= 1.0);
    assert!(value("winpool_reconcile_duration_seconds_count{controller=\"pool\"}") >= 1.0);

    kubelets.set_ready(NODES[0], false).await.unwrap();
    let ready = async || operator.metric("winpool_nodes", &[("pool", POOL), ("state", "ready")]).await;
    until("it is counted as not ready", SOON, ready, |ready| (*ready - (count - 1.0)).abs() < f64::EPSILON)
        .await
        .unwrap();

    cluster.pools().delete(POOL, &DeleteParams::default()).await.unwrap();
    let of_pool = async || Ok(operator.metrics().await?.contains(&format!("pool=\"{POOL}\"")));
    until("the metrics of the pool are removed", SOON, of_pool, |found| !found).await.unwrap();
    cluster.nothing_was_forbidden().unwrap();
}

/// The maximum resident memory for connections, in bytes. The limit of the Deployment is 512 MiB.
const COST: u64 = 64 << 20;

#[tokio::test]
async fn sixteen_hundred_slow_clients_cost_little_memory_and_block_no_other() {
    let cluster = Cluster::start().await.unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    let before = operator.resident_bytes().unwrap();
    let head = format!("GET /livez HTTP/1.1\r\nx: {}", "a".repeat(15_000));
    let mut slow = Vec::new();
    for _ in 0..1600 {
        let mut stream = TcpStream::connect(operator.admin_address()).await.unwrap();
        // An error means that the connection was already closed.
        let _ = stream.write_all(head.as_bytes()).await;
        slow.push(stream);
    }
    for path in ["/livez", "/readyz", "/metrics"] {
        let answer = tokio::time::timeout(Duration::from_secs(30), operator.get(path)).await;
        assert_eq!(answer.unwrap().unwrap().0, 200, "{path} is answered");
    }
    let after = operator.resident_bytes().unwrap();
    eprintln!("{} KiB before, {} KiB with 1600 slow clients", before >> 10, after >> 10);
    assert!(after.saturating_sub(before) < COST, "{before} bytes became {after}");

    let open = || async {
        let blocks = |stream: &&TcpStream| {
            let read = stream.try_read(&mut [0; 256]);
            read.is_ok_and(|read| read > 0) || read_blocks(stream)
        };
        Ok(slow.iter().filter(blocks).count())
    };
    until("the last of them are closed", SOON, open, |open| *open == 0).await.unwrap();
}

fn read_blocks(stream: &TcpStream) -> bool {
    stream.try_read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

//! The alerts and the dashboard, with the programs of Prometheus and the metrics of a running operator.

use std::{collections::BTreeSet, net::SocketAddr};

use anyhow::ensure;
use e2e::{
    cluster::{Cluster, SOON},
    network::free_port,
    prometheus::{Prometheus, panels, promtool, rules},
    wait::{eventually, until},
};
use serde_json::Value;

use super::{AT_ONCE, apply_pool, collector::Collector, nodes};

#[test]
fn promtool_accepts_the_rules() {
    let output = promtool(&["check", "rules", "rules.yaml"], "").unwrap();
    assert!(output.contains("SUCCESS"), "{output}");
}

#[test]
fn every_alert_fires_in_its_test_and_not_before_its_time() {
    let output = promtool(&["test", "rules", "alerts_test.yaml"], "").unwrap();
    assert!(output.contains("SUCCESS"), "{output}");
}

/// The names of winpool's metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let is_name = |one: char| one.is_ascii_lowercase() || one == '_';
    text.split(|one| !is_name(one)).filter(|name| name.starts_with("winpool_")).collect()
}

#[tokio::test]
async fn the_metrics_pass_the_check_of_promtool_and_answer_every_query_of_alerts_and_dashboard() {
    let cluster = Cluster::start().await.unwrap();
    let collector = Collector::start().unwrap();
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()), AT_ONCE];
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let secure = ["--secure-address", &metrics.to_string()];
    let operator = cluster.start_operator(&secure, &environment).await.unwrap();
    let prometheus = Prometheus::start(&cluster, metrics).await.unwrap();
    let _kubelets = cluster.start_kubelets(nodes()).await.unwrap();
    apply_pool(&cluster).await;

    let rules = rules().unwrap();
    let has_all = |page: &String| names(&rules).is_subset(&names(page));
    let page = until("the metrics of the alerts are exposed", SOON, || operator.metrics(), has_all).await.unwrap();
    promtool(&["check", "metrics"], &page).unwrap();

    let panels = panels("10s").unwrap();
    assert!(panels.len() > 15);
    for panel in &panels {
        for query in &panel.queries {
            let answered = || async {
                let series = prometheus.query(query).await?;
                ensure!(!series.is_empty(), "no series");
                Ok(())
            };
            eventually(&format!("{} has data: {query}", panel.title), SOON, answered).await.unwrap();
        }
    }
    let traced = "/api/v1/query_exemplars?query=winpool_reconcile_duration_seconds_bucket&start=0&end=9999999999";
    let exemplars = || async { Ok(prometheus.get(traced).await?.to_string()) };
    let exemplars =
        until("durations have exemplars", SOON, exemplars, |found| found.contains("trace_id")).await.unwrap();
    let sent = || async { Ok(collector.spans().iter().any(|span| exemplars.contains(&span.trace))) };
    until("an exemplar names a trace that was sent", SOON, sent, |sent| *sent).await.unwrap();

    let alerts = || async { Ok(prometheus.get("/api/v1/rules").await?["groups"][0]["rules"].take()) };
    let is_inactive = |rule: &Value| rule["health"] == "ok" && rule["state"] == "inactive";
    let are_inactive = |rules: &Value| rules.as_array().is_some_and(|rules| rules.iter().all(is_inactive));
    let rules = until("no alert is active", SOON, alerts, are_inactive).await.unwrap();
    assert_eq!(rules.as_array().map(Vec::len), Some(12));
}

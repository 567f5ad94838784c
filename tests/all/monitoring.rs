//! The alerts and the dashboard in `config/`: they use metrics of the operator, and every alert has a test and a runbook.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use regex::Regex;
use serde_json::Value;
use winpool::admin::{Metrics, PoolReport, ReconcileOutcome};
use winpool_api::{NodeCounts, facts::Minor};
use winpool_core::workload::{AffectedWorkloads, IssueKind, LookupCounts, PoolWorkloads};

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path))
        .unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&read(path)).unwrap()
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a string"))
}

fn alerts() -> Vec<Value> {
    let rules = yaml("config/prometheus/rules.yaml");
    array(&rules["spec"]["groups"]).iter().flat_map(|group| array(&group["rules"])).cloned().collect()
}

/// The sections of a page by their headings of the second level.
fn sections(page: &str) -> BTreeMap<&str, &str> {
    page.split("\n## ").skip(1).filter_map(|section| section.split_once('\n')).collect()
}

#[test]
fn every_alert_has_a_severity_a_summary_a_description_and_a_runbook() {
    let page = read("docs/runbooks.md");
    let sections = sections(&page);
    let alerts = alerts();
    for alert in &alerts {
        let (name, annotations) = (text(&alert["alert"]), &alert["annotations"]);
        assert!(["critical", "warning"].contains(&text(&alert["labels"]["severity"])), "{name}");
        assert!(!text(&annotations["summary"]).is_empty() && text(&annotations["description"]).len() > 60, "{name}");
        let url = format!("{}/blob/main/docs/runbooks.md#{}", env!("CARGO_PKG_REPOSITORY"), name.to_lowercase());
        assert_eq!(text(&annotations["runbook_url"]), url, "{name}");
        let section = sections.get(name).unwrap_or_else(|| panic!("docs/runbooks.md has no section {name}"));
        for part in ["**What it means.** ", "**What to look at.** ", "**What to do.** ", "```sh\n"] {
            assert!(section.contains(part), "{name} in docs/runbooks.md lacks {part}");
        }
    }
    let names: BTreeSet<&str> = alerts.iter().map(|alert| text(&alert["alert"])).collect();
    assert_eq!(sections.into_keys().collect::<BTreeSet<_>>(), names);
}

#[test]
fn every_alert_fires_in_a_test_of_promtool() {
    let tests = yaml("e2e/prometheus/alerts_test.yaml");
    let cases = array(&tests["tests"]).iter().flat_map(|test| array(&test["alert_rule_test"]));
    let fires = cases.filter(|case| !array(&case["exp_alerts"]).is_empty()).map(|case| text(&case["alertname"]));
    let alerts = alerts();
    assert_eq!(
        fires.collect::<BTreeSet<_>>(),
        alerts.iter().map(|alert| text(&alert["alert"])).collect::<BTreeSet<_>>()
    );
}

/// The page of an operator in which every metric has a series.
fn page() -> String {
    let metrics = Metrics::default();
    metrics.controller("pool", || 0);
    metrics.reconcile("pool", ReconcileOutcome::Changed, 0.1, None);
    metrics.operation("patch-node", "done");
    metrics.api_request("get", Some(200), 0.1);
    metrics.cache_objects.set("Node", 1);
    metrics.oversized_objects.set("Node", 1);
    metrics.synced("Node", true);
    metrics.watch_activity.set("Node", 1);
    metrics.task_restarts.add("workloads");
    metrics.images(LookupCounts::default());
    metrics.refused_claims.set("RecordNotVerified", 0);
    metrics.ready_before_taint("web", 0.0);
    metrics.node_config_rollback("web", "NotHealthy");
    let issues = [(IssueKind::Unschedulable, AffectedWorkloads { count: 1, first: Vec::new() })];
    let report = PoolReport {
        nodes: NodeCounts::default(),
        ready_untainted: 0,
        holds: vec![("WouldEvict", 1)],
        conditions: vec![["Ready", "True", "AsSpecified"].map(str::to_owned)],
        support_end: Some("2031-10-14".parse().unwrap()),
        newest_minor: Some(Minor(36)),
        workloads: Some(PoolWorkloads { issues: issues.into(), ..PoolWorkloads::default() }.into()),
        known_issues: vec![(["CVE-2023-3676", "high", "reported"], 1)],
        node_configs: vec![("Applied", 1)],
        rollout_failures: vec![("RolledBack", 1)],
        rollout_start: Some(1),
    };
    metrics.pool("web", report);
    metrics.text()
}

/// The names of the labels of every metric.
fn exposed() -> BTreeMap<String, BTreeSet<String>> {
    let (sample, label) = (Regex::new(r"^([a-z_]+)(?:\{(.*)\})? ").unwrap(), Regex::new(r#"([a-z_]+)=""#).unwrap());
    let page = page();
    let samples = page.lines().filter(|line| !line.starts_with('#')).map(|line| sample.captures(line).expect(line));
    samples
        .map(|parts| {
            let labels = parts.get(2).map_or("", |labels| labels.as_str());
            (parts[1].to_owned(), label.captures_iter(labels).map(|label| label[1].to_owned()).collect())
        })
        .collect()
}

/// The queries of the alerts and of the dashboard.
fn queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read("config/grafana/winpool.json")).unwrap();
    let targets = array(&dashboard["panels"]).iter().flat_map(|panel| array(&panel["targets"]));
    let of_panels = targets.map(|target| text(&target["expr"]).to_owned());
    of_panels.chain(alerts().iter().map(|alert| text(&alert["expr"]).to_owned())).collect()
}

#[test]
fn alerts_and_dashboard_use_only_metrics_and_labels_of_the_operator() {
    let exposed = exposed();
    let metric = Regex::new(r"(winpool_[a-z_]+)(?:\{([^}]*)\})?").unwrap();
    let matcher = Regex::new(r#"([a-z_]+)\s*(?:=~|!~|!=|=)\s*""#).unwrap();
    let grouping = Regex::new(r"\bby \(([^)]*)\)").unwrap();
    let queries = queries();
    assert!(queries.len() > 25);
    for query in &queries {
        let mut labels = BTreeSet::new();
        for parts in metric.captures_iter(query) {
            let known = exposed.get(&parts[1]).unwrap_or_else(|| panic!("no metric {} of: {query}", &parts[1]));
            for used in matcher.captures_iter(parts.get(2).map_or("", |matchers| matchers.as_str())) {
                assert!(known.contains(&used[1]), "{} has no label {}: {query}", &parts[1], &used[1]);
            }
            labels.extend(known);
        }
        for used in
            grouping.captures_iter(query).flat_map(|parts| parts[1].split(", ").map(str::to_owned).collect::<Vec<_>>())
        {
            assert!(labels.contains(&used), "no label {used}: {query}");
        }
    }
}

#[test]
fn panels_do_not_overlap_and_have_their_own_ids() {
    let dashboard: Value = serde_json::from_str(&read("config/grafana/winpool.json")).unwrap();
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in array(&dashboard["panels"]) {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|field| panel["gridPos"][field].as_u64().unwrap());
        assert!(x + w <= 24, "{panel}");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "{} overlaps another panel", panel["title"]);
        }
    }
}

#[test]
fn every_metric_of_the_operator_is_documented() {
    let page = read("docs/status.md") + &read("docs/facts.md");
    let suffixes = ["_bucket", "_sum", "_count"];
    for name in exposed().into_keys().filter(|name| name != "winpool_build_info") {
        let family = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(&name);
        assert!(page.contains(&format!("`{family}")), "{family} is in neither docs/status.md nor docs/facts.md");
    }
}

//! The metrics of pools, from the report of each. The series of a deleted pool go with its report.
//!
//! Conditions have the form of kube-state-metrics (`internal/store/deployment.go`, kube_deployment_status_condition): one
//! series for each status, with 1 for the present one, and the present reason.

use std::{collections::BTreeMap, fmt, sync::Arc};

use jiff::{ToSpan as _, civil::Date};
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::DescriptorEncoder,
    metrics::{MetricType, exemplar::Exemplar},
    registry::Unit,
};
use winpool_api::NodeCounts;
use winpool_facts::Minor;
use winpool_rules::capacity::Capacity;
use winpool_workload::PoolWorkloads;

use super::facts::seconds;

/// The statuses of a condition, as in the API and as label.
const STATUSES: [(&str, &str); 3] = [("True", "true"), ("False", "false"), ("Unknown", "unknown")];

/// What the last reconcile of a pool reported.
#[derive(Clone, Debug, Default)]
pub struct PoolReport {
    pub nodes: NodeCounts,
    /// The number of nodes that are Ready without the taints of the pool, which writes.
    pub ready_untainted: usize,
    /// The number of changes that are held, by reason.
    pub holds: Vec<(&'static str, usize)>,
    /// Type, status and reason of each condition.
    pub conditions: Vec<[String; 3]>,
    /// The last day with security updates for the Windows of the pool, if it is known.
    pub support_end: Option<Date>,
    /// The newest minor of a kubelet, if one is known.
    pub newest_minor: Option<Minor>,
    /// The workloads, if they are checked.
    pub workloads: Option<Arc<PoolWorkloads>>,
    /// What the nodes have left for pods, if the pods are known.
    pub capacity: Option<Capacity>,
    /// The number of nodes by id, severity and state of known issues.
    pub known_issues: Vec<([&'static str; 3], usize)>,
    /// The number of endpoints of HNS by node, as agents report them.
    pub hns_endpoints: Vec<(String, usize)>,
    /// The number of nodes by the problem of HNS that their agents report.
    pub hns_problems: Vec<(&'static str, usize)>,
    /// The number of WindowsNodeConfigs by phase. A pool without agents has none.
    pub node_configs: Vec<(&'static str, usize)>,
    /// The number of nodes where the desired configuration failed, by kind of failure. A pool without agents has none.
    pub rollout_failures: Vec<(&'static str, usize)>,
    /// When the first node of a rollout that has not ended began, in seconds since 1970.
    pub rollout_start: Option<i64>,
}

#[derive(Debug, Default)]
pub(super) struct Pools(Mutex<BTreeMap<String, PoolSeries>>);

#[derive(Debug, Default)]
struct PoolSeries {
    report: PoolReport,
    /// The number of rollbacks by the reason of the agent.
    rollbacks: BTreeMap<&'static str, u64>,
}

impl Pools {
    pub(super) fn set(&self, pool: &str, report: PoolReport) {
        self.0.lock().entry(pool.to_owned()).or_default().report = report;
    }

    pub(super) fn add_rollback(&self, pool: &str, reason: &'static str) {
        *self.0.lock().entry(pool.to_owned()).or_default().rollbacks.entry(reason).or_default() += 1;
    }

    pub(super) fn remove(&self, pool: &str) {
        self.0.lock().remove(pool);
    }
}

/// The labels of a series besides `pool`, and its value.
type Series = (Vec<(&'static str, String)>, i64);

/// A family of gauges: its name, its help, its unit, and the series of a pool.
type Family = (&'static str, &'static str, Option<Unit>, fn(&PoolReport) -> Vec<Series>);

const FAMILIES: &[Family] = &[
    ("pool_condition", "The conditions of a pool: 1 for the present status", None, conditions),
    (
        "pool_support_end_timestamp",
        "When Microsoft ends the support of the pool's Windows, in seconds since 1970",
        Some(Unit::Seconds),
        support_end,
    ),
    ("pool_newest_kubelet_minor", "The newest minor of Kubernetes 1 of the kubelets of a pool", None, |report| {
        report.newest_minor.map(|minor| (Vec::new(), minor.0.into())).into_iter().collect()
    }),
    ("nodes", "Nodes of a pool, by state; a node can have several states", None, |report| {
        by("state", states(&report.nodes).into_iter().chain([("ready_untainted", report.ready_untainted)]))
    }),
    ("holds", "Changes that a pool holds, by reason", None, |report| by("reason", report.holds.iter().copied())),
    ("pods", "Pods on the nodes of a pool or waiting for them, by what is known about their images", None, pods),
    ("pod_capacity", "Pods that the schedulable nodes of a pool have room for, by state", None, capacity),
    ("workload_issues", "Workloads of a pool with an issue; for MemoryOvercommitted the nodes", None, issues),
    (
        "known_issues",
        "Nodes of a pool with a known issue, by state: reported, acknowledged, unreported or undetermined",
        None,
        known_issues,
    ),
    ("hns_endpoints", "Endpoints of the host network service on a node, as its agent reports them", None, |report| {
        let series = |(node, count): &(String, usize)| (vec![("node", node.clone())], number(*count));
        report.hns_endpoints.iter().map(series).collect()
    }),
    ("hns_problems", "Nodes of a pool with a problem of the host network service, by problem", None, |report| {
        by("problem", report.hns_problems.iter().copied())
    }),
    ("node_configs", "WindowsNodeConfigs of a pool, by phase", None, |report| {
        by("phase", report.node_configs.iter().copied())
    }),
    ("rollout_failures", "Nodes where the desired configuration failed", None, |report| {
        by("reason", report.rollout_failures.iter().copied())
    }),
    (
        "rollout_start_timestamp",
        "When the first node of a rollout that has not ended began, in seconds since 1970",
        Some(Unit::Seconds),
        |report| report.rollout_start.map(|start| (Vec::new(), start)).into_iter().collect(),
    ),
];

fn by(label: &'static str, counts: impl IntoIterator<Item = (&'static str, usize)>) -> Vec<Series> {
    let series = |(value, count): (&str, usize)| (vec![(label, value.to_owned())], number(count));
    counts.into_iter().map(series).collect()
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn conditions(report: &PoolReport) -> Vec<Series> {
    let series = |[condition, present, reason]: &[String; 3]| {
        STATUSES.map(|(status, label)| {
            let labels = [("condition", condition.as_str()), ("status", label), ("reason", reason.as_str())];
            (labels.map(|(name, value)| (name, value.to_owned())).to_vec(), i64::from(present == status))
        })
    };
    report.conditions.iter().flat_map(series).collect()
}

/// Support includes its last day.
fn support_end(report: &PoolReport) -> Vec<Series> {
    let end = report.support_end.and_then(|last| last.checked_add(1.day()).ok());
    end.map(|end| (Vec::new(), seconds(end))).into_iter().collect()
}

fn pods(report: &PoolReport) -> Vec<Series> {
    let Some(workloads) = report.workloads.as_deref() else { return Vec::new() };
    let PoolWorkloads { pods, cannot_run, suspected, unknown, updates_behind, .. } = *workloads;
    let counts = [
        ("matched", pods),
        ("cannot_run", cannot_run),
        ("suspected", suspected),
        ("unknown", unknown),
        ("updates_behind", updates_behind),
    ];
    by("state", counts.map(|(state, count)| (state, count as usize)))
}

fn capacity(report: &PoolReport) -> Vec<Series> {
    let Some(capacity) = &report.capacity else { return Vec::new() };
    let largest = capacity.largest.as_ref().map(|largest| ("largest", largest.fits));
    let counts = [("limit", capacity.allocatable.pods), ("used", capacity.used)].into_iter().chain(largest);
    counts.map(|(state, count)| (vec![("state", state.to_owned())], count)).collect()
}

fn issues(report: &PoolReport) -> Vec<Series> {
    let Some(workloads) = report.workloads.as_deref() else { return Vec::new() };
    by("issue", workloads.issues.iter().map(|(kind, affected)| (kind.name(), affected.count)))
}

fn known_issues(report: &PoolReport) -> Vec<Series> {
    let series = |([issue, severity, state], nodes): &([&'static str; 3], usize)| {
        let labels = [("issue", *issue), ("severity", *severity), ("state", *state)];
        (labels.map(|(name, value)| (name, value.to_owned())).to_vec(), number(*nodes))
    };
    report.known_issues.iter().map(series).collect()
}

fn states(counts: &NodeCounts) -> [(&'static str, usize); 9] {
    let NodeCounts { matched, ready, tainted, configured, mismatched, skewed, behind, contested, pending } = *counts;
    [
        ("matched", matched),
        ("ready", ready),
        ("tainted", tainted),
        ("configured", configured),
        ("mismatched", mismatched),
        ("skewed", skewed),
        ("behind", behind),
        ("contested", contested),
        ("pending", pending),
    ]
    .map(|(state, count)| (state, count as usize))
}

impl Collector for Pools {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let pools = self.0.lock();
        for (name, help, unit, series) in FAMILIES {
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
            for (pool, PoolSeries { report, .. }) in pools.iter() {
                for (mut labels, value) in series(report) {
                    labels.insert(0, ("pool", pool.clone()));
                    family.encode_family(&labels)?.encode_gauge(&value)?;
                }
            }
        }
        let help = "Configurations that agents rolled back";
        let mut family = encoder.encode_descriptor("node_config_rollbacks", help, None, MetricType::Counter)?;
        for (pool, PoolSeries { rollbacks, .. }) in pools.iter() {
            for (reason, count) in rollbacks {
                let labels = [("pool", pool.as_str()), ("reason", reason)];
                let no_exemplar = None::<&Exemplar<[(&str, &str); 0], f64>>;
                family.encode_family(&labels)?.encode_counter(count, no_exemplar)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::{encoding::text, registry::Registry};
    use winpool_workload::{AffectedWorkloads, Amount, IssueKind};

    use super::*;

    fn samples(pools: &Arc<Pools>) -> Vec<String> {
        let mut registry = Registry::with_prefix("winpool");
        registry.register_collector(Box::new(pools.clone()));
        let mut page = String::new();
        text::encode(&mut page, &registry).unwrap();
        page.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    fn condition(name: &str, status: &str, reason: &str) -> [String; 3] {
        [name, status, reason].map(str::to_owned)
    }

    /// A report with something in every part.
    fn report() -> PoolReport {
        let issues = [(IssueKind::Unschedulable, AffectedWorkloads { count: 2, first: Vec::new() })];
        PoolReport {
            nodes: NodeCounts { matched: 3, ready: 2, ..NodeCounts::default() },
            ready_untainted: 1,
            holds: vec![("WouldEvict", 2), ("WouldStrand", 0)],
            conditions: vec![
                condition("Ready", "False", "TaintConflict"),
                condition("OSMismatch", "Unknown", "UnknownVersion"),
            ],
            support_end: Some(jiff::civil::date(2031, 10, 14)),
            newest_minor: Some(Minor(36)),
            workloads: Some(Arc::new(PoolWorkloads {
                pods: 7,
                cannot_run: 1,
                updates_behind: 3,
                issues: issues.into(),
                ..PoolWorkloads::default()
            })),
            capacity: Some(Capacity {
                allocatable: Amount { pods: 120, ..Amount::default() },
                used: 7,
                ..Capacity::default()
            }),
            known_issues: vec![(["CVE-2023-3676", "high", "reported"], 2)],
            hns_endpoints: vec![("win-1".into(), 12)],
            hns_problems: vec![("EndpointsDuplicate", 1)],
            node_configs: vec![("Applied", 2)],
            rollout_failures: vec![("RolledBack", 1)],
            rollout_start: Some(1_700_000_001),
        }
    }

    #[test]
    fn a_pool_has_series_for_conditions_support_nodes_pods_issues_and_rollouts() {
        let pools = Arc::<Pools>::default();
        pools.set("web", report());
        pools.add_rollback("web", "NotHealthy");
        pools.add_rollback("web", "NotHealthy");
        let samples = samples(&pools);
        for expected in [
            r#"winpool_known_issues{pool="web",issue="CVE-2023-3676",severity="high",state="reported"} 2"#,
            r#"winpool_pool_condition{pool="web",condition="Ready",status="true",reason="TaintConflict"} 0"#,
            r#"winpool_pool_condition{pool="web",condition="Ready",status="false",reason="TaintConflict"} 1"#,
            r#"winpool_pool_condition{pool="web",condition="Ready",status="unknown",reason="TaintConflict"} 0"#,
            r#"winpool_pool_condition{pool="web",condition="OSMismatch",status="unknown",reason="UnknownVersion"} 1"#,
            // The first second of 2031-10-15: support includes its last day.
            r#"winpool_pool_support_end_timestamp_seconds{pool="web"} 1949788800"#,
            r#"winpool_pool_newest_kubelet_minor{pool="web"} 36"#,
            r#"winpool_nodes{pool="web",state="matched"} 3"#,
            r#"winpool_nodes{pool="web",state="pending"} 0"#,
            r#"winpool_nodes{pool="web",state="ready_untainted"} 1"#,
            r#"winpool_holds{pool="web",reason="WouldEvict"} 2"#,
            r#"winpool_holds{pool="web",reason="WouldStrand"} 0"#,
            r#"winpool_pods{pool="web",state="matched"} 7"#,
            r#"winpool_pods{pool="web",state="cannot_run"} 1"#,
            r#"winpool_pod_capacity{pool="web",state="limit"} 120"#,
            r#"winpool_pod_capacity{pool="web",state="used"} 7"#,
            r#"winpool_pods{pool="web",state="updates_behind"} 3"#,
            r#"winpool_workload_issues{pool="web",issue="Unschedulable"} 2"#,
            r#"winpool_hns_endpoints{pool="web",node="win-1"} 12"#,
            r#"winpool_hns_problems{pool="web",problem="EndpointsDuplicate"} 1"#,
            r#"winpool_node_configs{pool="web",phase="Applied"} 2"#,
            r#"winpool_rollout_failures{pool="web",reason="RolledBack"} 1"#,
            r#"winpool_rollout_start_timestamp_seconds{pool="web"} 1700000001"#,
            r#"winpool_node_config_rollbacks_total{pool="web",reason="NotHealthy"} 2"#,
        ] {
            assert!(samples.iter().any(|sample| sample == expected), "{expected} is not in {samples:#?}");
        }
    }

    #[test]
    fn a_condition_has_one_series_with_1_also_after_its_reason_changed() {
        let pools = Arc::<Pools>::default();
        for reason in ["TaintConflict", "Contested"] {
            pools.set(
                "web",
                PoolReport { conditions: vec![condition("Ready", "False", reason)], ..PoolReport::default() },
            );
        }
        let samples = samples(&pools);
        let of_ready: Vec<_> = samples.iter().filter(|sample| sample.contains("condition=\"Ready\"")).collect();
        assert_eq!(of_ready.len(), 3);
        assert!(of_ready.iter().all(|sample| sample.contains("reason=\"Contested\"")), "{of_ready:?}");
    }

    #[test]
    fn a_pool_without_agents_rollout_and_checked_workloads_has_no_such_series() {
        let pools = Arc::<Pools>::default();
        pools.set("web", PoolReport::default());
        let samples = samples(&pools);
        assert!(samples.iter().all(|sample| sample.starts_with("winpool_nodes{")), "{samples:#?}");
    }
}

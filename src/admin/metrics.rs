//! The metrics of the operator.
//!
//! The label values are constants, except the names of pools, which are few.

use std::sync::Arc;

use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::{Registry, Unit},
};

use crate::{
    api::{NodeConfigPhase, NodeCounts},
    domain::pool::rollout::FailureReason,
};

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReconcileOutcome {
    /// Nothing had to be written.
    Unchanged,
    /// Something was written.
    Changed,
    /// A change is held until an administrator allows it.
    Held,
    /// A request failed, or the reconcile panicked.
    Failed,
}

impl ReconcileOutcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Changed => "changed",
            Self::Held => "held",
            Self::Failed => "failed",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReconcileLabels {
    controller: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabel {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TaskLabel {
    task: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestsLabel {
    requests: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NodesLabels {
    pool: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabels {
    pool: String,
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolLabel {
    pool: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    pool: String,
    reason: &'static str,
}

type DurationByController = Family<ControllerLabel, Histogram, fn() -> Histogram>;

/// The metrics of this process. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    reconciles: Family<ReconcileLabels, Counter>,
    durations: DurationByController,
    operations: Family<OperationLabels, Counter>,
    objects: Family<KindLabel, Gauge>,
    nodes: Family<NodesLabels, Gauge>,
    node_configs: Family<PhaseLabels, Gauge>,
    rollout_failures: Family<FailureLabels, Gauge>,
    rollout_start: Family<PoolLabel, Gauge>,
    node_config_rollbacks: Family<FailureLabels, Counter>,
    unassigned: Gauge,
    watch_errors: Family<KindLabel, Counter>,
    watch_stalls: Family<KindLabel, Counter>,
    watch_activity: Family<KindLabel, Gauge>,
    synced: Family<KindLabel, Gauge>,
    task_restarts: Family<TaskLabel, Counter>,
    throttled: Family<RequestsLabel, Counter>,
    request_limit: Family<RequestsLabel, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("winpool");
        // From 1 ms, more than a reconcile without writes takes, to 16 s, for one that writes many nodes.
        let durations: DurationByController =
            Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 2.0, 15)));
        let metrics = Self {
            reconciles: family(&mut registry, "reconciles", "Reconciles of an object"),
            durations: durations.clone(),
            operations: family(&mut registry, "operations", "Requests that write to the API server"),
            objects: family(&mut registry, "cache_objects", "Objects in a cache"),
            nodes: family(&mut registry, "nodes", "Nodes of a pool, by state; a node can have several states"),
            node_configs: family(&mut registry, "node_configs", "WindowsNodeConfigs of a pool, by phase"),
            rollout_failures: family(&mut registry, "rollout_failures", "Nodes where the desired configuration failed"),
            rollout_start: Family::default(),
            node_config_rollbacks: family(
                &mut registry,
                "node_config_rollbacks",
                "Configurations that agents rolled back",
            ),
            unassigned: Gauge::default(),
            watch_errors: family(&mut registry, "watch_errors", "Interruptions of a watch"),
            watch_stalls: family(&mut registry, "watch_stalls", "Watches closed because they received no data"),
            watch_activity: Family::default(),
            synced: family(&mut registry, "cache_synced", "Whether the first list of a kind is complete"),
            task_restarts: family(&mut registry, "task_restarts", "Restarts of a task after a panic"),
            throttled: family(&mut registry, "throttled_requests", "Requests that the API server answered with 429"),
            request_limit: family(&mut registry, "request_limit", "The limit for concurrent requests"),
            registry: Arc::default(),
        };
        registry.register_with_unit("reconcile_duration", "The duration of a reconcile", Unit::Seconds, durations);
        let activity = "When a watch last received data from the API server, in seconds since 1970";
        registry.register_with_unit(
            "watch_last_activity_timestamp",
            activity,
            Unit::Seconds,
            metrics.watch_activity.clone(),
        );
        let start = "When the first node of a rollout that has not ended began, in seconds since 1970";
        registry.register_with_unit("rollout_start_timestamp", start, Unit::Seconds, metrics.rollout_start.clone());
        registry.register("unassigned_nodes", "Windows nodes in no pool", metrics.unassigned.clone());
        super::facts::register(&mut registry);
        registry.register("build", "The running version", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        Self { registry: Arc::new(registry), ..metrics }
    }
}

fn family<L, M>(registry: &mut Registry, name: &str, help: &str) -> Family<L, M>
where
    Family<L, M>: prometheus_client::registry::Metric + Default + Clone,
{
    let family = Family::<L, M>::default();
    registry.register(name, help, family.clone());
    family
}

impl Metrics {
    /// Counts a reconcile, with its duration in seconds.
    pub fn reconcile(&self, controller: &'static str, outcome: ReconcileOutcome, seconds: f64) {
        self.reconciles.get_or_create(&ReconcileLabels { controller, outcome: outcome.name() }).inc();
        self.durations.get_or_create(&ControllerLabel { controller }).observe(seconds);
    }

    /// Counts a write.
    pub fn operation(&self, operation: &'static str, result: &'static str) {
        self.operations.get_or_create(&OperationLabels { operation, result }).inc();
    }

    /// Sets the number of objects in a cache.
    pub fn cache(&self, kind: &'static str, objects: usize) {
        self.objects.get_or_create(&KindLabel { kind }).set(i64::try_from(objects).unwrap_or(i64::MAX));
    }

    /// Counts an interruption of a watch.
    pub fn watch_error(&self, kind: &'static str) {
        self.watch_errors.get_or_create(&KindLabel { kind }).inc();
    }

    /// Counts a watch that was closed because it received nothing.
    pub fn watch_stall(&self, kind: &'static str) {
        self.watch_stalls.get_or_create(&KindLabel { kind }).inc();
    }

    /// Sets when a watch last received data, in seconds since 1970.
    pub fn watch_activity(&self, kind: &'static str, seconds: i64) {
        self.watch_activity.get_or_create(&KindLabel { kind }).set(seconds);
    }

    /// Sets whether the first list of a kind is complete.
    pub fn synced(&self, kind: &'static str, synced: bool) {
        self.synced.get_or_create(&KindLabel { kind }).set(synced.into());
    }

    /// Counts the restart of a task.
    pub fn task_restart(&self, task: &'static str) {
        self.task_restarts.get_or_create(&TaskLabel { task }).inc();
    }

    /// Counts a request that was answered with 429.
    pub fn throttled(&self, requests: &'static str) {
        self.throttled.get_or_create(&RequestsLabel { requests }).inc();
    }

    /// Sets the limit for concurrent requests.
    pub fn request_limit(&self, requests: &'static str, limit: usize) {
        self.request_limit.get_or_create(&RequestsLabel { requests }).set(i64::try_from(limit).unwrap_or(i64::MAX));
    }

    /// Sets the numbers of nodes of a pool.
    pub fn pool_nodes(&self, pool: &str, counts: &NodeCounts) {
        for (state, count) in states(counts) {
            self.nodes.get_or_create(&NodesLabels { pool: pool.to_owned(), state }).set(count.into());
        }
    }

    /// Sets the numbers of WindowsNodeConfigs of a pool by phase, and of failures by kind. A pool without agents has no
    /// such metrics.
    pub fn rollout(&self, pool: &str, phases: [(&'static str, usize); 7], failures: [(&'static str, usize); 4]) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let has_agents = phases.iter().any(|(_, count)| *count > 0);
        for (phase, count) in phases {
            let labels = PhaseLabels { pool: pool.to_owned(), phase };
            if has_agents {
                self.node_configs.get_or_create(&labels).set(number(count));
            } else {
                self.node_configs.remove(&labels);
            }
        }
        for (reason, count) in failures {
            let labels = FailureLabels { pool: pool.to_owned(), reason };
            if has_agents {
                self.rollout_failures.get_or_create(&labels).set(number(count));
            } else {
                self.rollout_failures.remove(&labels);
            }
        }
    }

    /// Sets when the running rollout of a pool began, in seconds since 1970; without one, the pool has no such metric.
    pub fn rollout_start(&self, pool: &str, seconds: Option<i64>) {
        let label = PoolLabel { pool: pool.to_owned() };
        if let Some(seconds) = seconds {
            self.rollout_start.get_or_create(&label).set(seconds);
        } else {
            self.rollout_start.remove(&label);
        }
    }

    /// Counts a configuration that an agent rolled back.
    pub fn node_config_rollback(&self, pool: &str, reason: &'static str) {
        self.node_config_rollbacks.get_or_create(&FailureLabels { pool: pool.to_owned(), reason }).inc();
    }

    /// Removes the metrics of a deleted pool. `rollback_reasons` are all that are counted.
    pub fn remove_pool(&self, pool: &str, rollback_reasons: impl IntoIterator<Item = &'static str>) {
        self.rollout(
            pool,
            NodeConfigPhase::ALL.map(|phase| (phase.name(), 0)),
            FailureReason::KINDS.map(|kind| (kind, 0)),
        );
        self.rollout_start(pool, None);
        for reason in rollback_reasons {
            self.node_config_rollbacks.remove(&FailureLabels { pool: pool.to_owned(), reason });
        }
        for (state, _) in states(&NodeCounts::default()) {
            self.nodes.remove(&NodesLabels { pool: pool.to_owned(), state });
        }
    }

    /// Sets the number of Windows nodes in no pool.
    pub fn unassigned(&self, nodes: usize) {
        self.unassigned.set(i64::try_from(nodes).unwrap_or(i64::MAX));
    }

    /// All metrics, in the OpenMetrics text format.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = text::encode(&mut out, &self.registry);
        out
    }
}

fn states(counts: &NodeCounts) -> [(&'static str, u32); 9] {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_and_labels_of_the_metrics_are_stable() {
        let metrics = Metrics::default();
        metrics.reconcile("pool", ReconcileOutcome::Changed, 0.003);
        metrics.operation("patch-node", "ok");
        metrics.cache("nodes", 12);
        metrics.watch_error("nodes");
        metrics.watch_stall("nodes");
        metrics.watch_activity("nodes", 1_700_000_000);
        metrics.synced("nodes", true);
        metrics.task_restart("workloads");
        metrics.throttled("write");
        metrics.request_limit("write", 4);
        metrics.unassigned(2);
        metrics.pool_nodes("web", &NodeCounts { matched: 3, ready: 2, ..NodeCounts::default() });
        let phases =
            NodeConfigPhase::ALL.map(|phase| (phase.name(), usize::from(phase == NodeConfigPhase::Applied) * 2));
        metrics.rollout("web", phases, FailureReason::KINDS.map(|kind| (kind, usize::from(kind == "RolledBack"))));
        metrics.rollout_start("web", Some(1_700_000_001));
        metrics.rollout_start("batch", None);
        metrics.node_config_rollback("web", "NotHealthy");
        let text = metrics.text();
        for line in [
            "winpool_reconciles_total{controller=\"pool\",outcome=\"changed\"} 1",
            "winpool_reconcile_duration_seconds_count{controller=\"pool\"} 1",
            "winpool_reconcile_duration_seconds_bucket{le=\"0.004\",controller=\"pool\"} 1",
            "winpool_operations_total{operation=\"patch-node\",result=\"ok\"} 1",
            "winpool_cache_objects{kind=\"nodes\"} 12",
            "winpool_watch_errors_total{kind=\"nodes\"} 1",
            "winpool_watch_stalls_total{kind=\"nodes\"} 1",
            "winpool_watch_last_activity_timestamp_seconds{kind=\"nodes\"} 1700000000",
            "winpool_cache_synced{kind=\"nodes\"} 1",
            "winpool_task_restarts_total{task=\"workloads\"} 1",
            "winpool_throttled_requests_total{requests=\"write\"} 1",
            "winpool_request_limit{requests=\"write\"} 4",
            "winpool_node_configs{pool=\"web\",phase=\"Applied\"} 2",
            "winpool_rollout_failures{pool=\"web\",reason=\"RolledBack\"} 1",
            "winpool_rollout_start_timestamp_seconds{pool=\"web\"} 1700000001",
            "winpool_node_config_rollbacks_total{pool=\"web\",reason=\"NotHealthy\"} 1",
            "winpool_unassigned_nodes 2",
            "winpool_nodes{pool=\"web\",state=\"matched\"} 3",
            "winpool_nodes{pool=\"web\",state=\"ready\"} 2",
            "winpool_nodes{pool=\"web\",state=\"pending\"} 0",
            concat!("winpool_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn the_metrics_of_a_deleted_pool_are_removed() {
        let metrics = Metrics::default();
        metrics.pool_nodes("web", &NodeCounts::default());
        metrics.pool_nodes("batch", &NodeCounts::default());
        metrics.rollout(
            "web",
            NodeConfigPhase::ALL.map(|phase| (phase.name(), 1)),
            FailureReason::KINDS.map(|kind| (kind, 1)),
        );
        metrics.rollout_start("web", Some(1_700_000_001));
        metrics.node_config_rollback("web", "NotHealthy");
        metrics.remove_pool("web", ["NotHealthy", "Rebooted"]);
        let text = metrics.text();
        assert!(!text.contains("pool=\"web\"") && text.contains("pool=\"batch\""), "{text}");
    }
}

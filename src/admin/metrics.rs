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

use super::pools::{PoolReport, Pools};
use crate::domain::workload::LookupCounts;

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
struct StateLabel {
    state: &'static str,
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
    pools: Arc<Pools>,
    images: Family<StateLabel, Gauge>,
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
            pools: Arc::default(),
            images: family(&mut registry, "registry_images", "Images of pods, by the state of their registry lookup"),
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
        registry.register_collector(Box::new(metrics.pools.clone()));
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

    /// Replaces the metrics of a pool.
    pub fn pool(&self, pool: &str, report: PoolReport) {
        self.pools.set(pool, report);
    }

    /// Counts a configuration that an agent rolled back.
    pub fn node_config_rollback(&self, pool: &str, reason: &'static str) {
        self.pools.add_rollback(pool, reason);
    }

    /// Removes the metrics of a deleted pool.
    pub fn remove_pool(&self, pool: &str) {
        self.pools.remove(pool);
    }

    /// Sets the numbers of images by the state of their registry lookup.
    pub fn images(&self, counts: LookupCounts) {
        let LookupCounts { found, failed, pending } = counts;
        for (state, count) in [("found", found), ("failed", failed), ("pending", pending)] {
            self.images.get_or_create(&StateLabel { state }).set(i64::try_from(count).unwrap_or(i64::MAX));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::NodeCounts;

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
        metrics.pool(
            "web",
            PoolReport { nodes: NodeCounts { matched: 3, ..NodeCounts::default() }, ..PoolReport::default() },
        );
        metrics.images(LookupCounts { found: 5, failed: 1, pending: 0 });
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
            "winpool_registry_images{state=\"found\"} 5",
            "winpool_registry_images{state=\"failed\"} 1",
            "winpool_registry_images{state=\"pending\"} 0",
            "winpool_unassigned_nodes 2",
            "winpool_nodes{pool=\"web\",state=\"matched\"} 3",
            concat!("winpool_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}

//! What /metrics shows.
//!
//! The values of every label come from this program's own words, but for the names of pools, of which a cluster has few.

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

use crate::api::NodeCounts;

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Everything was as it should be.
    Unchanged,
    /// Something was written.
    Changed,
    /// Something waits for a person.
    Held,
    /// A request failed, or the pass itself.
    Failed,
}

impl Outcome {
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
struct Pass {
    controller: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Controller {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Task {
    task: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Requests {
    requests: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolNodes {
    pool: String,
    state: &'static str,
}

type ByController = Family<Controller, Histogram, fn() -> Histogram>;

/// The figures of this process. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    passes: Family<Pass, Counter>,
    durations: ByController,
    operations: Family<Operation, Counter>,
    objects: Family<Kind, Gauge>,
    nodes: Family<PoolNodes, Gauge>,
    unassigned: Gauge,
    watch_errors: Family<Kind, Counter>,
    watch_stalls: Family<Kind, Counter>,
    watch_activity: Family<Kind, Gauge>,
    synced: Family<Kind, Gauge>,
    task_restarts: Family<Task, Counter>,
    throttled: Family<Requests, Counter>,
    request_limit: Family<Requests, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("winpool");
        // From 1 ms to 16 s: a pass that only reads takes less than the first, one that writes many nodes the last.
        let durations: ByController =
            Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 2.0, 15)));
        let metrics = Self {
            passes: family(&mut registry, "passes", "Passes over an object"),
            durations: durations.clone(),
            operations: family(&mut registry, "operations", "Requests that write to the API server"),
            objects: family(&mut registry, "cache_objects", "Objects in a cache"),
            nodes: family(&mut registry, "nodes", "Nodes of a pool, by state; a node can be in several"),
            unassigned: Gauge::default(),
            watch_errors: family(&mut registry, "watch_errors", "Interruptions of a watch"),
            watch_stalls: family(&mut registry, "watch_stalls", "Watches closed because nothing arrived on them"),
            watch_activity: Family::default(),
            synced: family(&mut registry, "cache_synced", "Whether the first list of a kind is complete"),
            task_restarts: family(&mut registry, "task_restarts", "Restarts of a task after a defect in it"),
            throttled: family(&mut registry, "throttled_requests", "Requests that the API server answered with 429"),
            request_limit: family(&mut registry, "request_limit", "How many requests may be under way at once"),
            registry: Arc::default(),
        };
        registry.register_with_unit("pass_duration", "How long a pass took", Unit::Seconds, durations);
        let activity = "When a watch last got anything from the API server, in seconds since 1970";
        registry.register_with_unit(
            "watch_last_activity_timestamp",
            activity,
            Unit::Seconds,
            metrics.watch_activity.clone(),
        );
        registry.register("unassigned_nodes", "Windows nodes in no pool", metrics.unassigned.clone());
        super::tables::register(&mut registry);
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
    /// A pass of a controller ended, after so many seconds.
    pub fn pass(&self, controller: &'static str, outcome: Outcome, seconds: f64) {
        self.passes.get_or_create(&Pass { controller, outcome: outcome.name() }).inc();
        self.durations.get_or_create(&Controller { controller }).observe(seconds);
    }

    /// A request that writes was answered.
    pub fn operation(&self, operation: &'static str, result: &'static str) {
        self.operations.get_or_create(&Operation { operation, result }).inc();
    }

    /// A cache has so many objects.
    pub fn cache(&self, kind: &'static str, objects: usize) {
        self.objects.get_or_create(&Kind { kind }).set(i64::try_from(objects).unwrap_or(i64::MAX));
    }

    /// A watch was interrupted.
    pub fn watch_error(&self, kind: &'static str) {
        self.watch_errors.get_or_create(&Kind { kind }).inc();
    }

    /// A watch was closed because nothing arrived on it.
    pub fn watch_stall(&self, kind: &'static str) {
        self.watch_stalls.get_or_create(&Kind { kind }).inc();
    }

    /// The API server sent something over a watch, so many seconds after 1970.
    pub fn watch_activity(&self, kind: &'static str, seconds: i64) {
        self.watch_activity.get_or_create(&Kind { kind }).set(seconds);
    }

    /// Whether the first list of a kind is complete.
    pub fn synced(&self, kind: &'static str, synced: bool) {
        self.synced.get_or_create(&Kind { kind }).set(synced.into());
    }

    /// A task is started again after a defect.
    pub fn task_restart(&self, task: &'static str) {
        self.task_restarts.get_or_create(&Task { task }).inc();
    }

    /// The API server answered 429 to one of these requests.
    pub fn throttled(&self, requests: &'static str) {
        self.throttled.get_or_create(&Requests { requests }).inc();
    }

    /// So many of these requests may be under way at once.
    pub fn request_limit(&self, requests: &'static str, limit: usize) {
        self.request_limit.get_or_create(&Requests { requests }).set(i64::try_from(limit).unwrap_or(i64::MAX));
    }

    /// The nodes of a pool are in these states.
    pub fn pool_nodes(&self, pool: &str, counts: &NodeCounts) {
        for (state, count) in states(counts) {
            self.nodes.get_or_create(&PoolNodes { pool: pool.to_owned(), state }).set(count.into());
        }
    }

    /// A pool is gone, and its figures with it.
    pub fn forget_pool(&self, pool: &str) {
        for (state, _) in states(&NodeCounts::default()) {
            self.nodes.remove(&PoolNodes { pool: pool.to_owned(), state });
        }
    }

    /// So many Windows nodes are in no pool.
    pub fn unassigned(&self, nodes: usize) {
        self.unassigned.set(i64::try_from(nodes).unwrap_or(i64::MAX));
    }

    /// All figures, in the OpenMetrics text format.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = text::encode(&mut out, &self.registry);
        out
    }
}

fn states(counts: &NodeCounts) -> [(&'static str, u32); 8] {
    let NodeCounts { matched, ready, guarded, mismatched, skewed, behind, contested, pending } = *counts;
    [
        ("matched", matched),
        ("ready", ready),
        ("guarded", guarded),
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
    fn every_figure_has_the_name_and_the_labels_that_dashboards_ask_for() {
        let metrics = Metrics::default();
        metrics.pass("pool", Outcome::Changed, 0.003);
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
        let text = metrics.text();
        for line in [
            "winpool_passes_total{controller=\"pool\",outcome=\"changed\"} 1",
            "winpool_pass_duration_seconds_count{controller=\"pool\"} 1",
            "winpool_pass_duration_seconds_bucket{le=\"0.004\",controller=\"pool\"} 1",
            "winpool_operations_total{operation=\"patch-node\",result=\"ok\"} 1",
            "winpool_cache_objects{kind=\"nodes\"} 12",
            "winpool_watch_errors_total{kind=\"nodes\"} 1",
            "winpool_watch_stalls_total{kind=\"nodes\"} 1",
            "winpool_watch_last_activity_timestamp_seconds{kind=\"nodes\"} 1700000000",
            "winpool_cache_synced{kind=\"nodes\"} 1",
            "winpool_task_restarts_total{task=\"workloads\"} 1",
            "winpool_throttled_requests_total{requests=\"write\"} 1",
            "winpool_request_limit{requests=\"write\"} 4",
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
    fn a_pool_that_is_gone_leaves_no_figure_behind() {
        let metrics = Metrics::default();
        metrics.pool_nodes("web", &NodeCounts::default());
        metrics.pool_nodes("batch", &NodeCounts::default());
        metrics.forget_pool("web");
        let text = metrics.text();
        assert!(!text.contains("pool=\"web\"") && text.contains("pool=\"batch\""), "{text}");
    }
}

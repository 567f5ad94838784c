//! The metrics of the operator.
//!
//! The label values are constants, except the names of pools, which are few.

use std::{hash::Hash, sync::Arc, time::SystemTime};

use prometheus_client::{
    encoding::text,
    metrics::{
        counter::Counter,
        exemplar::HistogramWithExemplars,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::{Metric, Registry, Unit},
};
use winpool_facts::named_enum;
use winpool_workload::LookupCounts;

use super::{
    pools::{PoolReport, Pools},
    queues::Queues,
};

named_enum! {
    /// How a reconcile ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ReconcileOutcome {
        /// Nothing had to be written.
        Unchanged = "unchanged",
        /// Something was written.
        Changed = "changed",
        /// Nothing was written, and changes wait for a decision: an annotation that allows them, or another mode than Observe and
        /// the end of a pause.
        Held = "held",
        /// A request failed, or the reconcile panicked.
        Failed = "failed",
    }
}

/// The name and the value of a label.
type Label = (&'static str, &'static str);

/// The same for a value that is not a constant.
type TextLabel = (&'static str, String);

type TracedHistogram = HistogramWithExemplars<[TextLabel; 1]>;
type Histograms<L, H = Histogram> = Family<L, H, fn() -> H>;

/// The code of a request that was not answered, as in client-go (`tools/metrics`, rest_client_requests_total).
const NO_ANSWER: &str = "<error>";
const READY_BEFORE_TAINT: &str =
    "How long new nodes of a pool were Ready before it set its taints; 0 for nodes that were not Ready yet";
const REFUSED_CLAIMS: &str = "Nodes that claim what they have no right to, by reason";
const OVERSIZED: &str = "Objects in a cache that are larger than is kept, so that a part of them is ignored";
const ACTIVITY: &str = "When a watch last received data from the API server, in seconds since 1970";
const LEASE_DURATION: &str = "The duration in the Lease of the leader, which has no effect";
const OPEN: &str = "Windows nodes in no pool to which Linux pods can be scheduled";
/// How long nodes were Ready before they were tainted: 0 is its own bucket, and the last one is a day.
const READY_BUCKETS: [f64; 10] = [0.0, 1.0, 2.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 86_400.0];

/// Counters or gauges by a label whose values are constants.
#[derive(Clone, Debug)]
pub struct ByLabel<M> {
    label: &'static str,
    family: Family<[Label; 1], M>,
}

impl<M: Clone + Default> ByLabel<M> {
    /// Adds the series of a value of the label, which begins with 0.
    pub fn add(&self, value: &'static str) {
        let _ = self.family.get_or_create(&[(self.label, value)]);
    }

    fn remove(&self, value: &'static str) {
        self.family.remove(&[(self.label, value)]);
    }
}

impl ByLabel<Counter> {
    pub fn inc(&self, value: &'static str) {
        self.family.get_or_create(&[(self.label, value)]).inc();
    }
}

impl ByLabel<Gauge> {
    /// Sets the gauge of a value of the label.
    pub fn set(&self, value: &'static str, number: impl TryInto<i64>) {
        self.family.get_or_create(&[(self.label, value)]).set(number.try_into().unwrap_or(i64::MAX));
    }
}

/// The metrics of this process. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    queues: Arc<Queues>,
    pools: Arc<Pools>,
    reconciles: Family<[Label; 2], Counter>,
    durations: Histograms<[Label; 1], TracedHistogram>,
    operations: Family<[Label; 2], Counter>,
    api_requests: Family<[TextLabel; 2], Counter>,
    api_durations: Histograms<[Label; 1]>,
    /// The number of objects in the cache of a kind.
    pub cache_objects: ByLabel<Gauge>,
    /// How many of them are larger than is kept.
    pub oversized_objects: ByLabel<Gauge>,
    ready_before_taint: Histograms<[TextLabel; 1]>,
    images: ByLabel<Gauge>,
    /// The number of nodes whose claims are refused, by reason.
    pub refused_claims: ByLabel<Gauge>,
    /// Interruptions of the watch of a kind.
    pub watch_errors: ByLabel<Counter>,
    /// How often the watch of a kind was closed because it received nothing.
    pub watch_stalls: ByLabel<Counter>,
    cache_synced: ByLabel<Gauge>,
    pub task_restarts: ByLabel<Counter>,
    /// When the watch of a kind last received data, in seconds since 1970.
    pub watch_activity: ByLabel<Gauge>,
    /// Whether this replica writes.
    pub leader: Gauge,
    /// The duration in the Lease of the leader, in seconds.
    pub lease_duration: Gauge,
    unassigned: Gauge,
    open: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("winpool");
        let all = &mut registry;
        let metrics = Self {
            registry: Arc::default(),
            queues: Arc::default(),
            pools: Arc::default(),
            reconciles: registered(all, "reconciles", "Reconciles of an object"),
            // From 1 ms, more than a reconcile without writes takes, to 16 s, for one that writes many nodes.
            durations: timed(all, "reconcile_duration", "The duration of a reconcile", || {
                TracedHistogram::new(exponential_buckets(0.001, 2.0, 15))
            }),
            operations: registered(all, "operations", "Requests that write to the API server"),
            api_requests: registered(all, "api_requests", "Requests to the API server; each watch counts once"),
            // From 5 ms to 20 s, longer than the API server may take to answer a write.
            api_durations: timed(all, "api_request_duration", "The time until the API server answered", || {
                Histogram::new(exponential_buckets(0.005, 2.0, 13))
            }),
            cache_objects: by(all, "kind", "cache_objects", "Objects in a cache"),
            oversized_objects: by(all, "kind", "oversized_objects", OVERSIZED),
            ready_before_taint: timed(all, "node_ready_before_taint", READY_BEFORE_TAINT, || {
                Histogram::new(READY_BUCKETS)
            }),
            images: by(all, "state", "registry_images", "Images of pods, by the state of their registry lookup"),
            refused_claims: by(all, "reason", "refused_claims", REFUSED_CLAIMS),
            watch_errors: by(all, "kind", "watch_errors", "Interruptions of a watch"),
            watch_stalls: by(all, "kind", "watch_stalls", "Watches closed because they received no data"),
            cache_synced: by(all, "kind", "cache_synced", "Whether the first list of a kind is complete"),
            task_restarts: by(all, "task", "task_restarts", "Restarts of a task after a panic"),
            watch_activity: ByLabel {
                label: "kind",
                family: in_seconds(all, "watch_last_activity_timestamp", ACTIVITY, Family::default()),
            },
            leader: registered(all, "leader", "Whether this replica writes: 1, or 0 as a standby"),
            lease_duration: in_seconds(all, "lease_duration", LEASE_DURATION, Gauge::default()),
            unassigned: registered(all, "unassigned_nodes", "Windows nodes in no pool"),
            open: registered(all, "open_unassigned_nodes", OPEN),
        };
        registry.register_collector(Box::new(metrics.queues.clone()));
        registry.register_collector(Box::new(metrics.pools.clone()));
        super::facts::register(&mut registry);
        registry.register("build", "The running version", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        Self { registry: Arc::new(registry), ..metrics }
    }
}

fn registered<M: Metric + Default + Clone>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

fn in_seconds<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}

/// Registers histograms of durations.
fn timed<L, H>(registry: &mut Registry, name: &str, help: &str, new: fn() -> H) -> Histograms<L, H>
where
    L: Clone + Eq + Hash,
    Histograms<L, H>: Metric + Clone,
{
    in_seconds(registry, name, help, Histograms::new_with_constructor(new))
}

/// Registers a metric for each value of a label.
fn by<M>(registry: &mut Registry, label: &'static str, name: &str, help: &str) -> ByLabel<M>
where
    Family<[Label; 1], M>: Metric + Default + Clone,
{
    ByLabel { label, family: registered(registry, name, help) }
}

impl Metrics {
    /// Adds the series of a controller, whose queue has the returned depth at every scrape.
    pub fn controller(&self, controller: &'static str, depth: impl Fn() -> usize + Send + Sync + 'static) {
        self.queues.add(controller, depth);
        for outcome in ReconcileOutcome::ALL {
            let _ = self.reconciles.get_or_create(&[("controller", controller), ("outcome", outcome.name())]);
        }
    }

    /// Counts a reconcile, with its duration in seconds and the id of its trace, if it is traced.
    pub fn reconcile(
        &self,
        controller: &'static str,
        outcome: ReconcileOutcome,
        seconds: f64,
        trace_id: Option<String>,
    ) {
        self.reconciles.get_or_create(&[("controller", controller), ("outcome", outcome.name())]).inc();
        let trace = trace_id.map(|trace_id| [("trace_id", trace_id)]);
        self.durations.get_or_create(&[("controller", controller)]).observe(seconds, trace, Some(SystemTime::now()));
    }

    pub fn operation(&self, operation: &'static str, result: &'static str) {
        self.operations.get_or_create(&[("operation", operation), ("result", result)]).inc();
    }

    /// Counts a request to the API server, with the time until its answer in seconds. `code` is the status code of the
    /// answer; `None` without one.
    pub fn api_request(&self, verb: &'static str, code: Option<u16>, seconds: f64) {
        let code = code.map_or_else(|| NO_ANSWER.to_owned(), |code| code.to_string());
        self.api_requests.get_or_create(&[("verb", verb.to_owned()), ("code", code)]).inc();
        self.api_durations.get_or_create(&[("verb", verb)]).observe(seconds);
    }

    /// Sets whether the first list of a kind is complete. The counters of its watch begin with 0.
    pub fn synced(&self, kind: &'static str, synced: bool) {
        self.cache_synced.set(kind, synced);
        [&self.watch_errors, &self.watch_stalls].into_iter().for_each(|counters| counters.add(kind));
    }

    /// Removes the series of a kind that is no longer watched.
    pub fn remove_kind(&self, kind: &'static str) {
        [&self.cache_objects, &self.oversized_objects, &self.watch_activity, &self.cache_synced]
            .into_iter()
            .for_each(|gauges| gauges.remove(kind));
        [&self.watch_errors, &self.watch_stalls].into_iter().for_each(|counters| counters.remove(kind));
    }

    /// Replaces the metrics of a pool.
    pub fn pool(&self, pool: &str, report: PoolReport) {
        self.pools.set(pool, report);
    }

    /// Records how long a node of a pool was Ready before its taints were set, in seconds.
    pub fn ready_before_taint(&self, pool: &str, seconds: f64) {
        self.ready_before_taint.get_or_create(&[("pool", pool.to_owned())]).observe(seconds);
    }

    /// Counts a configuration that an agent rolled back.
    pub fn node_config_rollback(&self, pool: &str, reason: &'static str) {
        self.pools.add_rollback(pool, reason);
    }

    /// Removes the metrics of a deleted pool.
    pub fn remove_pool(&self, pool: &str) {
        self.pools.remove(pool);
        self.ready_before_taint.remove(&[("pool", pool.to_owned())]);
    }

    /// Sets the numbers of images by the state of their registry lookup.
    pub fn images(&self, counts: LookupCounts) {
        let LookupCounts { found, failed, pending } = counts;
        for (state, count) in [("found", found), ("failed", failed), ("pending", pending)] {
            self.images.set(state, count);
        }
    }

    /// Sets the number of Windows nodes in no pool, and of those to which Linux pods can be scheduled.
    pub fn unassigned(&self, nodes: usize, open: usize) {
        for (gauge, count) in [(&self.unassigned, nodes), (&self.open, open)] {
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
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

    #[test]
    fn the_names_and_labels_of_the_metrics_are_stable() {
        let metrics = Metrics::default();
        metrics.controller("pool", || 3);
        metrics.reconcile("pool", ReconcileOutcome::Changed, 0.003, Some("0af7".into()));
        metrics.leader.set(1);
        metrics.lease_duration.set(20);
        metrics.api_request("patch", Some(409), 0.03);
        metrics.api_request("watch", None, 15.0);
        metrics.ready_before_taint("web", 0.0);
        metrics.ready_before_taint("web", 3.5);
        metrics.operation("patch-node", "ok");
        metrics.cache_objects.set("nodes", 12);
        metrics.oversized_objects.set("nodes", 1);
        metrics.watch_errors.inc("nodes");
        metrics.watch_stalls.inc("nodes");
        metrics.watch_activity.set("nodes", 1_700_000_000);
        metrics.synced("nodes", true);
        metrics.task_restarts.inc("workloads");
        metrics.unassigned(2, 1);
        metrics.refused_claims.set("RecordNotVerified", 1);
        metrics.images(LookupCounts { found: 5, failed: 1, pending: 0 });
        let text = metrics.text();
        for line in [
            "winpool_reconciles_total{controller=\"pool\",outcome=\"changed\"} 1",
            "winpool_reconcile_duration_seconds_count{controller=\"pool\"} 1",
            "winpool_reconciles_total{controller=\"pool\",outcome=\"failed\"} 0",
            "winpool_queue_depth{controller=\"pool\"} 3",
            "winpool_leader 1",
            "winpool_lease_duration_seconds 20",
            "winpool_api_requests_total{verb=\"patch\",code=\"409\"} 1",
            "winpool_api_requests_total{verb=\"watch\",code=\"<error>\"} 1",
            "winpool_api_request_duration_seconds_bucket{le=\"0.04\",verb=\"patch\"} 1",
            "winpool_node_ready_before_taint_seconds_bucket{le=\"0.0\",pool=\"web\"} 1",
            "winpool_node_ready_before_taint_seconds_bucket{le=\"5.0\",pool=\"web\"} 2",
            "winpool_operations_total{operation=\"patch-node\",result=\"ok\"} 1",
            "winpool_cache_objects{kind=\"nodes\"} 12",
            "winpool_oversized_objects{kind=\"nodes\"} 1",
            "winpool_watch_errors_total{kind=\"nodes\"} 1",
            "winpool_watch_stalls_total{kind=\"nodes\"} 1",
            "winpool_watch_last_activity_timestamp_seconds{kind=\"nodes\"} 1700000000",
            "winpool_cache_synced{kind=\"nodes\"} 1",
            "winpool_task_restarts_total{task=\"workloads\"} 1",
            "winpool_registry_images{state=\"found\"} 5",
            "winpool_registry_images{state=\"failed\"} 1",
            "winpool_registry_images{state=\"pending\"} 0",
            "winpool_unassigned_nodes 2",
            "winpool_open_unassigned_nodes 1",
            "winpool_refused_claims{reason=\"RecordNotVerified\"} 1",
            concat!("winpool_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        let traced = "winpool_reconcile_duration_seconds_bucket{le=\"0.004\",controller=\"pool\"} 1 # {trace_id=\"0af7\"} 0.003 ";
        assert!(text.lines().any(|line| line.starts_with(traced)), "{traced} is not in\n{text}");
    }

    #[test]
    fn a_deleted_pool_and_a_kind_that_is_not_watched_have_no_series() {
        let metrics = Metrics::default();
        metrics.pool("web", PoolReport::default());
        metrics.node_config_rollback("web", "NotHealthy");
        metrics.ready_before_taint("web", 1.0);
        metrics.cache_objects.set("Machine", 1);
        metrics.oversized_objects.set("Machine", 1);
        metrics.synced("Machine", true);
        metrics.watch_activity.set("Machine", 1);
        metrics.remove_pool("web");
        metrics.remove_kind("Machine");
        let text = metrics.text();
        assert!(!text.contains("\"web\"") && !text.contains("\"Machine\""), "{text}");
    }
}

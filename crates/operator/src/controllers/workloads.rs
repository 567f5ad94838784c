//! The workload controller: updates the workload index with all changes, and publishes the summaries of the pools.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::{
    task::{coop::consume_budget, spawn_blocking},
    time::{Instant, sleep, timeout_at},
};
use tracing::{debug, info_span};
use winpool_api::names::reason;
use winpool_core::{kind::Kind, text::some_of};
use winpool_rules::{
    pool::{Pool, stranding::has_new_taints},
    status::event::{Event, Regarding},
};
use winpool_workload::{IssueKind, PoolWorkloads, WorkloadIndex, WorkloadIssue, WorkloadName, Workloads};

use super::{
    changes::{Changed, PendingChanges},
    context::Context,
    images::Images,
    queue::Enqueuer,
    trigger::Trigger,
};

/// The minimum time between two updates; changes in between are one update.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// The minimum time between two summaries of a pool that differ only in counts, which change often.
const COUNTS_INTERVAL: Duration = Duration::from_secs(30);

/// The time between two updates while images need lookups, because cached tags expire and failures are retried.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(60);
/// The time between two updates without changes.
const IDLE_INTERVAL: Duration = Duration::from_secs(3600);

/// Updates the index with the changes, and publishes the summaries.
pub async fn run(changes: PendingChanges, context: Context, pools: Enqueuer<Trigger>, images: Images) {
    let mut controller = WorkloadController {
        context,
        pools,
        images,
        index: WorkloadIndex::default(),
        state_changed: true,
        workloads_changed: true,
        publications: Publications::default(),
    };
    loop {
        controller.apply(changes.take()).await;
        controller.update().await;
        sleep(MIN_INTERVAL).await;
        let _ = timeout_at(controller.next_update(), changes.recorded()).await;
    }
}

struct WorkloadController {
    context: Context,
    pools: Enqueuer<Trigger>,
    images: Images,
    index: WorkloadIndex,
    /// Whether the scheduling state changed since the last update.
    state_changed: bool,
    /// Whether pods or objects that create them changed since the last update.
    workloads_changed: bool,
    publications: Publications,
}

/// Which summaries were published, and which are delayed.
#[derive(Default)]
struct Publications {
    /// The last summary of each pool.
    published: HashMap<String, Published>,
    /// The pools of whose summaries only counts changed.
    delayed: BTreeSet<String>,
}

/// The summary of a pool that was published last.
struct Published {
    summary: Arc<PoolWorkloads>,
    at: Instant,
    /// The workloads with an event about an issue.
    named: HashSet<(IssueKind, Arc<WorkloadName>)>,
}

impl WorkloadController {
    /// Applies the changes to the index. There are many at the start, so it yields to other tasks.
    async fn apply(&mut self, changed: Changed) {
        self.state_changed |= changed.scheduling_state;
        self.state_changed |= changed.labels.iter().any(|label| self.index.selects_by(label));
        self.workloads_changed |= !changed.pods.is_empty() || !changed.controllers.is_empty();
        for ((namespace, key), now) in changed.defaults {
            self.index.set_memory_defaults(&namespace, &key, now);
            consume_budget().await;
        }
        if changed.services_are_read {
            self.index.read_services();
        }
        if changed.storage {
            self.index.set_storage(self.context.caches.storage().known().cloned());
            self.workloads_changed = true;
        }
        for ((namespace, key), now) in changed.services {
            self.index.set_service(&namespace, &key, now);
            consume_budget().await;
        }
        for (name, now) in changed.controllers {
            self.index.set_controller(&name, now);
            consume_budget().await;
        }
        for ((pod, event), report) in changed.sandboxes {
            self.index.set_sandbox_report(&pod, &event, report);
            consume_budget().await;
        }
        for (key, now) in changed.pods {
            self.index.set_pod(&key, now);
            consume_budget().await;
        }
    }

    async fn update(&mut self) {
        if std::mem::take(&mut self.workloads_changed) {
            self.enqueue_waiting();
        }
        if std::mem::take(&mut self.state_changed) || self.index.needs_more_labels() {
            self.update_state().await;
        }
        self.images.look_up(&mut self.index, &self.context.caches);
        if self.images.are_looked_up() {
            self.context.metrics.images(self.index.lookup_counts());
        }
        let mut changed = self.index.take_changed();
        changed.append(&mut self.publications.delayed);
        let first = *self.context.caches.workloads.borrow() == Workloads::Waiting;
        if first {
            changed.extend(self.context.caches.pools.all().names().map(str::to_owned));
        }
        let mut summaries = BTreeMap::new();
        let mut events = Vec::new();
        for pool in changed {
            let summary = Arc::new(self.index.summary(&pool));
            if self.publications.delay(&pool, &summary) {
                continue;
            }
            let new = self.publications.record(&pool, &summary);
            events.extend(new.iter().filter_map(|(kind, workload, issue)| self.event(&pool, *kind, workload, issue)));
            summaries.insert(pool, summary);
        }
        if first || !summaries.is_empty() {
            self.publish(summaries);
            self.context.events.publish(&events).await;
        }
    }

    /// Enqueues the pools with taints or drains that wait for workloads: their summaries may be unchanged.
    fn enqueue_waiting(&self) {
        let pools = self.context.caches.pools.all();
        let rolls_out = |pool: &Pool| pool.status.conditions.iter().any(|one| one.reason == reason::ROLLING_OUT);
        for pool in pools.values().filter(|pool| has_new_taints(pool) || rolls_out(pool)) {
            self.pools.enqueue(&pool.name, Trigger::new("workloads changed".to_owned()));
        }
    }

    /// Updates the scheduling state of the index. This may check thousands of pods again, so it runs on a thread for
    /// blocking work.
    async fn update_state(&mut self) {
        let (caches, mut index) = (self.context.caches.clone(), std::mem::take(&mut self.index));
        let update = move || {
            let state = caches.snapshot().scheduling_state_for(index.selected_labels());
            info_span!("assess workloads").in_scope(|| index.set_state(state));
            index
        };
        match spawn_blocking(update).await {
            Ok(index) => self.index = index,
            // The panic destroyed the index: the supervisor restarts this controller with a new one.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// The event on a workload; `None` if it was deleted in the meantime.
    fn event(&self, pool: &str, kind: IssueKind, workload: &Arc<WorkloadName>, issue: &WorkloadIssue) -> Option<Event> {
        let about = if workload.kind == Kind::NODE.name {
            let node = self.context.caches.nodes.get(&workload.name)?;
            Regarding::new(Kind::NODE, &node.name, &node.uid)
        } else {
            let (workload, uid) = self.index.event_object(workload)?;
            Regarding::workload(&workload, uid)
        };
        let message = format!("WindowsNodePool {pool}: {issue}");
        Some(Event { about, warning: true, reason: kind.name().to_owned(), action: "Check", message })
    }

    fn publish(&self, summaries: BTreeMap<String, Arc<PoolWorkloads>>) {
        let changed: Vec<String> = summaries.keys().cloned().collect();
        let pools = self.context.caches.pools.all();
        self.context.caches.workloads.send_modify(|workloads| {
            *workloads = updated(std::mem::take(workloads), summaries, |pool| pools.contains(pool));
        });
        debug!(pods = self.index.len(), pools = some_of(&changed), "workloads assessed");
        for pool in changed {
            self.pools.enqueue(&pool, Trigger::new("workloads changed".to_owned()));
        }
    }

    /// When the next update is due without a change.
    fn next_update(&self) -> Instant {
        let idle = Instant::now() + if self.images.are_needed() { LOOKUP_INTERVAL } else { IDLE_INTERVAL };
        self.publications.due().map_or(idle, |due| due.min(idle))
    }
}

impl Publications {
    /// Delays a summary that differs from the last one only in counts. Returns whether it was delayed.
    fn delay(&mut self, pool: &str, summary: &PoolWorkloads) -> bool {
        let differs_in_counts =
            |last: &Published| last.summary.issues == summary.issues && last.at.elapsed() < COUNTS_INTERVAL;
        let delayed = self.published.get(pool).is_some_and(differs_in_counts);
        if delayed {
            self.delayed.insert(pool.to_owned());
        }
        delayed
    }

    /// Records the summary of a pool as published. Returns the issues that are new in it.
    fn record(
        &mut self,
        pool: &str,
        summary: &Arc<PoolWorkloads>,
    ) -> Vec<(IssueKind, Arc<WorkloadName>, WorkloadIssue)> {
        let before = self.published.remove(pool).map(|last| last.named).unwrap_or_default();
        let all =
            || summary.issues.iter().flat_map(|(kind, affected)| affected.first.iter().map(move |one| (*kind, one)));
        let new = all().filter(|(kind, (workload, _))| !before.contains(&(*kind, workload.clone())));
        let new = new.map(|(kind, (workload, issue))| (kind, workload.clone(), issue.clone())).collect();
        let named = all().map(|(kind, (workload, _))| (kind, workload.clone())).collect();
        self.published.insert(pool.to_owned(), Published { summary: summary.clone(), at: Instant::now(), named });
        new
    }

    /// When the first of the delayed summaries has to be published.
    fn due(&self) -> Option<Instant> {
        let delayed = self.delayed.iter().filter_map(|pool| self.published.get(pool));
        delayed.map(|last| last.at + COUNTS_INTERVAL).min()
    }
}

/// The summaries of all pools that exist, after some of them changed.
fn updated(
    former: Workloads,
    changed: BTreeMap<String, Arc<PoolWorkloads>>,
    exists: impl Fn(&str) -> bool,
) -> Workloads {
    let mut all = match former {
        Workloads::Known(all) => all,
        Workloads::Off | Workloads::Waiting => BTreeMap::new(),
    };
    all.extend(changed);
    all.retain(|pool, _| exists(pool));
    Workloads::Known(all)
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;
    use winpool_workload::AffectedWorkloads;

    use super::*;

    /// A summary with this number of pods, in which these Deployments run Linux pods on a Windows node.
    fn summary(pods: u32, named: &[&str]) -> Arc<PoolWorkloads> {
        let workload = |name: &&str| {
            let name = WorkloadName { kind: "Deployment".into(), namespace: "shop".into(), name: (*name).into() };
            (Arc::new(name), WorkloadIssue::LinuxPodOnWindowsNode)
        };
        let affected = AffectedWorkloads { count: named.len(), first: named.iter().map(workload).collect() };
        let issues = (!named.is_empty()).then_some((IssueKind::LinuxPodOnWindowsNode, affected));
        Arc::new(PoolWorkloads { pods, issues: issues.into_iter().collect(), ..PoolWorkloads::default() })
    }

    /// The names of the workloads with a new issue.
    fn record(publications: &mut Publications, pool: &str, summary: &Arc<PoolWorkloads>) -> Vec<String> {
        publications.record(pool, summary).iter().map(|(_, workload, _)| workload.name.clone()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_summary_that_differs_only_in_counts_is_published_at_most_every_half_minute() {
        let mut publications = Publications::default();
        assert!(!publications.delay("web", &summary(1, &[])), "the first is published at once");
        record(&mut publications, "web", &summary(1, &[]));
        assert_eq!(publications.due(), None);
        let due = Instant::now() + Duration::from_secs(30);
        advance(Duration::from_secs(29)).await;
        assert!(publications.delay("web", &summary(2, &[])));
        assert!(!publications.delay("batch", &summary(2, &[])), "another pool has a time of its own");
        assert_eq!(publications.due(), Some(due));
        assert!(!publications.delay("web", &summary(2, &["app"])), "an issue is published at once");
        advance(Duration::from_secs(1)).await;
        assert!(!publications.delay("web", &summary(2, &[])));
    }

    #[tokio::test(start_paused = true)]
    async fn an_issue_of_a_workload_is_new_once_and_again_after_it_was_fixed() {
        let mut publications = Publications::default();
        let table = [
            (&["app", "job"][..], vec!["app", "job"]),
            (&["app", "job"], vec![]),
            (&["app", "late"], vec!["late"]),
            (&[], vec![]),
            (&["app"], vec!["app"]),
        ];
        for (named, new) in table {
            assert_eq!(record(&mut publications, "web", &summary(3, named)), new, "{named:?}");
        }
        assert_eq!(record(&mut publications, "batch", &summary(3, &["app"])), ["app"], "each pool reports its own");
    }

    #[test]
    fn changed_summaries_replace_those_of_their_pools_and_deleted_pools_have_none() {
        let known = |all: &[(&str, u32)]| {
            Workloads::Known(all.iter().map(|(pool, pods)| ((*pool).to_owned(), summary(*pods, &[]))).collect())
        };
        let changed = || BTreeMap::from([("web".to_owned(), summary(2, &[])), ("gone".to_owned(), summary(9, &[]))]);
        for (former, expected) in [
            (Workloads::Waiting, known(&[("web", 2)])),
            (Workloads::Off, known(&[("web", 2)])),
            (known(&[("web", 1), ("batch", 5), ("gone", 7)]), known(&[("web", 2), ("batch", 5)])),
        ] {
            assert_eq!(updated(former.clone(), changed(), |pool| pool != "gone"), expected, "{former:?}");
        }
    }
}

//! One watch for each kind: its events update a store, and each change, including deletions, is passed to a handler.

use std::{collections::BTreeSet, pin::pin, sync::Arc, time::Duration};

use futures::{Stream, StreamExt};
use kube_runtime::{
    utils::Backoff,
    watcher::{self, DefaultBackoff, Event},
};
use tokio::time::Instant;
use tracing::{debug, info, info_span, warn};
use winpool_core::{
    kind::{Kind, NeededBy},
    text::with_sources,
};
use winpool_render::allowances::Allowances;
use winpool_rules::operation::ErrorCause;

use super::{DEFINITIONS_REMEDY, ObjectChange, Store, View, configuration::configuration_remedy, explain, status_code};
use crate::admin::{KindReadiness, Metrics};

/// The back-off of a failed watch: kube's back-off with a maximum of ten seconds instead of a minute, so that the
/// operator soon detects that the API server is available again.
#[derive(Default)]
pub struct WatchBackoff(DefaultBackoff);

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(|delay| delay.min(Duration::from_secs(10)))
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {
        self.0.reset();
    }
}

/// The status codes of a list that fails until permissions change or its kind is installed.
const REFUSED: [u16; 3] = [401, 403, 404];

/// The minimum time between two log lines about the same failure.
const LOG_INTERVAL: Duration = Duration::from_secs(600);

/// Applies the events of one watch to a store until the stream ends.
///
/// `handle` gets each change once, after the store contains it: objects that were added, deleted, or missing from a new
/// list, and objects whose view changed. It runs in a span `watch`, the parent of the traces of the reconciles. The
/// stream retries after a failure, which is counted, and logged at most every ten minutes for each cause.
pub async fn run_watch<V: View>(
    events: impl Stream<Item = watcher::Result<Event<V::Object>>> + Send,
    store: Store<V>,
    allowances: &Allowances,
    metrics: Metrics,
    readiness: KindReadiness,
    handle: impl Fn(&ObjectChange<V>) + Send,
) {
    let mut events = pin!(events);
    let mut list = Vec::new();
    let mut shared = V::Shared::default();
    let mut failure = None;
    let mut oversized = Oversized::of(&store);
    while let Some(event) = events.next().await {
        let changes = match event {
            Err(error) => {
                metrics.watch_errors.inc(V::KIND.name);
                if log_failure::<V>(&mut failure, &error).is_some_and(|code| REFUSED.contains(&code)) {
                    store.refuse();
                    readiness.refused();
                }
                continue;
            }
            Ok(Event::Init) => {
                list.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                list.push(V::read(object, &mut shared).within(allowances));
                continue;
            }
            Ok(Event::InitDone) => store.replace(std::mem::take(&mut list)),
            Ok(Event::Apply(object)) => {
                store.put(V::read(object, &mut shared).within(allowances)).into_iter().collect()
            }
            Ok(Event::Delete(object)) => store.remove(V::read(object, &mut shared).name()).into_iter().collect(),
        };
        if failure.take().is_some() {
            info!(kind = V::KIND.name, "watch recovered");
        }
        readiness.synced();
        metrics.synced(V::KIND.name, true);
        metrics.cache_objects.set(V::KIND.name, store.len());
        metrics.oversized_objects.set(V::KIND.name, oversized.count(&changes));
        changes.iter().for_each(|change| in_span(change, &handle));
    }
}

/// The objects of a store that are larger than is kept.
struct Oversized {
    count: usize,
    logged: Option<Instant>,
}

impl Oversized {
    fn of<V: View>(store: &Store<V>) -> Self {
        Self { count: store.all().values().filter(|object| object.is_oversized()).count(), logged: None }
    }

    /// How many there are after some changes. One that is added is logged, at most every ten minutes.
    fn count<V: View>(&mut self, changes: &[ObjectChange<V>]) -> usize {
        let is_oversized = |object: &Option<Arc<V>>| object.as_ref().is_some_and(|object| object.is_oversized());
        for change in changes {
            let (before, after) = (is_oversized(&change.before), is_oversized(&change.after));
            self.count = self.count.saturating_add(usize::from(after)).saturating_sub(usize::from(before));
            if after && !before && self.logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
                let remedy = "remove labels, or shorten the spec; winpool_oversized_objects counts these objects";
                warn!(
                    kind = V::KIND.name,
                    name = change.name(),
                    remedy,
                    "object is larger than is read: a part is ignored"
                );
                self.logged = Some(Instant::now());
            }
        }
        self.count
    }
}

fn in_span<V: View>(change: &ObjectChange<V>, handle: impl Fn(&ObjectChange<V>)) {
    debug!(kind = V::KIND.name, name = change.name(), change = change.verb(), "object changed");
    info_span!("watch", kind = V::KIND.name, name = change.name(), change = change.verb()).in_scope(|| handle(change));
}

/// The last logged failure of a watch.
struct LoggedFailure {
    cause: ErrorCause,
    at: Instant,
}

/// Logs the failure of a watch, unless the same was logged in the last ten minutes. Returns the status code.
fn log_failure<V: View>(last: &mut Option<LoggedFailure>, error: &watcher::Error) -> Option<u16> {
    let (code, reason, message) = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => (status_code(error), status_reason(error), explain(error)),
        watcher::Error::WatchError(status) => (Some(status.code), status.reason.clone(), status.message.clone()),
        watcher::Error::NoResourceVersion => (None, String::new(), with_sources(error)),
    };
    if code == Some(410) {
        debug!(kind = V::KIND.name, "watch expired, listing again");
        return code;
    }
    // The credentials of the operator are those of its ServiceAccount, so that the remedy for them is another one.
    let untrusted = configuration_remedy(error, code).filter(|_| code.is_none());
    let remedy = untrusted.unwrap_or_else(|| remedy(V::KIND, code));
    let status = |code| ErrorCause::Status { code, reason, fields: BTreeSet::new() };
    let cause = code.map_or(ErrorCause::NoResponse, status);
    if !last.as_ref().is_some_and(|last| last.cause == cause && last.at.elapsed() < LOG_INTERVAL) {
        warn!(kind = V::KIND.name, error = message, remedy, "watch failed, retrying");
        *last = Some(LoggedFailure { cause, at: Instant::now() });
    }
    code
}

fn status_reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.reason.clone(),
        _ => String::new(),
    }
}

fn remedy(kind: Kind, code: Option<u16>) -> &'static str {
    match code {
        Some(404) if [Kind::POOL, Kind::PROFILE].contains(&kind) => DEFINITIONS_REMEDY,
        Some(404) if kind == Kind::NODE_CONFIG => {
            "pools with delivery.method: Agent need this CustomResourceDefinition: kubectl apply -k crds/"
        }
        Some(403 | 404) if kind.needed_by == NeededBy::Feature => {
            "pools with delivery.method: ClusterAPI need Cluster API, and config/cluster-api"
        }
        Some(403) if kind == Kind::NODE_CONFIG => "the ClusterRole of config/default allows it",
        Some(401) => "check the ServiceAccount or kubeconfig of the operator: its credentials are not valid",
        Some(403) => "apply the ClusterRole, the Role and their bindings from config/default",
        _ => "check the API server and the network",
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Mutex};

    use futures::stream;
    use k8s_openapi::api::core::v1::Node;
    use kube::core::{ObjectMeta, Status};
    use winpool_core::node::WindowsNode;

    use super::{super::WrittenVersion, *};
    use crate::admin::Readiness;

    fn node(name: &str, version: u32, label: &str) -> Node {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            resource_version: Some(version.to_string()),
            labels: Some(BTreeMap::from([("agentpool".to_owned(), label.to_owned())])),
            ..ObjectMeta::default()
        };
        Node { metadata, ..Node::default() }
    }

    fn refused(code: u16) -> watcher::Error {
        let status = Status { code, message: format!("refused with {code}"), ..Status::default() };
        watcher::Error::InitialListFailed(kube::Error::Api(status.boxed()))
    }

    /// The changes that follow from these events, as `name: label before -> label after`.
    async fn watched(
        events: Vec<watcher::Result<Event<Node>>>,
    ) -> (Vec<String>, Store<WindowsNode>, Metrics, Readiness) {
        let (store, metrics, readiness) = (Store::default(), Metrics::default(), Readiness::default());
        let changes = Arc::new(Mutex::new(Vec::new()));
        let (log, seen) = (changes.clone(), store.clone());
        let handle = move |change: &ObjectChange<WindowsNode>| {
            let label = |node: &Option<Arc<WindowsNode>>| {
                node.as_ref().map_or("-".to_owned(), |node| node.labels["agentpool"].clone())
            };
            let line = format!("{}: {} -> {}", change.name(), label(&change.before), label(&change.after));
            log.lock().unwrap().push(line);
            let stored: Option<Arc<WindowsNode>> = seen.get(change.name());
            assert_eq!(stored, change.after, "the store has the change before it is handled");
        };
        let kind = readiness.required("Node");
        let allowances = Allowances::default();
        run_watch(stream::iter(events), store.clone(), &allowances, metrics.clone(), kind, handle).await;
        let changes = changes.lock().unwrap().clone();
        (changes, store, metrics, readiness)
    }

    #[tokio::test]
    async fn every_change_is_handled_once_with_the_object_before_and_after_also_after_errors() {
        let (changes, store, metrics, _) = watched(vec![
            Ok(Event::Init),
            Ok(Event::InitApply(node("a", 1, "web"))),
            Ok(Event::InitApply(node("b", 2, "web"))),
            Ok(Event::InitDone),
            Err(refused(500)),
            Err(refused(500)),
            Ok(Event::Apply(node("a", 3, "batch"))),
            Ok(Event::Apply(node("c", 4, "web"))),
            Ok(Event::Delete(node("b", 5, "web"))),
            Ok(Event::Delete(node("b", 5, "web"))),
        ])
        .await;
        assert_eq!(changes, ["a: - -> web", "b: - -> web", "a: web -> batch", "c: - -> web", "b: web -> -"]);
        assert_eq!(store.all().names().collect::<Vec<_>>(), ["a", "c"]);
        assert!(metrics.text().contains("winpool_watch_errors_total{kind=\"Node\"} 2"));
    }

    #[tokio::test]
    async fn a_new_list_yields_the_objects_that_differ_and_those_that_are_missing() {
        let (changes, store, ..) = watched(vec![
            Ok(Event::Init),
            Ok(Event::InitApply(node("gone", 1, "web"))),
            Ok(Event::InitApply(node("kept", 2, "web"))),
            Ok(Event::InitApply(node("other", 3, "web"))),
            Ok(Event::InitDone),
            Ok(Event::Init),
            Ok(Event::InitApply(node("cut short", 8, "web"))),
            Ok(Event::Init),
            Ok(Event::InitApply(node("kept", 7, "web"))),
            Ok(Event::InitApply(node("new", 8, "web"))),
            Ok(Event::InitApply(node("other", 9, "batch"))),
            Ok(Event::InitDone),
        ])
        .await;
        assert_eq!(changes[3..], ["new: - -> web", "other: web -> batch", "gone: web -> -"]);
        assert_eq!(store.all().names().collect::<Vec<_>>(), ["kept", "new", "other"]);
    }

    #[tokio::test]
    async fn an_event_without_a_change_of_the_view_is_stored_and_not_handled() {
        let (changes, store, ..) = watched(vec![
            Ok(Event::Init),
            Ok(Event::InitApply(node("a", 1, "web"))),
            Ok(Event::InitDone),
            Ok(Event::Apply(node("a", 2, "web"))),
        ])
        .await;
        assert_eq!(changes, ["a: - -> web"]);
        assert_eq!(&*store.get("a").unwrap().resource_version, "2", "the next patch needs the new version");
    }

    #[tokio::test]
    async fn a_store_is_synced_after_the_first_complete_list() {
        let part = vec![Ok(Event::Init), Ok(Event::InitApply(node("a", 1, "web"))), Err(refused(500))];
        let (changes, store, _, readiness) = watched(part).await;
        assert!(changes.is_empty() && store.is_empty() && !readiness.is_ready());
        assert!(tokio::time::timeout(Duration::from_millis(20), store.wait_for_sync()).await.is_err());

        let (_, store, metrics, readiness) = watched(vec![Ok(Event::Init), Ok(Event::InitDone)]).await;
        assert!(readiness.is_ready());
        store.wait_for_sync().await;
        assert!(metrics.text().contains("winpool_cache_objects{kind=\"Node\"} 0"));
        assert!(metrics.text().contains("winpool_cache_synced{kind=\"Node\"} 1"));
    }

    #[tokio::test]
    async fn an_optional_kind_does_not_delay_readiness_once_its_list_is_refused() {
        for (code, ready) in [(403, true), (404, true), (401, true), (429, false), (500, false), (504, false)] {
            let (store, metrics, readiness) =
                (Store::<WindowsNode>::default(), Metrics::default(), Readiness::default());
            let events = stream::iter([Ok(Event::Init), Err(refused(code))]);
            let readiness_of_nodes = readiness.optional("Node");
            run_watch(events, store, &Allowances::default(), metrics, readiness_of_nodes, |_| {}).await;
            assert_eq!(readiness.is_ready(), ready, "{code}");
        }
    }

    #[tokio::test]
    async fn the_objects_that_are_larger_than_is_kept_are_counted() {
        let large = |name: &str| {
            let mut node = node(name, 1, "web");
            let labels = (0..5000).map(|number| (format!("label-{number}"), String::new()));
            node.metadata.labels.get_or_insert_default().extend(labels);
            node
        };
        let table = [
            (vec![Ok(Event::Apply(large("b")))], 2),
            (vec![Ok(Event::Apply(node("a", 2, "web")))], 0),
            (vec![Ok(Event::Delete(large("a")))], 0),
            (vec![Ok(Event::Init), Ok(Event::InitApply(large("c"))), Ok(Event::InitDone)], 1),
        ];
        for (later, expected) in table {
            let first = [Ok(Event::Init), Ok(Event::InitApply(large("a"))), Ok(Event::InitDone)];
            let (_, _, metrics, _) = watched(first.into_iter().chain(later).collect()).await;
            let line = format!("winpool_oversized_objects{{kind=\"Node\"}} {expected}\n");
            assert!(metrics.text().contains(&line), "{line}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_logged_once_for_each_cause_and_every_ten_minutes() {
        let mut failure = None;
        let start = Instant::now();
        log_failure::<WindowsNode>(&mut failure, &refused(410));
        assert!(failure.is_none(), "an expired watch is no failure");
        for (wait, code, logged) in [(0, 403, 0), (60, 403, 0), (60, 500, 120), (599, 500, 120), (1, 500, 720)] {
            tokio::time::advance(Duration::from_secs(wait)).await;
            log_failure::<WindowsNode>(&mut failure, &refused(code));
            let last = failure.as_ref().unwrap();
            assert_eq!(last.at.duration_since(start).as_secs(), logged);
            let fields = BTreeSet::new();
            assert_eq!(last.cause, ErrorCause::Status { code, reason: String::new(), fields });
        }
    }

    #[test]
    fn the_remedy_depends_on_the_kind_and_the_status_code() {
        assert!(remedy(Kind::POOL, Some(404)).contains("kubectl apply -k crds/"));
        assert!(remedy(Kind::NODE, Some(403)).contains("config/default"));
        assert!(remedy(Kind::NODE, None).contains("network"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_is_waited_for_until_it_has_the_written_versions() {
        let store = Store::<WindowsNode>::default();
        let limit = Duration::from_secs(2);
        let versions = |versions: [(&str, Option<&str>); 2]| {
            versions.map(|(name, version)| WrittenVersion {
                kind: Kind::NODE,
                name: name.to_owned(),
                version: version.map(str::to_owned),
            })
        };
        store.replace(vec![node("a", 9, "web").into()]);
        assert!(store.wait_for_versions(&versions([("a", Some("9")), ("b", None)]), limit).await);
        assert!(
            !store.wait_for_versions(&versions([("a", Some("10")), ("b", None)]), limit).await,
            "the limit ends the wait"
        );
        let later = store.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            later.put(node("a", 11, "web").into());
            later.remove("a");
        });
        assert!(store.wait_for_versions(&versions([("b", None), ("a", None)]), limit).await);
    }
}

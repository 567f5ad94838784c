//! One watch for each kind: its events fill a store, and what really changed is told, deletions included.

use std::{pin::pin, time::Duration};

use futures::{Stream, StreamExt};
use kube_runtime::{
    utils::Backoff,
    watcher::{self, DefaultBackoff, Event},
};
use tokio::time::Instant;
use tracing::{debug, info, info_span, warn};

use super::{Change, Store, View, explain, with_sources};
use crate::admin::{Handle, Metrics};

/// How a watch that fails is tried again: as kube does it, but never later than after ten seconds. Its own limit of a
/// minute is a minute in which nothing would be repaired once the API server is back.
#[derive(Default)]
pub struct Patience(DefaultBackoff);

impl Iterator for Patience {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(|delay| delay.min(Duration::from_secs(10)))
    }
}

impl Backoff for Patience {
    fn reset(&mut self) {
        self.0.reset();
    }
}

/// What an API server answers when it will not list a kind, until somebody changes that: nobody may, and there is none.
const REFUSALS: [u16; 3] = [401, 403, 404];

/// How long the same reason is not said again.
const AGAIN: Duration = Duration::from_secs(600);

/// Follows the watch of one kind for as long as it goes on.
///
/// Each change is told once, after the store has it: objects that appeared, changed in what the rules read, were
/// deleted, or were missing from a new list. It is told inside a span `watch`, to which the passes that follow belong.
/// A watch that fails is counted, said once for each new reason and every ten minutes, and tried again by the stream itself.
pub async fn follow<V: View>(
    events: impl Stream<Item = watcher::Result<Event<V::Object>>> + Send,
    store: Store<V>,
    metrics: Metrics,
    first_list: Handle,
    tell: impl Fn(&Change<V>) + Send,
) {
    let mut events = pin!(events);
    let mut list = Vec::new();
    let mut shared = V::Shared::default();
    let mut trouble = None;
    while let Some(event) = events.next().await {
        let changes = match event {
            Err(error) => {
                metrics.watch_error(V::KIND);
                if REFUSALS.contains(&complain::<V>(&mut trouble, &error)) {
                    first_list.refused();
                }
                continue;
            }
            Ok(Event::Init) => {
                list.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                list.push(V::read(object, &mut shared));
                continue;
            }
            Ok(Event::InitDone) => store.replace(std::mem::take(&mut list)),
            Ok(Event::Apply(object)) => store.put(V::read(object, &mut shared)).into_iter().collect(),
            Ok(Event::Delete(object)) => store.remove(V::read(object, &mut shared).name()).into_iter().collect(),
        };
        if trouble.take().is_some() {
            info!(kind = V::KIND, "watching again");
        }
        first_list.synced();
        metrics.synced(V::KIND, true);
        metrics.cache(V::KIND, store.len());
        for change in changes {
            debug!(kind = V::KIND, name = change.name(), change = change.verb(), "seen");
            info_span!("watch", kind = V::KIND, name = change.name(), change = change.verb())
                .in_scope(|| tell(&change));
        }
    }
}

/// What was said about a watch that fails.
struct Trouble {
    /// The status that was answered; 0 where nothing answered.
    code: u16,
    text: String,
    at: Instant,
}

impl Trouble {
    /// Whether it is this one that lasts. How exactly it is that nothing answers is no news.
    fn is(&self, code: u16, text: &str) -> bool {
        self.code == code && (code == 0 || self.text == text) && self.at.elapsed() < AGAIN
    }
}

/// Says why a watch fails, once for each reason and now and then as long as it lasts. Gives the status that was answered.
fn complain<V: View>(trouble: &mut Option<Trouble>, error: &watcher::Error) -> u16 {
    let (code, text) = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => (code(error), explain(error)),
        watcher::Error::WatchError(status) => (status.code, status.message.clone()),
        watcher::Error::NoResourceVersion => (0, with_sources(error)),
    };
    if code == 410 {
        debug!(kind = V::KIND, "the watch is too old and starts again with a new list");
        return code;
    }
    if !trouble.as_ref().is_some_and(|said| said.is(code, &text)) {
        warn!(kind = V::KIND, remedy = remedy(V::KIND, code), "cannot watch, and trying again: {text}");
        *trouble = Some(Trouble { code, text, at: Instant::now() });
    }
    code
}

fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

/// What a person can do about it.
fn remedy(kind: &str, code: u16) -> &'static str {
    match (kind, code) {
        ("WindowsNodePool" | "WindowsRuntimeProfile", 404) => {
            "the CustomResourceDefinition is not installed: kubectl apply -k crds/ (below Kubernetes 1.25 with --validate=false)"
        }
        (_, 401) => "the API server does not know the operator's credentials: look at its ServiceAccount or kubeconfig",
        (_, 403) => "the operator may not: apply the ClusterRole, the Role and their bindings from config/rbac",
        (_, 404) => "the API server does not serve this kind: winpool needs Kubernetes 1.20 or later",
        _ => "look at the API server and at the network between",
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        sync::{Arc, Mutex},
    };

    use futures::stream;
    use k8s_openapi::api::core::v1::Node;
    use kube::core::{ObjectMeta, Status};

    use super::*;
    use crate::{admin::Readiness, domain::node::WindowsNode};

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

    /// What a hub tells of these events, as `name: label before -> label after`, with its store and its metrics.
    async fn told(events: Vec<watcher::Result<Event<Node>>>) -> (Vec<String>, Store<WindowsNode>, Metrics, Readiness) {
        let (store, metrics, readiness) = (Store::default(), Metrics::default(), Readiness::default());
        let told = Arc::new(Mutex::new(Vec::new()));
        let (log, seen) = (told.clone(), store.clone());
        let tell = move |change: &Change<WindowsNode>| {
            let label = |node: &Option<Arc<WindowsNode>>| {
                node.as_ref().map_or("-".to_owned(), |node| node.labels["agentpool"].clone())
            };
            let line = format!("{}: {} -> {}", change.name(), label(&change.before), label(&change.after));
            log.lock().unwrap().push(line);
            let stored: Option<Arc<WindowsNode>> = seen.get(change.name());
            assert_eq!(stored, change.after, "the store has a change before it is told");
        };
        let first_list = readiness.required("Node");
        follow(stream::iter(events), store.clone(), metrics.clone(), first_list, tell).await;
        let told = told.lock().unwrap().clone();
        (told, store, metrics, readiness)
    }

    #[tokio::test]
    async fn every_change_is_told_once_with_what_was_and_what_is() {
        let (told, store, ..) = told(vec![
            Ok(Event::Init),
            Ok(Event::InitApply(node("a", 1, "web"))),
            Ok(Event::InitApply(node("b", 2, "web"))),
            Ok(Event::InitDone),
            Ok(Event::Apply(node("a", 3, "batch"))),
            Ok(Event::Apply(node("c", 4, "web"))),
            Ok(Event::Delete(node("b", 5, "web"))),
            Ok(Event::Delete(node("b", 5, "web"))),
        ])
        .await;
        assert_eq!(told, ["a: - -> web", "b: - -> web", "a: web -> batch", "c: - -> web", "b: web -> -"]);
        assert_eq!(store.all().keys().cloned().collect::<Vec<_>>(), ["a", "c"]);
    }

    #[tokio::test]
    async fn a_new_list_tells_what_differs_and_what_vanished() {
        let (told, store, ..) = told(vec![
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
        assert_eq!(told[3..], ["new: - -> web", "other: web -> batch", "gone: web -> -"]);
        assert_eq!(store.all().keys().cloned().collect::<Vec<_>>(), ["kept", "new", "other"]);
    }

    #[tokio::test]
    async fn an_event_that_says_nothing_new_is_stored_and_not_told() {
        let (told, store, ..) = told(vec![
            Ok(Event::Init),
            Ok(Event::InitApply(node("a", 1, "web"))),
            Ok(Event::InitDone),
            Ok(Event::Apply(node("a", 2, "web"))),
        ])
        .await;
        assert_eq!(told, ["a: - -> web"]);
        assert_eq!(store.get("a").unwrap().resource_version, "2", "the next patch needs the new version");
    }

    #[tokio::test]
    async fn a_store_is_full_after_the_first_whole_list_and_not_before() {
        let part = vec![Ok(Event::Init), Ok(Event::InitApply(node("a", 1, "web"))), Err(refused(500))];
        let (told_before, store, metrics, readiness) = told(part).await;
        assert!(told_before.is_empty() && store.is_empty() && !readiness.is_ready());
        assert!(tokio::time::timeout(Duration::from_millis(20), store.full()).await.is_err());
        assert!(metrics.text().contains("winpool_watch_errors_total{kind=\"Node\"} 1"));

        let (_, store, metrics, readiness) = told(vec![Ok(Event::Init), Ok(Event::InitDone)]).await;
        assert!(readiness.is_ready());
        store.full().await;
        assert!(metrics.text().contains("winpool_cache_objects{kind=\"Node\"} 0"));
        assert!(metrics.text().contains("winpool_cache_synced{kind=\"Node\"} 1"));
    }

    #[tokio::test]
    async fn an_optional_kind_is_given_up_when_its_list_is_refused_and_not_when_nothing_answers() {
        for (code, ready) in [(403, true), (404, true), (401, true), (429, false), (500, false), (504, false)] {
            let (store, metrics, readiness) =
                (Store::<WindowsNode>::default(), Metrics::default(), Readiness::default());
            let events = stream::iter([Ok(Event::Init), Err(refused(code))]);
            follow(events, store, metrics, readiness.optional("Node"), |_| {}).await;
            assert_eq!(readiness.is_ready(), ready, "{code}");
        }
    }

    #[tokio::test]
    async fn a_watch_goes_on_after_errors_with_what_it_knew() {
        let (told, store, metrics, _) = told(vec![
            Ok(Event::Init),
            Ok(Event::InitApply(node("a", 1, "web"))),
            Ok(Event::InitDone),
            Err(refused(500)),
            Err(refused(500)),
            Ok(Event::Apply(node("a", 2, "batch"))),
        ])
        .await;
        assert_eq!(told, ["a: - -> web", "a: web -> batch"]);
        assert_eq!(store.len(), 1);
        assert!(metrics.text().contains("winpool_watch_errors_total{kind=\"Node\"} 2"));
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_is_said_once_for_each_reason_and_every_ten_minutes() {
        let mut trouble = None;
        let start = Instant::now();
        complain::<WindowsNode>(&mut trouble, &refused(410));
        assert!(trouble.is_none(), "an old watch is no trouble");
        for (wait, code, said) in [(0, 403, 0), (60, 403, 0), (60, 500, 120), (599, 500, 120), (1, 500, 720)] {
            tokio::time::advance(Duration::from_secs(wait)).await;
            complain::<WindowsNode>(&mut trouble, &refused(code));
            let last = trouble.as_ref().unwrap();
            assert_eq!(
                (last.text.as_str(), last.at.duration_since(start).as_secs()),
                (format!("refused with {code}").as_str(), said)
            );
        }
    }

    #[test]
    fn a_missing_definition_is_named_with_what_installs_it() {
        assert!(remedy("WindowsNodePool", 404).contains("kubectl apply -k crds/"));
        assert!(remedy("RuntimeClass", 404).contains("1.20"));
        assert!(remedy("Node", 403).contains("config/rbac"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_is_waited_for_until_it_shows_a_write() {
        let store = Store::<WindowsNode>::default();
        let limit = Duration::from_secs(2);
        store.replace(vec![node("a", 9, "web").into()]);
        assert!(store.shows(vec![("a", Some("9")), ("b", None)], limit).await);
        assert!(!store.shows(vec![("a", Some("10")), ("b", None)], limit).await, "the limit ends the wait");
        let later = store.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            later.put(node("a", 11, "web").into());
            later.remove("a");
        });
        assert!(store.shows(vec![("b", None), ("a", None)], limit).await);
    }
}

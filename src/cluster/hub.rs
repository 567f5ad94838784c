//! One watch for each kind: its events fill a store, and what really changed is told, deletions included.

use std::pin::pin;

use futures::{Stream, StreamExt};
use kube::runtime::watcher::{self, Event};
use tracing::{debug, info, info_span, warn};

use super::{Change, Store, View, explain, with_sources};
use crate::admin::{Metrics, ReadyHandle};

/// Follows the watch of one kind for as long as it goes on.
///
/// Each change is told once, after the store has it: objects that appeared, changed in what the rules read, were
/// deleted, or were missing from a new list. It is told inside a span `watch`, to which the passes that follow belong.
/// A watch that fails is counted, said once for each new reason, and tried again by the stream itself.
pub async fn follow<V: View>(
    events: impl Stream<Item = watcher::Result<Event<V::Object>>> + Send,
    store: Store<V>,
    metrics: Metrics,
    ready: ReadyHandle,
    tell: impl Fn(&Change<V>) + Send,
) {
    let mut events = pin!(events);
    let mut list = Vec::new();
    let mut trouble: Option<String> = None;
    while let Some(event) = events.next().await {
        let changes = match event {
            Err(error) => {
                metrics.watch_error(V::KIND);
                complain::<V>(&mut trouble, &error);
                continue;
            }
            Ok(Event::Init) => {
                list.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                list.push(V::read(object));
                continue;
            }
            Ok(Event::InitDone) => store.replace(std::mem::take(&mut list)),
            Ok(Event::Apply(object)) => store.put(V::read(object)).into_iter().collect(),
            Ok(Event::Delete(object)) => store.remove(V::read(object).name()).into_iter().collect(),
        };
        if trouble.take().is_some() {
            info!(kind = V::KIND, "watching again");
        }
        ready.set();
        metrics.cached(V::KIND, store.len());
        for change in changes {
            debug!(kind = V::KIND, name = change.name(), change = change.verb(), "seen");
            info_span!("watch", kind = V::KIND, name = change.name(), change = change.verb())
                .in_scope(|| tell(&change));
        }
    }
}

/// Says why a watch fails, once for each reason.
fn complain<V: View>(trouble: &mut Option<String>, error: &watcher::Error) {
    let (code, text) = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => (code(error), explain(error)),
        watcher::Error::WatchError(status) => (status.code, status.message.clone()),
        watcher::Error::NoResourceVersion => (0, with_sources(error)),
    };
    if code == 410 {
        debug!(kind = V::KIND, "the watch is too old and starts again with a new list");
        return;
    }
    if trouble.as_ref() != Some(&text) {
        warn!(kind = V::KIND, remedy = remedy(V::KIND, code), "cannot watch, and trying again: {text}");
        *trouble = Some(text);
    }
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
            "the CustomResourceDefinition is not installed: kubectl apply -f crds/"
        }
        (_, 401) => "the API server does not know the operator's credentials: look at its ServiceAccount or kubeconfig",
        (_, 403) => "the operator may not: apply the ClusterRole, the Role and their bindings from config/rbac",
        (_, 404) => "the API server does not serve this kind: winpool needs Kubernetes 1.20 or later",
        _ => "look at the API server and at the network between",
    }
}

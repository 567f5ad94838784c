//! The controller of nodes that no pool reports: those in no pool, and those whose claim to be of a pool is refused. It
//! counts them, and publishes an event on each.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use parking_lot::Mutex;
use winpool_api::names::reason;
use winpool_rules::status::{
    event::Event,
    nodes::{open_to_linux_pods, refused_claims, unassigned},
};

use super::{
    context::{Context, ReconcileResult},
    queue::Requeue,
};
use crate::admin::ReconcileOutcome;

/// The key in the queue. One reconcile covers all nodes.
pub const KEY: &str = "nodes";

/// The delay before events are retried.
const RETRY: Duration = Duration::from_secs(15);

/// The published events, by the uid of their node and their reason.
#[derive(Clone, Default)]
pub struct Published(Arc<Mutex<BTreeSet<(String, String)>>>);

/// Counts the nodes, and publishes one event on each.
pub async fn reconcile(context: Context, published: Published) -> ReconcileResult {
    let snapshot = context.snapshot();
    let (unassigned, claims) = (unassigned(&snapshot), refused_claims(&snapshot));
    context.metrics.unassigned(unassigned.len(), open_to_linux_pods(&snapshot));
    context.metrics.refused_claims.set(reason::RECORD_NOT_VERIFIED, claims.len());
    let new = published.new_events([unassigned, claims].concat());
    let results = context.events.publish(&new).await;
    let requeue = if published.record(&new, &results) { Requeue::Wait } else { Requeue::After(RETRY) };
    ReconcileResult { requeue, outcome: ReconcileOutcome::Unchanged }
}

impl Published {
    /// The events that were not published yet, or whose cause was gone in the meantime.
    fn new_events(&self, events: Vec<Event>) -> Vec<Event> {
        let mut published = self.0.lock();
        let before = std::mem::take(&mut *published);
        let (known, new): (Vec<_>, _) = events.into_iter().partition(|event| before.contains(&id(event)));
        published.extend(known.iter().map(id));
        new
    }

    /// Records the published events. Returns whether all were published.
    fn record(&self, events: &[Event], results: &[bool]) -> bool {
        let published = events.iter().zip(results).filter(|(_, published)| **published);
        self.0.lock().extend(published.map(|(event, _)| id(event)));
        !results.contains(&false)
    }
}

fn id(event: &Event) -> (String, String) {
    (event.about.uid.clone(), event.reason.clone())
}

#[cfg(test)]
mod tests {
    use winpool_core::kind::Kind;
    use winpool_rules::status::event::Regarding;

    use super::*;

    fn event(uid: &str) -> Event {
        Event {
            about: Regarding::new(Kind::NODE, "win-1", uid),
            warning: true,
            reason: "NoPool".into(),
            action: "Assign",
            message: String::new(),
        }
    }

    #[test]
    fn a_node_in_no_pool_gets_one_event_until_it_was_in_a_pool() {
        let published = Published::default();
        let publish = |nodes: &[&str]| {
            let new = published.new_events(nodes.iter().map(|uid| event(uid)).collect());
            assert!(published.record(&new, &vec![true; new.len()]));
            new
        };
        assert_eq!(publish(&["a"]), [event("a")]);
        assert_eq!(publish(&["a", "b"]), [event("b")]);
        assert_eq!(publish(&["b"]), []);
        assert_eq!(publish(&["a", "b"]), [event("a")], "node a was in a pool in between");
    }

    #[test]
    fn an_event_that_was_not_published_is_retried() {
        let published = Published::default();
        let events = || vec![event("a"), event("b"), event("c")];
        assert!(!published.record(&published.new_events(events()), &[true, false, true]));
        assert_eq!(published.new_events(events()), [event("b")]);
        assert!(published.record(&[event("b")], &[true]));
        assert_eq!(published.new_events(events()), []);
    }
}

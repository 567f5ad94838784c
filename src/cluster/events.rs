//! Tells people what happened, as events on the objects.

use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::time::timeout;
use tracing::warn;

use super::explain;
use crate::{
    api::names::GROUP,
    domain::note::{About, Note},
};

/// The longest note that events.k8s.io/v1 takes, in bytes.
const LONGEST: usize = 1024;
/// How long the events of one pass may take together.
const LIMIT: Duration = Duration::from_secs(5);

/// Publishes notes. Repeated ones within six minutes become one event with a count.
#[derive(Clone)]
pub struct Events(Recorder);

impl Events {
    /// Publishes through this client.
    pub fn new(client: Client) -> Self {
        Self(Recorder::new(client, Reporter::from("winpool")))
    }

    /// Publishes the notes. An event that cannot be published is said in the log and lost: it never fails a pass.
    pub async fn publish(&self, notes: &[Note]) {
        let published = stream::iter(notes).for_each_concurrent(4, async |note| {
            if let Err(error) = self.0.publish(&event(note), &reference(&note.about)).await {
                warn!(reason = note.reason, "an event is lost: {}", explain(&error));
            }
        });
        if timeout(LIMIT, published).await.is_err() {
            warn!("events are lost: the API server did not take them within {LIMIT:?}");
        }
    }
}

fn event(note: &Note) -> Event {
    Event {
        type_: if note.warning { EventType::Warning } else { EventType::Normal },
        reason: note.reason.clone(),
        action: note.action.to_owned(),
        note: Some(shortened(&note.message)),
        secondary: None,
    }
}

/// Cluster-scoped objects have no namespace, so their events land in `default`.
fn reference(about: &About) -> ObjectReference {
    let ours = format!("{GROUP}/v1alpha1");
    let (version, kind, name, uid) = match about {
        About::Pool { name, uid } => (ours, "WindowsNodePool", name, uid),
        About::Profile { name, uid } => (ours, "WindowsRuntimeProfile", name, uid),
        About::Node { name, uid } => ("v1".to_owned(), "Node", name, uid),
    };
    ObjectReference {
        api_version: Some(version),
        kind: Some(kind.to_owned()),
        name: Some(name.clone()),
        uid: Some(uid.clone()),
        ..ObjectReference::default()
    }
}

/// At most as much as an event takes, cut between letters.
fn shortened(text: &str) -> String {
    const MORE: &str = " …";
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let end = (0..=LONGEST - MORE.len()).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text.get(..end).unwrap_or_default().to_owned() + MORE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_cut_at_a_kilobyte_between_letters() {
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened(&"a".repeat(1024)), "a".repeat(1024));
        for long in ["a".repeat(1025), "ü".repeat(600), "…".repeat(400)] {
            let cut = shortened(&long);
            assert!((1020..=1024).contains(&cut.len()), "{}", cut.len());
            assert!(cut.ends_with(" …"));
        }
    }
}

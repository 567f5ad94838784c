//! Windows nodes that belong to no pool.

use super::event::{Event, Regarding};
use crate::pool::Snapshot;

/// The events on Windows nodes that belong to no pool.
pub fn unassigned(snapshot: &Snapshot) -> Vec<Event> {
    let membership = snapshot.membership();
    membership
        .unassigned()
        .map(|node| Event {
            about: Regarding::Node { name: node.name.clone(), uid: node.uid.clone() },
            warning: true,
            reason: "NoPool".to_owned(),
            action: "Assign",
            message:
                "No WindowsNodePool matches this Windows node, so no pool taints it. Label it for a pool, or create a \
                      pool with spec.fallback: true."
                    .to_owned(),
        })
        .collect()
}

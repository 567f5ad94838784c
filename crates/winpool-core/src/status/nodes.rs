//! Events on Windows nodes that no pool reports: those in no pool, and those whose claim to be of a pool is refused.

use winpool_api::names::{label, reason};

use super::event::{Event, Regarding};
use crate::{node::WindowsNode, pool::Snapshot};

/// What to do about a label that makes no node a member.
pub(super) const REMOVE_CLAIM: &str = "Remove the label. Policy winpool-nodes of config/policies rejects such a change of a \
                                       node, except by the operator";

/// The events on Windows nodes that belong to no pool.
pub fn unassigned(snapshot: &Snapshot) -> Vec<Event> {
    let message = "No WindowsNodePool matches this Windows node, so no pool taints it. Label it for a pool, or create a pool \
                   with spec.fallback: true.";
    snapshot.membership().unassigned().map(|node| warning(node, "NoPool", message.to_owned())).collect()
}

/// The events on Windows nodes with the label of a pool that does not select them, without a valid record. Their kubelets
/// may have set it, so it makes them no members.
pub fn refused_claims(snapshot: &Snapshot) -> Vec<Event> {
    let membership = snapshot.membership();
    let of_claim = |(node, pool)| {
        let message = format!(
            "Label {}={pool} has no effect: the pool does not select this node, and the node has no valid record of the \
             operator. {REMOVE_CLAIM}.",
            label::POOL
        );
        Some(warning(snapshot.nodes.get(node)?, reason::RECORD_NOT_VERIFIED, message))
    };
    membership.claims().filter_map(of_claim).collect()
}

fn warning(node: &WindowsNode, reason: &str, message: String) -> Event {
    Event {
        about: Regarding::Node { name: node.name.clone(), uid: node.uid.clone() },
        warning: true,
        reason: reason.to_owned(),
        action: "Assign",
        message,
    }
}

//! Events on Windows nodes that no pool reports: those in no pool, and those whose claim to be of a pool is refused.

use winpool_api::names::{label, reason};
use winpool_core::node::WindowsNode;

use super::event::{Event, Regarding};
use crate::pool::Snapshot;

/// What to do about a label that makes no node a member.
pub(super) const REMOVE_CLAIM: &str = "Remove the label. Policy winpool-nodes of config/policies rejects such a change of a \
                                       node, except by the operator";

/// The events on Windows nodes that belong to no pool.
pub fn unassigned(snapshot: &Snapshot) -> Vec<Event> {
    let message = "No WindowsNodePool matches this Windows node, so no pool taints it. Label it for a pool, or create a pool \
                   with spec.fallback: true.";
    snapshot.membership().unassigned().map(|node| warning(node, "NoPool", message.to_owned())).collect()
}

/// The number of Windows nodes in no pool to which Linux pods can be scheduled: Ready, not cordoned, and without a lasting taint that
/// keeps them off.
pub fn open_to_linux_pods(snapshot: &Snapshot) -> usize {
    let excludes = |node: &WindowsNode| node.lasting_taints().any(|taint| taint.excludes_pods());
    let is_open = |node: &&WindowsNode| node.is_schedulable() && !excludes(node);
    snapshot.membership().unassigned().filter(is_open).count()
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
    Event::new(Regarding::node(node), true, "Assign", reason, message)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_node_in_no_pool_is_open_if_linux_pods_can_be_scheduled_to_it() {
        let taint = |effect: &str| json!({"taints": [{"key": "os", "value": "windows", "effect": effect}]});
        let table: [(&str, Value, &str, usize); 6] = [
            ("without taints", json!({}), "True", 1),
            ("not Ready", json!({}), "False", 0),
            ("cordoned", json!({"unschedulable": true}), "True", 0),
            ("with a taint that keeps pods off", taint("NoSchedule"), "True", 0),
            ("with a taint that others avoid if they can", taint("PreferNoSchedule"), "True", 1),
            (
                "with a taint of the node controller",
                json!({"taints": [{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]}),
                "True",
                1,
            ),
        ];
        for (case, spec, ready, expected) in table {
            let object = json!({
                "metadata": {"name": "alone", "labels": {"kubernetes.io/os": "windows"}},
                "spec": spec, "status": {"conditions": [{"type": "Ready", "status": ready}]},
            });
            let node: Node = serde_json::from_value(object).unwrap();
            let snapshot = Snapshot { nodes: [WindowsNode::from(node)].into_iter().collect(), ..Snapshot::default() };
            assert_eq!(open_to_linux_pods(&snapshot), expected, "{case}");
        }
    }
}

//! The events on nodes about the configurations that their agents apply.

use winpool_core::{ForeignText, node::WindowsNode};

use super::event::{Event, Regarding};
use crate::{
    operation::{Action, Body, Done},
    pool::{Snapshot, plan::Plan, rollout::FailureReason},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedNode {
    /// What identifies the failure: an event is published once for each.
    pub key: FailureKey,
    pub reason: FailureReason,
    pub event: Event,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FailureKey {
    pub node_uid: String,
    pub config: String,
    pub attempt: u32,
    pub kind: &'static str,
}

/// Why the reports of an agent are ignored, and what to do.
const OTHER_MACHINE: &str = "its agent runs on a machine with another UUID than that of the kubelet, so that its reports are \
                             ignored. Find out who uses the token of the agent";

/// The nodes where the desired configuration failed.
pub fn failed(snapshot: &Snapshot, plan: &Plan) -> Vec<FailedNode> {
    let attempt = plan.pool.spec.as_ref().ok().and_then(|spec| spec.rollout).map_or(1, |rules| rules.attempt);
    let failed = plan.failures().iter().filter_map(|failure| {
        let node = snapshot.nodes.get(&failure.node)?;
        let config = snapshot.node_configs.as_ref().and_then(|configs| configs.get(&failure.node));
        let details = ForeignText::from(config.map_or("", |config| config.status.message.as_str()));
        let details = match details.is_empty() || failure.reason.is_timeout() {
            _ if config.is_some_and(|config| config.is_of_other_machine(node)) => format!(": {OTHER_MACHINE}"),
            true => String::new(),
            false => format!(": {details}"),
        };
        let message = format!("configuration {} failed on the node, {}{details}", failure.config, failure.reason);
        let kind = failure.reason.kind();
        Some(FailedNode {
            key: FailureKey { node_uid: node.uid.clone(), config: failure.config.clone(), attempt, kind },
            reason: failure.reason.clone(),
            event: event(node, true, "ConfigFailed", message),
        })
    });
    failed.collect()
}

/// The events on the nodes whose configuration was confirmed by these writes.
pub fn confirmed(snapshot: &Snapshot, done: &Done) -> Vec<Event> {
    let written = done.written().filter(|write| write.action == Action::ApplyNodeConfig);
    let confirmed = written.filter_map(|write| {
        let Body::Value(body) = &write.body else { return None };
        let name = &write.object.name;
        let spec = &body["spec"];
        let config = spec["config"].as_str()?;
        let before = snapshot.node_configs.as_ref().and_then(|configs| configs.get(name)?.spec.as_ref());
        let is_new = spec["confirmed"].is_string() && !before.is_some_and(|before| before.is_confirmed());
        let message = format!("configuration {config} works on the node and is confirmed");
        let node = snapshot.nodes.get(name)?;
        is_new.then(|| event(node, false, "ConfigConfirmed", message))
    });
    confirmed.collect()
}

fn event(node: &WindowsNode, warning: bool, reason: &str, message: String) -> Event {
    Event::new(Regarding::node(node), warning, "Deliver", reason, message)
}

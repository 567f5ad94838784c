//! Settings of nodes that an upgrade ends.

use winpool_core::node::WindowsNode;
use winpool_rules::upgrade::{EndedSetting, ended_settings as of_node};

use crate::doctor::case::{Case, Checked, Observation};

/// What the agents of the nodes report, as far as the next minor or a later containerd refuses or ignores it.
pub fn ended_settings(case: &Case<'_>) -> Checked {
    let configs = case.node_configs()?;
    let nodes = case.evidence.nodes()?.iter().cloned().map(WindowsNode::from);
    let observed = nodes.flat_map(|node| {
        let facts = configs.get(&node.name).and_then(|config| config.status.facts.clone()).unwrap_or_default();
        let text = |EndedSetting { problem, remedy }| format!("{problem}. {remedy}");
        let texts = of_node(&node, &facts, None).into_iter().map(text);
        texts.map(|text| Observation::of_node(&node.name, "settings", text)).collect::<Vec<_>>()
    });
    Ok(observed.collect())
}

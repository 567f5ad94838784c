//! The part of the planned configurations that agents cannot apply, as far as it is known before.

use std::collections::BTreeMap;

use serde::Serialize;
use winpool_api::names::reason;
use winpool_core::node::WindowsNode;
use winpool_render::KUBE_PROXY_YAML;

use crate::pool::{
    Snapshot,
    plan::{Phase, Plan},
};

/// Why the agent of a node cannot apply `kube-proxy.yaml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum KubeProxyObstacle {
    /// RKE2 starts kube-proxy itself.
    Rke2,
    /// The agent reports now that kube-proxy is no service with `--config` there: it runs in a pod, or its service has flags only.
    NoService,
}

/// The nodes whose configuration will have a `kube-proxy.yaml` that their agents cannot apply. Nothing is said about a node that has
/// reported no such configuration yet, because its layout alone does not show how kube-proxy runs.
pub fn without_kube_proxy(snapshot: &Snapshot, plan: &Plan) -> BTreeMap<KubeProxyObstacle, Vec<String>> {
    let (Phase::Active(active), Ok(spec)) = (&plan.phase, &plan.pool.spec) else { return BTreeMap::new() };
    let mut nodes: BTreeMap<KubeProxyObstacle, Vec<String>> = BTreeMap::new();
    let members = active.members.iter().map(|member| member.node.as_ref()).filter(|_| spec.rollout.is_some());
    for node in members {
        let config = active.configs.name_for(node).and_then(|name| active.configs.configs.get(name));
        let is_configured = config.is_some_and(|config| config.configuration.files.contains_key(KUBE_PROXY_YAML));
        if let Some(obstacle) = obstacle(snapshot, node).filter(|_| is_configured) {
            nodes.entry(obstacle).or_default().push(node.name.clone());
        }
    }
    nodes
}

fn obstacle(snapshot: &Snapshot, node: &WindowsNode) -> Option<KubeProxyObstacle> {
    let reported = || snapshot.node_configs.as_ref()?.get(&node.name)?.assigned(node);
    match node.is_rke2 {
        true => Some(KubeProxyObstacle::Rke2),
        false => reported()
            .filter(|assigned| assigned.is_applied_with(reason::PARTLY_APPLIED))
            .map(|_| KubeProxyObstacle::NoService),
    }
}

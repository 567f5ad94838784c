//! Nodes and RuntimeClasses: taints, labels, tolerations.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::{core::v1::Node, node::v1::RuntimeClass};
use kube::{ResourceExt, api::ListParams};
use serde_json::Value;

use super::{Cluster, POOL_LABEL, SOON, edit};
use crate::{
    objects::{has_taint, selector_of, taints_of, tolerations_of},
    wait::until,
};

impl Cluster {
    /// Changes a node with a merge patch, like a manual edit.
    pub async fn edit_node(&self, name: &str, patch: Value) -> Result<()> {
        edit(&self.nodes(), name, patch).await
    }

    /// Changes a RuntimeClass with a merge patch, like a manual edit.
    pub async fn edit_class(&self, name: &str, patch: Value) -> Result<()> {
        edit(&self.classes(), name, patch).await
    }

    pub async fn node(&self, name: &str) -> Result<Node> {
        Ok(self.nodes().get(name).await?)
    }

    /// The taints of a node as `key=value:Effect`, without those that Kubernetes itself sets.
    pub async fn taints(&self, node: &str) -> Result<Vec<String>> {
        Ok(taints_of(&self.node(node).await?))
    }

    pub async fn label(&self, node: &str, key: &str) -> Result<Option<String>> {
        Ok(self.node(node).await?.labels().get(key).cloned())
    }

    pub async fn annotation(&self, node: &str, key: &str) -> Result<Option<String>> {
        Ok(self.node(node).await?.annotations().get(key).cloned())
    }

    pub async fn pool_of(&self, node: &str) -> Result<Option<String>> {
        self.label(node, POOL_LABEL).await
    }

    /// Waits until a node has these taints, in this order.
    pub async fn until_taints(&self, node: &str, expected: &[&str]) -> Result<()> {
        let what = format!("node {node} has the taints {expected:?}");
        until(&what, SOON, || self.taints(node), |taints| taints == expected).await.map(drop)
    }

    /// Waits until a node has the label of this pool, or no such label.
    pub async fn until_pool_of(&self, node: &str, expected: Option<&str>) -> Result<()> {
        let what = format!("node {node} is in pool {expected:?}");
        until(&what, SOON, || self.pool_of(node), |pool| pool.as_deref() == expected).await.map(drop)
    }

    /// The names of the nodes of a pool that have a taint of this key and value.
    pub async fn tainted_nodes(&self, pool: &str, taint: (&str, &str)) -> Result<Vec<String>> {
        let nodes = self.nodes().list(&ListParams::default().labels(&format!("{POOL_LABEL}={pool}"))).await?;
        let tainted = nodes.items.into_iter().filter(|node| has_taint(node, taint.0, taint.1));
        Ok(tainted.filter_map(|node| node.metadata.name).collect())
    }

    /// Waits until `count` nodes of a pool have a taint.
    pub async fn until_tainted(&self, pool: &str, taint: (&str, &str), count: usize) -> Result<()> {
        let what = format!("{count} nodes of pool {pool} have the taint {taint:?}");
        let number = || async { Ok(self.tainted_nodes(pool, taint).await?.len()) };
        until(&what, SOON, number, |number| *number == count).await.map(drop)
    }

    pub async fn class(&self, name: &str) -> Result<RuntimeClass> {
        Ok(self.classes().get(name).await?)
    }

    /// The labels of the nodes that a RuntimeClass selects.
    pub async fn selector(&self, class: &str) -> Result<BTreeMap<String, String>> {
        Ok(selector_of(&self.class(class).await?))
    }

    /// The tolerations of a RuntimeClass, written as the taints that they tolerate.
    pub async fn tolerations(&self, class: &str) -> Result<Vec<String>> {
        Ok(tolerations_of(&self.class(class).await?))
    }

    /// Waits until a RuntimeClass has these tolerations, in this order.
    pub async fn until_tolerations(&self, class: &str, expected: &[&str]) -> Result<()> {
        let what = format!("RuntimeClass {class} tolerates {expected:?}");
        until(&what, SOON, || self.tolerations(class), |tolerations| tolerations == expected).await.map(drop)
    }
}

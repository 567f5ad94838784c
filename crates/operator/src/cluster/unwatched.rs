//! The nodes that winpool has changed and that the watch of Windows nodes does not select: a kubelet can remove the label
//! `kubernetes.io/os` of its own node.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{ListParams, ObjectMeta},
};
use tracing::warn;
use winpool_api::names::{annotation, label};
use winpool_core::node::WindowsNode;
use winpool_rules::ownership::Ownership;

use super::{in_pages, limited, list::PAGE};

/// How long one request may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Lists the nodes that no watch selects.
#[derive(Clone)]
pub struct UnwatchedNodes(Api<Node>);

impl UnwatchedNodes {
    /// Lists with this client, in pages of bounded size: kubelets can write large annotations.
    pub fn new(client: Client) -> Self {
        Self(Api::all(in_pages(client)))
    }

    /// The nodes whose verified record names a pool. `None` if they cannot be listed, which is logged.
    pub async fn of_pool(&self, pool: &str, ownership: &Ownership) -> Option<Vec<WindowsNode>> {
        let nodes = self.recorded().await.inspect_err(|error| {
            warn!(pool, error, "nodes without the label {}=windows cannot be listed, retrying", label::OS);
        });
        let is_of_pool = |node: &WindowsNode| ownership.pool_of(node) == Some(pool);
        Some(nodes.ok()?.into_iter().filter(is_of_pool).collect())
    }

    /// How many Linux nodes match a selector, at most [`PAGE`]: 0 if they cannot be listed, which is logged.
    pub async fn linux(&self, selector: &str) -> usize {
        let (mut count, most) = (0, PAGE as usize);
        let labels = format!("{}=linux,{selector}", label::OS);
        let counted = self.each_page(&labels, |page| {
            count += page.len();
            count < most
        });
        match counted.await {
            Ok(()) => count.min(most),
            Err(error) => {
                warn!(selector, error, "Linux nodes cannot be counted");
                0
            }
        }
    }

    /// The nodes with a record. The others, which may be thousands of Linux nodes, are read without their spec and status.
    pub async fn recorded(&self) -> Result<Vec<WindowsNode>, String> {
        let mut nodes = Vec::new();
        for name in self.names().await? {
            // The operator has no permission to get a node.
            let one = ListParams::default().fields(&format!("metadata.name={name}"));
            nodes.extend(limited(LIMIT, self.0.list(&one)).await?.items.into_iter().map(WindowsNode::from));
        }
        Ok(nodes)
    }

    async fn names(&self) -> Result<BTreeSet<String>, String> {
        let mut names = BTreeSet::new();
        let is_recorded = |node: &ObjectMeta| {
            node.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(annotation::OWNED))
        };
        self.each_page(&format!("{}!=windows", label::OS), |page| {
            names.extend(page.into_iter().filter(is_recorded).filter_map(|node| node.name));
            true
        })
        .await?;
        Ok(names)
    }

    /// Calls a function with the metadata of the nodes in each page, until it returns false.
    async fn each_page(&self, labels: &str, mut more: impl FnMut(Vec<ObjectMeta>) -> bool) -> Result<(), String> {
        let mut params = ListParams::default().labels(labels).limit(PAGE);
        loop {
            let page = limited(LIMIT, self.0.list_metadata(&params)).await?;
            let is_continued = more(page.items.into_iter().map(|node| node.metadata).collect());
            match page.metadata.continue_.filter(|token| is_continued && !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }
}

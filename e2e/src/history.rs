//! Every state of an object, in the order in which the API server stored them.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    future::ready,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use k8s_openapi::api::{core::v1::Node, node::v1::RuntimeClass};
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use crate::{
    cluster::{Cluster, SOON},
    objects::{selector_of, taints_of, tolerations_of},
    wait::eventually,
};

/// The states of one object by resource version, which all objects in etcd share.
pub struct History<K> {
    api: Api<K>,
    name: String,
    states: Arc<Mutex<BTreeMap<u64, K>>>,
    watch: JoinHandle<()>,
}

impl<K> History<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    /// Records the present state of the object, if it exists, and every later state.
    ///
    /// # Errors
    /// When the object cannot be watched.
    pub async fn start(api: Api<K>, name: &str) -> Result<Self> {
        let field = format!("metadata.name={name}");
        let present = api.list(&ListParams::default().fields(&field)).await?;
        let begin = present.metadata.resource_version.context("a list has a resource version")?;
        let present = present.items.into_iter().map(|object| Ok((version(&object)?, object)));
        let states = Arc::new(Mutex::new(present.collect::<Result<BTreeMap<_, _>>>()?));
        let events = api.watch(&WatchParams::default().fields(&field).timeout(290), &begin).await?.boxed();
        let all = states.clone();
        let watch = tokio::spawn(events.for_each(move |event| {
            if let Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) = event
                && let Ok(version) = version(&object)
            {
                lock(&all).insert(version, object);
            }
            ready(())
        }));
        Ok(Self { api, name: name.to_owned(), states, watch })
    }

    /// Every state until now.
    ///
    /// # Errors
    /// When the object does not exist, or the watch does not show its present state.
    pub async fn until_now(&self) -> Result<BTreeMap<u64, K>> {
        let now = version(&self.api.get(&self.name).await?)?;
        let caught_up = || async {
            ensure!(lock(&self.states).contains_key(&now), "the watch is behind");
            Ok(())
        };
        eventually("the watch shows the present state", SOON, caught_up).await?;
        Ok(lock(&self.states).clone())
    }
}

impl<K> Drop for History<K> {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn version<K: Resource>(object: &K) -> Result<u64> {
    Ok(object.resource_version().unwrap_or_default().parse()?)
}

/// The histories of a node and of a RuntimeClass.
pub struct Placement {
    node: History<Node>,
    class: History<RuntimeClass>,
}

/// The states of a node and a RuntimeClass after one of them was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The taints of the node.
    pub taints: Vec<String>,
    /// The labels of the node.
    pub labels: BTreeMap<String, String>,
    /// The tolerations of the class.
    pub tolerations: Vec<String>,
    /// The labels of the nodes that the class selects.
    pub selector: BTreeMap<String, String>,
}

impl Placement {
    /// Starts to record both.
    ///
    /// # Errors
    /// When one cannot be watched.
    pub async fn start(cluster: &Cluster, node: &str, class: &str) -> Result<Self> {
        let (node, class) =
            (History::start(cluster.nodes(), node).await?, History::start(cluster.classes(), class).await?);
        Ok(Self { node, class })
    }

    /// Every moment until now at which both existed.
    ///
    /// # Errors
    /// As [`History::until_now`].
    pub async fn until_now(&self) -> Result<Vec<Moment>> {
        let (nodes, classes) = (self.node.until_now().await?, self.class.until_now().await?);
        let mut versions: Vec<u64> = nodes.keys().chain(classes.keys()).copied().collect();
        versions.sort_unstable();
        let moment = |version: u64| {
            let (_, node) = nodes.range(..=version).next_back()?;
            let (_, class) = classes.range(..=version).next_back()?;
            Some(Moment {
                taints: taints_of(node),
                labels: node.labels().clone(),
                tolerations: tolerations_of(class),
                selector: selector_of(class),
            })
        };
        Ok(versions.into_iter().filter_map(moment).collect())
    }
}

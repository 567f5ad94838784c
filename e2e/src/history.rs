//! Every state of the objects of a kind, as a watch shows them.

use std::{
    fmt::Debug,
    future::ready,
    sync::{Arc, Mutex},
};

use anyhow::{Context, Result};
use futures::StreamExt;
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use crate::{cluster::SOON, shared::lock, wait::until};

/// The states of objects, in the order in which the API server stored them.
pub struct History<K> {
    api: Api<K>,
    states: Arc<Mutex<Vec<K>>>,
    watch: JoinHandle<()>,
}

impl<K> History<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    /// Records the present state of each object, and every later state.
    pub async fn start(api: Api<K>) -> Result<Self> {
        let present = api.list(&ListParams::default()).await?;
        let begin = present.metadata.resource_version.context("a list has a resource version")?;
        let states = Arc::new(Mutex::new(present.items));
        let events = api.watch(&WatchParams::default().timeout(290), &begin).await?.boxed();
        let all = states.clone();
        let watch = tokio::spawn(events.for_each(move |event| {
            if let Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) = event {
                lock(&all).push(object);
            }
            ready(())
        }));
        Ok(Self { api, states, watch })
    }

    pub fn forget(&self) {
        lock(&self.states).clear();
    }

    /// Every state until now: waits until the watch shows the present states, if there is one that it has to show.
    pub async fn until_now(&self) -> Result<Vec<K>> {
        let newest = |objects: &[K]| {
            let versions = objects.iter().filter_map(|object| object.resource_version()?.parse::<u64>().ok());
            versions.max().unwrap_or_default()
        };
        let now = newest(&self.api.list(&ListParams::default()).await?.items);
        let seen = || async { Ok(newest(&lock(&self.states))) };
        until("the watch shows the present states", SOON, seen, |seen| *seen >= now || *seen == 0).await?;
        Ok(lock(&self.states).clone())
    }
}

impl<K> Drop for History<K> {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

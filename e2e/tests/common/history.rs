//! Every state that a node and a RuntimeClass go through, in the order in which the API server wrote them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use anyhow::{Result, ensure};
use e2e::wait::eventually;
use futures::StreamExt;
use k8s_openapi::api::{core::v1::Node, node::v1::RuntimeClass};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use super::{SOON, taints_of, tolerations_of};

/// What was seen of a node and a class. The versions of all objects come from one counter of the store.
pub struct History {
    client: Client,
    node: String,
    class: String,
    seen: Arc<Mutex<BTreeMap<u64, Seen>>>,
    watches: Vec<JoinHandle<()>>,
}

enum Seen {
    Node(Box<Node>),
    Class(Box<RuntimeClass>),
}

/// One moment: what both were after one of them was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The taints of the node.
    pub taints: Vec<String>,
    /// The labels of the node.
    pub labels: BTreeMap<String, String>,
    /// The tolerations of the class.
    pub tolerations: Vec<String>,
    /// The labels that the class leads to.
    pub selector: BTreeMap<String, String>,
}

impl History {
    /// Watches both from now on.
    pub async fn of(client: &Client, node: &str, class: &str) -> Self {
        let mut history = Self {
            client: client.clone(),
            node: node.to_owned(),
            class: class.to_owned(),
            seen: Arc::default(),
            watches: Vec::new(),
        };
        history.watch(node, |node: Node| Seen::Node(Box::new(node))).await;
        history.watch(class, |class: RuntimeClass| Seen::Class(Box::new(class))).await;
        history
    }

    async fn watch<K>(&mut self, name: &str, seen: fn(K) -> Seen)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>,
        K: Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
    {
        let api = Api::<K>::all(self.client.clone());
        let present = api.get(name).await.unwrap();
        let version = present.resource_version().unwrap();
        let all = self.seen.clone();
        all.lock().unwrap().insert(version.parse().unwrap(), seen(present));
        let params = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(290);
        let events = api.watch(&params, &version).await.unwrap();
        self.watches.push(tokio::spawn(events.for_each(move |event| {
            if let Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) = event {
                let version = object.resource_version().unwrap().parse().unwrap();
                all.lock().unwrap().insert(version, seen(object));
            }
            std::future::ready(())
        })));
    }

    /// Every moment until now.
    pub async fn until_now(&self) -> Vec<Moment> {
        let node = version(Api::<Node>::all(self.client.clone()), &self.node).await.unwrap();
        let class = version(Api::<RuntimeClass>::all(self.client.clone()), &self.class).await.unwrap();
        let caught_up = || async {
            let seen = self.seen.lock().unwrap();
            ensure!(seen.contains_key(&node) && seen.contains_key(&class), "the watches are behind");
            Ok(())
        };
        eventually("the watches show the present", SOON, caught_up).await.unwrap();
        let mut moments = Vec::new();
        let mut moment = Moment::default();
        for seen in self.seen.lock().unwrap().values() {
            match seen {
                Seen::Node(node) => {
                    moment = Moment { taints: taints_of(node), labels: node.labels().clone(), ..moment };
                }
                Seen::Class(class) => {
                    let (tolerations, selector) = (tolerations_of(class), super::selector_of(class));
                    moment = Moment { tolerations, selector, ..moment };
                }
            }
            moments.push(moment.clone());
        }
        // The first moment knows only one of the two.
        moments.remove(0);
        moments
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.watches.iter().for_each(JoinHandle::abort);
    }
}

async fn version<K>(api: Api<K>, name: &str) -> Result<u64>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    Ok(api.get(name).await?.resource_version().unwrap_or_default().parse()?)
}

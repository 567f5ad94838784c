//! The key that signs the records on nodes, in a Secret of the operator's namespace that is created at the first start.

#![allow(clippy::disallowed_types)] // writes

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio::{
    sync::{Mutex, watch},
    time::sleep,
};
use tracing::{info, warn};
use winpool_api::names::{OWNERSHIP_SECRET, label};
use winpool_core::record::OwnershipKey;
use winpool_rules::ownership::Ownership;

use super::limited;

const ENTRY: &str = "key";
/// How often the Secret is read, to restore a deleted Secret and to use the key of a replaced one.
const INTERVAL: Duration = Duration::from_secs(60);
/// How often the Secret is read after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// The number of attempts at the start.
const ATTEMPTS: usize = 4;
/// The time between the attempts at the start.
const PAUSE: Duration = Duration::from_secs(2);
/// How long one request may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Why the key cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("Secret {OWNERSHIP_SECRET} does not exist")]
    Missing,
    #[error(
        "Secret {OWNERSHIP_SECRET} has no entry `{ENTRY}` of {} bytes: restore it, or delete it, after which the existing records \
         on nodes cannot be verified",
        OwnershipKey::LENGTH
    )]
    Unusable,
    /// The API server refused the request, or did not answer.
    #[error("Secret {OWNERSHIP_SECRET}: {0}")]
    Request(String),
}

/// Reads the key.
pub async fn read(client: &Client, namespace: &str) -> Result<OwnershipKey, KeyError> {
    read_bytes(client, namespace).await.map(|bytes| OwnershipKey::new(&bytes))
}

type Bytes = [u8; OwnershipKey::LENGTH];

async fn read_bytes(client: &Client, namespace: &str) -> Result<Bytes, KeyError> {
    let secrets = secrets(client, namespace);
    let secret = limited(LIMIT, secrets.get_opt(OWNERSHIP_SECRET)).await.map_err(KeyError::Request)?;
    let secret = secret.ok_or(KeyError::Missing)?;
    let bytes = secret.data.unwrap_or_default().remove(ENTRY).ok_or(KeyError::Unusable)?;
    bytes.0.try_into().map_err(|_| KeyError::Unusable)
}

fn secrets(client: &Client, namespace: &str) -> Api<Secret> {
    Api::namespaced(client.clone(), namespace)
}

/// Publishes the key of the Secret, and a temporary key of this process until the Secret can be read.
pub struct OwnershipKeyStore {
    client: Client,
    namespace: String,
    /// The key of this process, which is stored if there is no Secret.
    own: Arc<OwnershipKey>,
    /// The last key of the Secret, so that a deleted Secret is restored; at first the key of this process.
    bytes: Bytes,
    stored: bool,
    published: watch::Sender<Arc<Ownership>>,
}

impl OwnershipKeyStore {
    /// Creates the store and the channel on which the key is published.
    pub fn new(client: Client, namespace: String) -> Result<(Self, watch::Receiver<Arc<Ownership>>), getrandom::Error> {
        let mut bytes = Bytes::default();
        getrandom::fill(&mut bytes)?;
        let own = Arc::new(OwnershipKey::new(&bytes));
        let not_stored = Some("the Secret was not read yet".into());
        let first = Ownership::Signed { key: own.clone(), former: None, not_stored };
        let (published, receiver) = watch::channel(Arc::new(first));
        Ok((Self { client, namespace, own, bytes, stored: false, published }, receiver))
    }

    /// Syncs with a few retries, because records cannot be verified without the key.
    pub async fn start(&mut self) {
        for _ in 0..ATTEMPTS {
            self.sync().await;
            if self.stored {
                return;
            }
            sleep(PAUSE).await;
        }
    }

    /// Reads the Secret, or creates it.
    pub async fn sync(&mut self) {
        let result = match read_bytes(&self.client, &self.namespace).await {
            Err(KeyError::Missing) => self.create().await,
            answer => answer,
        };
        match result {
            Ok(bytes) => {
                self.bytes = bytes;
                self.publish(Arc::new(OwnershipKey::new(&bytes)), None);
                self.stored = true;
            }
            Err(error) => {
                let text = error.to_string();
                let current = self.published.borrow().clone();
                if current.not_stored() != Some(&text) {
                    warn!(error = text, remedy = REMEDY, "key that signs the records on nodes is not stored");
                }
                if let Ownership::Signed { key, .. } = current.as_ref() {
                    self.publish(key.clone(), Some(text));
                }
                self.stored = false;
            }
        }
    }

    /// Syncs periodically. The last key is kept when the task is started again.
    pub async fn run(shared: Arc<Mutex<Self>>) {
        loop {
            let stored = shared.lock().await.stored;
            sleep(if stored { INTERVAL } else { RETRY_INTERVAL }).await;
            shared.lock().await.sync().await;
        }
    }

    /// Stores the key, or returns the key that another process stored first.
    async fn create(&self) -> Result<Bytes, KeyError> {
        let labels = BTreeMap::from([(label::MANAGED_BY.to_owned(), label::MANAGED_BY_VALUE.to_owned())]);
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(OWNERSHIP_SECRET.to_owned()),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(ENTRY.to_owned(), ByteString(self.bytes.to_vec()))])),
            ..Secret::default()
        };
        let request = async {
            match secrets(&self.client, &self.namespace).create(&PostParams::default(), &secret).await {
                Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(false),
                answer => answer.map(|_| true),
            }
        };
        if !limited(LIMIT, request).await.map_err(KeyError::Request)? {
            return read_bytes(&self.client, &self.namespace).await;
        }
        info!(secret = OWNERSHIP_SECRET, remedy = BACK_UP, "key that signs the records on nodes created");
        Ok(self.bytes)
    }

    fn publish(&self, key: Arc<OwnershipKey>, not_stored: Option<String>) {
        let former = (*key != *self.own).then(|| self.own.clone());
        let next = Arc::new(Ownership::Signed { key, former, not_stored: not_stored.map(Into::into) });
        self.published.send_if_modified(|published| {
            let changed = **published != *next;
            if changed {
                *published = next;
            }
            changed
        });
    }
}

const REMEDY: &str =
    "apply the Role from config/default. Until the key is stored, the records cannot be verified after a restart";
const BACK_UP: &str = "back up the Secret: without it, the records cannot be verified";

//! The key that signs the records on nodes: in a Secret of the operator's namespace, created at the first start.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{info, warn};

use super::explain;
use crate::{
    api::names::{OWNERSHIP_SECRET, label},
    domain::ownership::{Ownership, OwnershipKey},
};

/// The entry of the Secret.
const ENTRY: &str = "key";
/// How often the Secret is read: one that was deleted is restored, one that was replaced is taken.
const EVERY: Duration = Duration::from_secs(60);
/// How often it is read while it cannot be.
const RETRY: Duration = Duration::from_secs(10);
/// How often it is tried at the start, and with which pause.
const ATTEMPTS: usize = 4;
const PAUSE: Duration = Duration::from_secs(2);
/// How long an answer is waited for.
const LIMIT: Duration = Duration::from_secs(10);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// There is no Secret.
    #[error("there is no Secret {OWNERSHIP_SECRET}")]
    Missing,
    /// The Secret has no key of the right length.
    #[error(
        "Secret {OWNERSHIP_SECRET} has no entry `{ENTRY}` of {} bytes: restore it, or delete it, then the records on nodes are \
         not believed any more",
        OwnershipKey::LENGTH
    )]
    Unusable,
    /// The API server refused, or did not answer.
    #[error("Secret {OWNERSHIP_SECRET}: {0}")]
    Request(String),
}

/// Reads the key.
///
/// # Errors
/// There is none, it cannot be used, or the API server did not give it.
pub async fn read(client: &Client, namespace: &str) -> Result<OwnershipKey, KeyError> {
    read_bytes(client, namespace).await.map(|bytes| OwnershipKey::new(&bytes))
}

type Bytes = [u8; OwnershipKey::LENGTH];

async fn read_bytes(client: &Client, namespace: &str) -> Result<Bytes, KeyError> {
    let request = async { secrets(client, namespace).get_opt(OWNERSHIP_SECRET).await };
    let secret = limited(request).await?.ok_or(KeyError::Missing)?;
    let bytes = secret.data.unwrap_or_default().remove(ENTRY).ok_or(KeyError::Unusable)?;
    bytes.0.try_into().map_err(|_| KeyError::Unusable)
}

fn secrets(client: &Client, namespace: &str) -> Api<Secret> {
    Api::namespaced(client.clone(), namespace)
}

async fn limited<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, KeyError> {
    match timeout(LIMIT, request).await {
        Ok(answer) => answer.map_err(|error| KeyError::Request(explain(&error))),
        Err(_) => Err(KeyError::Request(format!("no answer within {LIMIT:?}"))),
    }
}

/// Keeps the key: what is in the Secret counts, and until it can be read a key of this process does.
pub struct KeyKeeper {
    client: Client,
    namespace: String,
    /// A key of this process: it becomes the Secret's if there has not been one.
    own: Arc<OwnershipKey>,
    /// What is stored if there is no Secret: the last key that was in one, so that a deleted Secret is restored.
    bytes: Bytes,
    stored: bool,
    published: watch::Sender<Arc<Ownership>>,
}

impl KeyKeeper {
    /// With the channel on which the present key is published.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(client: Client, namespace: String) -> Result<(Self, watch::Receiver<Arc<Ownership>>), getrandom::Error> {
        let mut bytes = Bytes::default();
        getrandom::fill(&mut bytes)?;
        let own = Arc::new(OwnershipKey::new(&bytes));
        let not_stored = Some("it was not read yet".into());
        let first = Ownership::Signed { key: own.clone(), former: None, not_stored };
        let (published, receiver) = watch::channel(Arc::new(first));
        Ok((Self { client, namespace, own, bytes, stored: false, published }, receiver))
    }

    /// Reads the Secret, or creates it; a few times if it fails: until then no record can be verified.
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
                    warn!(remedy = REMEDY, "the key that signs the records on nodes is not stored: {text}");
                }
                if let Ownership::Signed { key, .. } = current.as_ref() {
                    self.publish(key.clone(), Some(text));
                }
                self.stored = false;
            }
        }
    }

    /// Syncs again and again.
    pub async fn run(&mut self) {
        loop {
            sleep(if self.stored { EVERY } else { RETRY }).await;
            self.sync().await;
        }
    }

    /// Stores the key, or takes the one that another process has stored first.
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
        let request = async { secrets(&self.client, &self.namespace).create(&PostParams::default(), &secret).await };
        match timeout(LIMIT, request).await {
            Ok(Ok(_)) => {
                info!("Secret {OWNERSHIP_SECRET} created: it has the key that signs the records on nodes; back it up");
                Ok(self.bytes)
            }
            Ok(Err(kube::Error::Api(status))) if status.is_already_exists() => {
                read_bytes(&self.client, &self.namespace).await
            }
            Ok(Err(error)) => Err(KeyError::Request(explain(&error))),
            Err(_) => Err(KeyError::Request(format!("no answer within {LIMIT:?}"))),
        }
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
    "apply the Role from config/rbac; until the key is stored, the records cannot be verified after a restart";

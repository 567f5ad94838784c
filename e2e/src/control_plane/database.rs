//! The objects of a control plane as etcd stores them, by etcd's JSON gateway.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use kube::{Client, Config};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::requests::Requests;

/// A revision of etcd: each transaction has a higher one than the one before.
pub(super) type Revision = i64;

/// A stored object.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    /// The revision at which it was written last.
    pub(super) revision: Revision,
    /// The object in base64, as the gateway writes bytes.
    pub(super) value: String,
}

/// What an API server renews for itself: the keys begin with one of these.
const OWN_LEASES: [&str; 2] = ["/registry/leases/kube-system/apiserver-", "/registry/peerserverleases/"];

/// The objects that API servers store in an etcd, without those that they renew for themselves.
pub(super) struct Database(Requests);

#[derive(Default, Deserialize)]
#[serde(default)]
struct Range {
    kvs: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct KeyValue {
    key: String,
    #[serde(default)]
    value: String,
    mod_revision: String,
}

#[derive(Deserialize)]
struct Written {
    header: Header,
}

#[derive(Deserialize)]
struct Header {
    revision: String,
}

impl Database {
    pub(super) fn new(url: &str) -> Result<Self> {
        Ok(Self(Requests::new(Client::try_from(Config::new(url.parse()?))?)))
    }

    /// All keys, with their objects.
    pub(super) async fn read(&self) -> Result<BTreeMap<String, Stored>> {
        self.range(false).await
    }

    /// All keys, each with the revision at which its object was written last.
    pub(super) async fn revisions(&self) -> Result<BTreeMap<String, Revision>> {
        Ok(self.range(true).await?.into_iter().map(|(key, stored)| (key, stored.revision)).collect())
    }

    /// Writes the values, and deletes the keys without one. Returns the revision of all these changes.
    pub(super) async fn write(&self, changes: &BTreeMap<String, Option<&Stored>>) -> Result<Revision> {
        let operation = |(key, stored): (&String, &Option<&Stored>)| match stored {
            Some(stored) => json!({"request_put": {"key": STANDARD.encode(key), "value": stored.value}}),
            None => json!({"request_delete_range": {"key": STANDARD.encode(key)}}),
        };
        let operations: Vec<Value> = changes.iter().map(operation).collect();
        let written: Written = self.send("/v3/kv/txn", &json!({"success": operations})).await?;
        Ok(written.header.revision.parse()?)
    }

    async fn range(&self, keys_only: bool) -> Result<BTreeMap<String, Stored>> {
        let (first, end) = (STANDARD.encode("/registry/"), STANDARD.encode("/registry0"));
        let request = json!({"key": first, "range_end": end, "keys_only": keys_only});
        let range: Range = self.send("/v3/kv/range", &request).await?;
        let stored = |item: KeyValue| {
            let key = String::from_utf8(STANDARD.decode(item.key)?)?;
            Ok((key, Stored { revision: item.mod_revision.parse()?, value: item.value }))
        };
        let mut objects = range.kvs.into_iter().map(stored).collect::<Result<BTreeMap<_, _>>>()?;
        objects.retain(|key, _| !OWN_LEASES.iter().any(|own| key.starts_with(own)));
        Ok(objects)
    }

    async fn send<T: DeserializeOwned>(&self, path: &str, request: &Value) -> Result<T> {
        let (status, body) = self.0.create(path, request).await?;
        ensure!(status == 200, "etcd: {path}: {status}: {body}");
        serde_json::from_value(body).with_context(|| format!("an answer of etcd to {path}"))
    }
}

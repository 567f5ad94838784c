//! The record on a node, in the annotation `winpool.dev/owned`, and its signature.
//!
//! The record has the pool, and for each of its taints and labels whether the operator `added` or `found` it. A kubelet
//! can write the annotations and most labels of its own Node, so the record is signed: HMAC-SHA256 over the uid of the
//! node and the record, with a key in a Secret of the operator's namespace. winpool-rules verifies it.

use std::{collections::BTreeMap, fmt, sync::OnceLock};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use winpool_api::TaintKey;

use crate::Uncompared;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Added by the operator, by a kubelet that registered with a rendered configuration, or by the admission policy for new
    /// nodes.
    Added,
    /// Present with the desired value before the operator wrote to the node.
    Found,
    /// `added` in an earlier record without a valid signature: it is not removed automatically.
    #[serde(rename = "claimed")]
    Unverified,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub pool: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub taints: BTreeMap<TaintKey, Origin>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Origin>,
}

/// A record with its signature, as in the annotation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SignedRecord {
    #[serde(flatten)]
    pub record: Record,
    /// The HMAC over the uid of the node and the record, in base64; empty without a key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub signature: String,
    /// The first key that it was verified with, and the result. Cached, because nodes are reconciled often.
    #[serde(skip)]
    verified: Uncompared<OnceLock<(KeyId, bool)>>,
}

impl SignedRecord {
    pub fn new(record: Record, signature: String) -> Self {
        Self { record, signature, verified: Uncompared::default() }
    }

    /// Parses the annotation. If that fails, the result is an empty record without a valid signature.
    pub fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// The value of the annotation; keys are sorted.
    pub fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[derive(Clone)]
pub struct OwnershipKey {
    mac: Hmac<Sha256>,
    id: KeyId,
}

/// Identifies a key without disclosing it.
type KeyId = [u8; 32];

impl OwnershipKey {
    /// The length of a key in bytes.
    pub const LENGTH: usize = 32;

    pub fn new(bytes: &[u8; Self::LENGTH]) -> Self {
        // The block of SHA-256 has 64 bytes: a shorter key is padded with zeros (RFC 2104, section 2).
        let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
        block[..Self::LENGTH].copy_from_slice(bytes);
        let mac = Hmac::<Sha256>::new(&block);
        let id = mac.clone().chain_update("winpool.dev/key").finalize().into_bytes().into();
        Self { mac, id }
    }

    fn mac(&self, node_uid: &str, record: &Record) -> Hmac<Sha256> {
        let mut mac = self.mac.clone();
        // A JSON tuple is unambiguous: no string in it can shift the boundary between two parts.
        mac.update(&serde_json::to_vec(&("winpool.dev/owned", node_uid, record)).unwrap_or_default());
        mac
    }

    pub fn sign(&self, node_uid: &str, record: Record) -> SignedRecord {
        let signature = BASE64.encode(self.mac(node_uid, &record).finalize().into_bytes());
        SignedRecord::new(record, signature)
    }

    /// Whether a record was signed with this key for the node with this uid.
    pub fn verifies(&self, node_uid: &str, signed: &SignedRecord) -> bool {
        let (key, valid) = *signed.verified.get_or_init(|| (self.id, self.verify(node_uid, signed)));
        if key == self.id { valid } else { self.verify(node_uid, signed) }
    }

    fn verify(&self, node_uid: &str, signed: &SignedRecord) -> bool {
        let signature = BASE64.decode(&signed.signature);
        signature.is_ok_and(|signature| self.mac(node_uid, &signed.record).verify_slice(&signature).is_ok())
    }
}

impl PartialEq for OwnershipKey {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl fmt::Debug for OwnershipKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnershipKey(..)")
    }
}

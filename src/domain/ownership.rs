//! Ownership of what is on a node: the signed record in the annotation `winpool.dev/owned`.
//!
//! For each taint and label the record says whether it was `added` by us or `found` there, and for which pool. A kubelet
//! can write the annotations and most labels of its own Node, so the record is signed: HMAC-SHA256 over the node's uid and
//! the record, with a key that is in a Secret of the operator's namespace. Only a record with a valid signature makes its
//! node a member that a pool keeps, or an entry removable.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
    sync::{Arc, OnceLock},
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use hmac::{Hmac, KeyInit, Mac};
use k8s_openapi::api::core::v1::Taint as NodeTaint;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::node::WindowsNode;
use crate::api::{Applied, Taint, TaintEffect};

/// What identifies a taint on a node: its key and effect, written `key:Effect`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TaintKey {
    /// The taint's key.
    pub key: String,
    /// The taint's effect, as Kubernetes spells it.
    pub effect: String,
}

impl From<&Taint> for TaintKey {
    fn from(taint: &Taint) -> Self {
        Self { key: taint.key.clone(), effect: taint.effect.as_str().to_owned() }
    }
}

impl From<&NodeTaint> for TaintKey {
    fn from(taint: &NodeTaint) -> Self {
        Self { key: taint.key.clone(), effect: taint.effect.clone() }
    }
}

impl TaintEffect {
    /// As Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

impl fmt::Display for TaintKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.key, self.effect)
    }
}

/// The text is not `key:Effect`.
#[derive(Debug, thiserror::Error)]
#[error("not a taint written as key:Effect")]
pub struct NotATaintKey;

impl FromStr for TaintKey {
    type Err = NotATaintKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.rsplit_once(':') {
            Some((key, effect)) if !key.is_empty() && !effect.is_empty() => {
                Ok(Self { key: key.to_owned(), effect: effect.to_owned() })
            }
            _ => Err(NotATaintKey),
        }
    }
}

impl TryFrom<String> for TaintKey {
    type Error = NotATaintKey;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<TaintKey> for String {
    fn from(key: TaintKey) -> Self {
        key.to_string()
    }
}

/// How a taint or label came onto a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Put there by us, or by a registration that we rendered.
    Added,
    /// It was there, equal.
    Found,
    /// An earlier record whose signature was not valid said that it was added: it is never removed without a person.
    Claimed,
}

/// The record of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The pool that has the node.
    pub pool: String,
    /// Taints.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub taints: BTreeMap<TaintKey, Origin>,
    /// Labels, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Origin>,
}

/// A record as it is on a node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SignedRecord {
    /// What it says.
    #[serde(flatten)]
    pub record: Record,
    /// The HMAC over the node's uid and the record, in base64; empty where nothing could sign it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub signature: String,
    /// The key that it was verified with last, and whether it was valid: a node is looked at far more often than it changes.
    #[serde(skip)]
    verified: OnceLock<(KeyId, bool)>,
}

impl PartialEq for SignedRecord {
    fn eq(&self, other: &Self) -> bool {
        (&self.record, &self.signature) == (&other.record, &other.signature)
    }
}

impl SignedRecord {
    fn new(record: Record, signature: String) -> Self {
        Self { record, signature, verified: OnceLock::new() }
    }

    /// Reads the annotation. What cannot be read claims nothing, and has no valid signature.
    pub fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// The annotation's text: stable, in order of the keys.
    pub fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The key that signs records.
#[derive(Clone)]
pub struct OwnershipKey {
    mac: Hmac<Sha256>,
    id: KeyId,
}

/// Tells keys apart, and nothing of the key.
type KeyId = [u8; 32];

impl OwnershipKey {
    /// The length of a key, in bytes.
    pub const LENGTH: usize = 32;

    /// A key of these bytes.
    pub fn new(bytes: &[u8; Self::LENGTH]) -> Self {
        // The block of SHA-256 has 64 bytes: a shorter key is filled up with zeros (RFC 2104, section 2).
        let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
        block[..Self::LENGTH].copy_from_slice(bytes);
        let mac = Hmac::<Sha256>::new(&block);
        let id = mac.clone().chain_update("winpool.dev/key").finalize().into_bytes().into();
        Self { mac, id }
    }

    fn mac(&self, node_uid: &str, record: &Record) -> Hmac<Sha256> {
        let mut mac = self.mac.clone();
        // A tuple as JSON is unambiguous: no text in it can move the border between two parts.
        mac.update(&serde_json::to_vec(&("winpool.dev/owned", node_uid, record)).unwrap_or_default());
        mac
    }

    /// The record, signed for the node of this uid.
    pub fn sign(&self, node_uid: &str, record: Record) -> SignedRecord {
        let signature = BASE64.encode(self.mac(node_uid, &record).finalize().into_bytes());
        SignedRecord::new(record, signature)
    }

    fn verifies(&self, node_uid: &str, signed: &SignedRecord) -> bool {
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

/// What the record on a node is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence<'a> {
    /// The node has no record.
    None,
    /// The signature is not valid: the record may be anybody's.
    Unverified(&'a Record),
    /// The operator wrote it. `current`: with the key that signs now, so that it does not have to be signed again.
    Verified {
        /// What it says.
        record: &'a Record,
        /// Whether it was signed with the current key.
        current: bool,
    },
}

impl<'a> Evidence<'a> {
    /// The record, if the operator wrote it.
    pub fn verified(self) -> Option<&'a Record> {
        match self {
            Self::Verified { record, .. } => Some(record),
            Self::None | Self::Unverified(_) => None,
        }
    }

    /// The record, whoever wrote it.
    pub fn record(self) -> Option<&'a Record> {
        match self {
            Self::Verified { record, .. } | Self::Unverified(record) => Some(record),
            Self::None => None,
        }
    }
}

/// How records are verified and signed.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Ownership {
    /// Records are believed as they are, and written without a signature: for previews without the key, and for a
    /// clean-up that a person wants to trust them.
    #[default]
    Trusting,
    /// No record is believed, because there is no key; none is written either.
    Distrusting,
    /// Records are signed with the first key; those that the others signed are believed too, and signed anew.
    Signed {
        /// The key that signs.
        key: Arc<OwnershipKey>,
        /// A key that this process signed with before it had the present one.
        former: Option<Arc<OwnershipKey>>,
        /// Why the key is not in its Secret, if it is not: then it ends with the process.
        not_stored: Option<Arc<str>>,
    },
}

impl Ownership {
    /// Records signed with this key alone.
    pub fn signed(key: OwnershipKey) -> Self {
        Self::Signed { key: Arc::new(key), former: None, not_stored: None }
    }

    /// What the record on a node is worth.
    pub fn evidence<'a>(&self, node: &'a WindowsNode) -> Evidence<'a> {
        let Some(signed) = &node.owned else { return Evidence::None };
        let record = &signed.record;
        match self {
            Self::Trusting => Evidence::Verified { record, current: true },
            Self::Signed { key, .. } if key.verifies(&node.uid, signed) => Evidence::Verified { record, current: true },
            Self::Signed { former: Some(key), .. } if key.verifies(&node.uid, signed) => {
                Evidence::Verified { record, current: false }
            }
            Self::Signed { .. } | Self::Distrusting => Evidence::Unverified(record),
        }
    }

    /// The pool that keeps a node, by its record.
    pub fn pool_of<'a>(&self, node: &'a WindowsNode) -> Option<&'a str> {
        self.evidence(node).verified().map(|record| record.pool.as_str())
    }

    /// The annotation for a record on the node of this uid.
    pub fn write(&self, node_uid: &str, record: &Record) -> String {
        match self {
            Self::Trusting | Self::Distrusting => SignedRecord::new(record.clone(), String::new()),
            Self::Signed { key, .. } => key.sign(node_uid, record.clone()),
        }
        .write()
    }

    /// Why the key is not stored, if it is not.
    pub fn not_stored(&self) -> Option<&str> {
        match self {
            Self::Trusting | Self::Distrusting => None,
            Self::Signed { not_stored, .. } => not_stored.as_deref(),
        }
    }
}

/// The keys that each pool has applied to nodes, by its status, which no kubelet can write.
///
/// It bounds what a kubelet can reach by writing back an older record of its own node: an entry is removable only if the
/// record is verified, calls it added, and its pool's status has it too.
#[derive(Clone, Debug, Default)]
pub struct AppliedKeys {
    by_pool: BTreeMap<String, Keys>,
    /// Whether the records alone are enough, because a person said so.
    trusting: bool,
}

#[derive(Clone, Debug, Default)]
struct Keys {
    taints: BTreeSet<TaintKey>,
    labels: BTreeSet<String>,
}

impl AppliedKeys {
    /// Every verified record counts, whatever a status says.
    pub fn of_records_alone() -> Self {
        Self { by_pool: BTreeMap::new(), trusting: true }
    }

    /// Adds the keys in the status of a pool.
    pub fn add_status(&mut self, pool: &str, applied: &Applied) {
        let keys = self.by_pool.entry(pool.to_owned()).or_default();
        keys.taints.extend(applied.taints.iter().filter_map(|text| text.parse().ok()));
        keys.labels.extend(applied.labels.iter().cloned());
    }

    /// Adds the keys in a record.
    pub fn add_record(&mut self, record: &Record) {
        let keys = self.by_pool.entry(record.pool.clone()).or_default();
        keys.taints.extend(record.taints.keys().cloned());
        keys.labels.extend(record.labels.keys().cloned());
    }

    /// Whether a taint with this evidence may be removed or changed.
    pub fn has_taint(&self, evidence: Evidence<'_>, key: &TaintKey) -> bool {
        evidence.verified().is_some_and(|record| {
            record.taints.get(key) == Some(&Origin::Added)
                && (self.trusting || self.of(record).is_some_and(|keys| keys.taints.contains(key)))
        })
    }

    /// Whether a label with this evidence may be removed or changed.
    pub fn has_label(&self, evidence: Evidence<'_>, key: &str) -> bool {
        evidence.verified().is_some_and(|record| {
            record.labels.get(key) == Some(&Origin::Added)
                && (self.trusting || self.of(record).is_some_and(|keys| keys.labels.contains(key)))
        })
    }

    fn of(&self, record: &Record) -> Option<&Keys> {
        self.by_pool.get(&record.pool)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use super::*;
    use crate::api::names::annotation;

    fn key(byte: u8) -> OwnershipKey {
        OwnershipKey::new(&[byte; OwnershipKey::LENGTH])
    }

    fn record(pool: &str) -> Record {
        let os: TaintKey = "os:NoSchedule".parse().unwrap();
        Record {
            pool: pool.into(),
            taints: [(os, Origin::Added)].into(),
            labels: [("team".into(), Origin::Found)].into(),
        }
    }

    fn node(uid: &str, owned: &str) -> WindowsNode {
        let metadata = json!({"name": "win-1", "uid": uid, "annotations": {annotation::OWNED: owned}});
        serde_json::from_value::<Node>(json!({"metadata": metadata})).unwrap().into()
    }

    #[test]
    fn a_record_is_written_as_it_is_read() {
        let text = r#"{"pool":"web","taints":{"os:NoSchedule":"added"},"labels":{"team":"found"},"signature":"AAAA"}"#;
        assert_eq!(SignedRecord::read(text).write(), text);
    }

    #[test]
    fn a_text_that_is_no_record_claims_nothing() {
        for text in [
            "",
            "[]",
            "{",
            "{}",
            r#"{"pool":"web","taints":{"os":"added"}}"#,
            r#"{"pool":"web","taints":{"os:NoSchedule":"mine"}}"#,
        ] {
            assert_eq!(SignedRecord::read(text), SignedRecord::default(), "{text}");
        }
    }

    #[test]
    fn a_signature_holds_for_one_node_one_key_and_one_record() {
        let ownership = Ownership::signed(key(1));
        let text = ownership.write("uid-1", &record("web"));
        let verified =
            |ownership: &Ownership, uid: &str, text: &str| ownership.evidence(&node(uid, text)).verified().is_some();
        let table = [
            ("as it was written", true, "uid-1", text.clone()),
            ("on another node", false, "uid-2", text.clone()),
            ("for another pool", false, "uid-1", text.replace("web", "batch")),
            ("with found for added", false, "uid-1", text.replace("added", "found")),
            ("with one more entry", false, "uid-1", text.replace("\"os:", "\"a:NoSchedule\":\"added\",\"os:")),
            ("without the signature", false, "uid-1", text.split(",\"signature\"").next().unwrap().to_owned() + "}"),
            (
                "with a signature that is no base64",
                false,
                "uid-1",
                text.replace("\"signature\":\"", "\"signature\":\"*"),
            ),
        ];
        for (what, valid, uid, text) in table {
            assert_eq!(verified(&ownership, uid, &text), valid, "{what}: {text}");
        }
        assert!(!verified(&Ownership::signed(key(2)), "uid-1", &text), "with another key");
    }

    #[test]
    fn a_record_of_a_former_key_is_believed_and_signed_anew() {
        let text = Ownership::signed(key(1)).write("uid-1", &record("web"));
        let (key, former) = (Arc::new(key(2)), Some(Arc::new(key(1))));
        let ownership = Ownership::Signed { key, former, not_stored: None };
        let expected = Evidence::Verified { record: &record("web"), current: false };
        assert_eq!(ownership.evidence(&node("uid-1", &text)), expected);
    }

    #[test]
    fn an_entry_is_removable_if_a_verified_record_and_the_status_of_its_pool_have_it() {
        let (os, other): (TaintKey, TaintKey) = ("os:NoSchedule".parse().unwrap(), "os:NoExecute".parse().unwrap());
        let mut applied = AppliedKeys::default();
        let keys = |taint: &str, label: &str| Applied { taints: vec![taint.into()], labels: vec![label.into()] };
        applied.add_status("web", &keys("os:NoSchedule", "team"));
        applied.add_status("batch", &keys("os:NoExecute", "rack"));
        let (web, batch) = (record("web"), record("batch"));
        let verified = |record| Evidence::Verified { record, current: true };
        assert!(applied.has_taint(verified(&web), &os));
        assert!(!applied.has_taint(verified(&batch), &os), "only another pool has applied it");
        assert!(!applied.has_taint(verified(&web), &other), "the record does not have it");
        assert!(!applied.has_taint(Evidence::Unverified(&web), &os));
        assert!(!applied.has_taint(Evidence::None, &os));
        assert!(!applied.has_label(verified(&web), "team"), "it was found, not added");
    }

    #[test]
    fn a_key_is_not_printed() {
        assert_eq!(format!("{:?}", key(1)), "OwnershipKey(..)");
    }
}

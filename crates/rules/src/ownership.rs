//! Ownership of labels and taints on nodes, based on the signed record of each node.
//!
//! A record without a valid signature does not keep its node in a pool, and nothing is removed because of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use winpool_api::{Applied, TaintKey};

use winpool_core::{
    node::WindowsNode,
    record::{Origin, OwnershipKey, Record, SignedRecord},
};

/// The record of a node, and whether its signature is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordState<'a> {
    None,
    /// The signature is not valid: any client that can write the annotation may have written the record.
    Unverified(&'a Record),
    /// The signature is valid: the operator wrote the record.
    Verified {
        record: &'a Record,
        /// Whether the record was signed with the current key. Otherwise it has to be signed again.
        current: bool,
    },
}

impl<'a> RecordState<'a> {
    /// The record, if its signature is valid.
    pub fn verified(self) -> Option<&'a Record> {
        match self {
            Self::Verified { record, .. } => Some(record),
            Self::None | Self::Unverified(_) => None,
        }
    }

    /// The record, with or without a valid signature.
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
    /// Every record counts as verified, and records are written without a signature: for previews without the key, and for
    /// `winpool cleanup --trust-records`.
    #[default]
    TrustAll,
    /// No record counts as verified, because there is no key.
    TrustNone,
    Signed {
        key: Arc<OwnershipKey>,
        /// The key with which this process signed before. Records signed with it are verified too, and signed again.
        former: Option<Arc<OwnershipKey>>,
        /// Why the key is not stored in its Secret, if it is not. Such a key is lost when the process ends.
        not_stored: Option<Arc<str>>,
    },
}

impl Ownership {
    /// Verifies only records signed with this key.
    pub fn signed(key: OwnershipKey) -> Self {
        Self::Signed { key: Arc::new(key), former: None, not_stored: None }
    }

    /// The record of a node, and whether its signature is valid.
    pub fn record_state<'a>(&self, node: &'a WindowsNode) -> RecordState<'a> {
        let Some(signed) = &node.owned else { return RecordState::None };
        let record = &signed.record;
        match self {
            Self::TrustAll => RecordState::Verified { record, current: true },
            Self::Signed { key, .. } if key.verifies(&node.uid, signed) => {
                RecordState::Verified { record, current: true }
            }
            Self::Signed { former: Some(key), .. } if key.verifies(&node.uid, signed) => {
                RecordState::Verified { record, current: false }
            }
            Self::Signed { .. } | Self::TrustNone => RecordState::Unverified(record),
        }
    }

    /// The pool in the verified record of a node.
    pub fn pool_of<'a>(&self, node: &'a WindowsNode) -> Option<&'a str> {
        self.record_state(node).verified().map(|record| record.pool.as_str())
    }

    /// The value of the annotation with the record of the node with this uid.
    pub fn write(&self, node_uid: &str, record: &Record) -> String {
        match self {
            Self::TrustAll | Self::TrustNone => SignedRecord::new(record.clone(), String::new()),
            Self::Signed { key, .. } => key.sign(node_uid, record.clone()),
        }
        .write()
    }

    /// Why the key is not stored in its Secret, if it is not.
    pub fn not_stored(&self) -> Option<&str> {
        match self {
            Self::TrustAll | Self::TrustNone => None,
            Self::Signed { not_stored, .. } => not_stored.as_deref(),
        }
    }
}

/// The keys of taints and labels that each pool has applied to nodes, from its status, which no kubelet can write.
///
/// They limit the effect of an older record that a kubelet writes to its own node: a taint or label is owned only if it
/// is `added` in the verified record and its key is in the status of the pool.
#[derive(Clone, Debug, Default)]
pub struct AppliedKeys {
    by_pool: BTreeMap<String, Keys>,
    /// Whether verified records suffice.
    records_only: bool,
}

#[derive(Clone, Debug, Default)]
struct Keys {
    taints: BTreeSet<TaintKey>,
    labels: BTreeSet<String>,
}

impl AppliedKeys {
    /// Every key in a verified record, regardless of the status of pools.
    pub fn from_records_only() -> Self {
        Self { by_pool: BTreeMap::new(), records_only: true }
    }

    pub fn add_status(&mut self, pool: &str, applied: &Applied) {
        let keys = self.by_pool.entry(pool.to_owned()).or_default();
        keys.taints.extend(applied.taints.iter().filter_map(|text| text.parse().ok()));
        keys.labels.extend(applied.labels.iter().cloned());
    }

    pub fn add_record(&mut self, record: &Record) {
        let keys = self.by_pool.entry(record.pool.clone()).or_default();
        keys.taints.extend(record.taints.keys().cloned());
        keys.labels.extend(record.labels.keys().cloned());
    }

    /// Whether a pool added a taint to the node with this record, so that the taint may be changed or removed.
    pub fn owns_taint(&self, record_state: RecordState<'_>, key: &TaintKey) -> bool {
        record_state
            .verified()
            .is_some_and(|record| self.owns(record, record.taints.get(key).copied(), |keys| keys.taints.contains(key)))
    }

    /// Whether a pool added a label to the node with this record, so that the label may be changed or removed.
    pub fn owns_label(&self, record_state: RecordState<'_>, key: &str) -> bool {
        record_state
            .verified()
            .is_some_and(|record| self.owns(record, record.labels.get(key).copied(), |keys| keys.labels.contains(key)))
    }

    fn owns(&self, record: &Record, origin: Option<Origin>, has_applied: impl FnOnce(&Keys) -> bool) -> bool {
        match origin {
            None | Some(Origin::Found) => false,
            Some(Origin::Added) => self.records_only || self.by_pool.get(&record.pool).is_some_and(has_applied),
            Some(Origin::Unverified) => self.records_only,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;
    use winpool_api::names::annotation;

    use super::*;

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
    fn a_record_is_serialised_as_it_was_read() {
        let text = r#"{"pool":"web","taints":{"os:NoSchedule":"added"},"labels":{"team":"found"},"signature":"AAAA"}"#;
        assert_eq!(SignedRecord::read(text).write(), text);
    }

    #[test]
    fn an_annotation_that_cannot_be_parsed_is_an_empty_record() {
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
    fn a_signature_is_valid_for_one_node_one_key_and_one_record() {
        let ownership = Ownership::signed(key(1));
        let text = ownership.write("uid-1", &record("web"));
        let verified = |ownership: &Ownership, uid: &str, text: &str| {
            ownership.record_state(&node(uid, text)).verified().is_some()
        };
        let table = [
            ("unchanged", true, "uid-1", text.clone()),
            ("on another node", false, "uid-2", text.clone()),
            ("for another pool", false, "uid-1", text.replace("web", "batch")),
            ("with found for added", false, "uid-1", text.replace("added", "found")),
            ("with one more entry", false, "uid-1", text.replace("\"os:", "\"a:NoSchedule\":\"added\",\"os:")),
            ("without the signature", false, "uid-1", text.split(",\"signature\"").next().unwrap().to_owned() + "}"),
            (
                "with a signature that is not base64",
                false,
                "uid-1",
                text.replace("\"signature\":\"", "\"signature\":\"*"),
            ),
        ];
        for (case, valid, uid, text) in table {
            assert_eq!(verified(&ownership, uid, &text), valid, "{case}: {text}");
        }
        assert!(!verified(&Ownership::signed(key(2)), "uid-1", &text), "with another key");
    }

    #[test]
    fn a_record_signed_with_the_former_key_is_verified_and_not_current() {
        let text = Ownership::signed(key(1)).write("uid-1", &record("web"));
        let (key, former) = (Arc::new(key(2)), Some(Arc::new(key(1))));
        let ownership = Ownership::Signed { key, former, not_stored: None };
        let expected = RecordState::Verified { record: &record("web"), current: false };
        assert_eq!(ownership.record_state(&node("uid-1", &text)), expected);
    }

    #[test]
    fn a_key_is_owned_if_the_verified_record_and_the_status_of_its_pool_have_it() {
        let (os, other): (TaintKey, TaintKey) = ("os:NoSchedule".parse().unwrap(), "os:NoExecute".parse().unwrap());
        let mut applied = AppliedKeys::default();
        let keys = |taint: &str, label: &str| Applied {
            taints: vec![taint.into()],
            labels: vec![label.into()],
            taint_values: None,
        };
        applied.add_status("web", &keys("os:NoSchedule", "team"));
        applied.add_status("batch", &keys("os:NoExecute", "rack"));
        let (web, batch) = (record("web"), record("batch"));
        let verified = |record| RecordState::Verified { record, current: true };
        assert!(applied.owns_taint(verified(&web), &os));
        assert!(!applied.owns_taint(verified(&batch), &os), "only another pool has applied it");
        assert!(!applied.owns_taint(verified(&web), &other), "the record does not have it");
        assert!(!applied.owns_taint(RecordState::Unverified(&web), &os));
        assert!(!applied.owns_taint(RecordState::None, &os));
        assert!(!applied.owns_label(verified(&web), "team"), "it was found, not added");
    }

    #[test]
    fn an_entry_of_a_record_that_could_not_be_verified_is_owned_only_if_all_records_are_trusted() {
        let os: TaintKey = "os:NoSchedule".parse().unwrap();
        let claimed = Record { taints: [(os.clone(), Origin::Unverified)].into(), ..record("web") };
        let verified = RecordState::Verified { record: &claimed, current: true };
        let mut applied = AppliedKeys::default();
        applied.add_record(&claimed);
        assert!(!applied.owns_taint(verified, &os));
        assert!(AppliedKeys::from_records_only().owns_taint(verified, &os));
        assert!(!AppliedKeys::from_records_only().owns_label(verified, "team"), "it was found, not added");
    }

    #[test]
    fn a_key_is_not_printed() {
        assert_eq!(format!("{:?}", key(1)), "OwnershipKey(..)");
    }
}

//! What is ours on a node: the record in `winpool.dev/owned`.
//!
//! For each taint and label it says whether it was `added` by us or `found` there. A kubelet can write annotations on
//! its own Node, so the record alone proves nothing: see [`Proof`].

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use k8s_openapi::api::core::v1::Taint as NodeTaint;
use serde::{Deserialize, Serialize};

use crate::api::{Taint, TaintEffect, WindowsNodePoolStatus};

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

/// Whether something was put on a node by us, or was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Put there by us, or by a registration that we rendered.
    Added,
    /// It was there, equal.
    Found,
}

/// The record of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owned {
    /// Taints.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub taints: BTreeMap<TaintKey, Origin>,
    /// Labels, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Origin>,
}

impl Owned {
    /// Reads the annotation. What cannot be read proves nothing, like an empty record.
    pub fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// The annotation's text: stable, in order of the keys.
    pub fn write(&self) -> String {
        serde_json::to_value(self).map(|value| value.to_string()).unwrap_or_default()
    }
}

/// What pools say that they have set on nodes, in their status, which no kubelet can write.
///
/// Only what a node's record calls added, and some pool's status has, is ever taken off.
#[derive(Clone, Debug, Default)]
pub struct Proof {
    taints: BTreeSet<String>,
    labels: BTreeSet<String>,
}

impl Proof {
    /// What the status of all pools has.
    pub fn of<'a>(statuses: impl IntoIterator<Item = &'a WindowsNodePoolStatus>) -> Self {
        let mut proof = Self::default();
        for status in statuses {
            proof.taints.extend(status.applied.taints.iter().cloned());
            proof.labels.extend(status.applied.labels.iter().cloned());
        }
        proof
    }

    /// Whether a taint may be taken off or changed.
    pub fn has_taint(&self, owned: Option<&Owned>, key: &TaintKey) -> bool {
        owned.is_some_and(|owned| owned.taints.get(key) == Some(&Origin::Added))
            && self.taints.contains(&key.to_string())
    }

    /// Whether a label may be taken off or changed.
    pub fn has_label(&self, owned: Option<&Owned>, key: &str) -> bool {
        owned.is_some_and(|owned| owned.labels.get(key) == Some(&Origin::Added)) && self.labels.contains(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_written_as_it_is_read() {
        let text = r#"{"labels":{"team":"found"},"taints":{"os:NoSchedule":"added"}}"#;
        assert_eq!(Owned::read(text).write(), text);
    }

    #[test]
    fn a_record_that_cannot_be_read_proves_nothing() {
        for text in ["", "[]", "{", r#"{"taints":{"os":"added"}}"#, r#"{"taints":{"os:NoSchedule":"mine"}}"#] {
            assert_eq!(Owned::read(text), Owned::default(), "{text}");
        }
    }

    #[test]
    fn only_what_the_record_and_a_status_agree_on_is_proven() {
        let mut status = WindowsNodePoolStatus::default();
        status.applied.taints = vec!["os:NoSchedule".into()];
        let proof = Proof::of([&status]);
        let os: TaintKey = "os:NoSchedule".parse().unwrap();
        let added = Owned::read(r#"{"taints":{"os:NoSchedule":"added","other:NoSchedule":"added"}}"#);
        let found = Owned::read(r#"{"taints":{"os:NoSchedule":"found"}}"#);
        assert!(proof.has_taint(Some(&added), &os));
        assert!(!proof.has_taint(Some(&added), &"other:NoSchedule".parse().unwrap()));
        assert!(!proof.has_taint(Some(&found), &os));
        assert!(!proof.has_taint(None, &os));
    }
}

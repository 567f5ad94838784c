//! Taints, their keys and their effects.

use std::str::FromStr;

use derive_more::Display;
use k8s_openapi::api::core::v1::Taint as NodeTaint;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use winpool_facts::named_enum;

use crate::pattern::{KEY, LABEL_VALUE};

/// A taint of a node.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
#[display("{}", TaintKey::from(self).with_value(value))]
pub struct Taint {
    /// The taint's key: a name of at most 63 characters, with an optional DNS prefix, such as os or example.com/team.
    #[schemars(length(min = 1, max = 317), regex(pattern = KEY.pattern))]
    pub key: String,
    /// The taint's value, such as windows; it may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63), regex(pattern = LABEL_VALUE.pattern))]
    pub value: String,
    /// What happens to pods that do not tolerate the taint: NoSchedule, PreferNoSchedule or NoExecute.
    pub effect: TaintEffect,
}

named_enum! {
    /// What a taint does to pods that do not tolerate it.
    #[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[allow(missing_docs)] // as in Kubernetes
    pub enum TaintEffect {
        NoSchedule,
        PreferNoSchedule,
        NoExecute,
    }
}

/// The identity of a taint on a node: its key and effect, written `key:Effect`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display)]
#[display("{key}:{effect}")]
#[serde(try_from = "String", into = "String")]
pub struct TaintKey {
    /// The key of the taint.
    pub key: String,
    /// The effect of the taint. On nodes it may be unknown to winpool.
    pub effect: String,
}

impl TaintKey {
    /// The taint with this value, written `key=value:Effect`.
    pub fn with_value(&self, value: &str) -> String {
        if value.is_empty() { self.to_string() } else { format!("{}={value}:{}", self.key, self.effect) }
    }
}

impl From<&Taint> for TaintKey {
    fn from(taint: &Taint) -> Self {
        Self { key: taint.key.clone(), effect: taint.effect.name().to_owned() }
    }
}

impl From<&NodeTaint> for TaintKey {
    fn from(taint: &NodeTaint) -> Self {
        Self { key: taint.key.clone(), effect: taint.effect.clone() }
    }
}

impl Taint {
    /// Whether pods that do not tolerate the taint are not scheduled to the node.
    pub fn excludes_pods(&self) -> bool {
        self.effect != TaintEffect::PreferNoSchedule
    }

    /// The taint of a node; `None` if its effect is not known.
    pub fn of_node(taint: &NodeTaint) -> Option<Self> {
        let effect = TaintEffect::named(&taint.effect)?;
        Some(Self { key: taint.key.clone(), value: taint.value.clone().unwrap_or_default(), effect })
    }
}

impl PartialEq<NodeTaint> for Taint {
    /// Whether the taint of a node has the same key, value and effect.
    fn eq(&self, other: &NodeTaint) -> bool {
        let value = other.value.as_deref().unwrap_or_default();
        (self.key.as_str(), self.value.as_str(), self.effect.name()) == (&other.key, value, &other.effect)
    }
}

/// The text is not the key of a taint.
#[derive(Debug, thiserror::Error)]
#[error("not a taint key such as os:NoSchedule")]
pub struct ParseTaintKeyError;

impl FromStr for TaintKey {
    type Err = ParseTaintKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.rsplit_once(':') {
            Some((key, effect)) if !key.is_empty() && !effect.is_empty() => {
                Ok(Self { key: key.to_owned(), effect: effect.to_owned() })
            }
            _ => Err(ParseTaintKeyError),
        }
    }
}

impl TryFrom<String> for TaintKey {
    type Error = ParseTaintKeyError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<TaintKey> for String {
    fn from(key: TaintKey) -> Self {
        key.to_string()
    }
}

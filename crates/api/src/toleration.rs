//! Tolerations.

use k8s_openapi::api::core::v1 as core;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use winpool_facts::named_enum;

use crate::{Taint, TaintEffect};

/// A toleration that a class adds to its pods.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''")
        .message("operator Exists takes no value: remove the value, or write operator Equal"),
    validation = Rule::new("has(self.key) && self.key != '' || has(self.operator) && self.operator == 'Exists'")
        .message("a toleration without a key tolerates every taint and needs operator Exists: write a key, or operator Exists")
)]
pub struct Toleration {
    /// The taint's key; empty with operator Exists means every key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 317))]
    pub key: String,
    /// Equal (the default) compares the value, Exists matches any value.
    #[serde(default)]
    pub operator: TolerationOperator,
    /// The taint's value, such as windows; only with operator Equal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub value: String,
    /// The taint's effect; absent means every effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// With effect NoExecute: the seconds after which the pod is evicted; absent means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

named_enum! {
    /// How a toleration's value relates to the taint's.
    #[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[allow(missing_docs)] // as in Kubernetes
    pub enum TolerationOperator {
        #[default]
        Equal,
        Exists,
    }
}

impl Toleration {
    /// Parses the toleration of an object; `None` if its operator or effect is not known.
    pub fn read(toleration: &core::Toleration) -> Option<Self> {
        let operator = match toleration.operator.as_deref() {
            None | Some("") => TolerationOperator::default(),
            Some(operator) => TolerationOperator::named(operator)?,
        };
        let effect = match toleration.effect.as_deref() {
            None | Some("") => None,
            Some(effect) => Some(TaintEffect::named(effect)?),
        };
        Some(Self {
            key: toleration.key.clone().unwrap_or_default(),
            operator,
            value: toleration.value.clone().unwrap_or_default(),
            effect,
            toleration_seconds: toleration.toleration_seconds,
        })
    }

    /// Whether the taint is tolerated (kubernetes/api, `core/v1/toleration.go`, v0.33).
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && (self.operator == TolerationOperator::Exists || self.value == taint.value)
    }

    /// Whether every taint is tolerated.
    pub fn tolerates_everything(&self) -> bool {
        self.key.is_empty() && self.effect.is_none()
    }

    /// Whether a NoExecute taint evicts the pod after a time.
    pub fn is_limited(&self) -> bool {
        self.toleration_seconds.is_some()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_toleration_tolerates_the_same_taints_as_in_kubernetes() {
        let taint = Taint { key: "os".into(), value: "windows".into(), effect: TaintEffect::NoSchedule };
        let tolerates = |toleration: &Value| {
            let read = Toleration::read(&serde_json::from_value(toleration.clone()).unwrap());
            read.is_some_and(|read| read.tolerates(&taint))
        };
        let table = [
            (json!({"operator": "Exists"}), true),
            (json!({"operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"operator": "Exists", "effect": "Unknown"}), false),
            (json!({"key": "os", "operator": "Exists"}), true),
            (json!({"key": "os", "operator": "Gt", "value": "1"}), false),
            (json!({"key": "os", "value": "windows"}), true),
            (json!({"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}), true),
            (json!({"key": "os", "value": "Windows"}), false),
            (json!({"key": "os"}), false),
            (json!({"key": "gpu", "operator": "Exists"}), false),
        ];
        for (toleration, expected) in table {
            assert_eq!(tolerates(&toleration), expected, "{toleration}");
        }
    }
}

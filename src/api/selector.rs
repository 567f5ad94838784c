//! Label selectors.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{schema, spelling::KEY};

/// The message of [`label_keys_rule`].
pub const LABEL_KEYS: &str =
    "a label key is a name of at most 63 characters, with an optional DNS prefix: example.com/team";

/// The rule for the keys of labels, because the schema has no pattern for keys.
pub fn label_keys_rule() -> String {
    format!("self.all(k, k.size() <= 317 && k.matches('{}'))", KEY.pattern)
}

/// Selects objects by their labels; all parts must match.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(
    validation = Rule::new("(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)")
        .message("an empty selector would match every Windows node: write matchLabels or matchExpressions, or spec.fallback: true instead of the selector")
)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that a node has, with exactly these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    #[x_kube(
        validation = Rule::new(label_keys_rule()).message(LABEL_KEYS),
        validation = Rule::new("!self.exists(k, k.startsWith('winpool.dev/'))")
            .message("winpool.dev/ labels are set from this selector: select by another label")
    )]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements on a node's labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// One requirement on a label.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[x_kube(
    validation = Rule::new("self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : !has(self.values) || size(self.values) == 0")
        .message("In and NotIn need at least one value. Exists and DoesNotExist take no values"),
    validation = Rule::new("!self.key.startsWith('winpool.dev/')")
        .message("winpool.dev/ labels are set from this selector: select by another label")
)]
#[serde(rename_all = "camelCase")]
pub struct SelectorRequirement {
    /// The label's key, such as agentpool or example.com/team.
    #[schemars(length(min = 1, max = 317), regex(pattern = KEY.pattern))]
    pub key: String,
    /// How the label relates to the values: In, NotIn, Exists or DoesNotExist.
    pub operator: SelectorOperator,
    /// The values, for In and NotIn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::label_values")]
    pub values: Vec<String>,
}

/// How a label relates to the values of a requirement.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // as in Kubernetes
pub enum SelectorOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

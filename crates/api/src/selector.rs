//! Label selectors.

use std::{collections::BTreeMap, fmt};

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{pattern::KEY, schema};

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

impl LabelSelector {
    /// Whether an object with these labels matches all labels and requirements. `NotIn` and `DoesNotExist` match an absent
    /// label.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.matches(labels))
    }
}

impl LabelSelector {
    /// A selector for each of its labels and requirements.
    pub fn parts(&self) -> impl Iterator<Item = Self> {
        let labels = self.match_labels.iter().map(|(key, value)| Self {
            match_labels: BTreeMap::from([(key.clone(), value.clone())]),
            match_expressions: Vec::new(),
        });
        let requirements = self
            .match_expressions
            .iter()
            .map(|requirement| Self { match_labels: BTreeMap::new(), match_expressions: vec![requirement.clone()] });
        labels.chain(requirements)
    }
}

impl SelectorRequirement {
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            SelectorOperator::In => value.is_some_and(|value| self.values.contains(value)),
            SelectorOperator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            SelectorOperator::Exists => value.is_some(),
            SelectorOperator::DoesNotExist => value.is_none(),
        }
    }
}

impl fmt::Display for LabelSelector {
    /// The argument of `kubectl get -l`: labels first, then requirements.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
        let requirements = self.match_expressions.iter().map(ToString::to_string);
        f.write_str(&labels.chain(requirements).collect::<Vec<_>>().join(","))
    }
}

impl fmt::Display for SelectorRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, operator, values } = self;
        match operator {
            SelectorOperator::In => write!(f, "{key} in ({})", values.join(",")),
            SelectorOperator::NotIn => write!(f, "{key} notin ({})", values.join(",")),
            SelectorOperator::Exists => write!(f, "{key}"),
            SelectorOperator::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_matches_the_same_labels_as_in_kubernetes() {
        let labels = BTreeMap::from([("pool".to_owned(), "web".to_owned()), ("zone".to_owned(), "a".to_owned())]);
        let requirement = |key: &str, operator, values: &[&str]| LabelSelector {
            match_labels: BTreeMap::new(),
            match_expressions: vec![SelectorRequirement {
                key: key.into(),
                operator,
                values: values.iter().map(|value| (*value).to_owned()).collect(),
            }],
        };
        let equal = |key: &str, value: &str| LabelSelector {
            match_labels: BTreeMap::from([(key.to_owned(), value.to_owned())]),
            match_expressions: Vec::new(),
        };
        let table = [
            (equal("pool", "web"), true),
            (equal("pool", "batch"), false),
            (equal("absent", ""), false),
            (requirement("zone", SelectorOperator::In, &["a", "b"]), true),
            (requirement("zone", SelectorOperator::In, &["b"]), false),
            (requirement("absent", SelectorOperator::In, &["a"]), false),
            (requirement("zone", SelectorOperator::NotIn, &["a"]), false),
            (requirement("absent", SelectorOperator::NotIn, &["a"]), true),
            (requirement("zone", SelectorOperator::Exists, &[]), true),
            (requirement("zone", SelectorOperator::DoesNotExist, &[]), false),
            (requirement("absent", SelectorOperator::DoesNotExist, &[]), true),
        ];
        for (selector, expected) in table {
            assert_eq!(selector.matches(&labels), expected, "{selector:?}");
        }
    }
}

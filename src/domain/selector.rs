//! Label selectors, with the meaning that Kubernetes gives them.

use std::collections::BTreeMap;

use crate::api::{LabelSelector, SelectorOperator, SelectorRequirement};

impl LabelSelector {
    /// Whether an object with these labels is chosen. The parts are joined by and; an absent label satisfies `NotIn`
    /// and `DoesNotExist`.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.matches(labels))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_means_what_it_means_to_kubernetes() {
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

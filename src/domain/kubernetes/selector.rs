//! Label selectors.

use std::{collections::BTreeMap, fmt};

use crate::api::{LabelSelector, SelectorOperator, SelectorRequirement};

impl LabelSelector {
    /// Whether an object with these labels matches all labels and requirements. `NotIn` and `DoesNotExist` match an absent
    /// label.
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

/// A text as an argument of a shell command, in quotes if necessary.
pub fn shell_quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=,:@%+".contains(&byte);
    if text.bytes().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
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

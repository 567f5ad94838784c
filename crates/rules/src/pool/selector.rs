//! Checks of label selectors, keys and values.

use winpool_api::{
    LabelSelector, SelectorOperator, SelectorRequirement,
    pattern::{KEY, LABEL_VALUE},
};
use winpool_core::{Problem, kubernetes::syntax};

/// Checks a selector, which must not be empty.
pub fn check_selector(path: &str, selector: &LabelSelector, problems: &mut Vec<Problem>) {
    if selector.match_labels.is_empty() && selector.match_expressions.is_empty() {
        let (wrong, remedy) = match path {
            "spec.nodeSelector" => (
                "an empty selector matches every Windows node",
                "write matchLabels or matchExpressions, or spec.fallback: true instead of the selector",
            ),
            _ => ("an empty selector matches everything", "write matchLabels or matchExpressions"),
        };
        problems.push(Problem::new(path, wrong, remedy));
    }
    for (key, value) in &selector.match_labels {
        let path = format!("{path}.matchLabels[{key}]");
        check_selector_key(&path, key, problems);
        check_label_value(&path, value, problems);
    }
    for (index, requirement) in selector.match_expressions.iter().enumerate() {
        check_requirement(&format!("{path}.matchExpressions[{index}]"), requirement, problems);
    }
}

fn check_requirement(path: &str, requirement: &SelectorRequirement, problems: &mut Vec<Problem>) {
    check_selector_key(&format!("{path}.key"), &requirement.key, problems);
    let takes_values = matches!(requirement.operator, SelectorOperator::In | SelectorOperator::NotIn);
    if takes_values == requirement.values.is_empty() {
        problems.push(Problem::new(
            format!("{path}.values"),
            if takes_values { "In and NotIn need a value" } else { "Exists and DoesNotExist take no values" },
            if takes_values { "write at least one value" } else { "remove the values" },
        ));
    }
    for (index, value) in requirement.values.iter().enumerate() {
        check_label_value(&format!("{path}.values[{index}]"), value, problems);
    }
}

fn check_selector_key(path: &str, key: &str, problems: &mut Vec<Problem>) {
    check_key(path, key, problems);
    if key.starts_with("winpool.dev/") {
        problems.push(Problem::new(path, format!("{key} is set from this selector"), "select by another label"));
    }
}

/// Checks the key of a label or taint.
pub fn check_key(path: &str, key: &str, problems: &mut Vec<Problem>) {
    if !syntax::is_qualified_name(key) {
        problems.push(Problem::new(path, format!("{key:?} is not {}", KEY.description), KEY.remedy));
    }
}

/// Checks the value of a label.
pub fn check_label_value(path: &str, value: &str, problems: &mut Vec<Problem>) {
    if !syntax::is_label_value(value) {
        problems.push(Problem::new(path, format!("{value:?} is not {}", LABEL_VALUE.description), LABEL_VALUE.remedy));
    }
}

//! Values of the label for the operating system in another case, which no node has.

use winpool_api::names::label;
use winpool_workload::{Requirement, Template};

use super::{Code, Finding};

const KEYS: [&str; 2] = [label::OS, label::BETA_OS];
const SYSTEMS: [&str; 2] = ["windows", "linux"];

/// Corrects the values in a template, so that the other rules apply to what was meant, and returns what was wrong.
pub fn correct(template: &mut Template) -> Vec<Finding> {
    let mut findings = Vec::new();
    for key in KEYS {
        if let Some(value) = template.scheduling.node_selector.get_mut(key)
            && let Some(system) = meant(value)
        {
            findings.push(finding(&format!("nodeSelector[{key}]"), key, value, system));
            system.clone_into(value);
        }
    }
    let by_os = template.affinity.iter_mut().flatten().filter(|requirement| KEYS.contains(&requirement.key.as_str()));
    for Requirement { key, values, .. } in by_os {
        // A list may have several spellings, so that one of them matches.
        let is_valid = |value: &String| SYSTEMS.contains(&value.as_str());
        if values.iter().any(is_valid) {
            continue;
        }
        for value in values {
            let Some(system) = meant(value) else { continue };
            findings.push(finding("affinity.nodeAffinity", key, value, system));
            system.clone_into(value);
        }
    }
    findings
}

/// The system that a value in another case stands for.
pub fn meant(value: &str) -> Option<&'static str> {
    SYSTEMS.into_iter().find(|system| value.eq_ignore_ascii_case(system)).filter(|system| value != *system)
}

pub fn finding(path: &str, key: &str, value: &str, system: &str) -> Finding {
    let problem = format!("no node has {key}={value}");
    Finding::new(Code::OsSelectorValue, path, problem).with_remedy(format!("write {key}: {system}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_value_in_another_case_is_found_and_corrected() {
        let requires = |values: Value| {
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": label::OS, "operator": "In", "values": values}]},
            ]}}}})
        };
        let table = [
            (json!({"nodeSelector": {label::OS: "Windows"}}), 1),
            (json!({"nodeSelector": {label::BETA_OS: "WINDOWS", label::OS: "Linux"}}), 2),
            (json!({"nodeSelector": {label::OS: "windows", "os": "Windows"}}), 0),
            (json!({"nodeSelector": {label::OS: "darwin"}}), 0),
            (requires(json!(["Windows"])), 1),
            (requires(json!(["Windows", "windows"])), 0),
        ];
        for (mut spec, expected) in table {
            spec["containers"] = json!([]);
            let mut template = Template::from(&serde_json::from_value(spec.clone()).unwrap());
            assert_eq!(correct(&mut template).len(), expected, "{spec}");
            assert_eq!(correct(&mut template).len(), 0, "{spec} is corrected");
        }
    }
}

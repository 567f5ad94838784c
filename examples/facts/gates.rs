//! `test/compatibility_lifecycle/reference/versioned_feature_list.yaml` of kubernetes/kubernetes.

use serde::Deserialize;
use winpool::facts::{
    Minor,
    feature_gates::{FeatureGate, GATES, NEWEST_READ, Stage, feature_gate},
};

use super::Compared;

/// Gates that the list calls by the name of their constant, and the name that a kubelet takes.
const NAMES: [(&str, &str); 2] =
    [("CPUCFSQuotaPeriod", "CustomCPUCFSQuotaPeriod"), ("RuntimeClassInImageCriAPI", "RuntimeClassInImageCriApi")];
/// The gates that are in no list: they switch others.
const SWITCHES: [&str; 2] = ["AllAlpha", "AllBeta"];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    name: String,
    versioned_specs: Vec<ListedSpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedSpec {
    default: bool,
    lock_to_default: bool,
    pre_release: String,
    version: String,
}

/// Default, lock and stage of a gate in one minor.
#[derive(PartialEq, Eq)]
struct State {
    on: bool,
    locked: bool,
    stage: Stage,
}

/// Compares the list of a minor.
pub fn list(minor: Minor, text: &str) -> Compared {
    let listed: Vec<Listed> = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let mut differences = Vec::new();
    let mut names = Vec::new();
    for gate in &listed {
        let name =
            NAMES.iter().find(|(constant, _)| *constant == gate.name).map_or(gate.name.as_str(), |(_, name)| name);
        // Specifications for later minors are not of this one.
        let Some(upstream) = state_of(gate, minor)? else { continue };
        names.push(name);
        match feature_gate(name).filter(|gate| known(gate, minor)) {
            None => differences.push(format!("{name} is missing: {}", in_words(&upstream))),
            Some(own) => {
                let own = own.spec_in(minor).map(|spec| State { on: spec.on, locked: spec.locked, stage: spec.stage });
                if own.as_ref() != Some(&upstream) {
                    let own = own.as_ref().map_or("nothing".to_owned(), in_words);
                    differences.push(format!("{name} is {}, the table has {own}", in_words(&upstream)));
                }
            }
        }
    }
    let gone = GATES.iter().filter(|gate| known(gate, minor) && !names.contains(&gate.name));
    let gone = gone.filter(|gate| !SWITCHES.contains(&gate.name));
    differences.extend(gone.map(|gate| format!("{} is not in the list, and the table has it", gate.name)));
    Ok(differences)
}

/// A minor newer than the table is compared with its end.
fn known(gate: &FeatureGate, minor: Minor) -> bool {
    gate.known_in(minor.min(NEWEST_READ))
}

fn state_of(gate: &Listed, minor: Minor) -> Result<Option<State>, String> {
    let mut last = None;
    for spec in &gate.versioned_specs {
        let from = spec.version.parse::<Minor>().map_err(|error| format!("{}: {error}", gate.name))?;
        if from <= minor && last.as_ref().is_none_or(|(before, _)| *before <= from) {
            last = Some((from, spec));
        }
    }
    let state = |spec: &ListedSpec| State {
        on: spec.default,
        locked: spec.lock_to_default,
        stage: match spec.pre_release.as_str() {
            "Alpha" => Stage::Alpha,
            "Beta" => Stage::Beta,
            _ => Stage::Stable,
        },
    };
    Ok(last.map(|(_, spec)| state(spec)))
}

fn in_words(State { on, locked, stage }: &State) -> String {
    let stage = match stage {
        Stage::Alpha => "alpha",
        Stage::Beta => "beta",
        Stage::Stable => "stable or deprecated",
    };
    format!("{stage}, {}{}", if *on { "on" } else { "off" }, if *locked { ", locked" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, specs: &[(&str, &str, bool, bool)]) -> String {
        let spec = |(version, stage, on, locked): &(&str, &str, bool, bool)| {
            format!("  - {{default: {on}, lockToDefault: {locked}, preRelease: {stage}, version: \"{version}\"}}\n")
        };
        format!("- name: {name}\n  versionedSpecs:\n{}", specs.iter().map(spec).collect::<String>())
    }

    /// The differences about gates with these words in their names.
    fn about(minor: u32, text: &str, word: &str) -> Vec<String> {
        list(Minor(minor), text).unwrap().into_iter().filter(|difference| difference.contains(word)).collect()
    }

    #[test]
    fn a_gate_that_is_as_the_table_has_it_is_no_difference() {
        let log_query = entry("NodeLogQuery", &[("1.27", "Alpha", false, false), ("1.30", "Beta", false, false)]);
        assert_eq!(about(35, &log_query, "NodeLogQuery"), [""; 0]);
        let quota = entry("CPUCFSQuotaPeriod", &[("1.12", "Alpha", false, false)]);
        assert_eq!(about(33, &quota, "CFSQuota"), [""; 0]);
    }

    #[test]
    fn a_gate_that_is_otherwise_new_or_gone_is_a_difference() {
        let log_query = entry("NodeLogQuery", &[("1.27", "Beta", true, false)]);
        assert_eq!(about(35, &log_query, "NodeLogQuery"), ["NodeLogQuery is beta, on, the table has beta, off"]);
        let new = entry("BrandNew", &[("1.37", "Alpha", false, false)]);
        assert_eq!(about(37, &new, "BrandNew"), ["BrandNew is missing: alpha, off"]);
        assert_eq!(about(36, &new, "BrandNew"), [""; 0]);
        let gone = "NodeLogQuery is not in the list, and the table has it";
        assert_eq!(about(36, &new, "NodeLogQuery"), [gone]);
        assert_eq!(about(37, &new, "NodeLogQuery"), [gone]);
        assert_eq!(about(26, &new, "NodeLogQuery"), [""; 0]);
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        assert!(list(Minor(36), "- name: A\n  versionedSpecs: soon\n").is_err());
        assert!(list(Minor(36), &entry("A", &[("one", "Alpha", false, false)])).is_err());
    }
}

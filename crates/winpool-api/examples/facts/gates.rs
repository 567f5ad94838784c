//! `test/compatibility_lifecycle/reference/versioned_feature_list.yaml` of kubernetes/kubernetes.

use std::{collections::BTreeMap, fmt};

use serde::Deserialize;
use winpool_api::facts::{
    Minor,
    feature_gates::{FeatureGate, GATES, GateStage, NEWEST_READ, feature_gate},
};

use super::Comparison;

/// Gates that have the name of their Go constant in the list, with their actual name.
const NAMES: [(&str, &str); 2] =
    [("CPUCFSQuotaPeriod", "CustomCPUCFSQuotaPeriod"), ("RuntimeClassInImageCriAPI", "RuntimeClassInImageCriApi")];
/// Gates that are not in the list because they set other gates.
const SWITCHES: [&str; 2] = ["AllAlpha", "AllBeta"];

/// Gates of client-go (`features/known_features.go`), which the kubelet has and the list has not.
const OF_CLIENT_GO: [&str; 10] = [
    "AtomicFIFO",
    "ClientsAllowCARotation",
    "ClientsAllowCBOR",
    "ClientsAllowTLSCacheGC",
    "ClientsPreferCBOR",
    "InOrderInformers",
    "InOrderInformersBatchProcess",
    "InformerResourceVersion",
    "UnlockWhileProcessingFIFO",
    "WatchListClient",
];
/// Gates of other components in the list, which a kubelet does not have.
const OF_OTHERS: [&str; 1] = ["ControllerManagerReleaseLeaderElectionLockOnExit"];

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
    default: bool,
    locked: bool,
    stage: GateStage,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.stage {
            GateStage::Alpha => "alpha",
            GateStage::Beta => "beta",
            GateStage::Stable => "stable or deprecated",
        })?;
        f.write_str(if self.default { " and enabled" } else { " and disabled" })?;
        f.write_str(if self.locked { " (locked)" } else { "" })
    }
}

/// Compares the list of a minor.
pub fn list(minor: Minor, text: &str) -> Comparison {
    let listed: Vec<Listed> = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let mut differences = Vec::new();
    let mut listed_names = Vec::new();
    for gate in &listed {
        let name =
            NAMES.iter().find(|(constant, _)| *constant == gate.name).map_or(gate.name.as_str(), |(_, name)| name);
        // The gate may exist only in later minors.
        let Some(upstream) = state_of(gate, minor)? else { continue };
        listed_names.push(name);
        match feature_gate(name).filter(|gate| known(gate, minor)) {
            None if OF_OTHERS.contains(&name) => {}
            None => differences.push(format!("{name} is missing: upstream has {upstream}")),
            Some(own) => {
                let own = own.spec_in(minor).map(|spec| State {
                    default: spec.default,
                    locked: spec.locked,
                    stage: spec.stage,
                });
                if own.as_ref() != Some(&upstream) {
                    let own = own.map_or("nothing".to_owned(), |own| own.to_string());
                    differences.push(format!("{name}: upstream has {upstream}, the table has {own}"));
                }
            }
        }
    }
    let removed = GATES.iter().filter(|gate| known(gate, minor) && !listed_names.contains(&gate.name));
    let removed = removed.filter(|gate| !SWITCHES.contains(&gate.name) && !OF_CLIENT_GO.contains(&gate.name));
    differences.extend(removed.map(|gate| format!("{} does not exist upstream", gate.name)));
    Ok(differences)
}

/// Compares the gates in a Go file of one component, such as `pkg/features/kube_features.go` of kubernetes/apiserver. Gates
/// that the file does not have may be those of another component.
pub fn source(minor: Minor, text: &str) -> Comparison {
    let specs = specs(text);
    if specs.is_empty() {
        return Err("no feature gates".to_owned());
    }
    let mut differences = Vec::new();
    for gate in &specs {
        let Some(upstream) = state_of(gate, minor)? else { continue };
        let own = feature_gate(&gate.name).filter(|gate| known(gate, minor)).and_then(|gate| gate.spec_in(minor));
        let own = own.map(|spec| State { default: spec.default, locked: spec.locked, stage: spec.stage });
        if own.as_ref() != Some(&upstream) {
            let own = own.map_or("nothing".to_owned(), |own| own.to_string());
            differences.push(format!("{}: upstream has {upstream}, the table has {own}", gate.name));
        }
    }
    Ok(differences)
}

/// The gates of a Go file, with the names that their constants stand for.
fn specs(text: &str) -> Vec<Listed> {
    let constants: BTreeMap<&str, &str> = text.lines().filter_map(constant).collect();
    let mut gates: Vec<Listed> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_suffix(": {").filter(|name| constants.contains_key(name)) {
            gates.push(Listed { name: constants[name].to_owned(), versioned_specs: Vec::new() });
        } else if let (Some(spec), Some(gate)) = (spec(line), gates.last_mut()) {
            gate.versioned_specs.push(spec);
        }
    }
    gates
}

/// Name and value of `Name featuregate.Feature = "Value"`.
fn constant(line: &str) -> Option<(&str, &str)> {
    let (declared, value) = line.trim().split_once("Feature = \"")?;
    let name = declared.split_whitespace().next()?;
    (!name.starts_with("//")).then_some((name, value.strip_suffix('"')?))
}

/// `{Version: version.MustParse("1.8"), Default: false, PreRelease: featuregate.Alpha},`
fn spec(line: &str) -> Option<ListedSpec> {
    let after = |field: &str| Some(line.split(field).nth(1)?.split([',', '}']).next()?.trim());
    Some(ListedSpec {
        version: after("version.MustParse(\"")?.split('"').next()?.to_owned(),
        default: after("Default:")? == "true",
        lock_to_default: after("LockToDefault:") == Some("true"),
        pre_release: after("PreRelease:")?.rsplit('.').next()?.to_owned(),
    })
}

/// Whether a minor has a gate. Minors newer than the table are compared with its newest minor.
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
        default: spec.default,
        locked: spec.lock_to_default,
        stage: match spec.pre_release.as_str() {
            "Alpha" => GateStage::Alpha,
            "Beta" => GateStage::Beta,
            _ => GateStage::Stable,
        },
    };
    Ok(last.map(|(_, spec)| state(spec)))
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

    /// The differences that contain a name.
    fn about(minor: u32, text: &str, name: &str) -> Vec<String> {
        list(Minor(minor), text).unwrap().into_iter().filter(|difference| difference.contains(name)).collect()
    }

    #[test]
    fn an_equal_gate_is_not_a_difference() {
        let log_query = entry("NodeLogQuery", &[("1.27", "Alpha", false, false), ("1.30", "Beta", false, false)]);
        assert_eq!(about(35, &log_query, "NodeLogQuery"), [""; 0]);
        let quota = entry("CPUCFSQuotaPeriod", &[("1.12", "Alpha", false, false)]);
        assert_eq!(about(33, &quota, "CFSQuota"), [""; 0]);
    }

    #[test]
    fn a_changed_new_or_removed_gate_is_a_difference() {
        let log_query = entry("NodeLogQuery", &[("1.27", "Beta", true, false)]);
        assert_eq!(
            about(35, &log_query, "NodeLogQuery"),
            ["NodeLogQuery: upstream has beta and enabled, the table has beta and disabled"]
        );
        let new = entry("BrandNew", &[("1.37", "Alpha", false, false)]);
        assert_eq!(about(37, &new, "BrandNew"), ["BrandNew is missing: upstream has alpha and disabled"]);
        assert_eq!(about(36, &new, "BrandNew"), [""; 0]);
        let removed = "NodeLogQuery does not exist upstream";
        assert_eq!(about(36, &new, "NodeLogQuery"), [removed]);
        assert_eq!(about(37, &new, "NodeLogQuery"), [removed]);
        assert_eq!(about(26, &new, "NodeLogQuery"), [""; 0]);
    }

    #[test]
    fn gates_of_other_components_are_no_differences() {
        let other = entry("ControllerManagerReleaseLeaderElectionLockOnExit", &[("1.36", "Alpha", false, false)]);
        assert_eq!(about(36, &other, "LockOnExit"), [""; 0]);
        assert_eq!(about(36, &other, "WatchListClient"), [""; 0], "it is a gate of client-go");
    }

    #[test]
    fn the_gates_of_a_go_file_are_compared() {
        let file = |default: bool| {
            format!(
                "\t// beta: v1.30\n\tLogs featuregate.Feature = \"NodeLogQuery\"\n\tLogs: {{\n\t\t{{Version: \
                 version.MustParse(\"1.27\"), Default: false, PreRelease: featuregate.Alpha}},\n\t\t{{Version: \
                 version.MustParse(\"1.30\"), Default: {default}, PreRelease: featuregate.Beta}},\n\t}},\n"
            )
        };
        assert_eq!(source(Minor(35), &file(false)), Ok(Vec::new()));
        let expected = "NodeLogQuery: upstream has beta and enabled, the table has beta and disabled";
        assert_eq!(source(Minor(35), &file(true)).unwrap(), [expected]);
        assert!(source(Minor(35), "package features").is_err());
    }

    #[test]
    fn an_invalid_list_is_an_error() {
        assert!(list(Minor(36), "- name: A\n  versionedSpecs: soon\n").is_err());
        assert!(list(Minor(36), &entry("A", &[("one", "Alpha", false, false)])).is_err());
    }
}

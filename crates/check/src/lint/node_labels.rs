//! Labels of nodes that no Windows node has: builds that do not exist, and other architectures.

use winpool_api::names::label;
use winpool_core::node::ARCHITECTURE;
use winpool_facts::{
    Build, OsVersion,
    builds::{self, FUTURE, RELEASES},
    support,
};
use winpool_workload::Template;

use super::{Code, Finding, selected_os::BETA_ARCH};

/// The findings about the selector and the required affinity of a pod for Windows.
pub fn check(template: &Template) -> Vec<Finding> {
    let selector = template.scheduling.node_selector.iter();
    let selector = selector.map(|(key, value)| (format!("nodeSelector[{key}]"), key.as_str(), vec![value.as_str()]));
    let affinity = template.affinity.iter().flatten().filter(|requirement| requirement.operator == "In");
    let affinity = affinity.map(|requirement| {
        let values = requirement.values.iter().map(String::as_str).collect();
        ("affinity.nodeAffinity".to_owned(), requirement.key.as_str(), values)
    });
    selector.chain(affinity).filter_map(|(path, key, values)| finding(path, key, &values)).collect()
}

/// The first of the selected values, if no node has any of them.
fn finding(path: String, key: &str, values: &[&str]) -> Option<Finding> {
    let problem: fn(&str) -> Option<(String, String)> = match key {
        label::WINDOWS_BUILD => build_problem,
        label::ARCH | BETA_ARCH => architecture_problem,
        _ => return None,
    };
    let problems: Option<Vec<_>> = values.iter().map(|value| problem(value)).collect();
    let (problem, remedy) = problems?.into_iter().next()?;
    Some(Finding::new(Code::NoSuchNode, path, problem).with_remedy(remedy))
}

fn architecture_problem(value: &str) -> Option<(String, String)> {
    let problem = || format!("the pod selects the architecture {value}, and Windows nodes are {ARCHITECTURE}");
    (value != ARCHITECTURE).then(|| (problem(), format!("write {ARCHITECTURE}, or remove it")))
}

fn build_problem(value: &str) -> Option<(String, String)> {
    let meant = value
        .parse::<OsVersion>()
        .map(|version| version.build)
        .ok()
        .or_else(|| builds::named(value))
        .or_else(|| value.parse().ok().map(Build).filter(|build| builds::release(*build).is_some()));
    let Some(build) = meant else {
        let remedy = "write a build such as 10.0.20348";
        return Some((format!("{value:?} is not a build"), remedy.to_owned()));
    };
    if build.to_string() != value {
        let problem = format!("the nodes have the label value {build}, not {value}");
        return Some((problem, format!("write {build}")));
    }
    match builds::release(build) {
        None if !FUTURE.contains(&build.0) => {
            let nearest = RELEASES.iter().min_by_key(|release| release.build.0.abs_diff(build.0))?;
            let problem = format!("no Windows Server has the build {build}");
            Some((problem, format!("write {}, the build of {}", nearest.build, nearest.product)))
        }
        Some(release) if build < OLDEST && support::first_minor_supporting(build).is_none() => {
            let problem = format!("Kubernetes does not support nodes with {} ({build})", release.product);
            Some((problem, format!("use {OLDEST} or a later build")))
        }
        _ => None,
    }
}

/// The first build that Kubernetes supports.
const OLDEST: Build = Build(17763);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_build_is_that_of_a_supported_release() {
        let table = [
            ("10.0.20348", ""),
            ("10.0.25398", ""),
            ("10.0.26200", ""),
            ("10.0.20348.1234", "write 10.0.20348"),
            ("20348", "write 10.0.20348"),
            ("ltsc2022", "write 10.0.20348"),
            ("10.0.20349", "write 10.0.20348, the build of Windows Server 2022"),
            ("10.0.14393", "use 10.0.17763 or a later build"),
            ("10.0.1", "write 10.0.14393, the build of Windows Server 2016"),
            ("2022", "write a build such as 10.0.20348"),
        ];
        for (value, expected) in table {
            let remedy = build_problem(value).map(|(_, remedy)| remedy).unwrap_or_default();
            assert_eq!(remedy, expected, "{value}");
        }
    }

    #[test]
    fn a_selector_matches_no_node_if_no_value_does() {
        let affinity = |key: &str, values: &[&str]| {
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": key, "operator": "In", "values": values}]},
            ]}}}})
        };
        let table = [
            (json!({"nodeSelector": {label::ARCH: "arm64"}}), Some("nodeSelector[kubernetes.io/arch]")),
            (json!({"nodeSelector": {label::ARCH: "amd64", label::OS: "windows"}}), None),
            (affinity(label::ARCH, &["arm64", "amd64"]), None),
            (affinity(label::ARCH, &["arm64"]), Some("affinity.nodeAffinity")),
            (affinity(label::WINDOWS_BUILD, &["ltsc2022", "10.0.20348"]), None),
            (affinity(label::WINDOWS_BUILD, &["ltsc2022"]), Some("affinity.nodeAffinity")),
        ];
        for (mut spec, expected) in table {
            spec["containers"] = json!([]);
            let template = Template::from(&serde_json::from_value(spec.clone()).unwrap());
            let found = check(&template);
            assert_eq!(found.first().map(|finding| finding.path.as_str()), expected, "{spec}");
        }
    }
}

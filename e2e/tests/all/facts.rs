//! The tables of facts, compared with the sources in the Go modules that `e2e/programs` pins. A test fails with the differences:
//! table, row, and the file and line that says otherwise. docs/facts.md describes what is compared.

mod containerd;
mod feed;
mod gates;
mod kubernetes;
mod lines;
mod openapi;
mod settings;
mod source;

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use e2e::modules::Module;
use winpool_facts::{Compared, Minor, TABLES, support::NEWEST};

/// The tables, and how each is compared.
const COMPARISONS: &[(&str, fn() -> Result<Vec<String>>)] = &[
    ("api_versions", kubernetes::api_versions),
    ("api_versions", openapi::newer_fields),
    ("cluster_api", || lines::lines("cluster_api")),
    ("cluster_api", || lines::sections("cluster_api")),
    ("cluster_api", lines::limits),
    ("cluster_api", lines::api_versions),
    ("containerd", containerd::support),
    ("containerd", containerd::minimums),
    ("containerd", containerd::newest),
    ("containerd", containerd::config_version),
    ("containerd", || lines::lines("containerd")),
    ("containerd_settings", settings::settings),
    ("containerd_settings", || lines::lines("containerd_settings")),
    ("csi_drivers", kubernetes::redirections),
    ("eviction", kubernetes::eviction),
    ("exit_codes", kubernetes::exit_codes),
    ("feature_gates", gates::specifications),
    ("feature_gates", gates::dependencies),
    ("host_process", || lines::sections("host_process")),
    ("known_issues", containerd::hcsshim),
    ("kube_proxy_fields", kubernetes::kube_proxy_fields),
    ("kubelet_fields", kubernetes::kubelet_fields),
    ("kubelet_fields", kubernetes::kubelet_field_types),
    ("kubelet_fields", kubernetes::kubelet_defaults),
    ("kubelet_fields", kubernetes::kubelet_field_flags),
    ("kubelet_fields", || lines::sections("kubelet_fields")),
    ("kubelet_flags", kubernetes::kubelet_flags),
    ("layers", || lines::sections("layers")),
    ("node_lifecycle", || lines::lines("node_lifecycle")),
    ("node_restriction", kubernetes::kubelet_labels),
    ("node_restriction", || lines::lines("node_restriction")),
    ("pause", kubernetes::pause),
    ("pod_fields", kubernetes::rejected_fields),
    ("runtime_errors", || lines::lines("runtime_errors")),
    ("runtimes", || lines::lines("runtimes")),
    ("service_limits", || lines::lines("service_limits")),
    ("taints", kubernetes::taints),
    ("version_compatibility", containerd::previous_ltsc),
    ("version_compatibility", containerd::stable_abi),
    ("version_compatibility", || lines::sections("version_compatibility")),
];

#[test]
fn the_tables_say_what_the_sources_of_the_pinned_modules_say() {
    let mut found = Vec::new();
    for (table, compare) in COMPARISONS {
        let differences = compare().with_context(|| format!("{table} cannot be compared")).unwrap();
        found.extend(differences.into_iter().map(|difference| format!("{table}: {difference}")));
    }
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_table_of_a_minor_is_compared_with_that_minor() {
    let kubernetes = Module::new("kubernetes", kubernetes::KUBERNETES).download().unwrap();
    let pinned: Minor = kubernetes.version.parse().unwrap();
    assert_eq!(pinned, NEWEST, "read the sources of Kubernetes {pinned}, and set NEWEST_READ");
    for table in TABLES.iter().filter(|table| table.compared == Compared::Modules) {
        assert!(
            table.newest().is_none_or(|newest| newest == pinned),
            "{} was read for {:?}",
            table.name,
            table.newest()
        );
    }
}

#[test]
fn every_table_is_compared_unless_it_says_that_it_is_not() {
    let compared: BTreeSet<_> = COMPARISONS.iter().map(|(table, _)| *table).collect();
    let listed = TABLES.iter().filter(|table| table.compared == Compared::Modules).map(|table| table.name).collect();
    assert_eq!(compared, listed);
}

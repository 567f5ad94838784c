//! The operating system of the nodes that a pod selects, by its selector and affinity.

use std::{collections::BTreeMap, sync::LazyLock};

use winpool_api::names::label;
use winpool_core::release_labels;
use winpool_workload::{System, placement::EffectiveSpec};

/// The deprecated label of a node's processor architecture.
pub const BETA_ARCH: &str = "beta.kubernetes.io/arch";
/// The label of Azure Kubernetes Service with the operating system of a node, such as `Windows2022` or `Ubuntu`.
/// Source: MicrosoftDocs/azure-docs, `articles/aks/upgrade-windows-2019-2022.md` (2022-08-18).
pub const OS_SKU: &str = "kubernetes.azure.com/os-sku";
/// The prefix of the values of [`OS_SKU`] on Windows nodes.
pub const WINDOWS_SKU: &str = "Windows";

static WINDOWS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| labels("windows"));
static LINUX: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| labels("linux"));

/// The operating system of the nodes that a pod selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectedOs {
    /// Only nodes with this operating system.
    Only(System),
    /// Nodes with labels that nodes of either system may have.
    Unknown,
    /// Any node, including Linux nodes.
    Any,
}

impl SelectedOs {
    /// The operating system that a spec selects.
    pub fn of(effective: &EffectiveSpec<'_>) -> Self {
        let matches = |system, labels| effective.matches(labels, "", |key| is_known(effective, system, key));
        match (matches(System::Windows, &WINDOWS), matches(System::Linux, &LINUX)) {
            (true, false) => Self::Only(System::Windows),
            (false, true) => Self::Only(System::Linux),
            // A Linux node without custom labels, of any architecture.
            _ if effective.matches(&LINUX, "", |key| ![label::ARCH, BETA_ARCH].contains(&key)) => Self::Any,
            _ => Self::Unknown,
        }
    }

    /// The operating system, if there is only one.
    pub fn system(self) -> Option<System> {
        match self {
            Self::Only(system) => Some(system),
            Self::Unknown | Self::Any => None,
        }
    }
}

/// Whether all nodes of a system have the same value of a label, or do not have it.
fn is_known(effective: &EffectiveSpec<'_>, system: System, key: &str) -> bool {
    match key {
        label::OS | label::BETA_OS => true,
        label::WINDOWS_BUILD | label::POOL => system == System::Linux,
        key if release_labels::is_release_label(key) => system == System::Linux,
        // Known if all selected values are of the other system: these nodes have none of them.
        OS_SKU => {
            let mut values = effective.selected_values(OS_SKU).peekable();
            let is_foreign = |value: &str| value.starts_with(WINDOWS_SKU) == (system == System::Linux);
            values.peek().is_some() && values.all(is_foreign)
        }
        _ => false,
    }
}

/// The labels that every node of a system has.
fn labels(system: &str) -> BTreeMap<String, String> {
    [label::OS, label::BETA_OS].map(|key| (key.to_owned(), system.to_owned())).into()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use winpool_workload::Template;

    #[test]
    fn the_selected_os_is_known_if_selector_and_affinity_match_no_other() {
        let selects = |key: &str, value: &str| json!({"nodeSelector": {key: value}});
        let requires = |key: &str, operator: &str, values: Value| {
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": key, "operator": operator, "values": values}]},
            ]}}}})
        };
        let (windows, linux) = (SelectedOs::Only(System::Windows), SelectedOs::Only(System::Linux));
        let table = [
            (json!({}), SelectedOs::Any),
            (selects(label::ARCH, "amd64"), SelectedOs::Any),
            (selects(label::OS, "windows"), windows),
            (selects(label::BETA_OS, "linux"), linux),
            (selects(label::POOL, "web-2022"), windows),
            (selects(label::WINDOWS_BUILD, "10.0.20348"), windows),
            (selects(OS_SKU, "Windows2022"), windows),
            (selects(OS_SKU, "Ubuntu"), linux),
            (selects("gpu", "true"), SelectedOs::Unknown),
            (selects(label::HOSTNAME, "win-1"), SelectedOs::Unknown),
            (requires(label::OS, "In", json!(["windows"])), windows),
            (requires(label::OS, "In", json!(["windows", "linux"])), SelectedOs::Any),
            (requires(label::OS, "NotIn", json!(["linux"])), windows),
            (requires(label::OS, "NotIn", json!(["windows"])), linux),
            (requires(label::WINDOWS_BUILD, "Exists", json!([])), windows),
            (requires(OS_SKU, "In", json!(["Windows2019", "Windows2022"])), windows),
            (requires(OS_SKU, "In", json!(["Windows2022", "Ubuntu"])), SelectedOs::Unknown),
            (requires(OS_SKU, "NotIn", json!(["Windows2022"])), SelectedOs::Any),
            (requires(OS_SKU, "Exists", json!([])), SelectedOs::Unknown),
            (requires("eks.amazonaws.com/compute-type", "NotIn", json!(["fargate"])), SelectedOs::Any),
            (requires("gpu", "Exists", json!([])), SelectedOs::Unknown),
        ];
        for (mut spec, expected) in table {
            spec["containers"] = json!([]);
            let template = Template::from(&serde_json::from_value(spec.clone()).unwrap());
            assert_eq!(SelectedOs::of(&EffectiveSpec::without_class(&template)), expected, "{spec}");
        }
    }
}

//! To the nodes of which system a pod is led, by what the scheduler looks at: selectors and affinity.

use std::{collections::BTreeMap, sync::LazyLock};

use crate::{
    api::names::label,
    domain::workload::{System, placement::Effective},
};

/// The old name of the label of a node's processor architecture.
pub const BETA_ARCH: &str = "beta.kubernetes.io/arch";
/// The label of Azure Kubernetes Service with the product that a node runs, such as `Windows2022` or `Ubuntu`.
/// Source: MicrosoftDocs/azure-docs, `articles/aks/upgrade-windows-2019-2022.md` (2022-08-18).
pub const OS_SKU: &str = "kubernetes.azure.com/os-sku";
/// What the values of [`OS_SKU`] begin with on Windows nodes.
pub const WINDOWS_SKU: &str = "Windows";

static WINDOWS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| labels("windows"));
static LINUX: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| labels("linux"));

/// Where a pod is led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Led {
    /// To nodes of this system only.
    To(System),
    /// To nodes with labels of which nobody knows what system has them.
    Somewhere,
    /// To any node, of Linux too.
    Nowhere,
}

impl Led {
    /// Where a pod is led.
    pub fn of(effective: &Effective<'_>) -> Self {
        let may = |system, labels| effective.fits(labels, "", |key| known(effective, system, key));
        match (may(System::Windows, &WINDOWS), may(System::Linux, &LINUX)) {
            (true, false) => Self::To(System::Windows),
            (false, true) => Self::To(System::Linux),
            // A node without any label that somebody gave it; its processors may be of any kind.
            _ if effective.fits(&LINUX, "", |key| ![label::ARCH, BETA_ARCH].contains(&key)) => Self::Nowhere,
            _ => Self::Somewhere,
        }
    }

    /// The system to which it is led for certain.
    pub fn system(self) -> Option<System> {
        match self {
            Self::To(system) => Some(system),
            Self::Somewhere | Self::Nowhere => None,
        }
    }
}

/// Whether it is known of the nodes of a system what they have of a label.
fn known(effective: &Effective<'_>, system: System, key: &str) -> bool {
    match key {
        label::OS | label::BETA_OS => true,
        label::WINDOWS_BUILD | label::POOL => system == System::Linux,
        // That they have none of the products that are asked for, where all of these are of the other system.
        OS_SKU => {
            let mut asked = effective.asked(OS_SKU).peekable();
            let foreign = |product: &str| product.starts_with(WINDOWS_SKU) == (system == System::Linux);
            asked.peek().is_some() && asked.all(foreign)
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
    use crate::domain::workload::Template;

    #[test]
    fn a_pod_is_led_where_its_selector_and_its_affinity_leave_nothing_else() {
        let selects = |key: &str, value: &str| json!({"nodeSelector": {key: value}});
        let prefers = |key: &str, operator: &str, values: Value| {
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": key, "operator": operator, "values": values}]},
            ]}}}})
        };
        let (windows, linux) = (Led::To(System::Windows), Led::To(System::Linux));
        let table = [
            (json!({}), Led::Nowhere),
            (selects(label::ARCH, "amd64"), Led::Nowhere),
            (selects(label::OS, "windows"), windows),
            (selects(label::BETA_OS, "linux"), linux),
            (selects(label::POOL, "web-2022"), windows),
            (selects(label::WINDOWS_BUILD, "10.0.20348"), windows),
            (selects(OS_SKU, "Windows2022"), windows),
            (selects(OS_SKU, "Ubuntu"), linux),
            (selects("gpu", "true"), Led::Somewhere),
            (selects(label::HOSTNAME, "win-1"), Led::Somewhere),
            (prefers(label::OS, "In", json!(["windows"])), windows),
            (prefers(label::OS, "In", json!(["windows", "linux"])), Led::Nowhere),
            (prefers(label::OS, "NotIn", json!(["linux"])), windows),
            (prefers(label::OS, "NotIn", json!(["windows"])), linux),
            (prefers(label::WINDOWS_BUILD, "Exists", json!([])), windows),
            (prefers(OS_SKU, "In", json!(["Windows2019", "Windows2022"])), windows),
            (prefers(OS_SKU, "In", json!(["Windows2022", "Ubuntu"])), Led::Somewhere),
            (prefers(OS_SKU, "NotIn", json!(["Windows2022"])), Led::Nowhere),
            (prefers(OS_SKU, "Exists", json!([])), Led::Somewhere),
            (prefers("eks.amazonaws.com/compute-type", "NotIn", json!(["fargate"])), Led::Nowhere),
            (prefers("gpu", "Exists", json!([])), Led::Somewhere),
        ];
        for (mut spec, expected) in table {
            spec["containers"] = json!([]);
            let template = Template::from(&serde_json::from_value(spec.clone()).unwrap());
            assert_eq!(Led::of(&Effective::alone(&template)), expected, "{spec}");
        }
    }
}

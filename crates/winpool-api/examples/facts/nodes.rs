//! What a node has: taints in `core/v1/well_known_taints.go` of kubernetes/api, labels in `pkg/apis/well_known_labels.go` of
//! kubernetes/kubelet, thresholds in `pkg/kubelet/eviction/defaults_windows.go` of kubernetes/kubernetes, fields of kube-proxy in
//! `config/v1alpha1/types.go` of kubernetes/kube-proxy, and the constants of microsoft/windows-rs.

use std::collections::BTreeSet;

use winpool_api::facts::{
    Minor,
    eviction::defaults,
    exit_codes::{EXIT_CODES, ExitCode},
    kube_proxy_fields::FIELDS,
    kubelet_fields::FieldType,
    node_restriction::kubelet_accepts,
    taints::manager,
};

use super::{Comparison, kubelet::json_name};

/// The constants of the labels that a kubelet accepts, and their values.
const LABELS: [(&str, &str); 11] = [
    ("v1.LabelHostname", "kubernetes.io/hostname"),
    ("v1.LabelTopologyZone", "topology.kubernetes.io/zone"),
    ("v1.LabelTopologyRegion", "topology.kubernetes.io/region"),
    ("v1.LabelFailureDomainBetaZone", "failure-domain.beta.kubernetes.io/zone"),
    ("v1.LabelFailureDomainBetaRegion", "failure-domain.beta.kubernetes.io/region"),
    ("v1.LabelInstanceType", "beta.kubernetes.io/instance-type"),
    ("v1.LabelInstanceTypeStable", "node.kubernetes.io/instance-type"),
    ("v1.LabelOSStable", "kubernetes.io/os"),
    ("v1.LabelArchStable", "kubernetes.io/arch"),
    ("LabelOS", "beta.kubernetes.io/os"),
    ("LabelArch", "beta.kubernetes.io/arch"),
];

/// Compares the taints that Kubernetes adds and removes.
pub fn taints(text: &str) -> Comparison {
    let keys: Vec<_> = text.lines().filter_map(|line| line.trim().strip_prefix("Taint")?.split('"').nth(1)).collect();
    if keys.is_empty() {
        return Err("no taints".to_owned());
    }
    let unknown = keys.iter().filter(|key| manager(key) != Some("Kubernetes"));
    Ok(unknown.map(|key| format!("the taint {key} counts as permanent")).collect())
}

/// Compares the labels with which a kubelet starts.
pub fn labels(_: Minor, text: &str) -> Comparison {
    let list = text.split("kubeletLabels = sets.").nth(1).and_then(|rest| rest.split_once("\n)"));
    let (list, _) = list.ok_or("no list of labels")?;
    let upstream: BTreeSet<_> = list.lines().skip(1).map(|line| line.trim().trim_end_matches(',')).collect();
    let unknown = upstream.iter().filter(|name| {
        let value = LABELS.iter().find(|(known, _)| known == *name).map(|(_, value)| *value);
        !name.is_empty() && !value.is_some_and(kubelet_accepts)
    });
    let removed = LABELS.iter().filter(|(name, _)| !upstream.contains(name));
    let unknown = unknown.map(|name| format!("the label {name} is missing"));
    Ok(unknown.chain(removed.map(|(name, _)| format!("the label {name} does not exist upstream"))).collect())
}

/// Compares the default thresholds of eviction.
pub fn eviction(minor: Minor, text: &str) -> Comparison {
    let map = text.split("DefaultEvictionHard = map[string]string{").nth(1).and_then(|rest| rest.split_once("\n}"));
    let (map, _) = map.ok_or("no thresholds")?;
    let pair = |line: &str| {
        let mut texts = line.split('"').skip(1).step_by(2).map(str::to_owned);
        Some((texts.next()?, texts.next()?))
    };
    let upstream: BTreeSet<_> = map.lines().filter_map(pair).collect();
    let own = defaults(minor).map(|(signal, threshold)| (signal.name().to_owned(), threshold.to_owned())).into();
    let text = |(signal, threshold): &(String, String)| format!("{signal} below {threshold}");
    let missing = upstream.difference(&own).map(|pair| format!("the default {} is missing", text(pair)));
    Ok(missing.chain(own.difference(&upstream).map(|pair| format!("{} is no default upstream", text(pair)))).collect())
}

/// Compares the fields of kube-proxy for Windows.
pub fn winkernel(_: Minor, text: &str) -> Comparison {
    let body =
        text.split("type KubeProxyWinkernelConfiguration struct {").nth(1).and_then(|rest| rest.split_once("\n}"));
    let (body, _) = body.ok_or("no KubeProxyWinkernelConfiguration")?;
    let upstream: BTreeSet<_> = body.lines().filter_map(json_name).collect();
    let own = FIELDS.iter().filter(|(name, _)| *name == "winkernel").flat_map(|(_, kind)| match kind {
        FieldType::Object(fields) => fields.iter().map(|(name, _)| *name).collect(),
        _ => Vec::new(),
    });
    let own = own.collect();
    let missing = upstream.difference(&own).map(|name| format!("the field winkernel.{name} is missing"));
    Ok(missing
        .chain(own.difference(&upstream).map(|name| format!("winkernel.{name} does not exist upstream")))
        .collect())
}

/// Compares the values of exit codes. Those with the first digit C are how hcsshim reports errors of the host compute service.
pub fn exit_codes(text: &str) -> Comparison {
    let upstream = |name: &str| {
        let (_, rest) = text.split_once(&format!("pub const {name}: "))?;
        let value = rest.lines().next()?.split_once("= 0x")?.1;
        u32::from_str_radix(value.split('_').next()?, 16).ok()
    };
    let difference = |row: &ExitCode| {
        let value = upstream(row.name).ok_or_else(|| format!("no constant {}", row.name));
        let is_equal =
            |value: u32| row.code == value || row.name.starts_with("HCS_") && row.code == value ^ 0x4000_0000;
        value.map(|value| {
            (!is_equal(value)).then(|| format!("{} is {value:#x} upstream, not {:#x}", row.name, row.code))
        })
    };
    let differences: Result<Vec<_>, String> = EXIT_CODES.iter().map(difference).collect();
    Ok(differences?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taint_that_counts_as_permanent_is_a_difference() {
        let line = |key: &str| format!("const (\n\tTaintNode = \"{key}\"\n)\n");
        assert_eq!(taints(&line("node.kubernetes.io/not-ready")), Ok(Vec::new()));
        assert_eq!(taints(&line("example.com/new")).unwrap(), ["the taint example.com/new counts as permanent"]);
        assert!(taints("package v1").is_err());
    }

    #[test]
    fn added_and_removed_labels_thresholds_and_fields_are_differences() {
        let list = |names: &[&str]| format!("var kubeletLabels = sets.NewString(\n\t{},\n)\n", names.join(",\n\t"));
        let all = LABELS.map(|(name, _)| name);
        assert_eq!(labels(Minor(36), &list(&all)), Ok(Vec::new()));
        assert_eq!(
            labels(Minor(36), &list(&all[1..])).unwrap(),
            ["the label v1.LabelHostname does not exist upstream"]
        );
        let with_new = [&all[..], &["v1.LabelNew"]].concat();
        assert_eq!(labels(Minor(36), &list(&with_new)).unwrap(), ["the label v1.LabelNew is missing"]);

        let map = "var DefaultEvictionHard = map[string]string{\n\t\"memory.available\":  \"500Mi\",\n\t\"nodefs.available\": \"10%\",\n\
                   \t\"imagefs.available\": \"15%\",\n}\n";
        assert_eq!(eviction(Minor(36), map), Ok(Vec::new()));
        let other = [
            "the default memory.available below 500Mi is missing",
            "memory.available below 100Mi is no default upstream",
        ];
        assert_eq!(eviction(Minor(30), map).unwrap(), other);

        let names = ["networkName", "sourceVip", "enableDSR", "rootHnsEndpointName", "forwardHealthCheckVip"];
        let body = |names: &[&str]| {
            let lines = names.iter().map(|name| format!("\tA string `json:\"{name}\"`\n"));
            format!("type KubeProxyWinkernelConfiguration struct {{\n{}}}\n", lines.collect::<String>())
        };
        assert_eq!(winkernel(Minor(37), &body(&names)), Ok(Vec::new()));
        assert_eq!(
            winkernel(Minor(37), &body(&names[1..])).unwrap(),
            ["winkernel.networkName does not exist upstream"]
        );
        for parse in [labels, eviction, winkernel] {
            assert!(parse(Minor(36), "package a").is_err());
        }
    }

    #[test]
    fn another_value_of_an_exit_code_is_a_difference() {
        let constant = |name: &str, value: u32| format!("pub const {name}: NTSTATUS = {value:#X}_u32 as _;\n");
        let all = |heap: u32| {
            let value = |name: &str, code: u32| if name == "STATUS_HEAP_CORRUPTION" { heap } else { code };
            let rows = EXIT_CODES.iter().filter(|row| !(row.name.starts_with("HCS_") && row.code >= 0xC000_0000));
            rows.map(|row| constant(row.name, value(row.name, row.code)).replace("0X", "0x")).collect::<String>()
        };
        assert_eq!(exit_codes(&all(0xC000_0374)), Ok(Vec::new()));
        assert_eq!(exit_codes(&all(1)).unwrap(), ["STATUS_HEAP_CORRUPTION is 0x1 upstream, not 0xc0000374"]);
        assert!(exit_codes("").is_err());
    }
}

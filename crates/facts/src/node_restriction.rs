//! The labels that a kubelet cannot set on its own Node.
//!
//! Source: kubernetes/kubernetes, `plugin/pkg/admission/noderestriction/admission.go` (`getForbiddenCreateLabels`,
//! `getForbiddenUpdateLabels`) and `staging/src/k8s.io/kubelet/pkg/apis/well_known_labels.go`, both as of August 2026:
//! the admission plugin NodeRestriction always rejects labels of `node-restriction.kubernetes.io` and its subdomains.
//! It rejects other labels of `kubernetes.io` and `k8s.io` only in updates: a kubelet can register with them.

/// The domain of the labels that a kubelet cannot set.
const PROTECTED: &str = "node-restriction.kubernetes.io";

/// Whether a kubelet can set this label on its own Node, at registration or later.
pub fn kubelet_may_set(label: &str) -> bool {
    let Some((domain, _)) = label.split_once('/') else { return true };
    !is_within(domain, PROTECTED)
}

/// Whether the domain of a label is a domain or one of its subdomains.
pub fn is_within(domain: &str, of: &str) -> bool {
    domain == of || domain.strip_suffix(of).is_some_and(|rest| rest.ends_with('.'))
}

/// The labels of `kubernetes.io` and `k8s.io` that a kubelet accepts in `--node-labels`, in addition to those of
/// [`KUBELET_DOMAINS`]. It does not start with others. Source: `ValidateKubeletFlags` in
/// `cmd/kubelet/app/options/options.go`, and `IsKubeletLabel` in kubernetes/kubelet v0.37.0-beta.0,
/// `pkg/apis/well_known_labels.go`.
pub const KUBELET_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
/// The domains, with their subdomains, whose labels a kubelet accepts in `--node-labels`.
const KUBELET_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// The domains, with their subdomains, of which it accepts no other labels.
const KUBERNETES_DOMAINS: [&str; 2] = ["kubernetes.io", "k8s.io"];

/// Whether a kubelet starts with this label in `--node-labels`.
pub fn kubelet_accepts(label: &str) -> bool {
    let Some((domain, _)) = label.split_once('/') else { return true };
    let within = |of: &&str| is_within(domain, of);
    !KUBERNETES_DOMAINS.iter().any(within) || KUBELET_LABELS.contains(&label) || KUBELET_DOMAINS.iter().any(within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_starts_with_labels_of_kubernetes_only_if_they_are_on_its_list() {
        let table = [
            ("agentpool", true),
            ("example.com/team", true),
            ("node.cluster.x-k8s.io/pool", true),
            ("kubernetes.io/os", true),
            ("node.kubernetes.io/pool", true),
            ("a.kubelet.kubernetes.io/pool", true),
            ("node-role.kubernetes.io/windows", false),
            ("node-restriction.kubernetes.io/pool", false),
            ("topology.kubernetes.io/rack", false),
            ("k8s.io/pool", false),
        ];
        for (label, accepted) in table {
            assert_eq!(kubelet_accepts(label), accepted, "{label}");
        }
    }

    #[test]
    fn a_kubelet_can_set_all_labels_except_those_of_the_protected_domain() {
        let table = [
            ("agentpool", true),
            ("example.com/team", true),
            ("kubernetes.io/os", true),
            ("example-node-restriction.kubernetes.io/tier", true),
            ("node-restriction.kubernetes.io/tier", false),
            ("example.node-restriction.kubernetes.io/tier", false),
        ];
        for (label, may) in table {
            assert_eq!(kubelet_may_set(label), may, "{label}");
        }
    }
}

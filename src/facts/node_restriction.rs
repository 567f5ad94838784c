//! Which labels of its own Node a kubelet cannot set.
//!
//! Source: kubernetes/kubernetes, `plugin/pkg/admission/noderestriction/admission.go` (`getForbiddenCreateLabels`,
//! `getForbiddenUpdateLabels`) and `staging/src/k8s.io/kubelet/pkg/apis/well_known_labels.go`, both as of August 2026: with the
//! admission plugin NodeRestriction a kubelet never sets labels of `node-restriction.kubernetes.io` and its subdomains. Other
//! labels of `kubernetes.io` and `k8s.io` are refused in an update only: a kubelet can register with them.

use jiff::civil::{Date, date};

/// The day of the newest source.
pub const AS_OF: Date = date(2026, 8, 22);

/// The domain of labels that no kubelet can set.
const PROTECTED: &str = "node-restriction.kubernetes.io";

/// Whether a kubelet can set this label on its own Node, when it registers or later.
pub fn kubelet_may_set(label: &str) -> bool {
    let Some((domain, _)) = label.split_once('/') else { return true };
    domain != PROTECTED && !domain.strip_suffix(PROTECTED).is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_labels_of_the_protected_domain_are_out_of_a_kubelets_reach() {
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

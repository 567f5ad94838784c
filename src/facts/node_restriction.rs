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
    domain != PROTECTED && !domain.strip_suffix(PROTECTED).is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

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

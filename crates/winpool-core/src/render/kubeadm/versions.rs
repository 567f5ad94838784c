//! Fields that only one version of KubeadmConfigSpec has.
//!
//! Source: kubernetes-sigs/cluster-api v1.14.0, `api/bootstrap/kubeadm/v1beta1` and `v1beta2`: `kubeadm_types.go`,
//! `kubeadmconfig_types.go`, `conversion.go`. The arguments of the kubelet differ too, and are converted.

use serde_json::Value;
use winpool_api::facts::cluster_api::ApiVersion;

use crate::Problem;

/// The fields of a worker that the other version does not have, as JSON pointers.
const fn only_in(version: ApiVersion) -> &'static [&'static str] {
    match version {
        ApiVersion::V1Beta1 => &[
            "/useExperimentalRetryJoin",
            "/joinConfiguration/apiVersion",
            "/joinConfiguration/kind",
            "/joinConfiguration/discovery/timeout",
        ],
        ApiVersion::V1Beta2 => &["/joinConfiguration/timeouts"],
    }
}

/// The fields of a specification that it would lose in another version. Paths begin with `spec.template.spec`.
pub fn lost_fields(spec: &Value, from: ApiVersion, to: ApiVersion) -> Vec<Problem> {
    let fields = if from == to { &[] } else { only_in(from) };
    let present = fields.iter().filter(|pointer| spec.pointer(pointer).is_some());
    let problem = |pointer: &&str| {
        let path = format!("spec.template.spec{}", pointer.replace('/', "."));
        let remedy = format!("render with --cluster-api-version {from}, or write the template in {to}");
        Problem::new(path, format!("{to} has no such field"), remedy)
    };
    present.map(problem).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_one_version_are_lost_in_the_other() {
        let (older, newer) = (ApiVersion::V1Beta1, ApiVersion::V1Beta2);
        let discovery = json!({"joinConfiguration": {"discovery": {"timeout": "5m0s"}}});
        let timeouts = json!({"joinConfiguration": {"timeouts": {"tlsBootstrapSeconds": 300}}});
        let table = [
            (&discovery, older, newer, vec!["spec.template.spec.joinConfiguration.discovery.timeout"]),
            (&discovery, older, older, vec![]),
            (&timeouts, newer, older, vec!["spec.template.spec.joinConfiguration.timeouts"]),
            (&timeouts, newer, newer, vec![]),
        ];
        for (spec, from, to, expected) in table {
            let problems = lost_fields(spec, from, to);
            assert_eq!(problems.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(), expected);
        }
    }
}

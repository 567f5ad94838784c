//! The API versions of the kinds that have pods, and the fields that are newer than the types of this program.
//!
//! Sources: kubernetes/website, `docs/reference/using-api/deprecation-guide.md` (2022-07), for the versions that the API
//! server does not serve any more, and kubernetes/api 0.36.4, `zz_generated.prerelease-lifecycle.go`, which has no ReplicaSet in
//! apps/v1beta1, unlike the guide; [`NEWER_FIELDS`]: the OpenAPI documents of Kubernetes 1.34 to 1.37 as generated types
//! (Arnavion/k8s-openapi, 0.29, 2026-08), compared with those of 1.33.

use super::Minor;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedVersion {
    pub api_version: &'static str,
    /// The first minor that does not serve it any more.
    pub removed: Option<Minor>,
}

const fn served(api_version: &'static str) -> ServedVersion {
    ServedVersion { api_version, removed: None }
}

const fn until(minor: u32, api_version: &'static str) -> ServedVersion {
    ServedVersion { api_version, removed: Some(Minor(minor)) }
}

/// The API versions of each kind, the newest first.
pub const API_VERSIONS: &[(&str, &[ServedVersion])] = &[
    ("Pod", &[served("v1")]),
    ("PodTemplate", &[served("v1")]),
    ("ReplicationController", &[served("v1")]),
    ("Service", &[served("v1")]),
    (
        "Deployment",
        &[served("apps/v1"), until(16, "apps/v1beta2"), until(16, "apps/v1beta1"), until(16, "extensions/v1beta1")],
    ),
    ("ReplicaSet", &[served("apps/v1"), until(16, "apps/v1beta2"), until(16, "extensions/v1beta1")]),
    ("DaemonSet", &[served("apps/v1"), until(16, "apps/v1beta2"), until(16, "extensions/v1beta1")]),
    ("StatefulSet", &[served("apps/v1"), until(16, "apps/v1beta2"), until(16, "apps/v1beta1")]),
    ("Job", &[served("batch/v1")]),
    ("CronJob", &[served("batch/v1"), until(25, "batch/v1beta1")]),
    ("RuntimeClass", &[served("node.k8s.io/v1"), until(25, "node.k8s.io/v1beta1")]),
];

impl ServedVersion {
    pub fn is_served_by(&self, minor: Minor) -> bool {
        self.removed.is_none_or(|removed| minor < removed)
    }
}

/// The fields of workloads that Kubernetes 1.34 to 1.37 added, by type.
pub const NEWER_FIELDS: &[(&str, &[&str])] = &[
    ("io.k8s.api.batch.v1.JobSpec", &["scheduling"]),
    ("io.k8s.api.core.v1.ClusterTrustBundleProjection", &["user"]),
    ("io.k8s.api.core.v1.ConfigMapVolumeSource", &["defaultUser"]),
    ("io.k8s.api.core.v1.Container", &["restartPolicyRules"]),
    ("io.k8s.api.core.v1.DownwardAPIVolumeFile", &["user"]),
    ("io.k8s.api.core.v1.DownwardAPIVolumeSource", &["defaultUser"]),
    ("io.k8s.api.core.v1.EmptyDirVolumeSource", &["mode"]),
    ("io.k8s.api.core.v1.EnvVarSource", &["fileKeyRef"]),
    ("io.k8s.api.core.v1.EphemeralContainer", &["restartPolicyRules"]),
    ("io.k8s.api.core.v1.GRPCAction", &["mode"]),
    ("io.k8s.api.core.v1.HTTPGetAction", &["protocol"]),
    ("io.k8s.api.core.v1.KeyToPath", &["user"]),
    ("io.k8s.api.core.v1.PodSpec", &["evictionResponders", "hostnameOverride", "schedulingGroup", "workloadRef"]),
    ("io.k8s.api.core.v1.ProjectedVolumeSource", &["defaultUser"]),
    ("io.k8s.api.core.v1.SecretVolumeSource", &["defaultUser"]),
    ("io.k8s.api.core.v1.ServiceAccountTokenProjection", &["user"]),
    ("io.k8s.api.core.v1.VolumeMount", &["bindMountOptions"]),
    ("io.k8s.api.core.v1.VolumeProjection", &["podCertificate"]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::{NEWEST, OLDEST};

    #[test]
    fn every_kind_has_a_version_in_every_minor() {
        for (kind, versions) in API_VERSIONS {
            for minor in (OLDEST.0..=NEWEST.0).map(Minor) {
                assert!(versions.iter().any(|version| version.is_served_by(minor)), "{kind} in {minor}");
            }
            assert!(versions[0].removed.is_none(), "{kind}: the newest version is served");
        }
    }
}

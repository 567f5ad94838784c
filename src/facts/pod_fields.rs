//! The fields of a pod's spec that mean nothing on Windows: those that the API server refuses, and those that it takes
//! and that do nothing there, or cannot work.
//!
//! Sources: [`REFUSED`] from the comment on `PodSpec.os` in kubernetes/api, `core/v1/types.go`, tags v0.23.0 to v0.37.0
//! (2021-12 to 2026-08), and with which values from `validateWindows` of kubernetes/kubernetes,
//! `pkg/apis/core/validation/validation.go` (2025), which looks at containers of every kind; what each field means on Windows from kubernetes/website, `docs/concepts/windows/intro.md`
//! ("API compatibility"), `docs/concepts/storage/windows-storage.md` and
//! `docs/concepts/services-networking/windows-networking.md` (1.31 to 1.36). For [`IDLE`]: subPath also from the release
//! notes of Kubernetes 1.37 (kubernetes/kubernetes pull request 138367), which mend it on Windows where those pages still
//! call it unsupported; NFS and file modes from `windows-storage.md`; resizePolicy from kubernetes/kubernetes issue 128617 and
//! pull request 129216 (1.32: "Resizing Windows pods is not supported"); resourceClaims from
//! `pkg/kubelet/cm/container_manager_windows.go` of v1.36.2, which prepares nothing. [`STOP_SIGNAL`]: `validateStopSignal` in
//! `pkg/apis/core/validation/validation.go` of v1.36.2.

use jiff::civil::{Date, date};

use super::Minor;

/// The day of the newest source.
pub const AS_OF: Date = date(2026, 8, 22);

/// The first minor whose API server knows `spec.os` of a pod (behind a gate; on by default from 1.24).
pub const OS_NAME_SINCE: Minor = Minor(23);

/// When a field counts as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// With any value, `false` too.
    Any,
    /// With the value `true`.
    True,
    /// With this text.
    Text(&'static str),
    /// With any number but this.
    NotNumber(i64),
    /// With any text but this.
    NotText(&'static str),
    /// With anything in it.
    Filled,
}

/// A field that the API server refuses in a pod whose `spec.os.name` is `windows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its path in a pod's spec; `containers[]` stands for containers of every kind.
    pub path: &'static str,
    /// The first minor that refuses it.
    pub since: Minor,
    /// With which value.
    pub written: Written,
    /// What to write instead.
    pub instead: &'static str,
    /// Whether it limits what the processes of a container may do, where it is not ignored.
    pub protects: bool,
}

const fn refused(since: u32, path: &'static str, written: Written, instead: &'static str) -> Refused {
    Refused { path, since: Minor(since), written, instead, protects: false }
}

const fn guarded(since: u32, path: &'static str, written: Written, instead: &'static str) -> Refused {
    Refused { protects: true, ..refused(since, path, written, instead) }
}

const REMOVE: &str = "remove it";
const USER: &str = "write securityContext.windowsOptions.runAsUserName, or leave the user to the image";
const HOST: &str = "remove it; a HostProcess container sees the processes of its host";
const PRIVILEGED: &str =
    "remove it; for access to the host use a HostProcess container: windowsOptions.hostProcess: true";
const OWNERS: &str = "remove it; Windows has access control lists, which are set in the image or on the volume";

/// Every field that some minor refuses.
#[rustfmt::skip]
pub const REFUSED: &[Refused] = &[
    refused(23, "hostPID",                                                Written::True,   HOST),
    refused(23, "hostIPC",                                                Written::True,   REMOVE),
    refused(23, "shareProcessNamespace",                                  Written::Any,    "remove it; containers of a Windows pod share its network and nothing else"),
    guarded(23, "securityContext.seLinuxOptions",                         Written::Any,    REMOVE),
    guarded(23, "securityContext.seccompProfile",                         Written::Any,    REMOVE),
    refused(23, "securityContext.fsGroup",                                Written::Any,    OWNERS),
    refused(23, "securityContext.fsGroupChangePolicy",                    Written::Any,    OWNERS),
    refused(23, "securityContext.sysctls",                                Written::Filled, REMOVE),
    refused(23, "securityContext.runAsUser",                              Written::Any,    USER),
    refused(23, "securityContext.runAsGroup",                             Written::Any,    USER),
    refused(23, "securityContext.supplementalGroups",                     Written::Any,    OWNERS),
    guarded(23, "containers[].securityContext.seLinuxOptions",            Written::Any,    REMOVE),
    guarded(23, "containers[].securityContext.seccompProfile",            Written::Any,    REMOVE),
    guarded(23, "containers[].securityContext.capabilities",              Written::Any,    REMOVE),
    guarded(23, "containers[].securityContext.readOnlyRootFilesystem",    Written::Any,    "remove it; Windows writes to the registry of every container. Volumes may be readOnly"),
    refused(23, "containers[].securityContext.privileged",                Written::Any,    PRIVILEGED),
    guarded(23, "containers[].securityContext.allowPrivilegeEscalation",  Written::Any,    "remove it; write runAsUserName: ContainerUser for a user without rights"),
    refused(23, "containers[].securityContext.procMount",                 Written::Any,    REMOVE),
    refused(23, "containers[].securityContext.runAsUser",                 Written::Any,    USER),
    refused(23, "containers[].securityContext.runAsGroup",                Written::Any,    USER),
    guarded(25, "hostUsers",                                              Written::Any,    REMOVE),
    guarded(30, "securityContext.appArmorProfile",                        Written::Any,    REMOVE),
    guarded(30, "containers[].securityContext.appArmorProfile",           Written::Any,    REMOVE),
    refused(31, "securityContext.supplementalGroupsPolicy",               Written::Any,    REMOVE),
    refused(34, "resources",                                              Written::Any,    "write resources in each container"),
];

/// Refused too, and missing in the comment from which [`REFUSED`] is: `seLinuxChangePolicy`, since the field is there
/// (kubernetes/website, feature gate SELinuxChangePolicy: alpha 1.32; `validateWindows` as above).
pub const REFUSED_UNLISTED: &[Refused] = &[refused(32, "securityContext.seLinuxChangePolicy", Written::Any, REMOVE)];

/// The fields that an API server of this minor refuses.
pub fn refused_by(minor: Minor) -> impl Iterator<Item = &'static Refused> {
    REFUSED.iter().filter(move |field| field.since <= minor)
}

/// What an [`Idle`] field is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// The host's network, for pods that are not HostProcess.
    HostNetwork,
    /// The DNS policy that goes with the host's network.
    HostNetworkDns,
    /// Volumes in memory.
    MemoryVolume,
    /// Huge pages.
    HugePages,
    /// Raw block volumes.
    BlockVolume,
    /// Mount propagation.
    MountPropagation,
    /// A part of a volume.
    SubPath,
    /// NFS volumes.
    Nfs,
    /// Modes of files.
    FileMode,
    /// What a container does when its resources change.
    Resize,
    /// Devices that are allocated dynamically.
    ResourceClaims,
}

/// A field that the API server takes, and that does nothing on Windows or cannot work there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Its path in a pod's spec, as in [`Refused::path`].
    pub path: &'static str,
    /// With which value.
    pub written: Written,
    /// What it is about.
    pub topic: Topic,
}

const fn idle(topic: Topic, path: &'static str, written: Written) -> Idle {
    Idle { path, written, topic }
}

/// The mode that the API server writes where there is none: 0644 (kubernetes/api, `core/v1/types.go`).
const DEFAULT_MODE: i64 = 0o644;

/// Every such field.
#[rustfmt::skip]
pub const IDLE: &[Idle] = &[
    idle(Topic::HostNetwork,      "hostNetwork",                                     Written::True),
    idle(Topic::HostNetworkDns,   "dnsPolicy",                                       Written::Text("ClusterFirstWithHostNet")),
    idle(Topic::MemoryVolume,     "volumes[].emptyDir.medium",                       Written::Text("Memory")),
    idle(Topic::HugePages,        "volumes[].emptyDir.medium",                       Written::Text("HugePages")),
    idle(Topic::HugePages,        "volumes[].emptyDir.medium",                       Written::Text("HugePages-2Mi")),
    idle(Topic::HugePages,        "volumes[].emptyDir.medium",                       Written::Text("HugePages-1Gi")),
    idle(Topic::HugePages,        "containers[].resources.limits[hugepages-2Mi]",    Written::Any),
    idle(Topic::HugePages,        "containers[].resources.limits[hugepages-1Gi]",    Written::Any),
    idle(Topic::HugePages,        "containers[].resources.requests[hugepages-2Mi]",  Written::Any),
    idle(Topic::HugePages,        "containers[].resources.requests[hugepages-1Gi]",  Written::Any),
    idle(Topic::BlockVolume,      "containers[].volumeDevices",                      Written::Filled),
    idle(Topic::MountPropagation, "containers[].volumeMounts[].mountPropagation",    Written::NotText("None")),
    idle(Topic::SubPath,          "containers[].volumeMounts[].subPath",             Written::Filled),
    idle(Topic::SubPath,          "containers[].volumeMounts[].subPathExpr",         Written::Filled),
    idle(Topic::Nfs,              "volumes[].nfs",                                   Written::Any),
    idle(Topic::FileMode,         "volumes[].configMap.defaultMode",                 Written::NotNumber(DEFAULT_MODE)),
    idle(Topic::FileMode,         "volumes[].secret.defaultMode",                    Written::NotNumber(DEFAULT_MODE)),
    idle(Topic::FileMode,         "volumes[].projected.defaultMode",                 Written::NotNumber(DEFAULT_MODE)),
    idle(Topic::FileMode,         "volumes[].downwardAPI.defaultMode",               Written::NotNumber(DEFAULT_MODE)),
    idle(Topic::FileMode,         "volumes[].configMap.items[].mode",                Written::Any),
    idle(Topic::FileMode,         "volumes[].secret.items[].mode",                   Written::Any),
    idle(Topic::FileMode,         "volumes[].downwardAPI.items[].mode",              Written::Any),
    idle(Topic::FileMode,         "volumes[].projected.sources[].secret.items[].mode",      Written::Any),
    idle(Topic::FileMode,         "volumes[].projected.sources[].configMap.items[].mode",   Written::Any),
    idle(Topic::FileMode,         "volumes[].projected.sources[].downwardAPI.items[].mode", Written::Any),
    idle(Topic::Resize,           "containers[].resizePolicy",                       Written::Filled),
    idle(Topic::ResourceClaims,   "resourceClaims",                                  Written::Filled),
    idle(Topic::ResourceClaims,   "containers[].resources.claims",                   Written::Filled),
];

/// The signal that stops a container.
pub const STOP_SIGNAL: &str = "containers[].lifecycle.stopSignal";
/// The first minor with [`STOP_SIGNAL`], behind the gate ContainerStopSignals, which is off by default up to 1.36. With it the
/// API server takes the field only beside `spec.os.name`; without it, it drops the field.
pub const STOP_SIGNAL_SINCE: Minor = Minor(33);
/// The signals that the API server takes for Windows.
pub const STOP_SIGNALS: [&str; 2] = ["SIGTERM", "SIGKILL"];

/// The first minor with which several subPath mounts in one Windows pod work.
pub const SEVERAL_SUB_PATHS_SINCE: Minor = Minor(37);

/// The first minor whose API server takes a colon in the name of an environment variable: the gate
/// RelaxedEnvironmentVariableValidation is alpha in 1.30, on by default in 1.32, and final in 1.34
/// (kubernetes/enhancements, KEP 4369).
pub const ENV_COLON_SINCE: Minor = Minor(32);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::facts::support::{NEWEST, OLDEST};

    #[test]
    fn each_minor_refuses_as_many_fields_as_the_api_types_of_its_tag_list() {
        let table = [(14..=22, 0), (23..=24, 20), (25..=29, 21), (30..=30, 23), (31..=33, 24), (34..=36, 25)];
        let minors: Vec<_> = table.iter().flat_map(|(minors, _)| minors.clone()).collect();
        assert_eq!(minors, (OLDEST.0..=NEWEST.0).collect::<Vec<_>>(), "the table has every minor");
        for (minors, count) in table {
            for minor in minors {
                assert_eq!(refused_by(Minor(minor)).count(), count, "1.{minor}");
            }
        }
    }

    #[test]
    fn every_field_has_one_row_and_says_what_to_write_instead() {
        let paths: BTreeSet<_> = REFUSED.iter().map(|field| field.path).collect();
        assert_eq!(paths.len(), REFUSED.len());
        assert!(REFUSED.iter().all(|field| !field.instead.is_empty()));
        let idle: BTreeSet<_> = IDLE.iter().map(|field| (field.path, format!("{:?}", field.written))).collect();
        assert_eq!(idle.len(), IDLE.len());
        assert!(IDLE.iter().all(|field| !paths.contains(field.path)));
    }

    #[test]
    fn the_pod_and_its_containers_refuse_the_same_of_a_user() {
        for field in ["seLinuxOptions", "seccompProfile", "runAsUser", "runAsGroup", "appArmorProfile"] {
            for path in [format!("securityContext.{field}"), format!("containers[].securityContext.{field}")] {
                assert!(REFUSED.iter().any(|refused| refused.path == path), "{path}");
            }
        }
    }
}

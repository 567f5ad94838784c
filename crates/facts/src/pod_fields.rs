//! The fields of a pod's spec that Windows does not support: those that the API server rejects, and those that it
//! accepts but that have no effect or fail.
//!
//! Sources, of kubernetes/kubernetes if no repository is named:
//! - [`REJECTED`]: the comment on `PodSpec.os` in kubernetes/api, `core/v1/types.go`, v0.23.0 to v0.37.0 (2021-12 to 2026-08), and
//!   `validateWindows` in `pkg/apis/core/validation/validation.go` (2025), which checks containers of every type;
//! - the meaning on Windows: kubernetes/website, `docs/concepts`: `windows/intro.md`, `storage/windows-storage.md` and
//!   `services-networking/windows-networking.md` (1.31 to 1.36);
//! - [`UNSUPPORTED`]: subPath also pull request 138367 (fixed in 1.37), resizePolicy issue 128617 and pull request 129216 (1.32),
//!   resourceClaims `pkg/kubelet/cm/container_manager_windows.go` (1.36.2), iSCSI issue 57548;
//! - [`MIN_MEMORY_LIMIT`]: microsoft/hcsshim (2025), `ParseAnnotationsMemory` in `internal/oci/uvm.go`, which divides the limit of
//!   `kuberuntime_container_windows.go` by 1024 twice, and `internal/hcsoci/hcsdoc_wcow.go`: zero is no limit;
//! - [`USER_NAME`], credential specs and [`STOP_SIGNAL`]: `validateWindowsSecurityContextOptions` (1.16 to 1.36) and
//!   `validateStopSignal` (1.36.2) in `validation.go`; [`HOST_PROCESS_USERS`]: kubernetes/website,
//!   `create-hostprocess-pod.md` (1.26 to 1.36);
//! - gMSA: kubernetes-sigs/windows-gmsa at 993de21c (2025-03-24), `admission-webhook/kube_client.go` and `charts/gmsa/templates`;
//! - [`LOCAL_DOMAINS`]: kubernetes/website, `configure-runasusername.md`, and for User Manager `integration-cli` of moby/moby. That a container
//!   has local users alone: MicrosoftDocs/Virtualization-Documentation at 77e0742a (2026-08-07), `gmsa-troubleshooting.md`, "Check the container".

use super::Minor;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueMatch {
    /// Any value, including `false`.
    Any,
    True,
    Equals(&'static str),
    NumberExcept(i64),
    StringExcept(&'static str),
    NonEmpty,
}

/// A field that the API server rejects in a pod whose `spec.os.name` is `windows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RejectedField {
    /// The path in a pod's spec; `containers[]` stands for containers of every type.
    pub path: &'static str,
    /// The first minor that rejects it.
    pub since: Minor,
    pub values: ValueMatch,
    pub remedy: &'static str,
    /// Whether the field restricts the processes of a container on Linux.
    pub is_restriction: bool,
}

const fn rejected(since: u32, path: &'static str, values: ValueMatch, remedy: &'static str) -> RejectedField {
    RejectedField { path, since: Minor(since), values, remedy, is_restriction: false }
}

const fn restriction(since: u32, path: &'static str, values: ValueMatch, remedy: &'static str) -> RejectedField {
    RejectedField { is_restriction: true, ..rejected(since, path, values, remedy) }
}

const REMOVE: &str = "remove it";
const USER: &str = "set securityContext.windowsOptions.runAsUserName, or use the user of the image";
const HOST: &str = "remove it. HostProcess containers see the processes of the host";
const PRIVILEGED: &str =
    "remove it. For access to the host, use a HostProcess container (windowsOptions.hostProcess: true)";
const OWNERS: &str = "remove it. Set access control lists in the image or on the volume";

#[rustfmt::skip]
pub const REJECTED: &[RejectedField] = &[
    rejected   (23, "hostPID",                                                ValueMatch::True,   HOST),
    rejected   (23, "hostIPC",                                                ValueMatch::True,   REMOVE),
    rejected   (23, "shareProcessNamespace",                                  ValueMatch::Any,    "remove it. Containers of a Windows pod share only the network"),
    restriction(23, "securityContext.seLinuxOptions",                         ValueMatch::Any,    REMOVE),
    restriction(23, "securityContext.seccompProfile",                         ValueMatch::Any,    REMOVE),
    rejected   (23, "securityContext.fsGroup",                                ValueMatch::Any,    OWNERS),
    rejected   (23, "securityContext.fsGroupChangePolicy",                    ValueMatch::Any,    OWNERS),
    rejected   (23, "securityContext.sysctls",                                ValueMatch::NonEmpty, REMOVE),
    rejected   (23, "securityContext.runAsUser",                              ValueMatch::Any,    USER),
    rejected   (23, "securityContext.runAsGroup",                             ValueMatch::Any,    USER),
    rejected   (23, "securityContext.supplementalGroups",                     ValueMatch::Any,    OWNERS),
    restriction(23, "containers[].securityContext.seLinuxOptions",            ValueMatch::Any,    REMOVE),
    restriction(23, "containers[].securityContext.seccompProfile",            ValueMatch::Any,    REMOVE),
    restriction(23, "containers[].securityContext.capabilities",              ValueMatch::Any,    REMOVE),
    restriction(23, "containers[].securityContext.readOnlyRootFilesystem",    ValueMatch::Any,    "remove it. Windows writes to the registry in each container. Volumes can be readOnly"),
    rejected   (23, "containers[].securityContext.privileged",                ValueMatch::Any,    PRIVILEGED),
    restriction(23, "containers[].securityContext.allowPrivilegeEscalation",  ValueMatch::Any,    "remove it. Set runAsUserName: ContainerUser for a user without privileges"),
    rejected   (23, "containers[].securityContext.procMount",                 ValueMatch::Any,    REMOVE),
    rejected   (23, "containers[].securityContext.runAsUser",                 ValueMatch::Any,    USER),
    rejected   (23, "containers[].securityContext.runAsGroup",                ValueMatch::Any,    USER),
    restriction(25, "hostUsers",                                              ValueMatch::Any,    REMOVE),
    restriction(30, "securityContext.appArmorProfile",                        ValueMatch::Any,    REMOVE),
    restriction(30, "containers[].securityContext.appArmorProfile",           ValueMatch::Any,    REMOVE),
    rejected   (31, "securityContext.supplementalGroupsPolicy",               ValueMatch::Any,    REMOVE),
    rejected   (34, "resources",                                              ValueMatch::Any,    "set resources in each container"),
];

/// Also rejected, but not listed in the source of [`REJECTED`]: `seLinuxChangePolicy`, since the field was added
/// (kubernetes/website, feature gate SELinuxChangePolicy: alpha 1.32; `validateWindows` as above).
pub const REJECTED_UNLISTED: &[RejectedField] =
    &[rejected(32, "securityContext.seLinuxChangePolicy", ValueMatch::Any, REMOVE)];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    HostNetwork,
    HostNetworkDns,
    MemoryVolume,
    HugePages,
    BlockVolume,
    MountPropagation,
    /// Mounts of a part of a volume.
    SubPath,
    Nfs,
    Iscsi,
    FileMode,
    /// In-place resize of a container's resources.
    Resize,
    ResourceClaims,
}

/// A field that the API server accepts, and that has no effect or fails on Windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsupportedField {
    pub path: &'static str,
    pub values: ValueMatch,
    pub feature: Feature,
}

const fn unsupported(feature: Feature, path: &'static str, values: ValueMatch) -> UnsupportedField {
    UnsupportedField { path, values, feature }
}

/// The default file mode of the API server: 0644 (kubernetes/api, `core/v1/types.go`).
const DEFAULT_MODE: i64 = 0o644;

#[rustfmt::skip]
pub const UNSUPPORTED: &[UnsupportedField] = &[
    unsupported(Feature::HostNetwork,      "hostNetwork",                                     ValueMatch::True),
    unsupported(Feature::HostNetworkDns,   "dnsPolicy",                                       ValueMatch::Equals("ClusterFirstWithHostNet")),
    unsupported(Feature::MemoryVolume,     "volumes[].emptyDir.medium",                       ValueMatch::Equals("Memory")),
    unsupported(Feature::HugePages,        "volumes[].emptyDir.medium",                       ValueMatch::Equals("HugePages")),
    unsupported(Feature::HugePages,        "volumes[].emptyDir.medium",                       ValueMatch::Equals("HugePages-2Mi")),
    unsupported(Feature::HugePages,        "volumes[].emptyDir.medium",                       ValueMatch::Equals("HugePages-1Gi")),
    unsupported(Feature::HugePages,        "containers[].resources.limits[hugepages-2Mi]",    ValueMatch::Any),
    unsupported(Feature::HugePages,        "containers[].resources.limits[hugepages-1Gi]",    ValueMatch::Any),
    unsupported(Feature::HugePages,        "containers[].resources.requests[hugepages-2Mi]",  ValueMatch::Any),
    unsupported(Feature::HugePages,        "containers[].resources.requests[hugepages-1Gi]",  ValueMatch::Any),
    unsupported(Feature::BlockVolume,      "containers[].volumeDevices",                      ValueMatch::NonEmpty),
    unsupported(Feature::MountPropagation, "containers[].volumeMounts[].mountPropagation",    ValueMatch::StringExcept("None")),
    unsupported(Feature::SubPath,          "containers[].volumeMounts[].subPath",             ValueMatch::NonEmpty),
    unsupported(Feature::SubPath,          "containers[].volumeMounts[].subPathExpr",         ValueMatch::NonEmpty),
    unsupported(Feature::Nfs,              "volumes[].nfs",                                   ValueMatch::Any),
    unsupported(Feature::Iscsi,            "volumes[].iscsi",                                 ValueMatch::Any),
    unsupported(Feature::FileMode,         "volumes[].configMap.defaultMode",                 ValueMatch::NumberExcept(DEFAULT_MODE)),
    unsupported(Feature::FileMode,         "volumes[].secret.defaultMode",                    ValueMatch::NumberExcept(DEFAULT_MODE)),
    unsupported(Feature::FileMode,         "volumes[].projected.defaultMode",                 ValueMatch::NumberExcept(DEFAULT_MODE)),
    unsupported(Feature::FileMode,         "volumes[].downwardAPI.defaultMode",               ValueMatch::NumberExcept(DEFAULT_MODE)),
    unsupported(Feature::FileMode,         "volumes[].configMap.items[].mode",                ValueMatch::Any),
    unsupported(Feature::FileMode,         "volumes[].secret.items[].mode",                   ValueMatch::Any),
    unsupported(Feature::FileMode,         "volumes[].downwardAPI.items[].mode",              ValueMatch::Any),
    unsupported(Feature::FileMode,         "volumes[].projected.sources[].secret.items[].mode",      ValueMatch::Any),
    unsupported(Feature::FileMode,         "volumes[].projected.sources[].configMap.items[].mode",   ValueMatch::Any),
    unsupported(Feature::FileMode,         "volumes[].projected.sources[].downwardAPI.items[].mode", ValueMatch::Any),
    unsupported(Feature::Resize,           "containers[].resizePolicy",                       ValueMatch::NonEmpty),
    unsupported(Feature::ResourceClaims,   "resourceClaims",                                  ValueMatch::NonEmpty),
    unsupported(Feature::ResourceClaims,   "containers[].resources.claims",                   ValueMatch::NonEmpty),
];

/// The shells of Unix, by their names: those that Debian 12 lists in `/etc/shells`, and that of BusyBox. The only shells of
/// Windows are cmd and PowerShell (MicrosoftDocs/windowsserverdocs, `administration/windows-commands/windows-commands.md`
/// at 00a78d41).
pub const UNIX_SHELLS: [&str; 5] = ["sh", "bash", "rbash", "dash", "ash"];
/// Other programs of Unix that commands, probes and hooks often start. The packages coreutils, grep, procps, sed and
/// sysvinit-utils of Debian 12 have them, and the list of Windows commands does not (the same page). PowerShell has aliases
/// for some, such as sleep for Start-Sleep, which are no programs.
#[rustfmt::skip]
pub const UNIX_PROGRAMS: [&str; 17] = [
    "cat", "chmod", "chown", "grep", "ls", "pgrep", "pidof", "pkill", "ps", "rm", "sed", "sleep", "stat", "tail", "test",
    "touch", "true",
];
/// The directories of programs on Unix (Filesystem Hierarchy Standard 3.0, sections 3.4 and 3.16, and chapter 4).
pub const UNIX_PROGRAM_DIRS: [&str; 3] = ["/bin/", "/sbin/", "/usr/"];
/// Paths that Unix has and Windows does not, with everything below: directories of the Filesystem Hierarchy Standard 3.0
/// (chapter 3, and its annex for Linux), files of Linux in `/etc`, for which Windows has its registry (kubernetes/website,
/// `docs/concepts/services-networking/windows-networking.md`), and the sockets of containerd and Docker, which are named
/// pipes on Windows.
#[rustfmt::skip]
pub const UNIX_PATHS: [&str; 21] = [
    "/bin", "/boot", "/dev", "/etc/group", "/etc/hosts", "/etc/localtime", "/etc/os-release", "/etc/passwd",
    "/etc/resolv.conf", "/etc/ssl", "/lib", "/lib64", "/proc", "/root", "/run/containerd/containerd.sock",
    "/run/docker.sock", "/sbin", "/sys", "/usr", "/var/run/containerd/containerd.sock", "/var/run/docker.sock",
];
/// The types of `hostPath` for device files. `checkType` in `pkg/volume/hostpath/host_path.go` of kubernetes/kubernetes
/// compares them with `getFileType` in `pkg/volume/util/hostutil/hostutil.go`, which uses `os.Stat`. On Windows that never
/// reports a device that is no character device, and a character device only for NUL and handles of `FILE_TYPE_CHAR`
/// (`src/os/types_windows.go` of Go 1.19). `hostutil_windows.go`: Windows has no tree of device nodes.
pub const DEVICE_TYPES: [&str; 2] = ["BlockDevice", "CharDevice"];
/// Network volumes that are not redirected to a CSI driver, and that `docs/concepts/storage/windows-storage.md` of kubernetes/website
/// does not list (at 16956084). `pkg/volume/fc/fc_util.go` of kubernetes/kubernetes reads `/dev/disk`; the drivers of the others were removed
/// without a redirection, in 1.31 (cephfs, rbd) or before (`docs/reference/storage/volume-types.md`).
#[rustfmt::skip]
pub const LINUX_VOLUMES: [&str; 9] = [
    "cephfs", "fc", "flocker", "glusterfs", "photonPersistentDisk", "quobyte", "rbd", "scaleIO", "storageos",
];
/// How the named pipes of csi-proxy begin (kubernetes-csi/csi-proxy, `README.md`, 2026).
pub const CSI_PROXY_PIPES: &str = r"\\.\pipe\csi-proxy-";
/// The default of `terminationMessagePath` (kubernetes/website, `docs/concepts/windows/intro.md`).
pub const TERMINATION_MESSAGE_PATH: &str = "/dev/termination-log";
/// How many DNS suffixes a pod on Windows has (kubernetes/website, `docs/concepts/services-networking/dns-pod-service.md`,
/// "DNS resolution on Windows nodes", in two states, with the limits of search domains of 1.22 and of 1.28).
pub const MAX_DNS_SEARCHES: usize = 1;
/// The default range of node ports (kubernetes/website, `docs/concepts/services-networking/service.md`), which a Windows
/// node does not reach on itself (`windows-networking.md` in the same folder, "Limitations").
pub const NODE_PORTS: std::ops::RangeInclusive<u32> = 30000..=32767;
/// The default `periodSeconds` of probes (kubernetes/api, `core/v1/types.go`).
pub const PROBE_PERIOD: u64 = 10;

pub const STOP_SIGNAL: &str = "containers[].lifecycle.stopSignal";
/// The first minor with [`STOP_SIGNAL`], behind the gate ContainerStopSignals, which is disabled by default up to 1.36.
/// With the gate the API server accepts the field only together with `spec.os.name`; without the gate it drops the
/// field.
pub const STOP_SIGNAL_SINCE: Minor = Minor(33);
/// The signals that the API server accepts for Windows.
pub const STOP_SIGNALS: [&str; 2] = ["SIGTERM", "SIGKILL"];

/// The least memory limit of a container in bytes; lower ones are no limit.
pub const MIN_MEMORY_LIMIT: i64 = 1 << 20;

/// The rules of the API server for `runAsUserName`, which is `USER` or `DOMAIN\USER`. Lengths are in bytes.
pub struct UserNameRules {
    /// The length that a domain is shorter than.
    pub domain_below: usize,
    /// The greatest length of a user.
    pub max_user: usize,
    /// The greatest number of characters of a NetBIOS domain.
    pub max_netbios: usize,
    /// The characters that a NetBIOS domain does not have.
    pub not_in_netbios: &'static str,
    /// The characters that a user does not have.
    pub not_in_user: &'static str,
}

pub const USER_NAME: UserNameRules = UserNameRules {
    domain_below: 256,
    max_user: 104,
    max_netbios: 15,
    not_in_netbios: "\\/:*?\"<>|",
    not_in_user: "\"/\\:;|=,+*?<>@[]",
};

/// The greatest length of `gmsaCredentialSpec`, in bytes.
pub const MAX_CREDENTIAL_SPEC: usize = 64 << 10;

/// The users of Windows containers, which do not exist on a host.
pub const CONTAINER_USERS: [&str; 2] = ["ContainerAdministrator", "ContainerUser"];
/// The users of the host that every HostProcess container can run as. Local groups are possible too.
pub const HOST_PROCESS_USERS: [&str; 3] =
    [r"NT AUTHORITY\SYSTEM", r"NT AUTHORITY\Local service", r"NT AUTHORITY\NetworkService"];

/// What Windows has before the backslash in the name of a local user.
pub const LOCAL_DOMAINS: [&str; 4] = ["NT AUTHORITY", "NT SERVICE", "BUILTIN", "User Manager"];
/// Local users that images of Windows may have besides [`CONTAINER_USERS`], without what is before the backslash.
pub const LOCAL_USERS: [&str; 6] =
    ["Administrator", "DefaultAccount", "Guest", "LOCAL SERVICE", "NETWORK SERVICE", "SYSTEM"];

/// The group and the resource of GMSACredentialSpecs, which are cluster-scoped, and the verb that a ServiceAccount needs.
pub const GMSA_GROUP: &str = "windows.k8s.io";
pub const GMSA_RESOURCE: &str = "gmsacredentialspecs";
pub const GMSA_VERB: &str = "use";
/// The name of the webhooks of windows-gmsa, in configurations of any name.
pub const GMSA_WEBHOOK: &str = "admission-webhook.windows-gmsa.sigs.k8s.io";
/// The first minor with which several subPath mounts work in one Windows pod.
pub const SEVERAL_SUB_PATHS_SINCE: Minor = Minor(37);

/// The first minor whose API server accepts a colon in the name of an environment variable: the gate
/// RelaxedEnvironmentVariableValidation is alpha in 1.30, enabled by default in 1.32, and GA in 1.34
/// (kubernetes/enhancements, KEP 4369).
pub const ENV_COLON_SINCE: Minor = Minor(32);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::support::{NEWEST, OLDEST};

    #[test]
    fn each_minor_rejects_the_number_of_fields_in_the_api_types_of_its_tag() {
        let table = [(30..=30, 23), (31..=33, 24), (34..=37, 25)];
        let minors: Vec<_> = table.iter().flat_map(|(minors, _)| minors.clone()).collect();
        assert_eq!(minors, (OLDEST.0..=NEWEST.0).collect::<Vec<_>>(), "the table has every minor");
        for (minors, count) in table {
            for minor in minors {
                let rejected = REJECTED.iter().filter(|field| field.since <= Minor(minor));
                assert_eq!(rejected.count(), count, "1.{minor}");
            }
        }
    }

    #[test]
    fn each_field_has_one_row_with_a_remedy() {
        let paths: BTreeSet<_> = REJECTED.iter().map(|field| field.path).collect();
        assert_eq!(paths.len(), REJECTED.len());
        assert!(REJECTED.iter().all(|field| !field.remedy.is_empty()));
        let unsupported: BTreeSet<_> =
            UNSUPPORTED.iter().map(|field| (field.path, format!("{:?}", field.values))).collect();
        assert_eq!(unsupported.len(), UNSUPPORTED.len());
        assert!(UNSUPPORTED.iter().all(|field| !paths.contains(field.path)));
    }

    #[test]
    fn fields_of_both_security_contexts_are_listed_for_pod_and_containers() {
        for name in ["seLinuxOptions", "seccompProfile", "runAsUser", "runAsGroup", "appArmorProfile"] {
            for path in [format!("securityContext.{name}"), format!("containers[].securityContext.{name}")] {
                assert!(REJECTED.iter().any(|field| field.path == path), "{path}");
            }
        }
    }
}

//! How kubelet and containerd merge several configuration files, and the first version with a field for some settings
//! of a profile.
//!
//! Sources:
//! - containerd/containerd, `LoadConfig` and `mergeConfig` in `services/server/config/config.go` (1.4.13 to 1.7.34) and
//!   `cmd/containerd/server/config/config.go` (2.0.0 to 2.3.4); `internal/cri/config/config.go` for
//!   `image_pull_progress_timeout` (not in 1.6.39, in 1.7.0) and for `bin_dir` together with `bin_dirs` (2.1.4, 2.3.4).
//! - kubernetes/kubelet, `config/v1beta1/types.go` at the last tag of 1.14 to 1.24: `resolvConf` is a string up to 1.22
//!   and a pointer from 1.23 on; kubernetes/kubernetes 1.20.2, `pkg/kubelet/apis/config/v1beta1/defaults.go` (the empty
//!   string becomes /etc/resolv.conf) and `getHostDNSConfig` in `pkg/kubelet/network/dns/dns.go` (that file is opened
//!   for every pod); `mergeKubeletConfigurations` in `cmd/kubelet/app/server.go` of 1.28, with
//!   kubernetes/kubernetes#126630 and #127421 (1.32): earlier versions lose a drop-in's `resolvConf`.
//! - kubernetes/component-base, `config/v1alpha1/types.go` at v0.22.17 and v0.23.17 for `logging.verbosity`.
//! - kubernetes/kubernetes#110405 (1.25) for kubeadm's patches of KubeletConfiguration.

use super::{ContainerdVersion, Minor, containerd::Key};

/// The configuration version of a drop-in for containerd 2.x. From 2.3 on containerd does not start with a drop-in
/// whose version is higher than that of its main file. Version 3 works with main files of version 3 (2.0 to 2.2) and 4
/// (from 2.3 on). With a main file of version 2, which containerd 2.x still reads, 2.0 to 2.2 ignore the CRI settings
/// of that file.
pub const DROP_IN_VERSION: u32 = 3;

/// The first containerd that cancels pulls without progress after a configurable time.
pub const PULL_PROGRESS_SINCE: ContainerdVersion = ContainerdVersion::new(1, 7, 0);

/// The table of TLS settings by registry host, for the release line without a directory of registry hosts (1.4).
pub const REGISTRY_CONFIGS: Key = &["plugins", "io.containerd.grpc.v1.cri", "registry", "configs"];

/// The deprecated setting for a single directory of CNI plugins, in the release lines that also have `bin_dirs`. The
/// CRI plugin does not start if both are set. An empty string counts as unset.
pub const CNI_BIN_DIR: Key = &["plugins", "io.containerd.cri.v1.runtime", "cni", "bin_dir"];

/// The setting for the time without progress after which a pull is cancelled, if the version has it.
pub fn pull_progress_timeout(version: ContainerdVersion) -> Option<Key> {
    let key: Key = match version.major {
        1 => &["plugins", "io.containerd.grpc.v1.cri", "image_pull_progress_timeout"],
        _ => &["plugins", "io.containerd.cri.v1.images", "image_pull_progress_timeout"],
    };
    (version >= PULL_PROGRESS_SINCE).then_some(key)
}

/// The first kubelet whose `resolvConf` can be empty. In earlier ones an empty value means the default,
/// /etc/resolv.conf.
pub const EMPTY_RESOLV_CONF_SINCE: Minor = Minor(23);

/// Whether a kubelet needs the flag `--resolv-conf=` to use no resolver file: the field cannot be empty, or is lost in
/// a drop-in file (`--config-dir`).
pub fn needs_resolv_conf_flag(minor: Minor) -> bool {
    minor < EMPTY_RESOLV_CONF_SINCE || (CONFIG_DIR_ALPHA..RESOLV_CONF_IN_DROP_INS_SINCE).contains(&minor)
}

/// The first kubelet with `--config-dir`, behind the environment variable KUBELET_CONFIG_DROPIN_DIR_ALPHA.
pub const CONFIG_DIR_ALPHA: Minor = Minor(28);
/// The first kubelet with `--config-dir` without that environment variable.
pub const CONFIG_DIR_SINCE: Minor = Minor(30);
/// The first kubelet that reads `resolvConf` in a drop-in file.
const RESOLV_CONF_IN_DROP_INS_SINCE: Minor = Minor(32);

/// The first kubelet with a field for the verbosity of its log.
pub const VERBOSITY_FIELD_SINCE: Minor = Minor(23);

/// The first kubeadm that patches KubeletConfiguration.
pub const KUBEADM_PATCHES_SINCE: Minor = Minor(25);

//! The command-line flags of the kubelet on Windows that have no field in KubeletConfiguration, or had none in earlier
//! minors, with the minors that know them. A kubelet does not start with an unknown flag.
//!
//! Sources: `cmd/kubelet/app/options` and `pkg/kubelet/config/flags.go` of kubernetes/kubernetes at 1.21, 1.23 and
//! 1.25 to 1.36 (2026-08); `kubelet.exe --help` of v1.20.2; release notes of kubernetes/sig-release for 1.10
//! (--windows-service), 1.20 #96051, 1.24 (dockershim removed), 1.27, 1.28 (--config-dir), 1.34 and 1.35 #133779.

use super::Minor;

/// A flag and the minors that know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KubeletFlag {
    /// The name, without the dashes.
    pub name: &'static str,
    /// The first minor that knows the flag; 1.14 stands for that minor and earlier ones.
    pub first: Minor,
    /// The last minor that knows it.
    pub last: Option<Minor>,
}

impl KubeletFlag {
    /// Whether a kubelet of a minor knows the flag.
    pub fn known_in(&self, minor: Minor) -> bool {
        self.first <= minor && self.last.is_none_or(|last| minor <= last)
    }
}

const fn always(name: &'static str) -> KubeletFlag {
    KubeletFlag { name, first: Minor(14), last: None }
}

const fn since(name: &'static str, first: u32) -> KubeletFlag {
    KubeletFlag { name, first: Minor(first), last: None }
}

const fn until(name: &'static str, last: u32) -> KubeletFlag {
    KubeletFlag { name, first: Minor(14), last: Some(Minor(last)) }
}

/// The priority class of the kubelet's process.
pub const WINDOWS_PRIORITYCLASS: KubeletFlag = since("windows-priorityclass", 20);
/// Runs the kubelet as a Windows service, which a graceful node shutdown needs.
pub const WINDOWS_SERVICE: KubeletFlag = always("windows-service");
/// `docker` for dockershim (the default up to 1.23), `remote` for every other runtime.
pub const CONTAINER_RUNTIME: KubeletFlag = until("container-runtime", 26);
/// The endpoint of the container runtime. From 1.27 on there is a field for it, and the flag is deprecated.
pub const CONTAINER_RUNTIME_ENDPOINT: KubeletFlag = always("container-runtime-endpoint");
/// The taints with which a new node registers. From 1.23 on there is a field for them, and the flag is deprecated.
pub const REGISTER_WITH_TAINTS: KubeletFlag = always("register-with-taints");
/// The pause image: dockershim runs it, and image garbage collection does not remove it with any runtime.
pub const POD_INFRA_CONTAINER_IMAGE: KubeletFlag = until("pod-infra-container-image", 34);
/// dockershim: the network plugin.
pub const NETWORK_PLUGIN: KubeletFlag = until("network-plugin", 23);
/// dockershim: the directory of network plugins.
pub const CNI_BIN_DIR: KubeletFlag = until("cni-bin-dir", 23);
/// dockershim: the directory of their configuration.
pub const CNI_CONF_DIR: KubeletFlag = until("cni-conf-dir", 23);
/// dockershim: the time without progress after which a pull is cancelled.
pub const IMAGE_PULL_PROGRESS_DEADLINE: KubeletFlag = until("image-pull-progress-deadline", 23);
/// The resolver file on which the DNS settings of pods are based; empty for none.
pub const RESOLV_CONF: KubeletFlag = always("resolv-conf");
/// The verbosity of the log. From 1.23 on there is a field for it.
pub const V: KubeletFlag = always("v");
/// A directory of drop-in configuration files.
pub const CONFIG_DIR: KubeletFlag = since("config-dir", 28);

/// Every flag of this table.
pub const FLAGS: &[KubeletFlag] = &[
    WINDOWS_PRIORITYCLASS,
    WINDOWS_SERVICE,
    CONTAINER_RUNTIME,
    CONTAINER_RUNTIME_ENDPOINT,
    REGISTER_WITH_TAINTS,
    POD_INFRA_CONTAINER_IMAGE,
    NETWORK_PLUGIN,
    CNI_BIN_DIR,
    CNI_CONF_DIR,
    IMAGE_PULL_PROGRESS_DEADLINE,
    RESOLV_CONF,
    V,
    CONFIG_DIR,
];

/// The flag with this name.
pub fn flag(name: &str) -> Option<&'static KubeletFlag> {
    FLAGS.iter().find(|flag| flag.name == name)
}

/// The last minor whose image garbage collection keeps only the image of [`POD_INFRA_CONTAINER_IMAGE`]. From 1.29 on it
/// keeps the images that the runtime has pinned (`pkg/kubelet/images/image_gc_manager.go` at 1.28 and 1.29), as
/// containerd does from 1.6.22 and 1.7.3 on.
pub const LAST_TO_KEEP_POD_INFRA_IMAGE: Minor = Minor(28);
/// The last minor with dockershim in the kubelet.
pub const LAST_WITH_DOCKERSHIM: Minor = Minor(23);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_known_from_its_first_to_its_last_minor() {
        let known = |name: &str| {
            let flag = flag(name).unwrap();
            (14..=40).filter(|minor| flag.known_in(Minor(*minor))).collect::<Vec<_>>()
        };
        assert_eq!(known("windows-priorityclass"), (20..=40).collect::<Vec<_>>());
        assert_eq!(known("container-runtime"), (14..=26).collect::<Vec<_>>());
        assert_eq!(known("network-plugin"), (14..=23).collect::<Vec<_>>());
        assert_eq!(known("pod-infra-container-image"), (14..=34).collect::<Vec<_>>());
        assert_eq!(known("config-dir"), (28..=40).collect::<Vec<_>>());
        assert_eq!(known("windows-service"), (14..=40).collect::<Vec<_>>());
    }

    #[test]
    fn each_flag_has_one_row() {
        for known in FLAGS {
            assert_eq!(flag(known.name), Some(known));
        }
        assert_eq!(flag("no-such-flag"), None);
    }
}

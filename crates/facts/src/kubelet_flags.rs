//! The command-line flags of the kubelet on Windows that winpool writes, and those that end, with the last minor that knows
//! them. A kubelet does not start with an unknown flag.
//!
//! Sources: `cmd/kubelet/app/options` and `pkg/kubelet/config/flags.go` of kubernetes/kubernetes at 1.21, 1.23 and
//! 1.25 to 1.36 (2026-08); release notes of kubernetes/sig-release for 1.24 (dockershim removed), 1.27, 1.34 and 1.35
//! #133779.

use super::Minor;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KubeletFlag {
    /// The name, without the dashes.
    pub name: &'static str,
    /// The last minor that knows it.
    pub last: Option<Minor>,
}

impl KubeletFlag {
    pub fn known_in(&self, minor: Minor) -> bool {
        self.last.is_none_or(|last| minor <= last)
    }
}

const fn always(name: &'static str) -> KubeletFlag {
    KubeletFlag { name, last: None }
}

const fn until(name: &'static str, last: u32) -> KubeletFlag {
    KubeletFlag { name, last: Some(Minor(last)) }
}

pub const WINDOWS_PRIORITYCLASS: KubeletFlag = always("windows-priorityclass");
/// The taints with which a new node registers. The flag is deprecated, because there is a field for them.
pub const REGISTER_WITH_TAINTS: KubeletFlag = always("register-with-taints");
/// The resolver file on which the DNS settings of pods are based; empty for none.
pub const RESOLV_CONF: KubeletFlag = always("resolv-conf");
/// The verbosity of the log, for which there is a field too.
pub const V: KubeletFlag = always("v");

pub const FLAGS: &[KubeletFlag] = &[
    WINDOWS_PRIORITYCLASS,
    REGISTER_WITH_TAINTS,
    RESOLV_CONF,
    V,
    until("cni-bin-dir", 23),
    until("cni-conf-dir", 23),
    until("container-runtime", 26),
    until("image-pull-progress-deadline", 23),
    until("network-plugin", 23),
    until("pod-infra-container-image", 34),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_flag_is_known_up_to_its_last_minor() {
        let unknown = |minor: u32| {
            let unknown = FLAGS.iter().filter(|flag| !flag.known_in(Minor(minor)));
            unknown.map(|flag| flag.name).collect::<Vec<_>>()
        };
        let before_1_30 =
            ["cni-bin-dir", "cni-conf-dir", "container-runtime", "image-pull-progress-deadline", "network-plugin"];
        for minor in 30..=34 {
            assert_eq!(unknown(minor), before_1_30, "1.{minor}");
        }
        for minor in 35..=40 {
            assert_eq!(unknown(minor)[5..], ["pod-infra-container-image"], "1.{minor}");
        }
    }

    #[test]
    fn each_flag_has_one_row() {
        assert_eq!(FLAGS.iter().map(|flag| flag.name).collect::<BTreeSet<_>>().len(), FLAGS.len());
    }
}

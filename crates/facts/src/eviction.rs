//! The eviction signals of a Windows kubelet and their default thresholds.
//!
//! Sources, in `pkg/kubelet` of kubernetes/kubernetes: `eviction/defaults_windows.go` (1.31 to 1.36), `eviction/defaults_others.go`
//! (1.26 to 1.30), `apis/config/v1beta1/defaults_others.go` (1.21); for the measurement at 1.36.2 `eviction/helpers.go` and
//! `helpers_windows.go`, `stats/cri_stats_provider.go`, `winstats/winstats.go` (`GetDirFsInfo`); kubernetes/kubelet,
//! `config/v1beta1/types.go` (2026-07-23), for the effect of one key on the others; kubernetes/website,
//! `node-pressure-eviction.md` (1.31). Pull request 141844 (2026-09, open) states that Windows never observes imagefs.available:
//! these sources observe it.

use std::fmt;

use super::Minor;
use crate::named::named_enum;

named_enum! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Signal {
        /// Memory: commit limit minus commit total. Measured from 1.31 on; before, the threshold only lowers the node's
        /// allocatable memory. A percentage refers to the commit limit (memory and page file), but for allocatable to
        /// memory.
        MemoryAvailable = "memory.available",
        /// The disk with the kubelet's files.
        NodefsAvailable = "nodefs.available",
        /// The disk with the images, which may be the one with the kubelet's files.
        ImagefsAvailable = "imagefs.available",
    }
}

impl Signal {
    pub fn linux_only_reason(name: &str) -> Option<&'static str> {
        LINUX_ONLY.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason)
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const INODES: &str = "Windows file systems have no inodes";
pub(super) const LINUX_ONLY: &[(&str, &str)] = &[
    ("nodefs.inodesFree", INODES),
    ("imagefs.inodesFree", INODES),
    ("containerfs.inodesFree", INODES),
    ("containerfs.available", "only Linux separates images and containers on two disks"),
    ("pid.available", "Windows kubelets do not count processes"),
    ("allocatableMemory.available", "it requires cgroups"),
];

/// The default thresholds of a kubelet of a minor. Setting one removes the others, up to 1.32 always and from 1.33 on
/// unless `mergeDefaultEvictionSettings` is true.
pub const fn defaults(minor: Minor) -> [(Signal, &'static str); 3] {
    let memory = if minor.0 < MEMORY_IS_MEASURED_FROM.0 { "100Mi" } else { "500Mi" };
    [(Signal::MemoryAvailable, memory), (Signal::NodefsAvailable, "10%"), (Signal::ImagefsAvailable, "15%")]
}

/// The first minor that evicts pods on Windows because of memory.
pub const MEMORY_IS_MEASURED_FROM: Minor = Minor(31);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_found_by_its_name() {
        for signal in Signal::ALL {
            assert_eq!(Signal::named(&signal.to_string()), Some(signal));
            assert_eq!(Signal::linux_only_reason(signal.name()), None);
        }
        for (name, reason) in LINUX_ONLY {
            assert_eq!(Signal::named(name), None);
            assert_eq!(Signal::linux_only_reason(name), Some(*reason));
        }
    }
}

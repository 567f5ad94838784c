//! What HostProcess containers need of a node.
//!
//! Sources, read on 2026-11-26:
//! - kubernetes/enhancements, `keps/sig-windows/1981-windows-privileged-container-support/README.md`, section Compatibility:
//!   the mounts of each containerd, and that only containerd has such containers;
//! - kubernetes/website, `docs/tasks/configure-pod-container/create-hostprocess-pod.md`: containerd 1.6 or later;
//! - microsoft/hcsshim, `cmd/containerd-shim-runhcs-v1/pod.go`, `createPod`: no pods before Windows Server 2019.

use super::{Build, ContainerdVersion};

/// How the image and the volumes of a HostProcess container appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mounts {
    /// As links in a folder of the host with the name of the container.
    Symlinks,
    /// At the paths that the pod names, and the image in `C:\hpc`, if Windows can bind files (Windows Server 2019 since the update
    /// of July 2022); else as links.
    Bound,
}

/// The first containerd with each kind of mounts, ascending. 2.x has those of 1.7.
pub const MOUNTS: [(ContainerdVersion, Mounts); 2] =
    [(ContainerdVersion::new(1, 6, 0), Mounts::Symlinks), (ContainerdVersion::new(1, 7, 0), Mounts::Bound)];

/// The first containerd with [`Mounts::Bound`], which the agent needs.
pub const FIRST_WITH_BOUND_MOUNTS: ContainerdVersion = MOUNTS[1].0;

/// The first Windows: Windows Server 2019.
pub const FIRST_WINDOWS: Build = Build(17763);

/// The mounts of a containerd; `None` if it has no HostProcess containers.
pub fn mounts(containerd: ContainerdVersion) -> Option<Mounts> {
    MOUNTS.iter().rev().find(|(first, _)| *first <= containerd).map(|(_, mounts)| *mounts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mounts_follow_from_the_release_line_of_containerd() {
        let table = [
            ((1, 5, 18), None),
            ((1, 6, 0), Some(Mounts::Symlinks)),
            ((1, 6, 39), Some(Mounts::Symlinks)),
            ((1, 7, 0), Some(Mounts::Bound)),
            ((2, 0, 0), Some(Mounts::Bound)),
            ((2, 3, 4), Some(Mounts::Bound)),
        ];
        for ((major, minor, patch), expected) in table {
            assert_eq!(mounts(ContainerdVersion::new(major, minor, patch)), expected, "{major}.{minor}.{patch}");
        }
    }
}

//! What HostProcess containers need of a node, in addition to a containerd that winpool supports.
//!
//! Sources, read on 2026-11-26:
//! - kubernetes/enhancements, `keps/sig-windows/1981-windows-privileged-container-support/README.md`, section Compatibility:
//!   only containerd has such containers, from 1.7 on with bind mounts: a volume and the image appear at the paths that the pod
//!   names, if Windows can bind files (Windows Server 2019 since the update of July 2022), else as links;
//! - kubernetes/website, `docs/tasks/configure-pod-container/create-hostprocess-pod.md`;
//! - microsoft/hcsshim, `cmd/containerd-shim-runhcs-v1/pod.go`, `createPod`: no pods before Windows Server 2019.

use super::Build;

/// The first Windows: Windows Server 2019.
pub const FIRST_WINDOWS: Build = Build(17763);

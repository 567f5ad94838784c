//! How kubelet and containerd merge several configuration files.
//!
//! Sources:
//! - containerd/containerd, `LoadConfig` and `mergeConfig` in `services/server/config/config.go` (1.7.34) and
//!   `cmd/containerd/server/config/config.go` (2.0.0 to 2.3.4); `internal/cri/config/config.go` for `bin_dir` together with
//!   `bin_dirs` (2.1.4, 2.3.4).
//! - `mergeKubeletConfigurations` in `cmd/kubelet/app/server.go` of kubernetes/kubernetes, with #126630 and #127421 (1.32):
//!   earlier versions lose a drop-in's `resolvConf`.

use super::Minor;

/// The configuration version of a drop-in for containerd 2.x. From 2.3 on containerd does not start with a drop-in
/// whose version is higher than that of its main file. Version 3 works with main files of version 3 (2.0 to 2.2) and 4
/// (from 2.3 on). With a main file of version 2, which containerd 2.x still reads, 2.0 to 2.2 ignore the CRI settings
/// of that file.
pub const DROP_IN_VERSION: u32 = 3;

/// The first kubelet that reads `resolvConf` in a drop-in file (`--config-dir`). An earlier one needs the flag too.
pub const RESOLV_CONF_IN_DROP_INS_SINCE: Minor = Minor(32);

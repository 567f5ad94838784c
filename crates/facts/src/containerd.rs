//! The release lines of containerd: configuration version, paths and defaults of settings, merging of drop-ins, end of
//! support, and the minimum for each Kubernetes minor.
//!
//! Sources, all in containerd/containerd: `internal/cri/config/config.go` and `config_windows.go` (`pkg/cri/config`
//! before 2.0) and `defaults/defaults_windows.go`, at the last tag of each
//! line (2.0, 2.1 and 2.2 to 2026-08-22; 1.7.35, 2.3.7 and 2.4.2 as Go modules, 2026-10-13); `cmd/containerd/server/config/config.go`
//! (`services/server/config` before 2.0) for merging; `RELEASES.md` of 2.4.2 for support and for the Kubernetes matrix, which ends at
//! 1.37; the newest releases from the Go module proxy (2026-11-28), and 1.7.36 from its release notes (2026-09-24)
//! and 2.2.10 from the record CVE-2026-95839 (2026-11-16), which the proxy lacks. The table begins with the oldest line that winpool supports, the
//! first with bind mounts in HostProcess containers.

use jiff::civil::{Date, date};

use super::{Build, ContainerdVersion, Minor};

/// The drop-in files that the generated default configuration imports, from 2.2 on.
pub const DROP_INS: &str = r"C:\Program Files\containerd\conf.d\*.toml";
/// `root`: persistent data.
pub const ROOT: &str = r"C:\ProgramData\containerd\root";
/// `state`: data until the next restart.
pub const STATE: &str = r"C:\ProgramData\containerd\state";
/// The named pipe of the gRPC server, in the spelling of containerd's configuration.
pub const PIPE: &str = r"\\.\pipe\containerd-containerd";
pub const CNI_BIN_DIR: &str = r"C:\Program Files\containerd\cni\bin";
pub const CNI_CONF_DIR: &str = r"C:\Program Files\containerd\cni\conf";
/// The directory with a subdirectory per registry for its `hosts.toml`. containerd has no default on Windows.
pub const CERTS_D: &str = r"C:\Program Files\containerd\certs.d";
/// The snapshotter and the differ on Windows.
pub const SNAPSHOTTER: &str = "windows";
/// The snapshotter on CimFS, a file system of Windows.
pub const CIMFS: &str = "cimfs";
/// The first build of Windows on which containerd loads [`CIMFS`], except for Windows Server 2022 (`IsCimFSSupported` in
/// `pkg/cimfs/cimfs.go` of microsoft/hcsshim at 7c9ff7f4, 2026-08-20).
pub const CIMFS_SINCE: Build = Build(26100);
/// The build on which [`CIMFS`] stops the node with a blue screen while it pulls about 15 images: microsoft/hcsshim#2625 (open on
/// 2026-08-20), which names 20348.4773 and no revision without the fault.
pub const CIMFS_STOPS_NODES: Build = Build(20348);
/// `runtime_type` of all Windows handlers.
pub const RUNTIME_TYPE: &str = "io.containerd.runhcs.v1";
/// The handler for process isolation, which is the default handler.
pub const PROCESS_HANDLER: &str = "runhcs-wcow-process";
/// The handler for Hyper-V isolation.
pub const HYPERV_HANDLER: &str = "runhcs-wcow-hypervisor";
/// The built-in handlers, used if the configuration defines none.
pub const BUILT_IN_HANDLERS: [&str; 2] = [PROCESS_HANDLER, HYPERV_HANDLER];
/// `container_annotations` of both built-in handlers.
pub const CONTAINER_ANNOTATIONS: &str = "io.microsoft.container.*";
/// `pod_annotations` of the Hyper-V handler.
pub const POD_ANNOTATIONS: &str = "io.microsoft.virtualmachine.*";
/// `options.SandboxIsolation` of the Hyper-V handler: 0 is process, 1 hypervisor.
pub const SANDBOX_ISOLATION_HYPERV: i64 = 1;

/// The first release that ignores [`BIN_DIR`], with a warning: it looks for the plugins of the CNI in [`CNI_BIN_DIR`]. A file of
/// configuration version 2 has another table, and is migrated (`RELEASES.md` of v2.4.2, `plugins/cri/runtime/plugin.go`; `CniConfig` in
/// `internal/cri/config/config.go` of v2.3.7, which has it, and v2.4.2; kubernetes-sigs/windows-testing#593, read 2026-11-29).
pub const WITHOUT_BIN_DIR: ContainerdVersion = ContainerdVersion::new(2, 4, 0);
/// The deprecated setting for a single directory of CNI plugins. The CRI plugin does not start if [`BIN_DIRS`] is set too. An empty string
/// counts as unset.
pub const BIN_DIR: Key = &["plugins", "io.containerd.cri.v1.runtime", "cni", "bin_dir"];
/// The key that replaces it, a list.
pub const BIN_DIRS: Key = &["plugins", "io.containerd.cri.v1.runtime", "cni", "bin_dirs"];

/// The first release line whose parser of `hosts.toml` accepts `[` and `]` in quoted table names, as TOML does.
pub const BRACKETS_SINCE: ContainerdVersion = ContainerdVersion::new(2, 0, 0);
/// The registry whose host differs from its name, and that host (`ConfigureHosts` in
/// `core/remotes/docker/config/hosts.go`).
pub const DOCKER_HUB: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// A path of TOML keys, outermost first.
pub type Key = &'static [&'static str];

/// The list of differs, the same in every version (`services/diff`, `plugins/services/diff` from 2.0 on).
pub const DIFFERS: Key = &["plugins", "io.containerd.service.v1.diff-service", "default"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CniBin {
    /// `bin_dir`, a string.
    Directory(Key),
    /// `bin_dirs`, a list of strings. `bin_dir` is deprecated, until [`WITHOUT_BIN_DIR`].
    Directories(Key),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    pub grpc_address: Key,
    /// The pause image.
    pub sandbox_image: Key,
    /// The table of runtime handlers, by name.
    pub runtimes: Key,
    /// The name of the default handler, for pods without a RuntimeClass.
    pub default_runtime_name: Key,
    pub snapshotter: Key,
    pub cni_bin: CniBin,
    pub cni_conf_dir: Key,
    pub registry_config_path: Key,
    pub pull_progress_timeout: Key,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropIn {
    /// A `[plugins."…"]` table of the drop-in replaces the whole table of that plugin.
    ReplacesSection,
    /// The tables of plugins are merged recursively. Later values replace earlier ones, lists included.
    DeepMerge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseLine {
    pub first: ContainerdVersion,
    pub newest: ContainerdVersion,
    /// The last day of support: the last day of the month if only a month is announced.
    pub end_of_life: Date,
    /// The newest configuration `version` that it reads. Older versions are migrated at start.
    pub config_version: u32,
    pub keys: &'static Keys,
    pub drop_in: DropIn,
    /// Whether the generated default configuration imports [`DROP_INS`].
    pub imports_drop_ins: bool,
    /// Whether containerd does not start with a drop-in whose `version` is higher than that of the main file.
    pub refuses_newer_drop_ins: bool,
}

/// Configuration version 2.
const KEYS_1_7: Keys = Keys {
    grpc_address: &["grpc", "address"],
    sandbox_image: &["plugins", "io.containerd.grpc.v1.cri", "sandbox_image"],
    runtimes: &["plugins", "io.containerd.grpc.v1.cri", "containerd", "runtimes"],
    default_runtime_name: &["plugins", "io.containerd.grpc.v1.cri", "containerd", "default_runtime_name"],
    snapshotter: &["plugins", "io.containerd.grpc.v1.cri", "containerd", "snapshotter"],
    cni_bin: CniBin::Directory(&["plugins", "io.containerd.grpc.v1.cri", "cni", "bin_dir"]),
    cni_conf_dir: &["plugins", "io.containerd.grpc.v1.cri", "cni", "conf_dir"],
    registry_config_path: &["plugins", "io.containerd.grpc.v1.cri", "registry", "config_path"],
    pull_progress_timeout: &["plugins", "io.containerd.grpc.v1.cri", "image_pull_progress_timeout"],
};

/// Configuration version 3 with a single directory of CNI plugins.
const KEYS_2_0: Keys = Keys {
    grpc_address: &["grpc", "address"],
    sandbox_image: &["plugins", "io.containerd.cri.v1.images", "pinned_images", "sandbox"],
    runtimes: &["plugins", "io.containerd.cri.v1.runtime", "containerd", "runtimes"],
    default_runtime_name: &["plugins", "io.containerd.cri.v1.runtime", "containerd", "default_runtime_name"],
    snapshotter: &["plugins", "io.containerd.cri.v1.images", "snapshotter"],
    cni_bin: CniBin::Directory(BIN_DIR),
    cni_conf_dir: &["plugins", "io.containerd.cri.v1.runtime", "cni", "conf_dir"],
    registry_config_path: &["plugins", "io.containerd.cri.v1.images", "registry", "config_path"],
    pull_progress_timeout: &["plugins", "io.containerd.cri.v1.images", "image_pull_progress_timeout"],
};

/// Configuration version 3.
const KEYS_2_1: Keys = Keys { cni_bin: CniBin::Directories(BIN_DIRS), ..KEYS_2_0 };

/// Configuration version 4, in which the servers are plugins.
const KEYS_2_3: Keys = Keys { grpc_address: &["plugins", "io.containerd.server.v1.grpc", "address"], ..KEYS_2_1 };

/// The release line of 1.x: configuration version 2, replacing drop-ins.
const V1_7: ReleaseLine = ReleaseLine {
    first: ContainerdVersion::new(1, 7, 0),
    newest: ContainerdVersion::new(1, 7, 36),
    end_of_life: date(2026, 9, 30),
    config_version: 2,
    keys: &KEYS_1_7,
    drop_in: DropIn::ReplacesSection,
    imports_drop_ins: false,
    refuses_newer_drop_ins: false,
};

/// A release line of 2.x: merging drop-ins, imported from 2.2 on, and of no newer version than the main file in 2.3.
const fn v2((minor, patch): (u32, u32), end_of_life: Date, config_version: u32, keys: &'static Keys) -> ReleaseLine {
    ReleaseLine {
        first: ContainerdVersion::new(2, minor, 0),
        newest: ContainerdVersion::new(2, minor, patch),
        end_of_life,
        config_version,
        keys,
        drop_in: DropIn::DeepMerge,
        imports_drop_ins: minor >= 2,
        refuses_newer_drop_ins: minor == 3,
    }
}

/// Every release line from [`OLDEST`] on, oldest first. For 1.7 and 2.0 only September 2026 and March 2027 are announced; since 2026-03-10
/// and 2025-11-07 two maintainers support them, for the versions of Kubernetes that GKE has with them.
#[rustfmt::skip]
pub const RELEASE_LINES: &[ReleaseLine] = &[
    V1_7,
    v2((0, 14), date(2027, 3, 31),  3, &KEYS_2_0),
    v2((1, 9),  date(2026, 7, 3),   3, &KEYS_2_1),
    v2((2, 10), date(2026, 11, 6),  3, &KEYS_2_1),
    v2((3, 7),  date(2028, 4, 30),  4, &KEYS_2_3),
    v2((4, 2),  date(2027, 5, 16),  4, &KEYS_2_3),
];

/// The oldest release that winpool supports.
pub const OLDEST: ContainerdVersion = V1_7.first;

/// The release line of a version. Minors after the newest known one of the newest major are treated as that one. `None`
/// for versions before [`OLDEST`] and for unknown lines and majors.
pub fn release_line(v: ContainerdVersion) -> Option<&'static ReleaseLine> {
    let newest = || RELEASE_LINES.last().filter(|newest| newest.first.major == v.major && newest.first.minor < v.minor);
    listed(v).or_else(newest)
}

/// The last day of support for a version. `None` if its release line is not in [`RELEASE_LINES`].
pub fn end_of_life(v: ContainerdVersion) -> Option<Date> {
    listed(v).map(|release_line| release_line.end_of_life)
}

fn listed(v: ContainerdVersion) -> Option<&'static ReleaseLine> {
    RELEASE_LINES.iter().find(|release_line| release_line.first.line() == v.line())
}

/// The minimum version of each release line from [`OLDEST`] on, from a kubelet minor up to the next row. Lines newer than the last one in a
/// row are supported, lines older than the first one are not. 1.35 is the last minor with containerd 1.x.
#[rustfmt::skip]
pub(super) const MINIMUMS: &[(Minor, &[ContainerdVersion])] = {
    const fn v(major: u32, minor: u32, patch: u32) -> ContainerdVersion {
        ContainerdVersion::new(major, minor, patch)
    }
    &[
        (Minor(0),  &[OLDEST]),
        (Minor(32), &[v(1, 7, 24), v(2, 0, 1), v(2, 1, 0)]),
        (Minor(33), &[v(1, 7, 24), v(2, 0, 4), v(2, 1, 0)]),
        (Minor(34), &[v(1, 7, 28), v(2, 0, 6), v(2, 1, 3)]),
        (Minor(35), &[v(1, 7, 28),             v(2, 1, 5), v(2, 2, 0)]),
        (Minor(36), &[                                     v(2, 2, 0), v(2, 3, 0)]),
        (Minor(37), &[                                                 v(2, 3, 0), v(2, 4, 0)]),
    ]
};

/// The minimum containerd for a kubelet minor if `installed` is too old: of the same release line if the minor supports
/// it, else of the next supported line. `None` if `installed` is new enough.
pub fn minimum_for(kubelet: Minor, installed: ContainerdVersion) -> Option<ContainerdVersion> {
    let (_, minimums) = MINIMUMS.iter().rfind(|(from, _)| *from <= kubelet)?;
    let minimum = minimums.iter().find(|minimum| minimum.line() >= installed.line())?;
    (installed < *minimum).then_some(*minimum)
}

/// The first release that pins the pause image (`PinnedImageLabelKey` in `pkg/cri/labels`: absent in v1.7.2). Otherwise kubelets
/// remove it with unused images (`pkg/kubelet/images/image_gc_manager.go` of kubernetes/kubernetes at 1.29).
const PINS_SINCE: ContainerdVersion = ContainerdVersion::new(1, 7, 3);

/// The minimum containerd that pins its pause image, if `installed` does not.
pub fn minimum_to_pin(installed: ContainerdVersion) -> Option<ContainerdVersion> {
    (installed < PINS_SINCE).then_some(PINS_SINCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(text: &str) -> ContainerdVersion {
        text.parse().unwrap()
    }

    #[test]
    fn each_version_belongs_to_its_release_line() {
        use DropIn::{DeepMerge, ReplacesSection};
        let table = [
            ("1.7.27", 2, ReplacesSection, false, false, "2026-09-30"),
            ("2.0.4", 3, DeepMerge, false, false, "2027-03-31"),
            ("2.1.9", 3, DeepMerge, false, false, "2026-07-03"),
            ("2.2.0", 3, DeepMerge, true, false, "2026-11-06"),
            ("2.3.99", 4, DeepMerge, true, true, "2028-04-30"),
            ("2.4.0", 4, DeepMerge, true, false, "2027-05-16"),
        ];
        assert_eq!(table.len(), RELEASE_LINES.len(), "the table has every line");
        for (version, config_version, drop_in, imports_drop_ins, refuses_newer_drop_ins, end) in table {
            let version = v(version);
            let release_line = release_line(version).unwrap();
            assert_eq!(release_line.first.line(), version.line());
            assert_eq!((release_line.first.patch, release_line.newest.line()), (0, version.line()));
            assert_eq!(release_line.config_version, config_version, "{version}");
            assert_eq!(release_line.drop_in, drop_in, "{version}");
            assert_eq!(release_line.imports_drop_ins, imports_drop_ins, "{version}");
            assert_eq!(release_line.refuses_newer_drop_ins, refuses_newer_drop_ins, "{version}");
            assert_eq!(end_of_life(version), Some(end.parse().unwrap()), "{version}");
        }
    }

    #[test]
    fn an_unknown_line_has_no_entry_and_a_newer_minor_is_treated_as_the_newest() {
        for unknown in ["0.2.9", "1.0.0", "1.6.39", "1.8.0", "3.0.0"] {
            assert_eq!(release_line(v(unknown)), None, "{unknown}");
            assert_eq!(end_of_life(v(unknown)), None, "{unknown}");
        }
        assert_eq!(release_line(v("2.5.0")), RELEASE_LINES.last());
        assert_eq!(end_of_life(v("2.5.0")), None, "not announced");
    }

    /// `make test` compares the minimums with upstream's.
    #[test]
    fn a_kubelet_needs_the_minimum_of_a_release_line_or_of_the_next_one_that_it_supports() {
        let table = [
            (29, "1.6.39", Some("1.7.0")),
            (31, "1.7.0", None),
            (32, "1.6.39", Some("1.7.24")),
            (32, "1.7.23", Some("1.7.24")),
            (32, "1.7.24", None),
            (34, "2.1.2", Some("2.1.3")),
            (35, "1.7.28", None),
            (35, "2.0.11", Some("2.1.5")),
            (36, "1.7.34", Some("2.2.0")),
            (36, "2.1.9", Some("2.2.0")),
            (37, "2.2.9", Some("2.3.0")),
            (38, "2.2.9", Some("2.3.0")),
            (38, "2.4.0", None),
        ];
        for (minor, installed, needed) in table {
            assert_eq!(minimum_for(Minor(minor), v(installed)), needed.map(v), "1.{minor} with {installed}");
        }
    }

    #[test]
    fn the_pause_image_is_pinned_from_1_7_3_on() {
        let table = [("1.7.0", true), ("1.7.2", true), ("1.7.3", false), ("2.0.0", false), ("2.4.0", false)];
        for (installed, is_too_old) in table {
            assert_eq!(minimum_to_pin(v(installed)), is_too_old.then(|| v("1.7.3")), "{installed}");
        }
    }
}

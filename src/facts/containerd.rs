//! The generations of containerd: configuration version, where each setting lives, what an unset one means, how
//! drop-ins are merged, when support ends, and which Kubernetes asks for which.
//!
//! Sources, all in containerd/containerd: `internal/cri/config/config.go` and `config_windows.go` (`pkg/cri/config`
//! before 2.0, `vendor/github.com/containerd/cri` in 1.4) and `defaults/defaults_windows.go`, at the last tag of each
//! line (to 2026-08-22); `cmd/containerd/server/config/config.go` (`services/server/config` before 2.0) for merging;
//! `RELEASES.md` (2026-07-29) for support and for the Kubernetes matrix, which ends at 1.36: 1.37 is answered as that. 2.4 was
//! read on the main branch at 301026e58 (2026-08-22), after v2.4.0-beta.0; pull request 14169 released it in 2026-09, and
//! the end of its support is the date that `RELEASES.md` had for it before. The table begins with 1.4, which that file
//! gives to Kubernetes 1.19, the first with containerd on Windows out of alpha.

use jiff::civil::{Date, date};

use super::{
    ContainerdVersion, Minor,
    pause::{MICROSOFT_OSS, PauseImage, UPSTREAM},
};

/// The day of the newest source.
pub const AS_OF: Date = date(2026, 8, 22);

/// The configuration file.
pub const CONFIG_FILE: &str = r"C:\Program Files\containerd\config.toml";
/// The files that the generated default configuration imports, from 2.2 on.
pub const DROP_INS: &str = r"C:\Program Files\containerd\conf.d\*.toml";
/// `root`: what outlives a restart.
pub const ROOT: &str = r"C:\ProgramData\containerd\root";
/// `state`: what does not.
pub const STATE: &str = r"C:\ProgramData\containerd\state";
/// The named pipe of the gRPC server, as containerd's configuration spells it.
pub const PIPE: &str = r"\\.\pipe\containerd-containerd";
/// Where CNI plugins are looked for.
pub const CNI_BIN_DIR: &str = r"C:\Program Files\containerd\cni\bin";
/// Where CNI configuration is looked for.
pub const CNI_CONF_DIR: &str = r"C:\Program Files\containerd\cni\conf";
/// Where a `hosts.toml` per registry is, in a directory named after it. containerd has no default for it on Windows.
pub const CERTS_D: &str = r"C:\Program Files\containerd\certs.d";
/// The snapshotter, and the differ, of Windows.
pub const SNAPSHOTTER: &str = "windows";
/// `runtime_type` of every Windows handler.
pub const RUNTIME_TYPE: &str = "io.containerd.runhcs.v1";
/// The handler for process isolation, and the default one.
pub const PROCESS_HANDLER: &str = "runhcs-wcow-process";
/// The handler for Hyper-V isolation; a default from 1.7 on.
pub const HYPERV_HANDLER: &str = "runhcs-wcow-hypervisor";
/// `container_annotations` of both default handlers from 1.7 on.
pub const CONTAINER_ANNOTATIONS: &str = "io.microsoft.container.*";
/// `pod_annotations` of the Hyper-V handler.
pub const POD_ANNOTATIONS: &str = "io.microsoft.virtualmachine.*";
/// `options.SandboxIsolation` of the Hyper-V handler: 0 is process, 1 hypervisor.
pub const SANDBOX_ISOLATION_HYPERV: i64 = 1;

/// The first line whose default handlers pass annotations on.
pub const ANNOTATIONS_SINCE: ContainerdVersion = ContainerdVersion::new(1, 7, 0);
/// The first line whose default handlers set `options.ScrubLogs` (at its last tag; every shim from 1.7 on knows it).
pub const SCRUB_LOGS_SINCE: ContainerdVersion = ContainerdVersion::new(2, 2, 0);
/// The first line whose reader of `hosts.toml` takes a table name with `[` or `]` in it, as TOML allows in quotes.
pub const BRACKETS_SINCE: ContainerdVersion = ContainerdVersion::new(2, 0, 0);
/// The registry whose name is not its host, and that host (`ConfigureHosts` in `core/remotes/docker/config/hosts.go`).
pub const DOCKER_HUB: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// A path of TOML keys, outermost first.
pub type Key = &'static [&'static str];

/// The differs that are asked, in order: the same in every version (`services/diff`, `plugins/services/diff` from 2.0 on).
pub const DIFFERS: Key = &["plugins", "io.containerd.service.v1.diff-service", "default"];
/// The table of mirrors by registry, for a line without [`Keys::registry_config_path`].
pub const REGISTRY_MIRRORS: Key = &["plugins", "io.containerd.grpc.v1.cri", "registry", "mirrors"];

/// The setting for the directories of CNI plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CniBin {
    /// `bin_dir`, a string.
    Directory(Key),
    /// `bin_dirs`, a list of strings; `bin_dir` still works up to 2.3 and is deprecated.
    Directories(Key),
}

/// Where the settings of a generation are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The table of the gRPC server, with `address`.
    pub grpc: Key,
    /// The pause image.
    pub sandbox_image: Key,
    /// The table of runtime handlers, by name.
    pub runtimes: Key,
    /// The name of the handler for pods without a RuntimeClass.
    pub default_runtime_name: Key,
    /// The snapshotter.
    pub snapshotter: Key,
    /// The table of image platforms per handler, which containerd has from 2.0 on.
    pub runtime_platforms: Option<Key>,
    /// The directories of CNI plugins.
    pub cni_bin: CniBin,
    /// The directory of CNI configuration.
    pub cni_conf_dir: Key,
    /// The directory with a `hosts.toml` per registry, which containerd has from 1.5 on.
    pub registry_config_path: Option<Key>,
}

/// What a drop-in does to the file that imports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropIn {
    /// A `[plugins."…"]` table in the drop-in replaces the whole table of that plugin.
    ReplacesSection,
    /// The tables of plugins are merged at every depth; a later value wins, lists included.
    DeepMerge,
}

/// One minor of containerd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its first release.
    pub first: ContainerdVersion,
    /// Its newest release when the table was made.
    pub newest: ContainerdVersion,
    /// The last day of support; the last of the month where only a month is announced.
    pub end_of_life: Date,
    /// The `version` to write: the newest it reads. Older ones are migrated at start.
    pub config_version: u32,
    /// Where its settings are, in that version.
    pub keys: &'static Keys,
    /// The pause image of a node whose configuration names none.
    pub default_sandbox: PauseImage,
    /// The handlers of a node whose configuration names none.
    pub default_handlers: &'static [&'static str],
    /// What a drop-in does.
    pub drop_in: DropIn,
    /// Whether the generated default configuration imports [`DROP_INS`].
    pub imports_drop_ins: bool,
    /// Whether a drop-in with a higher `version` than the main file's keeps containerd from starting.
    pub refuses_newer_drop_ins: bool,
}

/// Configuration version 2 without a directory of registry hosts.
const KEYS_1_4: Keys = Keys {
    grpc: &["grpc"],
    sandbox_image: &["plugins", "io.containerd.grpc.v1.cri", "sandbox_image"],
    runtimes: &["plugins", "io.containerd.grpc.v1.cri", "containerd", "runtimes"],
    default_runtime_name: &["plugins", "io.containerd.grpc.v1.cri", "containerd", "default_runtime_name"],
    snapshotter: &["plugins", "io.containerd.grpc.v1.cri", "containerd", "snapshotter"],
    runtime_platforms: None,
    cni_bin: CniBin::Directory(&["plugins", "io.containerd.grpc.v1.cri", "cni", "bin_dir"]),
    cni_conf_dir: &["plugins", "io.containerd.grpc.v1.cri", "cni", "conf_dir"],
    registry_config_path: None,
};

/// Configuration version 2.
const KEYS_1_5: Keys = Keys {
    registry_config_path: Some(&["plugins", "io.containerd.grpc.v1.cri", "registry", "config_path"]),
    ..KEYS_1_4
};

/// Configuration version 3 with a single directory of CNI plugins.
const KEYS_2_0: Keys = Keys {
    grpc: &["grpc"],
    sandbox_image: &["plugins", "io.containerd.cri.v1.images", "pinned_images", "sandbox"],
    runtimes: &["plugins", "io.containerd.cri.v1.runtime", "containerd", "runtimes"],
    default_runtime_name: &["plugins", "io.containerd.cri.v1.runtime", "containerd", "default_runtime_name"],
    snapshotter: &["plugins", "io.containerd.cri.v1.images", "snapshotter"],
    runtime_platforms: Some(&["plugins", "io.containerd.cri.v1.images", "runtime_platforms"]),
    cni_bin: CniBin::Directory(&["plugins", "io.containerd.cri.v1.runtime", "cni", "bin_dir"]),
    cni_conf_dir: &["plugins", "io.containerd.cri.v1.runtime", "cni", "conf_dir"],
    registry_config_path: Some(&["plugins", "io.containerd.cri.v1.images", "registry", "config_path"]),
};

/// Configuration version 3.
const KEYS_2_1: Keys =
    Keys { cni_bin: CniBin::Directories(&["plugins", "io.containerd.cri.v1.runtime", "cni", "bin_dirs"]), ..KEYS_2_0 };

/// Configuration version 4, where the servers became plugins.
const KEYS_2_3: Keys = Keys { grpc: &["plugins", "io.containerd.server.v1.grpc"], ..KEYS_2_1 };

const PROCESS: &[&str] = &[PROCESS_HANDLER];
const BOTH: &[&str] = &[PROCESS_HANDLER, HYPERV_HANDLER];

/// A line of 1.x: version 2, drop-ins that replace.
const fn one(
    (minor, patch): (u32, u32),
    end_of_life: Date,
    keys: &'static Keys,
    default_sandbox: PauseImage,
    default_handlers: &'static [&'static str],
) -> Generation {
    Generation {
        first: ContainerdVersion::new(1, minor, 0),
        newest: ContainerdVersion::new(1, minor, patch),
        end_of_life,
        config_version: 2,
        keys,
        default_sandbox,
        default_handlers,
        drop_in: DropIn::ReplacesSection,
        imports_drop_ins: false,
        refuses_newer_drop_ins: false,
    }
}

/// A line of 2.x: drop-ins that merge, imported from 2.2 on and held to the main file's version in 2.3 alone.
const fn two(
    (minor, patch): (u32, u32),
    end_of_life: Date,
    config_version: u32,
    keys: &'static Keys,
    default_sandbox: PauseImage,
) -> Generation {
    Generation {
        first: ContainerdVersion::new(2, minor, 0),
        newest: ContainerdVersion::new(2, minor, patch),
        end_of_life,
        config_version,
        keys,
        default_sandbox,
        default_handlers: BOTH,
        drop_in: DropIn::DeepMerge,
        imports_drop_ins: minor >= 2,
        refuses_newer_drop_ins: minor == 3,
    }
}

const fn upstream(tag: &'static str) -> PauseImage {
    PauseImage { repository: UPSTREAM, tag }
}

/// Every line from 1.4 on, oldest first. 1.7 and 2.0 have no day announced, only September 2026 and March 2027.
#[rustfmt::skip]
pub const GENERATIONS: &[Generation] = &[
    one((4, 13), date(2022, 3, 3),   &KEYS_1_4, PauseImage { repository: MICROSOFT_OSS, tag: "1.4.0" }, PROCESS),
    one((5, 18), date(2023, 2, 28),  &KEYS_1_5, upstream("3.5"), PROCESS),
    one((6, 39), date(2025, 8, 23),  &KEYS_1_5, upstream("3.6"), PROCESS),
    one((7, 34), date(2026, 9, 30),  &KEYS_1_5, upstream("3.8"), BOTH),
    two((0, 11), date(2027, 3, 31),  3, &KEYS_2_0, upstream("3.10")),
    two((1, 9),  date(2026, 7, 3),   3, &KEYS_2_1, upstream("3.10")),
    two((2, 7),  date(2026, 11, 6),  3, &KEYS_2_1, upstream("3.10.1")),
    two((3, 4),  date(2028, 4, 30),  4, &KEYS_2_3, upstream("3.10.2")),
    two((4, 0),  date(2027, 4, 26),  4, &KEYS_2_3, upstream("3.10.2")),
];

/// The generation of a version. A minor newer than the newest known one of the newest major is answered as that one;
/// `None` for a line before 1.4, one that never was, or a major nobody has seen.
pub fn generation(v: ContainerdVersion) -> Option<&'static Generation> {
    let newest = || GENERATIONS.last().filter(|newest| newest.first.major == v.major && newest.first.minor < v.minor);
    listed(v).or_else(newest)
}

/// The last day of support for the line of a version; `None` for a line that is not in [`GENERATIONS`].
pub fn end_of_life(v: ContainerdVersion) -> Option<Date> {
    listed(v).map(|generation| generation.end_of_life)
}

fn listed(v: ContainerdVersion) -> Option<&'static Generation> {
    GENERATIONS.iter().find(|generation| line(generation.first) == line(v))
}

const fn line(v: ContainerdVersion) -> (u32, u32) {
    (v.major, v.minor)
}

/// The least patch release of each line that a kubelet minor asks for, up to the row after it. A line newer than a
/// row's last is fine, an older one than its first is not. 1.35 is the last minor with containerd 1.x.
#[rustfmt::skip]
const MINIMUMS: &[(Minor, &[ContainerdVersion])] = {
    const fn v(major: u32, minor: u32, patch: u32) -> ContainerdVersion {
        ContainerdVersion::new(major, minor, patch)
    }
    &[
        (Minor(0),  &[v(1, 4, 0)]),
        (Minor(26), &[v(1, 6, 15), v(1, 7, 0)]),
        (Minor(32), &[v(1, 6, 36), v(1, 7, 24), v(2, 0, 1), v(2, 1, 0)]),
        (Minor(33), &[v(1, 6, 36), v(1, 7, 24), v(2, 0, 4), v(2, 1, 0)]),
        (Minor(34), &[v(1, 6, 39), v(1, 7, 28), v(2, 0, 6), v(2, 1, 3)]),
        (Minor(35), &[             v(1, 7, 28),             v(2, 1, 5), v(2, 2, 0)]),
        (Minor(36), &[                                                  v(2, 2, 0), v(2, 3, 0)]),
    ]
};

/// The least containerd that a kubelet minor asks for where `installed` is too old: of the same line if the minor
/// supports that one, else of the next line it supports. `None` where `installed` is new enough.
pub fn minimum_for(kubelet: Minor, installed: ContainerdVersion) -> Option<ContainerdVersion> {
    let (_, minimums) = MINIMUMS.iter().rfind(|(from, _)| *from <= kubelet)?;
    let needed = minimums.iter().find(|minimum| line(**minimum) >= line(installed))?;
    (installed < *needed).then_some(*needed)
}

/// The first release of each line of 1.x that pins the pause image, so that kubelets newer than
/// [`LAST_TO_SPARE_POD_INFRA_IMAGE`](super::kubelet_flags::LAST_TO_SPARE_POD_INFRA_IMAGE) do not remove it with unused images
/// (`PinnedImageLabelKey` in `pkg/cri/labels`: absent in v1.6.21 and v1.7.2).
const PINS_SINCE: [ContainerdVersion; 2] = [ContainerdVersion::new(1, 6, 22), ContainerdVersion::new(1, 7, 3)];

/// The least containerd that pins its pause image, where this one does not: of the same line, or the least of all.
pub fn needed_to_pin(installed: ContainerdVersion) -> Option<ContainerdVersion> {
    let [first, ..] = PINS_SINCE;
    let since = PINS_SINCE.into_iter().rfind(|since| line(*since) <= line(installed)).unwrap_or(first);
    (installed < since).then_some(since)
}

/// The first kubelet that speaks CRI v1. Those before it speak v1alpha2 only, which containerd 2.0 dropped.
const CRI_V1_SINCE: Minor = Minor(23);

/// Whether a containerd no longer speaks the CRI of a kubelet this old.
pub fn too_new_for(kubelet: Minor, installed: ContainerdVersion) -> bool {
    kubelet < CRI_V1_SINCE && installed.major >= 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::pause;

    fn v(text: &str) -> ContainerdVersion {
        text.parse().unwrap()
    }

    #[test]
    fn every_line_has_its_generation() {
        use DropIn::{DeepMerge, ReplacesSection};
        let table = [
            ("1.4.0", 2, ReplacesSection, false, false, "2022-03-03", "mcr.microsoft.com/oss/kubernetes/pause:1.4.0"),
            ("1.5.9", 2, ReplacesSection, false, false, "2023-02-28", "registry.k8s.io/pause:3.5"),
            ("1.6.20", 2, ReplacesSection, false, false, "2025-08-23", "registry.k8s.io/pause:3.6"),
            ("1.7.27", 2, ReplacesSection, false, false, "2026-09-30", "registry.k8s.io/pause:3.8"),
            ("2.0.4", 3, DeepMerge, false, false, "2027-03-31", "registry.k8s.io/pause:3.10"),
            ("2.1.9", 3, DeepMerge, false, false, "2026-07-03", "registry.k8s.io/pause:3.10"),
            ("2.2.0", 3, DeepMerge, true, false, "2026-11-06", "registry.k8s.io/pause:3.10.1"),
            ("2.3.99", 4, DeepMerge, true, true, "2028-04-30", "registry.k8s.io/pause:3.10.2"),
            ("2.4.0", 4, DeepMerge, true, false, "2027-04-26", "registry.k8s.io/pause:3.10.2"),
        ];
        assert_eq!(table.len(), GENERATIONS.len(), "the table has every line");
        for (version, config_version, drop_in, imports_drop_ins, refuses_newer_drop_ins, end, sandbox) in table {
            let version = v(version);
            let generation = generation(version).unwrap();
            assert_eq!(line(generation.first), line(version));
            assert_eq!((generation.first.patch, line(generation.newest)), (0, line(version)));
            assert_eq!(generation.config_version, config_version, "{version}");
            assert_eq!(generation.drop_in, drop_in, "{version}");
            assert_eq!(generation.imports_drop_ins, imports_drop_ins, "{version}");
            assert_eq!(generation.refuses_newer_drop_ins, refuses_newer_drop_ins, "{version}");
            assert_eq!(end_of_life(version), Some(end.parse().unwrap()), "{version}");
            assert_eq!(generation.default_sandbox.to_string(), sandbox, "{version}");
        }
    }

    #[test]
    fn a_line_nobody_knows_has_no_generation_and_a_newer_minor_the_newest() {
        for unknown in ["0.2.9", "1.0.0", "1.3.10", "1.8.0", "3.0.0"] {
            assert_eq!(generation(v(unknown)), None, "{unknown}");
            assert_eq!(end_of_life(v(unknown)), None, "{unknown}");
        }
        assert_eq!(generation(v("2.5.0")), GENERATIONS.last());
        assert_eq!(end_of_life(v("2.5.0")), None, "its own end is not announced");
    }

    #[test]
    fn both_handlers_are_defaults_from_1_7_on() {
        for generation in GENERATIONS {
            let expected: &[&str] = match line(generation.first) {
                (1, ..=6) => &["runhcs-wcow-process"],
                _ => &["runhcs-wcow-process", "runhcs-wcow-hypervisor"],
            };
            assert_eq!(generation.default_handlers, expected, "{}", generation.first);
        }
    }

    #[test]
    fn settings_move_with_the_configuration_version() {
        let paths = |version: &str| {
            let keys = generation(v(version)).unwrap().keys;
            let (bin, list) = match keys.cni_bin {
                CniBin::Directory(key) => (key, false),
                CniBin::Directories(key) => (key, true),
            };
            let dotted = |key: Key| key.join("/");
            let or_none = |key: Option<Key>| key.map_or("-".to_owned(), dotted);
            (
                [keys.grpc, keys.sandbox_image, keys.runtimes, keys.snapshotter, bin, keys.cni_conf_dir].map(dotted),
                [keys.runtime_platforms, keys.registry_config_path].map(or_none),
                list,
            )
        };
        let cri = |rest: &str| format!("plugins/io.containerd.grpc.v1.cri/{rest}");
        let images = |rest: &str| format!("plugins/io.containerd.cri.v1.images/{rest}");
        let runtime = |rest: &str| format!("plugins/io.containerd.cri.v1.runtime/{rest}");
        let two = [
            "grpc".to_owned(),
            cri("sandbox_image"),
            cri("containerd/runtimes"),
            cri("containerd/snapshotter"),
            cri("cni/bin_dir"),
            cri("cni/conf_dir"),
        ];
        let three = |grpc: &str, bin: &str| {
            [
                grpc.to_owned(),
                images("pinned_images/sandbox"),
                runtime("containerd/runtimes"),
                images("snapshotter"),
                runtime(bin),
                runtime("cni/conf_dir"),
            ]
        };
        let none = || "-".to_owned();
        let hosts_and_platforms = || [images("runtime_platforms"), images("registry/config_path")];
        assert_eq!(paths("1.4.13"), (two.clone(), [none(), none()], false));
        for version in ["1.5.0", "1.6.0", "1.7.0"] {
            assert_eq!(paths(version), (two.clone(), [none(), cri("registry/config_path")], false), "{version}");
        }
        assert_eq!(paths("2.0.0"), (three("grpc", "cni/bin_dir"), hosts_and_platforms(), false));
        for version in ["2.1.0", "2.2.0"] {
            assert_eq!(paths(version), (three("grpc", "cni/bin_dirs"), hosts_and_platforms(), true), "{version}");
        }
        let four = three("plugins/io.containerd.server.v1.grpc", "cni/bin_dirs");
        assert_eq!(paths("2.3.0"), (four, hosts_and_platforms(), true));
    }

    #[test]
    fn default_sandboxes_are_images_that_the_pause_tables_have() {
        let host = "10.0.20348".parse().unwrap();
        for generation in GENERATIONS {
            let PauseImage { repository, tag } = generation.default_sandbox;
            assert!(pause::runs_on(repository, tag, host, None).is_some(), "{repository}:{tag}");
        }
    }

    #[test]
    fn every_kubelet_asks_every_line_for_its_least_patch() {
        /// Kubelet minors, what is too old with what is needed instead, and what is new enough.
        type Row = (std::ops::RangeInclusive<u32>, &'static [(&'static str, &'static str)], &'static [&'static str]);
        #[rustfmt::skip]
        const TABLE: &[Row] = &[
            (14..=25, &[("1.3.10", "1.4.0")],
                &["1.4.0", "1.5.0", "1.6.0", "1.7.0", "2.0.0", "2.1.0", "2.2.0", "2.3.0", "2.4.0"]),
            (26..=31, &[("1.3.10", "1.6.15"), ("1.4.13", "1.6.15"), ("1.5.18", "1.6.15"), ("1.6.14", "1.6.15")],
                &["1.6.15", "1.7.0", "2.0.0", "2.1.0", "2.2.0", "2.3.0", "2.4.0"]),
            (32..=32, &[("1.4.13", "1.6.36"), ("1.5.18", "1.6.36"), ("1.6.35", "1.6.36"), ("1.7.23", "1.7.24"), ("2.0.0", "2.0.1")],
                &["1.6.36", "1.7.24", "2.0.1", "2.1.0", "2.2.0", "2.3.0", "2.4.0"]),
            (33..=33, &[("1.4.13", "1.6.36"), ("1.5.18", "1.6.36"), ("1.6.35", "1.6.36"), ("1.7.23", "1.7.24"), ("2.0.3", "2.0.4")],
                &["1.6.36", "1.7.24", "2.0.4", "2.1.0", "2.2.0", "2.3.0", "2.4.0"]),
            (34..=34, &[("1.4.13", "1.6.39"), ("1.5.18", "1.6.39"), ("1.6.38", "1.6.39"), ("1.7.27", "1.7.28"), ("2.0.5", "2.0.6"), ("2.1.2", "2.1.3")],
                &["1.6.39", "1.7.28", "2.0.6", "2.1.3", "2.2.0", "2.3.0", "2.4.0"]),
            (35..=35, &[("1.4.13", "1.7.28"), ("1.5.18", "1.7.28"), ("1.6.39", "1.7.28"), ("1.7.27", "1.7.28"), ("2.0.11", "2.1.5"), ("2.1.4", "2.1.5")],
                &["1.7.28", "2.1.5", "2.2.0", "2.3.0", "2.4.0"]),
            (36..=38, &[("1.4.13", "2.2.0"), ("1.5.18", "2.2.0"), ("1.6.39", "2.2.0"), ("1.7.34", "2.2.0"), ("2.0.11", "2.2.0"), ("2.1.9", "2.2.0")],
                &["2.2.0", "2.3.0", "2.4.0"]),
        ];
        let minors = TABLE.iter().flat_map(|(minors, ..)| minors.clone()).collect::<Vec<_>>();
        assert_eq!(minors, (14..=38).collect::<Vec<_>>(), "the table has every minor");
        for (minors, too_old, new_enough) in TABLE {
            let cells = || {
                let refused = too_old.iter().map(|(installed, needed)| (v(installed), Some(v(needed))));
                refused.chain(new_enough.iter().map(|installed| (v(installed), None)))
            };
            for generation in GENERATIONS {
                assert!(
                    cells().any(|(installed, _)| line(installed) == line(generation.first)),
                    "{}",
                    generation.first
                );
            }
            for minor in minors.clone() {
                for (installed, needed) in cells() {
                    assert_eq!(minimum_for(Minor(minor), installed), needed, "1.{minor} with {installed}");
                }
            }
        }
    }

    #[test]
    fn the_pause_image_is_pinned_from_1_6_22_and_1_7_3_on() {
        let table = [
            ("1.5.18", Some("1.6.22")),
            ("1.6.15", Some("1.6.22")),
            ("1.6.21", Some("1.6.22")),
            ("1.6.22", None),
            ("1.7.0", Some("1.7.3")),
            ("1.7.2", Some("1.7.3")),
            ("1.7.3", None),
            ("2.0.0", None),
            ("2.4.0", None),
        ];
        for (installed, needed) in table {
            assert_eq!(needed_to_pin(v(installed)), needed.map(v), "{installed}");
        }
    }

    #[test]
    fn containerd_2_is_too_new_for_kubelets_before_cri_v1() {
        for minor in 14..=37 {
            for generation in GENERATIONS {
                let expected = minor <= 22 && generation.first.major == 2;
                assert_eq!(too_new_for(Minor(minor), generation.newest), expected, "1.{minor} {}", generation.newest);
            }
        }
    }
}

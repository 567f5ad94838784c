//! The settings of containerd that winpool writes on Windows, and who may set each. What is not listed is not written: programs,
//! directories of programs and plugins, templates and specs, endpoints, credentials, and what has no effect on Windows.
//! Annotations of pods reach the shim by the lists of a handler: with `microsoft.com/hostprocess-container` every pod could run as
//! SYSTEM, so only the lists of the built-in handlers are written.
//!
//! Sources: containerd/containerd at 301026e58 (2026-08-22): `internal/cri/config/config.go`, `plugins/gc/scheduler.go`,
//! `plugins/services/diff/local.go`, `plugins/transfer/plugin.go`, `plugins/snapshots/windows`, `plugins/diff`,
//! `core/remotes/docker/config/hosts.go`, `migrateConfig` in `plugins/cri`, `cmd/containerd/server/config/config.go`; at v1.7.34
//! `pkg/cri/config/config.go`; microsoft/hcsshim at 7c9ff7f4 (2026-08-20), `cmd/containerd-shim-runhcs-v1/options/runhcs.proto` and
//! `pkg/annotations/annotations.go`.

use super::{
    containerd::{CERTS_D, CIMFS, CONTAINER_ANNOTATIONS, Key, POD_ANNOTATIONS, RUNTIME_TYPE, SNAPSHOTTER},
    kubelet_fields::Agent,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingType {
    Bool,
    Integer,
    /// An integer or a fraction.
    Number,
    /// A duration in Go's format: `1m30s`.
    Duration,
    /// A name: ASCII letters, digits, `.`, `_`, `-` and `/`.
    Name,
    Names,
    OneOf(&'static [&'static str]),
    ListOf(&'static [&'static str]),
    /// The reference of an image, with ASCII letters, digits and `.`, `_`, `-`, `/`, `:`, `@`.
    Image,
    /// An HTTP address without credentials.
    Endpoint,
    /// A list of such addresses.
    Endpoints,
    /// A file or directory on a volume of the node, with its drive.
    LocalPath,
    /// A directory of which programs are run, or which says what is run: only the one that the node has. Empty: unset.
    NodeDirectory,
    NodeDirectories,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerdSetting {
    pub tables: &'static [Key],
    /// Its path below each of these tables. [`ANY`] stands for any name, [`ENDPOINT`] for an HTTP address.
    pub key: Key,
    pub value: SettingType,
    /// The field of a profile from which winpool sets it; `None` if `extraConfig` may have it.
    pub field: Option<&'static str>,
    pub agent: Agent,
}

/// Any name, as part of a key.
pub const ANY: &str = "*";
/// An HTTP address without credentials, as part of a key.
pub const ENDPOINT: &str = "<endpoint>";

use Agent::{Refuses, Writes};
use SettingType::*;

const TOP: &[Key] = &[&[]];
const IMAGES: &[Key] = &[&["plugins", "io.containerd.grpc.v1.cri"], &["plugins", "io.containerd.cri.v1.images"]];
const RUNTIME: &[Key] = &[&["plugins", "io.containerd.grpc.v1.cri"], &["plugins", "io.containerd.cri.v1.runtime"]];
const RUNTIME_2: &[Key] = &[&["plugins", "io.containerd.cri.v1.runtime"]];
/// The table of CRI settings of 1.x, in 2.x that of the server. 2.x migrates what 1.x has, and nothing else of [`IMAGES_2`].
const SERVER: &[Key] = &[&["plugins", "io.containerd.grpc.v1.cri"]];
const IMAGES_2: &[Key] = &[&["plugins", "io.containerd.cri.v1.images"]];
const HANDLER: &[Key] = &[
    &["plugins", "io.containerd.grpc.v1.cri", "containerd", "runtimes", ANY],
    &["plugins", "io.containerd.cri.v1.runtime", "containerd", "runtimes", ANY],
];
const GC: &[Key] = &[&["plugins", "io.containerd.gc.v1.scheduler"]];
const DIFF: &[Key] = &[&["plugins", "io.containerd.service.v1.diff-service"]];
const TRANSFER: &[Key] = &[&["plugins", "io.containerd.transfer.v1.local"]];

const SNAPSHOTTERS: SettingType = OneOf(&[SNAPSHOTTER, CIMFS, "blockcim"]);
const DIFFERS: &[&str] = &[SNAPSHOTTER, "windows-lcow", CIMFS, "blockcim", "walking"];
const BIN_DIR: &str = "spec.containerd.cni.binDir";
const CONF_DIR: &str = "spec.containerd.cni.confDir";

const fn row(agent: Agent, tables: &'static [Key], key: Key, value: SettingType) -> ContainerdSetting {
    ContainerdSetting { tables, key, value, field: None, agent }
}

impl ContainerdSetting {
    const fn field(self, field: &'static str) -> Self {
        Self { field: Some(field), ..self }
    }
}

#[rustfmt::skip]
pub const SETTINGS: &[ContainerdSetting] = &[
    row(Writes,  TOP,      &["version"], Integer).field("spec.containerd, whose version is that of the node"),
    row(Writes,  TOP,      &["root"], LocalPath).field("spec.containerd.root"),
    // It has no effect on Windows.
    row(Refuses, TOP,      &["oom_score"], Integer),
    row(Refuses, TOP,      &["debug", "level"], OneOf(&["trace", "debug", "info", "warn", "error", "fatal", "panic"])),
    row(Refuses, TOP,      &["debug", "format"], OneOf(&["text", "json"])),
    row(Writes,  TOP,      &["timeouts", ANY], Duration),
    row(Writes,  IMAGES_2, &["snapshotter"], SNAPSHOTTERS),
    row(Writes,  IMAGES_2, &["disable_snapshot_annotations"], Bool),
    row(Writes,  IMAGES_2, &["discard_unpacked_layers"], Bool),
    row(Writes,  SERVER,   &["sandbox_image"], Image),
    row(Writes,  IMAGES_2, &["pinned_images", ANY], Image),
    row(Writes,  IMAGES_2, &["runtime_platforms", ANY, "platform"], Name),
    row(Writes,  IMAGES_2, &["runtime_platforms", ANY, "snapshotter"], SNAPSHOTTERS),
    row(Writes,  IMAGES,   &["registry", "config_path"], OneOf(&[CERTS_D])),
    row(Writes,  IMAGES,   &["registry", "mirrors", ANY, "endpoint"], Endpoints),
    row(Writes,  SERVER,   &["registry", "configs", ANY, "tls", "ca_file"], LocalPath),
    row(Writes,  SERVER,   &["registry", "configs", ANY, "tls", "insecure_skip_verify"], Bool),
    row(Writes,  IMAGES,   &["image_decryption", "key_model"], OneOf(&["", "node"])),
    row(Writes,  IMAGES,   &["max_concurrent_downloads"], Integer),
    row(Writes,  IMAGES_2, &["concurrent_layer_fetch_buffer"], Integer),
    row(Writes,  IMAGES,   &["image_pull_progress_timeout"], Duration),
    row(Writes,  IMAGES,   &["image_pull_with_sync_fs"], Bool),
    row(Writes,  IMAGES,   &["stats_collect_period"], Integer),
    row(Writes,  IMAGES_2, &["use_local_image_pull"], Bool),
    row(Writes,  RUNTIME,  &["containerd", "default_runtime_name"], Name),
    row(Writes,  SERVER,   &["containerd", "snapshotter"], SNAPSHOTTERS),
    row(Writes,  SERVER,   &["containerd", "disable_snapshot_annotations"], Bool),
    row(Writes,  SERVER,   &["containerd", "discard_unpacked_layers"], Bool),
    row(Writes,  RUNTIME,  &["cni", "bin_dir"], NodeDirectory).field(BIN_DIR),
    row(Writes,  RUNTIME,  &["cni", "bin_dirs"], NodeDirectories).field(BIN_DIR),
    row(Writes,  RUNTIME,  &["cni", "conf_dir"], NodeDirectory).field(CONF_DIR),
    row(Writes,  RUNTIME,  &["cni", "max_conf_num"], Integer),
    row(Writes,  RUNTIME,  &["cni", "setup_serially"], Bool),
    row(Writes,  RUNTIME,  &["cni", "ip_pref"], OneOf(&["", "ipv4", "ipv6", "cni"])),
    row(Writes,  RUNTIME,  &["max_container_log_line_size"], Integer),
    row(Writes,  RUNTIME,  &["ignore_image_defined_volumes"], Bool),
    row(Writes,  RUNTIME,  &["drain_exec_sync_io_timeout"], Duration),
    row(Writes,  RUNTIME,  &["ignore_deprecation_warnings"], Names),
    row(Writes,  RUNTIME_2, &["stats_collect_period"], Duration),
    row(Writes,  RUNTIME_2, &["stats_retention_period"], Duration),
    row(Writes,  SERVER,   &["stream_idle_timeout"], Duration),
    row(Writes,  HANDLER,  &["runtime_type"], OneOf(&[RUNTIME_TYPE])),
    row(Writes,  HANDLER,  &["pod_annotations"], ListOf(&[POD_ANNOTATIONS, CONTAINER_ANNOTATIONS])),
    row(Writes,  HANDLER,  &["container_annotations"], ListOf(&[CONTAINER_ANNOTATIONS])),
    row(Writes,  HANDLER,  &["snapshotter"], SNAPSHOTTERS),
    row(Writes,  HANDLER,  &["disable_pause_image_pull"], Bool),
    row(Writes,  HANDLER,  &["options", "Debug"], Bool),
    row(Writes,  HANDLER,  &["options", "DebugType"], Integer),
    row(Writes,  HANDLER,  &["options", "SandboxPlatform"], OneOf(&["windows/amd64", "linux/amd64"])),
    row(Writes,  HANDLER,  &["options", "SandboxIsolation"], Integer),
    row(Writes,  HANDLER,  &["options", "VmProcessorCount"], Integer),
    row(Writes,  HANDLER,  &["options", "VmMemorySizeInMb"], Integer),
    row(Writes,  HANDLER,  &["options", "ScaleCpuLimitsToSandbox"], Bool),
    row(Writes,  HANDLER,  &["options", "DefaultContainerScratchSizeInGb"], Integer),
    row(Writes,  HANDLER,  &["options", "DefaultVmScratchSizeInGb"], Integer),
    row(Writes,  HANDLER,  &["options", "ShareScratch"], Bool),
    row(Writes,  HANDLER,  &["options", "LogLevel"], Name),
    row(Writes,  HANDLER,  &["options", "IoRetryTimeoutInSec"], Integer),
    row(Writes,  HANDLER,  &["options", "NoInheritHostTimezone"], Bool),
    row(Writes,  HANDLER,  &["options", "ScrubLogs"], Bool),
    row(Writes,  GC,       &["pause_threshold"], Number),
    row(Writes,  GC,       &["deletion_threshold"], Integer),
    row(Writes,  GC,       &["mutation_threshold"], Integer),
    row(Writes,  GC,       &["schedule_delay"], Duration),
    row(Writes,  GC,       &["startup_delay"], Duration),
    row(Writes,  DIFF,     &["default"], ListOf(DIFFERS)),
    row(Writes,  DIFF,     &["sync_fs"], Bool),
    row(Writes,  TRANSFER, &["max_concurrent_downloads"], Integer),
    row(Writes,  TRANSFER, &["concurrent_layer_fetch_buffer"], Integer),
    row(Writes,  TRANSFER, &["max_concurrent_uploaded_layers"], Integer),
    row(Writes,  TRANSFER, &["max_concurrent_unpacks"], Integer),
    row(Writes,  TRANSFER, &["check_platform_supported"], Bool),
    row(Writes,  TRANSFER, &["config_path"], OneOf(&[CERTS_D])),
    row(Writes,  TRANSFER, &["unpack_config", "platform"], Name),
    row(Writes,  TRANSFER, &["unpack_config", "snapshotter"], SNAPSHOTTERS),
    row(Writes,  TRANSFER, &["unpack_config", "differ"], OneOf(DIFFERS)),
];

const MIRRORS: &str = "spec.containerd.registryMirrors";
const HOST: &[Key] = &[&["host", ENDPOINT]];

/// The settings of `hosts.toml`: no `client` (keys of certificates), and no `header`.
#[rustfmt::skip]
pub const HOSTS_SETTINGS: &[ContainerdSetting] = &[
    row(Writes, TOP,  &["server"], Endpoint).field(MIRRORS),
    row(Writes, HOST, &["capabilities"], ListOf(&["pull", "resolve"])).field(MIRRORS),
    row(Writes, HOST, &["ca"], LocalPath).field(MIRRORS),
    row(Writes, HOST, &["skip_verify"], Bool).field(MIRRORS),
    row(Writes, HOST, &["override_path"], Bool).field(MIRRORS),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_setting_has_one_row() {
        for rows in [SETTINGS, HOSTS_SETTINGS] {
            let paths: Vec<_> =
                rows.iter().flat_map(|row| row.tables.iter().map(|table| [*table, row.key].concat())).collect();
            assert_eq!(paths.iter().collect::<BTreeSet<_>>().len(), paths.len());
        }
    }

    #[test]
    fn a_directory_of_programs_is_set_only_from_a_field_that_the_agent_compares_with_the_node() {
        for row in SETTINGS {
            let is_directory = row.key.last().is_some_and(|name| name.contains("dir"));
            let is_compared = matches!(row.value, NodeDirectory | NodeDirectories) && row.field.is_some();
            assert_eq!(is_directory, is_compared, "{:?}", row.key);
        }
    }
}

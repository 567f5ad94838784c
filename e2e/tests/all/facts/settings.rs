//! The settings of containerd and of its shim: the tags `toml` of structs in Go, and `runhcs.proto` of microsoft/hcsshim.

use anyhow::{Result, ensure};
use e2e::modules::Module;
use winpool_facts::containerd_settings::{
    ANY, ContainerdSetting, ENDPOINT, HOSTS_SETTINGS, SETTINGS,
    SettingType::{self, Bool, Endpoints, Integer, ListOf, Names, NodeDirectories, Number},
};

use super::{
    containerd::{CONTAINERD, CONTAINERD_1_7, CONTAINERD_2_3, HCSSHIM},
    source::{Source, Table, Upstream, differences},
};

/// The CRI settings of 1.x, in 2.x those of the server.
const CRI: &str = "plugins.io.containerd.grpc.v1.cri";
const IMAGES: &str = "plugins.io.containerd.cri.v1.images";
const RUNTIME: &str = "plugins.io.containerd.cri.v1.runtime";
/// The options of a handler.
const OPTIONS: &str = "containerd.runtimes.*.options";

/// Settings, by their names below a table, that winpool does not write, with their parts.
#[rustfmt::skip]
const NOT_WRITTEN: &[&str] = &[
    // Programs, plugins, and what containers run with.
    "plugins", "disabled_plugins", "required_plugins", "proxy_plugins", "stream_processors", "imports", "cdi_spec_dirs",
    "cni.conf_template", "containerd.default_runtime", "containerd.untrusted_workload_runtime",
    "containerd.runtimes.*.base_runtime_spec", "containerd.runtimes.*.cni_conf_dir", "containerd.runtimes.*.cni_max_conf_num",
    "containerd.runtimes.*.options.*", "containerd.runtimes.*.runtime_engine", "containerd.runtimes.*.runtime_path",
    "containerd.runtimes.*.runtime_root", "containerd.runtimes.*.sandbox_mode", "containerd.runtimes.*.sandboxer",
    "BootFilesRootPath", "DefaultContainerAnnotations", "GPUVHDPath", "NCProxyAddr", "RegistryRoot", "SandboxImage",
    // Directories, endpoints and credentials.
    "state", "temp", "grpc", "ttrpc", "metrics", "debug.address", "debug.uid", "debug.gid", "client", "header",
    "registry.auths", "registry.headers", "registry.configs.*.auth", "registry.configs.*.tls.cert_file",
    "registry.configs.*.tls.key_file", "disable_tcp_service", "enable_tls_streaming", "stream_server_address",
    "stream_server_port", "x509_key_pair_streaming",
    // Without an effect on Windows.
    "cgroup", "disable_cgroup", "systemd_cgroup", "enable_selinux", "selinux_category_range", "disable_apparmor",
    "restrict_oom_score_adj", "disable_proc_mount", "unset_seccomp_profile", "tolerate_missing_hugetlb_controller",
    "disable_hugetlb_controller", "device_ownership_from_security_context", "netns_mounts_under_state_dir",
    "enable_unprivileged_ports", "enable_unprivileged_icmp", "enable_cdi", "enable_criu",
    "enable_experimental_restore_via_create", "cni.use_internal_loopback",
    "containerd.no_pivot", "containerd.ignore_blockio_not_enabled_errors", "containerd.ignore_rdt_not_enabled_errors",
    "containerd.runtimes.*.privileged_without_host_devices", "containerd.runtimes.*.io_type",
    "containerd.runtimes.*.privileged_without_host_devices_all_devices_allowed", "containerd.runtimes.*.cgroup_writable",
    // Of no use here: traces, layers of other types, and a timeout that no field of a profile has.
    "debug.log_trace_id", "unpack_config.config_type", "unpack_config.layer_types", "unpack_config.optional", "dial_timeout",
];

/// Settings of 2.x that it also reads from a file with the table of 1.x.
const MIGRATED: [&str; 2] = ["cni.bin_dirs", "containerd.runtimes.*.disable_pause_image_pull"];

const CRI_FILE: &str = "internal/cri/config/config.go";
const SERVER_FILE: &str = "cmd/containerd/server/config/config.go";
const HOSTS_FILE: &str = "core/remotes/docker/config/hosts.go";

/// The table of settings, and the structs with them: release, file, name. Of several releases, the rows are of any.
type Structs = (&'static str, &'static [(Module, &'static str, &'static str)]);

/// The tables of the main file and its drop-ins; the top of the file has no name.
#[rustfmt::skip]
const STRUCTS: [Structs; 7] = [
    (IMAGES, &[(CONTAINERD, CRI_FILE, "ImageConfig"), (CONTAINERD_2_3, CRI_FILE, "ImageConfig")]),
    (RUNTIME, &[(CONTAINERD, CRI_FILE, "RuntimeConfig"), (CONTAINERD_2_3, CRI_FILE, "RuntimeConfig")]),
    (CRI, &[(CONTAINERD, CRI_FILE, "ServerConfig"), (CONTAINERD_1_7, "pkg/cri/config/config.go", "PluginConfig")]),
    ("", &[(CONTAINERD, SERVER_FILE, "Config"), (CONTAINERD_2_3, SERVER_FILE, "Config")]),
    ("plugins.io.containerd.gc.v1.scheduler", &[(CONTAINERD, "plugins/gc/scheduler.go", "config")]),
    ("plugins.io.containerd.service.v1.diff-service", &[(CONTAINERD, "plugins/services/diff/local.go", "config")]),
    ("plugins.io.containerd.transfer.v1.local", &[(CONTAINERD, "plugins/transfer/plugin.go", "transferConfig")]),
];

/// Compares the settings of the main file, of `hosts.toml`, and the options of handlers.
pub fn settings() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (table, structs) in STRUCTS {
        found.extend(compare(table, of_structs(structs)?, own(SETTINGS, table)));
    }
    let hosts = of_structs(&[(CONTAINERD, HOSTS_FILE, "hostFileConfig")])?;
    found.extend(compare("host.*", hosts, own(HOSTS_SETTINGS, "host.*")));
    let table = format!("{RUNTIME}.{OPTIONS}");
    found.extend(compare(&table, options()?, own(SETTINGS, &table)));
    Ok(found)
}

/// The differences, without settings that winpool does not write.
fn compare(table: &str, mut upstream: Upstream, own: Table) -> Vec<String> {
    let is_below =
        |name: &str, of: &str| name.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    upstream.retain(|name, _| own.contains_key(name) || !NOT_WRITTEN.iter().any(|of| is_below(name, of)));
    for (name, (kind, _)) in &mut upstream {
        if let Some(own) = own.get(name).filter(|_| ["any", "interface{}"].contains(&kind.as_str())) {
            kind.clone_from(own);
        }
    }
    differences(&upstream, &own).into_iter().map(|text| format!("[{table}] {text}")).collect()
}

/// The settings of a table, with their types in Go.
fn own(rows: &[ContainerdSetting], table: &str) -> Table {
    let part = |part: &&str| if [ANY, ENDPOINT].contains(part) { "*" } else { *part }.to_owned();
    let path = |parts: Vec<&str>| parts.iter().map(part).collect::<Vec<_>>().join(".");
    let below = |path: String| match table {
        "" => Some(path),
        table => path.strip_prefix(table)?.strip_prefix('.').map(str::to_owned),
    };
    let is_of_other_struct = |name: &str| {
        name.starts_with("plugins.")
            || name.starts_with(&format!("{OPTIONS}."))
            || table == CRI && MIGRATED.contains(&name)
    };
    let paths =
        rows.iter().flat_map(|row| row.tables.iter().map(move |table| (path([*table, row.key].concat()), row.value)));
    let named = paths.filter_map(|(path, value)| Some((below(path)?, type_of(value).to_owned())));
    named.filter(|(name, _)| !is_of_other_struct(name)).collect()
}

/// The type in Go of a value.
fn type_of(value: SettingType) -> &'static str {
    match value {
        Bool => "bool",
        Integer => "int",
        Number => "float64",
        Names | ListOf(_) | NodeDirectories | Endpoints => "[]string",
        _ => "string",
    }
}

fn of_structs(structs: &[(Module, &str, &str)]) -> Result<Upstream> {
    let mut found = Upstream::new();
    for (module, path, root) in structs {
        let fields = fields(&Source::read(*module, path)?, root)?;
        ensure!(!fields.is_empty(), "no settings of {root} in {path}");
        found.extend(fields);
    }
    Ok(found)
}

/// The settings of a struct and of the structs of its fields: ``Name type `toml:"tag,omitempty"` ``, or embedded without a name.
fn fields(source: &Source, root: &str) -> Result<Upstream> {
    let Ok(body) = source.part(&format!("\ntype {root} struct {{"), "\n}") else { return Ok(Upstream::new()) };
    let mut found = Upstream::new();
    let pattern = r#"^\s*(?:\w+ +)?([^\s/]+) +`[^`]*toml:"([^",]+)"#;
    for (tag, (kind, place)) in body.rows(pattern, |captures| Some((captures[2].to_owned(), captures[1].to_owned())))? {
        let kind = kind.trim_start_matches('*');
        let (name, kind) = match kind.strip_prefix("map[string]") {
            Some(kind) => (format!("{tag}.*"), kind),
            None => (tag, kind),
        };
        let parts = fields(source, kind.trim_start_matches("[]").trim_start_matches('*'))?;
        if parts.is_empty() {
            found.insert(name.clone(), (kind.replace("tomlext.Duration", "string"), place));
        }
        found.extend(parts.into_iter().map(|(part, value)| (format!("{name}.{part}"), value)));
    }
    Ok(found)
}

/// The options of handlers.
fn options() -> Result<Upstream> {
    let source = Source::read(HCSSHIM, "cmd/containerd-shim-runhcs-v1/options/runhcs.proto")?;
    let capitalized = |word: &str| word.split_at_checked(1).map(|(first, rest)| first.to_uppercase() + rest);
    // Lines of enumerations have a deeper indentation.
    source.part("message Options {", "\n}")?.rows(r"^\t(?:optional )?(\w+|map<.*>) (\w+) = \d+;", |captures| {
        let kind = if ["bool", "string"].contains(&&captures[1]) { &captures[1] } else { "int" };
        Some((captures[2].split('_').filter_map(capitalized).collect(), kind.to_owned()))
    })
}

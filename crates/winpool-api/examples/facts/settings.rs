//! The settings of containerd and of its shim: the tags `toml` of structs in Go, and `runhcs.proto` of microsoft/hcsshim.

use std::collections::BTreeMap;

use winpool_api::facts::containerd_settings::{
    ANY, ContainerdSetting, ENDPOINT, HOSTS_SETTINGS, SETTINGS,
    SettingType::{self, Bool, Endpoints, Integer, ListOf, Names, NodeDirectories, Number},
};

use super::Comparison;

/// The CRI settings of 1.x, in 2.x those of the server; below it, the options of a handler.
const CRI: &str = "plugins.io.containerd.grpc.v1.cri";
const IMAGES: &str = "plugins.io.containerd.cri.v1.images";
const RUNTIME: &str = "plugins.io.containerd.cri.v1.runtime";
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
    "enable_unprivileged_ports", "enable_unprivileged_icmp", "enable_cdi", "enable_criu", "cni.use_internal_loopback",
    "containerd.no_pivot", "containerd.ignore_blockio_not_enabled_errors", "containerd.ignore_rdt_not_enabled_errors",
    "containerd.runtimes.*.privileged_without_host_devices", "containerd.runtimes.*.io_type",
    "containerd.runtimes.*.privileged_without_host_devices_all_devices_allowed", "containerd.runtimes.*.cgroup_writable",
    // Of no use here: traces, layers of other types, and a timeout that no field of a profile has.
    "debug.log_trace_id", "unpack_config.config_type", "unpack_config.layer_types", "unpack_config.optional", "dial_timeout",
];

/// Settings of 2.x that it also reads from a file with the table of 1.x.
const MIGRATED: [&str; 2] = ["cni.bin_dirs", "containerd.runtimes.*.disable_pause_image_pull"];

/// Compares `internal/cri/config/config.go` of 2.x.
pub fn cri(text: &str) -> Comparison {
    let parts = [
        compare(text, "ImageConfig", SETTINGS, IMAGES)?,
        compare(text, "RuntimeConfig", SETTINGS, RUNTIME)?,
        // What only 1.x has is in the same table.
        compare(text, "ServerConfig", SETTINGS, CRI)?.into_iter().filter(|text| !text.ends_with(MISSING)).collect(),
    ];
    Ok(parts.concat())
}

/// Compares `pkg/cri/config/config.go` of 1.7.
pub fn cri_1_7(text: &str) -> Comparison {
    let is_migrated = |text: &String| MIGRATED.iter().any(|name| text.ends_with(&format!("{name} {MISSING}")));
    Ok(compare(text, "PluginConfig", SETTINGS, CRI)?.into_iter().filter(|text| !is_migrated(text)).collect())
}

/// Compares `cmd/containerd/server/config/config.go`.
pub fn server(text: &str) -> Comparison {
    compare(text, "Config", SETTINGS, "")
}

/// Compares `plugins/gc/scheduler.go`.
pub fn gc(text: &str) -> Comparison {
    compare(text, "config", SETTINGS, "plugins.io.containerd.gc.v1.scheduler")
}

/// Compares `plugins/services/diff/local.go`.
pub fn diff(text: &str) -> Comparison {
    compare(text, "config", SETTINGS, "plugins.io.containerd.service.v1.diff-service")
}

/// Compares `plugins/transfer/plugin.go`.
pub fn transfer(text: &str) -> Comparison {
    compare(text, "transferConfig", SETTINGS, "plugins.io.containerd.transfer.v1.local")
}

/// Compares `core/remotes/docker/config/hosts.go`.
pub fn hosts(text: &str) -> Comparison {
    compare(text, "hostFileConfig", HOSTS_SETTINGS, "host.*")
}

/// Compares the options of handlers in `runhcs.proto`.
pub fn options(text: &str) -> Comparison {
    let body = text.split_once("message Options {").and_then(|(_, rest)| rest.split_once("\n}"));
    let (body, _) = body.ok_or("no message Options")?;
    // Lines of enumerations have a deeper indentation.
    let field = |line: &str| {
        let declared =
            line.strip_prefix('\t').filter(|line| line.starts_with(|char: char| char.is_ascii_alphabetic()))?;
        let mut words = declared.split(" = ").next()?.rsplit(' ');
        let (name, kind) = (words.next()?, words.next()?);
        let name: String = name.split('_').map(capitalized).collect();
        let kind = if ["bool", "string"].contains(&kind) { kind } else { "int" };
        declared.contains(" = ").then(|| (name, kind.to_owned()))
    };
    Ok(differences(
        &format!("{RUNTIME}.{OPTIONS}"),
        body.lines().filter_map(field).collect(),
        own(SETTINGS, &format!("{RUNTIME}.{OPTIONS}")),
    ))
}

fn capitalized(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_uppercase() + rest
}

/// The names of settings below a table, and the types of their values in Go.
type Types = BTreeMap<String, String>;

/// The end of the difference of a setting that upstream has not.
const MISSING: &str = "does not exist upstream";

/// Compares the settings of a struct with those below a table.
fn compare(text: &str, root: &str, rows: &[ContainerdSetting], table: &str) -> Comparison {
    let upstream = settings(text, root);
    if upstream.is_empty() {
        return Err(format!("no settings of {root}"));
    }
    let mut own = own(rows, table);
    // Of other files.
    own.retain(|name, _| !name.starts_with("plugins.") && !name.starts_with(&format!("{OPTIONS}.")));
    Ok(differences(table, upstream, own))
}

fn differences(table: &str, upstream: Types, own: Types) -> Vec<String> {
    let is_below =
        |name: &str, of: &str| name.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let new = upstream
        .iter()
        .filter(|(name, _)| !own.contains_key(*name) && !NOT_WRITTEN.iter().any(|of| is_below(name, of)));
    let new = new.map(|(name, kind)| format!("{table}: {name}, of type {kind}, is missing"));
    let other = own.iter().filter_map(|(name, kind)| match upstream.get(name) {
        None => Some(format!("{table}: {name} {MISSING}")),
        Some(upstream) if upstream == kind || upstream == "any" || upstream == "interface{}" => None,
        Some(upstream) => Some(format!("{table}: {name} is of type {upstream} upstream, not {kind}")),
    });
    new.chain(other).collect()
}

/// The settings of a table.
fn own(rows: &[ContainerdSetting], table: &str) -> Types {
    let part = |part: &&str| if [ANY, ENDPOINT].contains(part) { "*" } else { *part }.to_owned();
    let path = |parts: Vec<&str>| parts.iter().map(part).collect::<Vec<_>>().join(".");
    let below = |path: String| match table {
        "" => Some(path),
        table => path.strip_prefix(table)?.strip_prefix('.').map(str::to_owned),
    };
    let paths =
        rows.iter().flat_map(|row| row.tables.iter().map(move |table| (path([*table, row.key].concat()), row.value)));
    paths.filter_map(|(path, value)| Some((below(path)?, type_of(value).to_owned()))).collect()
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

/// The settings of a struct and of the structs of its fields.
fn settings(text: &str, root: &str) -> Types {
    let body = text.split_once(&format!("\ntype {root} struct {{")).and_then(|(_, rest)| rest.split_once("\n}"));
    let fields = body.map(|(body, _)| body).unwrap_or_default().lines().filter_map(field);
    let with_parts = |(tag, kind): (&str, &str)| {
        let kind = kind.trim_start_matches('*');
        let (name, kind) = match kind.strip_prefix("map[string]") {
            Some(kind) => (format!("{tag}.*"), kind),
            None => (tag.to_owned(), kind),
        };
        let parts = settings(text, kind.trim_start_matches("[]").trim_start_matches('*'));
        let kind = kind.replace("tomlext.Duration", "string");
        if parts.is_empty() {
            vec![(name, kind)]
        } else {
            parts.into_iter().map(|(part, kind)| (format!("{name}.{part}"), kind)).collect()
        }
    };
    fields.flat_map(with_parts).collect()
}

/// The tag and the type of a field: ``Name type `toml:"tag,omitempty"` `` or, embedded, ``type `toml:"tag"` ``.
fn field(line: &str) -> Option<(&str, &str)> {
    let (declared, tags) = line.trim_start().split_once('`')?;
    let tag = tags.split("toml:\"").nth(1)?.split(['"', ',']).next()?;
    (!declared.starts_with("//")).then_some((tag, declared.split_whitespace().next_back()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GC: &str = "type config struct {\n\t// Old `toml:\"gone\"`\n\tPauseThreshold float64 `toml:\"pause_threshold\"`\n\
                      \tDeletionThreshold int `toml:\"deletion_threshold\"`\n\tMutationThreshold int `toml:\"mutation_threshold\"`\n\
                      \tScheduleDelay tomlext.Duration `toml:\"schedule_delay\"`\n\tStartupDelay tomlext.Duration `toml:\"startup_delay\"`\n}\n";

    #[test]
    fn added_removed_and_changed_settings_are_differences() {
        let found =
            |change: (&str, &str)| gc(&format!("package scheduler\n{}", GC.replace(change.0, change.1))).unwrap();
        let table: [((&str, &str), &[&str]); 4] = [
            (("", ""), &[]),
            (("\tDeletion", "\tNew *bool `toml:\"new\"`\n\tDeletion"), &["new, of type bool, is missing"]),
            (("mutation_threshold", "cgroup"), &["mutation_threshold does not exist upstream"]),
            (("float64", "int"), &["pause_threshold is of type int upstream, not float64"]),
        ];
        for (change, expected) in table {
            let expected: Vec<_> =
                expected.iter().map(|text| format!("plugins.io.containerd.gc.v1.scheduler: {text}")).collect();
            assert_eq!(found(change), expected);
        }
        assert!(gc("package scheduler").is_err());
    }

    #[test]
    fn the_settings_of_parts_have_the_names_of_their_tables() {
        let text = "\ntype A struct {\n\tB `toml:\"b\"`\n\tC map[string]C `toml:\"c,omitempty\"`\n\tD []*C `toml:\"d\"`\n\
                    \tE map[string][]string `toml:\"e\"`\n}\ntype B struct {\n\tX *int `toml:\"x\"`\n}\n\
                    type C struct {\n\tY string `toml:\"y\"`\n}\n";
        let names: Vec<_> = settings(text, "A").into_iter().collect();
        let expected = [("b.x", "int"), ("c.*.y", "string"), ("d.y", "string"), ("e.*", "[]string")];
        assert_eq!(names, expected.map(|(name, kind)| (name.to_owned(), kind.to_owned())));
    }

    #[test]
    fn another_option_of_a_handler_is_a_difference() {
        let own = own(SETTINGS, &format!("{RUNTIME}.{OPTIONS}"));
        let snake = |name: &str| {
            let parts = name.char_indices().map(|(at, char)| match char.is_ascii_uppercase() && at > 0 {
                true => format!("_{}", char.to_ascii_lowercase()),
                false => char.to_ascii_lowercase().to_string(),
            });
            parts.collect::<String>()
        };
        let field = |(name, kind): (&String, &String)| {
            format!("\t{} {} = 1;\n", if kind == "int" { "int32" } else { kind }, snake(name))
        };
        let fields: String = own.iter().map(field).collect();
        let message =
            |fields: &str| format!("message Options {{\n{fields}\tenum DebugType {{\n\t\tNPIPE = 0;\n\t}}\n}}\n");
        assert_eq!(options(&message(&fields)), Ok(Vec::new()));
        let found = options(&message(&format!("{fields}\toptional bool new_option = 30;\n"))).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].ends_with("options: NewOption, of type bool, is missing"), "{found:?}");
        assert!(options("syntax").is_err());
    }
}

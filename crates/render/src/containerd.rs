//! The configuration of containerd on a Windows node: a layer to merge into the node's file, or the complete file.
//!
//! The paths of settings are in [`winpool_facts::containerd`] and [`winpool_facts::layers`]. The complete file has the
//! handlers and options of containerd's defaults for Windows.

use toml::{Table, Value};
use winpool_api::ContainerdSettings;
use winpool_core::Problem;
use winpool_facts::{
    Build, ContainerdVersion,
    containerd::{self as facts, CniBin, DropIn, Key, Keys, ReleaseLine},
    layers::DROP_IN_VERSION,
};

use super::{Scope, comment_lines, hosts};
use crate::{profile::selects_cimfs, toml_layer::merge};

const WHOLE: &str = "Configuration of containerd on Windows: C:\\Program Files\\containerd\\config.toml\n\
                     Restart containerd to apply it.";
const DROP_IN: &str = "Partial configuration of containerd on Windows. Other settings are unchanged.\n\
                       Save it as C:\\Program Files\\containerd\\conf.d\\50-winpool.toml. The main file config.toml requires\n\
                       version = 3 or later, and imports = ['C:\\Program Files\\containerd\\conf.d\\*.toml'].\n\
                       Tables are merged, lists and other values are replaced.\n\
                       Restart containerd to apply it.";
const TO_BE_MERGED: &str = "Partial configuration of containerd on Windows. Other settings are unchanged.\n\
                            Merge it into C:\\Program Files\\containerd\\config.toml, which requires version = 2: merge tables,\n\
                            replace lists and other values. Do not import it: a drop-in of containerd 1.x replaces all\n\
                            settings of a plugin, including network and handlers.\n\
                            Restart containerd to apply it.";

#[derive(Clone, Copy, Debug)]
pub struct ContainerdInput<'a> {
    /// The version on the node. Only major and minor are relevant.
    pub version: ContainerdVersion,
    /// The pause image, with its tag; `None` leaves that of the node.
    pub pause_image: Option<&'a str>,
    /// The settings of a profile. The mirrors are in separate files ([`hosts::hosts`]).
    pub settings: &'a ContainerdSettings,
    /// The parsed `extraConfig`, which is merged last.
    pub extra: &'a Table,
}

/// The content of the configuration file.
pub fn toml(input: &ContainerdInput, scope: Scope) -> Result<String, Problem> {
    let line = release_line(input.version)?;
    let (comment, file) = checked(input, line, scope)?;
    Ok(format!("{}\n{file}", comment_lines(comment)))
}

/// How a release line reads settings that are added to its main file.
pub fn drop_in(version: ContainerdVersion) -> Result<DropIn, Problem> {
    Ok(release_line(version)?.drop_in)
}

/// The partial settings merged into an existing main file. Comments of that file are not kept.
pub fn merged_into(main: &str, path: &str, input: &ContainerdInput) -> Result<String, Problem> {
    let mut file: Table = main.parse().map_err(|error: toml::de::Error| {
        Problem::new(path, format!("the file is not TOML: {}", error.message()), "correct the file")
    })?;
    let (_, layer) = checked(input, release_line(input.version)?, Scope::Layer)?;
    merge(&mut file, &layer).map_err(|key| {
        let wrong = format!("{key} has another type than in the configuration of containerd {}", input.version);
        Problem::new(path, wrong, "correct the file")
    })?;
    Ok(file.to_string())
}

/// The snapshotter with which nodes of a build do not work.
pub fn snapshotter_problem(extra: &Table, host: Build) -> Option<Problem> {
    let wrong = match host {
        _ if !selects_cimfs(extra) => return None,
        facts::CIMFS_STOPS_NODES => format!(
            "Windows {host} stops with a blue screen while it pulls several images with the snapshotter cimfs (microsoft/hcsshim#2625)"
        ),
        _ if host < facts::CIMFS_SINCE => format!("containerd does not load the snapshotter cimfs on Windows {host}"),
        _ => return None,
    };
    Some(Problem::new(
        "spec.containerd.extraConfig",
        wrong,
        "remove the snapshotter, or use another profile for these nodes",
    ))
}

fn release_line(version: ContainerdVersion) -> Result<&'static ReleaseLine, Problem> {
    facts::release_line(version).ok_or_else(|| {
        let wrong = match version < facts::OLDEST {
            true => format!("containerd {version} is older than {}, the oldest that winpool configures", facts::OLDEST),
            false => format!("the configuration format of containerd {version} is unknown"),
        };
        Problem::new("status.nodeInfo.containerRuntimeVersion", wrong, "install a supported containerd, such as 2.3")
    })
}

fn checked(input: &ContainerdInput, line: &ReleaseLine, scope: Scope) -> Result<(&'static str, Table), Problem> {
    match hosts::problem(&input.settings.registry_mirrors, line) {
        Some(problem) => Err(problem),
        None => render(input, line, scope),
    }
}

struct Setting {
    key: fn(&Keys) -> Key,
    /// Its value by the profile; `None` leaves that of the node.
    desired: fn(&ContainerdInput) -> Option<Value>,
    /// Its value in the complete file if the profile has none.
    default: Option<&'static str>,
}

const fn setting(
    key: fn(&Keys) -> Key,
    desired: fn(&ContainerdInput) -> Option<Value>,
    default: Option<&'static str>,
) -> Setting {
    Setting { key, desired, default }
}

/// The settings whose notation is the same in all release lines. A further field of a profile is a row.
#[rustfmt::skip]
const SETTINGS: &[Setting] = &[
    setting(|_| &["root"],                     |input| text(&input.settings.root),                        Some(facts::ROOT)),
    setting(|_| &["state"],                    |_| None,                                                  Some(facts::STATE)),
    setting(|keys| keys.grpc_address,          |_| None,                                                  Some(facts::PIPE)),
    setting(|keys| keys.sandbox_image,         |input| input.pause_image.map(Value::from),                None),
    setting(|keys| keys.pull_progress_timeout, |input| text(&input.settings.image_pull_progress_timeout), None),
    setting(|keys| keys.snapshotter,           |_| None,                                                  Some(facts::SNAPSHOTTER)),
    setting(|keys| keys.default_runtime_name,  |_| None,                                                  Some(facts::PROCESS_HANDLER)),
    setting(|keys| keys.registry_config_path,  |input| certs_d(input.settings),                           Some(facts::CERTS_D)),
    setting(|keys| keys.cni_conf_dir,          |input| text(&input.settings.cni.conf_dir),                Some(facts::CNI_CONF_DIR)),
];

fn text(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| text.into())
}

fn certs_d(settings: &ContainerdSettings) -> Option<Value> {
    (!settings.registry_mirrors.is_empty()).then(|| facts::CERTS_D.into())
}

fn render(input: &ContainerdInput, line: &ReleaseLine, scope: Scope) -> Result<(&'static str, Table), Problem> {
    let (comment, version) = match (scope, line.drop_in) {
        (Scope::Whole, _) => (WHOLE, line.config_version),
        (Scope::Layer, DropIn::DeepMerge) => (DROP_IN, DROP_IN_VERSION),
        (Scope::Layer, DropIn::ReplacesSection) => (TO_BE_MERGED, line.config_version),
    };
    let is_whole = scope == Scope::Whole;
    let mut file = Table::new();
    set(&mut file, &["version"], version);
    if is_whole && line.imports_drop_ins {
        set(&mut file, &["imports"], vec![facts::DROP_INS]);
    }
    for Setting { key, desired, default } in SETTINGS {
        let default = default.filter(|_| is_whole).map(Value::from);
        if let Some(value) = desired(input).or(default) {
            set(&mut file, key(line.keys), value);
        }
    }
    cni_bin(&mut file, line, &input.settings.cni.bin_dir, scope);
    // containerd 1.x has its own handlers only if the file contains none.
    let drops_handlers = line.drop_in == DropIn::ReplacesSection && value_at(input.extra, line.keys.runtimes).is_some();
    if is_whole || drops_handlers {
        handlers(&mut file, line);
    }
    if is_whole {
        set(&mut file, facts::DIFFERS, vec![facts::SNAPSHOTTER]);
    }
    merge(&mut file, input.extra).map_err(|path| {
        let wrong = format!("{path} has another type in the configuration of containerd {}", input.version);
        Problem::new("spec.containerd.extraConfig", wrong, "correct the path, or remove it")
    })?;
    Ok((comment, file))
}

/// The value at a path; `None` for the empty path.
pub fn value_at<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(table.get(*first)?, |value, key| value.get(key))
}

/// Whether the files of a containerd set the directory of the CNI only with the key that ends with [`facts::WITHOUT_BIN_DIR`]. Texts that
/// are no TOML set nothing.
pub fn loses_bin_dir<T: AsRef<str>>(files: &[T]) -> bool {
    let files: Vec<Table> = files.iter().filter_map(|text| text.as_ref().parse().ok()).collect();
    let has = |path, is_set: fn(&Value) -> bool| files.iter().filter_map(|file| value_at(file, path)).any(is_set);
    has(facts::BIN_DIR, |value| value.as_str().is_some_and(|path| !path.is_empty()))
        && !has(facts::BIN_DIRS, |value| value.as_array().is_some_and(|list| !list.is_empty()))
}

fn set(table: &mut Table, path: &[&str], value: impl Into<Value>) {
    match path {
        [] => {}
        [key] => drop(table.insert((*key).to_owned(), value.into())),
        [name, rest @ ..] => {
            if let Value::Table(inner) = table.entry(*name).or_insert_with(|| Table::new().into()) {
                set(inner, rest, value);
            }
        }
    }
}

/// The directory of CNI plugins, a list in later release lines.
fn cni_bin(file: &mut Table, line: &ReleaseLine, directory: &str, scope: Scope) {
    let directory = match (directory, scope) {
        ("", Scope::Layer) => return,
        ("", Scope::Whole) => facts::CNI_BIN_DIR,
        (directory, _) => directory,
    };
    match line.keys.cni_bin {
        CniBin::Directory(key) => set(file, key, directory),
        CniBin::Directories(key) => {
            // containerd accepts only one of the two settings, and the main file may have the older one, which 2.4 does not read.
            if scope == Scope::Layer && line.first < facts::WITHOUT_BIN_DIR {
                set(file, facts::BIN_DIR, "");
            }
            set(file, key, vec![directory]);
        }
    }
}

fn handlers(file: &mut Table, line: &ReleaseLine) {
    for (handler, hyperv) in [(facts::PROCESS_HANDLER, false), (facts::HYPERV_HANDLER, true)] {
        let mut set = |keys: &[&str], value: Value| {
            set(file, &[line.keys.runtimes, &[handler], keys].concat(), value);
        };
        set(&["runtime_type"], facts::RUNTIME_TYPE.into());
        set(&["container_annotations"], vec![facts::CONTAINER_ANNOTATIONS].into());
        if hyperv {
            set(&["pod_annotations"], vec![facts::POD_ANNOTATIONS].into());
            set(&["options", "SandboxIsolation"], facts::SANDBOX_ISOLATION_HYPERV.into());
            set(&["options", "ScaleCpuLimitsToSandbox"], true.into());
        }
        // In containerd's defaults from 1.7.35, 2.0.13, 2.2.7 and 2.3.4 on; all shims know it.
        set(&["options", "ScrubLogs"], true.into());
    }
}

#[cfg(test)]
mod tests;

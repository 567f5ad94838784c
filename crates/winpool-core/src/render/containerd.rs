//! The configuration of containerd on a Windows node: a layer to merge into the node's file, or the complete file.
//!
//! The paths of settings are in [`winpool_api::facts::containerd`] and [`winpool_api::facts::layers`]. The complete file has the
//! handlers and options of containerd's defaults for Windows.

use toml::{Table, Value};
use winpool_api::{
    ContainerdSettings,
    facts::{
        Build, ContainerdVersion,
        containerd::{self as facts, CniBin, DropIn, ReleaseLine},
        layers::{self, DROP_IN_VERSION},
    },
};

use super::{Scope, comment_lines, hosts};
use crate::{Problem, profile::selects_cimfs};

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

/// The input of the configuration.
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
///
/// # Errors
/// An unknown version, or settings that this version cannot read.
pub fn toml(input: &ContainerdInput, scope: Scope) -> Result<String, Problem> {
    let line = release_line(input.version)?;
    let (comment, file) = checked(input, line, scope)?;
    Ok(format!("{}\n{file}", comment_lines(comment)))
}

/// How a release line reads settings that are added to its main file.
///
/// # Errors
/// An unknown version.
pub fn drop_in(version: ContainerdVersion) -> Result<DropIn, Problem> {
    Ok(release_line(version)?.drop_in)
}

/// The partial settings merged into an existing main file. Comments of that file are not kept.
///
/// # Errors
/// Those of [`toml()`], and a file that cannot be parsed or has another structure.
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

fn render(input: &ContainerdInput, line: &ReleaseLine, scope: Scope) -> Result<(&'static str, Table), Problem> {
    let ContainerdInput { version, pause_image, settings, extra } = *input;
    let keys = line.keys;
    let (comment, mut file) = start(line, settings, scope);
    if let Some(image) = pause_image {
        set(&mut file, keys.sandbox_image, image);
    }
    set(&mut file, keys.pull_progress_timeout, &*settings.image_pull_progress_timeout);
    if scope == Scope::Whole {
        set(&mut file, keys.snapshotter, facts::SNAPSHOTTER);
        set(&mut file, keys.default_runtime_name, facts::PROCESS_HANDLER);
    }
    if scope == Scope::Whole || !settings.registry_mirrors.is_empty() {
        set(&mut file, keys.registry_config_path, facts::CERTS_D);
    }
    if scope == Scope::Whole {
        handlers(&mut file, line);
    }
    cni(&mut file, line, settings, scope);
    if scope == Scope::Whole {
        set(&mut file, facts::DIFFERS, vec![facts::SNAPSHOTTER]);
    }
    merge(&mut file, extra).map_err(|path| {
        let wrong = format!("{path} has another type in the configuration of containerd {version}");
        Problem::new("spec.containerd.extraConfig", wrong, "correct the path, or remove it")
    })?;
    Ok((comment, file))
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

/// Merges tables recursively. Other values are replaced.
///
/// # Errors
/// The path of an entry that is a table in only one of the two.
fn merge(table: &mut Table, over: &Table) -> Result<(), String> {
    for (name, value) in over {
        match (table.get_mut(name), value) {
            (Some(Value::Table(inner)), Value::Table(over)) => {
                merge(inner, over).map_err(|path| format!("{name}.{path}"))?;
            }
            (Some(old), new) if old.is_table() != new.is_table() => return Err(name.clone()),
            (_, new) => drop(table.insert(name.clone(), new.clone())),
        }
    }
    Ok(())
}

/// The comment and the first entries of the file.
fn start(line: &ReleaseLine, settings: &ContainerdSettings, scope: Scope) -> (&'static str, Table) {
    let (comment, version) = match (scope, line.drop_in) {
        (Scope::Whole, _) => (WHOLE, line.config_version),
        (Scope::Layer, DropIn::DeepMerge) => (DROP_IN, DROP_IN_VERSION),
        (Scope::Layer, DropIn::ReplacesSection) => (TO_BE_MERGED, line.config_version),
    };
    let mut file = Table::new();
    set(&mut file, &["version"], version);
    if scope == Scope::Whole || !settings.root.is_empty() {
        set(&mut file, &["root"], or_default(&settings.root, facts::ROOT));
    }
    if scope == Scope::Whole {
        set(&mut file, &["state"], facts::STATE);
        if line.imports_drop_ins {
            set(&mut file, &["imports"], vec![facts::DROP_INS]);
        }
        set(&mut file, &[line.keys.grpc, &["address"]].concat(), facts::PIPE);
    }
    (comment, file)
}

/// The directories of CNI plugins and their configuration.
fn cni(file: &mut Table, line: &ReleaseLine, settings: &ContainerdSettings, scope: Scope) {
    if scope == Scope::Whole || !settings.cni.bin_dir.is_empty() {
        let bin_dir = or_default(&settings.cni.bin_dir, facts::CNI_BIN_DIR);
        match line.keys.cni_bin {
            CniBin::Directory(key) => set(file, key, bin_dir),
            CniBin::Directories(key) => {
                // containerd accepts only one of the two settings, and the main file may have the older one, which 2.4 does not read.
                if scope == Scope::Layer && line.first < layers::WITHOUT_CNI_BIN_DIR {
                    set(file, layers::CNI_BIN_DIR, "");
                }
                set(file, key, vec![bin_dir]);
            }
        }
    }
    if scope == Scope::Whole || !settings.cni.conf_dir.is_empty() {
        set(file, line.keys.cni_conf_dir, or_default(&settings.cni.conf_dir, facts::CNI_CONF_DIR));
    }
}

fn or_default<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

/// The handlers for process and for Hyper-V isolation.
fn handlers(file: &mut Table, line: &ReleaseLine) {
    let scrub_logs = line.first >= facts::SCRUB_LOGS_SINCE;
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
        if scrub_logs {
            set(&["options", "ScrubLogs"], true.into());
        }
    }
}

#[cfg(test)]
mod tests;

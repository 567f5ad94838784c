//! The changes of containerd's configuration: a drop-in where it merges drop-ins, else the main file; and the mirrors
//! of registries.
//!
//! Source: containerd/containerd v2.3.4, `cmd/containerd/server/config/config.go`: `resolveImports` (paths are relative
//! to the file, `*` is a pattern), `mergeConfig`, and the check that a drop-in's version is not above that of the main
//! file; `internal/cri/config/config.go` (`mirrors` cannot be set together with `config_path`) and
//! `internal/cri/server/images/image_pull.go` (`config_path` is a list of directories).

use toml::{Table, Value};
use winpool_facts::{
    containerd::{CNI_BIN_DIR, CNI_CONF_DIR, DropIn, Keys, PIPE, release_line},
    containerd_settings::{ContainerdSetting, HOSTS_SETTINGS, SETTINGS},
};
use winpool_render::{
    containerd::value_at,
    profile::{is_windows_path, local_paths, node_directories},
    toml_layer,
};

use super::{
    changes::{self, Changes},
    record::{Component, Format},
};
use crate::{
    change_plan::{Refusal, RefusalReason, RuntimeCheck},
    host::Host,
    layout::{ContainerdLayout, Layout, LayoutKind, absolute, directory},
    merge::{allowed::AllowedConfiguration, toml as file},
    refuse::{list, refuse, unreadable},
};

pub const DROP_IN: &str = "50-winpool.toml";
pub(super) const HOSTS_FILE: &str = "hosts.toml";
/// The directory of drop-ins beside `config.toml`, which containerd's own default configuration imports from 2.2 on.
const DROP_INS: &str = "conf.d";
/// The lowest version of a main file with drop-ins of version 3.
const VERSION: i64 = 3;
/// The only version of 1.x in which `[plugins."io.containerd.grpc.v1.cri"]` is read.
const VERSION_OF_1: i64 = 2;

/// Plans the changes. The result is how containerd is verified after a restart.
pub(super) fn plan(
    changes: &mut Changes,
    layout: &Layout,
    configuration: &AllowedConfiguration,
) -> Result<RuntimeCheck, Refusal> {
    let installed = &layout.containerd;
    let main = changes.undone(&installed.config, Format::Toml)?.filter(|main| !main.settings.is_empty());
    let mut settings = match &main {
        Some(main) => changes::table(main.settings.clone()).map_err(|error| unreadable(&installed.config, error))?,
        None => Table::new(),
    };
    let keys = release_line(installed.version).map(|line| line.keys);
    let mut check = RuntimeCheck { pipe: pipe(&settings, keys), pause_image: None, changes_pulls: false };
    if let Some((text, layer)) = &configuration.containerd {
        let merges_drop_ins = release_line(installed.version).is_some_and(|line| line.drop_in == DropIn::DeepMerge);
        check_version(installed, &settings, merges_drop_ins)?;
        check_local(changes.host, "containerd.toml", layer, SETTINGS)?;
        check_directories(changes, layout, &settings, layer)?;
        let after = merged(installed, settings.clone(), layer)?;
        match merges_drop_ins {
            true => drop_in(changes, installed, &settings, text)?,
            false => {
                check_drop_ins(changes, installed, &settings, layer)?;
                if after != settings {
                    check_writable(installed)?;
                }
                set(changes, installed, &settings, text, layer)?;
            }
        }
        let pause_image = keys.and_then(|keys| value_at(layer, keys.sandbox_image)).and_then(Value::as_str);
        check.pause_image = pause_image.map(str::to_owned);
        let before = keys.and_then(|keys| registries(&settings, keys)).cloned();
        settings = after;
        check.changes_pulls = before.as_ref() != keys.and_then(|keys| registries(&settings, keys));
    }
    mirrors(changes, installed, &settings, configuration)?;
    Ok(check)
}

fn pipe(settings: &Table, keys: Option<&Keys>) -> String {
    let address = keys.and_then(|keys| value_at(settings, keys.grpc_address)).and_then(Value::as_str);
    let address = address.filter(|text| !text.is_empty());
    address.unwrap_or(PIPE).trim_start_matches("npipe:").replace('/', "\\")
}

/// The table with the settings of registries.
fn registries<'a>(settings: &'a Table, keys: &Keys) -> Option<&'a Value> {
    value_at(settings, keys.registry_config_path.split_last()?.1)
}

/// Refuses a main file whose settings have other paths than those of the layer.
fn check_version(installed: &ContainerdLayout, settings: &Table, merges_drop_ins: bool) -> Result<(), Refusal> {
    let version = settings.get("version").and_then(Value::as_integer).unwrap_or(1);
    let (fits, needed) = match merges_drop_ins {
        true => (version >= VERSION, VERSION),
        false => (version == VERSION_OF_1, VERSION_OF_1),
    };
    if settings.is_empty() || fits {
        return Ok(());
    }
    let ContainerdLayout { config, version: release, .. } = installed;
    let wrong = format!(
        "{config} has configuration version {version}, and the agent requires {needed} for containerd {release}"
    );
    Err(refuse(RefusalReason::UnsupportedRuntime, wrong, "Convert it with `containerd config migrate`"))
}

/// Refuses a path that leads to another machine: containerd would log in there as the node, and load what that machine has.
fn check_local(
    host: &dyn Host,
    file: &str,
    settings: &Table,
    rows: &'static [ContainerdSetting],
) -> Result<(), Refusal> {
    for (key, path) in local_paths(settings, rows) {
        let wrong = match host.is_local(&path) {
            Ok(true) => continue,
            Ok(false) => format!("{file}: {key} is {path}, which is on another machine"),
            Err(error) => format!("{file}: {key} is {path}: {error}"),
        };
        return Err(refuse(RefusalReason::NotAllowed, wrong, "Write a path on a drive of the node"));
    }
    Ok(())
}

/// Refuses directories of CNI other than those of the node, because containerd runs what is in them as SYSTEM: those in its
/// files, those in which its installer puts the plugins, or the defaults of containerd if it has none.
fn check_directories(changes: &Changes, layout: &Layout, settings: &Table, layer: &Table) -> Result<(), Refusal> {
    let desired = node_directories(layer, SETTINGS);
    if desired.iter().all(|(_, directories)| directories.iter().all(String::is_empty)) {
        return Ok(());
    }
    let mut own = node_directories(settings, SETTINGS);
    for path in imported_files(changes.host, &layout.containerd, settings)? {
        // The drop-in of the agent is no evidence of what the node had.
        let is_own = path.rsplit_once('\\').is_none_or(|(_, name)| !name.eq_ignore_ascii_case(DROP_IN));
        let Some(text) = changes.text(&path)?.filter(|_| is_own) else { continue };
        let drop_in = file::parse(&text.content).map_err(|error| unreadable(&path, error))?;
        own.extend(node_directories(&drop_in, SETTINGS));
    }
    for (key, directories) in desired {
        let is_conf = is_conf_dir(&key);
        let mut allowed: Vec<_> =
            own.iter().filter(|(key, _)| is_conf_dir(key) == is_conf).flat_map(|(_, paths)| paths).cloned().collect();
        allowed.retain(|path| is_windows_path(path));
        let (default, of_kubeadm) =
            if is_conf { (CNI_CONF_DIR, KUBEADM_CONF_DIR) } else { (CNI_BIN_DIR, KUBEADM_BIN_DIR) };
        if allowed.is_empty() {
            allowed.push(default.to_owned());
        }
        if matches!(layout.kind, LayoutKind::KubeadmService | LayoutKind::KubeadmNssm) {
            allowed.push(of_kubeadm.to_owned());
        }
        let is_allowed =
            |path: &String| path.is_empty() || allowed.iter().any(|known| comparable(known) == comparable(path));
        if let Some(other) = directories.iter().find(|path| !is_allowed(path)) {
            let key = key.last().map(String::as_str).unwrap_or_default();
            let wrong =
                format!("containerd.toml: cni.{key} is {other}, and that of the node is {}", allowed.join(" or "));
            let remedy = "Remove spec.containerd.cni from the profile, or change the configuration of the node";
            return Err(refuse(RefusalReason::NotAllowed, wrong, remedy));
        }
    }
    Ok(())
}

/// Where kubeadm's tools for Windows put the plugins (kubernetes-sigs/image-builder ae63061 and kubernetes-sigs/sig-windows-tools
/// 401ee6f).
const KUBEADM_BIN_DIR: &str = r"C:\opt\cni\bin";
const KUBEADM_CONF_DIR: &str = r"C:\etc\cni\net.d";

fn is_conf_dir(key: &[String]) -> bool {
    key.last().is_some_and(|name| name == "conf_dir")
}

/// A path in the spelling in which two of the same directory are equal.
fn comparable(path: &str) -> String {
    absolute(path).trim_end_matches('\\').to_ascii_lowercase()
}

/// Refuses a node of which a drop-in replaces a plugin's settings in the main file, as those of containerd 1.x do.
fn check_drop_ins(
    changes: &Changes,
    installed: &ContainerdLayout,
    settings: &Table,
    layer: &Table,
) -> Result<(), Refusal> {
    let set = layer.get("plugins").and_then(Value::as_table);
    for path in imported_files(changes.host, installed, settings)? {
        let Some(text) = changes.text(&path)? else { continue };
        let drop_in = file::parse(&text.content).map_err(|error| unreadable(&path, error))?;
        let replaced = drop_in.get("plugins").and_then(Value::as_table);
        let both =
            set.into_iter().flat_map(Table::keys).find(|name| replaced.is_some_and(|table| table.contains_key(*name)));
        if let Some(plugin) = both {
            let wrong = format!("{path} replaces the settings of {plugin} in {}", installed.config);
            let remedy =
                "Merge it into the main file, because a drop-in of containerd 1.x replaces all settings of a plugin";
            return Err(refuse(RefusalReason::UnsupportedRuntime, wrong, remedy));
        }
    }
    Ok(())
}

/// Writes the layer as a drop-in of the main file, which imports its directory.
fn drop_in(changes: &mut Changes, installed: &ContainerdLayout, settings: &Table, layer: &str) -> Result<(), Refusal> {
    let directory = match imported_directory(installed, settings) {
        Some(directory) => directory,
        None => import(changes, installed, settings)?,
    };
    changes.write(&format!(r"{directory}\{DROP_IN}"), layer.as_bytes().to_vec(), Some(Component::Containerd))
}

/// The first directory of which the main file imports all TOML files.
fn imported_directory(installed: &ContainerdLayout, settings: &Table) -> Option<String> {
    let imports = imports(installed, settings);
    imports.iter().find_map(|path| path.strip_suffix(r"\*.toml")).filter(|path| !path.contains('*')).map(str::to_owned)
}

/// The files that the main file imports.
pub fn imported_files(host: &dyn Host, installed: &ContainerdLayout, settings: &Table) -> Result<Vec<String>, Refusal> {
    let mut files = Vec::new();
    for path in imports(installed, settings) {
        match path.rsplit_once('\\').and_then(|(folder, name)| Some((folder, name.split_once('*')?))) {
            Some((folder, (start, end))) => {
                let is_match = |name: &str| name.strip_prefix(start).is_some_and(|rest| rest.ends_with(end));
                let names = list(host, folder)?.into_iter().filter(|name| is_match(name));
                files.extend(names.map(|name| format!(r"{folder}\{name}")));
            }
            None => files.push(path),
        }
    }
    Ok(files)
}

/// The paths and patterns that the main file imports.
fn imports(installed: &ContainerdLayout, settings: &Table) -> Vec<String> {
    let list = settings.get("imports").and_then(Value::as_array);
    let paths = list.into_iter().flatten().filter_map(Value::as_str).map(absolute);
    let beside =
        |path: String| if is_absolute(&path) { path } else { format!(r"{}\{path}", directory(&installed.config)) };
    paths.map(beside).collect()
}

fn is_absolute(path: &str) -> bool {
    path.starts_with(r"\\") || path.as_bytes().get(1..3) == Some(br":\")
}

/// Makes the main file import a directory. Returns the directory.
fn import(changes: &mut Changes, installed: &ContainerdLayout, settings: &Table) -> Result<String, Refusal> {
    let config = &installed.config;
    if !installed.is_writable {
        let wrong = format!("{config} is generated at every start and does not import a directory");
        let remedy = "Upgrade RKE2 to a version of March 2026 or later";
        return Err(refuse(RefusalReason::UnsupportedRuntime, wrong, remedy));
    }
    let drop_ins = format!(r"{}\{DROP_INS}", directory(config));
    let mut list = settings.get("imports").and_then(Value::as_array).cloned().unwrap_or_default();
    list.push(Value::from(format!(r"{drop_ins}\*.toml")));
    let layer = Table::from_iter([("imports".to_owned(), Value::Array(list))]);
    let mut new = Table::from_iter([("version".to_owned(), Value::Integer(VERSION))]);
    new.extend(layer.clone());
    set(changes, installed, settings, &new.to_string(), &layer)?;
    Ok(drop_ins)
}

/// The settings of the main file with those of a layer.
fn merged(installed: &ContainerdLayout, mut settings: Table, layer: &Table) -> Result<Table, Refusal> {
    toml_layer::merge(&mut settings, layer).map_err(|path| {
        let wrong = format!("{path} is a table only in one of {} and the configuration", installed.config);
        refuse(RefusalReason::PreflightFailed, wrong, "Correct one of them")
    })?;
    Ok(settings)
}

/// Refuses a main file that does not keep what is written to it.
fn check_writable(installed: &ContainerdLayout) -> Result<(), Refusal> {
    if installed.is_writable {
        return Ok(());
    }
    let wrong = format!("{} is generated at every start", installed.config);
    Err(refuse(RefusalReason::UnsupportedRuntime, wrong, "Upgrade RKE2 to a version with containerd 2.x"))
}

/// Merges settings into the main file, or creates it.
fn set(
    changes: &mut Changes,
    installed: &ContainerdLayout,
    settings: &Table,
    new: &str,
    layer: &Table,
) -> Result<(), Refusal> {
    let config = &installed.config;
    if settings.is_empty() {
        return changes.write(config, new.as_bytes().to_vec(), Some(Component::Containerd));
    }
    let layer = changes::map(layer).map_err(|error| unreadable("containerd.toml", error))?;
    changes.merge(config, Component::Containerd, Format::Toml, &layer)
}

/// Writes the files of registries, which containerd reads at every pull.
fn mirrors(
    changes: &mut Changes,
    installed: &ContainerdLayout,
    settings: &Table,
    configuration: &AllowedConfiguration,
) -> Result<(), Refusal> {
    if configuration.hosts.is_empty() {
        return Ok(());
    }
    let key = release_line(installed.version).map(|line| line.keys.registry_config_path);
    let directory =
        key.and_then(|key| value_at(settings, key)).and_then(Value::as_str).and_then(|path| path.split(';').next());
    let Some(directory) = directory.filter(|path| !path.is_empty()).map(absolute) else {
        let wrong = format!("{} has no config_path for the mirrors of registries", installed.config);
        return Err(refuse(RefusalReason::NotAllowed, wrong, "Set it, or remove the mirrors from the profile"));
    };
    if let Some((_, registry)) = key.and_then(|key| key.split_last()) {
        let old = value_at(settings, registry).and_then(|table| table.get("mirrors")).and_then(Value::as_table);
        if old.is_some_and(|mirrors| !mirrors.is_empty()) {
            let wrong =
                format!("{} has registry.mirrors, which containerd does not accept with config_path", installed.config);
            return Err(refuse(RefusalReason::PreflightFailed, wrong, "Move these mirrors to the profile"));
        }
    }
    for (registry, (text, values)) in &configuration.hosts {
        check_local(changes.host, &format!("hosts.{registry}.toml"), values, HOSTS_SETTINGS)?;
        changes.write(&format!(r"{directory}\{registry}\{HOSTS_FILE}"), text.as_bytes().to_vec(), None)?;
    }
    Ok(())
}

//! The changes of the kubelet's configuration and flags.

use serde_json::{Value, json};
use winpool_facts::kubelet_fields::{fatal_in, field};

use super::{
    changes::Changes,
    record::{self, Component, Format, Named},
};
use crate::{
    change_plan::{Refusal, RefusalReason},
    layout::{FlagsPlace, Layout, command_line::arguments, flag_in_script, flags_begin},
    merge::{
        allowed::{AllowedConfiguration, Layer},
        flags::{self, FlagValue},
        yaml,
    },
    refuse::{read, refuse, unreadable},
};

/// The name of the drop-in, which the kubelet reads after files that sort before it.
const DROP_IN: &str = "50-winpool.conf";
const RKE2_COMMENT: &str = "# Flags of the kubelet, written by winpool. They are added to those of earlier files.\n";

/// The path of the drop-in for the kubelet, if it reads a directory of them.
pub fn drop_in(layout: &Layout) -> Option<String> {
    layout.kubelet.drop_ins.as_ref().map(|directory| format!(r"{directory}\{DROP_IN}"))
}

pub(super) fn plan(
    changes: &mut Changes,
    layout: &Layout,
    configuration: &AllowedConfiguration,
) -> Result<(), Refusal> {
    if let Some(layer) = &configuration.kubelet {
        let removed = fatal_in(layout.kubelet.minor).map(|field| (field.name.to_owned(), Value::Null));
        match (drop_in(layout), &layout.kubelet.config) {
            (Some(drop_in), config) => {
                write_drop_in(changes, &drop_in, layer)?;
                // The main file of kubeadm is that of the cluster, which is written for Linux.
                if let Some(config) = config
                    && changes.text(config)?.is_some()
                {
                    changes.merge(config, Component::Kubelet, Format::Yaml, &removed.collect())?;
                }
            }
            (None, Some(config)) => {
                let settings = removed.chain(layer.settings.clone()).collect();
                changes.merge(config, Component::Kubelet, Format::Yaml, &settings)?;
            }
            (None, None) => {}
        }
    }
    set_flags(changes, layout, &overriding_flags(configuration), &configuration.flags)
}

/// Writes the drop-in. Other comments alone restart nothing.
fn write_drop_in(changes: &mut Changes, path: &str, layer: &Layer) -> Result<(), Refusal> {
    let former = read(changes.host, path)?.and_then(|bytes| yaml::parse(&String::from_utf8(bytes).ok()?).ok());
    let restarts = (former.as_ref() != Some(&layer.settings)).then_some(Component::Kubelet);
    changes.record_whole(path, Some(Component::Kubelet))?;
    changes.edit(path, Some(layer.text.as_bytes().to_vec()), restarts)
}

/// Fields whose flags are removed, because they override the configuration file (kubernetes/kubernetes,
/// `kubeletConfigFlagPrecedence` in `cmd/kubelet/app/server.go`), such as `--max-pods`, which bootstrap scripts of EKS set.
#[rustfmt::skip]
const OVERRIDDEN: [&str; 14] = [
    "maxPods", "podsPerCore", "systemReserved", "kubeReserved", "evictionHard", "evictionSoft", "evictionSoftGracePeriod",
    "evictionMinimumReclaim", "imageGCHighThresholdPercent", "imageGCLowThresholdPercent", "containerLogMaxSize",
    "containerLogMaxFiles", "clusterDNS", "clusterDomain",
];

/// The flags that would override a field of `kubelet.yaml`.
fn overriding_flags(configuration: &AllowedConfiguration) -> Vec<&'static str> {
    let Some(layer) = &configuration.kubelet else { return Vec::new() };
    let set = OVERRIDDEN.into_iter().filter(|name| layer.settings.contains_key(*name));
    set.filter_map(|name| field(name)?.flag).collect()
}

/// Sets flags, and removes those that override a field.
fn set_flags(changes: &mut Changes, layout: &Layout, overriding: &[&str], new: &[FlagValue]) -> Result<(), Refusal> {
    let removed = overriding.iter().map(|name| ((*name).to_owned(), None));
    let added = new.iter().map(|FlagValue { name, value }| (name.clone(), Some(value.clone())));
    let desired: Vec<_> = removed.chain(added).collect();
    let old = changes.old.flags.clone();
    if desired.is_empty() && old.is_empty() && !matches!(layout.kubelet.flags, FlagsPlace::Rke2 { .. }) {
        return Ok(());
    }
    match &layout.kubelet.flags {
        FlagsPlace::Service => {
            let command = changes.service(&layout.kubelet.service).map(|service| service.command.clone());
            let place = command.and_then(|command| Some((flags_begin(&command)?, command)));
            if let Some((from, command)) = place {
                let (edited, record) = edited_flags(&command, from, &old, &desired);
                changes.new.flags = record;
                changes.define(&layout.kubelet.service, Component::Kubelet, |definition| definition.command = edited);
            }
            Ok(())
        }
        FlagsPlace::EnvironmentFile { path, script } => {
            check_script(changes, script, overriding, new)?;
            let text = changes.text(path)?.ok_or_else(|| unreadable(path, "the file does not exist"))?;
            let range = flags::environment_file(&text.content);
            let range = range.ok_or_else(|| unreadable(path, "there is no KUBELET_KUBEADM_ARGS"))?;
            let (edited, record) = edited_flags(&text.content[range.clone()], 0, &old, &desired);
            changes.new.flags = record;
            let mut content = text.content.clone();
            content.replace_range(range, edited.trim_start());
            changes.edit(path, Some(text.encode(&content)), Some(Component::Kubelet))
        }
        FlagsPlace::Rke2 { .. } if new.is_empty() => Ok(()),
        // RKE2 sets none of the overriding flags, except for eviction, which it removes before it starts the kubelet.
        FlagsPlace::Rke2 { path } => {
            let arguments: Vec<_> =
                new.iter().map(|FlagValue { name, value }| json!(format!("{name}={value}"))).collect();
            let layer = [("kubelet-arg+".to_owned(), json!(arguments))].into_iter().collect();
            let text = yaml::merge(RKE2_COMMENT, &layer).map_err(|error| unreadable(path, error))?;
            changes.write(path, text.into_bytes(), Some(Component::Kubelet))
        }
    }
}

/// The arguments from a byte of a text on with desired flags, and what to record.
fn edited_flags(text: &str, from: usize, old: &[Named], new: &[(String, Option<String>)]) -> (String, Vec<Named>) {
    let list = arguments(text, from);
    let (desired, record) = record::named(|name| flags::value(&list, name), old, new);
    let edited = desired.into_iter().fold(text.to_owned(), |text, (name, value)| match value {
        Some(value) => flags::set(text, from, &FlagValue { name, value }),
        None => flags::remove(&text, from, &name),
    });
    (edited, record)
}

/// Refuses flags that the start script sets itself with precedence, and values that PowerShell would change.
fn check_script(changes: &Changes, script: &str, overriding: &[&str], new: &[FlagValue]) -> Result<(), Refusal> {
    let text = read(changes.host, script)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let text = text.unwrap_or_default();
    if let Some(name) = overriding.iter().find(|name| text.contains(&format!("--{name}="))) {
        let wrong = format!("{script} sets --{name}, which overrides kubelet.yaml");
        let remedy = format!("Remove --{name} from the script, which the agent does not change");
        return Err(refuse(RefusalReason::NotAllowed, wrong, remedy));
    }
    for FlagValue { name, value } in new {
        if let Some(fixed) = flag_in_script(&text, name).filter(|fixed| fixed != value) {
            let wrong = format!("{script} sets --{name}={fixed} after the flags of kubeadm-flags.env");
            let remedy = format!("Remove --{name} from the script, which the agent does not change");
            return Err(refuse(RefusalReason::NotAllowed, wrong, remedy));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || r"._/:=,+@%-\".contains(c);
        if !value.chars().all(is_plain) {
            let wrong = format!("PowerShell would change --{name}={value} in {script}");
            return Err(refuse(RefusalReason::NotAllowed, wrong, "Use a value without blanks and special characters"));
        }
    }
    Ok(())
}

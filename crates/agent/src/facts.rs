//! What the agent reports about Windows on its node, beside the configuration: the registry and the service manager are read
//! directly, the rest by one script. A fact that cannot be read is absent.
//!
//! Nothing is written while nothing changes: values that vary by themselves keep what was reported until they differ by more
//! than a threshold.

mod machine;
mod network;
mod sddl;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;
use toml::Table;
use winpool_api::{DirectoryFacts, NodeFacts, ServiceFacts};
use winpool_render::containerd::loses_bin_dir;

use self::{machine::MachineAnswers, network::NetworkReading, sddl::readers};
use super::{
    host::{Host, RegistryKey, ServiceDefinition},
    layout::{
        self, ContainerdLayout, Layout,
        command_line::{arguments, file_name, split},
    },
    merge::{flags, yaml},
    plan::imported_files,
};

/// How often facts are read, at most.
pub const INTERVAL: Duration = Duration::from_secs(600);

/// How far a clock may be from the API server's, whose time has whole seconds.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_secs(5);
/// How far the time of the start may move without a restart: Windows computes it anew when its clock is set.
const BOOT_TOLERANCE: SignedDuration = SignedDuration::from_mins(2);
/// The bounds of lists in the schema.
const MAX_ITEMS: usize = 8;
const MAX_READERS: usize = 16;
const MAX_FLAGS: usize = 96;
const MAX_GATES: usize = 64;
/// The characters of a name, and of a gate with its value.
const MAX_NAME: usize = 64;

/// The default of the kubelet's flag `--root-dir`: kubernetes/kubernetes, `cmd/kubelet/app/options/options.go`. The directories
/// of pods below it inherit its access control list (`setupDataDirs` in `pkg/kubelet/kubelet.go`).
const KUBELET_ROOT: &str = r"C:\var\lib\kubelet";
/// The default of containerd's `root`: containerd/containerd, `defaults/defaults_windows.go`. Its database has the environment
/// variables of containers.
const CONTAINERD_ROOT: &str = r"C:\ProgramData\containerd\root";

/// The keys that exist while Component Based Servicing or Windows Update wait for a restart: dsccommunity/ComputerManagementDsc,
/// `source/DSCResources/DSC_PendingReboot`, read in 2026-11.
const REBOOT_KEYS: [&str; 2] = [
    r"SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\RebootPending",
    r"SOFTWARE\Microsoft\Windows\CurrentVersion\WindowsUpdate\Auto Update\RebootRequired",
];
const WINDOWS: &str = r"SOFTWARE\Microsoft\Windows NT\CurrentVersion";
/// Has a key for each plugin: MicrosoftDocs/sdk-api, `ccgplugins`, `ICcgDomainAuthCredentials`.
const CCG_PLUGINS: &str = r"SYSTEM\CurrentControlSet\Control\CCG\COMClasses";
/// Has the value `EnableCompartmentNamespace`: kubernetes/website, `configure-gmsa.md`.
const HNS_STATE: &str = r"SYSTEM\CurrentControlSet\Services\hns\State";

/// What the API server and the kubelet of the node know about it.
#[derive(Clone, Debug, Default)]
pub struct FactReference {
    pub time: Option<Timestamp>,
    pub kubelet: Option<Value>,
}

/// What was read of a node.
#[derive(Clone, Debug, Default)]
pub struct FactReading {
    pub facts: NodeFacts,
    /// What the next reading is compared with: the last that HNS has answered.
    network: Option<NetworkReading>,
}

/// Reads the facts about a node; `before` is what was read before.
pub fn read(host: &dyn Host, reference: &FactReference, before: FactReading) -> FactReading {
    let former = &before.facts;
    let layout = layout::detect(host).ok();
    let services = host.services().unwrap_or_default();
    let paths = layout.iter().flat_map(|layout| directories(host, layout, &services)).collect::<Vec<_>>();
    let machine = MachineAnswers::read(host, &paths);
    let images = paths.len().saturating_sub(1);
    let registry = |key: &str| host.registry(key).ok();
    let network = machine.network(before.network.as_ref());
    let facts = NodeFacts {
        directories: paths.iter().enumerate().filter_map(|(index, path)| directory(&machine, index, path)).collect(),
        services: layout.iter().flat_map(|layout| of_services(host, layout, &services)).collect(),
        reboot_pending: is_any_present(&REBOOT_KEYS.map(registry)),
        revision: registry(WINDOWS).flatten().and_then(|key| key.values.get("UBR")?.parse().ok()),
        booted_at: machine.booted_at().map(|booted| started(booted, former)),
        clock_offset_seconds: reference.time.and_then(|time| clock_offset(host.now(), time, former)),
        images_fill_disk: machine.used_percent(images).and_then(|used| fills_disk(used, reference, former)),
        domain_joined: machine.domain_joined(),
        ccg_plugins: registry(CCG_PLUGINS).map(|key| first(key.unwrap_or_default().keys, MAX_ITEMS)),
        compartment_namespace: registry(HNS_STATE).map(|key| is_set(key.as_ref(), "EnableCompartmentNamespace")),
        csi_proxy_pipes: machine.csi_proxy_pipes().map(|pipes| first(pipes, 2 * MAX_ITEMS)),
        kubelet_flags: machine.kubelet_flags().or_else(|| flags_of_service(layout.as_ref()?, &services)),
        feature_gates: reference.kubelet.as_ref().map(feature_gates),
        kube_proxy_gates: layout
            .as_ref()
            .and_then(|layout| kube_proxy_gates(host, layout))
            .or_else(|| machine.kube_proxy_gates()),
        cni_bin_dir: layout.as_ref().and_then(|layout| sets_cni_bin_dir(host, &layout.containerd)),
        network: network.as_ref().map(|network| network.facts(before.network.as_ref())),
    };
    FactReading { facts, network: network.or(before.network) }
}

/// The directory of the kubelet, and that of containerd, in which the images are.
fn directories(host: &dyn Host, layout: &Layout, services: &[ServiceDefinition]) -> [String; 2] {
    let kubelet = services.iter().find(|service| service.name == layout.kubelet.service);
    let root = kubelet.and_then(|service| flags::value(&split(&service.command), "root-dir"));
    [
        root.map_or_else(|| KUBELET_ROOT.to_owned(), |root| layout::absolute(&root)),
        containerd_root(host, &layout.containerd.config).unwrap_or_else(|| CONTAINERD_ROOT.to_owned()),
    ]
}

fn containerd_root(host: &dyn Host, config: &str) -> Option<String> {
    let settings: Table = text(host, config)?.parse().ok()?;
    Some(layout::absolute(settings.get("root")?.as_str()?)).filter(|root| !root.is_empty())
}

fn text(host: &dyn Host, path: &str) -> Option<String> {
    String::from_utf8(host.read(path).ok()??).ok()
}

/// Whether the files of containerd set the directory of the CNI with the key that ends.
fn sets_cni_bin_dir(host: &dyn Host, installed: &ContainerdLayout) -> Option<bool> {
    let main = text(host, &installed.config)?;
    let imported = imported_files(host, installed, &main.parse().ok()?).ok()?;
    let mut files: Vec<String> = imported.iter().filter_map(|path| text(host, path)).collect();
    files.push(main);
    Some(loses_bin_dir(&files))
}

/// The names of the flags in the command line of the kubelet's service, for a kubelet that does not run; `None` if they are elsewhere.
fn flags_of_service(layout: &Layout, services: &[ServiceDefinition]) -> Option<Vec<String>> {
    let command = &services.iter().find(|service| service.name == layout.kubelet.service)?.command;
    let all = arguments(command, layout::flags_begin(command)?);
    let names = all.iter().filter_map(|argument| {
        let flag = argument.value.strip_prefix("--").or_else(|| argument.value.strip_prefix('-'))?;
        flag.split('=').next().map(str::to_owned)
    });
    Some(machine::flag_names(names))
}

/// The feature gates in a configuration that a kubelet or kube-proxy uses.
fn feature_gates(configuration: &Value) -> Vec<String> {
    let gates = configuration.get("featureGates").and_then(Value::as_object).into_iter().flatten();
    let set = gates.map(|(name, value)| format!("{name}={value}"));
    first(set.filter(|gate| is_gate(gate)).collect(), MAX_GATES)
}

/// Whether this is a gate with its value, and not too long.
fn is_gate(text: &str) -> bool {
    text.len() <= MAX_NAME + 6 && text.split_once('=').is_some_and(|(_, value)| value.parse::<bool>().is_ok())
}

/// The feature gates in the configuration file of the service kube-proxy.
fn kube_proxy_gates(host: &dyn Host, layout: &Layout) -> Option<Vec<String>> {
    let file = layout.kube_proxy.as_ref()?.config.as_ref()?;
    Some(feature_gates(&Value::Object(yaml::parse(&text(host, file)?).ok()?)))
}

fn directory(machine: &MachineAnswers, index: usize, path: &str) -> Option<DirectoryFacts> {
    let readers = machine.descriptor(index).and_then(readers).map(|readers| first(readers, MAX_READERS));
    let encrypted = machine.is_encrypted(index);
    let is_known = readers.is_some() || encrypted.is_some();
    is_known.then(|| DirectoryFacts { path: path.to_owned(), readers, encrypted })
}

fn of_services(host: &dyn Host, layout: &Layout, services: &[ServiceDefinition]) -> Vec<ServiceFacts> {
    let of_layout = services.iter().filter(|service| layout.services().any(|name| name == service.name));
    let facts = of_layout.filter_map(|service| {
        let policy = host.policy(&service.name).ok()?;
        let in_nssm = split(&service.command).first().is_some_and(|program| file_name(&program.value) == layout::NSSM);
        let restarts = if in_nssm { nssm_restarts(host, &service.name) } else { policy.restarts };
        Some(ServiceFacts { name: service.name.clone(), start: policy.start, restarts })
    });
    facts.collect()
}

/// Whether nssm starts its program again, which is its default. Source: README of nssm 2.24, "Action on exit".
fn nssm_restarts(host: &dyn Host, service: &str) -> Option<bool> {
    let key = host.registry(&format!(r"SYSTEM\CurrentControlSet\Services\{service}\Parameters\AppExit")).ok()?;
    let action = key.unwrap_or_default().values.remove("");
    Some(action.is_none_or(|action| action.eq_ignore_ascii_case("Restart")))
}

/// Whether one of the keys exists; `None` if none of those that could be read does, and one could not be read.
fn is_any_present(keys: &[Option<Option<RegistryKey>>]) -> Option<bool> {
    let is_present = keys.iter().flatten().any(Option::is_some);
    (is_present || keys.iter().all(Option::is_some)).then_some(is_present)
}

fn is_set(key: Option<&RegistryKey>, value: &str) -> bool {
    key.is_some_and(|key| key.values.get(value).is_some_and(|number| number != "0"))
}

fn first(mut all: Vec<String>, max: usize) -> Vec<String> {
    all.truncate(max);
    all
}

/// The time of the start in whole seconds, which stays as it was reported unless Windows was started since.
fn started(booted: Timestamp, former: &NodeFacts) -> Time {
    let reported = former.booted_at.as_ref().filter(|former| booted.duration_since(former.0).abs() <= BOOT_TOLERANCE);
    let whole = Timestamp::from_second(booted.as_second()).unwrap_or(booted);
    reported.cloned().unwrap_or(Time(whole))
}

fn clock_offset(now: Timestamp, reference: Timestamp, former: &NodeFacts) -> Option<i32> {
    let offset = now.duration_since(reference);
    let is_as_reported =
        |reported: &i32| (offset - SignedDuration::from_secs(i64::from(*reported))).abs() <= CLOCK_TOLERANCE;
    let seconds = i32::try_from(offset.as_secs()).unwrap_or(if offset.is_negative() { i32::MIN } else { i32::MAX });
    (offset.abs() > CLOCK_TOLERANCE).then(|| former.clock_offset_seconds.filter(is_as_reported).unwrap_or(seconds))
}

/// Whether images are to be removed: from the higher threshold on, until the lower one is reached.
fn fills_disk(used: u64, reference: &FactReference, former: &NodeFacts) -> Option<bool> {
    let threshold = |name: &str| reference.kubelet.as_ref()?.get(name)?.as_u64();
    let (high, low) = (threshold("imageGCHighThresholdPercent")?, threshold("imageGCLowThresholdPercent")?);
    Some(used >= high || (former.images_fill_disk == Some(true) && used > low))
}

#[cfg(test)]
mod tests;

//! The services that changes restart, dependencies first, and how their health is verified.
//!
//! A service cannot be stopped while a service that depends on it runs, so these are restarted too. Default ports:
//! kubernetes/kubernetes, `pkg/kubelet/apis/config/v1beta1/defaults.go` (10248) and `pkg/cluster/ports/ports.go`
//! (10256).

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{changes::Changes, kubelet::drop_in, record::Component};
use crate::{
    change_plan::{HealthEndpoint, Refusal, Restart},
    host::{ServiceDefinition, ServiceState},
    layout::{
        FlagsPlace, Layout, LayoutKind,
        command_line::{Argument, arguments, file_name},
        flags_begin,
    },
    merge::{flags, yaml},
    refuse::{list, unreadable},
};

const KUBELET_PORT: u16 = 10248;
const KUBE_PROXY_PORT: u16 = 10256;
const PATH: &str = "/healthz";
/// What the service of RKE2 starts beside the kubelet: rancher/rke2 6ce1a80, `pkg/executor/pebinary/pebinary.go`.
const RKE2_CHILDREN: [&str; 2] = ["containerd.exe", "kube-proxy.exe"];

/// The services to restart for the components that differ.
pub(super) fn restarts(changes: &Changes, layout: &Layout) -> Result<Vec<Restart>, Refusal> {
    let kube_proxy = layout.kube_proxy.as_ref().map(|kube_proxy| &kube_proxy.service);
    let mut names = BTreeSet::new();
    for component in &changes.components {
        match component {
            Component::Containerd => {
                names.extend([&layout.containerd.service, &layout.kubelet.service].map(|name| lower(name)))
            }
            Component::Kubelet => drop(names.insert(lower(&layout.kubelet.service))),
            Component::KubeProxy => names.extend(kube_proxy.map(|name| lower(name))),
        }
    }
    add_dependents(changes, &mut names)?;
    let mut ordered = Vec::new();
    for name in [&layout.containerd.service, &layout.kubelet.service].map(|name| lower(name)).iter().chain(&names) {
        visit(changes, &names, name, &mut ordered);
    }
    ordered.into_iter().map(|service| restart(changes, layout, service)).collect()
}

fn lower(name: &str) -> String {
    name.to_lowercase()
}

/// Adds the running services that depend on these, directly or not.
fn add_dependents(changes: &Changes, names: &mut BTreeSet<String>) -> Result<(), Refusal> {
    loop {
        let mut new = BTreeSet::new();
        for service in &changes.services {
            let depends = service.depends_on.iter().any(|name| names.contains(&lower(name)));
            if depends && !names.contains(&lower(&service.name)) && runs(changes, service)? {
                new.insert(lower(&service.name));
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        names.extend(new);
    }
}

fn runs(changes: &Changes, service: &ServiceDefinition) -> Result<bool, Refusal> {
    let state = changes.host.state(&service.name).map_err(|error| unreadable(&service.name, error))?;
    Ok(state.is_some_and(|state| state != ServiceState::Stopped))
}

/// Appends a service after those on which it depends.
fn visit<'a>(changes: &'a Changes, names: &BTreeSet<String>, name: &str, ordered: &mut Vec<&'a ServiceDefinition>) {
    let known = ordered.iter().any(|service| lower(&service.name) == name);
    let service = changes.services.iter().find(|service| lower(&service.name) == name);
    let Some(service) = service.filter(|_| !known && names.contains(name)) else { return };
    for dependency in &service.depends_on {
        if lower(dependency) != name {
            visit(changes, names, &lower(dependency), ordered);
        }
    }
    ordered.push(service);
}

fn restart(changes: &Changes, layout: &Layout, service: &ServiceDefinition) -> Result<Restart, Refusal> {
    let is = |name: &str| service.name.eq_ignore_ascii_case(name);
    let port = if is(&layout.kubelet.service) {
        kubelet_port(changes, layout)?
    } else if layout.kube_proxy.as_ref().is_some_and(|kube_proxy| is(&kube_proxy.service)) {
        kube_proxy_port(changes, layout)?
    } else {
        None
    };
    let health = port.map(|port| HealthEndpoint { port, path: PATH.to_owned() });
    let program = is(&layout.kubelet.service).then(|| file_name(&layout.kubelet.program));
    let children: &[&str] = if program.is_some() && layout.kind == LayoutKind::Rke2 { &RKE2_CHILDREN } else { &[] };
    let children = children.iter().map(|&name| name.to_owned()).collect();
    Ok(Restart { service: service.name.clone(), program, children, health })
}

/// The port of the kubelet's health endpoint after the changes; `None` if it is off or not on the loopback interface.
fn kubelet_port(changes: &Changes, layout: &Layout) -> Result<Option<u16>, Refusal> {
    let settings = kubelet_settings(changes, layout)?;
    let flags = kubelet_arguments(changes, layout)?;
    let number = |name: &str| settings.get(name).and_then(Value::as_u64).and_then(|port| port.try_into().ok());
    let port =
        flags::value(&flags, "healthz-port").and_then(|port| port.parse().ok()).or_else(|| number("healthzPort"));
    let address = settings.get("healthzBindAddress").and_then(Value::as_str).map(str::to_owned);
    let address = flags::value(&flags, "healthz-bind-address").or(address);
    Ok(Some(port.unwrap_or(KUBELET_PORT)).filter(|port| *port != 0 && address.as_deref().is_none_or(is_loopback)))
}

fn is_loopback(address: &str) -> bool {
    ["", "127.0.0.1", "0.0.0.0", "::", "::1", "localhost"].contains(&address)
}

/// The kubelet's settings after the changes: its file, then the drop-ins in their order.
fn kubelet_settings(changes: &Changes, layout: &Layout) -> Result<Map<String, Value>, Refusal> {
    let mut paths: Vec<String> = layout.kubelet.config.iter().cloned().collect();
    if let Some(directory) = &layout.kubelet.drop_ins {
        let listed = list(changes.host, directory)?.into_iter().filter(|name| name.ends_with(".conf"));
        let mut drop_ins: BTreeSet<String> = listed.map(|name| format!(r"{directory}\{name}")).collect();
        drop_ins.extend(drop_in(layout));
        paths.extend(drop_ins);
    }
    let mut settings = Map::new();
    for path in paths {
        if let Some(text) = changes.text(&path)? {
            yaml::merge_maps(&mut settings, &yaml::parse(&text.content).map_err(|error| unreadable(&path, error))?);
        }
    }
    Ok(settings)
}

/// The kubelet's flags after the changes, as far as the agent can read them.
fn kubelet_arguments(changes: &Changes, layout: &Layout) -> Result<Vec<Argument>, Refusal> {
    Ok(match &layout.kubelet.flags {
        FlagsPlace::Service => {
            let command = changes.service(&layout.kubelet.service).map(|service| &service.command);
            command.and_then(|command| Some(arguments(command, flags_begin(command)?))).unwrap_or_default()
        }
        FlagsPlace::EnvironmentFile { path, .. } => {
            let text = changes.text(path)?.map(|text| text.content).unwrap_or_default();
            flags::environment_file(&text).map_or_else(Vec::new, |range| arguments(&text[range], 0))
        }
        FlagsPlace::Rke2 { .. } => Vec::new(),
    })
}

/// The port of kube-proxy's health endpoint after the changes.
fn kube_proxy_port(changes: &Changes, layout: &Layout) -> Result<Option<u16>, Refusal> {
    let Some(kube_proxy) = &layout.kube_proxy else { return Ok(None) };
    let from_file = match &kube_proxy.config {
        Some(path) => {
            let content = changes.text(path)?.map(|text| text.content).unwrap_or_default();
            let settings = yaml::parse(&content).map_err(|error| unreadable(path, error))?;
            let address = settings.get("healthzBindAddress").and_then(Value::as_str);
            address.and_then(|address| address.rsplit_once(':')?.1.parse().ok())
        }
        // The flags are not read with a file.
        None => kube_proxy.health_port,
    };
    Ok(Some(from_file.unwrap_or(KUBE_PROXY_PORT)).filter(|port| *port != 0))
}

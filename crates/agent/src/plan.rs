//! The changes that a configuration makes on a node, computed from what the node has. Only reads.

mod changes;
mod containerd;
mod kubelet;
mod record;
mod restarts;

use std::collections::BTreeMap;

pub use self::changes::RECORD;
pub use self::containerd::{DROP_IN as CONTAINERD_DROP_IN, imported_files};
pub use self::kubelet::drop_in as kubelet_drop_in;
use winpool_facts::{Minor, skew::kube_proxy_may_run_beside};
use winpool_render::profile::{self, gate_problems};

use self::{
    changes::Changes,
    record::{Component, Format},
};
use super::{
    change_plan::{ChangePlan, Refusal, RefusalReason},
    host::Host,
    layout::{self, KubeProxy, Layout, command_line::file_name},
    merge::{
        allowed::{self, Layer},
        environment,
    },
    refuse::{refuse, unreadable},
};

/// Computes the changes for the content of a ConfigMap. Nothing differs for a node that already has the configuration.
/// What an earlier configuration changed and this one does not gets its former value again, so that the empty
/// configuration restores the node.
pub fn plan(host: &dyn Host, config: &BTreeMap<String, String>) -> Result<(Layout, ChangePlan), Refusal> {
    let layout = layout::detect(host)?;
    let configuration = allowed::check(config)?;
    let services = host.services().map_err(|error| unreadable("the services of the node", error))?;
    let mut changes = Changes::new(host, services)?;
    let mut runtime = containerd::plan(&mut changes, &layout, &configuration)?;
    kubelet::plan(&mut changes, &layout, &configuration)?;
    let omitted = match &configuration.kube_proxy {
        Some(layer) => kube_proxy(&mut changes, &layout, layer)?,
        None => None,
    };
    set_environment(&mut changes, &layout, &configuration.environment);
    changes.restore_others()?;
    let restarts = restarts::restarts(&changes, &layout)?;
    let restarts_containerd = changes.components.contains(&Component::Containerd);
    let plan = changes.finish(restarts)?;
    runtime.changes_pulls |= changes_pulls(&plan);
    let kubelet = configuration.kubelet.map(|layer| layer.settings).unwrap_or_default();
    let runtime = restarts_containerd.then_some(runtime);
    let kubeconfig = layout.kubelet.kubeconfig.clone();
    Ok((layout, ChangePlan { kubelet, kubeconfig, runtime, omitted, ..plan }))
}

/// Whether containerd pulls images otherwise: through other mirrors, or through another proxy.
fn changes_pulls(plan: &ChangePlan) -> bool {
    plan.files.iter().any(|edit| file_name(&edit.path) == containerd::HOSTS_FILE)
        || plan.services.iter().any(|edit| edit.before.environment != edit.after.environment)
}

/// The files and services of a node that differ from a configuration that was applied to it.
pub fn differing(host: &dyn Host, config: &BTreeMap<String, String>) -> Result<Vec<String>, Refusal> {
    let (_, plan) = plan(host, config)?;
    let files = plan.files.into_iter().map(|edit| edit.path).filter(|path| path != RECORD);
    Ok(files.chain(plan.services.into_iter().map(|edit| format!("the service {}", edit.after.name))).collect())
}

/// Configures kube-proxy, or returns why it cannot be configured on this node.
fn kube_proxy(changes: &mut Changes, layout: &Layout, layer: &Layer) -> Result<Option<String>, Refusal> {
    let installed = layout.kube_proxy.as_ref();
    let Some(path) = installed.and_then(|kube_proxy| kube_proxy.config.as_ref()) else {
        let why = match installed {
            Some(KubeProxy { service, .. }) => format!("the service {service} has no flag --config"),
            None => "kube-proxy is not a service of this node".to_owned(),
        };
        let remedy = "Configure it where it is started, or remove spec.kubeProxy from the profile of this pool";
        return Ok(Some(format!("kube-proxy.yaml is not applied, because {why}. {remedy}")));
    };
    let minor = installed.and_then(|kube_proxy| layout::minor_of(changes.host, kube_proxy.program.as_ref()?));
    if let Some(minor) = minor {
        check_kube_proxy(minor, layout.kubelet.minor, layer)?;
    }
    changes.merge(path, Component::KubeProxy, Format::Yaml, &layer.settings)?;
    Ok(None)
}

/// Refuses gates with which this kube-proxy does not start, and one that may not run beside the kubelet.
fn check_kube_proxy(minor: Minor, kubelet: Minor, layer: &Layer) -> Result<(), Refusal> {
    if !kube_proxy_may_run_beside(minor, kubelet) {
        let wrong = format!("kube-proxy {minor} may not run beside kubelet {kubelet}");
        return Err(refuse(RefusalReason::NotAllowed, wrong, "Install kube-proxy in the version of the kubelet"));
    }
    let gates = layer.settings.get("featureGates").cloned().unwrap_or_default();
    let gates: BTreeMap<String, bool> = serde_json::from_value(gates).unwrap_or_default();
    match gate_problems(profile::GatedProgram::KubeProxy, &gates, minor).first() {
        Some(problem) => {
            Err(refuse(RefusalReason::NotAllowed, format!("kube-proxy.yaml: {}", problem.wrong), "Correct the profile"))
        }
        None => Ok(()),
    }
}

/// Sets the variables of all three services. Those of RKE2 are one service.
fn set_environment(changes: &mut Changes, layout: &Layout, variables: &[String]) {
    let kube_proxy = layout.kube_proxy.as_ref().map(|kube_proxy| (&kube_proxy.service, Component::KubeProxy));
    let services = [(&layout.containerd.service, Component::Containerd), (&layout.kubelet.service, Component::Kubelet)];
    let new: Vec<_> = variables.iter().map(|variable| environment::pair(variable)).collect();
    for (service, component) in services.into_iter().chain(kube_proxy) {
        if changes.new.environment.contains_key(service) {
            continue;
        }
        let current = changes.service(service).map(|definition| definition.environment.clone()).unwrap_or_default();
        let old = changes.old.environment.get(service).cloned().unwrap_or_default();
        let (desired, record) = record::named(|name| environment::value(&current, name), &old, &new);
        changes.define(service, component, |definition| {
            for (name, value) in &desired {
                environment::set(&mut definition.environment, name, value.as_deref());
            }
        });
        if !record.is_empty() {
            changes.new.environment.insert(service.clone(), record);
        }
    }
}

#[cfg(test)]
mod tests;

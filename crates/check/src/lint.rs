//! Checks manifests of workloads and Services for Windows nodes. Each finding has a stable code, the field, the reason
//! and the remedy.

mod allowance;
mod class;
mod cluster_api;
mod code;
mod command;
mod container;
mod context;
mod docker;
mod finding;
mod hints;
mod host_process;
mod identity;
mod image;
pub(crate) mod image_name;
mod known_issue;
mod kubelet_configuration;
mod lenient_spec;
mod linted_nodes;
mod node_files;
mod node_labels;
mod os_label;
mod placement;
mod pod;
mod report;
mod run;
mod selected_os;
mod service;
mod storage;
mod suppression;
mod unknown_fields;
mod volume;
mod windows_options;
mod workload;

use serde_json::Value;
use winpool_api::names::label;
use winpool_core::{is_within, join, json_path::fields};
use winpool_facts::{
    ContainerRuntime, Minor,
    cluster_api::{SYNC_FLAG, is_synced_to_nodes},
};
use winpool_workload::{System, Template};

pub use code::{Code, Severity, UnknownCode};
pub use context::LookupFn;
use context::{LintContext, PodPlacement};
pub use finding::{Finding, LocatedFinding};
pub use report::LintReport;
pub use run::{check, own_resources};
pub(crate) use windows_options::OPTIONS;
use workload::PodSpec;
pub use workload::Workload;

/// The cluster that the manifests are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetCluster {
    /// The minor of the API server, and of the nodes.
    pub minor: Minor,
    /// Whether no minor was given, so that it is the newest one.
    pub is_default: bool,
    /// The container runtime of the Windows nodes.
    pub runtime: ContainerRuntime,
}

/// The findings of a workload, which is added to the context for the objects that follow.
fn workload(workload: &Workload<'_>, context: &mut LintContext<'_>) -> Vec<Finding> {
    let PodSpec { template, spec, mut findings, placeholders, suggests_windows } = workload.pod_spec();
    if let Some(template) = &template {
        context.add_workload(workload, template, suggests_windows);
        let context = &*context;
        let placement = context.placement(template, suggests_windows);
        if placement.is_windows() {
            findings.extend(workload::api_version(workload.object(), context.target.minor));
            findings.extend(unknown_fields::check(workload.kind(), workload.object()));
        }
        let invalid: Vec<_> = findings.iter().map(|finding| finding.path.clone()).chain(placeholders).collect();
        let prefix = workload.spec_path();
        let mut of_rules = rules(workload, template, &spec, &placement, context);
        of_rules.retain(|finding| !is_consequence(finding, &invalid, &prefix));
        of_rules.retain(|finding| !(workload.is_patch() && finding.code.row().is_about_absence));
        findings.extend(of_rules);
    }
    findings.sort();
    findings
}

/// Applies all rules to a pod spec.
fn rules(
    workload: &Workload<'_>,
    template: &Template,
    spec: &Value,
    placement: &PodPlacement<'_>,
    context: &LintContext<'_>,
) -> Vec<Finding> {
    let mut findings = placement::check(workload, template, placement, context);
    findings.extend(image::check(template, spec, placement, context));
    if placement.is_windows() {
        findings.extend(class::check(template, placement, context));
        findings.extend(command::check(spec));
        findings.extend(storage::check(spec, context));
        findings.extend(pod::check(workload, spec, context.target));
        findings.extend(container::check(template, spec, context.target));
        findings.extend(known_issue::check(template, spec, placement, context));
        findings.extend(service::gates_of_kube_proxy(spec, context));
        findings.extend(eks_address(template, spec, placement, context));
        findings.extend(gmsa_hostname(workload, spec));
        findings.extend(context.identities.check(workload, spec));
        findings.extend(identity::users(spec));
    } else if template.os == Some(System::Linux) {
        findings.extend(pod::windows_options_on_linux(spec));
    } else if placement.system == Some(System::Linux) {
        findings.extend(pod::windows_options_beside_linux_selector(spec));
    }
    findings.extend(pod::os_name(spec));
    let prefix = workload.spec_path();
    let mut findings: Vec<_> = findings.into_iter().map(|finding| finding.below(&prefix)).collect();
    if placement.is_windows() {
        findings.extend(workload.hyperv_annotation());
    }
    findings
}

/// A pod to which the webhook of EKS gives no address, because it reads only `hostNetwork` and the nodeSelector, which has that of the
/// RuntimeClass (aws/amazon-vpc-resource-controller-k8s, `webhooks/core/pod_webhook.go` at 03d2f251, read on 2026-11-29).
fn eks_address(
    template: &Template,
    spec: &Value,
    placement: &PodPlacement<'_>,
    context: &LintContext<'_>,
) -> Option<Finding> {
    let effective = placement.effective.as_ref().ok().filter(|_| context.is_eks && template.node_name.is_none())?;
    let selects = |key: &str| effective.node_selector().get(key).is_some_and(|os| os == "windows");
    let is_seen = selects(label::OS) || selects(label::BETA_OS) || spec["hostNetwork"] == true;
    let problem = "the pod has no nodeSelector for Windows, and the nodes are of EKS";
    (!is_seen).then(|| Finding::new(Code::EksAddress, "nodeSelector", problem))
}

/// Several pods with one gMSA, whose names may begin with the same 15 characters.
fn gmsa_hostname(workload: &Workload<'_>, spec: &Value) -> Option<Finding> {
    let field = |name: &str| windows_options::OPTIONS.map(|path| format!("{path}.{name}"));
    let names = field("gmsaCredentialSpecName").into_iter().chain(field("gmsaCredentialSpec"));
    let (path, _) = names.flat_map(|path| fields(spec, &path)).find(|(_, value)| value.is_string())?;
    let replicas = workload.replicas();
    let problem = format!("{replicas} pods have the same gMSA");
    (replicas > 1 && spec["hostname"].is_null()).then(|| Finding::new(Code::GmsaHostname, path, problem))
}

/// Whether a finding is only a consequence of an invalid value, which counts as missing.
fn is_consequence(finding: &Finding, invalid: &[String], spec: &str) -> bool {
    let read = finding.code.row().reads.iter().map(|field| join(spec, field));
    let read: Vec<_> = read.chain([join(&finding.path, "resources")]).collect();
    invalid.iter().any(|path| is_within(&finding.path, path) || read.iter().any(|read| is_within(path, read)))
}

/// The findings of a RuntimeClass.
fn runtime_class(object: &Value, context: &LintContext<'_>) -> Vec<Finding> {
    let selector = object["scheduling"]["nodeSelector"].as_object().into_iter().flatten();
    let of_os = selector.filter(|(key, _)| key.as_str() == label::OS);
    let values = of_os.filter_map(|(key, value)| Some((key, value.as_str()?)));
    let finding = |(key, value): (&String, &str)| {
        let system = os_label::meant(value)?;
        Some(os_label::finding(&format!("scheduling.nodeSelector[{key}]"), key, value, system))
    };
    let values = values.filter_map(finding);
    workload::api_version(object, context.target.minor).into_iter().chain(values).collect()
}

/// The findings of an object of Cluster API.
fn cluster_api(object: &Value, context: &LintContext<'_>) -> Vec<Finding> {
    let mut findings = kubelet_configuration::in_files(object, context.target.minor);
    findings.extend(node_files::containerd(object));
    findings.extend(machine_labels(object, context));
    findings.extend(context.machines.findings(object));
    findings
}

/// Labels of machines by which a pool selects nodes, and that Cluster API does not copy to nodes.
fn machine_labels(object: &Value, context: &LintContext<'_>) -> Vec<Finding> {
    let groups = ["machineDeployments", "machinePools"];
    let topology = groups.map(|group| format!("spec.topology.workers.{group}[].metadata.labels"));
    let places = ["spec.template.metadata.labels".to_owned()].into_iter().chain(topology);
    let labels = places.flat_map(|place| fields(object, &place)).flat_map(|(path, labels)| {
        let keys = labels.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
        keys.map(move |key| (format!("{path}[{key}]"), key))
    });
    let lost = labels.filter(|(_, key)| context.selected_keys.contains(*key) && !is_synced_to_nodes(key));
    let problem = |key: &str| {
        format!(
            "without {SYNC_FLAG} of Cluster API, nodes do not get the label {key} of their machines, and a pool selects by it"
        )
    };
    lost.map(|(path, key)| Finding::new(Code::MachineLabel, path, problem(key))).collect()
}

/// The findings of a Service of core/v1.
fn service(object: &Value, context: &LintContext<'_>) -> Vec<Finding> {
    let mut findings = service::check(object, context);
    findings.extend(workload::api_version(object, context.target.minor));
    findings.sort();
    findings
}

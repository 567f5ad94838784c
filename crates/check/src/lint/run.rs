//! Checks the objects of manifests, one after the other.

use std::collections::BTreeSet;

use k8s_openapi::api::node::v1::RuntimeClass;
use serde_json::Value;
use winpool_api::names::{GROUP, annotation::LINT_IGNORE};
use winpool_core::Objects;
use winpool_facts::{cluster_api::CORE_GROUP, pod_fields::GMSA_GROUP, support::OLDEST};
use winpool_rules::pool::{Members, RuntimeClassView, configs::ExpectedNode};

use super::{
    Code, LintContext, LintReport, LocatedFinding, LookupFn, TargetCluster, Workload, allowance,
    cluster_api::LintedMachines,
    identity::{self, Identities},
    kubelet_configuration,
    linted_nodes::LintedNodes,
    node_files,
    suppression::{IndexedFinding, Suppressions},
    volume,
};
use crate::{
    manifests::{LocatedProblem, Manifest, ManifestSet, Manifests, Object, nodes_among},
    render::{render, snapshot},
};

/// How manifests name csi-proxy if they install it: its program, or its image.
const CSI_PROXY: [&str; 2] = ["csi-proxy.exe", "/csi-proxy:"];

/// Checks manifests; `lookups` returns what a registry reported about an image.
pub fn check(manifests: Manifests, target: TargetCluster, lookups: &LookupFn<'_>) -> LintReport {
    let Manifests { objects, problems, ignored, definitions, replaced_images, files, empty, node_files } = manifests;
    let skipped = (definitions > 0).then(|| ("CustomResourceDefinition".to_owned(), definitions));
    let skipped = skipped.into_iter().collect();
    let unreadable: BTreeSet<_> = problems.iter().map(|problem| problem.file.clone()).collect();
    let (mut context, own_problems) = context(&objects, target, lookups);
    context.replaced_images = replaced_images;
    let unjudged_machines = context.machines.unjudged();
    let report = LintReport {
        objects: node_files.len(),
        ignored,
        files,
        empty,
        skipped,
        unjudged_machines,
        ..LintReport::default()
    };
    let texts = objects.iter().map(|manifest| (manifest.location.file(), manifest.location.text()));
    let texts = texts.chain(node_files.iter().map(|file| (file.name.as_str(), file.text.as_str())));
    let suppressions = Suppressions::of_comments(texts);
    let mut checker = Checker { context, report, findings: Vec::new(), suppressions };
    checker.add_problems(Code::Unreadable, problems);
    checker.add_problems(Code::ResourceInvalid, own_problems);
    checker.findings.extend(node_files.iter().filter_map(node_files::of_file).map(|found| (None, found)));
    // Services and volumes are checked against all other objects.
    let (last, others): (Vec<_>, Vec<_>) = objects.iter().enumerate().partition(|(_, manifest)| {
        is_service(&manifest.object) || is_volume(&manifest.object) || is_storage(&manifest.object)
    });
    others.into_iter().chain(last).for_each(|(index, manifest)| checker.check(index, manifest));
    let Checker { context, mut report, findings, suppressions } = checker;
    report.undetermined = context.undetermined;
    report.untolerating = context.untolerating;
    report.unchecked_gmsa = context.identities.is_unchecked;
    report.findings = suppressions.apply(findings);
    // An unused comment may belong to a document that could not be read.
    report.findings.retain(|found| found.finding.code != Code::UnusedIgnore || !unreadable.contains(&found.file));
    report.findings.sort();
    report.findings.dedup();
    report
}

/// Checks one object after the other, each decoded only once.
struct Checker<'a> {
    context: LintContext<'a>,
    report: LintReport,
    findings: Vec<IndexedFinding>,
    suppressions: Suppressions,
}

impl Checker<'_> {
    fn add_problems(&mut self, code: Code, problems: Vec<LocatedProblem>) {
        let findings = problems.into_iter().map(|problem| (None, LocatedFinding::of_problem(code, problem)));
        self.findings.extend(findings);
    }

    fn check(&mut self, index: usize, Manifest { object, location }: &Manifest) {
        let value = object.value();
        if object.contains(LINT_IGNORE) {
            self.suppressions.add_annotations(index, location, &value);
        }
        self.context.add(&value);
        let context = &mut self.context;
        let findings = match (Workload::of(&value), object.group(), object.kind()) {
            (Some(workload), ..) => super::workload(&workload, context),
            _ if is_service(object) => super::service(&value, context),
            _ if is_class(object) => super::runtime_class(&value, context),
            _ if is_volume(object) => volume::check(&value, context),
            (_, "storage.k8s.io", "StorageClass") => volume::class(&value, context).into_iter().collect(),
            (_, "kubelet.config.k8s.io", "KubeletConfiguration") => {
                kubelet_configuration::check(&value, context.target.minor)
            }
            (_, group, _) if is_of_cluster_api(group) => super::cluster_api(&value, context),
            (_, GMSA_GROUP, "GMSACredentialSpec") => identity::credential_spec(&value),
            (_, "", "Node") => context.nodes.findings(value["metadata"]["name"].as_str().unwrap_or_default()),
            (_, "", "Endpoints" | "PersistentVolumeClaim") | (_, "discovery.k8s.io", "EndpointSlice") => Vec::new(),
            (_, GROUP, "WindowsNodePool") => allowance::pool(&value),
            (_, GROUP, "WindowsRuntimeProfile") => allowance::profile(&value),
            (_, _, kind) => {
                *self.report.skipped.entry(kind.to_owned()).or_default() += 1;
                return;
            }
        };
        self.report.objects += 1;
        let located = |finding| (Some(index), LocatedFinding::new(location, finding, &value));
        self.findings.extend(findings.into_iter().map(located));
    }
}

/// Any other group with a domain may have a Service too.
fn is_service(object: &Object) -> bool {
    object.kind() == "Service" && !object.group().contains('.')
}

fn is_volume(object: &Object) -> bool {
    (object.group(), object.kind()) == ("", "PersistentVolume")
}

fn is_storage(object: &Object) -> bool {
    (object.group(), object.kind()) == ("storage.k8s.io", "StorageClass")
}

fn is_class(object: &Object) -> bool {
    (object.group(), object.kind()) == ("node.k8s.io", "RuntimeClass")
}

/// A RuntimeClass as the API server serves it: v1 has the fields of v1beta1 (kubernetes/kubernetes,
/// `staging/src/k8s.io/api/node/v1beta1/types.go`, 1.24).
fn served_class(object: &Object) -> Value {
    let mut class = object.value();
    if object.api_version() == "node.k8s.io/v1beta1" {
        class["apiVersion"] = "node.k8s.io/v1".into();
    }
    class
}

fn is_of_cluster_api(group: &str) -> bool {
    group == CORE_GROUP || group.strip_suffix(CORE_GROUP).is_some_and(|rest| rest.ends_with('.'))
}

/// The winpool resources among manifests, all or none if they have problems, and the problems.
pub fn own_resources(objects: &[Manifest]) -> (ManifestSet, Vec<LocatedProblem>) {
    let mut problems = Vec::new();
    let resources = ManifestSet::read(objects, &mut problems);
    let resources = if problems.is_empty() { resources } else { ManifestSet::default() };
    for (pool, location) in resources.pools.values() {
        let refused = pool.spec.iter().flat_map(|spec| &spec.refused);
        problems.extend(refused.map(|problem| location.problem(problem.clone())));
    }
    (resources, problems)
}

/// The keys by which the pools select nodes.
fn selected_keys(resources: &ManifestSet) -> BTreeSet<String> {
    let selectors = resources.pools.values().filter_map(|(pool, _)| match &pool.spec.as_ref().ok()?.members {
        Members::Selector(selector) => Some(selector),
        Members::Fallback => None,
    });
    let keys = selectors.flat_map(|selector| {
        selector.match_labels.keys().chain(selector.match_expressions.iter().map(|requirement| &requirement.key))
    });
    keys.cloned().collect()
}

/// The context of manifests: their pools and RuntimeClasses with the RuntimeClasses that the operator creates, their nodes and
/// machines. Also the problems of winpool resources, with those that `render` reports.
fn context<'a>(
    objects: &[Manifest],
    target: TargetCluster,
    lookups: &'a LookupFn<'a>,
) -> (LintContext<'a>, Vec<LocatedProblem>) {
    let (resources, mut problems) = own_resources(objects);
    let mut snapshot = snapshot(&resources, Objects::default(), "");
    let expected_nodes = [ExpectedNode { kubelet: target.minor.max(OLDEST), containerd: None }];
    let rendered = render(&snapshot, &expected_nodes, &resources).unwrap_or_else(|found| {
        problems.extend(found);
        Default::default()
    });
    let all = || objects.iter().map(|manifest| &manifest.object);
    let classes =
        rendered.runtime_classes.into_values().chain(all().filter(|object| is_class(object)).map(served_class));
    for class in classes.flat_map(serde_json::from_value::<RuntimeClass>) {
        snapshot.runtime_classes.insert(RuntimeClassView::from(class));
    }
    let of_cluster_api: Vec<_> = all().filter(|object| is_of_cluster_api(object.group())).map(Object::value).collect();
    let mut context = LintContext::new(target, snapshot.scheduling_state(), lookups);
    context.has_csi_proxy = all().any(|object| CSI_PROXY.iter().any(|name| object.contains(name)));
    context.identities = Identities::new(all());
    context.selected_keys = selected_keys(&resources);
    // A node without its versions is not checked.
    context.nodes = LintedNodes::new(&snapshot, &nodes_among(objects, &mut Vec::new()));
    let is_eks =
        |object: &Object| matches!(object.kind(), "Node" | "WindowsNodePool") && object.contains("eks.amazonaws.com/");
    context.is_eks = all().any(is_eks);
    context.machines = LintedMachines::new(&snapshot, &of_cluster_api, context.given_minor());
    (context, problems)
}

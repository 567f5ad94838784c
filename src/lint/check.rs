//! Checks the objects of manifests, one after the other.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::node::v1::RuntimeClass;
use serde_json::Value;
use winpool_api::names::{GROUP, annotation::LINT_IGNORE};
use winpool_check::{
    lint::{self, Code, LintContext, LintedMachines, LintedNodes, LookupFn, Severity, TargetCluster, Workload},
    manifests::{LocatedProblem, Manifest, ManifestSet, Manifests, Object, nodes_among},
    render::{self, Rendered},
};
use winpool_core::{
    Objects,
    foreign_text::escaped_lines,
    text::{agree, counted, some_of},
};
use winpool_facts::cluster_api::CORE_GROUP;
use winpool_rules::pool::{Members, RuntimeClassView, configs::ExpectedNode};
use winpool_workload::SchedulingState;

use super::{
    finding::LocatedFinding,
    suppression::{IndexedFinding, Suppressions},
};

/// How manifests name csi-proxy if they install it: its program, or its image.
const CSI_PROXY: [&str; 2] = ["csi-proxy.exe", "/csi-proxy:"];

/// The result of a run.
#[derive(Debug, Default)]
pub struct LintReport {
    /// The findings, by file and line.
    pub findings: Vec<LocatedFinding>,
    pub objects: usize,
    /// The number of skipped objects, by kind.
    pub skipped: BTreeMap<String, usize>,
    /// Documents in directories that are for other programs.
    pub ignored: Vec<String>,
    /// The files that were read, as typed.
    pub files: Vec<String>,
    /// The paths without a manifest.
    pub empty: Vec<String>,
    /// The number of findings that are in the baseline.
    pub in_baseline: usize,
    /// The findings of the baseline that no longer exist.
    pub gone: Vec<String>,
    /// The errors of failed lookups, by image.
    pub failed_lookups: BTreeMap<String, String>,
    /// The number of workloads with known issues that depend on versions that the manifests do not have.
    pub undetermined: usize,
    /// The machines for Windows whose version is not compared, with the reason.
    pub unjudged_machines: Vec<String>,
}

impl LintReport {
    /// The number of findings of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|found| found.severity == severity).count()
    }

    /// The report with texts of manifests as they may be printed.
    pub fn printable(self) -> Self {
        let findings = self.findings.into_iter().map(LocatedFinding::printable).collect();
        let files = self.files.iter().map(|file| escaped_lines(file)).collect();
        Self { findings, files, ..self }
    }

    /// The counts in one line.
    pub fn summary(&self) -> String {
        let [errors, warnings, notes] = [Severity::Error, Severity::Warning, Severity::Note]
            .map(|severity| counted(self.count(severity), severity.name()));
        let known = match self.in_baseline {
            0 => String::new(),
            count => format!(", and {} of the baseline", counted(count, "finding")),
        };
        format!("{errors}, {warnings}, {notes} in {}{known}", counted(self.objects, "object"))
    }

    /// Every file and document that was not checked, with the reason. Unreadable manifests are findings.
    pub fn not_judged(&self) -> Vec<String> {
        self.empty.iter().chain(&self.ignored).cloned().collect()
    }

    /// What was not checked.
    pub fn notes(&self) -> Vec<String> {
        let kinds: Vec<_> = self.skipped.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let kinds = (!kinds.is_empty()).then(|| format!("skipped: {}", kinds.join(", ")));
        let ignored = (!self.ignored.is_empty()).then(|| {
            let (count, all) = (counted(self.ignored.len(), "document"), named(&self.ignored));
            format!("skipped: {count} of other formats: {all}")
        });
        let empty = self.empty.iter().map(|text| format!("nothing to check: {text}"));
        let gone = (!self.gone.is_empty()).then(|| {
            let (count, verb) = (counted(self.gone.len(), "finding"), agree(self.gone.len(), "does", "do"));
            let remedy = "Write the baseline again with --write-baseline";
            format!("{count} of the baseline {verb} not exist any more: {}. {remedy}", some_of(&self.gone))
        });
        let lookups =
            self.failed_lookups.iter().map(|(image, error)| format!("lookup of image {image} failed: {error}"));
        let undetermined = (self.undetermined > 0).then(|| {
            let count = counted(self.undetermined, "workload");
            format!(
                "known issues of {count} not checked: the versions of the nodes are not in the manifests. Add them: kubectl get \
                 nodes -o yaml"
            )
        });
        let machines = (!self.unjudged_machines.is_empty()).then(|| {
            let count = counted(self.unjudged_machines.len(), "group");
            let all = self.unjudged_machines.join(", ");
            format!("known issues and version skew of {count} of machines not checked: {all}")
        });
        empty.chain(ignored).chain(kinds).chain(undetermined).chain(machines).chain(lookups).chain(gone).collect()
    }
}

/// Every document with its reason, by name.
fn named(documents: &[String]) -> String {
    let mut names = documents.to_vec();
    names.sort();
    names.join(", ")
}

/// Checks manifests; `lookups` returns what a registry reported about an image.
pub fn check(manifests: Manifests, target: TargetCluster, lookups: &LookupFn<'_>) -> LintReport {
    let own = OwnResources::read(&manifests.objects);
    check_with(manifests, own, target, lookups)
}

pub(super) fn check_with(
    manifests: Manifests,
    own: OwnResources,
    target: TargetCluster,
    lookups: &LookupFn<'_>,
) -> LintReport {
    let Manifests { objects, problems, ignored, definitions, replaced_images, files, empty } = manifests;
    let skipped = (definitions > 0).then(|| ("CustomResourceDefinition".to_owned(), definitions));
    let unreadable: BTreeSet<_> = problems.iter().map(|problem| problem.file.clone()).collect();
    let has_csi_proxy = objects.iter().any(|manifest| CSI_PROXY.iter().any(|name| manifest.object.contains(name)));
    let selected_keys = own.selected_keys();
    let (state, nodes, machines, own_problems) = scheduling_state(&objects, own, target);
    let skipped = skipped.into_iter().collect();
    let unjudged_machines = machines.unjudged();
    let report = LintReport { ignored, files, empty, skipped, unjudged_machines, ..LintReport::default() };
    let mut checker = Checker {
        context: LintContext::new(target, &state, lookups).with(
            selected_keys,
            has_csi_proxy,
            replaced_images,
            nodes,
            machines,
        ),
        report,
        findings: Vec::new(),
        suppressions: Suppressions::default(),
    };
    checker.add_problems(Code::Unreadable, problems);
    checker.add_problems(Code::ResourceInvalid, own_problems);
    checker.suppressions.add_comments(&objects);
    // Services and volumes are checked against all other objects.
    let (last, others): (Vec<_>, Vec<_>) = objects
        .iter()
        .enumerate()
        .partition(|(_, manifest)| is_service(&manifest.object) || is_volume(&manifest.object));
    others.into_iter().chain(last).for_each(|(index, manifest)| checker.check(index, manifest));
    let Checker { context, mut report, findings, suppressions } = checker;
    report.undetermined = context.undetermined;
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
        let findings = match (Workload::of(&value), object.group(), object.kind()) {
            (Some(workload), ..) => lint::workload(&workload, &mut self.context),
            _ if is_service(object) => lint::service(&value, &self.context),
            _ if is_class(object) => lint::runtime_class(&value, &self.context),
            _ if is_volume(object) => lint::persistent_volume(&value, &self.context),
            (_, "kubelet.config.k8s.io", "KubeletConfiguration") => lint::kubelet_configuration(&value, &self.context),
            (_, group, _) if is_of_cluster_api(group) => lint::cluster_api(&value, &self.context),
            (_, "", "Node") => lint::node(&value, &self.context),
            (_, "", "Endpoints" | "PersistentVolumeClaim") | (_, "discovery.k8s.io", "EndpointSlice") => Vec::new(),
            (_, GROUP, "WindowsNodePool") => lint::pool(&value),
            (_, GROUP, "WindowsRuntimeProfile") => lint::profile(&value),
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

fn group_kind(object: &Object) -> (&str, &str) {
    (object.group(), object.kind())
}

/// Any other group with a domain may have a Service too.
fn is_service(object: &Object) -> bool {
    object.kind() == "Service" && !object.group().contains('.')
}

fn is_volume(object: &Object) -> bool {
    group_kind(object) == ("", "PersistentVolume")
}

fn is_class(object: &Object) -> bool {
    group_kind(object) == ("node.k8s.io", "RuntimeClass")
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

/// The winpool resources among manifests: all of them, or none if they have problems.
pub(super) struct OwnResources {
    pub resources: ManifestSet,
    pub problems: Vec<LocatedProblem>,
}

impl OwnResources {
    pub fn read(objects: &[Manifest]) -> Self {
        let mut problems = Vec::new();
        let resources = ManifestSet::read(objects, &mut problems);
        let resources = if problems.is_empty() { resources } else { ManifestSet::default() };
        for (pool, location) in resources.pools.values() {
            let refused = pool.spec.iter().flat_map(|spec| &spec.refused);
            problems.extend(refused.map(|problem| location.problem(problem.clone())));
        }
        Self { resources, problems }
    }

    /// The keys by which the pools select nodes.
    fn selected_keys(&self) -> BTreeSet<String> {
        let selectors = self.resources.pools.values().filter_map(|(pool, _)| match &pool.spec.as_ref().ok()?.members {
            Members::Selector(selector) => Some(selector),
            Members::Fallback => None,
        });
        let keys = selectors.flat_map(|selector| {
            selector.match_labels.keys().chain(selector.match_expressions.iter().map(|requirement| &requirement.key))
        });
        keys.cloned().collect()
    }
}

/// The pools and RuntimeClasses among manifests with the RuntimeClasses that the operator creates, the nodes and machines among
/// manifests, and the problems of winpool resources that `render` reports.
fn scheduling_state(
    objects: &[Manifest],
    own: OwnResources,
    target: TargetCluster,
) -> (SchedulingState, LintedNodes, LintedMachines, Vec<LocatedProblem>) {
    let OwnResources { resources, mut problems } = own;
    let mut snapshot = render::snapshot(&resources, Objects::default(), "");
    let expected_nodes = [ExpectedNode { kubelet: target.minor, containerd: None }];
    let rendered = render::render(&snapshot, &expected_nodes, &resources).unwrap_or_else(|found| {
        problems.extend(found);
        Rendered::default()
    });
    let written = objects.iter().map(|manifest| &manifest.object).filter(|object| is_class(object)).map(served_class);
    let classes = rendered.runtime_classes.into_values().chain(written);
    for class in classes.flat_map(serde_json::from_value::<RuntimeClass>) {
        snapshot.runtime_classes.insert(RuntimeClassView::from(class));
    }
    // A node without its versions is not checked.
    let nodes = LintedNodes::new(&snapshot, &nodes_among(objects, &mut Vec::new()));
    let of_cluster_api =
        objects.iter().map(|manifest| &manifest.object).filter(|object| is_of_cluster_api(object.group()));
    let of_cluster_api: Vec<_> = of_cluster_api.map(Object::value).collect();
    let machines = LintedMachines::new(&snapshot, &of_cluster_api, (!target.is_default).then_some(target.minor));
    (snapshot.scheduling_state(), nodes, machines, problems)
}

//! `winpool lint`: problems of manifests for Windows nodes, without a cluster.

mod finding;
mod report;
mod sarif;
mod suppression;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::PathBuf,
    sync::Arc,
};

use clap::ValueEnum;
use k8s_openapi::api::node::v1::RuntimeClass;

pub use self::finding::LocatedFinding;
use self::suppression::{IndexedFinding, Suppressions};
use super::{
    Failure, connect, input, output, registry,
    render::{self, Rendered, minor},
};
use crate::{
    api::names::{GROUP, annotation::LINT_IGNORE},
    domain::{
        Objects,
        image::{Lookup, Reference},
        lint::{self, Code, LintContext, LookupFn, Severity, Target, Workload},
        pool::{RuntimeClassView, configs::ExpectedNode},
        tables,
        text::counted,
        workload::SchedulingState,
    },
    facts::{ContainerRuntime, Minor, support},
    manifests::{Budget, LocatedProblem, Manifest, Manifests, Object, Resources},
};

/// The options as typed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Check the manifests in this file or directory (*.yaml, *.yml, *.json, recursively); - reads standard input, such
    /// as the output of helm template or kustomize build. May be repeated
    #[arg(short, long, value_name = "PATH", required = true)]
    filename: Vec<PathBuf>,
    /// Check for this Kubernetes version, such as 1.34 [default: the newest known version]
    #[arg(long, value_name = "VERSION")]
    kubernetes: Option<String>,
    /// The container runtime of the Windows nodes [default: containerd, before Kubernetes 1.24 docker]
    #[arg(long, value_enum)]
    runtime: Option<RuntimeName>,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    output: FindingFormat,
    /// Omit findings with this code; may be repeated. docs/lint.md lists the codes
    #[arg(long, value_name = "CODE")]
    ignore: Vec<String>,
    /// Look up the platforms of images in their registries, anonymously. Without it they are derived from image names
    #[arg(long)]
    registry: bool,
    #[command(flatten)]
    registries: registry::Args,
}

/// A container runtime.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum RuntimeName {
    /// containerd
    Containerd,
    /// Docker with dockershim or cri-dockerd
    Docker,
}

/// The output format of findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum FindingFormat {
    /// One line for each finding
    #[default]
    Text,
    /// One object with all findings
    Json,
    /// SARIF 2.1.0, for code review
    Sarif,
}

/// The validated options.
pub(super) struct Settings {
    files: Vec<PathBuf>,
    target: Target,
    format: FindingFormat,
    ignored: BTreeSet<Code>,
    registry: Option<registry::Args>,
}

impl TryFrom<Args> for Settings {
    type Error = Failure;

    fn try_from(args: Args) -> Result<Self, Failure> {
        let minor = args.kubernetes.as_deref().map_or(Ok(support::NEWEST), minor)?;
        let code = |text: &String| text.parse().map_err(|error| Failure::Usage(format!("--ignore: {error}")));
        let ignored = args.ignore.iter().map(code).collect::<Result<_, _>>()?;
        let target = Target { minor, runtime: runtime(args.runtime, minor) };
        let registry = args.registry.then_some(args.registries);
        Ok(Self { files: args.filename, target, format: args.output, ignored, registry })
    }
}

/// The container runtime of nodes of a minor: by default Docker up to the last kubelet with dockershim.
fn runtime(requested: Option<RuntimeName>, minor: Minor) -> ContainerRuntime {
    match (requested, ContainerRuntime::docker(minor)) {
        (Some(RuntimeName::Containerd), _) | (None, ContainerRuntime::CriDockerd) => ContainerRuntime::Containerd(()),
        (_, docker) => docker,
    }
}

/// Prints the findings.
///
/// # Errors
/// There is an error or a warning.
pub(super) fn run(settings: Settings) -> Result<(), Failure> {
    let manifests = input::read_within(&settings.files, &mut Budget::bounded())?;
    let own = OwnResources::read(&manifests.objects);
    let lookups = settings.registry.map(|args| look_up(&manifests, &own.resources, args)).transpose()?;
    let lookups = lookups.unwrap_or_default();
    let mut report = check_with(manifests, own, settings.target, &|image| lookups.get(image).cloned());
    report.failed_lookups = failed_lookups(&lookups);
    report.findings.retain(|found| !settings.ignored.contains(&found.finding.code));
    output::print(&match settings.format {
        FindingFormat::Text => report::text(&report),
        FindingFormat::Json => report::json(&report),
        FindingFormat::Sarif => sarif::text(&report),
    })?;
    tables::not_checked(settings.target.minor).iter().for_each(|text| input::note(text));
    report.notes().iter().for_each(|text| input::note(text));
    let summary = report.summary();
    if report.passes() {
        input::note(&summary);
        return Ok(());
    }
    Err(Failure::Problems(summary))
}

/// Looks up the images of all workloads.
fn look_up(
    manifests: &Manifests,
    resources: &Resources,
    args: registry::Args,
) -> Result<HashMap<Reference, Lookup>, Failure> {
    let template = |manifest: &Manifest| Workload::of(&manifest.object.value())?.template().ok();
    let containers = manifests.objects.iter().filter_map(template).flat_map(|template| template.containers);
    let images = containers.map(|container| container.image).collect();
    let mirrors = |image: &Reference| mirrors(resources, image.registry());
    let registry = args.registry()?;
    let lookups = connect::runtime()?.block_on(registry::look_up(&registry, images, mirrors));
    let by_reference = |(image, lookup): (String, Arc<Lookup>)| Some((image.parse().ok()?, lookup.as_ref().clone()));
    Ok(lookups.into_iter().filter_map(by_reference).collect())
}

/// The mirrors of a registry in all profiles: several pools may pull the same image.
fn mirrors(resources: &Resources, registry: &str) -> Arc<[String]> {
    let profiles = resources.profiles.values().filter_map(|(profile, _)| profile.profile.as_ref().ok());
    let mut seen = BTreeSet::new();
    let endpoints = profiles.flat_map(|profile| profile.mirrors(registry));
    endpoints.filter(|endpoint| seen.insert(*endpoint)).cloned().collect()
}

/// The errors of failed lookups, by image.
fn failed_lookups(lookups: &HashMap<Reference, Lookup>) -> BTreeMap<String, String> {
    let failed = lookups.iter().filter_map(|(image, lookup)| match lookup {
        Lookup::Failed(error) => Some((image.to_string(), error.clone())),
        Lookup::Found(_) => None,
    });
    failed.collect()
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// The findings, by file and line.
    pub findings: Vec<LocatedFinding>,
    /// The number of checked objects.
    pub objects: usize,
    /// The number of skipped objects, by kind.
    pub skipped: BTreeMap<String, usize>,
    /// Documents that are not Kubernetes objects.
    pub ignored: Vec<String>,
    /// The errors of failed lookups, by image.
    pub failed_lookups: BTreeMap<String, String>,
}

impl Report {
    /// Whether all findings are notes.
    pub fn passes(&self) -> bool {
        self.findings.iter().all(|found| found.finding.code.severity() == Severity::Note)
    }

    /// The number of findings of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|found| found.finding.code.severity() == severity).count()
    }

    /// The counts in one line.
    pub fn summary(&self) -> String {
        let [errors, warnings, notes] = [Severity::Error, Severity::Warning, Severity::Note]
            .map(|severity| counted(self.count(severity), severity.as_str()));
        format!("{errors}, {warnings}, {notes} in {}", counted(self.objects, "object"))
    }

    /// What was not checked.
    pub fn notes(&self) -> Vec<String> {
        let kinds: Vec<_> = self.skipped.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let kinds = (!kinds.is_empty()).then(|| format!("skipped: {}", kinds.join(", ")));
        let documents = self.ignored.iter().map(|text| format!("skipped: {text}"));
        let lookups =
            self.failed_lookups.iter().map(|(image, error)| format!("lookup of image {image} failed: {error}"));
        documents.chain(kinds).chain(lookups).collect()
    }
}

/// Checks manifests; `lookups` returns what a registry reported about an image.
pub fn check(manifests: Manifests, target: Target, lookups: &LookupFn<'_>) -> Report {
    let own = OwnResources::read(&manifests.objects);
    check_with(manifests, own, target, lookups)
}

fn check_with(manifests: Manifests, own: OwnResources, target: Target, lookups: &LookupFn<'_>) -> Report {
    let Manifests { objects, problems, ignored } = manifests;
    let unreadable: BTreeSet<_> = problems.iter().map(|problem| problem.file.clone()).collect();
    let (state, own_problems) = scheduling_state(&objects, own, target.minor);
    let mut checker = Checker {
        context: LintContext::new(target, &state, lookups),
        report: Report { ignored, ..Report::default() },
        findings: Vec::new(),
        suppressions: Suppressions::default(),
    };
    checker.add_problems(Code::Unreadable, problems);
    checker.add_problems(Code::ResourceInvalid, own_problems);
    checker.suppressions.add_comments(&objects);
    // Services are checked against all other objects.
    let (services, others): (Vec<_>, Vec<_>) =
        objects.iter().enumerate().partition(|(_, manifest)| is_service(&manifest.object));
    others.into_iter().chain(services).for_each(|(index, manifest)| checker.check(index, manifest));
    let Checker { mut report, findings, suppressions, .. } = checker;
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
    report: Report,
    findings: Vec<IndexedFinding>,
    suppressions: Suppressions,
}

impl Checker<'_> {
    fn add_problems(&mut self, code: Code, problems: Vec<LocatedProblem>) {
        let findings = problems.into_iter().map(|problem| (None, LocatedFinding::of_problem(code, problem)));
        self.findings.extend(findings);
    }

    fn check(&mut self, index: usize, Manifest { object, location }: &Manifest) {
        let is_suppressed = object.contains(LINT_IGNORE);
        if !is_suppressed && (is_own(object) || is_class(object)) {
            self.report.objects += 1;
            return;
        }
        let value = object.value();
        if is_suppressed {
            self.suppressions.add_annotations(index, location, &value);
        }
        self.context.add(&value);
        let findings = match Workload::of(&value) {
            Some(workload) => lint::workload(&workload, &self.context),
            None if is_service(object) => lint::service(&value, &self.context),
            None if is_own(object) || is_class(object) || is_endpoints(object) => Vec::new(),
            None => {
                *self.report.skipped.entry(object.kind().to_owned()).or_default() += 1;
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

fn is_service(object: &Object) -> bool {
    (object.api_version(), object.kind()) == ("v1", "Service")
}

fn is_endpoints(object: &Object) -> bool {
    [("discovery.k8s.io", "EndpointSlice"), ("", "Endpoints")].contains(&group_kind(object))
}

fn is_class(object: &Object) -> bool {
    group_kind(object) == ("node.k8s.io", "RuntimeClass")
}

fn is_own(object: &Object) -> bool {
    [(GROUP, "WindowsNodePool"), (GROUP, "WindowsRuntimeProfile")].contains(&group_kind(object))
}

/// The winpool resources among manifests: all of them, or none if they have problems.
struct OwnResources {
    resources: Resources,
    problems: Vec<LocatedProblem>,
}

impl OwnResources {
    fn read(objects: &[Manifest]) -> Self {
        let mut problems = Vec::new();
        let resources = Resources::read(objects, &mut problems);
        Self { resources: if problems.is_empty() { resources } else { Resources::default() }, problems }
    }
}

/// The pools and RuntimeClasses among manifests with the RuntimeClasses that the operator creates, and the problems of
/// winpool resources that `render` reports.
fn scheduling_state(objects: &[Manifest], own: OwnResources, minor: Minor) -> (SchedulingState, Vec<LocatedProblem>) {
    let OwnResources { resources, mut problems } = own;
    let mut snapshot = render::snapshot(&resources, Objects::default(), "");
    let expected_nodes = [ExpectedNode { kubelet: minor, containerd: None }];
    let rendered = render::render(&snapshot, &expected_nodes, &resources).unwrap_or_else(|found| {
        problems.extend(found);
        Rendered::default()
    });
    let written = objects.iter().map(|manifest| &manifest.object).filter(|object| is_class(object)).map(Object::value);
    for class in rendered.runtime_classes.into_values().chain(written) {
        if let Ok(class) = serde_json::from_value::<RuntimeClass>(class) {
            snapshot.runtime_classes.insert(RuntimeClassView::from(class));
        }
    }
    (SchedulingState::of(&snapshot), problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::Manifests;

    #[test]
    fn the_mirrors_of_all_profiles_are_used_once() {
        let profile = |name: &str, endpoints: &str| {
            format!(
                "---\napiVersion: winpool.dev/v1alpha1\nkind: WindowsRuntimeProfile\nmetadata: {{name: {name}}}\nspec: \
                 {{containerd: {{registryMirrors: [{{registry: docker.io, endpoints: [{endpoints}]}}]}}}}\n"
            )
        };
        let (one, other) = ("'https://a.example'", "'https://b.example', 'https://a.example'");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), profile("a", one) + &profile("b", other)).unwrap();
        let manifests = Manifests::read(&[file.path().to_owned()], &mut Budget::bounded()).unwrap();
        let OwnResources { resources, problems } = OwnResources::read(&manifests.objects);
        assert_eq!(problems, []);
        assert_eq!(*mirrors(&resources, "docker.io"), ["https://a.example", "https://b.example"]);
        assert!(mirrors(&resources, "example.com").is_empty());
    }
}

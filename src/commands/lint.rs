//! `winpool lint`: what is wrong with manifests for Windows nodes, without a cluster.

mod report;
mod sarif;
mod silence;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::PathBuf,
    sync::Arc,
};

use clap::ValueEnum;
use k8s_openapi::api::node::v1::RuntimeClass;
use serde_json::Value;

use self::silence::Silences;
use super::{
    Failure, connect, input, output, registry,
    render::{self, Rendered, minor},
};
use crate::{
    api::names::GROUP,
    domain::{
        conditions::counted,
        image::{Lookup, Reference},
        lint::{self, Code, Finding, Severity, Target, Workload, World},
        pool::{RuntimeClassView, configs::Newcomer},
        tables,
        workload::Ground,
    },
    facts::{Minor, runtimes::Runtime, support},
    manifests::{Budget, Manifest, Manifests, Mistake, Object, Place, Resources},
};

/// What was typed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files with manifests, folders with such files (*.yaml, *.yml, *.json, with everything below them), or - for
    /// standard input, such as what `helm template` and `kustomize build` print; may be repeated
    #[arg(short, long, value_name = "PATH", required = true)]
    filename: Vec<PathBuf>,
    /// The Kubernetes minor that the manifests are for, such as 1.34 [default: the newest that was read]
    #[arg(long, value_name = "VERSION")]
    kubernetes: Option<String>,
    /// The container runtime of the Windows nodes [default: containerd, before Kubernetes 1.24 docker]
    #[arg(long, value_enum)]
    runtime: Option<RuntimeName>,
    /// How to print the findings
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Leave out the findings of a code; may be repeated. docs/lint.md has the codes
    #[arg(long, value_name = "CODE")]
    ignore: Vec<String>,
    /// Ask the registries of the images what these are for, anonymously. Without it only their names tell
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
    /// Docker, by dockershim or cri-dockerd
    Docker,
}

/// How findings are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line for each, for people
    #[default]
    Text,
    /// One object with findings, for programs
    Json,
    /// SARIF 2.1.0, for code review
    Sarif,
}

/// What it means.
pub(super) struct Settings {
    files: Vec<PathBuf>,
    target: Target,
    format: Format,
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

/// The runtime of a minor's nodes. Where nobody says, it is Docker as long as the kubelet brings support for it.
fn runtime(named: Option<RuntimeName>, minor: Minor) -> Runtime {
    match (named, Runtime::Dockershim.facts().last.is_some_and(|last| minor <= last)) {
        (Some(RuntimeName::Containerd), _) | (None, false) => Runtime::Containerd,
        (Some(RuntimeName::Docker) | None, true) => Runtime::Dockershim,
        (Some(RuntimeName::Docker), false) => Runtime::CriDockerd,
    }
}

/// Prints the findings; there is a failure if one of them is more than a note.
pub(super) fn run(settings: Settings) -> Result<(), Failure> {
    let manifests = input::read_within(&settings.files, &mut Budget::bounded())?;
    let answers = settings.registry.map(|args| answers(&manifests, args)).transpose()?.unwrap_or_default();
    let mut report = check(manifests, settings.target, &|image| answers.get(image).cloned());
    report.unanswered = unanswered(&answers);
    report.findings.retain(|found| !settings.ignored.contains(&found.finding.code));
    output::print(&match settings.format {
        Format::Text => report::text(&report),
        Format::Json => report::json(&report),
        Format::Sarif => sarif::text(&report),
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

/// What registries say of the images in manifests, by image.
fn answers(manifests: &Manifests, args: registry::Args) -> Result<HashMap<Reference, Lookup>, Failure> {
    let template = |object: Value| Workload::of(&object)?.template().ok();
    let templates = manifests.objects.iter().filter_map(|manifest| template(manifest.object.value()));
    let images = templates.flat_map(|template| template.containers).map(|container| container.image).collect();
    let (resources, _) = own_resources(&manifests.objects);
    let mirrors = |image: &Reference| mirrors(&resources, image.registry());
    let registry = args.registry()?;
    let answers = connect::runtime()?.block_on(registry::ask(&registry, images, mirrors));
    let parsed = answers.into_iter().filter_map(|(image, lookup)| Some((image.parse().ok()?, lookup.as_ref().clone())));
    Ok(parsed.collect())
}

/// The mirrors of a registry in all profiles among the manifests: several pools may pull one image.
fn mirrors(resources: &Resources, registry: &str) -> Arc<[String]> {
    let profiles = resources.profiles.values().filter_map(|(profile, _)| profile.profile.as_ref().ok());
    let mut seen = BTreeSet::new();
    let endpoints = profiles.flat_map(|profile| profile.mirrors(registry));
    endpoints.filter(|endpoint| seen.insert(*endpoint)).cloned().collect()
}

/// The images that a registry did not tell of, with why not.
fn unanswered(answers: &HashMap<Reference, Lookup>) -> BTreeMap<String, String> {
    let failed = answers.iter().filter_map(|(image, lookup)| match lookup {
        Lookup::Failed(words) => Some((image.to_string(), words.clone())),
        Lookup::Found(_) => None,
    });
    failed.collect()
}

/// What was found in manifests.
#[derive(Debug, Default)]
pub struct Report {
    /// The findings, in order of files and lines.
    pub findings: Vec<Found>,
    /// How many objects were looked at.
    pub objects: usize,
    /// The kinds that were passed over, with their counts.
    pub passed_over: BTreeMap<String, usize>,
    /// Documents that are no Kubernetes objects.
    pub ignored: Vec<String>,
    /// The images that a registry was asked for in vain, with what it said.
    pub unanswered: BTreeMap<String, String>,
}

/// A finding, and where it is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// The file as it was named, or `-` for standard input.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The finding.
    pub finding: Finding,
    /// The object as `Kind namespace/name`; empty where there is none.
    pub object: String,
}

impl Report {
    /// Whether there is nothing but notes.
    pub fn passes(&self) -> bool {
        self.findings.iter().all(|found| found.finding.code.severity() == Severity::Note)
    }

    /// How many findings there are of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|found| found.finding.code.severity() == severity).count()
    }

    /// The counts in one line.
    pub fn summary(&self) -> String {
        let [errors, warnings, notes] = [Severity::Error, Severity::Warning, Severity::Note]
            .map(|severity| counted(self.count(severity), severity.word()));
        format!("{errors}, {warnings}, {notes} in {}", counted(self.objects, "object"))
    }

    /// What was not looked at, or is not known.
    pub fn notes(&self) -> Vec<String> {
        let kinds: Vec<_> = self.passed_over.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let kinds = (!kinds.is_empty()).then(|| format!("passed over: {}", kinds.join(", ")));
        let unknown = |(image, words): (&String, &String)| format!("nobody knows what {image} is for: {words}");
        let unanswered = self.unanswered.iter().map(unknown);
        self.ignored.iter().map(|text| format!("passed over: {text}")).chain(kinds).chain(unanswered).collect()
    }
}

/// Everything that is wrong with manifests. `lookups` gives what a registry says of an image, if somebody asked it.
pub fn check(manifests: Manifests, target: Target, lookups: &dyn Fn(&Reference) -> Option<Lookup>) -> Report {
    let Manifests { objects, mistakes, ignored } = manifests;
    let mut report = Report { ignored, ..Report::default() };
    let unread: BTreeSet<_> = mistakes.iter().map(|mistake| mistake.file.clone()).collect();
    report.findings.extend(mistakes.into_iter().map(|mistake| of_mistake(Code::Unreadable, mistake)));
    let (ground, mistakes) = ground(&objects, target.minor);
    report.findings.extend(mistakes.into_iter().map(|mistake| of_mistake(Code::ResourceInvalid, mistake)));
    let mut world = World::new(target, &ground, lookups);
    objects.iter().for_each(|manifest| world.add(&manifest.object.value()));
    let silences = Silences::of(&objects);
    objects.iter().for_each(|manifest| report.add(manifest, &world));
    silences.apply(&mut report.findings);
    // What could not be read may be what a comment is for.
    report.findings.retain(|found| found.finding.code != Code::UnusedIgnore || !unread.contains(&found.file));
    report.findings.sort();
    report.findings.dedup();
    report
}

impl Report {
    fn add(&mut self, manifest: &Manifest, world: &World<'_>) {
        let object = manifest.object.value();
        let findings = match Workload::of(&object) {
            Some(workload) => lint::workload(&workload, world),
            None if is_service(&manifest.object) => lint::service(&object, world),
            None if is_known(&manifest.object) => Vec::new(),
            None => {
                *self.passed_over.entry(manifest.object.kind().to_owned()).or_default() += 1;
                return;
            }
        };
        self.objects += 1;
        self.findings.extend(findings.into_iter().map(|finding| Found::new(&manifest.place, finding, &object)));
    }
}

impl Found {
    fn new(place: &Place, finding: Finding, object: &Value) -> Self {
        Self { file: place.file().to_owned(), line: place.line(&finding.path), finding, object: named(object) }
    }
}

/// `Kind namespace/name`
fn named(object: &Value) -> String {
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str().map(|name| format!("{name}/")).unwrap_or_default();
    let [kind, name] = [&object["kind"], &metadata["name"]].map(|text| text.as_str().unwrap_or_default());
    format!("{kind} {namespace}{name}")
}

/// The group and kind of an object.
fn kind(object: &Object) -> (&str, &str) {
    (object.group(), object.kind())
}

fn is_service(object: &Object) -> bool {
    (object.api_version(), object.kind()) == ("v1", "Service")
}

/// Whether the object is one that the rules read beside those that they judge.
fn is_known(object: &Object) -> bool {
    let read = [("discovery.k8s.io", "EndpointSlice"), ("", "Endpoints")];
    read.contains(&kind(object)) || is_class(object) || is_own(object)
}

fn is_class(object: &Object) -> bool {
    kind(object) == ("node.k8s.io", "RuntimeClass")
}

fn is_own(object: &Object) -> bool {
    [(GROUP, "WindowsNodePool"), (GROUP, "WindowsRuntimeProfile")].contains(&kind(object))
}

fn of_mistake(code: Code, mistake: Mistake) -> Found {
    let Mistake { file, line, problem } = mistake;
    let finding = Finding::told(code, problem.path, problem.wrong, problem.remedy);
    Found { file, line, finding, object: String::new() }
}

/// Our own resources among the manifests; if anything is wrong with them, that and none.
fn own_resources(objects: &[Manifest]) -> (Resources, Vec<Mistake>) {
    let own = objects.iter().filter(|manifest| is_own(&manifest.object)).cloned().collect();
    match Resources::of(Manifests { objects: own, ..Manifests::default() }) {
        Ok(resources) => (resources, Vec::new()),
        Err(mistakes) => (Resources::default(), mistakes),
    }
}

/// The pools and RuntimeClasses among the manifests, with those that the operator makes for the pools, and what is wrong
/// with our own resources: they are checked as `render` does it.
fn ground(objects: &[Manifest], minor: Minor) -> (Ground, Vec<Mistake>) {
    let (resources, mut mistakes) = own_resources(objects);
    let mut snapshot = render::snapshot(&resources, BTreeMap::new(), "");
    let newcomers = [Newcomer { kubelet: minor, containerd: None }];
    let rendered = render::render(&snapshot, &newcomers, &resources).unwrap_or_else(|wrong| {
        mistakes.extend(wrong);
        Rendered::default()
    });
    let written = objects.iter().map(|manifest| &manifest.object).filter(|object| is_class(object)).map(Object::value);
    for class in rendered.runtime_classes.into_values().chain(written) {
        if let Ok(class) = serde_json::from_value::<RuntimeClass>(class) {
            let view = RuntimeClassView::from(class);
            snapshot.runtime_classes.insert(view.name().to_owned(), Arc::new(view));
        }
    }
    (Ground::of(&snapshot), mistakes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::Manifests;

    #[test]
    fn the_mirrors_of_every_profile_are_asked_once() {
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
        let (resources, mistakes) = own_resources(&manifests.objects);
        assert_eq!(mistakes, []);
        assert_eq!(*mirrors(&resources, "docker.io"), ["https://a.example", "https://b.example"]);
        assert!(mirrors(&resources, "example.com").is_empty());
    }
}

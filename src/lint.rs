//! `winpool lint`: problems of manifests for Windows nodes, without a cluster.

mod baseline;
mod config;
mod github;
mod junit;
mod path;
mod report;
mod sarif;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::ValueEnum;

use self::{
    baseline::Baseline,
    config::{Config, FailOn, RuntimeName},
};

pub use self::report::LintDocument;
use winpool_check::{
    lint::{LintReport, TargetCluster, Workload, check, own_resources},
    manifests::{Budget, FileSelection, Manifest, ManifestSet, Manifests, Others},
};
use winpool_core::{
    image::{Lookup, Reference},
    tables,
    text::counted,
};
use winpool_facts::{ContainerRuntime, Minor, support};

use super::{CommandError, connect, input, output, registry, render::minor_since};

/// The version of the manifests' cluster. Pods have `spec.os` since 1.23, with which the rules for Windows begin.
fn minor(text: &str) -> Result<Minor, CommandError> {
    minor_since(text, Minor(23))
}

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Check the manifests in this file or directory (*.yaml, *.yml, *.json, recursively); - reads standard input, such
    /// as the output of helm template or kustomize build
    #[arg(value_name = "PATH", required_unless_present = "filename")]
    paths: Vec<PathBuf>,
    /// The same as PATH, as in kubectl; may be repeated
    #[arg(short, long, value_name = "PATH")]
    filename: Vec<PathBuf>,
    /// Check for this Kubernetes version, such as 1.34 [default: the newest known version]
    #[arg(long, value_name = "VERSION")]
    kubernetes: Option<String>,
    /// The container runtime of the Windows nodes [default: containerd]
    #[arg(long, value_enum)]
    runtime: Option<RuntimeName>,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    output: FindingFormat,
    /// The least severity with which the exit status is 1 [default: warning]
    #[arg(long, value_enum, value_name = "SEVERITY")]
    fail_on: Option<FailOn>,
    /// Omit findings with this code; may be repeated. docs/lint.md lists the codes
    #[arg(long, value_name = "CODE")]
    ignore: Vec<String>,
    /// Read the configuration from this file [default: the nearest .winpool-lint.yaml in the working directory and its
    /// parents]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Do not count the known findings in this file
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write the findings into the file of --baseline as known ones
    #[arg(long)]
    write_baseline: bool,
    /// Skip typed files that are not Kubernetes manifests, as those in directories
    #[arg(long)]
    skip_other_files: bool,
    /// Look up the platforms of images in their registries, anonymously. Without it they are derived from image names
    #[arg(long)]
    registry: bool,
    #[command(flatten)]
    registries: registry::Args,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum FindingFormat {
    /// One line for each finding, and one for each code
    #[default]
    Text,
    /// One object with all findings
    Json,
    /// SARIF 2.1.0, for code review
    Sarif,
    /// Annotations of GitHub Actions
    Github,
    /// A JUnit report, for GitLab and others
    Junit,
}

pub(super) struct Settings {
    files: Vec<PathBuf>,
    others: Others,
    target: TargetCluster,
    format: FindingFormat,
    fail_on: FailOn,
    config: Config,
    baseline: Option<Baseline>,
    writes_baseline: bool,
    registry: Option<registry::Args>,
    /// The working directory.
    current: PathBuf,
}

impl TryFrom<Args> for Settings {
    type Error = CommandError;

    fn try_from(args: Args) -> Result<Self, CommandError> {
        let wrong =
            |error: std::io::Error| CommandError::Usage(format!("the working directory cannot be read: {error}"));
        let current = std::env::current_dir().map_err(wrong)?;
        let mut config = Config::read(args.config, &current)?;
        let given = args.kubernetes.as_deref().map(minor).transpose()?.or(config.kubernetes);
        let minor = given.unwrap_or(support::NEWEST);
        for text in &args.ignore {
            config.ignored.insert(text.parse().map_err(|error| CommandError::Usage(format!("--ignore: {error}")))?);
        }
        let baseline = args.baseline.or_else(|| config.baseline.clone());
        if args.write_baseline && baseline.is_none() {
            return Err(CommandError::Usage("--write-baseline needs the name of a file: --baseline FILE".to_owned()));
        }
        Ok(Self {
            files: [args.paths, args.filename].concat(),
            others: if args.skip_other_files { Others::Everywhere } else { Others::InDirectories },
            target: TargetCluster {
                minor,
                is_default: given.is_none(),
                runtime: runtime(args.runtime.or(config.runtime)),
            },
            format: args.output,
            fail_on: args.fail_on.or(config.fail_on).unwrap_or_default(),
            baseline: baseline.map(|path| Baseline::new(path, &current)),
            writes_baseline: args.write_baseline,
            registry: args.registry.then_some(args.registries),
            config,
            current,
        })
    }
}

/// The container runtime of the nodes.
fn runtime(requested: Option<RuntimeName>) -> ContainerRuntime {
    match requested.unwrap_or(RuntimeName::Containerd) {
        RuntimeName::Containerd => ContainerRuntime::Containerd(()),
        RuntimeName::Docker => ContainerRuntime::CriDockerd,
    }
}

/// Prints the findings. One that fails is an error.
pub(super) fn run(settings: Settings) -> Result<(), CommandError> {
    let mut report = report(&settings)?;
    tables::not_checked(settings.target.minor, super::today()).iter().for_each(|text| input::note(text));
    if settings.writes_baseline
        && let Some(baseline) = &settings.baseline
    {
        let count = counted(baseline.write(&report)?, "finding");
        input::note(&format!("{count} written to {}", baseline.path().display()));
        return Ok(());
    }
    if let Some(baseline) = &settings.baseline {
        baseline.apply(&mut report)?;
    }
    let report = report.printable();
    match settings.format {
        FindingFormat::Text => output::print_styled(&report::text(&report)),
        FindingFormat::Json => output::print(&report::json(&report)),
        FindingFormat::Sarif => output::print(&sarif::text(&report, &settings.current)),
        FindingFormat::Github => output::print(&github::text(&report, &settings.current)),
        FindingFormat::Junit => output::print(&junit::text(&report, |severity| settings.fail_on.includes(severity))),
    }?;
    report.notes().iter().for_each(|text| input::note(text));
    let summary = report.summary();
    if report.findings.iter().any(|found| settings.fail_on.includes(found.severity)) {
        return Err(CommandError::Problems(summary));
    }
    input::note(&summary);
    Ok(())
}

/// The findings that the configuration does not turn off, with its severities.
fn report(settings: &Settings) -> Result<LintReport, CommandError> {
    let Settings { config, current, .. } = settings;
    let excluded = |file: &Path| config.excludes(file, current);
    let selection = FileSelection { excluded: &excluded, others: settings.others };
    let manifests = input::read_within(&settings.files, &mut Budget::bounded(), selection)?;
    let lookups = settings.registry.as_ref().map(|args| look_up(&manifests, args)).transpose()?.unwrap_or_default();
    let mut report = check(manifests, settings.target, &|image| lookups.get(image).cloned());
    report.failed_lookups = failed_lookups(&lookups);
    report.findings.retain(|found| !config.ignored.contains(&found.finding.code));
    for found in &mut report.findings {
        found.severity = config.severities.get(&found.finding.code).copied().unwrap_or(found.severity);
    }
    Ok(report)
}

fn look_up(manifests: &Manifests, args: &registry::Args) -> Result<HashMap<Reference, Lookup>, CommandError> {
    let (resources, _) = own_resources(&manifests.objects);
    let template = |manifest: &Manifest| Workload::of(&manifest.object.value())?.template().ok();
    let containers = manifests.objects.iter().filter_map(template).flat_map(|template| template.containers);
    let images = containers.map(|container| container.image.raw().to_owned());
    let images = images.filter(|image| !manifests.replaced_images.contains(image)).collect();
    let mirrors = |image: &Reference| mirrors(&resources, image.registry());
    let registry = args.clone().registry()?;
    let lookups = connect::runtime()?.block_on(registry::look_up(&registry, images, mirrors));
    let by_reference = |(image, lookup): (String, Arc<Lookup>)| Some((image.parse().ok()?, lookup.as_ref().clone()));
    Ok(lookups.into_iter().filter_map(by_reference).collect())
}

/// The mirrors of a registry in all profiles: several pools may pull the same image.
fn mirrors(resources: &ManifestSet, registry: &str) -> Arc<[String]> {
    let profiles = resources.profiles.values().filter_map(|(profile, _)| profile.profile.as_ref().ok());
    let mut seen = BTreeSet::new();
    let endpoints = profiles.flat_map(|profile| profile.mirrors(registry));
    endpoints.filter(|endpoint| seen.insert(*endpoint)).cloned().collect()
}

/// The errors of failed lookups, by image.
fn failed_lookups(lookups: &HashMap<Reference, Lookup>) -> BTreeMap<String, String> {
    let failed = lookups.iter().filter_map(|(image, lookup)| match lookup {
        Lookup::Failed(error) => Some((image.to_string(), error.to_string())),
        Lookup::Found(_) => None,
    });
    failed.collect()
}

#[cfg(test)]
mod tests {
    use winpool_check::manifests::Manifests;

    use super::*;

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
        let (resources, problems) = own_resources(&manifests.objects);
        assert_eq!(problems, []);
        assert_eq!(*mirrors(&resources, "docker.io"), ["https://a.example", "https://b.example"]);
        assert!(mirrors(&resources, "example.com").is_empty());
    }
}

//! Reads manifests, and reports their problems.

use std::path::{Path, PathBuf};

use serde_json::Value;
use winpool_check::manifests::{
    BootstrapTemplates, Budget, FileSelection, LocatedProblem, ManifestSet, Manifests, ReadError,
};
use winpool_core::{foreign_text::escaped_lines, kind::Kind, kubernetes::syntax, text::counted};
use winpool_render::kube_proxy::CONFIG_MAP_ENTRY;

use super::{
    CommandError, output,
    progress::{self, Progress},
};

/// The files to read, as typed: as arguments, with `-f` as in kubectl, or both.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(id = "input", multiple = true)]
pub(super) struct Paths {
    /// A file or directory with WindowsNodePools and WindowsRuntimeProfiles (*.yaml, *.yml, *.json, recursively); - reads
    /// standard input
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The same as PATH, as in kubectl; may be repeated
    #[arg(short, long, value_name = "PATH")]
    filename: Vec<PathBuf>,
}

impl From<Paths> for Vec<PathBuf> {
    fn from(Paths { paths, filename }: Paths) -> Self {
        [paths, filename].concat()
    }
}

/// The pools and profiles in files.
pub(super) fn resources(files: &[PathBuf]) -> Result<ManifestSet, CommandError> {
    resources_among(files, read(files)?, None)
}

/// The pools and profiles in files, and the KubeadmConfigTemplates to which pools refer.
pub(super) fn resources_and_templates(files: &[PathBuf]) -> Result<(ManifestSet, BootstrapTemplates), CommandError> {
    let manifests = read(files)?;
    let templates = BootstrapTemplates::among(&manifests.objects);
    Ok((resources_among(files, manifests, Some(Kind::KUBEADM_CONFIG_TEMPLATE.name))?, templates))
}

/// The pools and profiles in files, and the ConfigMap with the configuration of kube-proxy, if there is one.
pub(super) fn resources_and_kube_proxy(files: &[PathBuf]) -> Result<(ManifestSet, Option<Value>), CommandError> {
    let manifests = read(files)?;
    let config_maps = manifests.objects.iter().filter(|one| one.object.kind() == "ConfigMap");
    let present = config_maps.map(|one| one.object.value()).find(|value| value["data"][CONFIG_MAP_ENTRY].is_string());
    Ok((resources_among(files, manifests, Some("ConfigMap"))?, present))
}

/// Reads the resources among manifests. Objects of another kind are skipped with a note, unless the caller reads them.
fn resources_among(
    files: &[PathBuf],
    manifests: Manifests,
    also_read: Option<&str>,
) -> Result<ManifestSet, CommandError> {
    manifests.ignored.iter().for_each(|text| note(&format!("skipped: {text}")));
    let mut resources = ManifestSet::new(manifests).map_err(|problems| failure(&problems))?;
    resources.other_kinds.retain(|kind| Some(kind.as_str()) != also_read);
    if !resources.other_kinds.is_empty() {
        let kinds: Vec<_> = resources.other_kinds.iter().map(String::as_str).collect();
        note(&format!("skipped objects of other kinds: {}", kinds.join(", ")));
    }
    if resources.pools.is_empty() && resources.profiles.is_empty() {
        let names: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
        let text = format!("{}: no WindowsNodePool and no WindowsRuntimeProfile found", names.join(", "));
        return Err(CommandError::Problems(text));
    }
    Ok(resources)
}

/// The objects in files of any size, such as the nodes of a large cluster.
pub(super) fn read(files: &[PathBuf]) -> Result<Manifests, CommandError> {
    read_within(files, &mut Budget::unbounded(), FileSelection::default())
}

/// The objects in some files within a budget.
pub(super) fn read_within(
    files: &[PathBuf],
    budget: &mut Budget,
    selection: FileSelection<'_>,
) -> Result<Manifests, CommandError> {
    if files.iter().filter(|path| path.as_path() == Path::new("-")).count() > 1 {
        return Err(stdin_twice());
    }
    let reads_stdin = files.iter().any(|path| path.as_path() == Path::new("-"));
    let _progress = (!reads_stdin).then(|| Progress::start("reading files", "file"));
    Manifests::read_selected(files, budget, selection)
        .map_err(|error: ReadError| CommandError::Usage(error.to_string()))
}

/// The failure for `-` as the path of two inputs.
pub(super) fn stdin_twice() -> CommandError {
    CommandError::Usage("standard input can be read only once. Write - for one path only".to_owned())
}

/// The failure that lists all problems, one per line.
pub(super) fn failure(problems: &[LocatedProblem]) -> CommandError {
    let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
    let count = counted(problems.len(), "problem");
    CommandError::Problems(format!("{count} in the input, nothing is written\n{}", lines.join("\n")))
}

/// The value of `--namespace`.
pub(super) fn namespace(name: String) -> Result<String, CommandError> {
    if syntax::is_dns_label(&name) {
        return Ok(name);
    }
    let text = format!("--namespace: `{name}` is not the name of a namespace. Use at most 63 of a-z, 0-9 and -");
    Err(CommandError::Usage(text))
}

/// Prints a note to stderr.
pub(super) fn note(text: &str) {
    progress::interrupt();
    output::print_error(&format!("winpool: {}\n", escaped_lines(text)));
}

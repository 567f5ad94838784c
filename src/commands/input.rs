//! What several commands read from files, and how they say what is wrong there.

use std::path::{Path, PathBuf};

use super::Failure;
use crate::{
    domain::syntax,
    manifests::{Budget, Manifests, Mistake, ReadError, Resources},
};

/// The pools and profiles in files, of which there must be some.
pub(super) fn resources(files: &[PathBuf]) -> Result<Resources, Failure> {
    let manifests = read(files)?;
    manifests.ignored.iter().for_each(|text| note(&format!("passed over: {text}")));
    let resources = Resources::of(manifests).map_err(|mistakes| problems(&mistakes))?;
    resources.note_of_others().iter().for_each(|text| note(text));
    if resources.pools.is_empty() && resources.profiles.is_empty() {
        let names: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
        let text = format!("{}: neither a WindowsNodePool nor a WindowsRuntimeProfile is there", names.join(", "));
        return Err(Failure::Problems(text));
    }
    Ok(resources)
}

/// Whatever objects are in files: one's own, of any size, as the nodes of a large cluster are.
pub(super) fn read(files: &[PathBuf]) -> Result<Manifests, Failure> {
    read_within(files, &mut Budget::unbounded())
}

/// Whatever objects are in files, as far as a budget goes.
pub(super) fn read_within(files: &[PathBuf], budget: &mut Budget) -> Result<Manifests, Failure> {
    if files.iter().filter(|path| path.as_path() == Path::new("-")).count() > 1 {
        return Err(Failure::Usage("standard input can be read once: write - only once".to_owned()));
    }
    Manifests::read(files, budget).map_err(|error: ReadError| Failure::Usage(error.to_string()))
}

/// All mistakes, a line each.
pub(super) fn problems(mistakes: &[Mistake]) -> Failure {
    let lines: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
    let count = match mistakes.len() {
        1 => "a mistake".to_owned(),
        count => format!("{count} mistakes"),
    };
    Failure::Problems(format!("{count} in the input, nothing is written\n{}", lines.join("\n")))
}

/// The name of a namespace.
pub(super) fn namespace(name: String) -> Result<String, Failure> {
    if syntax::is_dns_label(&name) {
        return Ok(name);
    }
    let text = format!("--namespace: `{name}` is not the name of a namespace: write at most 63 of a-z, 0-9 and -");
    Err(Failure::Usage(text))
}

/// Says something on stderr that is no failure.
pub(super) fn note(text: &str) {
    eprintln!("winpool: {text}");
}

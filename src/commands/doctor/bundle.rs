//! What was read, as files for somebody else: one for each part.

use std::{collections::BTreeMap, fs, path::Path};

use winpool_core::doctor::Evidence;

use crate::commands::{CommandError, output};

/// Writes a bundle.
pub fn write(directory: &Path, evidence: &Evidence) -> Result<(), CommandError> {
    let parts = evidence.to_parts().map_err(|error| CommandError::Internal(error.to_string()))?;
    parts
        .into_iter()
        .try_for_each(|(part, value)| output::write(directory, &format!("{part}.json"), &format!("{value:#}\n")))
}

/// Reads a bundle.
pub fn read(directory: &Path) -> Result<Evidence, CommandError> {
    let failure = |why: String| CommandError::Usage(format!("cannot read {}: {why}", directory.display()));
    let mut parts = BTreeMap::new();
    for entry in fs::read_dir(directory).map_err(|error| failure(error.to_string()))? {
        let path = entry.map_err(|error| failure(error.to_string()))?.path();
        let Some(part) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".json")) else { continue };
        let text = fs::read_to_string(&path).map_err(|error| failure(format!("{part}.json: {error}")))?;
        let value = serde_json::from_str(&text).map_err(|error| failure(format!("{part}.json: {error}")))?;
        parts.insert(part.to_owned(), value);
    }
    Evidence::from_parts(parts).map_err(|problem| failure(problem.to_string()))
}

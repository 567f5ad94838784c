//! What was read, as files for somebody else: one for each part.

use std::{collections::BTreeMap, fs, io::Read as _, path::Path};

use winpool_check::doctor::Evidence;

use crate::{CommandError, output};

/// Writes a bundle.
pub fn write(directory: &Path, evidence: &Evidence) -> Result<(), CommandError> {
    let parts = evidence.to_parts().map_err(|error| CommandError::Internal(error.to_string()))?;
    parts
        .into_iter()
        .try_for_each(|(part, value)| output::write(directory, &format!("{part}.json"), &format!("{value:#}\n")))
}

/// The most files of a bundle, and the most bytes of all of them. Those that are written have about a dozen, and a few MiB.
const MAX_FILES: usize = 64;
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Reads a bundle, which somebody else may have written: only regular files, and only as many bytes as are expected.
pub fn read(directory: &Path) -> Result<Evidence, CommandError> {
    let failure = |why: String| CommandError::Usage(format!("cannot read {}: {why}", directory.display()));
    let mut parts = BTreeMap::new();
    let mut left = MAX_BYTES;
    for entry in fs::read_dir(directory).map_err(|error| failure(error.to_string()))? {
        let path = entry.map_err(|error| failure(error.to_string()))?.path();
        let Some(part) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".json")) else { continue };
        if parts.len() == MAX_FILES {
            return Err(failure(format!("it has more than {MAX_FILES} files, so it is no bundle")));
        }
        let text = read_file(&path, left).map_err(|why| failure(format!("{part}.json: {why}")))?;
        left = left.saturating_sub(text.len() as u64);
        let value = serde_json::from_str(&text).map_err(|error| failure(format!("{part}.json: {error}")))?;
        parts.insert(part.to_owned(), value);
    }
    Evidence::from_parts(parts).map_err(|problem| failure(problem.to_string()))
}

fn read_file(path: &Path, left: u64) -> Result<String, String> {
    // A link could name a device or another file of the reader, whose content would be printed.
    let found = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("it is no regular file: copy the bundle as --bundle has written it".to_owned());
    }
    let mut text = String::new();
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    // The file may grow while it is read.
    file.take(left.saturating_add(1)).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > left {
        return Err(format!("the bundle has more than {} MiB", MAX_BYTES / 1024 / 1024));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_bounded_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let read = |name: &str, left| read_file(&path(name), left);
        fs::write(path("at.json"), "\"2026\"").unwrap();
        assert_eq!(read("at.json", 6), Ok("\"2026\"".to_owned()));
        assert_eq!(read("at.json", 5), Err("the bundle has more than 256 MiB".to_owned()));
        fs::create_dir(path("folder.json")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path("device.json")).unwrap();
        std::os::unix::fs::symlink("at.json", path("link.json")).unwrap();
        for name in ["folder.json", "device.json", "link.json"] {
            let why = read(name, MAX_BYTES).unwrap_err();
            assert!(why.starts_with("it is no regular file"), "{name}: {why}");
        }
    }

    #[test]
    fn a_directory_with_many_files_is_no_bundle() {
        let folder = tempfile::tempdir().unwrap();
        (0..=MAX_FILES).for_each(|number| fs::write(folder.path().join(format!("{number}.json")), "1").unwrap());
        let why = read(folder.path()).unwrap_err().to_string();
        assert!(why.ends_with("it has more than 64 files, so it is no bundle"), "{why}");
    }
}

//! Writes files into a directory, which the next run replaces.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use crate::{CommandError, output};

/// The list of the written files, which the next run may replace.
const LIST: &str = ".winpool-render";

/// Writes files into a directory atomically: a new directory replaces the old one.
pub fn write_files(directory: &Path, files: &BTreeMap<String, String>) -> Result<(), CommandError> {
    let failure =
        |path: &Path, error: io::Error| CommandError::Usage(format!("cannot write {}: {error}", path.display()));
    check_replaceable(directory)?;
    let new = temporary(directory, "new");
    let written = files.iter().try_for_each(|(name, text)| output::write(&new, name, text));
    let list: Vec<_> = files.keys().map(|name| format!("{name}\n")).collect();
    let written = written.and_then(|()| output::write(&new, LIST, &list.concat()));
    let replaced = written.and_then(|()| replace(directory, &new).map_err(|error| failure(directory, error)));
    if replaced.is_err() {
        // The old directory is unchanged.
        let _ = fs::remove_dir_all(&new);
    }
    replaced
}

/// Fails if the directory contains a file that winpool did not write.
fn check_replaceable(directory: &Path) -> Result<(), CommandError> {
    if !directory.exists() {
        return Ok(());
    }
    let failure = |error: io::Error| CommandError::Usage(format!("cannot read {}: {error}", directory.display()));
    let list = fs::read_to_string(directory.join(LIST)).unwrap_or_default();
    let listed: BTreeSet<&str> = list.lines().chain([LIST]).collect();
    let mut present = Vec::new();
    add_files(directory, "", &mut present).map_err(failure)?;
    match present.into_iter().find(|name| !listed.contains(name.as_str())) {
        Some(name) => Err(CommandError::Usage(format!(
            "--out {}: {name} was not written by winpool. Choose another directory, or move the file",
            directory.display()
        ))),
        None => Ok(()),
    }
}

fn add_files(directory: &Path, prefix: &str, names: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            add_files(&entry.path(), &format!("{name}/"), names)?;
        } else {
            names.push(name);
        }
    }
    Ok(())
}

fn replace(directory: &Path, new: &Path) -> io::Result<()> {
    if !directory.exists() {
        return fs::rename(new, directory);
    }
    let old = temporary(directory, "old");
    fs::rename(directory, &old)?;
    match fs::rename(new, directory) {
        Ok(()) => fs::remove_dir_all(&old),
        Err(error) => fs::rename(&old, directory).and(Err(error)),
    }
}

/// A path next to the directory that no other process uses.
fn temporary(directory: &Path, suffix: &str) -> PathBuf {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    directory.with_file_name(format!(".{name}.{suffix}-{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::render::Documents;
    use winpool_check::render::Rendered;

    fn rendered(name: &str) -> BTreeMap<String, String> {
        let class = json!({"kind": "RuntimeClass", "metadata": {"name": name}});
        let config = json!({"kind": "ConfigMap", "data": {"kubelet.yaml": "maxPods: 1\n", "hosts.docker.io.toml": ""}});
        let rendered = Rendered {
            runtime_classes: BTreeMap::from([(name.to_owned(), class)]),
            config_maps: BTreeMap::from([(format!("{name}-1"), config)]),
            ..Rendered::default()
        };
        Documents::from(rendered).files()
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names = Vec::new();
        add_files(directory, "", &mut names).unwrap();
        names.sort();
        names
    }

    #[test]
    fn a_directory_is_replaced_by_the_next_render() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("out");
        write_files(&directory, &rendered("a")).unwrap();
        assert_eq!(
            names(&directory),
            [LIST, "a-1/certs.d/docker.io/hosts.toml", "a-1/kubelet.yaml", "configmap-a-1.yaml", "runtimeclass-a.yaml"]
        );
        assert_eq!(fs::read_to_string(directory.join("a-1/kubelet.yaml")).unwrap(), "maxPods: 1\n");
        write_files(&directory, &rendered("b")).unwrap();
        assert_eq!(
            names(&directory),
            [LIST, "b-1/certs.d/docker.io/hosts.toml", "b-1/kubelet.yaml", "configmap-b-1.yaml", "runtimeclass-b.yaml"]
        );
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "no temporary directory is left");
    }

    #[test]
    fn a_directory_with_other_files_is_not_changed() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("out");
        write_files(&directory, &rendered("a")).unwrap();
        fs::write(directory.join("notes.txt"), "mine").unwrap();
        let before = names(&directory);
        let failure = write_files(&directory, &rendered("b")).unwrap_err().to_string();
        assert!(failure.contains("notes.txt was not written by winpool"), "{failure}");
        assert_eq!(names(&directory), before);
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(write_files(&file, &rendered("b")), Err(CommandError::Usage(_))));
    }
}

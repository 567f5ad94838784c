//! Rendered objects as files: one for each object, and for each ConfigMap a folder with the files of a node.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use super::{Rendered, files::file_on_node};
use crate::commands::{Failure, output};

/// Lists the files that were written, so that the next render knows what it may replace.
const LIST: &str = ".winpool-render";

/// Writes the objects, and the files of each ConfigMap, into a folder.
pub fn write(folder: &Path, rendered: &Rendered) -> Result<(), Failure> {
    write_files(folder, &files(rendered))
}

/// Writes files by their paths into a folder, all or nothing: a new folder is filled and put in the place of the old one.
pub fn write_files(folder: &Path, files: &BTreeMap<String, String>) -> Result<(), Failure> {
    let wrong = |path: &Path, error: io::Error| Failure::Usage(format!("cannot write {}: {error}", path.display()));
    check_replaceable(folder)?;
    let fresh = beside(folder, "new");
    let written = files.iter().try_for_each(|(name, text)| output::write(&fresh, name, text));
    let list: Vec<_> = files.keys().map(|name| format!("{name}\n")).collect();
    let written = written.and_then(|()| output::write(&fresh, LIST, &list.concat()));
    let replaced = written.and_then(|()| replace(folder, &fresh).map_err(|error| wrong(folder, error)));
    if replaced.is_err() {
        // Only what was made just now; what stood there before is untouched.
        let _ = fs::remove_dir_all(&fresh);
    }
    replaced
}

/// The files by their paths in the folder.
fn files(rendered: &Rendered) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let kinds =
        [("runtimeclass", &rendered.runtime_classes), ("configmap", &rendered.config_maps), ("node", &rendered.nodes)];
    for (kind, objects) in kinds {
        for (name, object) in objects {
            files.insert(format!("{kind}-{name}.yaml"), output::yaml(object));
        }
    }
    for (name, object) in &rendered.config_maps {
        for (file, text) in object["data"].as_object().into_iter().flatten() {
            files.insert(format!("{name}/{}", file_on_node(file)), text.as_str().unwrap_or_default().to_owned());
        }
    }
    files
}

/// Refuses a folder with anything in it that no render wrote.
fn check_replaceable(folder: &Path) -> Result<(), Failure> {
    if !folder.exists() {
        return Ok(());
    }
    let wrong = |error: io::Error| Failure::Usage(format!("cannot read {}: {error}", folder.display()));
    let list = fs::read_to_string(folder.join(LIST)).unwrap_or_default();
    let ours: BTreeSet<&str> = list.lines().chain([LIST]).collect();
    let mut present = Vec::new();
    names_below(folder, "", &mut present).map_err(wrong)?;
    match present.into_iter().find(|name| !ours.contains(name.as_str())) {
        Some(name) => Err(Failure::Usage(format!(
            "--out {}: {name} was not written by winpool render, and would be lost: choose another folder, or move it away",
            folder.display()
        ))),
        None => Ok(()),
    }
}

fn names_below(folder: &Path, prefix: &str, names: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            names_below(&entry.path(), &format!("{name}/"), names)?;
        } else {
            names.push(name);
        }
    }
    Ok(())
}

/// Puts the fresh folder in the place of the old one.
fn replace(folder: &Path, fresh: &Path) -> io::Result<()> {
    if !folder.exists() {
        return fs::rename(fresh, folder);
    }
    let old = beside(folder, "old");
    fs::rename(folder, &old)?;
    match fs::rename(fresh, folder) {
        Ok(()) => fs::remove_dir_all(&old),
        Err(error) => fs::rename(&old, folder).and(Err(error)),
    }
}

/// A name beside the folder that no other process uses.
fn beside(folder: &Path, what: &str) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!(".{name}.{what}-{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(name: &str) -> Rendered {
        let class = json!({"kind": "RuntimeClass", "metadata": {"name": name}});
        let config = json!({"kind": "ConfigMap", "data": {"kubelet.yaml": "maxPods: 1\n", "hosts.docker.io.toml": ""}});
        Rendered {
            runtime_classes: BTreeMap::from([(name.to_owned(), class)]),
            config_maps: BTreeMap::from([(format!("{name}-1"), config)]),
            ..Rendered::default()
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names = Vec::new();
        names_below(folder, "", &mut names).unwrap();
        names.sort();
        names
    }

    #[test]
    fn a_folder_is_written_as_a_whole_and_replaced_by_the_next_render() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("out");
        write(&folder, &rendered("a")).unwrap();
        assert_eq!(
            names(&folder),
            [LIST, "a-1/certs.d/docker.io/hosts.toml", "a-1/kubelet.yaml", "configmap-a-1.yaml", "runtimeclass-a.yaml"]
        );
        assert_eq!(fs::read_to_string(folder.join("a-1/kubelet.yaml")).unwrap(), "maxPods: 1\n");
        write(&folder, &rendered("b")).unwrap();
        assert_eq!(
            names(&folder),
            [LIST, "b-1/certs.d/docker.io/hosts.toml", "b-1/kubelet.yaml", "configmap-b-1.yaml", "runtimeclass-b.yaml"]
        );
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_folder_with_other_files_is_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("out");
        write(&folder, &rendered("a")).unwrap();
        fs::write(folder.join("notes.txt"), "mine").unwrap();
        let before = names(&folder);
        let failure = write(&folder, &rendered("b")).unwrap_err().to_string();
        assert!(failure.contains("notes.txt was not written by winpool render"), "{failure}");
        assert_eq!(names(&folder), before);
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(write(&file, &rendered("b")), Err(Failure::Usage(_))));
    }
}

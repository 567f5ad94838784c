//! Directories of golden files.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use walkdir::{DirEntry, WalkDir};

/// The environment variable with which the tests write their golden files.
pub const RENEW: &str = "WINPOOL_RENEW_GOLDEN";

/// Checks that a directory has exactly these files, beside a `pools.yaml`. With [`RENEW`] they are written first, after their
/// subdirectories were removed. `module` is the module of the test.
pub fn check(directory: &Path, files: &BTreeMap<PathBuf, String>, module: &str) {
    if std::env::var_os(RENEW).is_some() {
        for path in files.keys() {
            let _ = fs::remove_dir_all(directory.join(path.components().next().unwrap()));
        }
        for (path, text) in files {
            let path = directory.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }
    let mut found = found(directory);
    found.remove(Path::new("pools.yaml"));
    let remedy = format!("if that is intended, run {RENEW}=1 cargo test -p winpool --test all {module}::, and commit");
    assert_eq!(found.keys().collect::<Vec<_>>(), files.keys().collect::<Vec<_>>(), "{remedy}");
    for (path, text) in files {
        assert_eq!(&found[path], text, "{}: {remedy}", path.display());
    }
}

/// The files below a directory, by path.
pub fn found(directory: &Path) -> BTreeMap<PathBuf, String> {
    let files = WalkDir::new(directory).into_iter().flatten().map(DirEntry::into_path).filter(|path| path.is_file());
    let name = |path: &Path| path.strip_prefix(directory).unwrap().to_owned();
    files.map(|path| (name(&path), fs::read_to_string(&path).unwrap())).collect()
}

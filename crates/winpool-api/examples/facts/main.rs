//! Compares the tables of facts with upstream files in a folder, and prints the differences: `make facts DIR=…`.
//!
//! docs/facts.md describes the files. Missing files are not compared. The exit status is 0 without differences, 1 with
//! differences, and 2 if a file cannot be parsed.

mod containerd;
mod gates;
mod kubelet;
mod pause;
mod windows;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use winpool_api::facts::Minor;

/// The differences, or the reason why a file cannot be parsed.
type Comparison = Result<Vec<String>, String>;

/// The files that are not specific to a minor, with their comparisons.
const FILES: [(&str, fn(&str) -> Comparison); 4] = [
    ("RELEASES.md", containerd::releases),
    ("containerd-tags.txt", containerd::tags),
    ("pause-CHANGELOG.md", pause::changelog),
    ("windows-server.md", windows::lifecycle),
];

/// The files for each minor, in a folder with its name.
const FILES_OF_MINORS: [(&str, fn(Minor, &str) -> Comparison); 4] = [
    ("versioned_feature_list.yaml", gates::list),
    ("types.go", kubelet::fields),
    ("options.go", kubelet::flags),
    ("osflags_windows.go", kubelet::windows_flags),
];

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from).filter(|folder| folder.is_dir()) else {
        eprintln!("usage: make facts DIR=FOLDER, with upstream files named as in docs/facts.md");
        return ExitCode::from(2);
    };
    let (mut compared, mut differences, mut failed) = (0, 0, false);
    for (file, result) in compare(&folder) {
        compared += 1;
        match result {
            Ok(found) => {
                differences += found.len();
                found.iter().for_each(|difference| println!("{file}: {difference}"));
            }
            Err(error) => {
                failed = true;
                println!("{file}: cannot be parsed: {error}");
            }
        }
    }
    println!("{compared} files compared, {differences} differences");
    match (failed || compared == 0, differences) {
        (true, _) => ExitCode::from(2),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => ExitCode::FAILURE,
    }
}

/// The comparisons of all files in a folder.
fn compare(folder: &Path) -> Vec<(String, Comparison)> {
    let mut results = Vec::new();
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| error.to_string());
    for (name, compare) in FILES {
        let path = folder.join(name);
        if path.is_file() {
            results.push((name.to_owned(), read(&path).and_then(|text| compare(&text))));
        }
    }
    for minor in minors(folder) {
        for (name, compare) in FILES_OF_MINORS {
            let path = folder.join(minor.to_string()).join(name);
            if path.is_file() {
                results.push((format!("{minor}/{name}"), read(&path).and_then(|text| compare(minor, &text))));
            }
        }
    }
    results
}

/// The minors with a folder, ascending.
fn minors(folder: &Path) -> Vec<Minor> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut minors: Vec<Minor> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let minor: Minor = name.parse().ok()?;
            (minor.to_string() == name && entry.path().is_dir()).then_some(minor)
        })
        .collect();
    minors.sort_unstable();
    minors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_files_are_compared() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert!(compare(folder.path()).is_empty());
        write("pause-CHANGELOG.md", "# 3.6\n\n* Support for Windows container images (OS Versions: 2022) was added.\n");
        write("1.36/versioned_feature_list.yaml", "not: a list\n");
        write("elsewhere/types.go", "");
        let files: Vec<_> = compare(folder.path()).into_iter().map(|(file, found)| (file, found.is_ok())).collect();
        assert_eq!(
            files,
            [("pause-CHANGELOG.md".to_owned(), true), ("1.36/versioned_feature_list.yaml".to_owned(), false)]
        );
    }
}

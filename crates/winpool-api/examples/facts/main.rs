//! Compares the tables of facts with upstream files in a folder, and prints the differences: `make facts DIR=…`.
//!
//! docs/facts.md describes the files. Without a folder, the sources are compared that `e2e/upstream.sh` unpacked from
//! Debian's packages. `--older-than MONTHS` lists the tables with an older date instead. Missing files are not
//! compared. The exit status is 0 without differences, 1 with differences, and 2 if a file cannot be parsed.

mod api;
mod containerd;
mod gates;
mod kubelet;
mod nodes;
mod pause;
mod pods;
mod prose;
mod windows;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use jiff::{ToSpan as _, Zoned};
use winpool_api::facts::{Minor, TABLES};

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
const FILES_OF_MINORS: [(&str, fn(Minor, &str) -> Comparison); 7] = [
    ("versioned_feature_list.yaml", gates::list),
    ("types.go", kubelet::fields),
    ("options.go", kubelet::flags),
    ("osflags_windows.go", kubelet::windows_flags),
    ("defaults_windows.go", nodes::eviction),
    ("kube_proxy_types.go", nodes::winkernel),
    ("well_known_labels.go", nodes::labels),
];

/// The files of Debian's packages, below `src/k8s.io`, with their comparisons.
const FILES_OF_DEBIAN: [(&str, fn(Minor, &str) -> Comparison); 15] = [
    ("api/core/v1/types.go", pods::rejected),
    ("apiserver/pkg/features/kube_features.go", gates::source),
    ("apiextensions-apiserver/pkg/features/kube_features.go", gates::source),
    ("client-go/features/known_features.go", gates::source),
    ("component-base/metrics/features/kube_features.go", gates::source),
    ("api/core/v1/well_known_taints.go", |_, text| nodes::taints(text)),
    ("api/core/v1/zz_generated.prerelease-lifecycle.go", |_, text| api::lifecycle("v1", text)),
    ("api/apps/v1/zz_generated.prerelease-lifecycle.go", |_, text| api::lifecycle("apps/v1", text)),
    ("api/apps/v1beta1/zz_generated.prerelease-lifecycle.go", |_, text| api::lifecycle("apps/v1beta1", text)),
    ("api/apps/v1beta2/zz_generated.prerelease-lifecycle.go", |_, text| api::lifecycle("apps/v1beta2", text)),
    ("api/batch/v1/zz_generated.prerelease-lifecycle.go", |_, text| api::lifecycle("batch/v1", text)),
    ("api/batch/v1beta1/zz_generated.prerelease-lifecycle.go", |_, text| api::lifecycle("batch/v1beta1", text)),
    ("api/extensions/v1beta1/zz_generated.prerelease-lifecycle.go", |_, text| {
        api::lifecycle("extensions/v1beta1", text)
    }),
    ("api/node/v1/zz_generated.prerelease-lifecycle.go", |_, text| api::lifecycle("node.k8s.io/v1", text)),
    ("api/node/v1beta1/zz_generated.prerelease-lifecycle.go", |_, text| api::lifecycle("node.k8s.io/v1beta1", text)),
];

/// The packages in Cargo's registry, whose newest downloaded version is compared.
const PACKAGES: [(&str, fn(&Path) -> Comparison); 2] = [
    ("k8s-openapi", api::newer_fields),
    ("windows-sys", |sources| {
        let constants = fs::read_to_string(sources.join("src/Windows/Win32/Foundation/mod.rs"));
        nodes::exit_codes(&constants.map_err(|error| error.to_string())?)
    }),
];

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if let [option, months] = &arguments[..]
        && option == "--older-than"
    {
        return older_than(months);
    }
    let named = arguments.first().filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let folder = named.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache/winpool/upstream")));
    let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
        eprintln!(
            "usage: make facts, after e2e/upstream.sh; or make facts DIR=FOLDER, with files named as in docs/facts.md"
        );
        return ExitCode::from(2);
    };
    let (mut compared, mut differences, mut failed) = (0, 0, false);
    for (file, result) in compare(&folder).into_iter().chain(of_packages()) {
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

/// Lists the tables whose newest source is older.
fn older_than(months: &str) -> ExitCode {
    let Ok(months) = months.parse::<i32>() else {
        eprintln!("usage: --older-than MONTHS");
        return ExitCode::from(2);
    };
    let limit = Zoned::now().date().saturating_sub(months.months());
    let old: Vec<_> = TABLES.iter().filter(|table| table.as_of < limit).collect();
    old.iter()
        .for_each(|table| println!("{} is of {}: read {} again", table.name, table.as_of, table.sources.join(", ")));
    if old.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The minor of Debian's packages, such as 1.36 for `Kubernetes 0.36.4-1 of Debian unstable`.
fn minor_of_debian(folder: &Path) -> Option<Minor> {
    let version = fs::read_to_string(folder.join("version")).ok()?;
    format!("1.{}", version.split("Kubernetes 0.").nth(1)?.split('.').next()?).parse().ok()
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
    for section in &prose::SECTIONS {
        let path = folder.join(section.file);
        if path.is_file() {
            results.push((section.file.to_owned(), read(&path).and_then(|text| section.compare(&text))));
        }
    }
    if let Some(minor) = minor_of_debian(folder) {
        for (name, compare) in FILES_OF_DEBIAN {
            let path = folder.join("src/k8s.io").join(name);
            if path.is_file() {
                results.push((name.to_owned(), read(&path).and_then(|text| compare(minor, &text))));
            }
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

/// The comparisons of the packages that Cargo has downloaded.
fn of_packages() -> Vec<(String, Comparison)> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let indexes = home.and_then(|home| fs::read_dir(home.join("registry/src")).ok()).into_iter().flatten().flatten();
    let folders: Vec<_> = indexes.filter_map(|index| fs::read_dir(index.path()).ok()).flatten().flatten().collect();
    let newest = |package: &str| {
        let version = |name: &str| {
            let numbers = name.strip_prefix(package)?.strip_prefix('-')?.split('.').map(str::parse::<u32>);
            numbers.collect::<Result<Vec<_>, _>>().ok()
        };
        let versions =
            folders.iter().filter_map(|folder| Some((version(folder.file_name().to_str()?)?, folder.path())));
        versions.max()
    };
    let compare = |(package, compare): (&str, fn(&Path) -> Comparison)| {
        newest(package).map(|(_, sources)| (package.to_owned(), compare(&sources)))
    };
    PACKAGES.into_iter().filter_map(compare).collect()
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

//! Compares the tables of facts with upstream files in a folder, and prints the differences: `make facts DIR=…`.
//!
//! docs/facts.md describes the files. The sources that `e2e/upstream.sh` unpacked from Debian's packages, and the packages that
//! Cargo has downloaded, are compared with or without a folder. Missing files are not compared; stderr names the tables without a
//! file. `--files [MINOR…]` prints the names of the files and their addresses instead, and `--older-than MONTHS` the tables
//! with an older date. The exit status is 0 without differences, 1 with differences, and 2 if a file cannot be parsed.

mod api;
mod containerd;
mod gates;
mod known_issues;
mod kubelet;
mod lines;
mod nodes;
mod pause;
mod pods;
mod prose;
mod settings;
mod support;
mod windows;

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use jiff::{ToSpan as _, Zoned};
use winpool_api::facts::{Minor, TABLES, support::NEWEST};

/// The differences, or the reason why a file cannot be parsed.
type Comparison = Result<Vec<String>, String>;

/// A file of a repository, a table that depends on it, and their comparison.
type Compared = (&'static str, &'static str, fn(&str) -> Comparison);

/// The files of the default branch, or of a tag: `owner/repository@tag/path`.
const FILES: &[Compared] = &[
    ("containerd/containerd/RELEASES.md", "containerd", containerd::releases),
    ("kubernetes/kubernetes/build/pause/CHANGELOG.md", "pause", pause::changelog),
    ("endoflife-date/endoflife.date/products/windows-server.md", "builds", windows::lifecycle),
    ("altrhombus/DataForGeeks/content/ms/win/buildnumbers.json", "windows_updates", windows::updates),
    ("altrhombus/DataForGeeks/content/ms/win/buildnumbers.json", "known_issues", known_issues::articles),
    (
        "containerd/containerd/vendor/github.com/containerd/platforms/platform_windows_compat.go",
        "version_compatibility",
        containerd::stable_abi,
    ),
    ("containerd/containerd/internal/cri/config/config.go", "containerd_settings", settings::cri),
    ("containerd/containerd@v1.7.34/pkg/cri/config/config.go", "containerd_settings", settings::cri_1_7),
    ("containerd/containerd/cmd/containerd/server/config/config.go", "containerd_settings", settings::server),
    ("containerd/containerd/plugins/gc/scheduler.go", "containerd_settings", settings::gc),
    ("containerd/containerd/plugins/services/diff/local.go", "containerd_settings", settings::diff),
    ("containerd/containerd/plugins/transfer/plugin.go", "containerd_settings", settings::transfer),
    ("containerd/containerd/core/remotes/docker/config/hosts.go", "containerd_settings", settings::hosts),
    ("microsoft/hcsshim/cmd/containerd-shim-runhcs-v1/options/runhcs.proto", "containerd_settings", settings::options),
    ("kubernetes-csi/csi-proxy/CHANGELOG/CHANGELOG-1.1.3.md", "known_issues", known_issues::csi_proxy),
];

/// The files that `e2e/facts.sh` makes of the tags of containerd/containerd.
const FILES_OF_TAGS: &[Compared] = &[
    ("containerd-tags.txt", "containerd", containerd::tags),
    ("containerd-modules.txt", "known_issues", containerd::modules),
    ("containerd-modules.txt", "version_compatibility", containerd::modules),
    ("containerd-notes.txt", "known_issues", known_issues::containerd),
];

/// The files for each minor, in a folder with its name: repository, path, table, comparison.
const FILES_OF_MINORS: &[(&str, &str, &str, fn(Minor, &str) -> Comparison)] = &[
    (
        "kubernetes/kubernetes",
        "test/compatibility_lifecycle/reference/versioned_feature_list.yaml",
        "feature_gates",
        gates::list,
    ),
    ("kubernetes/kubelet", "config/v1beta1/types.go", "kubelet_fields", kubelet::fields),
    ("kubernetes/kubelet", "config/v1beta1/types.go", "layers", kubelet::resolv_conf),
    ("kubernetes/kubernetes", "cmd/kubelet/app/options/options.go", "kubelet_flags", kubelet::flags),
    ("kubernetes/kubernetes", "cmd/kubelet/app/options/osflags_windows.go", "kubelet_flags", kubelet::windows_flags),
    ("kubernetes/kubernetes", "pkg/kubelet/eviction/defaults_windows.go", "eviction", nodes::eviction),
    ("kubernetes/kube-proxy", "config/v1alpha1/types.go", "kube_proxy_fields", nodes::winkernel),
    ("kubernetes/kubelet", "pkg/apis/well_known_labels.go", "node_restriction", nodes::labels),
    ("kubernetes/website", "content/en/docs/concepts/windows/intro.md", "support", support::supported),
];

/// The files of Debian's packages, below `src/k8s.io`, with a table and its comparison.
const FILES_OF_DEBIAN: &[(&str, &str, fn(Minor, &str) -> Comparison)] = &[
    ("api/core/v1/types.go", "pod_fields", pods::rejected),
    ("apiserver/pkg/features/kube_features.go", "feature_gates", gates::source),
    ("apiextensions-apiserver/pkg/features/kube_features.go", "feature_gates", gates::source),
    ("client-go/features/known_features.go", "feature_gates", gates::source),
    ("component-base/metrics/features/kube_features.go", "feature_gates", gates::source),
    ("api/core/v1/well_known_taints.go", "taints", |_, text| nodes::taints(text)),
];

/// The groups and versions of Debian's package `api`, with their folder.
const API_VERSIONS: &[(&str, &str)] = &[
    ("v1", "core/v1"),
    ("apps/v1", "apps/v1"),
    ("apps/v1beta1", "apps/v1beta1"),
    ("apps/v1beta2", "apps/v1beta2"),
    ("batch/v1", "batch/v1"),
    ("batch/v1beta1", "batch/v1beta1"),
    ("extensions/v1beta1", "extensions/v1beta1"),
    ("node.k8s.io/v1", "node/v1"),
    ("node.k8s.io/v1beta1", "node/v1beta1"),
];

/// The packages in Cargo's registry, whose newest downloaded version is compared, with a table.
const PACKAGES: [(&str, &str, fn(&Path) -> Comparison); 2] = [
    ("k8s-openapi", "api_versions", api::newer_fields),
    ("windows-sys", "exit_codes", |sources| {
        let constants = fs::read_to_string(sources.join("src/Windows/Win32/Foundation/mod.rs"));
        nodes::exit_codes(&constants.map_err(|error| error.to_string())?)
    }),
];

/// A file in the folder, a table that depends on it, and their comparison.
struct File {
    name: String,
    table: &'static str,
    compare: Box<dyn Fn(&str) -> Comparison>,
}

impl File {
    fn new(name: impl Into<String>, table: &'static str, compare: impl Fn(&str) -> Comparison + 'static) -> Self {
        Self { name: name.into(), table, compare: Box::new(compare) }
    }

    /// Compares the file; `None` if the folder does not have it.
    fn compare_in(&self, folder: &Path) -> Option<Comparison> {
        let path = folder.join(&self.name);
        let read = || fs::read_to_string(&path).map_err(|error| error.to_string());
        path.is_file().then(|| read().and_then(|text| (self.compare)(&text)))
    }
}

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match &arguments[..] {
        [option, months] if option == "--older-than" => return older_than(months),
        [option, minors @ ..] if option == "--files" => return list_files(minors),
        _ => {}
    }
    let named = arguments.first().filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let of_debian = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/winpool/upstream"));
    let folders: Vec<_> = [of_debian, named.clone()].into_iter().flatten().filter(|folder| folder.is_dir()).collect();
    if folders.is_empty() || named.is_some_and(|folder| !folder.is_dir()) {
        eprintln!("usage: make facts, after e2e/upstream.sh; or make facts DIR=FOLDER, after e2e/facts.sh FOLDER");
        return ExitCode::from(2);
    }
    let mut missing: BTreeSet<&str> = TABLES.iter().map(|table| table.name).collect();
    let (mut compared, mut differences, mut failed) = (0, 0, false);
    for (file, table, result) in folders.iter().flat_map(|folder| compare(folder)).chain(of_packages()) {
        compared += 1;
        missing.remove(table);
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
    eprintln!("{compared} comparisons, {differences} differences");
    if !missing.is_empty() {
        eprintln!("without a file: {}", missing.into_iter().collect::<Vec<_>>().join(", "));
    }
    match (failed || compared == 0, differences) {
        (true, _) => ExitCode::from(2),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => ExitCode::FAILURE,
    }
}

/// Prints the name and the address of each file of a branch or tag, for some minors or the newest one.
fn list_files(minors: &[String]) -> ExitCode {
    let Ok(mut minors) = minors.iter().map(|minor| minor.parse()).collect::<Result<Vec<Minor>, _>>() else {
        eprintln!("usage: --files [MINOR…]");
        return ExitCode::from(2);
    };
    if minors.is_empty() {
        minors.push(NEWEST);
    }
    let files: BTreeSet<_> = of_branches(&minors).into_iter().map(|file| file.name).collect();
    for (name, address) in files.iter().filter_map(|name| Some((name, address(name)?))) {
        println!("{name} {address}");
    }
    ExitCode::SUCCESS
}

/// Where a file `owner/repository/path`, `owner/repository@tag/path` or `1.36/owner/repository/path` is. The website has the
/// newest minor in its default branch.
fn address(name: &str) -> Option<String> {
    let (first, rest) = name.split_once('/')?;
    let (branch, name) = match first.parse::<Minor>() {
        Ok(minor) if minor < NEWEST || !rest.starts_with("kubernetes/website/") => (format!("release-{minor}"), rest),
        Ok(_) => ("HEAD".to_owned(), rest),
        Err(_) => ("HEAD".to_owned(), name),
    };
    let (owner, rest) = name.split_once('/')?;
    let (repository, path) = rest.split_once('/')?;
    let (repository, branch) = repository.split_once('@').unwrap_or((repository, &branch));
    Some(format!("https://raw.githubusercontent.com/{owner}/{repository}/{branch}/{path}"))
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

/// The files of branches and tags, with those of the minors.
fn of_branches(minors: &[Minor]) -> Vec<File> {
    let mut files: Vec<_> = FILES.iter().map(|(name, table, compare)| File::new(*name, table, compare)).collect();
    files.extend(prose::SECTIONS.iter().map(|row| File::new(row.file, row.table, |text| row.compare(text))));
    files.extend(lines::LINES.iter().map(|row| File::new(row.file, row.table, |text| row.compare(text))));
    files.extend(known_issues::minors().into_iter().map(|minor| {
        let name = format!("kubernetes/kubernetes/CHANGELOG/CHANGELOG-{minor}.md");
        File::new(name, "known_issues", move |text| known_issues::changelog(minor, text))
    }));
    for &minor in minors {
        files.extend(FILES_OF_MINORS.iter().map(|(repository, path, table, compare)| {
            File::new(format!("{minor}/{repository}/{path}"), table, move |text| compare(minor, text))
        }));
    }
    files
}

/// The files of Debian's packages of a minor.
fn of_debian(minor: Minor) -> impl Iterator<Item = File> {
    let files = FILES_OF_DEBIAN.iter().map(move |(name, table, compare)| {
        File::new(format!("src/k8s.io/{name}"), table, move |text| compare(minor, text))
    });
    let of_api = |(version, folder): &(&'static str, &str)| {
        let (name, version) = (format!("src/k8s.io/api/{folder}/zz_generated.prerelease-lifecycle.go"), *version);
        File::new(name, "api_versions", move |text| api::lifecycle(version, text))
    };
    files.chain(API_VERSIONS.iter().map(of_api))
}

/// The comparisons of all files in a folder, with their tables.
fn compare(folder: &Path) -> Vec<(String, &'static str, Comparison)> {
    let mut files = of_branches(&minors(folder));
    files.extend(FILES_OF_TAGS.iter().map(|(name, table, compare)| File::new(*name, table, compare)));
    files.extend(minor_of_debian(folder).into_iter().flat_map(of_debian));
    files
        .into_iter()
        .filter_map(|file| Some((file.compare_in(folder)?, file)))
        .map(|(found, file)| (file.name, file.table, found))
        .collect()
}

/// The comparisons of the packages that Cargo has downloaded.
fn of_packages() -> Vec<(String, &'static str, Comparison)> {
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
    let compare = |(package, table, compare): (&str, &'static str, fn(&Path) -> Comparison)| {
        newest(package).map(|(_, sources)| (package.to_owned(), table, compare(&sources)))
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
    use winpool_api::facts::{self, Table};

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
        let pause = "kubernetes/kubernetes/build/pause/CHANGELOG.md";
        write(pause, "# 3.6\n\n* Support for Windows container images (OS Versions: 2022) was added.\n");
        let gates = "1.36/kubernetes/kubernetes/test/compatibility_lifecycle/reference/versioned_feature_list.yaml";
        write(gates, "not: a list\n");
        write("elsewhere/types.go", "");
        let found = compare(folder.path());
        let files: Vec<_> = found.iter().map(|(file, table, found)| (file.as_str(), *table, found.is_ok())).collect();
        assert_eq!(files, [(pause, "pause", true), (gates, "feature_gates", false)]);
    }

    #[test]
    fn every_table_is_compared_and_with_a_digest_alone_if_it_says_so() {
        let minor = Minor(36);
        let files: Vec<_> = of_branches(&[minor]).into_iter().chain(of_debian(minor)).collect();
        let others =
            FILES_OF_TAGS.iter().map(|(_, table, _)| *table).chain(PACKAGES.iter().map(|(_, table, _)| *table));
        let tables: Vec<_> = files.iter().map(|file| file.table).chain(others).collect();
        let of_digests = |name: &str| prose::SECTIONS.iter().filter(|section| section.table == name).count();
        for Table { name, compared, .. } in TABLES {
            let all = tables.iter().filter(|table| *table == name).count();
            assert!(all > 0, "{name}");
            assert_eq!(*compared == facts::Compared::Digest, all == of_digests(name), "{name}");
        }
        assert!(tables.iter().all(|name| TABLES.iter().any(|table| table.name == *name)));
    }

    #[test]
    fn the_name_of_a_file_says_where_it_is() {
        let table = [
            ("a/b/c/d.go", "a/b/HEAD/c/d.go"),
            ("a/b@v1.7.34/c/d.go", "a/b/v1.7.34/c/d.go"),
            ("1.36/a/b/c/d.go", "a/b/release-1.36/c/d.go"),
            ("1.36/kubernetes/website/d.md", "kubernetes/website/release-1.36/d.md"),
            ("1.37/kubernetes/website/d.md", "kubernetes/website/HEAD/d.md"),
        ];
        for (name, path) in table {
            assert_eq!(address(name), Some(format!("https://raw.githubusercontent.com/{path}")), "{name}");
        }
    }
}

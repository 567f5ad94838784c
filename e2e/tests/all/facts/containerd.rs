//! Tables about containerd and hcsshim.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use e2e::modules::Module;
use jiff::{ToSpan, civil::Date};
use winpool_facts::{
    Build, ContainerdVersion, Minor, OsVersion,
    containerd::{OLDEST, RELEASE_LINES, minimum_for, release_line},
    known_issues::{ComponentVersion, hcsshim_of},
    version_compatibility::{Isolation, STABLE_ABI_LTSC, VersionCompatibility, check},
};

use super::source::{Source, Table, Upstream, differences};

/// The newest containerd.
pub const CONTAINERD: Module = Module::new("containerd", "github.com/containerd/containerd/v2");
/// The one before, with long-term support.
pub const CONTAINERD_2_3: Module = Module::new("containerd-2.3", "github.com/containerd/containerd/v2");
/// The last one of 1.x.
pub const CONTAINERD_1_7: Module = Module::new("containerd-1.7", "github.com/containerd/containerd");
/// Its shim for Windows, in the version of the newest containerd.
pub const HCSSHIM: Module = Module::new("containerd", "github.com/Microsoft/hcsshim");
/// Its selection of images, in the version of the newest containerd.
pub const PLATFORMS: Module = Module::new("containerd", "github.com/containerd/platforms");

/// The pinned releases of containerd.
const PINNED: [Module; 3] = [CONTAINERD, CONTAINERD_2_3, CONTAINERD_1_7];

/// Compares the end of support of each release line.
pub fn support() -> Result<Vec<String>> {
    let source = Source::read(CONTAINERD, "RELEASES.md")?;
    let upstream = source.rows(r"^\| \[(\d+\.\d+)\]\S+ +\|[^|]+\|[^|]+\|([^|]+)\|", |captures| {
        let line: ContainerdVersion = captures[1].parse().ok()?;
        let end = day(&captures[2]).map_or(captures[2].to_owned(), |day| day.to_string());
        (line >= OLDEST).then(|| (captures[1].to_owned(), end))
    })?;
    let own = |line: &winpool_facts::containerd::ReleaseLine| (name(line.first), line.end_of_life.to_string());
    Ok(differences(&upstream, &RELEASE_LINES.iter().map(own).collect()))
}

fn name(version: ContainerdVersion) -> String {
    format!("{}.{}", version.major, version.minor)
}

/// The day of `April 30, 2028` and `March, 2027**`. A month means its last day.
fn day(text: &str) -> Option<Date> {
    let words: Vec<&str> = text.split([' ', ',', '*']).filter(|word| !word.is_empty()).collect();
    match words.as_slice() {
        [month, day, year] => Date::strptime("%B %d %Y", format!("{month} {day} {year}")).ok(),
        [month, year] => {
            let first = Date::strptime("%B %d %Y", format!("{month} 1 {year}")).ok()?;
            first.checked_add(1.month()).ok()?.yesterday().ok()
        }
        _ => None,
    }
}

/// Compares the minimum of each line for each minor of Kubernetes.
pub fn minimums() -> Result<Vec<String>> {
    let source = Source::read(CONTAINERD, "RELEASES.md")?;
    let matrix = source.part("| Kubernetes Version | containerd Version", "\n\n")?;
    let mut table = Table::new();
    let mut upstream = Upstream::new();
    let rows = matrix.pairs(r"^\| (1\.\d+) +\|([^|]+)\|")?;
    for (minor, (versions, place)) in rows {
        let kubelet: Minor = minor.parse()?;
        for version in versions.split(',') {
            let needed: ContainerdVersion = version.trim().trim_end_matches('+').parse()?;
            if needed < OLDEST {
                continue;
            }
            let row = format!("{} with Kubernetes {minor}", name(needed));
            let first = ContainerdVersion { patch: 0, ..needed };
            table.insert(row.clone(), minimum_for(kubelet, first).unwrap_or(first).to_string());
            upstream.insert(row, (needed.to_string(), place.clone()));
        }
    }
    Ok(differences(&upstream, &table))
}

/// Compares the newest release of each line: that of a pinned release is not newer.
pub fn newest() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (module, version) in pinned()? {
        let own = release_line(version).map(|line| line.newest).filter(|own| own.line() == version.line());
        if own.is_none_or(|own| own < version) {
            let folder = module.folder;
            found.push(format!(
                "{}: e2e/programs/{folder}/go.mod has {version}, which no row has as newest",
                name(version)
            ));
        }
    }
    Ok(found)
}

fn pinned() -> Result<Vec<(Module, ContainerdVersion)>> {
    let version = |module: Module| {
        let version = module.download()?.version;
        Ok((module, version.trim_start_matches('v').parse()?))
    };
    PINNED.into_iter().map(version).collect()
}

/// Compares the modules that each pinned release has.
fn compare_modules(
    path: &str,
    own: impl Fn(ContainerdVersion) -> String,
    value: impl Fn(&str) -> String,
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (module, version) in pinned()? {
        let row = format!("{path} of {version}");
        let upstream = Source::read(module, "go.mod")?
            .rows(&format!(r"^\s*{path} v(\S+)"), |captures| Some((row.clone(), value(&captures[1]))))?;
        found.extend(differences(&upstream, &Table::from([(row.clone(), own(version))])));
    }
    Ok(found)
}

/// Compares hcsshim, without the number of a release candidate.
pub fn hcsshim() -> Result<Vec<String>> {
    let own =
        |version| hcsshim_of(version).map_or("none".to_owned(), |ComponentVersion([a, b, c])| format!("{a}.{b}.{c}"));
    compare_modules("github.com/Microsoft/hcsshim", own, |version| {
        version.split('-').next().unwrap_or(version).to_owned()
    })
}

/// Compares whether a host after the newest LTSC gets images of the previous one: from 1.0.0-rc.2 to rc.4 of
/// containerd/platforms it does not (`platform_windows_compat.go` at these tags).
pub fn previous_ltsc() -> Result<Vec<String>> {
    let [previous, newest] = STABLE_ABI_LTSC;
    let of = |build| OsVersion { build, revision: None };
    let own = |version| {
        let found = check(of(Build(newest.0 + 100)), Some(of(previous)), Isolation::Process, Some(version));
        (found == VersionCompatibility::Compatible).to_string()
    };
    compare_modules("github.com/containerd/platforms", own, |version| {
        (!["1.0.0-rc.2", "1.0.0-rc.3", "1.0.0-rc.4"].contains(&version)).to_string()
    })
}

/// Compares the builds with a stable ABI.
pub fn stable_abi() -> Result<Vec<String>> {
    let source = Source::read(PLATFORMS, "platform_windows_compat.go")?;
    let constants: BTreeMap<String, String> =
        source.pairs(r"^\s*(\w+) += (\w+)$")?.into_iter().map(|(name, (value, _))| (name, value)).collect();
    let resolve = |name: &str| {
        let value = constants.get(name)?;
        Some(constants.get(value).unwrap_or(value).clone())
    };
    let list = source.part("compatLTSCReleases = []uint16{", "\n}")?;
    let upstream = list.rows(r"^\t(\w+),", |captures| Some((resolve(&captures[1])?, String::new())))?;
    let own = STABLE_ABI_LTSC.iter().map(|build| (build.0.to_string(), String::new()));
    Ok(differences(&upstream, &own.collect()))
}

/// Compares the newest version of the configuration.
pub fn config_version() -> Result<Vec<String>> {
    let upstream = Source::read(CONTAINERD, "version/version.go")?.pairs(r"^const (ConfigVersion) = (\d+)$")?;
    let newest = RELEASE_LINES.last().context("no release line")?;
    Ok(differences(&upstream, &Table::from([("ConfigVersion".to_owned(), newest.config_version.to_string())])))
}

use std::collections::BTreeMap;

use proptest::prelude::*;
use winpool_api::{Cni, RegistryMirror};
use winpool_facts::containerd::RELEASE_LINES;

use super::*;

const PAUSE: &str = "mcr.microsoft.com/oss/v2/kubernetes/pause:3.10";

fn settings(cni: &Cni, mirrors: &[RegistryMirror]) -> ContainerdSettings {
    ContainerdSettings { cni: cni.clone(), registry_mirrors: mirrors.to_vec(), ..ContainerdSettings::default() }
}

fn text(version: ContainerdVersion, settings: &ContainerdSettings, scope: Scope) -> Result<String, Problem> {
    let extra = settings.extra_config.parse().unwrap();
    toml(&ContainerdInput { version, pause_image: Some(PAUSE), settings, extra: &extra }, scope)
}

fn layer(version: ContainerdVersion, settings: &ContainerdSettings) -> Table {
    text(version, settings, Scope::Layer).unwrap().parse().unwrap()
}

fn read(version: ContainerdVersion, cni: &Cni, mirrors: &[RegistryMirror]) -> Table {
    text(version, &settings(cni, mirrors), Scope::Whole).unwrap().parse().unwrap()
}

/// Every value that is not a table, by its path.
fn leaves(table: &Table) -> BTreeMap<String, Value> {
    let inner = |(name, value): (&String, &Value)| match value {
        Value::Table(table) => {
            leaves(table).into_iter().map(|(path, value)| (format!("{name} {path}"), value)).collect()
        }
        value => vec![(name.clone(), value.clone())],
    };
    table.iter().flat_map(inner).collect()
}

fn at<'a>(file: &'a Table, path: &[&str]) -> &'a Value {
    let (first, rest) = path.split_first().unwrap();
    let first = file.get(*first).unwrap_or_else(|| panic!("no {path:?} in {file}"));
    rest.iter().fold(first, |value, key| value.get(key).unwrap_or_else(|| panic!("no {path:?} in {file}")))
}

fn mirrors() -> Vec<RegistryMirror> {
    let endpoints = vec!["https://mirror.example".into()];
    vec![RegistryMirror { registry: "docker.io".into(), endpoints, ..RegistryMirror::default() }]
}

#[test]
fn the_file_depends_neither_on_the_patch_release_nor_the_whole_one_on_mirrors() {
    let render = |version: &str, mirrors: &[RegistryMirror], scope: Scope| {
        text(version.parse().unwrap(), &settings(&Cni::default(), mirrors), scope).unwrap()
    };
    // Lines that are not released yet are treated as the newest.
    for (version, other) in [("1.7.0", "1.7.27"), ("2.4.0", "2.9.1")] {
        for scope in [Scope::Layer, Scope::Whole] {
            assert_eq!(render(version, &[], scope), render(other, &[], scope), "{version} {other}");
        }
    }
    for line in RELEASE_LINES {
        let version = line.newest.to_string();
        assert_eq!(render(&version, &[], Scope::Whole), render(&version, &mirrors(), Scope::Whole), "{version}");
    }
}

#[test]
fn extra_settings_are_merged_last_and_their_types_are_checked() {
    let with = |extra: &str| ContainerdSettings { extra_config: extra.into(), ..ContainerdSettings::default() };
    let version = ContainerdVersion::new(2, 1, 0);
    let extra = "oom_score = 5\n[plugins.'io.containerd.cri.v1.images']\nimage_pull_progress_timeout = '1h'\n\
                 max_concurrent_downloads = 5\n[[plugins.'a'.b]]\nc = 1\n";
    let settings = with(extra);
    let mut expected = leaves(&layer(version, &ContainerdSettings::default()));
    expected.extend(leaves(&extra.parse().unwrap()));
    assert_eq!(leaves(&layer(version, &settings)), expected);
    for scope in [Scope::Layer, Scope::Whole] {
        let problem = text(version, &with("plugins = 5"), scope).unwrap_err();
        assert_eq!(problem.path, "spec.containerd.extraConfig");
    }
}

#[test]
fn an_unknown_version_and_an_unreadable_mirror_are_problems() {
    let ipv6 = vec![RegistryMirror { endpoints: vec!["https://[fd00::1]".into()], ..mirrors().remove(0) }];
    let problem = |version: &str, mirrors: &[RegistryMirror]| {
        let settings = settings(&Cni::default(), mirrors);
        text(version.parse().unwrap(), &settings, Scope::Layer).unwrap_err().to_string()
    };
    let message = problem("1.6.39", &[]);
    assert!(message.contains("containerd 1.6.39 is older than 1.7.0, the oldest that winpool configures"), "{message}");
    for unknown in ["1.8.0", "3.0.0"] {
        let message = problem(unknown, &[]);
        assert!(message.contains(&format!("the configuration format of containerd {unknown} is unknown")), "{message}");
    }
    let message = problem("1.7.27", &ipv6);
    assert!(message.contains("https://[fd00::1]"), "{message}");
}

#[test]
fn merging_replaces_named_values_and_keeps_the_others() {
    let over = "b = 7\n[a]\nx = [1, 2.5, 'C:\\y']\n[a.c]\nz = [{ k = true }, {}]\n".parse().unwrap();
    let mut file = "b = ['old', 'list']\n[a]\nx = 1\ny = 'kept'\n".parse().unwrap();
    merge(&mut file, &over).unwrap();
    let expected = "b = 7\n[a]\nx = [1, 2.5, 'C:\\y']\ny = 'kept'\n[a.c]\nz = [{ k = true }, {}]\n";
    assert_eq!(file, expected.parse().unwrap());
}

#[test]
fn a_value_and_a_table_at_one_path_are_an_error() {
    for (text, path) in [("a = 1", "a"), ("[a.x]\ny = 1", "a.x"), ("[a]\nz = 1", "")] {
        let mut file = "[a]\nx = 1".parse().unwrap();
        assert_eq!(merge(&mut file, &text.parse().unwrap()).err().unwrap_or_default(), path, "{text}");
    }
}

proptest! {
    #[test]
    fn any_directory_is_read_back(bin_dir in ".{1,260}", conf_dir in any::<String>(), index in 0..RELEASE_LINES.len()) {
        let ReleaseLine { newest, keys, .. } = RELEASE_LINES[index];
        let file = read(newest, &Cni { bin_dir: bin_dir.clone(), conf_dir: conf_dir.clone() }, &[]);
        let bin = match keys.cni_bin {
            CniBin::Directory(key) => at(&file, key),
            CniBin::Directories(key) => &at(&file, key)[0],
        };
        prop_assert_eq!(bin.as_str(), Some(bin_dir.as_str()));
        if !conf_dir.is_empty() {
            prop_assert_eq!(at(&file, keys.cni_conf_dir).as_str(), Some(conf_dir.as_str()));
        }
    }
}

#[test]
fn cimfs_is_refused_where_it_stops_nodes_or_is_not_loaded() {
    let selected = "[plugins.'io.containerd.cri.v1.images']\nsnapshotter = 'cimfs'\n".parse::<Table>().unwrap();
    let unpacked = "[[plugins.'io.containerd.transfer.v1.local'.unpack_config]]\nsnapshotter = 'cimfs'\n"
        .parse::<Table>()
        .unwrap();
    let other = "[plugins.'io.containerd.cri.v1.images']\nsnapshotter = 'windows'\n".parse::<Table>().unwrap();
    let table = [
        (17763, Some("does not load")),
        (20348, Some("blue screen")),
        (25398, Some("does not load")),
        (26100, None),
        (26200, None),
    ];
    for (build, expected) in table {
        for extra in [&selected, &unpacked] {
            let found = snapshotter_problem(extra, Build(build));
            let found = found.map(|problem| problem.wrong);
            assert_eq!(found.is_some(), expected.is_some(), "{build}");
            assert!(found.is_none_or(|wrong| wrong.contains(expected.unwrap())), "{build}");
        }
        assert_eq!(snapshotter_problem(&other, Build(build)), None);
    }
}

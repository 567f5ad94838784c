use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use winpool_api::{Cni, RegistryMirror};
use winpool_facts::containerd::{RELEASE_LINES, release_line};

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

fn versions() -> impl Iterator<Item = (ContainerdVersion, &'static ReleaseLine)> {
    let newer = ContainerdVersion::new(2, 9, 0);
    let known = RELEASE_LINES.iter().map(|line| line.newest);
    known.chain([newer]).map(|version| (version, release_line(version).unwrap()))
}

/// Paths and values of a file, without the handlers.
fn settings_in(file: &Table) -> BTreeSet<String> {
    fn plain(value: &Value) -> String {
        match value {
            Value::String(text) => text.clone(),
            Value::Array(all) => format!("[{}]", all.iter().map(plain).collect::<Vec<_>>().join(", ")),
            other => other.to_string(),
        }
    }
    let all = leaves(file).into_iter().filter(|(path, _)| !path.contains(" runtimes "));
    all.map(|(path, value)| format!("{path} = {}", plain(&value))).collect()
}

#[test]
fn each_setting_has_the_path_of_the_version() {
    let all = [
        r"root = C:\ProgramData\containerd\root",
        r"state = C:\ProgramData\containerd\state",
        "plugins io.containerd.service.v1.diff-service default = [windows]",
    ];
    let one = [
        "version = 2",
        r"grpc address = \\.\pipe\containerd-containerd",
        "plugins io.containerd.grpc.v1.cri sandbox_image = mcr.microsoft.com/oss/v2/kubernetes/pause:3.10",
        r"plugins io.containerd.grpc.v1.cri cni bin_dir = C:\Program Files\containerd\cni\bin",
        r"plugins io.containerd.grpc.v1.cri cni conf_dir = C:\Program Files\containerd\cni\conf",
        r"plugins io.containerd.grpc.v1.cri registry config_path = C:\Program Files\containerd\certs.d",
        "plugins io.containerd.grpc.v1.cri image_pull_progress_timeout = 30m",
        "plugins io.containerd.grpc.v1.cri containerd default_runtime_name = runhcs-wcow-process",
        "plugins io.containerd.grpc.v1.cri containerd snapshotter = windows",
    ];
    let two = [
        "plugins io.containerd.cri.v1.images image_pull_progress_timeout = 30m",
        "plugins io.containerd.cri.v1.images pinned_images sandbox = mcr.microsoft.com/oss/v2/kubernetes/pause:3.10",
        r"plugins io.containerd.cri.v1.images registry config_path = C:\Program Files\containerd\certs.d",
        "plugins io.containerd.cri.v1.images snapshotter = windows",
        r"plugins io.containerd.cri.v1.runtime cni conf_dir = C:\Program Files\containerd\cni\conf",
        "plugins io.containerd.cri.v1.runtime containerd default_runtime_name = runhcs-wcow-process",
    ];
    let pipe = r"grpc address = \\.\pipe\containerd-containerd";
    let server = r"plugins io.containerd.server.v1.grpc address = \\.\pipe\containerd-containerd";
    let bin_dir = r"plugins io.containerd.cri.v1.runtime cni bin_dir = C:\Program Files\containerd\cni\bin";
    let bin_dirs = r"plugins io.containerd.cri.v1.runtime cni bin_dirs = [C:\Program Files\containerd\cni\bin]";
    let imports = r"imports = [C:\Program Files\containerd\conf.d\*.toml]";
    let table = [
        ("1.7.34", &one[..], vec![]),
        ("2.0.11", &two, vec!["version = 3", pipe, bin_dir]),
        ("2.1.9", &two, vec!["version = 3", pipe, bin_dirs]),
        ("2.2.7", &two, vec!["version = 3", pipe, bin_dirs, imports]),
        ("2.3.4", &two, vec!["version = 4", server, bin_dirs, imports]),
        ("2.4.0", &two, vec!["version = 4", server, bin_dirs, imports]),
        // Not released yet.
        ("2.9.0", &two, vec!["version = 4", server, bin_dirs, imports]),
    ];
    assert_eq!(table.len(), versions().count(), "the table has every release line");
    for (version, shared, own) in table {
        let expected: BTreeSet<_> = all.iter().chain(shared).chain(&own).map(|line| (*line).to_owned()).collect();
        let file = read(version.parse().unwrap(), &Cni::default(), &mirrors());
        assert_eq!(settings_in(&file), expected, "{version}");
    }
}

#[test]
fn handlers_have_the_defaults_of_the_version() {
    let process = "runtime_type = \"io.containerd.runhcs.v1\"\n";
    let containers = "container_annotations = [\"io.microsoft.container.*\"]\n";
    let pods = "pod_annotations = [\"io.microsoft.virtualmachine.*\"]\n";
    let hyperv = "SandboxIsolation = 1\nScaleCpuLimitsToSandbox = true\n";
    let scrub = "ScrubLogs = true\n";
    for (version, line) in versions() {
        let file = read(version, &Cni::default(), &[]);
        let handlers = at(&file, line.keys.runtimes).as_table().unwrap();
        assert_eq!(handlers.keys().collect::<Vec<_>>(), ["runhcs-wcow-process", "runhcs-wcow-hypervisor"]);
        let expected = |of_hyperv: bool| {
            let scrubbed = version.major == 2 && version.minor >= 2;
            let mut text = process.to_owned() + containers;
            text += if of_hyperv { pods } else { "" };
            text += if of_hyperv || scrubbed { "[options]\n" } else { "" };
            text += if of_hyperv { hyperv } else { "" };
            text += if scrubbed { scrub } else { "" };
            text.parse::<Table>().unwrap()
        };
        assert_eq!(handlers["runhcs-wcow-process"].as_table(), Some(&expected(false)), "{version}");
        assert_eq!(handlers["runhcs-wcow-hypervisor"].as_table(), Some(&expected(true)), "{version}");
    }
}

#[test]
fn patch_releases_have_the_same_configuration_and_mirrors_do_not_change_the_whole_file() {
    let render = |version: &str, mirrors: &[RegistryMirror]| {
        text(version.parse().unwrap(), &settings(&Cni::default(), mirrors), Scope::Whole).unwrap()
    };
    assert_eq!(render("1.7.0", &[]), render("1.7.27", &[]));
    assert_eq!(render("2.3.0", &[]), render("2.9.1", &[]));
    for (version, _) in versions() {
        assert_eq!(render(&version.to_string(), &[]), render(&version.to_string(), &mirrors()), "{version}");
    }
}

#[test]
fn a_layer_contains_only_settings_of_the_profile_and_of_windows() {
    let everything = ContainerdSettings {
        root: r"D:\containerd".into(),
        cni: Cni { bin_dir: r"C:\cni\bin".into(), conf_dir: r"C:\cni\conf".into() },
        ..settings(&Cni::default(), &mirrors())
    };
    let one = "plugins io.containerd.grpc.v1.cri";
    let (images, runtime) = ("plugins io.containerd.cri.v1.images", "plugins io.containerd.cri.v1.runtime");
    let paths = |plugin: &str, names: &[&str]| names.iter().map(|name| format!("{plugin} {name}")).collect::<Vec<_>>();
    let (sandbox, timeout) = (paths(one, &["sandbox_image"]), paths(one, &["image_pull_progress_timeout"]));
    let cni = paths(one, &["cni bin_dir", "cni conf_dir"]);
    let certificates = paths(one, &["registry config_path"]);
    let of_images = paths(images, &["image_pull_progress_timeout", "pinned_images sandbox"]);
    let certificates_2 = paths(images, &["registry config_path"]);
    let cni_2_0 = paths(runtime, &["cni bin_dir", "cni conf_dir"]);
    // The layer sets the older one to an empty string, because the CRI plugin does not start with both.
    let cni_2_1 = paths(runtime, &["cni bin_dir", "cni bin_dirs", "cni conf_dir"]);
    let cni_2_4 = paths(runtime, &["cni bin_dirs", "cni conf_dir"]);
    let table = [
        ("1.7.34", 2, [&sandbox, &timeout], [&cni, &certificates]),
        ("2.0.11", 3, [&of_images, &vec![]], [&cni_2_0, &certificates_2]),
        ("2.1.9", 3, [&of_images, &vec![]], [&cni_2_1, &certificates_2]),
        ("2.2.7", 3, [&of_images, &vec![]], [&cni_2_1, &certificates_2]),
        ("2.3.4", 3, [&of_images, &vec![]], [&cni_2_1, &certificates_2]),
        ("2.4.0", 3, [&of_images, &vec![]], [&cni_2_4, &certificates_2]),
        ("2.9.0", 3, [&of_images, &vec![]], [&cni_2_4, &certificates_2]),
    ];
    assert_eq!(table.len(), versions().count(), "the table has every release line");
    for (version, config_version, always, if_set) in table {
        let written = |settings: &ContainerdSettings| layer(version.parse().unwrap(), settings);
        let found = |settings: &ContainerdSettings| leaves(&written(settings)).into_keys().collect::<BTreeSet<_>>();
        let mut expected: BTreeSet<_> = always.into_iter().flatten().cloned().collect();
        expected.insert("version".to_owned());
        assert_eq!(found(&ContainerdSettings::default()), expected, "{version}");
        expected.extend(if_set.into_iter().flatten().cloned());
        expected.insert("root".to_owned());
        assert_eq!(found(&everything), expected, "{version}");
        assert_eq!(at(&written(&everything), &["version"]).as_integer(), Some(config_version), "{version}");
    }
}

#[test]
fn the_header_of_a_layer_describes_how_to_merge_it() {
    let comment = |version: &str| {
        let text = text(version.parse().unwrap(), &ContainerdSettings::default(), Scope::Layer).unwrap();
        text.lines().take_while(|line| line.starts_with('#')).collect::<Vec<_>>().join("\n")
    };
    assert!(comment("1.7.24").contains("Merge it into") && comment("1.7.24").contains("Do not import it"));
    for version in ["2.0.0", "2.1.9", "2.3.4"] {
        assert!(comment(version).contains(r"conf.d\50-winpool.toml") && comment(version).contains("version = 3"));
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

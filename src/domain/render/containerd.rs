//! The configuration of containerd on a Windows node: the layer over a node's own configuration, or the whole file.
//!
//! Where the settings are is in [`crate::facts::containerd`] and [`crate::facts::layers`]. In the whole file handlers and
//! options are containerd's own defaults for Windows, with the Hyper-V handler also on the lines that do not have it by
//! default.

use super::{
    Scope, hosts,
    toml_text::{Document, Value},
};
use crate::{
    api::{ContainerdSettings, RegistryMirror},
    domain::Problem,
    facts::{
        ContainerdVersion,
        containerd::{self as facts, CniBin, DropIn, Generation},
        layers::{self, DROP_IN_VERSION},
    },
};

const WHOLE: &str = "containerd on Windows: C:\\Program Files\\containerd\\config.toml\n\
                     It is in effect once containerd has been restarted.";
const DROP_IN: &str = "A part of the configuration of containerd on Windows. What it does not name stays as it is.\n\
                       Save it as C:\\Program Files\\containerd\\conf.d\\50-winpool.toml. The main file, config.toml, has to have\n\
                       version = 3 or later, and imports = ['C:\\Program Files\\containerd\\conf.d\\*.toml'].\n\
                       Tables are merged; a list or another value replaces that of the main file.\n\
                       It is in effect once containerd has been restarted.";
const TO_BE_MERGED: &str = "A part of the configuration of containerd on Windows. What it does not name stays as it is.\n\
                            Merge it into C:\\Program Files\\containerd\\config.toml, which has to have version = 2: merge tables,\n\
                            and replace lists and other values. Do not import it: a drop-in of containerd 1.x replaces all\n\
                            settings of a plugin, and network and handlers would be lost.\n\
                            It is in effect once containerd has been restarted.";

/// What is rendered.
#[derive(Clone, Copy, Debug)]
pub struct Containerd<'a> {
    /// The version on the node, of which major and minor count.
    pub version: ContainerdVersion,
    /// The pause image, with its tag.
    pub pause_image: &'a str,
    /// The settings of a profile. containerd 1.5 and later have mirrors in files of their own ([`hosts::hosts`]), 1.4 in
    /// this one.
    pub settings: &'a ContainerdSettings,
    /// The settings' `extraConfig`, parsed: it is merged last.
    pub extra: &'a toml::Table,
}

/// The text of the configuration.
///
/// # Errors
/// A version whose configuration nobody knows, or settings that this version would not read.
pub fn toml(input: &Containerd, scope: Scope) -> Result<String, Problem> {
    let generation = facts::generation(input.version).ok_or_else(|| {
        let wrong = format!("the configuration of containerd {} is not known", input.version);
        Problem::new("status.nodeInfo.containerRuntimeVersion", wrong, "install a supported containerd, such as 2.3")
    })?;
    match hosts::unreadable(&input.settings.registry_mirrors, generation) {
        Some(problem) => Err(problem),
        None => render(input, generation, scope),
    }
}

fn render(input: &Containerd, generation: &Generation, scope: Scope) -> Result<String, Problem> {
    let Containerd { version, pause_image, settings, extra } = *input;
    let keys = generation.keys;
    let tls = tls_of_hosts(&settings.registry_mirrors);
    let endpoints: Vec<_> = settings.registry_mirrors.iter().map(|mirror| (mirror, texts(&mirror.endpoints))).collect();
    let bin_dirs = [or_default(&settings.cni.bin_dir, facts::CNI_BIN_DIR)];

    let mut file = start(generation, settings, scope);
    file.set(keys.sandbox_image, Value::Text(pause_image));
    if let Some(key) = layers::pull_progress_timeout(version) {
        file.set(key, Value::Text(&settings.image_pull_progress_timeout));
    }
    if scope == Scope::Whole {
        file.set(keys.snapshotter, Value::Text(facts::SNAPSHOTTER));
    }
    match keys.registry_config_path {
        Some(key) if scope == Scope::Whole || !settings.registry_mirrors.is_empty() => {
            file.set(key, Value::Text(facts::CERTS_D));
        }
        Some(_) => {}
        // The line reads no hosts.toml.
        None => {
            for (mirror, endpoints) in &endpoints {
                let key = [facts::REGISTRY_MIRRORS, &[&mirror.registry, "endpoint"]].concat();
                file.set(&key, Value::Texts(endpoints));
            }
            for (host, key, value) in &tls {
                file.set(&[layers::REGISTRY_CONFIGS, &[host, "tls", key]].concat(), *value);
            }
        }
    }
    if scope == Scope::Whole {
        file.set(keys.default_runtime_name, Value::Text(facts::PROCESS_HANDLER));
    }
    // Where a file names a handler, containerd 1.x forgets its default ones: both or none.
    if scope == Scope::Whole || !generation.default_handlers.contains(&facts::HYPERV_HANDLER) {
        handlers(&mut file, generation);
    }
    cni(&mut file, generation, settings, &bin_dirs, scope);
    if scope == Scope::Whole {
        file.set(facts::DIFFERS, Value::Texts(&[facts::SNAPSHOTTER]));
    }
    file.merge(extra).map_err(|path| {
        let wrong = format!("in the configuration of containerd {version}, {path} is no place for this value");
        Problem::new("spec.containerd.extraConfig", wrong, "correct the path, or remove it")
    })?;
    Ok(file.render())
}

/// The head of the file.
fn start<'a>(generation: &Generation, settings: &'a ContainerdSettings, scope: Scope) -> Document<'a> {
    let (comment, version) = match (scope, generation.drop_in) {
        (Scope::Whole, _) => (WHOLE, generation.config_version),
        (Scope::Layer, DropIn::DeepMerge) => (DROP_IN, DROP_IN_VERSION),
        (Scope::Layer, DropIn::ReplacesSection) => (TO_BE_MERGED, generation.config_version),
    };
    let mut file = Document::new(comment);
    file.set(&["version"], Value::Number(version.into()));
    if scope == Scope::Whole || !settings.root.is_empty() {
        file.set(&["root"], Value::Text(or_default(&settings.root, facts::ROOT)));
    }
    if scope == Scope::Whole {
        file.set(&["state"], Value::Text(facts::STATE));
        if generation.imports_drop_ins {
            file.set(&["imports"], Value::Texts(&[facts::DROP_INS]));
        }
        file.set(&[generation.keys.grpc, &["address"]].concat(), Value::Text(facts::PIPE));
    }
    file
}

/// The directories of CNI plugins and their configuration.
fn cni<'a>(
    file: &mut Document<'a>,
    generation: &Generation,
    settings: &'a ContainerdSettings,
    bin_dirs: &'a [&'a str; 1],
    scope: Scope,
) {
    if scope == Scope::Whole || !settings.cni.bin_dir.is_empty() {
        match generation.keys.cni_bin {
            CniBin::Directory(key) => file.set(key, Value::Text(bin_dirs[0])),
            CniBin::Directories(key) => {
                // containerd takes one of the two, and the main file may have the older one.
                if scope == Scope::Layer {
                    file.set(layers::CNI_BIN_DIR, Value::Text(""));
                }
                file.set(key, Value::Texts(bin_dirs));
            }
        }
    }
    if scope == Scope::Whole || !settings.cni.conf_dir.is_empty() {
        file.set(generation.keys.cni_conf_dir, Value::Text(or_default(&settings.cni.conf_dir, facts::CNI_CONF_DIR)));
    }
}

fn texts(list: &[String]) -> Vec<&str> {
    list.iter().map(String::as_str).collect()
}

/// The TLS settings of the mirrors' hosts, for a line that reads no `hosts.toml`.
fn tls_of_hosts(mirrors: &[RegistryMirror]) -> Vec<(&str, &'static str, Value<'_>)> {
    let host = |endpoint: &'_ str| {
        let behind_scheme = endpoint.split_once("://").map_or(0, |(scheme, _)| scheme.len() + 3);
        behind_scheme..endpoint[behind_scheme..].find('/').map_or(endpoint.len(), |at| behind_scheme + at)
    };
    let of_mirror = |mirror| {
        let RegistryMirror { endpoints, ca_file, skip_verify, .. }: &RegistryMirror = mirror;
        let authority = (!ca_file.is_empty()).then_some(("ca_file", Value::Text(ca_file)));
        let unverified = skip_verify.then_some(("insecure_skip_verify", Value::Flag(true)));
        let settings = authority.into_iter().chain(unverified).collect::<Vec<_>>();
        endpoints.iter().flat_map(move |endpoint| {
            settings.clone().into_iter().map(move |(key, value)| (&endpoint[host(endpoint)], key, value))
        })
    };
    mirrors.iter().flat_map(of_mirror).collect()
}

fn or_default<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

/// The handlers for process and for Hyper-V isolation.
fn handlers(file: &mut Document<'_>, generation: &Generation) {
    let annotations = generation.first >= facts::ANNOTATIONS_SINCE;
    let scrub_logs = generation.first >= facts::SCRUB_LOGS_SINCE;
    for (handler, hyperv) in [(facts::PROCESS_HANDLER, false), (facts::HYPERV_HANDLER, true)] {
        let mut set = |keys: &[&'static str], value| {
            file.set(&[generation.keys.runtimes, &[handler], keys].concat(), value);
        };
        set(&["runtime_type"], Value::Text(facts::RUNTIME_TYPE));
        if annotations {
            set(&["container_annotations"], Value::Texts(&[facts::CONTAINER_ANNOTATIONS]));
        }
        if annotations && hyperv {
            set(&["pod_annotations"], Value::Texts(&[facts::POD_ANNOTATIONS]));
        }
        if hyperv {
            set(&["options", "SandboxIsolation"], Value::Number(facts::SANDBOX_ISOLATION_HYPERV));
            set(&["options", "ScaleCpuLimitsToSandbox"], Value::Flag(true));
        }
        if scrub_logs {
            set(&["options", "ScrubLogs"], Value::Flag(true));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::{
        api::Cni,
        facts::containerd::{GENERATIONS, generation},
    };

    const PAUSE: &str = "mcr.microsoft.com/oss/v2/kubernetes/pause:3.10";

    fn settings(cni: &Cni, mirrors: &[RegistryMirror]) -> ContainerdSettings {
        ContainerdSettings { cni: cni.clone(), registry_mirrors: mirrors.to_vec(), ..ContainerdSettings::default() }
    }

    fn text(version: ContainerdVersion, settings: &ContainerdSettings, scope: Scope) -> Result<String, Problem> {
        let extra = settings.extra_config.parse().unwrap();
        toml(&Containerd { version, pause_image: PAUSE, settings, extra: &extra }, scope)
    }

    fn layer(version: ContainerdVersion, settings: &ContainerdSettings) -> toml::Table {
        text(version, settings, Scope::Layer).unwrap().parse().unwrap()
    }

    fn read(version: ContainerdVersion, cni: &Cni, mirrors: &[RegistryMirror]) -> toml::Table {
        text(version, &settings(cni, mirrors), Scope::Whole).unwrap().parse().unwrap()
    }

    /// Every value that is no table, by its path.
    fn leaves(table: &toml::Table) -> BTreeMap<String, toml::Value> {
        let inner = |(name, value): (&String, &toml::Value)| match value {
            toml::Value::Table(table) => {
                leaves(table).into_iter().map(|(path, value)| (format!("{name} {path}"), value)).collect()
            }
            value => vec![(name.clone(), value.clone())],
        };
        table.iter().flat_map(inner).collect()
    }

    /// The value at a path, which must be there.
    fn at<'a>(file: &'a toml::Table, path: &[&str]) -> &'a toml::Value {
        let (first, rest) = path.split_first().unwrap();
        let first = file.get(*first).unwrap_or_else(|| panic!("no {path:?} in {file}"));
        rest.iter().fold(first, |value, key| value.get(key).unwrap_or_else(|| panic!("no {path:?} in {file}")))
    }

    fn mirrors() -> Vec<RegistryMirror> {
        let endpoints = vec!["https://mirror.example".into()];
        vec![RegistryMirror { registry: "docker.io".into(), endpoints, ..RegistryMirror::default() }]
    }

    /// Every line, and one that is not out yet.
    fn versions() -> impl Iterator<Item = (ContainerdVersion, &'static Generation)> {
        let newer = ContainerdVersion::new(2, 9, 0);
        let known = GENERATIONS.iter().map(|generation| generation.newest);
        known.chain([newer]).map(|version| (version, generation(version).unwrap()))
    }

    #[test]
    fn every_setting_is_where_the_version_looks_for_it() {
        for (version, generation) in versions() {
            let file = read(version, &Cni::default(), &mirrors());
            let keys = generation.keys;
            let text = |path: &[&str]| at(&file, path).as_str().unwrap_or_else(|| panic!("{path:?}")).to_owned();
            assert_eq!(at(&file, &["version"]).as_integer(), Some(generation.config_version.into()), "{version}");
            assert_eq!(text(&["root"]), r"C:\ProgramData\containerd\root");
            assert_eq!(text(&["state"]), r"C:\ProgramData\containerd\state");
            assert_eq!(text(&[keys.grpc, &["address"]].concat()), r"\\.\pipe\containerd-containerd");
            assert_eq!(text(keys.sandbox_image), PAUSE, "{version}");
            assert_eq!(text(keys.snapshotter), "windows");
            assert_eq!(text(keys.default_runtime_name), "runhcs-wcow-process");
            assert_eq!(text(keys.cni_conf_dir), r"C:\Program Files\containerd\cni\conf");
            let bin = r"C:\Program Files\containerd\cni\bin";
            match keys.cni_bin {
                CniBin::Directory(key) => assert_eq!(text(key), bin),
                CniBin::Directories(key) => assert_eq!(at(&file, key), &toml::Value::from(vec![bin])),
            }
            assert_eq!(at(&file, facts::DIFFERS), &toml::Value::from(vec!["windows"]));
            match keys.registry_config_path {
                Some(key) => assert_eq!(text(key), r"C:\Program Files\containerd\certs.d"),
                None => assert_eq!(
                    at(&file, &[facts::REGISTRY_MIRRORS, &["docker.io", "endpoint"]].concat()),
                    &toml::Value::from(vec!["https://mirror.example"])
                ),
            }
        }
    }

    #[test]
    fn only_settings_that_are_meant_are_written() {
        let plugins = |version: ContainerdVersion| {
            let file = read(version, &Cni::default(), &mirrors());
            let names = |table: &toml::Table| table.keys().cloned().collect::<Vec<_>>().join(" ");
            (names(&file), names(at(&file, &["plugins"]).as_table().unwrap()))
        };
        let two = "io.containerd.grpc.v1.cri io.containerd.service.v1.diff-service";
        let three = "io.containerd.cri.v1.images io.containerd.cri.v1.runtime io.containerd.service.v1.diff-service";
        let four = "io.containerd.cri.v1.images io.containerd.cri.v1.runtime io.containerd.server.v1.grpc \
                    io.containerd.service.v1.diff-service";
        for (version, _) in versions() {
            let expected = match (version.major, version.minor) {
                (1, _) => ("grpc plugins root state version", two),
                (_, 0..=1) => ("grpc plugins root state version", three),
                (_, 2) => ("grpc imports plugins root state version", three),
                _ => ("imports plugins root state version", four),
            };
            let (root, plugins) = plugins(version);
            assert_eq!((root.as_str(), plugins.as_str()), expected, "{version}");
        }
    }

    #[test]
    fn handlers_are_as_the_version_has_them_by_default() {
        let process = "runtime_type = \"io.containerd.runhcs.v1\"\n";
        let containers = "container_annotations = [\"io.microsoft.container.*\"]\n";
        let pods = "pod_annotations = [\"io.microsoft.virtualmachine.*\"]\n";
        let hyperv = "SandboxIsolation = 1\nScaleCpuLimitsToSandbox = true\n";
        let scrub = "ScrubLogs = true\n";
        for (version, generation) in versions() {
            let file = read(version, &Cni::default(), &[]);
            let handlers = at(&file, generation.keys.runtimes).as_table().unwrap();
            assert_eq!(handlers.keys().collect::<Vec<_>>(), ["runhcs-wcow-hypervisor", "runhcs-wcow-process"]);
            let expected = |of_hyperv: bool| {
                let (annotated, scrubbed) =
                    (version.major == 2 || version.minor >= 7, version.major == 2 && version.minor >= 2);
                let mut text = process.to_owned();
                text += if annotated { containers } else { "" };
                text += if annotated && of_hyperv { pods } else { "" };
                text += if of_hyperv || scrubbed { "[options]\n" } else { "" };
                text += if of_hyperv { hyperv } else { "" };
                text += if scrubbed { scrub } else { "" };
                text.parse::<toml::Table>().unwrap()
            };
            assert_eq!(handlers["runhcs-wcow-process"].as_table(), Some(&expected(false)), "{version}");
            assert_eq!(handlers["runhcs-wcow-hypervisor"].as_table(), Some(&expected(true)), "{version}");
        }
    }

    #[test]
    fn versions_of_a_line_have_the_same_text_and_mirrors_change_it_only_in_1_4() {
        let render = |version: &str, mirrors: &[RegistryMirror]| {
            text(version.parse().unwrap(), &settings(&Cni::default(), mirrors), Scope::Whole).unwrap()
        };
        assert_eq!(render("1.7.0", &[]), render("1.7.27", &[]));
        assert_eq!(render("1.5.0", &[]), render("1.6.20", &[]), "nothing differs between these lines");
        assert_eq!(render("2.3.0", &[]), render("2.9.1", &[]));
        assert_eq!(render("2.1.0", &[]), render("2.1.0", &mirrors()));
        assert_ne!(render("1.4.0", &[]), render("1.4.0", &mirrors()));
    }

    #[test]
    fn a_layer_has_what_the_profile_decides_and_nothing_that_a_bootstrap_decides() {
        let everything = ContainerdSettings {
            root: r"D:\containerd".into(),
            cni: Cni { bin_dir: r"C:\cni\bin".into(), conf_dir: r"C:\cni\conf".into() },
            ..settings(&Cni::default(), &mirrors())
        };
        for (version, generation) in versions() {
            let keys = generation.keys;
            let (CniBin::Directory(cni_bin) | CniBin::Directories(cni_bin)) = keys.cni_bin;
            let old = version.major == 1;
            let mut allowed = vec![vec!["version"], keys.sandbox_image.to_vec()];
            allowed.extend(layers::pull_progress_timeout(version).map(<[_]>::to_vec));
            if old && version.minor < 7 {
                let handler = |handler, key: &[&'static str]| [keys.runtimes, &[handler], key].concat();
                allowed.extend(
                    [facts::PROCESS_HANDLER, facts::HYPERV_HANDLER].map(|name| handler(name, &["runtime_type"])),
                );
                let options = ["SandboxIsolation", "ScaleCpuLimitsToSandbox"];
                allowed.extend(options.map(|option| handler(facts::HYPERV_HANDLER, &["options", option])));
            }
            let paths = |allowed: &[Vec<&str>]| allowed.iter().map(|path| path.join(" ")).collect::<BTreeSet<_>>();
            let found =
                |settings: &ContainerdSettings| leaves(&layer(version, settings)).into_keys().collect::<BTreeSet<_>>();
            assert_eq!(found(&ContainerdSettings::default()), paths(&allowed), "{version}");

            allowed.extend([vec!["root"], cni_bin.to_vec(), keys.cni_conf_dir.to_vec()]);
            if matches!(keys.cni_bin, CniBin::Directories(_)) {
                allowed.push(layers::CNI_BIN_DIR.to_vec());
            }
            allowed.push(match keys.registry_config_path {
                Some(key) => key.to_vec(),
                None => [facts::REGISTRY_MIRRORS, &["docker.io", "endpoint"]].concat(),
            });
            assert_eq!(found(&everything), paths(&allowed), "{version}");
            assert_eq!(at(&layer(version, &everything), &["version"]).as_integer(), Some(if old { 2 } else { 3 }));
        }
    }

    #[test]
    fn a_layer_says_what_to_do_with_it() {
        let comment = |version: &str| {
            let text = text(version.parse().unwrap(), &ContainerdSettings::default(), Scope::Layer).unwrap();
            text.lines().take_while(|line| line.starts_with('#')).collect::<Vec<_>>().join("\n")
        };
        for version in ["1.4.0", "1.6.20", "1.7.24"] {
            assert!(
                comment(version).contains("Merge it into") && comment(version).contains("Do not import it"),
                "{version}"
            );
        }
        for version in ["2.0.0", "2.1.9", "2.3.4"] {
            assert!(comment(version).contains(r"conf.d\50-winpool.toml") && comment(version).contains("version = 3"));
        }
    }

    #[test]
    fn extra_settings_are_merged_last_and_have_to_fit() {
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
    fn containerd_1_4_has_the_certificates_of_mirrors_by_host() {
        let mirror = RegistryMirror {
            endpoints: vec!["https://a.example/v2/hub".into(), "https://b.example:5000".into()],
            ca_file: r"C:\m.pem".into(),
            ..mirrors().remove(0)
        };
        let unverified = RegistryMirror { ca_file: String::new(), skip_verify: true, ..mirror.clone() };
        for (mirror, key, value) in [
            (mirror, "ca_file", toml::Value::from(r"C:\m.pem")),
            (unverified, "insecure_skip_verify", toml::Value::from(true)),
        ] {
            let file = layer(ContainerdVersion::new(1, 4, 0), &settings(&Cni::default(), &[mirror]));
            for host in ["a.example", "b.example:5000"] {
                let tls = at(&file, &[layers::REGISTRY_CONFIGS, &[host, "tls"]].concat()).as_table().unwrap();
                assert_eq!(tls.iter().collect::<Vec<_>>(), [(&key.to_owned(), &value)]);
            }
        }
    }

    #[test]
    fn an_unknown_version_and_an_unreadable_mirror_are_refused() {
        let ipv6 = vec![RegistryMirror { endpoints: vec!["https://[fd00::1]".into()], ..mirrors().remove(0) }];
        let refused = |version: &str, mirrors: &[RegistryMirror]| {
            let settings = settings(&Cni::default(), mirrors);
            text(version.parse().unwrap(), &settings, Scope::Layer).unwrap_err().to_string()
        };
        for unknown in ["1.3.9", "1.8.0", "3.0.0"] {
            let message = refused(unknown, &[]);
            assert!(message.contains(&format!("the configuration of containerd {unknown} is not known")), "{message}");
        }
        let message = refused("1.7.27", &ipv6);
        assert!(message.contains("https://[fd00::1]"), "{message}");
    }

    proptest! {
        #[test]
        fn any_directory_comes_back(bin_dir in ".{1,260}", conf_dir in any::<String>(), index in 0..GENERATIONS.len()) {
            let Generation { newest, keys, .. } = GENERATIONS[index];
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

        #[test]
        fn any_mirror_comes_back_in_the_file_of_1_4(
            registry in "[a-zA-Z0-9]([a-zA-Z0-9.-]{0,40}[a-zA-Z0-9])?(:[0-9]{1,5})?",
            endpoints in prop::collection::vec("https?://[^\\s\"']{1,64}", 1..8),
        ) {
            let mirror = RegistryMirror { registry, endpoints, ..RegistryMirror::default() };
            let file = read(ContainerdVersion::new(1, 4, 0), &Cni::default(), std::slice::from_ref(&mirror));
            let read = at(&file, &[facts::REGISTRY_MIRRORS, &[&mirror.registry, "endpoint"]].concat());
            prop_assert_eq!(read, &toml::Value::from(mirror.endpoints.clone()));
        }
    }
}

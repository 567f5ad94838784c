//! The whole configuration file of containerd on a Windows node.
//!
//! It is the whole file, since a drop-in of 1.x would replace what the node's own file says about the same plugin.
//! Where the settings are is in [`crate::facts::containerd`]; handlers and options are containerd's own defaults for
//! Windows, with the Hyper-V handler also on the lines that do not have it by default.

use super::{
    hosts,
    toml_text::{Document, Value},
};
use crate::{
    api::{Cni, RegistryMirror},
    domain::Problem,
    facts::{
        ContainerdVersion,
        containerd::{self as facts, CniBin, Generation},
    },
};

const COMMENT: &str = "containerd on Windows: C:\\Program Files\\containerd\\config.toml\n\
                       It is in effect once containerd has been restarted.";

/// What is rendered.
#[derive(Clone, Copy, Debug)]
pub struct Containerd<'a> {
    /// The version on the node, of which major and minor count.
    pub version: ContainerdVersion,
    /// The pause image, with its tag.
    pub pause_image: &'a str,
    /// The directories of the CNI plugins and their configuration. Empty: where containerd for Windows looks.
    pub cni: &'a Cni,
    /// The mirrors. containerd 1.5 and later have theirs in files of their own ([`hosts::hosts`]), 1.4 in this one.
    pub mirrors: &'a [RegistryMirror],
}

/// The text of `config.toml`.
///
/// # Errors
/// A version whose configuration nobody knows, or mirrors that this version would not read.
pub fn toml(input: &Containerd) -> Result<String, Problem> {
    let generation = facts::generation(input.version).ok_or_else(|| {
        let wrong = format!("the configuration of containerd {} is not known", input.version);
        Problem::new("status.nodeInfo.containerRuntimeVersion", wrong, "install a supported containerd, such as 2.3")
    })?;
    match hosts::unreadable(input.mirrors, generation) {
        Some(problem) => Err(problem),
        None => Ok(render(input, generation)),
    }
}

fn render(input: &Containerd, generation: &Generation) -> String {
    let keys = generation.keys;
    let bin_dir = [or_default(&input.cni.bin_dir, facts::CNI_BIN_DIR)];
    let endpoints = endpoints(input.mirrors, generation);

    let mut file = Document::new(COMMENT);
    file.set(&["version"], Value::Number(generation.config_version.into()));
    file.set(&["root"], Value::Text(facts::ROOT));
    file.set(&["state"], Value::Text(facts::STATE));
    if generation.imports_drop_ins {
        file.set(&["imports"], Value::Texts(&[facts::DROP_INS]));
    }
    file.set(&[keys.grpc, &["address"]].concat(), Value::Text(facts::PIPE));
    file.set(keys.sandbox_image, Value::Text(input.pause_image));
    file.set(keys.snapshotter, Value::Text(facts::SNAPSHOTTER));
    if let Some(config_path) = keys.registry_config_path {
        file.set(config_path, Value::Text(facts::CERTS_D));
    }
    for (registry, endpoints) in &endpoints {
        file.set(&[facts::REGISTRY_MIRRORS, &[registry, "endpoint"]].concat(), Value::Texts(endpoints));
    }
    file.set(keys.default_runtime_name, Value::Text(facts::PROCESS_HANDLER));
    handlers(&mut file, generation);
    match keys.cni_bin {
        CniBin::Directory(key) => file.set(key, Value::Text(bin_dir[0])),
        CniBin::Directories(key) => file.set(key, Value::Texts(&bin_dir)),
    }
    file.set(keys.cni_conf_dir, Value::Text(or_default(&input.cni.conf_dir, facts::CNI_CONF_DIR)));
    file.set(facts::DIFFERS, Value::Texts(&[facts::SNAPSHOTTER]));
    file.render()
}

fn or_default<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

/// The mirrors that belong into the file itself: those of a line that reads no `hosts.toml`.
fn endpoints<'a>(mirrors: &'a [RegistryMirror], generation: &Generation) -> Vec<(&'a str, Vec<&'a str>)> {
    let here = generation.keys.registry_config_path.is_none();
    let texts = |mirror: &'a RegistryMirror| mirror.endpoints.iter().map(String::as_str).collect();
    mirrors.iter().filter(|_| here).map(|mirror| (mirror.registry.as_str(), texts(mirror))).collect()
}

/// The handlers for process and for Hyper-V isolation.
fn handlers(file: &mut Document, generation: &Generation) {
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
    use proptest::prelude::*;

    use super::*;
    use crate::facts::containerd::{GENERATIONS, generation};

    const PAUSE: &str = "mcr.microsoft.com/oss/v2/kubernetes/pause:3.10";

    fn read(version: ContainerdVersion, cni: &Cni, mirrors: &[RegistryMirror]) -> toml::Table {
        toml(&Containerd { version, pause_image: PAUSE, cni, mirrors }).unwrap().parse().unwrap()
    }

    /// The value at a path, which must be there.
    fn at<'a>(file: &'a toml::Table, path: &[&str]) -> &'a toml::Value {
        let (first, rest) = path.split_first().unwrap();
        let first = file.get(*first).unwrap_or_else(|| panic!("no {path:?} in {file}"));
        rest.iter().fold(first, |value, key| value.get(key).unwrap_or_else(|| panic!("no {path:?} in {file}")))
    }

    fn mirrors() -> Vec<RegistryMirror> {
        vec![RegistryMirror { registry: "docker.io".into(), endpoints: vec!["https://mirror.example".into()] }]
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
            let version = version.parse().unwrap();
            toml(&Containerd { version, pause_image: PAUSE, cni: &Cni::default(), mirrors }).unwrap()
        };
        assert_eq!(render("1.7.0", &[]), render("1.7.27", &[]));
        assert_eq!(render("1.5.0", &[]), render("1.6.20", &[]), "nothing differs between these lines");
        assert_eq!(render("2.3.0", &[]), render("2.9.1", &[]));
        assert_eq!(render("2.1.0", &[]), render("2.1.0", &mirrors()));
        assert_ne!(render("1.4.0", &[]), render("1.4.0", &mirrors()));
    }

    #[test]
    fn an_unknown_version_and_an_unreadable_mirror_are_refused() {
        let cni = Cni::default();
        let ipv6 = vec![RegistryMirror { registry: "docker.io".into(), endpoints: vec!["https://[fd00::1]".into()] }];
        let refused = |version: &str, mirrors| {
            let version = version.parse().unwrap();
            toml(&Containerd { version, pause_image: PAUSE, cni: &cni, mirrors }).unwrap_err().to_string()
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
            let mirror = RegistryMirror { registry, endpoints };
            let file = read(ContainerdVersion::new(1, 4, 0), &Cni::default(), std::slice::from_ref(&mirror));
            let read = at(&file, &[facts::REGISTRY_MIRRORS, &[&mirror.registry, "endpoint"]].concat());
            prop_assert_eq!(read, &toml::Value::from(mirror.endpoints.clone()));
        }
    }
}

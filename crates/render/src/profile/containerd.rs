//! The check of the settings of containerd.

use std::collections::BTreeSet;

use toml::{Table, Value};
use winpool_api::{
    ContainerdSettings, RegistryMirror,
    pattern::{DURATION, ENDPOINT, REGISTRY},
};
use winpool_core::kubernetes::{
    duration,
    syntax::{http_address_problem, is_registry},
};
use winpool_facts::{containerd::CIMFS, containerd_settings::SETTINGS};

use super::{
    paths::is_windows_path,
    problems::Problems,
    settings::{SettingWriter, UnwrittenSetting, unwritten},
};

/// Checks the settings of containerd. Returns the parsed `extraConfig`.
pub(super) fn check(settings: &ContainerdSettings, problems: &mut Problems) -> Table {
    mirrors(settings, problems);
    directories(settings, problems);
    pull_timeout(&settings.image_pull_progress_timeout, problems);
    extra_config(&settings.extra_config, problems)
}

fn mirrors(settings: &ContainerdSettings, problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for (index, mirror) in settings.registry_mirrors.iter().enumerate() {
        let path = format!("spec.containerd.registryMirrors[{index}]");
        let registry = &mirror.registry;
        if !is_registry(registry) {
            let wrong = format!("`{registry}` is not a registry");
            problems.error(format!("{path}.registry"), wrong, REGISTRY.remedy);
        }
        if !seen.insert(registry.to_ascii_lowercase()) {
            let wrong = format!("{registry} is listed more than once");
            problems.error(format!("{path}.registry"), wrong, "write the endpoints of a registry in one entry");
        }
        let mut seen = BTreeSet::new();
        for (index, endpoint) in mirror.endpoints.iter().enumerate() {
            let path = format!("{path}.endpoints[{index}]");
            if let Some(wrong) = http_address_problem(endpoint) {
                problems.error(path, wrong, ENDPOINT.remedy);
            } else if !seen.insert(endpoint) {
                problems.error(path, format!("{endpoint} is listed more than once"), "remove the duplicate");
            }
        }
        certificate(&path, mirror, problems);
    }
}

fn certificate(path: &str, mirror: &RegistryMirror, problems: &mut Problems) {
    let RegistryMirror { ca_file, skip_verify, .. } = mirror;
    if *skip_verify && !ca_file.is_empty() {
        let wrong = "caFile has no effect with skipVerify";
        problems.error(format!("{path}.skipVerify"), wrong, "remove skipVerify, or remove caFile");
    } else if *skip_verify {
        let wrong = "certificates are not verified, so an attacker between node and mirror can replace images";
        problems.warning(format!("{path}.skipVerify"), wrong, "set caFile instead");
    }
}

// The schema has no pattern for these directories.
fn directories(settings: &ContainerdSettings, problems: &mut Problems) {
    for (name, directory) in [("binDir", &settings.cni.bin_dir), ("confDir", &settings.cni.conf_dir)] {
        if !directory.is_empty() && !is_windows_path(directory) {
            let wrong = format!("`{directory}` is not an absolute Windows path");
            let remedy = r"write drive and path, such as C:\opt\cni\bin";
            problems.error(format!("spec.containerd.cni.{name}"), wrong, remedy);
        }
    }
}

fn pull_timeout(text: &str, problems: &mut Problems) {
    let wrong = match duration::parse(text) {
        Some(nanoseconds) if nanoseconds > 0 => return,
        Some(_) => "the timeout must not be zero".to_owned(),
        None => format!("`{text}` is not a duration"),
    };
    problems.error("spec.containerd.imagePullProgressTimeout", wrong, DURATION.remedy);
}

/// Parses `extraConfig`. It is empty if it has an error.
fn extra_config(text: &str, problems: &mut Problems) -> Table {
    const PATH: &str = "spec.containerd.extraConfig";
    match text.parse::<Table>() {
        Ok(table) if table.contains_key("version") => {
            let wrong = "winpool sets the version: 2 for containerd 1.x, 3 for containerd 2.x";
            problems.error(PATH, wrong, "remove version");
        }
        Ok(table) => {
            for UnwrittenSetting { key, wrong, remedy } in unwritten(&table, SETTINGS, SettingWriter::ExtraConfig) {
                problems.error(PATH, format!("{key} {wrong}"), remedy);
            }
            if selects_cimfs(&table) {
                let wrong = "the snapshotter cimfs has stopped nodes with a blue screen (microsoft/hcsshim#2625)";
                problems.warning(PATH, wrong, "remove it, and use the default snapshotter");
            }
            return table;
        }
        Err(error) => {
            let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            let at = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            let wrong = format!("not valid TOML: {at}{}", error.message());
            problems.error(PATH, wrong, "correct the syntax");
        }
    }
    Table::new()
}

/// Whether a configuration of containerd selects CimFS in any table.
pub fn selects_cimfs(table: &Table) -> bool {
    fn selects(name: &str, value: &Value) -> bool {
        match value {
            Value::String(text) => name == "snapshotter" && text == CIMFS,
            Value::Array(list) => list.iter().any(|value| selects(name, value)),
            Value::Table(table) => selects_cimfs(table),
            _ => false,
        }
    }
    table.iter().any(|(name, value)| selects(name, value))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::profile;
    use winpool_core::Problem;

    fn checked(containerd: &Value) -> Result<profile::Profile, Vec<Problem>> {
        profile::check(&serde_json::from_value(json!({"containerd": containerd})).unwrap())
    }

    fn mirror(ca_file: &str, skip_verify: bool) -> Value {
        json!({"registryMirrors": [{
            "registry": "docker.io", "endpoints": ["https://mirror.example"], "caFile": ca_file, "skipVerify": skip_verify,
        }]})
    }

    fn extra(text: &str) -> Value {
        json!({"extraConfig": text})
    }

    fn runtime(table: &str, text: &str) -> String {
        format!("[plugins.'io.containerd.cri.v1.runtime'.{table}]\n{text}\n")
    }

    #[test]
    fn each_error_is_reported_at_its_path() {
        let table = [
            (json!({"imagePullProgressTimeout": "soon"}), "imagePullProgressTimeout", "not a duration"),
            (json!({"imagePullProgressTimeout": "30"}), "imagePullProgressTimeout", "not a duration"),
            (json!({"imagePullProgressTimeout": "0s"}), "imagePullProgressTimeout", "must not be zero"),
            (extra("a = "), "extraConfig", "not valid TOML: line 1"),
            (extra("a = 1\n[b\n"), "extraConfig", "not valid TOML: line 2"),
            (extra("version = 3\n"), "extraConfig", "winpool sets the version"),
            (extra("imports = ['C:\\x']"), "extraConfig", "imports is not a setting"),
            (extra("[grpc]\naddress = 'x'"), "extraConfig", "grpc is not a setting"),
            (extra("root = 'D:\\x'"), "extraConfig", "root is set by winpool"),
            (
                extra("[plugins.'io.containerd.grpc.v1.cri']\nuse_local_image_pull = true"),
                "extraConfig",
                "not a setting",
            ),
            (
                extra("[plugins.'io.containerd.cri.v1.images']\nsandbox_image = 'registry.example/pause:1'"),
                "extraConfig",
                "not a setting",
            ),
            (extra(&runtime("cni", "bin_dir = 'C:\\x'")), "extraConfig", ".cni.bin_dir is set by winpool"),
            (extra(&runtime("cni", "bin_dirs = ['C:\\x']")), "extraConfig", ".cni.bin_dirs is set by winpool"),
            (extra(&runtime("cni", "conf_dir = '\\\\server\\x'")), "extraConfig", ".cni.conf_dir is set"),
            (extra(&runtime("cni", "conf_template = 'C:\\x'")), "extraConfig", "not a setting"),
            (
                extra(&runtime("containerd.runtimes.x", "pod_annotations = ['*']")),
                "extraConfig",
                "must be a list with 'io.microsoft.virtualmachine.*' or",
            ),
            (extra(&runtime("containerd.runtimes.x", "Runtime_Path = 'a'")), "extraConfig", "not a setting"),
            (mirror("C:\\mirror.pem", true), "registryMirrors[0].skipVerify", "no effect"),
        ];
        for (containerd, path, text) in table {
            let problems = checked(&containerd).expect_err(&containerd.to_string());
            let [Problem { path: found, wrong, remedy }] = &problems[..] else { panic!("{problems:?}") };
            assert_eq!(*found, format!("spec.containerd.{path}"), "{containerd}");
            assert!(wrong.contains(text) && !remedy.is_empty(), "{wrong}");
        }
    }

    #[test]
    fn valid_settings_are_accepted() {
        let profile = checked(&json!({
            "imagePullProgressTimeout": "1h30m",
            "root": "D:\\containerd",
            "extraConfig": "oom_score = 5\n[plugins.'io.containerd.cri.v1.images']\nmax_concurrent_downloads = 5\n",
        }));
        let profile = profile.unwrap();
        assert_eq!(profile.warnings, []);
        assert_eq!(profile.containerd_extra["oom_score"].as_integer(), Some(5));
        assert_eq!(checked(&json!({})).unwrap().containerd.image_pull_progress_timeout, "30m");
        assert_eq!(checked(&mirror("C:/certs/mirror.pem", false)).unwrap().warnings, []);
    }

    #[test]
    fn a_mirror_without_verification_is_a_warning() {
        let warnings = checked(&mirror("", true)).unwrap().warnings;
        assert_eq!(
            warnings.iter().map(|warning| warning.path.as_str()).collect::<Vec<_>>(),
            ["spec.containerd.registryMirrors[0].skipVerify"]
        );
    }
}

//! The check of a profile's settings of containerd.

use std::collections::BTreeSet;

use toml::Table;

use super::{
    check::{Findings, is_port, is_registry},
    extra::duration,
};
use crate::api::{ContainerdSettings, RegistryMirror};

/// The length of `extraConfig`, as the schema has it.
const MAX_EXTRA_CONFIG: usize = 16384;

/// The TOML that is merged last, parsed.
pub(super) fn check(settings: &ContainerdSettings, findings: &mut Findings) -> Table {
    mirrors(settings, findings);
    folders(settings, findings);
    pull_timeout(&settings.image_pull_progress_timeout, findings);
    extra_config(&settings.extra_config, findings)
}

fn mirrors(settings: &ContainerdSettings, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (index, mirror) in settings.registry_mirrors.iter().enumerate() {
        let path = format!("spec.containerd.registryMirrors[{index}]");
        let registry = &mirror.registry;
        if !is_registry(registry) {
            let wrong = format!("`{registry}` is not a registry");
            findings.mistake(
                format!("{path}.registry"),
                wrong,
                "write its host, such as docker.io or registry.example:5000",
            );
        }
        if !seen.insert(registry.to_ascii_lowercase()) {
            let wrong = format!("{registry} is there more than once");
            findings.mistake(format!("{path}.registry"), wrong, "write the endpoints of a registry in one entry");
        }
        if mirror.endpoints.is_empty() {
            let wrong = format!("{registry} has no mirror");
            findings.mistake(
                format!("{path}.endpoints"),
                wrong,
                "write the mirror's address, such as https://mirror.example",
            );
        }
        let mut asked = BTreeSet::new();
        for (at, endpoint) in mirror.endpoints.iter().enumerate() {
            let path = format!("{path}.endpoints[{at}]");
            if let Some(wrong) = endpoint_problem(endpoint) {
                findings.mistake(path, wrong, "write a plain address, such as https://mirror.example");
            } else if !asked.insert(endpoint) {
                findings.mistake(path, format!("{endpoint} is there more than once"), "remove one of them");
            }
        }
        certificate(&path, mirror, findings);
    }
}

fn certificate(path: &str, mirror: &RegistryMirror, findings: &mut Findings) {
    let RegistryMirror { ca_file, skip_verify, .. } = mirror;
    if !ca_file.is_empty() && !is_windows_path(ca_file) {
        let wrong = format!("`{ca_file}` is not a file on Windows");
        findings.mistake(format!("{path}.caFile"), wrong, r"write drive and path, such as C:\certs\mirror.pem");
    }
    if *skip_verify && !ca_file.is_empty() {
        let wrong = "the certificate is not verified, so the authority has no effect";
        findings.mistake(format!("{path}.skipVerify"), wrong, "remove skipVerify, or remove caFile");
    } else if *skip_verify {
        let wrong = "anybody between the node and the mirror can replace images";
        findings.warning(format!("{path}.skipVerify"), wrong, "write caFile instead");
    }
}

fn folders(settings: &ContainerdSettings, findings: &mut Findings) {
    let folders = [
        ("cni.binDir", &settings.cni.bin_dir, r"C:\opt\cni\bin"),
        ("cni.confDir", &settings.cni.conf_dir, r"C:\opt\cni\bin"),
        ("root", &settings.root, r"D:\containerd"),
    ];
    for (name, folder, example) in folders {
        if !folder.is_empty() && !is_windows_path(folder) {
            let wrong = format!("`{folder}` is not a folder on Windows");
            findings.mistake(
                format!("spec.containerd.{name}"),
                wrong,
                format!("write drive and path, such as {example}"),
            );
        }
    }
}

fn pull_timeout(text: &str, findings: &mut Findings) {
    let wrong = match duration(text) {
        Some(nanoseconds) if nanoseconds > 0 => return,
        Some(_) => "a pull would be cancelled at once, or never".to_owned(),
        None => format!("`{text}` is not a length of time"),
    };
    findings.mistake("spec.containerd.imagePullProgressTimeout", wrong, "write hours and minutes, such as 30m");
}

/// The TOML that is merged last; empty where it has a mistake.
fn extra_config(text: &str, findings: &mut Findings) -> Table {
    const PATH: &str = "spec.containerd.extraConfig";
    if text.len() > MAX_EXTRA_CONFIG {
        let wrong = format!("it has {} characters, and {MAX_EXTRA_CONFIG} is the limit", text.len());
        findings.mistake(PATH, wrong, "write less, or put the settings into a drop-in of your own");
    }
    match text.parse::<Table>() {
        Ok(table) if table.contains_key("version") => {
            let wrong = "winpool writes the version: 2 for containerd 1.x, 3 for containerd 2.x";
            findings.mistake(PATH, wrong, "remove the line with version");
        }
        Ok(table) => return table,
        Err(error) => {
            let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            let at = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            let wrong = format!("it is not TOML: {at}{}", error.message());
            findings.mistake(PATH, wrong, "correct it, for example with a table in front: [plugins.'NAME']");
        }
    }
    Table::new()
}

/// What is wrong with a text as the address of a mirror.
fn endpoint_problem(text: &str) -> Option<String> {
    let Some(rest) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) else {
        return Some(format!("`{text}` does not begin with https:// or http://"));
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if host.contains('@') {
        return Some("the address has credentials in it, which everybody could read".to_owned());
    }
    let bracketed = host.strip_prefix('[').and_then(|host| host.split_once(']'));
    let host_ok = match bracketed {
        Some((address, port)) => {
            address.parse::<std::net::Ipv6Addr>().is_ok()
                && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
        }
        None => is_registry(host),
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~%:+".contains(&byte);
    (!host_ok || !path.bytes().all(plain)).then(|| format!("`{text}` is not the address of a registry"))
}

/// A drive and a path, without anything that Windows does not have in one.
fn is_windows_path(text: &str) -> bool {
    let mut bytes = text.bytes();
    let drive = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic());
    let rooted = bytes.next() == Some(b':') && bytes.next().is_some_and(|byte| byte == b'\\' || byte == b'/');
    let rest = text.get(2..).unwrap_or_default();
    drive && rooted && text.len() <= 260 && !rest.contains(|c: char| c.is_control() || "<>:\"|?*".contains(c))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::domain::{Problem, profile};

    fn checked(containerd: &Value) -> Result<profile::Profile, Vec<Problem>> {
        profile::check(&serde_json::from_value(json!({"containerd": containerd})).unwrap())
    }

    fn mirror(ca_file: &str, skip_verify: bool) -> Value {
        json!({"registryMirrors": [{
            "registry": "docker.io", "endpoints": ["https://mirror.example"], "caFile": ca_file, "skipVerify": skip_verify,
        }]})
    }

    #[test]
    fn a_setting_that_containerd_or_windows_does_not_take_is_refused_at_its_path() {
        let table = [
            (json!({"imagePullProgressTimeout": "soon"}), "spec.containerd.imagePullProgressTimeout", "not a length"),
            (json!({"imagePullProgressTimeout": "30"}), "spec.containerd.imagePullProgressTimeout", "not a length"),
            (
                json!({"imagePullProgressTimeout": "0s"}),
                "spec.containerd.imagePullProgressTimeout",
                "cancelled at once",
            ),
            (json!({"root": "/var/lib/containerd"}), "spec.containerd.root", "not a folder on Windows"),
            (json!({"root": "D:\\a?b"}), "spec.containerd.root", "not a folder on Windows"),
            (json!({"extraConfig": "a = "}), "spec.containerd.extraConfig", "not TOML: line 1"),
            (json!({"extraConfig": "a = 1\n[b\n"}), "spec.containerd.extraConfig", "not TOML: line 2"),
            (json!({"extraConfig": "version = 3\n"}), "spec.containerd.extraConfig", "winpool writes the version"),
            (json!({"extraConfig": format!("a = \"{}\"", "x".repeat(16384))}), "spec.containerd.extraConfig", "limit"),
            (
                mirror("/etc/ssl/mirror.pem", false),
                "spec.containerd.registryMirrors[0].caFile",
                "not a file on Windows",
            ),
            (mirror("C:\\mirror.pem", true), "spec.containerd.registryMirrors[0].skipVerify", "no effect"),
        ];
        for (containerd, path, word) in table {
            let problems = checked(&containerd).expect_err(&containerd.to_string());
            let [Problem { path: found, wrong, remedy }] = &problems[..] else { panic!("{problems:?}") };
            assert_eq!(found, path, "{containerd}");
            assert!(wrong.contains(word) && !remedy.is_empty(), "{wrong}");
        }
    }

    #[test]
    fn a_setting_that_both_take_is_kept() {
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
    fn a_mirror_whose_certificate_is_not_verified_is_warned_about() {
        let warnings = checked(&mirror("", true)).unwrap().warnings;
        assert_eq!(
            warnings.iter().map(|warning| warning.path.as_str()).collect::<Vec<_>>(),
            ["spec.containerd.registryMirrors[0].skipVerify"]
        );
    }
}

//! What the agent writes: the keys of a configuration, and the settings in them. Anything else is refused by name.
//!
//! The agent runs as SYSTEM. Settings are not allowed if they change who may access the kubelet (`authentication`,
//! `authorization`, certificates, addresses), what it runs on its own (static pods, plugins), or where the runtime and
//! the node's data are.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use toml::Table;
use winpool_core::Problem;
use winpool_facts::{
    containerd_settings::{ContainerdSetting, HOSTS_SETTINGS, SETTINGS},
    kube_proxy_fields::FIELDS,
    kubelet_fields::{Agent, FieldType, field},
    kubelet_flags::{RESOLV_CONF, WINDOWS_PRIORITYCLASS},
};
use winpool_render::{
    hosts::directory_of_key,
    profile::{SettingWriter, UnwrittenSetting, is_resolv_conf, type_problem, unwritten},
};

use super::{
    environment,
    flags::{self, FlagValue},
    toml as toml_file, values, yaml,
};
use crate::{
    change_plan::{Refusal, RefusalReason},
    refuse::refuse,
};

/// A configuration whose keys and settings are all allowed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllowedConfiguration {
    pub kubelet: Option<Layer>,
    pub flags: Vec<FlagValue>,
    /// `containerd.toml`: the text, and its values.
    pub containerd: Option<(String, Table)>,
    /// `hosts.<registry>.toml`, by the name of the registry's directory: the text, and its values.
    pub hosts: BTreeMap<String, (String, Table)>,
    pub kube_proxy: Option<Layer>,
    pub environment: Vec<String>,
}

/// A partial YAML file: the text, and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    pub text: String,
    pub settings: Map<String, Value>,
}

const KUBELET: Api = Api { version: "kubelet.config.k8s.io/v1beta1", kind: "KubeletConfiguration" };
const KUBE_PROXY: Api = Api { version: "kubeproxy.config.k8s.io/v1alpha1", kind: "KubeProxyConfiguration" };

struct Api {
    version: &'static str,
    kind: &'static str,
}

/// The allowed flags of the kubelet.
pub const FLAGS: &[&str] = &[WINDOWS_PRIORITYCLASS, RESOLV_CONF];

const ENVIRONMENT: &[&str] = &["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

/// Checks the keys and settings of a configuration.
pub fn check(files: &BTreeMap<String, String>) -> Result<AllowedConfiguration, Refusal> {
    let mut configuration = AllowedConfiguration::default();
    for (key, text) in files {
        match key.as_str() {
            "kubelet.yaml" => configuration.kubelet = Some(kubelet(text)?),
            "kubelet.args" => configuration.flags = kubelet_flags(text)?,
            "containerd.toml" => configuration.containerd = Some((text.clone(), containerd(key, text, SETTINGS)?)),
            "kube-proxy.yaml" => {
                let field_type = |name: &str| Some(FIELDS.iter().find(|(known, _)| *known == name)?.1);
                configuration.kube_proxy = Some(layer(key, text, &KUBE_PROXY, field_type)?);
            }
            "environment" => configuration.environment = variables(text)?,
            _ => {
                let Some(directory) = directory_of_key(key).filter(|name| is_directory(name)) else {
                    return Err(forbidden(format!("the ConfigMap has the key {key}")));
                };
                let settings = containerd(key, text, HOSTS_SETTINGS)?;
                configuration.hosts.insert(directory.to_owned(), (text.clone(), settings));
            }
        }
    }
    Ok(configuration)
}

fn kubelet(text: &str) -> Result<Layer, Refusal> {
    let field_type =
        |name: &str| field(name).filter(|field| field.agent == Agent::Writes).map(|field| field.field_type);
    let layer = layer("kubelet.yaml", text, &KUBELET, field_type)?;
    match values::problem(&layer.settings) {
        Some(wrong) => Err(forbidden(format!("kubelet.yaml: {wrong}"))),
        None => Ok(layer),
    }
}

/// The settings of a YAML file, each with a type if it is allowed.
fn layer(file: &str, text: &str, api: &Api, field_type: impl Fn(&str) -> Option<FieldType>) -> Result<Layer, Refusal> {
    let settings = yaml::parse(text).map_err(|error| invalid(file, error))?;
    for (name, value) in &settings {
        let problem = match (name.as_str(), field_type(name)) {
            ("apiVersion", _) if value == api.version => None,
            ("kind", _) if value == api.kind => None,
            ("apiVersion" | "kind", _) | (_, None) => return Err(forbidden(format!("{file} sets {name}"))),
            (name, Some(field_type)) => type_problem(name, field_type, value),
        };
        if let Some(Problem { path, wrong, .. }) = problem {
            return Err(forbidden(format!("{file}: {path}: {wrong}")));
        }
    }
    Ok(Layer { text: text.to_owned(), settings })
}

fn kubelet_flags(text: &str) -> Result<Vec<FlagValue>, Refusal> {
    let flags = flags::parse(text).map_err(|line| forbidden(format!("kubelet.args has the line `{line}`")))?;
    for FlagValue { name, value } in &flags {
        if !FLAGS.contains(&name.as_str()) || value.contains(char::is_control) {
            return Err(forbidden(format!("kubelet.args sets --{name}")));
        }
        if *name == RESOLV_CONF && !is_resolv_conf(value) {
            return Err(forbidden(format!(
                "kubelet.args sets --{name}={value}, and a Windows kubelet requires an empty value, Host or an absolute path"
            )));
        }
    }
    Ok(flags)
}

/// The settings of a file of containerd, which the check of profiles has too.
fn containerd(file: &str, text: &str, rows: &'static [ContainerdSetting]) -> Result<Table, Refusal> {
    let settings = toml_file::parse(text).map_err(|error| invalid(file, error))?;
    match unwritten(&settings, rows, SettingWriter::Agent).into_iter().next() {
        Some(UnwrittenSetting { key, wrong, .. }) => {
            let wrong = format!("{file} sets {key}, which {wrong}");
            Err(refuse(RefusalReason::NotAllowed, wrong, "Remove it from the profile"))
        }
        None => Ok(settings),
    }
}

fn variables(text: &str) -> Result<Vec<String>, Refusal> {
    let variables = environment::parse(text);
    for variable in &variables {
        let (name, value) = environment::pair(variable);
        if !ENVIRONMENT.contains(&name.as_str()) || value.is_none() || variable.contains(char::is_control) {
            return Err(forbidden(format!("environment sets {name}")));
        }
    }
    Ok(variables)
}

/// Whether a text is the name of a registry's directory: neither a path nor a name that Windows changes or reserves.
fn is_directory(name: &str) -> bool {
    const RESERVED: &[&str] = &["con", "prn", "aux", "nul"];
    let device = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let is_port = (device.starts_with("com") || device.starts_with("lpt")) && device.len() == 4;
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        && !name.ends_with('.')
        && !name.contains("..")
        && !RESERVED.contains(&device.as_str())
        && !is_port
}

fn forbidden(wrong: String) -> Refusal {
    refuse(RefusalReason::NotAllowed, format!("{wrong}, which the agent does not write"), "Remove it from the profile")
}

fn invalid(file: &str, error: String) -> Refusal {
    refuse(RefusalReason::NotAllowed, format!("{file} is not valid: {error}"), "Correct the profile")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use winpool_facts::{
        Build, ContainerRuntime, ContainerdLine, Minor,
        containerd_settings::{ANY, ENDPOINT, SettingType},
        kubelet_fields::{FIELDS as FIELDS_OF_KUBELET, FieldSupport},
    };
    use winpool_render::{Variant, profile, toml_layer};

    use super::*;
    use crate::tests::fake::data;

    fn checked(key: &str, text: &str) -> Result<AllowedConfiguration, Refusal> {
        check(&data(&[(key, text)]))
    }

    proptest! {
        #[test]
        fn a_listed_setting_is_allowed_and_nothing_dangerous_in_or_beside_it_for_profile_and_agent(
            index in 0..SETTINGS.len() + HOSTS_SETTINGS.len(),
            table in any::<prop::sample::Index>(),
            depth in any::<prop::sample::Index>(),
            name in "[a-z]([a-z.-]{0,8}[a-z])?",
            key in prop::sample::select(DANGEROUS),
            value in dangerous_value(),
        ) {
            let of_main = index < SETTINGS.len();
            let (rows, file) = if of_main { (SETTINGS, "containerd.toml") } else { (HOSTS_SETTINGS, "hosts.a.toml") };
            let row = rows[if of_main { index } else { index - SETTINGS.len() }];
            let keys: Vec<_> = [row.tables[table.index(row.tables.len())], row.key].concat().into_iter().map(|part| match part {
                ANY => name.clone(),
                ENDPOINT => format!("https://{name}.example"),
                part => part.to_owned(),
            }).collect();

            let listed = nested(&keys, valid(row.value));
            prop_assert_eq!(checked(file, &listed.to_string()).is_ok(), row.agent == Agent::Writes, "{}", listed);
            if of_main {
                prop_assert_eq!(profiled(&listed).is_ok(), row.field.is_none(), "{}", listed);
            }

            let replaced = nested(&keys, value.clone());
            let beside = {
                let at = depth.index(keys.len());
                let path: Vec<_> = keys[..at].iter().cloned().chain([key.to_owned()]).collect();
                let mut file = listed.clone();
                prop_assume!(toml_layer::merge(&mut file, &nested(&path, value)).is_ok());
                file
            };
            for changed in [replaced, beside] {
                prop_assert!(checked(file, &changed.to_string()).is_err(), "{}", changed);
                prop_assert!(!of_main || profiled(&changed).is_err(), "{}", changed);
            }
        }

        #[test]
        fn a_field_that_the_agent_does_not_write_is_refused_with_any_value(
            index in 0..FIELDS_OF_KUBELET.len(), text in ".{0,20}", of_list in any::<bool>(),
        ) {
            let field = &FIELDS_OF_KUBELET[index];
            let value = if of_list { json!([text]) } else { json!(text) };
            let file = json!({ (field.name): value }).to_string();
            prop_assert!(field.agent == Agent::Writes || checked("kubelet.yaml", &file).is_err(), "{}", file);
            let remote = json!({ (field.name): r"\\server\share\x" }).to_string();
            prop_assert!(checked("kubelet.yaml", &remote).is_err(), "{}", remote);
            if let FieldSupport::Refused(_) = field.support {
                let spec = json!({"kubelet": {"extra": { (field.name): value }}});
                prop_assert!(profile::check(&serde_json::from_value(spec).unwrap()).is_err());
            }
        }
    }

    /// Endpoints, credentials, programs, plugins, templates, and other spellings of their keys.
    const DANGEROUS: &[&str] = &[
        "address",
        "tcp_address",
        "Address",
        "auth",
        "auths",
        "headers",
        "header",
        "client",
        "key_file",
        "cert_file",
        "binary_name",
        "runtime_path",
        "Runtime_Path",
        "BIN_DIR",
        "base_runtime_spec",
        "conf_template",
        "cni_conf_dir",
        "cdi_spec_dirs",
        "stream_server_address",
        "x509_key_pair_streaming",
        "disable_tcp_service",
        "imports",
        "state",
        "proxy_plugins",
        "stream_processors",
        "path",
        "NCProxyAddr",
        "BootFilesRootPath",
        "GPUVHDPath",
        "DefaultContainerAnnotations",
        "io.containerd.internal.v1.opt",
        "io.containerd.nri.v1.nri",
        "staticPodPath",
    ];

    fn dangerous_value() -> impl Strategy<Value = toml::Value> {
        let text = prop::sample::select(vec![
            r"\\server\share\x.exe",
            "//server/share/x",
            r"\\.\pipe\x",
            r"\\?\UNC\server\x",
            r"..\x.exe",
            "tcp://[::]:1",
            "%TEMP%",
            "*",
        ]);
        (text, 0..3_u8).prop_map(|(text, shape)| match shape {
            0 => toml::Value::from(text),
            1 => toml::Value::from(vec![text]),
            _ => Table::from_iter([("path".to_owned(), toml::Value::from(text))]).into(),
        })
    }

    fn valid(value: SettingType) -> toml::Value {
        use toml::Value;
        match value {
            SettingType::Bool => true.into(),
            SettingType::Integer | SettingType::Number => 1.into(),
            SettingType::Duration => "1m30s".into(),
            SettingType::Name | SettingType::Image => "a.b/c-d".into(),
            SettingType::Names => vec!["a"].into(),
            SettingType::OneOf(texts) => texts[0].into(),
            SettingType::ListOf(texts) => Value::from(texts.to_vec()),
            SettingType::Endpoint => "https://a.example".into(),
            SettingType::Endpoints => vec!["https://a.example"].into(),
            SettingType::LocalPath | SettingType::NodeDirectory => r"C:\a".into(),
            SettingType::NodeDirectories => vec![r"C:\a"].into(),
        }
    }

    fn nested(keys: &[String], value: toml::Value) -> Table {
        let value = keys[1..].iter().rev().fold(value, |value, key| Table::from_iter([(key.clone(), value)]).into());
        Table::from_iter([(keys[0].clone(), value)])
    }

    fn profiled(extra: &Table) -> Result<profile::Profile, Vec<Problem>> {
        let spec = json!({"containerd": {"extraConfig": extra.to_string()}});
        profile::check(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn every_rendered_configuration_is_allowed() {
        let settings = json!({
            "kubelet": {
                "systemReserved": { "memory": "3Gi" }, "kubeReserved": { "cpu": "200m" }, "maxPods": 60,
                "evictionHard": { "memory.available": "500Mi" }, "featureGates": { "WindowsHostNetwork": false },
            },
            "containerd": { "registryMirrors": [{ "registry": "docker.io", "endpoints": ["https://mirror.example"] }] },
            "kubeProxy": { "winDSR": true },
            "proxy": { "httpProxy": "http://proxy.example:3128", "noProxy": "10.0.0.0/8" },
        });
        for (minor, line, spec) in [(30, (1, 7), json!({})), (30, (2, 0), settings.clone()), (36, (2, 3), settings)] {
            let profile = profile::check(&serde_json::from_value(spec).unwrap()).unwrap();
            let runtime = ContainerRuntime::Containerd(ContainerdLine::new(line.0, line.1));
            let variant = Variant { kubelet: Minor(minor), runtime, host: Build(20348) };
            let rendered = winpool_render::render(&[], &profile, &variant).unwrap();
            assert_eq!(check(&rendered.files).err(), None, "{variant}");
        }
    }

    #[test]
    fn settings_that_the_agent_does_not_write_are_refused_by_name() {
        let table = [
            ("other.yaml", "a: 1", "the key other.yaml"),
            ("cri-dockerd.args", "--a=1", "the key cri-dockerd.args"),
            ("hosts...toml", "", "the key hosts...toml"),
            ("hosts.a..b.toml", "", "the key hosts.a..b.toml"),
            ("hosts.nul.io.toml", "", "the key hosts.nul.io.toml"),
            ("hosts.docker.io.toml", "server = ", "hosts.docker.io.toml is not valid"),
            ("kubelet.yaml", "authentication:\n  anonymous:\n    enabled: true\n", "kubelet.yaml sets authentication"),
            ("kubelet.yaml", "kind: Pod", "kubelet.yaml sets kind"),
            ("kubelet.yaml", "apiVersion: v1", "kubelet.yaml sets apiVersion"),
            ("kubelet.yaml", "a: 1\n---\nb: 2\n", "kubelet.yaml is not valid: the file has several YAML documents"),
            ("kubelet.yaml", "[1]", "kubelet.yaml is not valid"),
            ("kubelet.yaml", "resolvConf: Host", "resolvConf"),
            ("kubelet.args", "--kubeconfig=C:\\x", "kubelet.args sets --kubeconfig"),
            ("kubelet.args", "--image-credential-provider-bin-dir=C:\\x", "sets --image-credential-provider-bin-dir"),
            ("kubelet.args", "--resolv-conf=/etc/resolv.conf", "requires an empty value, Host or an absolute path"),
            ("kubelet.args", "--windows-service", "the line `--windows-service`"),
            ("containerd.toml", "imports = ['x']", "containerd.toml sets imports"),
            (
                "containerd.toml",
                "[plugins.'io.containerd.nri.v1.nri']\na = 1",
                "sets plugins.'io.containerd.nri.v1.nri', which is not a setting",
            ),
            (
                "containerd.toml",
                "[plugins.'io.containerd.cri.v1.images'.registry]\nconfig_path = 'C:\\Windows'",
                "sets plugins.'io.containerd.cri.v1.images'.registry.config_path, which is 'C:\\Windows'",
            ),
            (
                "containerd.toml",
                "[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.x]\nruntime_path = 'C:\\x.exe'",
                "runtimes.x.runtime_path",
            ),
            ("containerd.toml", "oom_score = 1", "sets oom_score, which is a setting that the agent does not write"),
            ("containerd.toml", "root = '\\\\server\\x'", "sets root, which is"),
            ("hosts.docker.io.toml", "[host.'https://a.example'.header]\na = 'b'", "header"),
            ("hosts.docker.io.toml", "[host.'https://a.example']\nclient = 'C:\\a'", "client, which is not a setting"),
            ("hosts.docker.io.toml", "[host.'https://a.example']\nca = '//server/a'", "ca, which is"),
            ("hosts.docker.io.toml", "[host.'https://u:p@a.example']\nskip_verify = true", "which is not a setting"),
            ("kubelet.yaml", "clusterDomain: \\\\server\\x", "clusterDomain: "),
            ("kubelet.yaml", "logging: {file: C:\\x}", "logging.file: winpool has no such field"),
            ("kube-proxy.yaml", "clientConnection: {kubeconfig: x}", "kube-proxy.yaml sets clientConnection"),
            (
                "kube-proxy.yaml",
                "winkernel: {program: x}",
                "kube-proxy.yaml: winkernel.program: winpool has no such field",
            ),
            ("kube-proxy.yaml", "mode: userspace", "kube-proxy.yaml: mode"),
            ("environment", "PATH=C:\\x", "environment sets PATH"),
            ("environment", "HTTP_PROXY", "environment sets HTTP_PROXY"),
        ];
        for (key, text, wrong) in table {
            let refusal = checked(key, text).expect_err(text);
            assert_eq!(refusal.reason, RefusalReason::NotAllowed);
            assert!(refusal.message.contains(wrong), "{}", refusal.message);
        }
    }
}

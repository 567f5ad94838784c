//! What the agent writes: the keys of a configuration, and the settings in them. Anything else is refused by name.
//!
//! The agent runs as SYSTEM. Settings are not allowed if they change who may access the kubelet (`authentication`,
//! `authorization`, certificates, addresses), what it runs on its own (static pods, plugins), or where the runtime and
//! the node's data are.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use toml::Table;
use winpool_api::facts::{
    containerd::{CERTS_D, RUNTIME_TYPE},
    kubelet_fields::{Agent, field},
    kubelet_flags::{POD_INFRA_CONTAINER_IMAGE, REGISTER_WITH_TAINTS, RESOLV_CONF, V, WINDOWS_PRIORITYCLASS},
};
use winpool_core::{profile::is_resolv_conf, render::hosts::directory_of_key};

use super::{
    environment,
    flags::{self, Flag},
    toml as toml_file, values, yaml,
};
use crate::{
    change_plan::{Refusal, RefusalReason},
    refuse::refuse,
};

/// A configuration whose keys and settings are all allowed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllowedConfiguration {
    /// `kubelet.yaml`.
    pub kubelet: Option<Layer>,
    /// `kubelet.args`.
    pub flags: Vec<Flag>,
    /// `containerd.toml`: the text, and its values.
    pub containerd: Option<(String, Table)>,
    /// `hosts.<registry>.toml`, by the name of the registry's directory.
    pub hosts: BTreeMap<String, String>,
    /// `kube-proxy.yaml`.
    pub kube_proxy: Option<Layer>,
    pub environment: Vec<String>,
}

/// A partial YAML file: the text, and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// The text, with comments.
    pub text: String,
    pub settings: Map<String, Value>,
}

const KUBELET: Api = Api { version: "kubelet.config.k8s.io/v1beta1", kind: "KubeletConfiguration" };
const KUBE_PROXY: Api = Api { version: "kubeproxy.config.k8s.io/v1alpha1", kind: "KubeProxyConfiguration" };

/// The API of a configuration file.
struct Api {
    version: &'static str,
    kind: &'static str,
}

/// The allowed fields of KubeProxyConfiguration.
const KUBE_PROXY_FIELDS: [&str; 3] = ["mode", "featureGates", "winkernel"];

/// The allowed flags of the kubelet.
pub const FLAGS: &[&str] =
    &[WINDOWS_PRIORITYCLASS.name, RESOLV_CONF.name, REGISTER_WITH_TAINTS.name, V.name, POD_INFRA_CONTAINER_IMAGE.name];

/// The allowed tables and keys at the top of containerd's configuration.
const CONTAINERD_KEYS: &[&str] = &["version", "root", "plugins", "timeouts"];

/// The allowed plugins of containerd.
const PLUGINS: &[&str] = &[
    "io.containerd.grpc.v1.cri",
    "io.containerd.cri.v1.images",
    "io.containerd.cri.v1.runtime",
    "io.containerd.gc.v1.scheduler",
    "io.containerd.service.v1.diff-service",
    "io.containerd.snapshotter.v1.windows",
    "io.containerd.transfer.v1.local",
];

/// Keys of containerd's configuration that are not allowed in any table: endpoints, credentials, and programs.
const CONTAINERD_FORBIDDEN: &[&str] = &[
    "address",
    "auth",
    "auths",
    "binary_name",
    "runtime_path",
    "stream_server_address",
    "stream_server_port",
    "tcp_address",
    "x509_key_pair_streaming",
];

const ENVIRONMENT: &[&str] = &["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

/// Checks the keys and settings of a configuration.
///
/// # Errors
/// The first key or setting that is not allowed, or whose value is not valid.
pub fn check(files: &BTreeMap<String, String>) -> Result<AllowedConfiguration, Refusal> {
    let mut configuration = AllowedConfiguration::default();
    for (key, text) in files {
        match key.as_str() {
            "kubelet.yaml" => configuration.kubelet = Some(kubelet(text)?),
            "kubelet.args" => configuration.flags = kubelet_flags(text)?,
            "containerd.toml" => configuration.containerd = Some((text.clone(), containerd(text)?)),
            "kube-proxy.yaml" => {
                configuration.kube_proxy =
                    Some(layer(key, text, &KUBE_PROXY, |name| KUBE_PROXY_FIELDS.contains(&name))?);
            }
            "environment" => configuration.environment = variables(text)?,
            _ => {
                let Some(directory) = directory_of_key(key).filter(|name| is_directory(name)) else {
                    return Err(forbidden(format!("the ConfigMap has the key {key}")));
                };
                toml_file::parse(text).map_err(|error| invalid(key, error))?;
                configuration.hosts.insert(directory.to_owned(), text.clone());
            }
        }
    }
    Ok(configuration)
}

fn kubelet(text: &str) -> Result<Layer, Refusal> {
    let layer =
        layer("kubelet.yaml", text, &KUBELET, |name| field(name).is_some_and(|field| field.agent == Agent::Writes))?;
    match values::problem(&layer.settings) {
        Some(wrong) => Err(forbidden(format!("kubelet.yaml: {wrong}"))),
        None => Ok(layer),
    }
}

fn layer(file: &str, text: &str, api: &Api, is_written: impl Fn(&str) -> bool) -> Result<Layer, Refusal> {
    let settings = yaml::parse(text).map_err(|error| invalid(file, error))?;
    for (name, value) in &settings {
        let is_allowed = match name.as_str() {
            "apiVersion" => value == api.version,
            "kind" => value == api.kind,
            name => is_written(name),
        };
        if !is_allowed {
            return Err(forbidden(format!("{file} sets {name}")));
        }
    }
    Ok(Layer { text: text.to_owned(), settings })
}

fn kubelet_flags(text: &str) -> Result<Vec<Flag>, Refusal> {
    let flags = flags::parse(text).map_err(|line| forbidden(format!("kubelet.args has the line `{line}`")))?;
    for Flag { name, value } in &flags {
        if !FLAGS.contains(&name.as_str()) || value.contains(char::is_control) {
            return Err(forbidden(format!("kubelet.args sets --{name}")));
        }
        if *name == RESOLV_CONF.name && !is_resolv_conf(value) {
            return Err(forbidden(format!(
                "kubelet.args sets --{name}={value}, and a Windows kubelet requires an empty value, Host or an absolute path"
            )));
        }
        if *name == V.name && !value.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(forbidden(format!("kubelet.args sets --{name}={value}, which is not a number")));
        }
    }
    Ok(flags)
}

fn containerd(text: &str) -> Result<Table, Refusal> {
    let settings = toml_file::parse(text).map_err(|error| invalid("containerd.toml", error))?;
    let sets = |name: &str| Err(forbidden(format!("containerd.toml sets {name}")));
    if let Some(name) = settings.keys().find(|name| !CONTAINERD_KEYS.contains(&name.as_str())) {
        return sets(name);
    }
    let plugins = settings.get("plugins").and_then(toml::Value::as_table);
    if let Some(name) = plugins.into_iter().flat_map(Table::keys).find(|name| !PLUGINS.contains(&name.as_str())) {
        return sets(&format!("plugins.'{name}'"));
    }
    match forbidden_entry(&settings, "") {
        Some(path) => sets(&path),
        None => Ok(settings),
    }
}

/// The path of the first entry with a forbidden key, another directory of registries, or another runtime.
fn forbidden_entry(table: &Table, path: &str) -> Option<String> {
    table.iter().find_map(|(name, value)| {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let is_forbidden = CONTAINERD_FORBIDDEN.iter().any(|key| key.eq_ignore_ascii_case(name))
            || name == "config_path" && value.as_str() != Some(CERTS_D)
            || name == "runtime_type" && value.as_str() != Some(RUNTIME_TYPE);
        if is_forbidden {
            return Some(path);
        }
        forbidden_entry(value.as_table()?, &path)
    })
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
    use serde_json::json;
    use winpool_api::facts::{Build, ContainerRuntime, ContainerdLine, Minor};
    use winpool_core::{
        profile,
        render::{self, Variant},
    };

    use super::*;

    fn checked(key: &str, text: &str) -> Result<AllowedConfiguration, Refusal> {
        check(&BTreeMap::from([(key.to_owned(), text.to_owned())]))
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
        for (minor, line, spec) in
            [(20, (1, 7), json!({})), (24, (1, 7), json!({})), (30, (2, 0), settings.clone()), (36, (2, 3), settings)]
        {
            let profile = profile::check(&serde_json::from_value(spec).unwrap()).unwrap();
            let runtime = ContainerRuntime::Containerd(ContainerdLine::new(line.0, line.1));
            let variant = Variant { kubelet: Minor(minor), runtime, host: Build(20348) };
            let rendered = render::render(&[], &profile, &variant).unwrap();
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
            ("kubelet.yaml", "authorization: {mode: AlwaysAllow}", "kubelet.yaml sets authorization"),
            ("kubelet.yaml", "staticPodPath: C:\\x", "kubelet.yaml sets staticPodPath"),
            (
                "kubelet.yaml",
                "containerRuntimeEndpoint: npipe:////./pipe/x",
                "kubelet.yaml sets containerRuntimeEndpoint",
            ),
            ("kubelet.yaml", "kind: Pod", "kubelet.yaml sets kind"),
            ("kubelet.yaml", "apiVersion: v1", "kubelet.yaml sets apiVersion"),
            ("kubelet.yaml", "a: 1\n---\nb: 2\n", "kubelet.yaml is not valid: the file has several YAML documents"),
            ("kubelet.yaml", "[1]", "kubelet.yaml is not valid"),
            ("kubelet.yaml", "resolvConf: Host", "resolvConf"),
            ("kubelet.args", "--kubeconfig=C:\\x", "kubelet.args sets --kubeconfig"),
            ("kubelet.args", "--config=C:\\x", "kubelet.args sets --config"),
            ("kubelet.args", "--root-dir=C:\\x", "kubelet.args sets --root-dir"),
            ("kubelet.args", "--image-credential-provider-bin-dir=C:\\x", "sets --image-credential-provider-bin-dir"),
            ("kubelet.args", "--container-runtime-endpoint=npipe://x", "sets --container-runtime-endpoint"),
            ("kubelet.args", "--v=2 --kubeconfig=x", "sets --v=2 --kubeconfig=x"),
            ("kubelet.args", "--resolv-conf=/etc/resolv.conf", "requires an empty value, Host or an absolute path"),
            ("kubelet.args", "--windows-service", "the line `--windows-service`"),
            ("containerd.toml", "imports = ['x']", "containerd.toml sets imports"),
            ("containerd.toml", "[grpc]\naddress = 'x'", "containerd.toml sets grpc"),
            (
                "containerd.toml",
                "[plugins.'io.containerd.nri.v1.nri']\na = 1",
                "sets plugins.'io.containerd.nri.v1.nri'",
            ),
            (
                "containerd.toml",
                "[plugins.'io.containerd.cri.v1.images'.registry]\nconfig_path = 'C:\\Windows'",
                "sets plugins.io.containerd.cri.v1.images.registry.config_path",
            ),
            (
                "containerd.toml",
                "[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.x]\nruntime_path = 'C:\\x.exe'",
                "runtimes.x.runtime_path",
            ),
            ("kube-proxy.yaml", "clientConnection: {kubeconfig: x}", "kube-proxy.yaml sets clientConnection"),
            ("environment", "PATH=C:\\x", "environment sets PATH"),
            ("environment", "HTTP_PROXY", "environment sets HTTP_PROXY"),
        ];
        for (key, text, wrong) in table {
            let refusal = checked(key, text).expect_err(text);
            assert_eq!(refusal.reason, RefusalReason::NotAllowed);
            assert!(refusal.message.contains(wrong), "{}", refusal.message);
        }
    }

    #[test]
    fn a_rendered_configuration_is_allowed() {
        let files = BTreeMap::from(
            [
                ("kubelet.yaml", "# c\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nresolvConf: \"\"\nmaxPods: 110\n"),
                ("kubelet.args", "--windows-priorityclass=ABOVE_NORMAL_PRIORITY_CLASS\n--resolv-conf=\n"),
                ("containerd.toml", "version = 3\n[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = 'p:1'\n"),
                ("hosts.registry.example_5000_.toml", "server = 'https://registry.example:5000'\n"),
                ("kube-proxy.yaml", "kind: KubeProxyConfiguration\nmode: kernelspace\nwinkernel: {enableDSR: true}\n"),
                ("environment", "# c\nHTTPS_PROXY=http://proxy:3128\n"),
            ]
            .map(|(key, text)| (key.to_owned(), text.to_owned())),
        );
        let configuration = check(&files).unwrap();
        assert_eq!(configuration.kubelet.unwrap().settings["maxPods"], 110);
        assert_eq!(configuration.flags.len(), 2);
        assert_eq!(configuration.hosts.into_keys().collect::<Vec<_>>(), ["registry.example_5000_"]);
        assert_eq!(configuration.environment, ["HTTPS_PROXY=http://proxy:3128"]);
    }
}

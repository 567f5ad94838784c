//! Tables about Kubernetes.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use e2e::modules::Module;
use winpool_facts::{
    Minor,
    api_versions::API_VERSIONS,
    csi_drivers::CSI_DRIVERS,
    eviction,
    exit_codes::{EXIT_CODES, WIN32_CODES},
    kube_proxy_fields,
    kubelet_fields::{self, DefaultValue, FIELDS, FieldSupport, FieldType},
    kubelet_flags::FLAGS,
    node_restriction::KUBELET_LABELS,
    pause,
    pod_fields::REJECTED,
    support::{NEWEST, OLDEST},
    taints::manager,
};

use super::source::{Source, Table, Upstream, differences, names};

/// The path of the module of kubernetes/kubernetes.
pub const KUBERNETES: &str = "k8s.io/kubernetes";

/// A file of Kubernetes or of one of its libraries.
pub fn kubernetes(module: &'static str, path: &str) -> Result<Source> {
    Source::read(Module::new("kubernetes", module), path)
}

/// The name in the tag `json` of a field.
const FIELD: &str = r#"^\s*\w+ +\S+ +`json:"(\w+)"#;

/// Compares the fields of KubeletConfiguration, and their defaults: the first word that a comment has, without quotes and
/// capitals, because they have no common format.
pub fn kubelet_fields() -> Result<Vec<String>> {
    let source = kubernetes("k8s.io/kubelet", "config/v1beta1/types.go")?;
    let fields = source.part("type KubeletConfiguration struct {", "\n}")?;
    let documented = format!(r#"(?:^\s*// Default: "?([^\s"]+).*\n(?:\s*//.*\n)*)?{FIELD}"#);
    let upstream = fields.rows(&documented, |captures| {
        let default = captures.get(1).map_or(String::new(), |default| default.as_str().to_lowercase());
        let has_default = kubelet_fields::field(&captures[2]).is_some_and(|field| field.default_in(NEWEST).is_some());
        Some((captures[2].to_owned(), if has_default { default } else { String::new() }))
    })?;
    // `apiVersion` and `kind` are in another type.
    let own = FIELDS.iter().filter(|field| !["apiVersion", "kind"].contains(&field.name) && field.since <= NEWEST);
    let row = |field: &kubelet_fields::Field| {
        let is_documented = upstream.get(field.name).is_some_and(|(default, _)| !default.is_empty());
        let default = field.default_in(NEWEST).filter(|_| is_documented).map_or(String::new(), written);
        (field.name.to_owned(), default)
    };
    Ok(differences(&upstream, &own.map(row).collect()))
}

/// A default as the comments write it.
fn written(default: DefaultValue) -> String {
    match default {
        DefaultValue::Bool(value) => value.to_string(),
        DefaultValue::Integer(value) => value.to_string(),
        DefaultValue::Text(value) => value.to_lowercase(),
        DefaultValue::Unset => "nil".to_owned(),
    }
}

/// Compares the types of the fields: the kind of JSON that a type of Go is.
pub fn kubelet_field_types() -> Result<Vec<String>> {
    let source = kubernetes("k8s.io/kubelet", "config/v1beta1/types.go")?;
    let fields = source.part("type KubeletConfiguration struct {", "\n}")?;
    let kind = |go: &str| match go.trim_start_matches('*') {
        "int32" | "int64" => "integer".to_owned(),
        "v1.Duration" | "metav1.Duration" => "duration".to_owned(),
        name if source.text().contains(&format!("\ntype {name} string\n")) => "string".to_owned(),
        name if name.starts_with("[]") && name != "[]string" && name != "[]int32" => "objects".to_owned(),
        name if name.contains('.') || name.starts_with(char::is_uppercase) => "object".to_owned(),
        name => name.to_owned(),
    };
    let upstream = fields.rows(r#"^\s*\w+ +(\S+) +`json:"(\w+)"#, |captures| {
        kubelet_fields::field(&captures[2]).map(|field| (field.name.to_owned(), kind(&captures[1])))
    })?;
    let own = FIELDS.iter().filter(|field| !["apiVersion", "kind"].contains(&field.name) && field.since <= NEWEST);
    Ok(differences(
        &upstream,
        &own.map(|field| (field.name.to_owned(), json_kind(field.field_type).to_owned())).collect(),
    ))
}

fn json_kind(field_type: FieldType) -> &'static str {
    match field_type {
        FieldType::Bool => "bool",
        FieldType::Integer(..) => "integer",
        FieldType::Number => "float64",
        FieldType::String | FieldType::Enum(_) | FieldType::Directory | FieldType::ResolvConf => "string",
        FieldType::Duration | FieldType::DurationWithin(..) | FieldType::GracePeriod => "duration",
        FieldType::Strings => "[]string",
        FieldType::Integers => "[]int32",
        FieldType::StringMap | FieldType::Thresholds | FieldType::GracePeriods => "map[string]string",
        FieldType::StringListMap => "map[string][]string",
        FieldType::BoolMap => "map[string]bool",
        FieldType::Object(_) => "object",
        FieldType::Objects(_) => "objects",
        FieldType::Scalar => "scalar",
    }
}

/// The fields by their names in Go.
fn names_in_go() -> Result<Upstream> {
    let source = kubernetes("k8s.io/kubelet", "config/v1beta1/types.go")?;
    source.part("type KubeletConfiguration struct {", "\n}")?.pairs(r#"^\s*(\w+) +\S+ +`json:"(\w+)"#)
}

/// Compares the defaults that the code sets with those of the table that are not zero.
pub fn kubelet_defaults() -> Result<Vec<String>> {
    const SET: &str = r#"^\s*obj\.(\w+) = &?(?:metav1\.Duration\{Duration: (?:(\d+) \* )?time\.(\w)|(?:ptr\.To(?:\[\w+\])?\()?(true|\d+|"[^"]*"|kubeletconfigv1beta1\.\w+))"#;
    let names = names_in_go()?;
    let constants = kubernetes("k8s.io/kubelet", "config/v1beta1/types.go")?.constants()?;
    let source = kubernetes(KUBERNETES, "pkg/kubelet/apis/config/v1beta1/defaults.go")?;
    let default = |field: &kubelet_fields::Field| {
        let zero = [DefaultValue::Unset, DefaultValue::Bool(false), DefaultValue::Integer(0), DefaultValue::Text("0s")];
        field.default_in(NEWEST).filter(|value| !zero.contains(value)).map(written)
    };
    let upstream = source.rows(SET, |captures| {
        let field = kubelet_fields::field(&names.get(&captures[1])?.0)?;
        let group = |number| captures.get(number).map(|found| found.as_str());
        let value = match group(3) {
            Some(unit) => format!("{}{unit}", group(2).unwrap_or("1")),
            None => {
                let text = group(4)?.trim_matches('"').trim_start_matches("kubeletconfigv1beta1.");
                constants.get(text).map_or(text, String::as_str).to_owned()
            }
        };
        default(field).map(|_| (field.name.to_owned(), value.to_lowercase()))
    })?;
    let own = FIELDS.iter().filter_map(|field| Some((field.name.to_owned(), default(field)?)));
    Ok(differences(&upstream, &own.collect()))
}

/// Compares the flags of the fields that a profile sets.
pub fn kubelet_field_flags() -> Result<Vec<String>> {
    let names = names_in_go()?;
    let is_set = |field: &&kubelet_fields::Field| {
        matches!(field.support, FieldSupport::Supported | FieldSupport::Managed(_))
            && !["featureGates", "registerWithTaints"].contains(&field.name)
    };
    let source = kubernetes(KUBERNETES, "cmd/kubelet/app/options/options.go")?;
    let upstream = source.rows(r#"&c\.(\w+)(?:\.Duration)?[)}]*, "([\w-]+)""#, |captures| {
        let field = kubelet_fields::field(&names.get(&captures[1])?.0).filter(is_set)?;
        Some((field.name.to_owned(), captures[2].to_owned()))
    })?;
    let own = FIELDS.iter().filter(is_set).filter_map(|field| Some((field.name.to_owned(), field.flag?.to_owned())));
    Ok(differences(&upstream, &own.collect()))
}

/// Compares the flags.
pub fn kubelet_flags() -> Result<Vec<String>> {
    const FILES: [(&str, &str); 3] = [
        (KUBERNETES, "cmd/kubelet/app/options/options.go"),
        (KUBERNETES, "cmd/kubelet/app/options/osflags_windows.go"),
        ("k8s.io/component-base", "logs/api/v1/options.go"),
    ];
    let mut upstream = Upstream::new();
    for (module, path) in FILES {
        upstream.extend(kubernetes(module, path)?.pairs(r#"^\s*fs\.\w+\([^"]*"([\w-]+)","#)?);
    }
    Ok(differences(&upstream, &names(FLAGS.iter().copied())))
}

/// Compares the fields of kube-proxy for Windows.
pub fn kube_proxy_fields() -> Result<Vec<String>> {
    let source = kubernetes("k8s.io/kube-proxy", "config/v1alpha1/types.go")?;
    let upstream = source.part("type KubeProxyWinkernelConfiguration struct {", "\n}")?.pairs(FIELD)?;
    let own = kube_proxy_fields::FIELDS.iter().filter(|(name, _)| *name == "winkernel");
    let fields = own.flat_map(|(_, kind)| match kind {
        FieldType::Object(fields) => *fields,
        _ => &[],
    });
    Ok(differences(&upstream, &names(fields.map(|(name, _)| *name))))
}

/// Compares the default thresholds of eviction.
pub fn eviction() -> Result<Vec<String>> {
    let source = kubernetes(KUBERNETES, "pkg/kubelet/eviction/defaults_windows.go")?;
    let map = source.part("DefaultEvictionHard = map[string]string{", "\n}")?;
    let own = eviction::defaults(NEWEST).map(|(signal, threshold)| (signal.name().to_owned(), threshold.to_owned()));
    Ok(differences(&map.pairs(r#"^\s*"([\w.]+)": *"(\w+%?)""#)?, &own.into()))
}

/// Compares the labels with which a kubelet starts.
pub fn kubelet_labels() -> Result<Vec<String>> {
    let source = kubernetes("k8s.io/kubelet", "pkg/apis/well_known_labels.go")?;
    let api = kubernetes("k8s.io/api", "core/v1/well_known_labels.go")?;
    let constants: BTreeMap<_, _> = api.constants()?.into_iter().chain(source.constants()?).collect();
    let list = source.part("kubeletLabels = sets.", "\n)")?;
    let upstream =
        list.rows(r"^\t(?:v1\.)?(\w+),", |captures| Some((constants.get(&captures[1])?.clone(), String::new())))?;
    Ok(differences(&upstream, &names(KUBELET_LABELS)))
}

/// Compares the taints that count as managed.
pub fn taints() -> Result<Vec<String>> {
    let mut found = Upstream::new();
    for (module, path) in [("k8s.io/api", "core/v1"), ("k8s.io/cloud-provider", "api")] {
        found.extend(kubernetes(module, &format!("{path}/well_known_taints.go"))?.pairs(r#"^\s*Taint\w+ *= "(.*)"$"#)?);
    }
    let own: Vec<_> = found.keys().map(String::as_str).filter(|key| manager(key).is_some()).collect();
    ensure!(found.len() > 8, "{found:?}");
    Ok(differences(&found, &names(own)))
}

/// Compares the fields that the API server rejects in a pod for Windows with the comment of `PodSpec.os`.
pub fn rejected_fields() -> Result<Vec<String>> {
    let source = kubernetes("k8s.io/api", "core/v1/types.go")?;
    let list = source.part("If the OS field is set to windows, following fields must be unset:", "+optional")?;
    let upstream =
        list.rows(r"^\s*// - spec\.(\S+)", |captures| Some((captures[1].replace("[*]", "[]"), String::new())))?;
    Ok(differences(&upstream, &names(REJECTED.iter().map(|field| field.path))))
}

/// Compares which API versions each kind has, and the first minor that does not serve them. All others are served from the oldest
/// supported minor on.
pub fn api_versions() -> Result<Vec<String>> {
    let (mut upstream, mut table) = (Upstream::new(), Table::new());
    let rows = API_VERSIONS.iter().flat_map(|(kind, versions)| versions.iter().map(move |version| (kind, version)));
    for (kind, version) in rows {
        let (group, number) = version.api_version.split_once('/').unwrap_or(("core", version.api_version));
        let folder = group.trim_end_matches(".k8s.io");
        let source = kubernetes("k8s.io/api", &format!("{folder}/{number}/zz_generated.prerelease-lifecycle.go"))?;
        let name = |event: &str| format!("{kind} of {}, {event}", version.api_version);
        let functions = format!(r"^func \(in \*{kind}\) APILifecycle(Introduced|Removed)\(\).*\n\treturn 1, (\d+)$");
        upstream.extend(source.rows(&functions, |captures| {
            let minor = Minor(captures[2].parse().ok()?);
            let is_older = &captures[1] == "Introduced" && minor <= OLDEST;
            Some((name(&captures[1]), if is_older { String::new() } else { minor.to_string() }))
        })?);
        table.insert(name("Introduced"), String::new());
        table.extend(version.removed.map(|removed| (name("Removed"), removed.to_string())));
    }
    Ok(differences(&upstream, &table))
}

/// Compares the newest default tag of the pause image, and the tags.
pub fn pause() -> Result<Vec<String>> {
    let kubeadm = kubernetes(KUBERNETES, "cmd/kubeadm/app/constants/constants.go")?;
    let default = kubeadm.pairs(r#"^\s*(PauseVersion) = "(.*)"$"#)?;
    let own = Table::from([("PauseVersion".to_owned(), pause::default_tag(NEWEST).to_owned())]);
    let tags = kubernetes(KUBERNETES, "build/pause/CHANGELOG.md")?.pairs(r"^# (\S+)$")?;
    // Those without Windows are not listed. 3.4 is not in the registry: kubernetes/kubernetes issue 100708.
    let tags: Upstream = tags.into_iter().filter(|(tag, _)| !["3.0", "3.4"].contains(&tag.as_str())).collect();
    let own_tags = tags.keys().map(String::as_str).filter(|tag| pause::has_tag(pause::UPSTREAM, tag));
    Ok([differences(&default, &own), differences(&tags, &names(own_tags))].concat())
}

/// Compares the drivers to which the library for CSI migration redirects in-tree provisioners.
pub fn redirections() -> Result<Vec<String>> {
    let mut upstream = Upstream::new();
    for file in ["aws_ebs", "azure_disk", "azure_file", "gce_pd", "openstack_cinder", "portworx", "vsphere_volume"] {
        let source = kubernetes("k8s.io/csi-translation-lib", &format!("plugins/{file}.go"))?;
        let mut names = source.pairs(r#"^\s*\w+(DriverName|PluginName) *= "(\S+)"$"#)?;
        let (Some((driver, _)), Some(provisioner)) = (names.remove("DriverName"), names.remove("PluginName")) else {
            return Ok(vec![format!("{file} has no names")]);
        };
        upstream.insert(driver, provisioner);
    }
    let own = CSI_DRIVERS.iter().filter_map(|driver| Some((driver.name.to_owned(), driver.in_tree?.1.to_owned())));
    Ok(differences(&upstream, &own.collect()))
}

/// Compares the values of the codes that golang.org/x/sys has.
pub fn exit_codes() -> Result<Vec<String>> {
    let source = kubernetes("golang.org/x/sys", "windows/zerrors_windows.go")?;
    let status = EXIT_CODES.iter().filter(|row| row.name.starts_with("STATUS_"));
    let status = status.map(|row| (row.name.to_owned(), format!("{:#X}", row.code).replace("0X", "0x")));
    let win32 = WIN32_CODES.iter().map(|row| (row.name.to_owned(), row.code.to_string()));
    let own: Table = status.chain(win32).collect();
    let mut upstream = source.pairs(r"^\s*((?:STATUS|ERROR)_\w+) +(?:NTStatus|syscall\.Errno) += (\w+)$")?;
    upstream.retain(|name, _| own.contains_key(name));
    Ok(differences(&upstream, &own))
}

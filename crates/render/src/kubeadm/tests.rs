use proptest::prelude::*;
use winpool_api::TaintEffect;
use winpool_facts::{Build, ContainerdLine, Minor};

use super::*;
use crate::profile;

/// A template in the shape of those of Cluster API's provider for Azure.
fn azure() -> Value {
    json!({
        "format": "cloud-config",
        "files": [
            {"path": "c:/k/azure.json", "owner": "root:root", "permissions": "0644",
             "contentFrom": {"secret": {"name": "azure-json", "key": "worker-node-azure.json"}}},
            {"path": "C:/defender-exclude-calico.ps1", "permissions": "0744", "content": "Add-MpPreference"},
        ],
        "joinConfiguration": {
            "nodeRegistration": {
                "criSocket": "npipe:////./pipe/containerd-containerd",
                "name": "{{ ds.meta_data[\"local_hostname\"] }}",
                "kubeletExtraArgs": [
                    {"name": "cloud-provider", "value": "external"},
                    {"name": "register-with-taints", "value": "node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule"},
                ],
            },
        },
        "preKubeadmCommands": ["powershell C:/defender-exclude-calico.ps1"],
        "postKubeadmCommands": ["nssm set kubelet start SERVICE_AUTO_START", "powershell C:/k/RestartKubelet.ps1"],
        "users": [{"name": "capi", "groups": "Administrators", "sshAuthorizedKeys": ["ssh-ed25519 AAAA"]}],
    })
}

fn os_taint() -> Taint {
    Taint { key: "os".into(), value: "windows".into(), effect: TaintEffect::NoSchedule }
}

fn rendered(
    profile: Value,
    kubelet: u32,
    containerd: (u32, u32),
    base: Option<&Value>,
) -> Result<KubeadmTemplate, Vec<Problem>> {
    let profile = profile::check(&serde_json::from_value(profile).unwrap()).unwrap();
    let labels = BTreeMap::from([("agentpool".to_owned(), "web".to_owned())]);
    let runtime = ContainerRuntime::Containerd(ContainerdLine::new(containerd.0, containerd.1));
    template(&Machine {
        taints: &[os_taint()],
        node_labels: &labels,
        profile: &profile,
        variant: Variant { kubelet: Minor(kubelet), runtime, host: Build(20348) },
        base: base.map(|spec| Base { object: "KubeadmConfigTemplate base", spec }),
    })
}

fn spec(profile: Value, base: Option<&Value>) -> Value {
    rendered(profile, 36, (2, 2), base).unwrap().spec("web-1234")
}

fn paths(spec: &Value) -> Vec<&str> {
    spec["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect()
}

/// The content of the file whose path ends so.
fn content(spec: &Value, name: &str) -> String {
    let files = spec["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"].as_str().unwrap().ends_with(name)).unwrap();
    file["content"].as_str().unwrap().to_owned()
}

fn argument<'a>(spec: &'a Value, name: &str) -> Option<&'a str> {
    let arguments = spec["joinConfiguration"]["nodeRegistration"]["kubeletExtraArgs"].as_array()?;
    arguments.iter().find(|argument| argument["name"] == name)?["value"].as_str()
}

/// A list of up to three of these values.
fn some(values: Vec<Value>) -> impl Strategy<Value = Value> + Clone {
    prop::collection::vec(prop::sample::select(values), 0..4).prop_map(Value::from)
}

/// Templates of platform teams: what providers and people write, in any combination.
fn bases() -> impl Strategy<Value = Value> {
    let argument = |name: &str, value: &str| json!({"name": name, "value": value});
    let arguments = some(vec![
        argument("cloud-provider", "external"),
        argument("node-ip", "10.0.0.4"),
        argument("v", "2"),
        argument("v", "4"),
        argument("node-labels", "team=a"),
        argument("node-labels", "zone=1,team=a"),
        argument("register-with-taints", "node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule"),
        argument("register-with-taints", "team=a:NoExecute,os=windows:NoSchedule"),
    ]);
    let taints = some(vec![
        json!({"key": "team", "value": "a", "effect": "NoExecute"}),
        json!({"key": "gpu", "effect": "NoSchedule"}),
    ]);
    let files = some(vec![
        json!({"path": "C:/k/a.txt", "owner": "root:root", "content": "a"}),
        json!({"path": "c:\\k\\B.ps1", "encoding": "base64", "content": "YQ=="}),
        json!({"path": "c:/k/azure.json", "contentFrom": {"secret": {"name": "azure-json", "key": "x"}}}),
        json!({"path": "C:/Program Files/containerd/config.toml", "content": "version = 3\n[debug]\nlevel = \"info\"\n"}),
    ]);
    let commands =
        some(vec![json!("echo a"), json!("powershell C:/k/RestartKubelet.ps1"), json!("nssm restart kubelet")]);
    (arguments, taints, files, commands.clone(), commands, any::<bool>()).prop_map(
        |(arguments, taints, files, before, after, more)| {
            let mut base = json!({
                "files": files, "preKubeadmCommands": before, "postKubeadmCommands": after,
                "joinConfiguration": {"nodeRegistration": {"kubeletExtraArgs": arguments, "taints": taints, "imagePullPolicy": "Never"}},
            });
            if more {
                base["users"] = json!([{"name": "capi"}]);
                base["ntp"] = json!({"servers": ["a.example"]});
                base["joinConfiguration"]["skipPhases"] = json!(["preflight"]);
                base["joinConfiguration"]["patches"] = json!({"directory": "C:/patches"});
            }
            base
        },
    )
}

/// What of a value is not in another one, as paths: objects have all fields, lists all items.
fn lost(path: &str, base: &Value, spec: &Value) -> Vec<String> {
    match (base, spec) {
        (Value::Object(base), Value::Object(spec)) => {
            let field = |(key, value): (&String, &Value)| {
                lost(&format!("{path}.{key}"), value, spec.get(key).unwrap_or(&Value::Null))
            };
            base.iter().flat_map(field).collect()
        }
        (Value::Array(base), _) => {
            let all = spec.as_array().map(Vec::as_slice).unwrap_or_default();
            let missing = base.iter().filter(|item| !all.contains(item));
            missing.map(|item| format!("{path}: {item}")).collect()
        }
        (Value::Null, _) => Vec::new(),
        _ if base == spec => Vec::new(),
        _ => vec![format!("{path}: {base}")],
    }
}

/// The entries of the arguments that are lists, and the other arguments as they are.
fn with_entries(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let arguments = spec["joinConfiguration"]["nodeRegistration"]["kubeletExtraArgs"].take();
    let entries = |argument: &Value| {
        let (name, value) = (argument["name"].as_str().unwrap(), argument["value"].as_str().unwrap());
        let is_list = ["node-labels", "register-with-taints"].contains(&name);
        let values: Vec<_> = if is_list { value.split(',').collect() } else { vec![value] };
        values.into_iter().map(|value| json!([name, value])).collect::<Vec<_>>()
    };
    spec["arguments"] = arguments.as_array().into_iter().flatten().flat_map(entries).collect();
    // Merged with the settings of winpool: the test for containerd's main file.
    if let Some(files) = spec["files"].as_array_mut() {
        files.retain(|file| file["path"] != "C:/Program Files/containerd/config.toml");
    }
    spec
}

proptest! {
    #[test]
    fn nothing_of_any_base_is_lost_without_a_sentence(base in bases()) {
        match rendered(json!({}), 36, (2, 3), Some(&base)) {
            Ok(template) => {
                let mut lost = lost("spec", &with_entries(&base), &with_entries(&template.spec("web-1")));
                lost.retain(|entry| !omitted_taint(&base).is_some_and(|taint| entry.contains(taint)));
                prop_assert_eq!(lost, Vec::<String>::new());
            }
            Err(problems) => prop_assert!(problems.iter().all(|problem| problem.path.starts_with("KubeadmConfigTemplate base"))),
        }
    }
}

#[test]
fn nothing_of_the_base_is_lost() {
    let base = azure();
    let spec = spec(
        json!({"containerd": {"registryMirrors": [{"registry": "docker.io", "endpoints": ["https://m.example"]}]}}),
        Some(&base),
    );
    for key in ["format", "users"] {
        assert_eq!(spec[key], base[key], "{key}");
    }
    for key in ["files", "preKubeadmCommands", "postKubeadmCommands"] {
        let (before, after) = (base[key].as_array().unwrap(), spec[key].as_array().unwrap());
        assert_eq!(&after[..before.len()], before, "{key}");
    }
    let registration = &spec["joinConfiguration"]["nodeRegistration"];
    assert_eq!(registration["name"], base["joinConfiguration"]["nodeRegistration"]["name"]);
    assert_eq!(argument(&spec, "cloud-provider"), Some("external"));
    assert!(paths(&spec).contains(&"C:/Program Files/containerd/certs.d/docker.io/hosts.toml"));
}

fn patch_taints(spec: &Value) -> String {
    let patch: Value = serde_saphyr::from_str(&content(spec, "kubeletconfiguration0+merge.yaml")).unwrap();
    let text = |taint: &Value| {
        let field = |name: &str| taint[name].as_str().unwrap_or_default();
        format!("{}={}:{}", field("key"), field("value"), field("effect"))
    };
    patch["registerWithTaints"].as_array().unwrap().iter().map(text).collect::<Vec<_>>().join(",")
}

#[test]
fn a_node_registers_with_the_taints_of_the_base_of_the_pool_and_of_cluster_api() {
    const OWN: &str = "node.cluster.x-k8s.io/uninitialized=:NoSchedule";
    const CLOUD: &str = "node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule";
    let base = |arguments: Value, taints: Value| {
        let mut base = azure();
        let registration = &mut base["joinConfiguration"]["nodeRegistration"];
        registration["kubeletExtraArgs"] = arguments;
        registration["taints"] = taints;
        base
    };
    let team = json!([{"key": "team", "effect": "NoExecute"}]);
    let table = [
        (None, format!("os=windows:NoSchedule,{OWN}"), false),
        // The kubelet adds the taint of the cloud provider itself: two of them would be refused.
        (Some(azure()), format!("os=windows:NoSchedule,{OWN}"), true),
        (
            Some(base(json!([{"name": "register-with-taints", "value": CLOUD}]), team.clone())),
            format!("{CLOUD},os=windows:NoSchedule,team=:NoExecute,{OWN}"),
            true,
        ),
        (
            Some(base(json!([{"name": "cloud-provider", "value": "external"}]), team)),
            format!("team=:NoExecute,os=windows:NoSchedule,{OWN}"),
            false,
        ),
        (
            Some(base(
                json!([{"name": "register-with-taints", "value": format!("{OWN},os=windows:NoSchedule")}]),
                Value::Null,
            )),
            format!("{OWN},os=windows:NoSchedule"),
            true,
        ),
    ];
    // What cloud-init evaluates on the machine stays in the flag.
    let evaluated = base(json!([{"name": "register-with-taints", "value": "{{ taint }}"}]), Value::Null);
    let spec_of = spec(json!({}), Some(&evaluated));
    assert_eq!(argument(&spec_of, "register-with-taints"), Some("{{ taint }},os=windows:NoSchedule"));
    assert_eq!(patch_taints(&spec_of), format!("os=windows:NoSchedule,{OWN}"));
    for (base, expected, has_flag) in table {
        let spec = spec(json!({}), base.as_ref());
        assert_eq!(patch_taints(&spec), expected, "{base:?}");
        assert_eq!(argument(&spec, "register-with-taints"), has_flag.then_some(expected.as_str()), "{base:?}");
    }
}

#[test]
fn what_decides_the_registration_is_in_the_first_arguments() {
    let mut base = azure();
    let registration = &mut base["joinConfiguration"]["nodeRegistration"];
    registration["kubeletExtraArgs"] = json!([
        {"name": "cloud-provider", "value": "external"},
        {"name": "node-ip", "value": "10.0.0.4"},
        {"name": "v", "value": "2"},
        {"name": "node-labels", "value": "a=b"},
    ]);
    let first = |base: &Value| -> Vec<String> {
        let script = content(&spec(json!({}), Some(base)), "containerd.ps1");
        let lines = script.lines().map(str::trim).filter(|line| line.starts_with("'--"));
        lines.map(|line| line.trim_matches('\'').to_owned()).collect()
    };
    let class = "--windows-priorityclass=ABOVE_NORMAL_PRIORITY_CLASS";
    let labels = "--node-labels=a=b,agentpool=web";
    // The name of the base is evaluated on the machine.
    assert_eq!(first(&base), [labels, "--cloud-provider=external", "--node-ip=10.0.0.4", class]);
    base["joinConfiguration"]["nodeRegistration"]["name"] = json!("win-1");
    assert_eq!(
        first(&base),
        [labels, "--cloud-provider=external", "--hostname-override=win-1", "--node-ip=10.0.0.4", class]
    );
}

#[test]
fn the_patch_removes_the_fields_of_the_cluster_that_stop_a_windows_kubelet() {
    // What kubeadm stores for a cluster with Linux nodes, and what its own program made of a patch with null: nothing.
    let cluster = json!({
        "kind": "KubeletConfiguration", "cgroupDriver": "systemd", "cgroupRoot": "/", "systemCgroups": "/system.slice",
        "singleProcessOOMKill": false, "userNamespaces": {"idsPerPod": 65536}, "defaultPodSysctls": {"net.core.somaxconn": "1024"},
        "enforceNodeAllocatable": ["pods"], "clusterDNS": ["10.96.0.10"],
    });
    let removed = |minor: u32| -> Vec<String> {
        let spec = rendered(json!({}), minor, (2, 2), None).unwrap().spec("s");
        let patch: Value = serde_saphyr::from_str(&content(&spec, "kubeletconfiguration0+merge.yaml")).unwrap();
        let mut merged = cluster.clone();
        json_patch::merge(&mut merged, &patch);
        assert_eq!((&merged["enforceNodeAllocatable"], &merged["clusterDNS"]), (&json!([]), &cluster["clusterDNS"]));
        assert!(merged.as_object().unwrap().values().all(|value| !value.is_null()), "{merged}");
        let fields = cluster.as_object().unwrap().keys();
        fields.filter(|field| merged.get(field.as_str()).is_none()).cloned().collect()
    };
    let (oom, users, sysctls) = ("singleProcessOOMKill", "userNamespaces", "defaultPodSysctls");
    for (minors, mut expected) in [
        (30..=31, vec!["systemCgroups"]),
        (32..=32, vec!["systemCgroups", oom]),
        (33..=36, vec!["systemCgroups", oom, users]),
        (37..=38, vec!["systemCgroups", oom, users, sysctls]),
    ] {
        expected.sort_unstable();
        for minor in minors {
            let mut found = removed(minor);
            found.sort();
            assert_eq!(found, expected, "1.{minor}");
        }
    }
}

#[test]
fn a_template_that_restarts_the_kubelet_itself_gets_no_second_restart() {
    let spec = spec(json!({}), Some(&azure()));
    assert_eq!(spec["postKubeadmCommands"], azure()["postKubeadmCommands"]);
    assert!(!paths(&spec).contains(&"C:/k/winpool/kubelet.ps1"));
}

#[test]
fn the_patch_is_written_to_the_directory_of_the_base() {
    let mut base = azure();
    base["joinConfiguration"]["patches"] = json!({"directory": "C:\\patches\\"});
    let spec = spec(json!({}), Some(&base));
    assert_eq!(spec["joinConfiguration"]["patches"]["directory"], "C:\\patches");
    assert!(paths(&spec).contains(&"C:\\patches/kubeletconfiguration0+merge.yaml"));
}

#[test]
fn large_files_are_in_the_secret() {
    let settings: Vec<String> = (0..600).map(|number| format!("\"key{number}{}\" = \"5s\"", "x".repeat(20))).collect();
    let extra = format!("[timeouts]\n{}\n", settings.join("\n"));
    let template = rendered(json!({"containerd": {"extraConfig": extra}}), 36, (2, 2), None).unwrap();
    let spec = template.spec("web-1234");
    let reference =
        json!({"secret": {"name": "web-1234-files", "key": "Program-Files-containerd-conf.d-50-winpool.toml"}});
    assert_eq!(spec["files"][1]["contentFrom"], reference);
    assert_eq!(template.secret.keys().collect::<Vec<_>>(), ["Program-Files-containerd-conf.d-50-winpool.toml"]);
}

#[test]
fn containerd_1_gets_its_settings_in_the_main_file() {
    let mut base = azure();
    let main = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".cni]\nbin_dir = \"C:/opt/cni/bin\"\n";
    base["files"]
        .as_array_mut()
        .unwrap()
        .push(json!({"path": "C:\\Program Files\\containerd\\config.toml", "content": main}));
    let merged = rendered(json!({}), 34, (1, 7), Some(&base)).unwrap().spec("s");
    let text = merged["files"][2]["content"].as_str().unwrap();
    let file: toml::Table = text.parse().unwrap();
    let cri = &file["plugins"]["io.containerd.grpc.v1.cri"];
    assert_eq!(cri["cni"]["bin_dir"].as_str(), Some("C:/opt/cni/bin"));
    assert!(cri["sandbox_image"].as_str().unwrap().contains("pause"));

    let cni = json!({"containerd": {"cni": {"binDir": "C:\\opt\\cni\\bin", "confDir": "C:\\etc\\cni\\net.d"}}});
    let whole = rendered(cni, 34, (1, 7), Some(&azure())).unwrap().spec("s");
    assert!(paths(&whole).contains(&"C:/Program Files/containerd/config.toml"));
}

#[test]
fn what_cannot_be_added_to_is_named() {
    const REGISTRATION: &str = "/joinConfiguration/nodeRegistration";
    let with = |path: &str, field: &str, value: Value| {
        let mut base = azure();
        base.pointer_mut(path).unwrap()[field] = value;
        base
    };
    let with_argument =
        |name: &str, value: &str| with(REGISTRATION, "kubeletExtraArgs", json!([{"name": name, "value": value}]));
    let other_taint = json!([{"key": "os", "value": "Windows", "effect": "NoSchedule"}]);
    let table = [
        (with("", "format", json!("ignition")), "spec.template.spec.format: the format is ignition"),
        (
            with("", "joinConfiguration", Value::Null),
            "spec.template.spec.joinConfiguration: there is no joinConfiguration",
        ),
        (
            with(REGISTRATION, "kubeletExtraArgs", json!({"v": "2"})),
            "nodeRegistration.kubeletExtraArgs: the arguments are not a list",
        ),
        (
            with_argument("windows-priorityclass", "NORMAL_PRIORITY_CLASS"),
            "nodeRegistration.kubeletExtraArgs: the kubelet argument windows-priorityclass is \"NORMAL_PRIORITY_CLASS\", and the \
             profile sets \"ABOVE_NORMAL_PRIORITY_CLASS\"",
        ),
        (
            with_argument("pod-infra-container-image", "pause"),
            "nodeRegistration.kubeletExtraArgs: kubelet 1.36 does not know the argument pod-infra-container-image",
        ),
        (
            with_argument("node-labels", "agentpool=db"),
            "nodeRegistration.kubeletExtraArgs: node-labels has agentpool=db",
        ),
        (
            with(REGISTRATION, "taints", other_taint),
            "nodeRegistration.taints: the template has the taint os=Windows:NoSchedule, and the pool os=windows:NoSchedule",
        ),
        (
            with("/files/0", "path", json!("C:/k/winpool/containerd.ps1")),
            "spec.template.spec.files[0].path: the template has the file C:/k/winpool/containerd.ps1",
        ),
    ];
    let assert_named = |rendered: Result<KubeadmTemplate, Vec<Problem>>, expected: &str| {
        let problems = rendered.unwrap_err();
        assert!(problems.iter().any(|problem| problem.to_string().contains(expected)), "{expected}\n{problems:?}");
    };
    for (base, expected) in table {
        assert_named(rendered(json!({}), 36, (2, 2), Some(&base)), expected);
    }
    for (kubelet, containerd, expected) in [
        (29, (1, 7), "status.nodeInfo.kubeletVersion: kubelet 1.29 is older than 1.30"),
        (34, (1, 6), "status.nodeInfo.containerRuntimeVersion: containerd 1.6.0 is older than 1.7.0"),
        (34, (1, 7), "spec.containerd.cni: containerd 1.7.0 needs a complete configuration file"),
    ] {
        assert_named(rendered(json!({}), kubelet, containerd, Some(&azure())), expected);
    }
}

#[test]
fn no_value_of_a_user_becomes_code() {
    let script = scripts::containerd(
        &[("HTTP_PROXY", "http://p/$(calc)`n;x"), ("NO_PROXY", "it's")],
        &["--node-labels=a=b".into()],
    );
    let environment = "$environment = @(\r\n  'HTTP_PROXY=http://p/$(calc)`n;x'\r\n  'NO_PROXY=it''s'\r\n)\r\n";
    let arguments = "$arguments = @(\r\n  '--node-labels=a=b'\r\n)\r\n";
    assert!(script.contains(environment) && script.contains(arguments), "{script}");
    let empty = scripts::containerd(&[], &[]);
    assert!(empty.contains("$environment = @()\r\n") && empty.contains("$arguments = @()\r\n"), "{empty}");
}

#[test]
fn an_argument_that_overrides_the_profile_is_refused() {
    let mut base = azure();
    let arguments = &mut base["joinConfiguration"]["nodeRegistration"]["kubeletExtraArgs"];
    arguments.as_array_mut().unwrap().push(json!({"name": "max-pods", "value": "50"}));
    let problems = rendered(json!({}), 36, (2, 2), Some(&base)).unwrap_err();
    assert_eq!(problems[0].wrong, "the kubelet argument max-pods overrides the setting of the profile");
    base["joinConfiguration"]["nodeRegistration"]["kubeletExtraArgs"] = json!([{"name": "registry-qps", "value": "2"}]);
    let problems =
        rendered(json!({"kubelet": {"extra": {"registryPullQPS": 9}}}), 36, (2, 2), Some(&base)).unwrap_err();
    assert_eq!(problems[0].wrong, "the kubelet argument registry-qps overrides the setting of the profile");
    // The verbosity is only a setting of the profile if the profile has it.
    base["joinConfiguration"]["nodeRegistration"]["kubeletExtraArgs"] = json!([{"name": "v", "value": "2"}]);
    assert!(rendered(json!({}), 36, (2, 2), Some(&base)).is_ok());
    assert!(rendered(json!({"kubelet": {"logging": {"verbosity": 4}}}), 36, (2, 2), Some(&base)).is_err());
}

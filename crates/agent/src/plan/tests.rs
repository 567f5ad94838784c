use super::*;
use crate::{
    change_plan::{FileEdit, HealthEndpoint, Restart},
    tests::{
        fake::{FakeHost, data, output},
        layouts::{self, CONTAINERD_CONFIG, EKS_CONFIG, KUBEADM_CONFIG, RKE2},
    },
};

const KUBELET: (&str, &str) =
    ("kubelet.yaml", "# layer\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 110\n");
const ARGS: (&str, &str) = ("kubelet.args", "--windows-priorityclass=ABOVE_NORMAL_PRIORITY_CLASS\n");
const CONTAINERD: (&str, &str) = (
    "containerd.toml",
    "# layer\nversion = 3\n[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = 'pause:2'\n",
);
const CONTAINERD_1: (&str, &str) =
    ("containerd.toml", "# layer\nversion = 2\n[plugins.'io.containerd.grpc.v1.cri']\nsandbox_image = 'pause:2'\n");
const MIRRORS: (&str, &str) = (
    "containerd.toml",
    "version = 3\n[plugins.'io.containerd.cri.v1.images'.registry]\nconfig_path = 'C:\\Program Files\\containerd\\certs.d'\n",
);
const HOSTS: (&str, &str) = ("hosts.docker.io.toml", "server = 'https://registry-1.docker.io'\n");
const PROXY: (&str, &str) = ("kube-proxy.yaml", "kind: KubeProxyConfiguration\nwinkernel:\n  enableDSR: true\n");
const ENVIRONMENT: (&str, &str) = ("environment", "HTTPS_PROXY=http://proxy:3128\n");

fn planned(node: &FakeHost, files: &[(&str, &str)]) -> ChangePlan {
    plan(node, &data(files)).unwrap_or_else(|refusal| panic!("{}", refusal.message)).1
}

/// Whether a plan changes nothing.
fn is_unchanged(plan: &ChangePlan) -> bool {
    let ChangePlan { kubelet, kubeconfig, .. } = plan.clone();
    *plan == ChangePlan { kubelet, kubeconfig, ..ChangePlan::default() }
}

fn refused(node: &FakeHost, files: &[(&str, &str)]) -> (RefusalReason, String) {
    let refusal = plan(node, &data(files)).map(|(_, plan)| plan).expect_err("a refusal");
    assert!(node.0.borrow().written.is_empty());
    (refusal.reason, refusal.message)
}

/// The node after a plan.
fn apply(node: FakeHost, plan: &ChangePlan) -> FakeHost {
    for edit in &plan.files {
        let files = &mut node.0.borrow_mut().files;
        assert_eq!(files.get(&edit.path), edit.before.as_ref(), "{}", edit.path);
        match &edit.after {
            Some(content) => drop(files.insert(edit.path.clone(), content.clone())),
            None => drop(files.remove(&edit.path)),
        }
    }
    for edit in &plan.services {
        let services = &mut node.0.borrow_mut().services;
        let service = services.iter_mut().find(|service| service.definition == edit.before).unwrap();
        service.definition = edit.after.clone();
    }
    node
}

/// The node with a configuration.
fn applied(node: FakeHost, files: &[(&str, &str)]) -> FakeHost {
    let plan = planned(&node, files);
    apply(node, &plan)
}

/// The files of a plan without the record.
fn paths(plan: &ChangePlan) -> Vec<&str> {
    plan.files.iter().map(|edit| edit.path.as_str()).filter(|path| *path != RECORD).collect()
}

fn after(plan: &ChangePlan, path: &str) -> String {
    let edit: &FileEdit = plan.files.iter().find(|edit| edit.path == path).unwrap_or_else(|| panic!("{path}"));
    String::from_utf8(edit.after.clone().unwrap()).unwrap()
}

fn restarted(plan: &ChangePlan) -> Vec<(&str, Option<u16>)> {
    plan.restarts
        .iter()
        .map(|restart| (restart.service.as_str(), restart.health.as_ref().map(|health| health.port)))
        .collect()
}

#[test]
fn each_layout_gets_the_configuration_in_its_own_files() {
    let drop_in = r"C:\Program Files\containerd\conf.d\50-winpool.toml";
    let rke2 = (
        r"C:\var\lib\rancher\rke2\agent\etc\containerd\config-v3.toml.d\50-winpool.toml",
        r"C:\var\lib\rancher\rke2\agent\etc\kubelet.conf.d\50-winpool.conf",
        r"C:\etc\rancher\rke2\config.yaml.d\50-winpool.yaml",
    );
    let plain = (
        r"C:\Süd Knoten\containerd.toml",
        r"C:\Süd Knoten\conf.d\50-winpool.toml",
        r"C:\Süd Knoten\kubelet.d\50-winpool.conf",
    );
    let table = [
        (layouts::kubeadm(), CONTAINERD, vec![drop_in, KUBEADM_CONFIG], 1),
        (layouts::nssm(), CONTAINERD, vec![drop_in, KUBEADM_CONFIG, r"C:\var\lib\kubelet\kubeadm-flags.env"], 0),
        (layouts::rke2(), CONTAINERD, vec![rke2.0, rke2.1, rke2.2], 0),
        (layouts::eks(""), CONTAINERD_1, vec![CONTAINERD_CONFIG, EKS_CONFIG], 1),
        (layouts::plain(), CONTAINERD, vec![plain.0, plain.1, plain.2], 1),
    ];
    for (node, containerd, files, services) in table {
        let configuration = [KUBELET, ARGS, containerd];
        let plan = planned(&node, &configuration);
        assert_eq!(paths(&plan), files);
        assert_eq!(plan.services.len(), services, "{files:?}");
        let again = planned(&apply(node, &plan), &configuration);
        assert!(is_unchanged(&again), "planning again changes nothing: {files:?} {again:?}");
        assert_eq!(again.kubelet["maxPods"], 110, "the kubelet has to use it");
    }
}

#[test]
fn flags_are_set_where_the_layout_has_them() {
    let plan = planned(&layouts::kubeadm(), &[ARGS]);
    let [edit] = &plan.services[..] else { panic!("{plan:?}") };
    let expected = format!("{} --windows-priorityclass=ABOVE_NORMAL_PRIORITY_CLASS", edit.before.command);
    assert_eq!(edit.after.command, expected);
    assert_eq!(paths(&plan), [""; 0]);
    let plan = planned(&layouts::nssm(), &[ARGS]);
    let text = "KUBELET_KUBEADM_ARGS=\"--node-labels=a=b --windows-priorityclass=ABOVE_NORMAL_PRIORITY_CLASS\"\r\n";
    assert_eq!(after(&plan, r"C:\var\lib\kubelet\kubeadm-flags.env"), text);
    let plan = planned(&layouts::rke2(), &[ARGS]);
    let text = after(&plan, r"C:\etc\rancher\rke2\config.yaml.d\50-winpool.yaml");
    assert!(text.ends_with("\"kubelet-arg+\": [\"windows-priorityclass=ABOVE_NORMAL_PRIORITY_CLASS\"]\n"), "{text}");
}

#[test]
fn the_empty_configuration_restores_the_node() {
    let all = [KUBELET, ARGS, CONTAINERD, MIRRORS, HOSTS, ENVIRONMENT];
    let hosts = (r"C:\Program Files\containerd\certs.d\docker.io\hosts.toml", "# of the site\n");
    let with_hosts = layouts::kubeadm();
    with_hosts.0.borrow_mut().files.insert(hosts.0.to_owned(), hosts.1.as_bytes().to_vec());
    let no_main = layouts::kubeadm();
    no_main.0.borrow_mut().files.remove(CONTAINERD_CONFIG);
    let table = [
        (layouts::kubeadm(), vec![KUBELET, ARGS, CONTAINERD, ENVIRONMENT]),
        (with_hosts, vec![MIRRORS, HOSTS]),
        (no_main, vec![CONTAINERD]),
        (layouts::nssm(), all.to_vec()),
        (layouts::rke2(), vec![KUBELET, ARGS, CONTAINERD, ENVIRONMENT]),
        (layouts::eks("--max-pods=20"), vec![KUBELET, ARGS, CONTAINERD_1, ENVIRONMENT]),
        (layouts::plain(), vec![KUBELET, ARGS, CONTAINERD, PROXY, ENVIRONMENT]),
    ];
    for (node, configuration) in table {
        let (services, files) = (node.services().unwrap(), node.0.borrow().files.clone());
        let plan = planned(&node, &configuration);
        let applied = apply(node, &plan);
        assert_ne!((&applied.services().unwrap(), &applied.0.borrow().files), (&services, &files));
        let plan = planned(&applied, &[]);
        assert!(!plan.restarts.is_empty() || configuration == [MIRRORS, HOSTS]);
        let restored = apply(applied, &plan);
        assert_eq!(restored.services().unwrap(), services);
        assert_eq!(restored.0.borrow().files, files);
    }
}

#[test]
fn a_setting_that_a_newer_configuration_does_not_have_gets_its_former_value() {
    let node = layouts::kubeadm();
    let own = layouts::KUBEADM_YAML.to_owned() + "maxPods: 50 # ours\n";
    node.put(KUBEADM_CONFIG, own.clone().into_bytes());
    let first = ("kubelet.yaml", "maxPods: 110\nfeatureGates:\n  A: true\n  B: true\n");
    let node = applied(node, &[first, ("kubelet.args", "--windows-priorityclass=HIGH_PRIORITY_CLASS\n")]);
    let second = ("kubelet.yaml", "featureGates:\n  B: false\n");
    let node = applied(node, &[second, ("kubelet.args", "--windows-priorityclass=NORMAL_PRIORITY_CLASS\n")]);
    assert_eq!(node.text(KUBEADM_CONFIG), own.clone() + "featureGates:\n  B: false\n");
    assert!(
        node.0.borrow_mut().services[0].definition.command.ends_with(" --windows-priorityclass=NORMAL_PRIORITY_CLASS"),
        "{}",
        node.0.borrow_mut().services[0].definition.command
    );
    // Something else sets a value that the configuration had set.
    let touched = node.text(KUBEADM_CONFIG).replace("B: false", "B: true");
    node.put(KUBEADM_CONFIG, touched.clone().into_bytes());
    let node = applied(node, &[]);
    assert_eq!(node.text(KUBEADM_CONFIG), touched);
    assert!(!node.0.borrow_mut().services[0].definition.command.contains("--windows-priorityclass="));
    assert!(!node.0.borrow().files.contains_key(RECORD));
}

#[test]
fn fields_that_stop_a_windows_kubelet_are_removed_from_the_main_file_and_restored() {
    // As kubeadm writes the configuration of a cluster with Linux nodes.
    let cluster = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupRoot: /\nsystemCgroups: /system.slice # of systemd\n\
                   singleProcessOOMKill: false\nuserNamespaces:\n  idsPerPod: 65536\nmaxPods: 50\n";
    let without = |fields: &[&str]| -> String {
        let kept = cluster.split_inclusive('\n').filter(|line| !fields.iter().any(|field| line.contains(field)));
        kept.collect()
    };
    let plain = r"C:\Süd Knoten\kubelet.yaml";
    let table = [
        (layouts::kubeadm(), KUBEADM_CONFIG, "1.31.0", without(&["systemCgroups"])),
        (layouts::kubeadm(), KUBEADM_CONFIG, "1.32.0", without(&["systemCgroups", "singleProcess"])),
        (
            layouts::kubeadm(),
            KUBEADM_CONFIG,
            "1.36.2",
            without(&["systemCgroups", "singleProcess", "userN", "idsPerPod"]),
        ),
        (layouts::plain(), plain, "1.36.2", without(&["systemCgroups", "singleProcess", "userN", "idsPerPod"])),
    ];
    for (node, path, version, expected) in table {
        let node = node.kubelet(version);
        node.put(path, cluster.as_bytes().to_vec());
        let plan = planned(&node, &[KUBELET]);
        assert_eq!(after(&plan, path).replace("maxPods: 110", "maxPods: 50"), expected, "{version} {path}");
        assert!(restarted(&plan).iter().any(|(service, _)| service.eq_ignore_ascii_case("kubelet")), "{plan:?}");
        let node = apply(node, &plan);
        assert!(is_unchanged(&planned(&node, &[KUBELET])), "{version} {path}");
        // kubeadm writes it again at an upgrade.
        node.put(path, cluster.as_bytes().to_vec());
        let node = applied(node, &[KUBELET]);
        let node = applied(node, &[]);
        assert_eq!(node.text(path), cluster, "{version} {path}");
    }
}

#[test]
fn other_comments_in_a_drop_in_restart_nothing() {
    let node = applied(layouts::plain(), &[KUBELET]);
    let other = KUBELET.1.replace("# layer", "# another comment");
    let plan = planned(&node, &[("kubelet.yaml", &other)]);
    assert_eq!(after(&plan, r"C:\Süd Knoten\kubelet.d\50-winpool.conf"), other);
    assert_eq!(restarted(&plan), []);
    let node = apply(node, &plan);
    assert!(!planned(&node, &[]).restarts.is_empty(), "removing the drop-in restarts the kubelet");
}

#[test]
fn flags_that_override_a_field_of_the_configuration_are_removed() {
    let node = layouts::eks("--max-pods=20 --cluster-dns=10.1.0.10");
    let plan = planned(&node, &[KUBELET]);
    let [edit] = &plan.services[..] else { panic!("{plan:?}") };
    assert_eq!(edit.after.command, edit.before.command.replace(" --max-pods=20", ""));
    let again = planned(&apply(node, &plan), &[KUBELET]);
    assert!(is_unchanged(&again), "{again:?}");
    let node = layouts::nssm();
    let flags = b"KUBELET_KUBEADM_ARGS=\"--max-pods=20 --node-labels=a=b\"\n".to_vec();
    node.put(r"C:\var\lib\kubelet\kubeadm-flags.env", flags);
    let plan = planned(&node, &[KUBELET]);
    let text = after(&plan, r"C:\var\lib\kubelet\kubeadm-flags.env");
    assert_eq!(text, "KUBELET_KUBEADM_ARGS=\"--node-labels=a=b\"\n");
}

#[test]
fn files_keep_their_encoding_and_what_the_configuration_does_not_set() {
    let marked = format!("\u{feff}# ümlaut\r\n{}", layouts::KUBEADM_YAML.replace('\n', "\r\n"));
    let node = layouts::kubeadm();
    node.put(KUBEADM_CONFIG, marked.clone().into_bytes());
    let plan = planned(&node, &[KUBELET]);
    assert_eq!(after(&plan, KUBEADM_CONFIG), marked + "maxPods: 110\r\n");
    let plan = planned(&layouts::eks(""), &[KUBELET]);
    let json: serde_json::Value = serde_json::from_str(&after(&plan, EKS_CONFIG)).unwrap();
    assert_eq!((&json["maxPods"], &json["clusterDNS"][0]), (&110.into(), &"10.100.0.10".into()));
}

#[test]
fn containerd_1_is_configured_in_its_main_file_because_a_drop_in_would_replace_its_plugins() {
    let node = layouts::kubeadm().containerd("1.7.27");
    node.put(CONTAINERD_CONFIG, layouts::containerd_toml(2).into_bytes());
    let plan = planned(&node, &[CONTAINERD_1]);
    let text = after(&plan, CONTAINERD_CONFIG);
    assert!(text.starts_with(layouts::containerd_toml(2).split("[plugins]").next().unwrap()), "{text}");
    assert!(text.contains("bin_dir = \"C:/opt/cni/bin\"") && text.contains("sandbox_image = \"pause:2\""), "{text}");
    node.0.borrow_mut().files.remove(CONTAINERD_CONFIG);
    let plan = planned(&node, &[CONTAINERD_1]);
    assert_eq!(after(&plan, CONTAINERD_CONFIG), CONTAINERD_1.1);
}

#[test]
fn the_directories_of_cni_are_those_of_the_node_or_of_its_layout() {
    let layer = |text: &str| format!("version = 3\n[plugins.'io.containerd.cri.v1.runtime'.cni]\n{text}\n");
    let own = layouts::plain();
    let main = format!("version = 3\n{}", layer("bin_dir = 'D:/cni/bin'").trim_start_matches("version = 3\n"));
    own.put(r"C:\Süd Knoten\containerd.toml", main.into_bytes());
    let imported = layouts::kubeadm();
    imported.put(r"C:\Program Files\containerd\conf.d\10-site.toml", layer("conf_dir = 'E:\\conf'").into_bytes());
    imported.put(r"C:\Program Files\containerd\conf.d\50-winpool.toml", layer("conf_dir = 'F:\\conf'").into_bytes());
    let table = [
        (&layouts::kubeadm(), r"bin_dir = 'c:\OPT\cni\bin\'", None),
        (&layouts::kubeadm(), r"bin_dirs = ['C:\opt\cni\bin']", None),
        (&layouts::kubeadm(), r"conf_dir = 'C:\etc\cni\net.d'", None),
        (&layouts::kubeadm(), r"conf_dir = 'C:\Program Files\containerd\cni\conf'", None),
        (
            &layouts::kubeadm(),
            r"bin_dirs = ['C:\opt\cni\bin', 'C:\Users\Public']",
            Some(r"is C:\Users\Public, and that of the node is"),
        ),
        (&layouts::kubeadm(), r"bin_dir = 'C:\opt\cni\bin\..\x'", Some("that of the node is")),
        (&own, r"bin_dir = 'D:\cni\bin'", None),
        (&own, r"bin_dir = 'C:\opt\cni\bin'", Some("that of the node is D:/cni/bin")),
        (&own, r"conf_dir = 'C:\etc\cni\net.d'", Some("that of the node is")),
        (&imported, r"conf_dir = 'E:\conf'", None),
        (&imported, r"conf_dir = 'F:\conf'", Some("that of the node is E:\\conf or")),
        (&layouts::kubeadm(), r"bin_dir = '\\server\bin'", Some("which is")),
    ];
    for (node, text, wrong) in table {
        let config = data(&[("containerd.toml", &layer(text))]);
        match (plan(node, &config), wrong) {
            (Ok(_), None) => {}
            (Err(refusal), Some(wrong)) => assert!(refusal.message.contains(wrong), "{text}: {}", refusal.message),
            (result, _) => panic!("{text}: {:?}", result.err()),
        }
    }
}

#[test]
fn a_main_file_without_imports_is_made_to_import_the_directory_of_drop_ins() {
    let plan = planned(&layouts::plain(), &[CONTAINERD]);
    let main = "version = 3 # ours\r\nimports = ['C:\\Süd Knoten\\conf.d\\*.toml']\r\n";
    assert_eq!(after(&plan, r"C:\Süd Knoten\containerd.toml"), main);
    assert_eq!(after(&plan, r"C:\Süd Knoten\conf.d\50-winpool.toml"), CONTAINERD.1);
    let node = layouts::kubeadm();
    node.0.borrow_mut().files.remove(CONTAINERD_CONFIG);
    let plan = planned(&node, &[CONTAINERD]);
    let main = "version = 3\nimports = ['C:\\Program Files\\containerd\\conf.d\\*.toml']\n";
    assert_eq!(after(&plan, CONTAINERD_CONFIG), main);
}

#[test]
fn the_files_of_registries_are_below_config_path_and_restart_nothing() {
    let node = layouts::kubeadm();
    let plan = planned(&node, &[MIRRORS, HOSTS]);
    let node = apply(node, &plan);
    let path = r"C:\Program Files\containerd\certs.d\docker.io\hosts.toml";
    assert_eq!(node.text(path), HOSTS.1);
    let plan = planned(&node, &[MIRRORS, ("hosts.docker.io.toml", "server = 'https://mirror.example'\n")]);
    assert_eq!((paths(&plan), restarted(&plan)), (vec![path], vec![]));
}

#[test]
fn services_are_restarted_after_those_on_which_they_depend() {
    let kubelet = ("Kubelet", Some(10300));
    let proxy = ("kube-proxy", Some(10300));
    let all = vec![("Containerd", None), kubelet, proxy, ("monitor", None)];
    let table = [
        (vec![KUBELET], vec![kubelet, proxy]),
        (vec![ARGS], vec![kubelet, proxy]),
        (vec![CONTAINERD], all.clone()),
        (vec![PROXY], vec![proxy]),
        (vec![ENVIRONMENT], all),
    ];
    for (files, expected) in table {
        assert_eq!(restarted(&planned(&layouts::plain(), &files)), expected, "{files:?}");
    }
    let stopped = layouts::plain();
    ["monitor", "kube-proxy"].into_iter().for_each(|name| stopped.stop(name).unwrap());
    let plan = planned(&stopped, &[CONTAINERD]);
    assert_eq!(restarted(&plan), [("Containerd", None), kubelet], "a service that does not run is not started");
}

#[test]
fn the_health_endpoint_is_that_of_the_merged_configuration() {
    let table = [
        ("", Some(10248)),
        ("healthzPort: 10300\n", Some(10300)),
        ("healthzPort: 0\n", None),
        ("healthzBindAddress: 0.0.0.0\n", Some(10248)),
        ("healthzBindAddress: 10.0.0.7\n", None),
    ];
    for (yaml, port) in table {
        let node = layouts::kubeadm();
        node.put(KUBEADM_CONFIG, format!("kind: KubeletConfiguration\n{yaml}").into_bytes());
        assert_eq!(restarted(&planned(&node, &[KUBELET])), [("kubelet", port)], "{yaml}");
    }
    let health = HealthEndpoint { port: 10400, path: "/healthz".to_owned() };
    let layer = ("kubelet.yaml", "healthzPort: 10400\n");
    for node in [layouts::plain(), layouts::kubeadm(), layouts::eks(""), layouts::rke2()] {
        let restarts = planned(&node, &[layer]).restarts;
        let with_health = restarts.iter().find(|restart| restart.health.as_ref() == Some(&health));
        let service = with_health.map(|Restart { service, .. }| service.to_lowercase());
        assert!(["kubelet", "rke2"].contains(&service.unwrap().as_str()), "{restarts:?}");
    }
    let node = layouts::kubeadm();
    node.0.borrow_mut().services[0].definition.command += " --healthz-port=10500";
    assert_eq!(restarted(&planned(&node, &[layer])), [("kubelet", Some(10500))], "a flag has precedence");
}

#[test]
fn the_environment_is_set_on_all_three_services() {
    let node = layouts::plain();
    node.0.borrow_mut().services[1].definition.environment =
        vec!["A=1".to_owned(), "https_proxy=http://old".to_owned()];
    let plan = planned(&node, &[ENVIRONMENT, ARGS]);
    let environment = |name: &str| {
        let edit = plan.services.iter().find(|edit| edit.after.name == name).unwrap();
        edit.after.environment.clone()
    };
    assert_eq!(environment("Kubelet"), ["A=1", "HTTPS_PROXY=http://proxy:3128"]);
    assert_eq!(environment("Containerd"), ["HTTPS_PROXY=http://proxy:3128"]);
    assert_eq!(environment("kube-proxy"), ["HTTPS_PROXY=http://proxy:3128"]);
    assert_eq!(plan.services.len(), 3, "one edit per service, with flags and environment");
    let plan = planned(&layouts::rke2(), &[ENVIRONMENT]);
    assert_eq!((plan.services.len(), restarted(&plan)), (1, vec![("rke2", Some(10248))]));
    assert_eq!(plan.restarts[0].children, ["containerd.exe", "kube-proxy.exe"]);
}

#[test]
fn kube_proxy_is_configured_in_the_file_of_its_flag_or_left_as_it_is_while_the_other_files_are_applied() {
    let plan = planned(&layouts::plain(), &[PROXY]);
    let text = "kind: KubeProxyConfiguration\nhealthzBindAddress: 0.0.0.0:10300\nwinkernel:\n  enableDSR: true\n";
    assert_eq!(after(&plan, r"C:\Süd Knoten\proxy.yaml"), text);
    for (node, text) in
        [(layouts::eks(""), "has no flag --config"), (layouts::kubeadm(), "is not a service of this node")]
    {
        let plan = planned(&node, &[PROXY, ARGS]);
        let omitted = plan.omitted.as_deref().unwrap_or_default();
        assert!(omitted.starts_with("kube-proxy.yaml is not applied, because ") && omitted.contains(text), "{omitted}");
        assert!(!plan.services.is_empty(), "the other files are applied");
    }
}

#[test]
fn a_kube_proxy_that_would_not_start_or_is_too_far_from_the_kubelet_is_refused() {
    let overlay = ("kube-proxy.yaml", "kind: KubeProxyConfiguration\nfeatureGates:\n  WinOverlay: false\n");
    let table = [
        ("1.33.4", overlay, None),
        ("1.34.0", overlay, Some("kube-proxy.yaml: the gate is locked to true in kube-proxy 1.34")),
        ("1.34.0", PROXY, None),
        ("1.32.9", PROXY, Some("kube-proxy 1.32 may not run beside kubelet 1.36")),
        ("1.40.0", PROXY, Some("kube-proxy 1.40 may not run beside kubelet 1.36")),
        ("no version", overlay, None),
    ];
    for (version, file, expected) in table {
        let mut node = layouts::plain();
        let output = output(0, &format!("Kubernetes v{version}\r\n"), "");
        node.0.get_mut().programs.push(("kube-proxy.exe", "--version", output));
        match expected {
            Some(part) => {
                let (reason, message) = refused(&node, &[file]);
                assert!(reason == RefusalReason::NotAllowed && message.contains(part), "{version}: {message}");
            }
            None => assert_eq!(paths(&planned(&node, &[file])), [r"C:\Süd Knoten\proxy.yaml"], "{version}"),
        }
    }
}

#[test]
fn a_configuration_that_does_not_fit_the_files_of_the_node_is_refused() {
    use RefusalReason::{NotAllowed, PreflightFailed, Unreadable, UnsupportedRuntime};
    let with = |node: FakeHost, path: &str, content: &[u8]| {
        node.put(path, content);
        node
    };
    let script = |flag: &str| {
        let text = layouts::START_SCRIPT.replace("--cert-dir", &format!("{flag} --cert-dir"));
        with(layouts::nssm(), r"C:\k\StartKubelet.ps1", text.as_bytes())
    };
    let kubelet = |text: &[u8]| with(layouts::kubeadm(), KUBEADM_CONFIG, text);
    let containerd =
        |release: &str, text: &str| with(layouts::kubeadm().containerd(release), CONTAINERD_CONFIG, text.as_bytes());
    let missing = layouts::kubeadm();
    missing.0.borrow_mut().files.remove(KUBEADM_CONFIG);
    let old_rke2 = with(layouts::rke2(), &format!(r"{RKE2}\containerd\config.toml"), b"version = 3\n");
    let site = r"C:\Program Files\containerd\conf.d\10-site.toml";
    let replaced = with(containerd("1.7.27", &layouts::containerd_toml(2)), site, CONTAINERD_1.1.as_bytes());
    let with_mirrors = "version = 3\n[plugins.'io.containerd.cri.v1.images'.registry.mirrors.x]\nendpoint = []\n";
    let two_flags = ("kubelet.args", "--resolv-conf=\n--windows-priorityclass=NORMAL_PRIORITY_CLASS\n");
    let calculated = ("kubelet.args", "--windows-priorityclass=$(calc)\n");
    let remote_root = ("containerd.toml", r"root = 'S:\containerd'");
    let remote_ca = ("hosts.docker.io.toml", "[host.'https://a.example']\nca = 'S:/ca.pem'");
    let table = [
        (kubelet(b"a: [\n"), vec![KUBELET], Unreadable, KUBEADM_CONFIG),
        (kubelet(b"a: 1\n---\nb: 1\n"), vec![KUBELET], Unreadable, "several YAML documents"),
        (kubelet(b"\xFF\xFF"), vec![KUBELET], Unreadable, "not valid UTF-8"),
        (missing, vec![KUBELET], Unreadable, "does not exist"),
        (containerd("2.3.4", "version = \n"), vec![CONTAINERD], Unreadable, CONTAINERD_CONFIG),
        (
            script("--windows-priorityclass=`\"HIGH_PRIORITY_CLASS\"`"),
            vec![two_flags],
            NotAllowed,
            "sets --windows-priorityclass= after",
        ),
        (script("--max-pods=20"), vec![KUBELET], NotAllowed, "sets --max-pods, which overrides kubelet.yaml"),
        (layouts::nssm(), vec![calculated], NotAllowed, "PowerShell would change"),
        (layouts::kubeadm(), vec![remote_root], NotAllowed, "which is on another machine"),
        (layouts::kubeadm(), vec![MIRRORS, remote_ca], NotAllowed, "which is on another machine"),
        (layouts::kubeadm(), vec![CONTAINERD, HOSTS], NotAllowed, "no config_path"),
        (containerd("2.3.4", with_mirrors), vec![MIRRORS, HOSTS], PreflightFailed, "registry.mirrors"),
        (containerd("2.3.4", "version = 2\n"), vec![CONTAINERD], UnsupportedRuntime, "configuration version 2"),
        (
            containerd("1.7.27", "[plugins.cri]\na = 1\n"),
            vec![CONTAINERD_1],
            UnsupportedRuntime,
            "configuration version 1",
        ),
        (old_rke2, vec![CONTAINERD], UnsupportedRuntime, "generated at every start"),
        (
            replaced,
            vec![CONTAINERD_1],
            UnsupportedRuntime,
            "10-site.toml replaces the settings of io.containerd.grpc.v1.cri",
        ),
    ];
    for (node, files, expected, text) in table {
        let (reason, message) = refused(&node, &files);
        assert_eq!(reason, expected, "{message}");
        assert!(message.contains(text), "{message}");
    }
}

#[test]
fn what_differs_from_an_applied_configuration_is_listed_without_settings_of_others() {
    let files = [KUBELET, ARGS];
    let config = data(&files);
    let with = |change: &dyn Fn(&str) -> String| {
        let node = applied(layouts::kubeadm(), &files);
        let text = change(&node.text(KUBEADM_CONFIG));
        node.put(KUBEADM_CONFIG, text.into_bytes());
        node
    };
    let flags = applied(layouts::kubeadm(), &files);
    let mut state = flags.0.borrow_mut();
    let command = &mut state.services[0].definition.command;
    *command = command.replace("ABOVE_NORMAL", "HIGH");
    drop(state);
    for (node, expected) in [
        (with(&str::to_owned), &[][..]),
        (with(&|text| format!("# by hand\n{text}serializeImagePulls: false\n")), &[]),
        (with(&|text| text.replace("maxPods: 110", "maxPods: 250")), &[KUBEADM_CONFIG]),
        (flags, &["the service kubelet"]),
    ] {
        assert_eq!(differing(&node, &config).unwrap(), expected);
    }
    let unreadable = with(&|_| "a: [".to_owned());
    assert!(differing(&unreadable, &config).unwrap_err().message.contains(KUBEADM_CONFIG));
}

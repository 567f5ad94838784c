use serde_json::json;
use winpool_api::ServiceStart;

use super::*;
use crate::{
    host::ServicePolicy,
    tests::fake::{FakeHost, output, service},
};

const KUBELET: &str = r"C:\k\kubelet.exe --windows-service --config=C:\var\lib\kubelet\config.yaml";
const CONTAINERD: &str = r#""C:\Program Files\containerd\containerd.exe" --run-service"#;
const CONTAINERD_CONFIG: &str = r"C:\Program Files\containerd\config.toml";
const VOLUME: &str = r"\\?\Volume{4c1b02c1-d990-11dc-99ae-806e6f6e6963}\";

/// A node of kubeadm whose script prints these lines.
fn node(kubelet: &str, config: &str, lines: &[&str]) -> FakeHost {
    node_with(vec![service("kubelet", kubelet, &[])], config, lines)
}

fn node_with(mut services: Vec<ServiceDefinition>, config: &str, lines: &[&str]) -> FakeHost {
    services.push(service("containerd", CONTAINERD, &[]));
    let host = FakeHost::with(services, &[(CONTAINERD_CONFIG, config)]);
    host.0.borrow_mut().programs.push(("powershell.exe", "-NoProfile", output(0, &lines.join("\r\n"), "")));
    host
}

fn facts(host: &FakeHost) -> NodeFacts {
    read(host, &FactReference::default(), FactReading::default()).facts
}

fn key(values: &[(&str, &str)], keys: &[&str]) -> RegistryKey {
    let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    RegistryKey { values: values.collect(), keys: keys.iter().map(|key| (*key).to_owned()).collect() }
}

#[test]
fn directories_have_their_readers_and_whether_their_volume_is_encrypted() {
    let volume = format!("volume|0|{VOLUME}|1000|500");
    let status = format!("encryption|{VOLUME}|1");
    let lines = [
        "acl|0|O:SYG:SYD:AI(A;OICIID;FA;;;SY)(A;OICIID;FA;;;BA)(A;OICIID;0x1200a9;;;BU)",
        "acl|1|D:P(A;OICI;GA;;;BA)(A;OICI;GA;;;SY)",
        &volume,
        &status,
        "encryption|read",
    ];
    let directory = |path: &str, readers: &[&str], encrypted| DirectoryFacts {
        path: path.to_owned(),
        readers: Some(readers.iter().map(|reader| (*reader).to_owned()).collect()),
        encrypted,
    };
    for (flags, config, kubelet, containerd) in [
        ("", "version = 3\n", KUBELET_ROOT, CONTAINERD_ROOT),
        (r" --root-dir=D:\kubelet", "version = 3\nroot = 'D:\\containerd'\n", r"D:\kubelet", r"D:\containerd"),
        ("", "not TOML", KUBELET_ROOT, CONTAINERD_ROOT),
    ] {
        let found = facts(&node(&format!("{KUBELET}{flags}"), config, &lines)).directories;
        let expected = [directory(kubelet, &[r"BUILTIN\Users"], Some(true)), directory(containerd, &[], None)];
        assert_eq!(found, expected, "{flags} {config}");
    }
}

#[test]
fn services_have_their_start_and_whether_they_restart() {
    let exit = r"SYSTEM\CurrentControlSet\Services\kubelet\Parameters\AppExit";
    let nssm = r"C:\k\nssm.exe";
    let start_script = r"C:\k\StartKubelet.ps1";
    for (kubelet, restarts, app_exit, expected) in [
        (KUBELET, Some(true), None, Some(true)),
        (KUBELET, Some(false), None, Some(false)),
        (KUBELET, None, None, None),
        (nssm, Some(false), None, Some(true)),
        (nssm, Some(false), Some("Restart"), Some(true)),
        (nssm, Some(true), Some("Exit"), Some(false)),
    ] {
        let host = node(kubelet, "version = 3\n", &[]);
        host.put(start_script, "k\\kubelet.exe --config=C:\\var\\lib\\kubelet\\config.yaml");
        host.put(r"C:\var\lib\kubelet\kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"\"");
        let policy = |start, restarts| ServicePolicy { start, restarts };
        let mut state = host.0.borrow_mut();
        state.policies.insert("kubelet".to_owned(), policy(ServiceStart::Manual, restarts));
        state.registry.extend(app_exit.map(|action| (exit.to_owned(), key(&[("", action)], &[]))));
        drop(state);
        let fact = ServiceFacts { name: "kubelet".to_owned(), start: ServiceStart::Manual, restarts: expected };
        assert_eq!(facts(&host).services, [fact], "{kubelet} {restarts:?} {app_exit:?}; containerd has no policy");
    }
}

#[test]
fn revision_pending_restart_plugins_and_compartments_are_in_the_registry() {
    let update = REBOOT_KEYS[1];
    type Changes<'a> = &'a [(&'a str, RegistryKey)];
    let of = |keys: Changes| {
        let host = node(KUBELET, "", &[]);
        host.0.borrow_mut().registry.extend(keys.iter().map(|(path, key)| ((*path).to_owned(), key.clone())));
        let facts = facts(&host);
        let plugins = facts.ccg_plugins.unwrap().join(",");
        (facts.revision, facts.reboot_pending, plugins, facts.compartment_namespace)
    };
    // The plugin is that of rancher/Rancher-Plugin-gMSA, its README.
    let plugin = "{e4781092-f116-4b79-b55e-28eb6a224e26}";
    let set = key(&[("EnableCompartmentNamespace", "1")], &[]);
    let table: &[(Changes, _)] = &[
        (&[], (None, Some(false), String::new(), Some(false))),
        (&[(WINDOWS, key(&[("UBR", "4529")], &[]))], (Some(4529), Some(false), String::new(), Some(false))),
        (&[(update, key(&[], &[]))], (None, Some(true), String::new(), Some(false))),
        (&[(CCG_PLUGINS, key(&[], &[plugin]))], (None, Some(false), plugin.to_owned(), Some(false))),
        (&[(HNS_STATE, set)], (None, Some(false), String::new(), Some(true))),
    ];
    for (keys, expected) in table {
        assert_eq!(of(keys), *expected, "{keys:?}");
    }
}

#[test]
fn flags_are_those_of_the_running_kubelet_or_of_its_service() {
    let table: [(&str, &[&str], Option<&[&str]>); 4] = [
        ("", &["flag|config", "flag|cloud-config", "flag|read"], Some(&["cloud-config", "config"])),
        (
            " --cloud-config= -v=4 --hostname-override win-1",
            &[],
            Some(&["cloud-config", "config", "hostname-override", "v", "windows-service"]),
        ),
        ("", &["flag|config"], Some(&["config", "windows-service"])),
        ("", &["flag|read"], Some(&[])),
    ];
    for (flags, lines, expected) in table {
        let found = facts(&node(&format!("{KUBELET}{flags}"), "", lines)).kubelet_flags;
        let expected = expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(found, expected, "{flags} {lines:?}");
    }
}

#[test]
fn feature_gates_are_those_of_the_configuration_that_the_kubelet_uses() {
    let kubelet = Some(json!({"featureGates": {"WinOverlay": false, "NodeLogQuery": true, "Odd": "yes"}}));
    let found = read(&node(KUBELET, "", &[]), &FactReference { kubelet, time: None }, FactReading::default()).facts;
    assert_eq!(found.feature_gates, Some(vec!["NodeLogQuery=true".to_owned(), "WinOverlay=false".to_owned()]));
    assert_eq!(facts(&node(KUBELET, "", &[])).feature_gates, None);
}

#[test]
fn gates_of_kube_proxy_are_those_of_its_file_or_of_the_flags_of_the_running_program() {
    let (file, flag): (_, &[&str]) = (r" --config=C:\k\proxy.conf", &["proxygate|WinDSR=true", "proxygate|read"]);
    let table = [(file, flag, Some("WinOverlay=true")), ("", flag, Some("WinDSR=true")), ("", &[], None)];
    for (flags, lines, expected) in table {
        let proxy = service("kube-proxy", &format!(r"C:\k\kube-proxy.exe{flags}"), &[]);
        let host = node_with(vec![service("kubelet", KUBELET, &[]), proxy], "", lines);
        host.put(r"C:\k\proxy.conf", "featureGates: {WinOverlay: true}\n");
        assert_eq!(facts(&host).kube_proxy_gates, expected.map(|gate| vec![gate.to_owned()]), "{flags} {lines:?}");
    }
}

#[test]
fn a_directory_of_the_cni_counts_if_no_file_has_the_key_that_replaces_it() {
    let table = r#"[plugins."io.containerd.cri.v1.runtime".cni]"#;
    let imports = r"imports = ['conf.d\*.toml']";
    let drop_in = format!("version = 3\n{table}\nbin_dirs = ['C:\\opt\\cni\\bin']\n");
    for (main, drop_in, expected) in [
        (format!("version = 3\n{table}\nbin_dir = 'C:\\opt\\cni\\bin'\n"), "", Some(true)),
        (format!("version = 3\n{table}\nbin_dir = ''\n"), "", Some(false)),
        (format!("version = 3\n{imports}\n{table}\nbin_dir = 'C:\\opt\\cni\\bin'\n"), drop_in.as_str(), Some(false)),
        (
            "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.cni]\nbin_dir = 'C:\\opt\\cni\\bin'\n".to_owned(),
            "",
            Some(false),
        ),
        ("not TOML".to_owned(), "", None),
    ] {
        let host = node(KUBELET, &main, &[]);
        if !drop_in.is_empty() {
            host.put(r"C:\Program Files\containerd\conf.d\10-cni.toml", drop_in);
        }
        assert_eq!(facts(&host).cni_bin_dir, expected, "{main}");
    }
}

#[test]
fn values_that_vary_by_themselves_stay_as_they_were_reported() {
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    let former = |booted: &str, offset: Option<i32>, fills: Option<bool>| NodeFacts {
        booted_at: Some(Time(at(booted))),
        clock_offset_seconds: offset,
        images_fill_disk: fills,
        ..NodeFacts::default()
    };
    for (booted, expected) in [
        ("2026-11-20T07:00:00.7Z", "2026-11-20T07:00:10Z"),
        ("2026-11-20T07:02:10Z", "2026-11-20T07:00:10Z"),
        ("2026-11-20T07:02:11.5Z", "2026-11-20T07:02:11Z"),
    ] {
        assert_eq!(started(at(booted), &former("2026-11-20T07:00:10Z", None, None)).0, at(expected), "{booted}");
    }
    for (reported, seconds, expected) in [
        (None, 5, None),
        (None, 6, Some(6)),
        (None, -90, Some(-90)),
        (Some(8), 12, Some(8)),
        (Some(8), 14, Some(14)),
        (Some(8), 3, None),
        (Some(8), -6, Some(-6)),
    ] {
        let reference = at("2026-11-20T07:00:00Z");
        let now = reference + SignedDuration::from_secs(seconds);
        let former = former("2026-11-20T07:00:00Z", reported, None);
        assert_eq!(clock_offset(now, reference, &former), expected, "{reported:?} {seconds}");
    }
    let kubelet = Some(json!({"imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80}));
    let reference = FactReference { kubelet, time: None };
    for (reported, used, expected) in
        [(None, 84, false), (None, 85, true), (Some(true), 81, true), (Some(true), 80, false), (Some(false), 84, false)]
    {
        let former = former("2026-11-20T07:00:00Z", None, reported);
        assert_eq!(fills_disk(used, &reference, &former), Some(expected), "{reported:?} {used}");
        assert_eq!(fills_disk(used, &FactReference::default(), &former), None, "the thresholds are not known");
    }
}

#[test]
fn a_node_without_powershell_has_only_the_facts_of_its_registry() {
    let host = FakeHost::new("", []);
    let expected = NodeFacts {
        reboot_pending: Some(false),
        ccg_plugins: Some(Vec::new()),
        compartment_namespace: Some(false),
        ..NodeFacts::default()
    };
    assert_eq!(facts(&host), expected);
}

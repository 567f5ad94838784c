use super::*;
use crate::tests::{
    fake::{FakeHost, Service, service},
    layouts,
};

#[test]
fn each_layout_is_detected_from_services_and_files() {
    let table = [
        ("kubeadm", layouts::kubeadm(), Some(r"C:\var\lib\kubelet\config.yaml"), None, FlagsPlace::Service),
        (
            "kubeadm-nssm",
            layouts::nssm(),
            Some(r"C:\var\lib\kubelet\config.yaml"),
            None,
            FlagsPlace::EnvironmentFile {
                path: r"C:\var\lib\kubelet\kubeadm-flags.env".to_owned(),
                script: r"C:\k\StartKubelet.ps1".to_owned(),
            },
        ),
        (
            "rke2",
            layouts::rke2(),
            None,
            Some(r"C:\var\lib\rancher\rke2\agent\etc\kubelet.conf.d"),
            FlagsPlace::Rke2 { path: r"C:\etc\rancher\rke2\config.yaml.d\50-winpool.yaml".to_owned() },
        ),
        (
            "eks",
            layouts::eks("--v=1"),
            Some(r"C:\ProgramData\kubernetes\kubelet-config.json"),
            None,
            FlagsPlace::Service,
        ),
        (
            "service",
            layouts::plain(),
            Some(r"C:\Süd Knoten\kubelet.yaml"),
            Some(r"C:\Süd Knoten\kubelet.d"),
            FlagsPlace::Service,
        ),
    ];
    for (name, node, config, drop_ins, flags) in table {
        let layout = detect(&node).unwrap_or_else(|refusal| panic!("{name}: {}", refusal.message));
        assert_eq!(layout.kind.name(), name);
        assert_eq!(layout.kubelet.config.as_deref(), config, "{name}");
        assert_eq!(layout.kubelet.drop_ins.as_deref(), drop_ins, "{name}");
        assert_eq!(layout.kubelet.flags, flags, "{name}");
        assert_eq!(layout.kubelet.minor, Minor(36), "{name}");
    }
}

#[test]
fn programs_services_and_files_of_the_runtime_are_those_of_the_command_line() {
    let eks = detect(&layouts::eks("")).unwrap();
    assert_eq!(eks.kubelet.program, r"C:\Program Files\kubernetes\kubelet.exe");
    assert_eq!(eks.containerd.config, r"C:\Program Files\containerd\config.toml");
    assert_eq!(eks.containerd.version, ContainerdVersion::new(1, 7, 27));
    assert_eq!(eks.kube_proxy.unwrap().config, None);
    let plain = detect(&layouts::plain()).unwrap();
    assert_eq!(
        (&*plain.containerd.service, &*plain.containerd.program),
        ("Containerd", r"C:\Süd Knoten\containerd.exe")
    );
    assert_eq!(plain.containerd.config, r"C:\Süd Knoten\containerd.toml");
    assert_eq!(plain.kube_proxy.unwrap().config.as_deref(), Some(r"C:\Süd Knoten\proxy.yaml"));
    let rke2 = detect(&layouts::rke2()).unwrap();
    assert_eq!(rke2.containerd.service, "rke2");
    assert_eq!(rke2.containerd.config, r"C:\var\lib\rancher\rke2\agent\etc\containerd\config.toml");
    assert!(!rke2.containerd.is_writable);
}

#[test]
fn a_kubelet_is_supported_from_1_30_on() {
    for make in [layouts::plain, layouts::rke2] {
        assert!(detect(&make().kubelet("1.30.0")).unwrap().kubelet.drop_ins.is_some());
        let Refusal { reason, message } = detect(&make().kubelet("1.29.9")).unwrap_err();
        let expected = "kubelet 1.29 is older than 1.30. Upgrade the kubelet.";
        assert_eq!((reason, message.as_str()), (RefusalReason::UnsupportedKubelet, expected));
    }
}

#[test]
fn rke2_has_the_data_directory_of_its_configuration() {
    let node = layouts::rke2();
    {
        let files = &mut node.0.borrow_mut().files;
        let defaults = r"D:\rke2\agent\etc\kubelet.conf.d\00-rke2-defaults.conf";
        files.insert(defaults.to_owned(), Vec::new());
        files.insert(r"C:\etc\rancher\rke2\config.yaml".to_owned(), b"data-dir: D:/rke2\n".to_vec());
    }
    let layout = detect(&node).unwrap();
    assert_eq!(layout.kubelet.program, r"D:\rke2\bin\kubelet.exe");
    assert_eq!(layout.kubelet.drop_ins.as_deref(), Some(r"D:\rke2\agent\etc\kubelet.conf.d"));
}

#[test]
fn a_node_that_the_agent_cannot_configure_is_refused_with_its_reason() {
    use RefusalReason::{ManagedElsewhere, UnknownLayout, UnsupportedRuntime};
    let with_file = |node: FakeHost, file: &str| {
        node.put(file, Vec::new());
        node
    };
    let kubelet =
        |command: &str| FakeHost::with(vec![service("kubelet", command, &[]), layouts::containerd_service()], &[]);
    let mut openshift = layouts::kubeadm();
    let daemon = service("windows-instance-config-daemon", r"C:\k\windows-instance-config-daemon.exe", &[]);
    openshift.0.get_mut().services.push(Service::running(daemon));
    let of_gke = r"C:\etc\kubernetes\node\bin\kube-log-runner.exe -log-file=C:\l C:\etc\kubernetes\node\bin\kubelet.exe --config=C:\c";
    let old_rke2 = layouts::rke2();
    old_rke2.0.borrow_mut().files.remove(r"C:\var\lib\rancher\rke2\agent\etc\kubelet.conf.d\00-rke2-defaults.conf");
    let mut docker = layouts::kubeadm();
    docker.0.get_mut().services.retain(|service| service.definition.name == "kubelet");
    let table = [
        (with_file(layouts::nssm(), r"C:\k\kubeclusterconfig.json"), ManagedElsewhere, "AKS"),
        (with_file(layouts::nssm(), r"C:\k\kubeletstart.ps1"), ManagedElsewhere, "AKS"),
        (openshift, ManagedElsewhere, "Windows Machine Config Operator"),
        (kubelet(of_gke), ManagedElsewhere, "GKE"),
        (with_file(layouts::kubeadm(), r"C:\k8s-node-setup.psm1"), ManagedElsewhere, "GCE"),
        (
            layouts::eks("--node-labels=a=b,eks.amazonaws.com/nodegroup=web"),
            ManagedElsewhere,
            "managed node group of EKS",
        ),
        (FakeHost::with(vec![layouts::containerd_service()], &[]), UnknownLayout, "no service kubelet"),
        (kubelet(r"C:\other.exe"), UnknownLayout, "does not run kubelet.exe"),
        (kubelet(r"C:\k\kubelet.exe --v=2"), UnknownLayout, "has no flag --config"),
        (kubelet(r"C:\nssm.exe"), UnknownLayout, "StartKubelet.ps1 does not exist"),
        (old_rke2, UnknownLayout, "older than 1.32"),
        (docker, UnsupportedRuntime, "no service containerd"),
        (layouts::kubeadm().containerd("v1.6.39"), UnsupportedRuntime, "containerd 1.6.39 is older than 1.7.0"),
        (layouts::kubeadm().containerd("v3.0.0"), UnsupportedRuntime, "containerd 3.0.0 is unknown"),
        (layouts::kubeadm().containerd("unknown"), UnsupportedRuntime, "printed"),
    ];
    for (node, expected, text) in table {
        let Refusal { reason, message } = detect(&node).expect_err("a refusal");
        assert_eq!(reason, expected, "{message}");
        assert!(message.contains(text), "{message}");
        assert!(reason != ManagedElsewhere || message.contains("spec.delivery.method: None"), "{message}");
    }
}

#[test]
fn a_flag_of_a_start_script_counts_if_it_comes_after_the_flags_of_the_file() {
    let last = "& kubelet.exe @argList # $argList = '--config=C:/x', '--v=3' + $kubeAdmArgs -split '\\s+'";
    assert_eq!(flag_in_script(last, "v"), None, "the flags of the file come last");
    assert_eq!(flag_in_script(layouts::START_SCRIPT, "resolv-conf").as_deref(), Some(""));
    assert_eq!(flag_in_script(layouts::START_SCRIPT, "cert-dir").as_deref(), Some(r"C:\var\lib\kubelet\pki"));
    assert_eq!(flag_in_script(layouts::START_SCRIPT, "v"), None);
}

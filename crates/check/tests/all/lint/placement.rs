//! The placement of pods by their manifests, and its findings.

use std::sync::LazyLock;

use super::*;

#[derive(serde::Deserialize)]
struct Cases {
    /// The case, `alone` or with `pool`, kind, spec, image, and the codes.
    placed: Vec<[String; 6]>,
    /// Kind, spec and image.
    linux: Vec<[String; 3]>,
}

static CASES: LazyLock<Cases> = LazyLock::new(|| serde_saphyr::from_str(include_str!("placement.yaml")).unwrap());

/// Pool `web`, whose class `older` boots another build.
const POOL: &str = "---
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {name: web}
spec:
  windowsVersion: ltsc2022
  nodeSelector: {matchLabels: {agentpool: web}}
  taints: [{key: win, effect: NoSchedule}]
  runtimeClasses:
  - {name: windows}
  - {name: isolated, isolation: HyperV}
  - {name: older, isolation: HyperV, handler: runhcs-wcow-hypervisor-17763}
";

#[test]
fn the_placement_of_a_pod_is_read_from_all_its_fields_and_the_other_manifests() {
    for [case, place, kind, spec, image, expected] in &CASES.placed {
        let pool = if place == "pool" { POOL } else { "" };
        let text = pool.to_owned() + &pod(kind, spec, image);
        let found = check(&text).findings;
        let codes: Vec<_> = found.iter().map(|found| found.finding.code.name()).collect();
        assert_eq!(codes.join(" "), *expected, "{case}: {found:?}\n{text}");
    }
}

#[test]
fn a_daemon_set_is_never_told_to_use_a_class_which_its_controller_ignores() {
    let remedies = |text: &str| {
        let found = check(text).findings.into_iter();
        found.map(|found| format!("{}: {}", found.finding.code, found.finding.remedy)).collect::<Vec<_>>()
    };
    let expected = "os-selector-missing: set nodeSelector: {kubernetes.io/os: windows} in the template";
    assert_eq!(remedies(&pod("DaemonSet", "os: {name: windows}", "a:1")), [expected]);
    let class = "os: {name: windows}, runtimeClassName: windows-ltsc2022";
    for text in [pod("DaemonSet", class, "a:1"), POOLS.to_owned() + &pod("DaemonSet", class, "a:1")] {
        let remedies = remedies(&text);
        assert!(remedies.len() == 1 && remedies[0].starts_with("daemonset-runtime-class: "), "{remedies:?}");
    }
}

#[test]
fn without_pools_the_names_that_winpool_gives_by_default_are_known() {
    let with_class = |class: &str, image: &str| {
        found(&pod("Pod", &format!("os: {{name: windows}}, runtimeClassName: {class}"), image))
    };
    let core = "mcr.microsoft.com/windows/servercore:ltsc2019";
    let table: [(&str, &str, &[&str]); 7] = [
        ("windows-ltsc2019", core, &[]),
        ("windows-ltsc2022", core, &["5 image-build"]),
        ("windows-2022", core, &["5 image-unchecked"]),
        ("windows-ltsc-2022", "a:1", &["5 class-undefined"]),
        ("window-ltsc2022", "a:1", &["5 class-undefined"]),
        ("windows-ltsc2o22", "a:1", &["5 class-undefined"]),
        ("gpu", "a:1", &[]),
    ];
    for (class, image, expected) in table {
        assert_eq!(with_class(class, image), expected, "{class}");
    }
    let windows = "os: {name: windows}, nodeSelector: {kubernetes.io/os: windows}";
    let tolerant = format!("{windows}, tolerations: [{{key: os, value: windows}}]");
    assert_eq!(check(&pod("Pod", windows, "a:1")).untolerating, ["Pod a"]);
    for text in [pod("Pod", &tolerant, "a:1"), POOLS.to_owned() + &pod("Pod", &tolerant, "a:1")] {
        assert_eq!(check(&text).untolerating, [""; 0]);
    }
}

#[test]
fn a_pod_for_linux_may_be_scheduled_to_a_pool_without_taints_whatever_its_os_name() {
    let pool = POOLS.replace("{agentpool: web}}}", "{agentpool: web}}, taints: []}");
    for (spec, expected) in [
        ("os: {name: linux}", vec!["15 linux-tolerance"]),
        ("restartPolicy: Never", vec!["15 linux-tolerance"]),
        ("nodeSelector: {kubernetes.io/os: linux}", vec![]),
    ] {
        assert_eq!(found(&(pool.clone() + &pod("Pod", spec, "nginx:1.27"))), expected, "{spec}");
        assert_eq!(found(&(POOLS.to_owned() + &pod("Pod", spec, "nginx:1.27"))), [""; 0], "{spec}");
    }
}

#[test]
fn kube_proxy_in_the_manifests_decides_whether_a_local_policy_works() {
    let text = fs::read_to_string("tests/lint/local-traffic-policy/bad.yaml").unwrap();
    let proxy = |args: &str| {
        format!(
            "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: kube-proxy-windows}}\nspec:\n  template:\n    metadata: {{labels: {{a: b}}}}\n    \
             spec:\n      os: {{name: windows}}\n      nodeSelector: {{kubernetes.io/os: windows}}\n      hostNetwork: true\n      \
             securityContext: {{windowsOptions: {{hostProcess: true, runAsUserName: 'NT AUTHORITY\\SYSTEM'}}}}\n      \
             tolerations: [{{operator: Exists}}]\n      containers:\n      - {{name: a, image: 'sigwindowstools/kube-proxy:v1.34.1', resources: \
             {{limits: {{memory: 1Gi}}}}, args: [{args}]}}\n---\n{text}"
        )
    };
    let local = |text: &str, minor: u32| {
        let report = check_bytes(text.as_bytes(), Some(Minor(minor)), &|_| None);
        report.findings.iter().any(|found| found.finding.code == Code::LocalTrafficPolicy)
    };
    for (args, in_1_32, in_1_34) in [
        ("'--enable-dsr=true', '--feature-gates=WinDSR=true'", false, false),
        ("'--enable-dsr=true'", true, false),
        ("'kube-proxy.exe --enable-dsr=true --feature-gates=WinDSR=true'", false, false),
        ("'--enable-dsr=false'", true, true),
        ("'--v=4'", true, true),
    ] {
        assert_eq!((local(&proxy(args), 32), local(&proxy(args), 34)), (in_1_32, in_1_34), "{args}");
    }
}

/// A pool with ltsc2022 and one with ltsc2019.
const POOLS: &str = "---
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {name: web-2022}
spec: {windowsVersion: ltsc2022, nodeSelector: {matchLabels: {agentpool: web}}}
---
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {name: web-2019}
spec: {windowsVersion: ltsc2019, nodeSelector: {matchLabels: {agentpool: old}}}
";

#[test]
fn linux_workloads_have_no_findings_whatever_their_name() {
    for [kind, spec, image] in &CASES.linux {
        let text = pod(kind, spec, image);
        for text in [text.clone(), POOLS.to_owned() + &text] {
            let found = check(&text).findings;
            assert!(found.is_empty(), "{found:?}\n{text}");
        }
    }
}

#[test]
fn messages_about_placement_are_those_of_the_operator() {
    let tolerant = "tolerations: [{key: os, value: windows, effect: NoSchedule}]";
    let windows = "os: {name: windows}";
    let core_2019 = "mcr.microsoft.com/windows/servercore:ltsc2019";
    let selects = |labels: &str| format!("{windows}, {tolerant}, nodeSelector: {{{labels}}}");
    let messages = |text: &str| {
        let found = check(&(POOLS.to_owned() + text)).findings;
        let messages =
            found.iter().map(|one| format!("{}: {} | {}", one.finding.code, one.finding.message(), one.finding.remedy));
        messages.collect::<Vec<_>>().join("\n")
    };
    let build = pod("Pod", &selects("kubernetes.io/os: windows, agentpool: web"), core_2019);
    insta::assert_snapshot!(messages(&build), @"image-build: in pool web-2022, mcr.microsoft.com/windows/servercore:ltsc2019 probably does not run on 10.0.20348: according to its name it is for 10.0.17763 (ltsc2019), and the node runs only images for 10.0.20348 (ltsc2022). A container does not start on a node with an incompatible version: The container operating system does not match the host operating system. The name of an image is no proof. | rebuild it on ltsc2022, or use pool web-2019");
    let anywhere = pod("Pod", &selects("kubernetes.io/os: windows"), "mcr.microsoft.com/windows/servercore:ltsc2025");
    insta::assert_snapshot!(messages(&anywhere), @"image-build: in pool web-2019, mcr.microsoft.com/windows/servercore:ltsc2025 probably does not run on 10.0.17763: according to its name it is for 10.0.26100 (ltsc2025), and the node runs only images for 10.0.17763 (ltsc2019). A container does not start on a node with an incompatible version: The container operating system does not match the host operating system. The name of an image is no proof. | rebuild it on ltsc2019");
    let misspelt = pod("Pod", &selects("winpool.dev/pool: web-2202"), "a:1");
    insta::assert_snapshot!(messages(&misspelt), @"no-pool: no pool matches: the nodes of pool web-2019 do not have winpool.dev/pool=web-2202. The pod stays Pending, because no pool in the manifests has this name or build. | use one of the pools: web-2019, web-2022");
    let deployment = pod("Deployment", &format!("{windows}, nodeSelector: {{winpool.dev/pool: web-2022}}"), "a:1");
    insta::assert_snapshot!(messages(&deployment), @"untolerated-taint: the pod does not tolerate os=windows:NoSchedule of pool web-2022. The pod stays Pending, because every matching node has an untolerated taint. | set runtimeClassName: windows-ltsc2022, or add the tolerations");
    let daemonset = deployment.replace("kind: Deployment", "kind: DaemonSet");
    insta::assert_snapshot!(messages(&daemonset), @"untolerated-taint: the template does not tolerate os=windows:NoSchedule of pool web-2022. The DaemonSet controller creates no pods for nodes with an untolerated taint, and ignores the tolerations of a RuntimeClass. | add the tolerations to the template of the DaemonSet");
    let in_conflict = format!(
        "{windows}, runtimeClassName: windows-ltsc2022, nodeSelector: {{node.kubernetes.io/windows-build: 10.0.17763}}"
    );
    insta::assert_snapshot!(messages(&pod("Pod", &in_conflict, core_2019)), @"placement-conflict: nodeSelector has node.kubernetes.io/windows-build=10.0.17763, and RuntimeClass windows-ltsc2022 has node.kubernetes.io/windows-build=10.0.20348. No node runs a pod for another operating system, and the API server rejects a nodeSelector that contradicts the RuntimeClass. | use the same values");
    let undeclared = pod("Pod", "tolerations: [{key: os, operator: Exists}]", "a:1");
    insta::assert_snapshot!(messages(&undeclared), @"linux-tolerance: the pod can be scheduled to Windows nodes, because it tolerates the taints of pool web-2019. Its image does not run on Windows nodes. The scheduler ignores spec.os.name. | set nodeSelector: {kubernetes.io/os: linux}, or windows if the image is for Windows");
}

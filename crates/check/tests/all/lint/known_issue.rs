//! Known issues of versions in manifests: found where the version and what the issue depends on are known, and nowhere else.

use super::*;

/// A Windows node.
fn node(name: &str, pool: &str, kubelet: &str, runtime: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{kubernetes.io/os: windows, agentpool: {pool}}}}}\nstatus: \
         {{nodeInfo: {{kubeletVersion: {kubelet}, containerRuntimeVersion: 'containerd://{runtime}', kernelVersion: 10.0.20348.5870, \
         architecture: amd64, bootID: a, kubeProxyVersion: '', machineID: a, operatingSystem: windows, osImage: a, systemUUID: a}}}}\n"
    )
}

/// A Deployment for the nodes of a pool.
fn deployment(pool: &str, container: &str, volumes: &str) -> String {
    format!(
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: shop}}\nspec:\n  selector: {{matchLabels: \
         {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    spec:\n      os: {{name: windows}}\n      \
         nodeSelector: {{kubernetes.io/os: windows, agentpool: {pool}}}\n      tolerations: [{{key: os, value: windows}}]\n      \
         containers: [{{name: web, image: 'web:7', resources: {{limits: {{memory: 1Gi}}}}, {container}}}]\n      volumes: [{volumes}]\n"
    )
}

fn pool(name: &str, acknowledged: &str) -> String {
    format!(
        "---\napiVersion: winpool.dev/v1alpha1\nkind: WindowsNodePool\nmetadata: {{name: {name}, annotations: \
         {{winpool.dev/acknowledge-issues: '{acknowledged}'}}}}\nspec:\n  windowsVersion: ltsc2022\n  nodeSelector: {{matchLabels: \
         {{agentpool: {name}}}}}\n"
    )
}

fn service(fields: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: shop}}\nspec: {{selector: {{app: web}}, {fields}}}\n"
    )
}

fn kube_proxy(version: &str) -> String {
    format!(
        "---\napiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: proxy, namespace: kube-system}}\nspec:\n  template:\n    metadata: \
         {{labels: {{app: proxy}}}}\n    spec:\n      os: {{name: windows}}\n      nodeSelector: {{kubernetes.io/os: windows}}\n      \
         containers: [{{name: proxy, image: 'example.com/kube-proxy:{version}', resources: {{limits: {{memory: 1Gi}}}}}}]\n"
    )
}

const EXEC: &str = "livenessProbe: {exec: {command: [app.exe]}}";
const SUB_PATHS: &str =
    "volumeMounts: [{name: d, mountPath: 'C:\\a', subPath: a}, {name: d, mountPath: 'C:\\b', subPath: b}]";
const DATA: &str = "{name: d, emptyDir: {}}";
/// Versions without a known issue that depends on nothing else.
const KUBELET: &str = "v1.37.0";
const CONTAINERD: &str = "2.4.2";

fn check(text: &str, minor: Option<u32>) -> LintReport {
    check_bytes(text.as_bytes(), minor.map(Minor), &|_| None)
}

/// The known issues as `object path issue`, and whether a note says that versions are unknown.
fn found(text: &str, minor: Option<u32>) -> (Vec<String>, bool) {
    let report = check(text, minor);
    let known = report.findings.iter().filter(|found| found.finding.code == Code::KnownIssue);
    let line = |LocatedFinding { object, finding, .. }: &LocatedFinding| {
        let last = finding.path.rsplit('.').next().unwrap();
        format!("{object} {last} {}", finding.problem.split(' ').next().unwrap())
    };
    (known.map(line).collect(), report.undetermined > 0)
}

#[test]
fn an_issue_of_nodes_is_found_where_pods_use_what_it_depends_on() {
    let web = |container: &str, volumes: &str| deployment("web", container, volumes);
    let old = node("win-1", "web", KUBELET, "1.6.12");
    let old_containerd = ["CVE-2025-64329", "CVE-2026-35469", "CVE-2026-53493"]
        .map(|id| format!("Node win-1 containerRuntimeVersion {id}"));
    let old_containerd = old_containerd.each_ref().map(String::as_str);
    let table: [(&str, String, &[&str]); 9] = [
        (
            "exec probes",
            old.clone() + &web(EXEC, DATA),
            &[
                "Deployment shop/web exec CVE-2026-53495",
                "Deployment shop/web exec hcsshim-1574",
                "Node win-1 containerRuntimeVersion CVE-2025-64329",
                "Node win-1 containerRuntimeVersion CVE-2026-35469",
                "Node win-1 containerRuntimeVersion CVE-2026-53493",
            ],
        ),
        ("no exec probe", old.clone() + &web("", DATA), &old_containerd),
        ("fixed version", node("win-1", "web", KUBELET, CONTAINERD) + &web(EXEC, DATA), &[]),
        (
            "nodes of another pool",
            old + &node("win-2", "batch", KUBELET, CONTAINERD) + &deployment("batch", EXEC, DATA),
            &old_containerd,
        ),
        (
            "subPath",
            node("win-1", "web", "v1.36.3", CONTAINERD) + &web(SUB_PATHS, DATA),
            &["Deployment shop/web subPath kubernetes-112630"],
        ),
        (
            "in-tree volumes",
            node("win-1", "web", "v1.28.3", CONTAINERD)
                + &web("", "{name: d, azureFile: {secretName: s, shareName: t}}"),
            &[
                "Deployment shop/web volumes CVE-2023-5528",
                "Node win-1 kubeletVersion CVE-2024-5321",
                "Node win-1 kubeletVersion CVE-2024-9042",
            ],
        ),
        (
            "a claim, whose volume is unknown",
            node("win-1", "web", "v1.30.14", CONTAINERD) + &web("", "{name: d, persistentVolumeClaim: {claimName: c}}"),
            &[],
        ),
        (
            "the first of two nodes",
            node("win-1", "web", "v1.36.2", CONTAINERD) + &node("win-2", "web", "v1.36.2", CONTAINERD),
            &["Node win-1 kubeletVersion kubernetes-140066"],
        ),
        ("a kubelet without version", node("win-1", "web", "unknown", CONTAINERD) + &web(SUB_PATHS, DATA), &[]),
    ];
    for (name, text, expected) in table {
        let (mut issues, noted) = found(&text, Some(34));
        issues.sort();
        assert_eq!(issues, expected, "{name}");
        assert!(!noted, "{name}");
    }
}

#[test]
fn without_nodes_an_issue_of_the_kubelet_is_found_only_if_every_release_of_the_given_minor_has_it() {
    let hook = "lifecycle: {postStart: {exec: {command: [app.exe]}}}";
    let paths = || deployment("web", SUB_PATHS, DATA);
    let table: [(String, Option<u32>, &[&str], bool); 7] = [
        (paths(), Some(36), &["Deployment shop/web subPath kubernetes-112630"], false),
        (paths(), Some(37), &[], false),
        (paths(), None, &[], true),
        (deployment("web", hook, DATA), Some(32), &[], true),
        (deployment("web", hook, DATA), Some(33), &[], false),
        (deployment("web", EXEC, DATA), Some(30), &[], true),
        (deployment("web", "", DATA), None, &[], false),
    ];
    for (text, minor, expected, noted) in table {
        assert_eq!(
            found(&text, minor),
            (expected.iter().map(ToString::to_string).collect(), noted),
            "{minor:?}\n{text}"
        );
    }
}

/// A MachineDeployment whose machines have this label of Cluster API, with a template of Azure for this operating system.
fn machines(name: &str, label: &str, version: &str, system: &str) -> String {
    format!(
        "---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineDeployment\nmetadata: {{name: {name}, namespace: capi}}\nspec:\n  \
         clusterName: shop\n  replicas: ${{COUNT}}\n  template:\n    metadata: {{labels: {{node.cluster.x-k8s.io/pool: \
         {label}}}}}\n    spec:\n      version: {version}\n      infrastructureRef: {{kind: AzureMachineTemplate, name: \
         {name}}}\n---\napiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: AzureMachineTemplate\nmetadata: {{name: {name}, \
         namespace: capi}}\nspec: {{template: {{spec: {{osDisk: {{osType: {system}}}}}}}}}\n"
    )
}

/// Pool `web` with the nodes of machines with this label.
fn pool_of_machines() -> String {
    pool("web", "").replace("agentpool:", "node.cluster.x-k8s.io/pool:")
}

#[test]
fn the_version_of_machines_that_a_pool_selects_decides_which_issues_their_kubelets_have() {
    let web = deployment("web", SUB_PATHS, DATA).replace("agentpool:", "node.cluster.x-k8s.io/pool:");
    let linux = machines("md-0", "linux", "v1.36.2", "Linux");
    let (issue, of_pods) =
        ("MachineDeployment capi/win version kubernetes-140066", "Deployment shop/web subPath kubernetes-112630");
    let table: [(&str, String, Option<u32>, &[&str], bool); 7] = [
        ("affected", machines("win", "web", "v1.36.2", "Windows") + &web, None, &[of_pods, issue], false),
        ("fixed", machines("win", "web", "v1.37.0", "Windows") + &web, None, &[], false),
        ("the version is more precise", machines("win", "web", "v1.37.0", "Windows") + &web, Some(37), &[], false),
        ("no pool selects them", machines("win", "batch", "v1.36.2", "Windows"), None, &[], false),
        ("Linux", linux.clone(), None, &[], false),
        ("a placeholder", machines("win", "web", "${KUBERNETES_VERSION}", "Windows") + &web, None, &[], true),
        (
            "a Node",
            node("win-1", "x", "v1.36.3", CONTAINERD).replace("agentpool: x", "node.cluster.x-k8s.io/pool: web")
                + &machines("win", "web", "v1.37.0", "Windows")
                + &web,
            None,
            &[of_pods],
            false,
        ),
    ];
    for (name, text, minor, expected, noted) in table {
        let (mut issues, versions_are_unknown) = found(&(pool_of_machines() + &text), minor);
        issues.sort();
        assert_eq!(issues, expected, "{name}");
        assert_eq!(versions_are_unknown, noted, "{name}");
    }
    let acknowledged =
        pool("web", "kubernetes-140066,kubernetes-112630").replace("agentpool:", "node.cluster.x-k8s.io/pool:");
    assert_eq!(found(&(acknowledged + &machines("win", "web", "v1.36.2", "Windows") + &web), None).0, [""; 0]);
}

#[test]
fn machines_for_windows_whose_version_is_not_compared_are_counted_and_named() {
    let note = |text: &str| {
        let notes = check(text, None).notes().into_iter();
        notes.filter(|note| note.contains("groups of machines")).collect::<String>()
    };
    let two =
        machines("win", "web", "${KUBERNETES_VERSION}", "Windows") + &machines("win-2", "web", "v1.36.2", "Windows");
    let all = two + &machines("md-0", "linux", "${KUBERNETES_VERSION}", "Linux");
    let begin = "known issues and version skew of 2 groups of machines not checked: ";
    let placeholder = "\"${KUBERNETES_VERSION}\" of MachineDeployment capi/win is no version";
    let printed = note(&all);
    let expected = format!("{begin}{placeholder}, no pool in the manifests selects MachineDeployment capi/win-2");
    assert!(printed.ends_with(&expected), "{printed}");
    assert_eq!(note(&(pool_of_machines() + &machines("md-0", "linux", "${KUBERNETES_VERSION}", "Linux"))), "");
}

#[test]
fn the_skew_of_machines_is_compared_with_their_control_plane_or_the_given_minor() {
    let control_plane = "---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: shop, namespace: capi}\nspec: \
                         {controlPlaneRef: {kind: KubeadmControlPlane, name: shop}}\n---\napiVersion: \
                         controlplane.cluster.x-k8s.io/v1beta2\nkind: KubeadmControlPlane\nmetadata: {name: shop, namespace: \
                         capi}\nspec: {version: v1.36.1}\n";
    let of_machines = |version: &str| pool_of_machines() + &machines("win", "web", version, "Windows");
    let table: [(String, Option<u32>, &str); 7] = [
        (
            of_machines("v1.37.0") + control_plane,
            None,
            "kubelet v1.37.0 is newer than the API server: KubeadmControlPlane capi/shop has 1.36.",
        ),
        (
            of_machines("v1.32.13") + control_plane,
            Some(32),
            "kubelet v1.32.13 is too old for the API server: KubeadmControlPlane capi/shop has 1.36.",
        ),
        (of_machines("v1.33.13") + control_plane, None, ""),
        (of_machines("v1.37.0"), Some(36), "kubelet v1.37.0 is newer than the API server: --kubernetes has 1.36."),
        (of_machines("v1.37.0"), Some(37), ""),
        (of_machines("v1.37.0"), None, ""),
        (of_machines("v1.37.0") + &control_plane.replace("v1.36.1", "${VERSION}"), None, ""),
    ];
    for (text, minor, expected) in table {
        let findings = check(&text, minor).findings.into_iter();
        let of_skew = findings.filter(|found| found.finding.code == Code::VersionSkew);
        let messages: Vec<_> = of_skew.map(|found| found.finding.message()).collect();
        assert_eq!(messages.len(), usize::from(!expected.is_empty()), "{minor:?} {messages:?}\n{text}");
        assert!(messages.iter().all(|message| message.starts_with(expected)), "{messages:?}");
    }
}

#[test]
fn issues_of_kube_proxy_are_found_by_its_image_and_by_the_fields_of_services_with_windows_pods() {
    let local = service("internalTrafficPolicy: Local");
    let web = deployment("web", "", DATA);
    let linux = web.replace("windows", "linux");
    let of_local = "Service shop/web internalTrafficPolicy kubernetes-134031";
    let of_image = "DaemonSet kube-system/proxy image kubernetes-131506";
    let headless = service("internalTrafficPolicy: Local, clusterIP: None");
    let table: [(String, Option<u32>, &[&str]); 10] = [
        (web.clone() + &headless, Some(30), &[]),
        (kube_proxy("v1.33.1"), None, &[of_image]),
        (kube_proxy("v1.33.2"), None, &[]),
        (kube_proxy("v1.33.1").replace("windows", "linux"), None, &[]),
        (web.clone() + &local + &kube_proxy("v1.33.5"), None, &[of_local]),
        (web.clone() + &local + &kube_proxy("v1.33.6"), Some(30), &[]),
        (web.clone() + &local, Some(30), &[of_local]),
        (web.clone() + &local, Some(33), &[]),
        (linux + &local, Some(30), &[]),
        (
            web + &service("ipFamilyPolicy: RequireDualStack"),
            Some(32),
            &["Service shop/web ipFamilyPolicy kubernetes-136241"],
        ),
    ];
    for (text, minor, expected) in table {
        assert_eq!(found(&text, minor).0, expected, "{minor:?}\n{text}");
    }
}

#[test]
fn an_issue_that_the_pools_of_the_nodes_acknowledge_is_not_reported() {
    let both = node("win-1", "web", "v1.36.3", CONTAINERD) + &node("win-2", "batch", "v1.36.3", CONTAINERD);
    let any = deployment("web", SUB_PATHS, DATA).replace(", agentpool: web", "");
    let issue = "kubernetes-112630";
    let table = [
        (pool("web", issue) + &pool("batch", issue), 0),
        (pool("web", issue) + &pool("batch", ""), 1),
        (pool("web", "KUBERNETES-112630") + &pool("batch", issue), 0),
        (pool("web", "CVE-2023-5528") + &pool("batch", issue), 1),
    ];
    for (pools, expected) in table {
        let with_nodes = pools.clone() + &both + &any;
        assert_eq!(found(&with_nodes, None).0.len(), expected, "{pools}");
        assert_eq!(found(&(pools.clone() + &any), Some(36)).0.len(), expected, "{pools}");
    }
    let only_web = pool("web", issue) + &pool("batch", "") + &both + &deployment("web", SUB_PATHS, DATA);
    assert_eq!(found(&only_web, None).0, [""; 0]);
}

#[test]
fn a_finding_has_the_versions_and_the_remedy() {
    let text = node("win-1", "web", "v1.36.3", CONTAINERD) + &deployment("web", SUB_PATHS, DATA);
    let line = |text: &str, minor: Option<u32>| {
        let mut findings = check(text, minor).findings.into_iter();
        let found = findings.find(|found| found.finding.code == Code::KnownIssue).unwrap();
        format!("{}. Remedy: {}", found.finding.problem, found.finding.remedy)
    };
    let begin = "kubernetes-112630 (medium): pods with several subPath mounts stay Terminating, because handles to files are leaked. ";
    let end = ". Remedy: upgrade kubelet to v1.37.0 or later, or mount at most one subPath for each pod";
    assert_eq!(line(&text, None), format!("{begin}1 node runs kubelet v1.36.3{end}"));
    let alone = deployment("web", SUB_PATHS, DATA);
    assert_eq!(line(&alone, Some(36)), format!("{begin}Every kubelet 1.36 has it{end}"));
}

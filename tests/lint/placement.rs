//! Where pods go by their manifests, and what lint says of it.

use super::*;

#[test]
fn where_a_pod_goes_is_read_of_everything_that_says_so() {
    let pool = "---\napiVersion: winpool.dev/v1alpha1\nkind: WindowsNodePool\nmetadata: {name: web}\nspec:\n  \
                windowsVersion: \"ltsc2022\"\n  nodeSelector: {matchLabels: {agentpool: web}}\n  \
                taints: [{key: win, effect: NoSchedule}]\n  \
                runtimeClasses: [{name: windows}, {name: isolated, isolation: HyperV}]\n";
    let windows = "os: {name: windows}";
    let selected = "os: {name: windows}, nodeSelector: {kubernetes.io/os: windows}";
    let host_process = "hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true}}";
    let core_2019 = "mcr.microsoft.com/windows/servercore:ltsc2019";
    let build_2022 = "kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.20348";
    let table: [(&str, String, &[&str]); 20] = [
        (
            "a DaemonSet that selects what its class does in its own words",
            pool.to_owned()
                + &pod(
                    "DaemonSet",
                    &format!(
                        "{windows}, runtimeClassName: windows, nodeSelector: {{{build_2022}}}, tolerations: [{{operator: Exists}}]"
                    ),
                    "a:1",
                ),
            &[],
        ),
        (
            "a DaemonSet for which its class tolerates in vain",
            pool.to_owned()
                + &pod(
                    "DaemonSet",
                    &format!("{windows}, runtimeClassName: windows, nodeSelector: {{{build_2022}}}"),
                    "a:1",
                ),
            &["untolerated-taint"],
        ),
        (
            "a DaemonSet that selects nothing without its class",
            pool.to_owned() + &pod("DaemonSet", &format!("{windows}, runtimeClassName: windows"), "a:1"),
            &["daemonset-runtime-class"],
        ),
        (
            "a build without a pool",
            pod("Pod", &format!("{windows}, nodeSelector: {{{build_2022}}}"), core_2019),
            &["image-build"],
        ),
        (
            "a class of which nothing is known may bring Hyper-V",
            pod("Pod", &format!("{windows}, runtimeClassName: other, nodeSelector: {{{build_2022}}}"), core_2019),
            &[],
        ),
        ("an unknown class may lead anywhere", pod("Pod", &format!("{windows}, runtimeClassName: other"), "a:1"), &[]),
        ("a node's name leads there", pod("Pod", &format!("{windows}, nodeName: win-1"), "a:1"), &[]),
        (
            "the image is all there is",
            pod("Pod", "restartPolicy: Never", core_2019),
            &["os-selector-missing", "os-name-missing"],
        ),
        (
            "a toleration is all there is",
            pod("Pod", "tolerations: [{key: os, value: windows}]", "a:1"),
            &["os-selector-missing", "os-name-missing"],
        ),
        (
            "Linux by its selector",
            pod("Pod", "nodeSelector: {kubernetes.io/os: linux}, tolerations: [{operator: Exists}]", "a:1"),
            &[],
        ),
        (
            "the taint of the pool is tolerated",
            pool.to_owned() + &pod("Pod", "tolerations: [{key: win, operator: Exists}]", "a:1"),
            &["linux-tolerance"],
        ),
        (
            "another taint than the pool's",
            pool.to_owned() + &pod("Pod", "tolerations: [{key: os, operator: Exists}]", "a:1"),
            &[],
        ),
        (
            "the pool's class",
            pool.to_owned() + &pod("Pod", &format!("{windows}, runtimeClassName: windows"), "a:1"),
            &[],
        ),
        ("no toleration for the pool", pool.to_owned() + &pod("Pod", selected, "a:1"), &["untolerated-taint"]),
        (
            "nodes of another pool",
            pool.to_owned()
                + &pod("Pod", "os: {name: windows}, nodeSelector: {kubernetes.io/os: windows, agentpool: b}", "a:1"),
            &[],
        ),
        (
            "HostProcess fits any host",
            pool.to_owned() + &pod("Pod", &format!("{windows}, runtimeClassName: windows, {host_process}"), core_2019),
            &[],
        ),
        (
            "the Hyper-V handler of containerd boots the build of the host",
            pool.to_owned() + &pod("Pod", &format!("{windows}, runtimeClassName: isolated"), core_2019),
            &["image-build"],
        ),
        (
            "a Hyper-V handler of one's own may boot an older build",
            pool.replace("isolation: HyperV", "isolation: HyperV, handler: runhcs-wcow-hypervisor-17763")
                + &pod("Pod", &format!("{windows}, runtimeClassName: isolated"), core_2019),
            &[],
        ),
        (
            "a DaemonSet with a class of which nothing is known",
            pod("DaemonSet", &format!("{windows}, runtimeClassName: other"), "a:1"),
            &["daemonset-runtime-class"],
        ),
        (
            "a DaemonSet that tolerates more than the class",
            pool.to_owned()
                + &pod(
                    "DaemonSet",
                    "os: {name: windows}, runtimeClassName: windows, tolerations: [{operator: Exists}], nodeSelector: \
                     {kubernetes.io/os: windows, kubernetes.io/arch: amd64, node.kubernetes.io/windows-build: 10.0.20348}",
                    "a:1",
                ),
            &[],
        ),
    ];
    for (case, text, expected) in table {
        let found = check(&text).findings;
        let codes: Vec<_> = found.iter().map(|found| found.finding.code.name()).collect();
        assert_eq!(codes, expected, "{case}: {found:?}\n{text}");
    }
}

/// A pool of hosts with ltsc2022, and one with ltsc2019.
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
fn workloads_for_linux_get_no_finding_whatever_they_are_called() {
    let everything = "tolerations: [{operator: Exists}]";
    let linux = "nodeSelector: {kubernetes.io/os: linux}";
    let affinity = |key: &str, operator: &str, value: &str| {
        format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: \
             [{{matchExpressions: [{{key: {key}, operator: {operator}, values: [{value}]}}]}}]}}}}}}"
        )
    };
    let table = [
        pod("Deployment", "hostNetwork: true", "quay.io/openshift/windows-machine-config-operator:v10.15"),
        pod("Deployment", "restartPolicy: Always", "registry.k8s.io/gmsa-webhook/k8s-gmsa-webhook:v0.5.0"),
        pod("Deployment", "restartPolicy: Always", "example.com/windows-gmsa-webhook:v0.5.0"),
        pod("Pod", "restartPolicy: Always", "docker.io/dockurr/windows:4.35"),
        pod("Deployment", "restartPolicy: Always", "nginx:1.27-alpine"),
        pod("Deployment", linux, "nginx"),
        pod("DaemonSet", &format!("{linux}, {everything}, hostNetwork: true"), "registry.k8s.io/kube-proxy:v1.34.0"),
        pod(
            "DaemonSet",
            &format!("os: {{name: linux}}, {linux}, {everything}"),
            "quay.io/prometheus/node-exporter:v1.9.1",
        ),
        pod(
            "DaemonSet",
            &format!("{everything}, {}", affinity("kubernetes.io/os", "In", "linux")),
            "calico/node:v3.30.0",
        ),
        pod("DaemonSet", &format!("{everything}, {}", affinity("kubernetes.io/os", "NotIn", "windows")), "a:1"),
        pod(
            "DaemonSet",
            &format!(
                "{everything}, {}",
                affinity("kubernetes.azure.com/os-sku", "NotIn", "Windows2019, Windows2022, Windows2025")
            ),
            "a:1",
        ),
        pod(
            "DaemonSet",
            &format!("{everything}, nodeSelector: {{gpu: 'true'}}"),
            "nvcr.io/nvidia/k8s-device-plugin:v0.17.1",
        ),
        pod("DaemonSet", "tolerations: [{key: node-role.kubernetes.io/control-plane, operator: Exists}]", "a:1"),
    ];
    for text in table {
        for text in [text.clone(), POOLS.to_owned() + &text] {
            let found = check(&text).findings;
            assert!(found.is_empty(), "{found:?}\n{text}");
        }
    }
}

#[test]
fn what_lint_says_of_placement_is_what_the_operator_would_do() {
    let tolerant = "tolerations: [{key: os, value: windows, effect: NoSchedule}]";
    let windows = "os: {name: windows}";
    let core_2019 = "mcr.microsoft.com/windows/servercore:ltsc2019";
    let selects = |labels: &str| format!("{windows}, {tolerant}, nodeSelector: {{{labels}}}");
    let told = |text: &str| {
        let found = check(&(POOLS.to_owned() + text)).findings;
        let told: Vec<_> = found
            .iter()
            .map(|one| format!("{}: {} | {}", one.finding.code, one.finding.message, one.finding.remedy))
            .collect();
        told.join("\n")
    };
    let build = pod("Pod", &selects("kubernetes.io/os: windows, agentpool: web"), core_2019);
    insta::assert_snapshot!(told(&build), @"image-build: mcr.microsoft.com/windows/servercore:ltsc2019 probably does not run on 10.0.20348: by its name it is for 10.0.17763 (ltsc2019), the host runs images of 10.0.20348 (ltsc2022) only (pool web-2022). A container does not start on a host whose Windows does not fit its image: The container operating system does not match the host operating system. A name is a suspicion only. | rebuild it on ltsc2022, or use pool web-2019");
    let anywhere = pod("Pod", &selects("kubernetes.io/os: windows"), "mcr.microsoft.com/windows/servercore:ltsc2025");
    insta::assert_snapshot!(told(&anywhere), @"image-build: mcr.microsoft.com/windows/servercore:ltsc2025 probably does not run on 10.0.17763: by its name it is for 10.0.26100 (ltsc2025), the host runs images of 10.0.17763 (ltsc2019) only (pool web-2019). A container does not start on a host whose Windows does not fit its image: The container operating system does not match the host operating system. A name is a suspicion only. | rebuild it on ltsc2019");
    let misspelt = pod("Pod", &selects("winpool.dev/pool: web-2202"), "a:1");
    insta::assert_snapshot!(told(&misspelt), @"no-pool: no pool among the manifests has winpool.dev/pool=web-2202 and all else that this pod selects. The pod stays Pending: winpool.dev/pool is the name of a pool, and among the manifests no pool has that name or that build. | name one of the pools: web-2019, web-2022");
    let deployment = pod("Deployment", &format!("{windows}, nodeSelector: {{winpool.dev/pool: web-2022}}"), "a:1");
    insta::assert_snapshot!(told(&deployment), @"untolerated-taint: not tolerated: os=windows:NoSchedule of pool web-2022. The pod stays Pending: 0 nodes are available, untolerated taint. | write runtimeClassName: windows-ltsc2022, or the tolerations");
    let daemonset = deployment.replace("kind: Deployment", "kind: DaemonSet");
    insta::assert_snapshot!(told(&daemonset), @"untolerated-taint: not tolerated: os=windows:NoSchedule of pool web-2022. The DaemonSet controller makes no pod for a node with a taint that its template does not tolerate, and does not look at a RuntimeClass. | add the toleration to the template of the DaemonSet");
    let in_conflict = format!(
        "{windows}, runtimeClassName: windows-ltsc2022, nodeSelector: {{node.kubernetes.io/windows-build: 10.0.17763}}"
    );
    insta::assert_snapshot!(told(&pod("Pod", &in_conflict, core_2019)), @"placement-conflict: the pod asks for node.kubernetes.io/windows-build=10.0.17763, and RuntimeClass windows-ltsc2022 for node.kubernetes.io/windows-build=10.0.20348. A node of one system does not run a pod of the other, and the API server refuses a nodeSelector that contradicts the RuntimeClass. | make them agree");
    let unsaid = pod("Pod", "tolerations: [{key: os, operator: Exists}]", "a:1");
    insta::assert_snapshot!(told(&unsaid), @"linux-tolerance: this pod may be put onto the nodes of pool web-2019. A taint is all that keeps it off Windows nodes, where its image cannot run, and it tolerates that taint. | write nodeSelector: {kubernetes.io/os: linux}, or windows where its image is for Windows");
}

use std::sync::Arc;

use serde_json::{Value, json};
use winpool_core::kubernetes::WorkloadName;
use winpool_facts::{
    containerd::RELEASE_LINES,
    known_issues::{ServiceFeature, known_issue},
};
use winpool_workload::{Pod, Shared};

use super::*;

fn node(name: &str, kubelet: &str, runtime: &str, kernel: &str) -> WindowsNode {
    let info = json!({"kernelVersion": kernel, "kubeletVersion": kubelet, "containerRuntimeVersion": runtime});
    let node = json!({"metadata": {"name": name}, "status": {"nodeInfo": info}});
    serde_json::from_value::<k8s_openapi::api::core::v1::Node>(node).unwrap().into()
}

/// Versions without a known issue, as of the tables.
const KUBELET: &str = "v1.37.0";
const CONTAINERD: &str = "containerd://2.4.2";
const KERNEL: &str = "10.0.20348.5870";

fn with(features: &[PodFeature]) -> PoolWorkloads {
    let workload = WorkloadName { kind: "Deployment".into(), namespace: "shop".into(), name: "web".into() };
    let workloads = BTreeSet::from([Arc::new(workload)]);
    PoolWorkloads {
        features: features.iter().map(|feature| (*feature, workloads.clone())).collect(),
        ..PoolWorkloads::default()
    }
}

/// Pods with kube-proxy 1.33.0, and Services with these features; `None` if Services are not read.
fn with_services(features: Option<&[ServiceFeature]>) -> PoolWorkloads {
    let services = |feature: &ServiceFeature| (*feature, BTreeSet::from(["shop/web".into()]));
    PoolWorkloads {
        services: features.map(|features| features.iter().map(services).collect()),
        ..with_component("sigwindowstools/kube-proxy:v1.33.0-flannel-hostprocess")
    }
}

fn with_component(image: &str) -> PoolWorkloads {
    PoolWorkloads { components: BTreeSet::from([NodeComponent::of_image(image).unwrap()]), ..PoolWorkloads::default() }
}

fn answer(id: &str, node: &WindowsNode, pods: Option<&PoolWorkloads>) -> String {
    match of_node(known_issue(id).unwrap(), node, pods) {
        Answer::Affected(Version { installed, fixed }) => {
            format!("{:?} -> {:?}", installed.0, fixed.map(|fixed| fixed.0))
        }
        Answer::Unaffected => "unaffected".to_owned(),
        Answer::NotDeterminable(missing) => missing.to_string(),
    }
}

#[test]
fn an_issue_needs_an_affected_version_and_its_precondition_and_names_the_input_that_is_missing() {
    let (none, exec) = (with(&[]), with(&[PodFeature::ExecProbe]));
    let (claims, in_tree) = (with(&[PodFeature::VolumeClaim]), with(&[PodFeature::InTreeVolume]));
    let proxy = with_services(None);
    let [unused, local, dual] = [&[][..], &[ServiceFeature::InternalTrafficLocal], &[ServiceFeature::DualStack]]
        .map(|used| with_services(Some(used)));
    let services = PoolWorkloads { components: BTreeSet::new(), ..unused.clone() };
    let kubelet = |version| node("win-1", version, CONTAINERD, KERNEL);
    let runtime = |version| node("win-1", KUBELET, version, KERNEL);
    let kernel = |version| node("win-1", KUBELET, CONTAINERD, version);
    let calico = "it depends on a network of Calico";
    let table = [
        ("CVE-2023-3676", kubelet("v1.27.4"), Some(&none), "[1, 27, 4] -> Some([1, 27, 5])"),
        ("CVE-2023-3676", kubelet("v1.27.5"), Some(&none), "unaffected"),
        ("CVE-2023-3676", kubelet("unknown"), None, "the version of kubelet is not known"),
        ("CVE-2023-5528", kubelet("v1.28.3"), Some(&none), "unaffected"),
        ("CVE-2023-5528", kubelet("v1.28.3"), Some(&in_tree), "[1, 28, 3] -> Some([1, 28, 4])"),
        ("CVE-2023-5528", kubelet("v1.28.3"), Some(&claims), "the PersistentVolumes of claims are not read"),
        ("CVE-2023-5528", kubelet("v1.28.3"), None, "pods are not read"),
        ("CVE-2023-5528", kubelet("v1.28.4"), None, "unaffected"),
        ("hcsshim-1574", runtime("containerd://1.6.12"), Some(&exec), "[0, 9, 5] -> Some([0, 9, 6])"),
        ("hcsshim-1574", runtime("containerd://1.6.13"), Some(&exec), "unaffected"),
        ("hcsshim-1574", runtime("containerd://1.6.12"), Some(&none), "unaffected"),
        ("hcsshim-1574", runtime("containerd://1.4.13"), Some(&exec), "the version of hcsshim is not known"),
        ("hcsshim-1574", runtime("docker://20.10.9"), Some(&exec), "unaffected"),
        ("hcsshim-1574", runtime("cri-o://1.30.0"), Some(&exec), "the version of hcsshim is not known"),
        ("KB5040437", kernel("10.0.20348.2582"), Some(&none), calico),
        ("KB5040437", kernel("10.0.20348.2762"), Some(&none), "unaffected"),
        ("KB5040437", kernel("10.0.20348"), Some(&none), "the version of Windows is not known"),
        ("kubernetes-131427", kubelet(KUBELET), Some(&proxy), "[1, 33, 0] -> Some([1, 33, 1])"),
        (
            "kubernetes-131427",
            kubelet(KUBELET),
            Some(&none),
            "no pod of the pool has an image of kube-proxy with a version",
        ),
        ("kubernetes-134031", kubelet(KUBELET), Some(&proxy), "Services are not read"),
        ("kubernetes-134031", kubelet(KUBELET), None, "no pod of the pool has an image of kube-proxy with a version"),
        ("kubernetes-134031", kubelet(KUBELET), Some(&local), "[1, 33, 0] -> Some([1, 33, 6])"),
        ("kubernetes-134031", kubelet(KUBELET), Some(&dual), "unaffected"),
        ("kubernetes-134031", kubelet(KUBELET), Some(&unused), "unaffected"),
        ("kubernetes-134031", kubelet(KUBELET), Some(&services), "unaffected"),
        ("kubernetes-136241", kubelet(KUBELET), Some(&proxy), "Services are not read"),
        ("kubernetes-136241", kubelet(KUBELET), Some(&dual), "[1, 33, 0] -> Some([1, 33, 8])"),
        ("kubernetes-136241", kubelet(KUBELET), Some(&local), "unaffected"),
    ];
    for (id, node, pods, expected) in table {
        assert_eq!(answer(id, &node, pods), expected, "{id}");
    }
}

#[test]
fn the_newest_patches_of_supported_versions_have_nothing_to_report() {
    let kubelets = ["v1.34.13", "v1.35.10", "v1.36.6", "v1.37.2"];
    let newest = RELEASE_LINES.iter().filter(|line| line.end_of_life > jiff::civil::date(2026, 11, 26));
    let runtimes: Vec<_> = newest.map(|line| format!("containerd://{}", line.newest)).collect();
    assert!(runtimes.len() > 1);
    let kernels = ["10.0.17763.9487", "10.0.20348.5870", "10.0.26100.33650"];
    let common = [PodFeature::ExecProbe, PodFeature::HostProcess, PodFeature::VolumeClaim, PodFeature::PostStartHook];
    for (kubelet, runtime) in
        kubelets.into_iter().flat_map(|kubelet| runtimes.iter().map(move |runtime| (kubelet, runtime)))
    {
        for kernel in kernels {
            let node = node("win-1", kubelet, runtime, kernel);
            let proxy = format!("kube-proxy:{kubelet}");
            let pods = PoolWorkloads { components: with_component(&proxy).components, ..with(&common) };
            let reported: Vec<_> = check([&node], Some(&pods)).into_iter().filter(FoundIssue::is_reported).collect();
            assert_eq!(reported, [], "{kubelet} {runtime} {kernel}");
        }
    }
}

#[test]
fn a_message_has_the_nodes_the_versions_what_the_pods_use_and_the_remedy() {
    let nodes = [node("win-1", "v1.36.2", CONTAINERD, KERNEL), node("win-2", "v1.36.1", CONTAINERD, KERNEL)];
    let pods = with(&[PodFeature::SubPaths]);
    let found = check(&nodes, Some(&pods));
    let messages: Vec<_> = found.iter().filter(|one| one.is_reported()).map(|one| one.message(Some(&pods))).collect();
    assert_eq!(
        messages,
        [
            "kubernetes-112630 (medium): pods with several subPath mounts stay Terminating, because handles to files are \
             leaked. 2 nodes run kubelet v1.36.1, v1.36.2, with several subPath mounts in Deployment shop/web. Upgrade \
             kubelet to v1.37.0 or later, or mount at most one subPath for each pod",
            "kubernetes-140066 (medium): the kubelet leaks memory with each sync of a pod. 2 nodes run kubelet v1.36.1, \
             v1.36.2. Upgrade kubelet to v1.36.3 or later, or restart the kubelet regularly",
        ]
    );
    let one = [node("win-1", KUBELET, "containerd://1.6.12", KERNEL)];
    let exec = with(&[PodFeature::ExecProbe]);
    let shim = check(&one, Some(&exec)).into_iter().find(|one| one.issue.entry.code == "hcsshim-1574").unwrap();
    assert_eq!(
        shim.message(Some(&exec)),
        "hcsshim-1574 (medium): each exec probe leaks memory of its containerd-shim-runhcs-v1.exe. 1 node runs hcsshim \
         0.9.5, with exec probes in Deployment shop/web. Upgrade containerd to 1.6.13 or later, or use `httpGet` or \
         `tcpSocket` probes"
    );
    let local = with_services(Some(&[ServiceFeature::InternalTrafficLocal]));
    let deleted =
        check(&one, Some(&local)).into_iter().find(|one| one.issue.entry.code == "kubernetes-134031").unwrap();
    assert_eq!(
        deleted.message(Some(&local)),
        "kubernetes-134031 (medium): the load balancers of Services with `internalTrafficPolicy: Local` are deleted at times. \
         1 node runs kube-proxy v1.33.0, with `internalTrafficPolicy: Local` in Service shop/web. Upgrade kube-proxy to \
         v1.33.6 or later, or use `internalTrafficPolicy: Cluster`"
    );
    let leak = known_issue("containerd-12781").unwrap();
    assert!(remedy(leak, [None]).starts_with("No released version is known to fix it. Use `httpGet`"));
}

#[test]
fn an_upgrade_ends_and_begins_issues_of_the_kubelet_and_kube_proxy() {
    let (none, paths) = (with(&[]), with(&[PodFeature::SubPaths]));
    let (old, new) = (with_component("kube-proxy:v1.33.7"), with_component("kube-proxy:v1.34.4"));
    let version = |minor, patch| ComponentVersion([1, minor, patch]);
    let table = [
        ("CVE-2024-9042", "v1.31.4", &none, 32, Some(AfterUpgrade::Ends(version(32, 1)))),
        ("CVE-2024-9042", "v1.31.4", &none, 33, Some(AfterUpgrade::Ends(version(33, 0)))),
        ("CVE-2024-9042", "v1.31.5", &none, 32, Some(AfterUpgrade::BeginsBelow(version(32, 1)))),
        ("CVE-2024-9042", "v1.32.1", &none, 32, None),
        ("kubernetes-112630", "v1.35.7", &paths, 36, None),
        ("kubernetes-112630", "v1.36.3", &paths, 37, Some(AfterUpgrade::Ends(version(37, 0)))),
        ("kubernetes-112630", "v1.36.3", &none, 37, None),
        ("kubernetes-138727", "v1.30.9", &none, 31, None),
        ("kubernetes-135631", "v1.33.7", &old, 34, Some(AfterUpgrade::BeginsBelow(version(34, 4)))),
        ("kubernetes-135631", "v1.33.7", &none, 34, None),
        ("kubernetes-135631", "v1.33.7", &new, 35, Some(AfterUpgrade::BeginsBelow(version(35, 1)))),
        ("hcsshim-1574", "v1.33.7", &none, 34, None),
    ];
    for (id, kubelet, pods, target, expected) in table {
        let node = node("win-1", kubelet, CONTAINERD, KERNEL);
        let after = after_upgrade(known_issue(id).unwrap(), &node, Some(pods), Minor(target));
        assert_eq!(after, expected, "{id} from {kubelet} to 1.{target}");
    }
}

#[test]
fn the_components_of_pods_are_those_of_their_containers() {
    let pod = |image: &str| -> Value {
        json!({"metadata": {"name": "a", "namespace": "b"}, "spec": {"containers": [{"name": "c", "image": image}]}})
    };
    let table: [(_, &[(NodeComponent, ComponentVersion)]); 2] = [
        ("registry.example/kube-proxy:v1.35.1", &[(NodeComponent::KubeProxy, ComponentVersion([1, 35, 1]))]),
        ("registry.example/web:v1.35.1", &[]),
    ];
    for (image, expected) in table {
        let read = Pod::read(serde_json::from_value(pod(image)).unwrap(), &mut Shared::default());
        assert_eq!(read.template.components, expected, "{image}");
    }
}

//! What the host compute services and a registry answer to `containerd.exe` arrives as an event of a pod, and `winpool doctor` names its
//! symptom. The texts are in `tests/all/doctor/recorded.yaml` too.

use e2e::{
    certificates::Authority,
    images::{ManifestFormat, Repository, on, windows},
    registry::{Access, Registry},
    windows_node::KUBELET_CONFIG,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::DeleteParams;
use serde_json::{Value, json};
use winpool_facts::containerd::CERTS_D;
use winpool_render::hosts;

use crate::a_windows_node::{Fixture, condition};

const LOW_MEMORY: &str = "kubelet has insufficient memory available";
const NETWORK: &str = r"C:\Program Files\containerd\cni\conf\10-pods.conflist";

/// The pods of a class, each with: what the host compute services answer, the text of its event, and its symptom.
const WITH_NETWORK: &[(&str, &[&str], &str, &str)] = &[
    // Windows has a text for this code, Wine has none.
    ("unsupported-switch", &["HcnCreateNamespace 803b0013"], "#2151350291 (0x803b0013)", "hns-endpoint"),
    ("no-element", &["HcnCreateNamespace 80070490"], "failed in Win32: Element not found. (0x490)", "hns-endpoint"),
    ("no-plugin", &[], r#"failed to find plugin "win-bridge" in path"#, "cni-plugin-missing"),
];

/// Pods on the network of the host, each with: the version of Windows of the pause image, and the same. Later ones have the image.
const ON_THE_HOST: &[(&str, Option<&str>, &[&str], &str, &str)] = &[
    ("no-image", None, &[], "failed to resolve image", "pause-image-unavailable"),
    ("other-build", Some("10.0.17763.1"), &[], "no match for platform in manifest", "pause-image-mismatch"),
    (
        "refused-layer",
        Some("10.0.20348.1"),
        &["ProcessBaseImage 80070490"],
        "hcsshim::ProcessBaseLayer",
        "pause-image-unavailable",
    ),
    ("no-shim", None, &[], r#"binary not installed "containerd-shim-runhcs-v1.exe""#, "sandbox-other"),
];

/// Pushes a pause image with one layer for a version of Windows.
async fn push(repository: &Repository, version: &str) {
    let platform = windows(version);
    // An empty archive.
    let layer = repository.blob("application/vnd.oci.image.layer.v1.tar", &[0; 1024]).await.unwrap();
    let image = repository.image_of(None, ManifestFormat::Oci, &platform, &[layer]).await.unwrap();
    repository.index(Some("1"), ManifestFormat::Oci, &[on(image, &platform)]).await.unwrap();
}

fn of_the_class() -> Value {
    json!({"runtimeClassName": "windows-ltsc2022"})
}

fn on_the_host() -> Value {
    let options = json!({"hostProcess": true, "runAsUserName": r"NT AUTHORITY\SYSTEM"});
    json!({"hostNetwork": true, "securityContext": {"windowsOptions": options}, "runtimeClassName": "windows-ltsc2022"})
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_on_a_node_is_named() {
    let registry = Registry::start(&Authority::new().unwrap(), &Access::Anonymous).await.unwrap();
    let host = registry.host();
    let mirror = json!({"registry": host, "endpoints": [format!("https://{host}")], "skipVerify": true});
    let profile = json!({
        "kubelet": {"evictionHard": {"memory.available": "500Mi", "nodefs.available": "1%", "imagefs.available": "1%"}},
        "pauseImage": {"source": "Custom", "repository": format!("{host}/pause"), "tag": "1"},
        "containerd": {"registryMirrors": [mirror]},
    });
    let allow = format!("--allow-hosts=http://{host},{host}");
    let fixture = Fixture::start(profile, &[&allow, "--registry=off"]).await;
    let (_, text) = hosts::hosts(&serde_json::from_value(mirror).unwrap());
    fixture.node.write(&format!(r"{CERTS_D}\{}\hosts.toml", hosts::directory(&host)), &text).unwrap();

    for (pod, answers, text, symptom) in WITH_NETWORK {
        fixture.node.set_answers(answers).unwrap();
        fixture.create_pod(pod, of_the_class()).await;
        fixture.until_event(pod, "FailedCreatePodSandBox", text).await;
        fixture.doctor_finds(&format!("pod/{pod}"), symptom);
    }
    for (pod, image, answers, text, symptom) in ON_THE_HOST {
        fixture.node.set_answers(answers).unwrap();
        if let Some(version) = image {
            push(&registry.repository("pause", None), version).await;
        }
        fixture.create_pod(pod, on_the_host()).await;
        fixture.until_event(pod, "FailedCreatePodSandBox", text).await;
        fixture.doctor_finds(&format!("pod/{pod}"), symptom);
    }
    fixture.cluster.until_condition("web", "OSMismatch", "True", "ImagesCannotRun").await.unwrap();
    a_namespace_that_is_not_removed_keeps_its_pod(&fixture).await;
    conditions_of_the_node_are_named(&fixture).await;
    fixture.operator.stop().await.unwrap();
}

/// `hcn-namespace` of the doctor is about pods that should have been removed for two minutes.
async fn a_namespace_that_is_not_removed_keeps_its_pod(fixture: &Fixture) {
    const POD: &str = "kept";
    fixture.node.set_answers(&["HcnDeleteNamespace 803b0015"]).unwrap();
    fixture.create_pod(POD, of_the_class()).await;
    fixture.until_event(POD, "FailedCreatePodSandBox", "failed to find plugin").await;
    fixture.cluster.namespaced::<Pod>("default").delete(POD, &DeleteParams::default()).await.unwrap();
    fixture.until_event(POD, "FailedKillPod", "hcnDeleteNamespace failed in Win32").await;
    fixture.node.set_answers(&[]).unwrap();
}

async fn conditions_of_the_node_are_named(fixture: &Fixture) {
    let node = &fixture.node;
    let network = node.read(NETWORK).unwrap();
    node.write(NETWORK, "").unwrap();
    fixture.until_node("it has no network", |node| condition(node, "Ready") == "False").await;
    fixture.doctor_finds("node/win-1", "node-cni-not-initialized");
    node.write(NETWORK, &network).unwrap();
    fixture.until_node("it has a network", |node| condition(node, "Ready") == "True").await;

    // From 1.31 on, a kubelet measures memory by what Windows has committed, and not by performance counters.
    let config = node.read(KUBELET_CONFIG).unwrap();
    node.write(KUBELET_CONFIG, &config.replace("memory.available: 500Mi", "memory.available: 99%")).unwrap();
    node.stop_service("kubelet").unwrap();
    node.start_services().unwrap();
    let is_low = |node: &Node| {
        let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions
            .any(|it| it.type_ == "MemoryPressure" && it.status == "True" && it.message.as_deref() == Some(LOW_MEMORY))
    };
    fixture.until_node("its memory is low", is_low).await;
    fixture.doctor_finds("node/win-1", "node-memory-pressure");
}

//! Images that cannot run, according to the error of the container runtime, until the cause is fixed.

use e2e::kubelet::Refusal;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use serde_json::json;

use super::{WorkloadFixture, by_class, of_template, pod};

const NO_MATCH: &str =
    "rpc error: code = NotFound desc = failed to pull and unpack image: no match for platform in manifest: not found";
const HCS: &str = "Failed to create pod sandbox: hcs::CreateComputeSystem 4f2a: \
                   The container operating system does not match the host operating system.: unknown";

#[tokio::test]
async fn the_error_of_the_runtime_is_reported_for_a_deployment_until_it_has_another_image() {
    let fixture = WorkloadFixture::with_one_node("rollout").await;
    let (old, new) = ("example.test/rollout:ltsc2019", "example.test/rollout:ltsc2022");
    fixture.kubelets.refuse(old, Refusal::Image(NO_MATCH.to_owned()));
    let template = |image: &str| of_template(pod(image, by_class("rollout")));
    let mut spec = template(old);
    spec["replicas"] = json!(2);
    fixture.create::<Deployment>("app", spec).await;

    fixture.until_counts([2, 2, 0, 0]).await;
    let message = fixture.until_images_cannot_run().await;
    let expected = format!(
        "Deployment rollout/app: {old} does not run on 10.0.20348.2700: the container runtime reports: no match for \
         platform in manifest. According to its name it is for 10.0.17763 (ltsc2019), and the node runs only images for \
         10.0.20348 (ltsc2022). Rebuild it on ltsc2022"
    );
    assert!(message.starts_with(&expected), "{message}");
    let classes = fixture.status("rollout").await.unwrap().workloads.unwrap().runtime_classes;
    assert_eq!(classes, [], "all use the same");
    let warned = fixture.until_warned("app", "ImagesCannotRun").await;
    // The first warning may precede the error of the container runtime.
    assert!(
        warned.starts_with(&format!("WindowsNodePool rollout: {old} ")) && warned.contains("run on 10.0.20348"),
        "{warned}"
    );

    fixture.patch::<Deployment>("app", template(new)).await;
    fixture.until_images_run().await;
    fixture.until_counts([2, 0, 0, 0]).await;
    fixture.until_all_placed().await;
    fixture.check().await;
}

#[tokio::test]
async fn a_sandbox_that_does_not_start_is_reported_by_its_event() {
    let fixture = WorkloadFixture::with_one_node("sandbox").await;
    let image = "example.test/sandbox:1";
    fixture.kubelets.refuse(image, Refusal::Sandbox(HCS.to_owned()));
    fixture.create::<Pod>("app", pod(image, by_class("sandbox"))).await;

    let message = fixture.until_images_cannot_run().await;
    let expected = "Pod sandbox/app: the pod sandbox does not start on 10.0.20348.2700. The container runtime reports: \
                    The container operating system does not match the host operating system. Configure a pause image";
    assert!(message.starts_with(expected), "{message}");
    fixture.until_warned("app", "ImagesCannotRun").await;

    fixture.kubelets.accept(image).await.unwrap();
    fixture.until_images_run().await;
    fixture.check().await;
}

//! Images that cannot run, according to the error of the container runtime, until the cause is fixed.

use e2e::kubelet::Refusal;
use k8s_openapi::api::core::v1::Pod;

use super::{WorkloadFixture, by_class, pod};

const HCS: &str = "Failed to create pod sandbox: hcs::CreateComputeSystem 4f2a: \
                   The container operating system does not match the host operating system.: unknown";

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

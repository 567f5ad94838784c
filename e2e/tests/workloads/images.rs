//! Images that cannot run, from what the runtime says and from what the name suggests, until the cause is mended.

use e2e::kubelet::Refusal;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    batch::v1::Job,
    core::v1::Pod,
};
use serde_json::json;

use crate::{Town, by_class, left_out, nodes_of, of_template, pod, tolerated};

const NO_MATCH: &str =
    "rpc error: code = NotFound desc = failed to pull and unpack image: no match for platform in manifest: not found";
const HCS: &str = "Failed to create pod sandbox: hcs::CreateComputeSystem 4f2a: \
                   The container operating system does not match the host operating system.: unknown";

#[tokio::test]
async fn what_the_runtime_says_of_a_deployment_is_told_until_it_has_another_image() {
    if left_out("what_the_runtime_says_of_a_deployment_is_told_until_it_has_another_image") {
        return;
    }
    let town = Town::with_a_node("rollout").await;
    let (old, new) = ("example.test/rollout:ltsc2019", "example.test/rollout:ltsc2022");
    town.kubelets.refuse(old, Refusal::Image(NO_MATCH.to_owned()));
    let template = |image: &str| of_template(pod(image, by_class("rollout")));
    let mut spec = template(old);
    spec["replicas"] = json!(2);
    town.create::<Deployment>("app", spec).await;

    town.until_counts([2, 2, 0, 0]).await;
    let message = town.until_images_cannot_run().await;
    let expected = format!(
        "Deployment rollout/app: {old} does not run on 10.0.20348.2700, says the runtime: no match for platform in \
         manifest; by its name it is for 10.0.17763 (ltsc2019), the host runs images of 10.0.20348 (ltsc2022) only: \
         rebuild it on ltsc2022"
    );
    assert!(message.starts_with(&expected), "{message}");
    let classes = town.status("rollout").await.unwrap().workloads.unwrap().runtime_classes;
    assert_eq!(classes.iter().map(|class| (class.name.as_str(), class.pods)).collect::<Vec<_>>(), [("rollout", 2)]);
    let warned = town.until_warned("app", "ImagesCannotRun").await;
    // It may have been told before the runtime had said anything.
    assert!(
        warned.starts_with(&format!("WindowsNodePool rollout: {old} ")) && warned.contains("run on 10.0.20348"),
        "{warned}"
    );

    town.patch::<Deployment>("app", template(new)).await;
    town.until_images_run().await;
    town.until_counts([2, 0, 0, 0]).await;
    town.until_placed("True", "Placed").await;
    town.close().await;
}

#[tokio::test]
async fn what_the_runtime_says_of_daemon_sets_and_jobs_is_told_until_the_image_runs() {
    if left_out("what_the_runtime_says_of_daemon_sets_and_jobs_is_told_until_the_image_runs") {
        return;
    }
    let town = Town::with_a_node("said").await;
    let image = "example.test/said:1";
    town.kubelets.refuse(image, Refusal::Image(NO_MATCH.to_owned()));
    let placed = json!({ "nodeSelector": nodes_of("said"), "tolerations": tolerated() });
    town.create::<DaemonSet>("agent", of_template(pod(image, placed.clone()))).await;
    let mut job = pod(image, placed);
    job["restartPolicy"] = json!("Never");
    town.create::<Job>("batch", json!({ "template": { "spec": job } })).await;

    town.until_counts([2, 2, 0, 0]).await;
    let message = town.until_images_cannot_run().await;
    assert!(
        message.starts_with(&format!("DaemonSet said/agent, Job said/batch: {image} does not run on")),
        "{message}"
    );
    for workload in ["agent", "batch"] {
        town.until_warned(workload, "ImagesCannotRun").await;
    }

    town.kubelets.accept(image).await.unwrap();
    town.until_images_run().await;
    town.until_counts([2, 0, 0, 0]).await;
    town.close().await;
}

#[tokio::test]
async fn what_the_name_of_an_image_suggests_is_told_before_the_pod_has_a_node() {
    if left_out("what_the_name_of_an_image_suggests_is_told_before_the_pod_has_a_node") {
        return;
    }
    let town = Town::with_a_node("named").await;
    let mut fields = by_class("named");
    fields["schedulerName"] = json!("nobody");
    town.create::<Pod>("fits", pod("example.test/named:ltsc2022", fields.clone())).await;
    town.create::<Pod>("bare", pod("example.test/named:ltsc2019", fields)).await;

    let message = town.until_images_cannot_run().await;
    let expected = "Pod named/bare: example.test/named:ltsc2019 probably does not run on 10.0.20348.2700: by its name it is for 10.0.17763 (ltsc2019)";
    assert!(message.starts_with(expected), "{message}");
    town.until_counts([2, 0, 1, 1]).await;
    town.until_warned("bare", "ImagesCannotRun").await;

    town.delete::<Pod>("bare").await;
    town.until_images_run().await;
    town.until_counts([1, 0, 0, 1]).await;
    assert_eq!(town.warnings("fits").await.unwrap(), []);
    town.close().await;
}

#[tokio::test]
async fn a_sandbox_that_does_not_start_is_told_of_by_its_event() {
    if left_out("a_sandbox_that_does_not_start_is_told_of_by_its_event") {
        return;
    }
    let town = Town::with_a_node("sandbox").await;
    let image = "example.test/sandbox:1";
    town.kubelets.refuse(image, Refusal::Sandbox(HCS.to_owned()));
    town.create::<Pod>("app", pod(image, by_class("sandbox"))).await;

    let message = town.until_images_cannot_run().await;
    let expected = "Pod sandbox/app: its sandbox does not start on 10.0.20348.2700, says the runtime: \
                    The container operating system does not match the host operating system.: configure a pause image";
    assert!(message.starts_with(expected), "{message}");
    town.until_warned("app", "ImagesCannotRun").await;

    town.kubelets.accept(image).await.unwrap();
    town.until_images_run().await;
    town.close().await;
}

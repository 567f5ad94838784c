//! Workload issues and their effect on the real scheduler and the real controllers, until the cause is fixed.

use std::time::Duration;

use e2e::{
    cluster::SOON,
    wait::{stays, until},
};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::Pod,
};
use serde_json::json;

use super::{WorkloadFixture, nodes_of, of_template, phases, pod, tainted, tolerated};

const IMAGE: &str = "example.test/app:1";

impl WorkloadFixture {
    /// Waits until the pods of the namespace are on these nodes, and run.
    async fn until_running_on(&self, nodes: &[&str]) {
        let mut expected: Vec<_> = nodes.iter().map(|node| ((*node).to_owned(), "Running".to_owned())).collect();
        expected.sort();
        let places = || async {
            let mut places = phases(self.all::<Pod>()).await?;
            places.sort();
            Ok(places)
        };
        until(&format!("pods run on {nodes:?}"), SOON, places, |places| *places == expected).await.unwrap();
    }

    /// Waits until the DaemonSet controller has observed the present generation and wants this number of pods.
    async fn until_daemon_set_wants(&self, name: &str, pods: i32) {
        let wants = || async {
            let set = self.all::<DaemonSet>().get(name).await?;
            let status = set.status.unwrap_or_default();
            let seen = status.observed_generation == set.metadata.generation;
            Ok((seen, status.desired_number_scheduled))
        };
        until(&format!("{name} wants {pods} pods"), SOON, wants, |wants| *wants == (true, pods)).await.unwrap();
    }
}

#[tokio::test]
async fn a_daemon_set_that_relies_on_its_class_gets_no_pod_until_its_template_has_the_selector() {
    // A build that no other fixture has, so that the class selects only the nodes of this fixture.
    let nodes = vec![tainted("relies", 1, "10.0.26100.4652")];
    let fixture = WorkloadFixture::new("relies", nodes, json!({ "windowsVersion": "ltsc2025" })).await;
    fixture.create::<DaemonSet>("agent", of_template(pod(IMAGE, json!({ "runtimeClassName": "relies" })))).await;

    let message = fixture.until_placed("False", "DaemonSetIgnoresRuntimeClass").await;
    let expected = "DaemonSet relies/agent: relies on RuntimeClass relies, whose selector and tolerations the DaemonSet controller ignores";
    assert!(message.starts_with(expected), "{message}");
    fixture.until_warned("agent", "DaemonSetIgnoresRuntimeClass").await;
    fixture.until_daemon_set_wants("agent", 0).await;
    let places = || phases(fixture.all::<Pod>());
    stays("it gets no pod", Duration::from_secs(2), places, Vec::is_empty).await.unwrap();

    let mended = json!({ "nodeSelector": nodes_of("relies"), "tolerations": tolerated() });
    fixture.patch::<DaemonSet>("agent", json!({ "template": { "spec": mended } })).await;
    fixture.until_running_on(&["relies-1"]).await;
    fixture.until_all_placed().await;
    fixture.check().await;
}

#[tokio::test]
async fn a_daemon_set_without_the_toleration_gets_no_pod_until_it_has_it() {
    let fixture = WorkloadFixture::with_one_node("barred").await;
    fixture.create::<DaemonSet>("agent", of_template(pod(IMAGE, json!({ "nodeSelector": nodes_of("barred") })))).await;
    let message = fixture.until_placed("False", "DaemonSetNotTolerating").await;
    assert!(message.contains("it does not tolerate os=windows:NoSchedule. Add the toleration"), "{message}");
    fixture.until_warned("agent", "DaemonSetNotTolerating").await;
    fixture.until_daemon_set_wants("agent", 0).await;

    fixture.patch::<DaemonSet>("agent", json!({ "template": { "spec": { "tolerations": tolerated() } } })).await;
    fixture.until_running_on(&["barred-1"]).await;
    fixture.until_all_placed().await;
    fixture.check().await;
}

#[tokio::test]
async fn a_linux_workload_can_be_scheduled_to_a_windows_node_until_it_selects_linux() {
    let fixture = WorkloadFixture::with_one_node("lands").await;
    let fields = json!({ "nodeSelector": { "agentpool": "lands" }, "tolerations": [{ "operator": "Exists" }] });
    fixture.create::<Deployment>("app", of_template(pod(IMAGE, fields))).await;
    fixture.until_running_on(&["lands-1"]).await;
    let message = fixture.until_placed("False", "LinuxPodMayLand").await;
    assert!(message.ends_with("Select kubernetes.io/os=linux"), "{message}");
    fixture.until_warned("app", "LinuxPodMayLand").await;

    let linux = json!({ "nodeSelector": { "kubernetes.io/os": "linux" } });
    fixture
        .patch::<Deployment>(
            "app",
            json!({ "strategy": { "type": "Recreate", "rollingUpdate": null }, "template": { "spec": linux } }),
        )
        .await;
    fixture.until_all_placed().await;
    fixture.check().await;
}

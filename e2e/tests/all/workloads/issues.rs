//! Workload issues and their effect on the real scheduler and the real controllers, until the cause is fixed.

use std::time::Duration;

use e2e::{
    cluster::{SOON, create},
    wait::{stays, until},
};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::Pod,
};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::{WorkloadFixture, by_class, nodes_of, of_template, phases, pod, tainted, tolerated, until_warned};

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

#[tokio::test]
async fn a_linux_pod_on_a_windows_node_is_reported_until_it_is_deleted() {
    let fixture = WorkloadFixture::with_one_node("stray").await;
    // A pod with nodeName bypasses the scheduler.
    let fields = json!({ "nodeName": "stray-1", "nodeSelector": { "kubernetes.io/os": "linux" } });
    fixture.create::<Pod>("app", pod(IMAGE, fields)).await;
    let message = fixture.until_placed("False", "LinuxPodOnWindowsNode").await;
    assert!(message.contains("Pod stray/app: is for Linux and runs on a Windows node"), "{message}");
    fixture.until_warned("app", "LinuxPodOnWindowsNode").await;
    fixture.delete::<Pod>("app").await;
    fixture.until_all_placed().await;
    fixture.check().await;
}

#[tokio::test]
async fn a_pod_that_could_not_be_rescheduled_is_reported_until_it_tolerates_the_taint() {
    let fixture = WorkloadFixture::with_one_node("returns").await;
    let fields = json!({ "nodeSelector": nodes_of("returns"), "tolerations": tolerated() });
    fixture.create::<Deployment>("app", of_template(pod(IMAGE, fields))).await;
    fixture.until_running_on(&["returns-1"]).await;
    fixture.until_counts([1, 0, 0, 0]).await;
    fixture.until_all_placed().await;

    let taint = |key: &str| json!({ "key": key, "value": "windows", "effect": "NoSchedule" });
    fixture.edit_pool("returns", json!({ "spec": { "taints": [taint("os"), taint("dedicated")] } })).await.unwrap();
    // The taint waits for the pod.
    let message = fixture.until_placed("False", "NotReschedulable").await;
    let is_running = "Deployment returns/app: is running and would not be scheduled here after a restart";
    assert!(message.contains(is_running), "{message}");
    let taint = "it does not tolerate dedicated=windows:NoSchedule";
    assert!(message.contains(&format!("{taint}, which the pool has not set yet")), "{message}");
    fixture.until_condition("returns", "NodesTainted", "False", "WouldStrandPods").await.unwrap();
    fixture.annotate_pool("returns", "winpool.dev/allow-pending", "dedicated").await.unwrap();
    let message = fixture.until_placed("False", "Unschedulable").await;
    assert!(message.contains(&format!("NotReschedulable: {is_running}")), "{message}");
    assert!(message.contains(taint), "{message}");
    for reason in ["Unschedulable", "NotReschedulable"] {
        fixture.until_warned("app", reason).await;
    }

    let both = json!([{ "key": "os", "operator": "Exists" }, { "key": "dedicated", "operator": "Exists" }]);
    fixture.patch::<Deployment>("app", json!({ "template": { "spec": { "tolerations": both } } })).await;
    fixture.until_all_placed().await;
    fixture.until_running_on(&["returns-1"]).await;
    fixture.check().await;
}

#[tokio::test]
async fn an_unschedulable_workload_is_reported_while_its_pods_are_pending() {
    let fixture = WorkloadFixture::with_one_node("waits").await;
    let with = |more: Value| {
        let mut selector = nodes_of("waits");
        selector["disk"] = more;
        json!({ "runtimeClassName": "waits", "nodeSelector": selector })
    };
    fixture.create::<Deployment>("app", of_template(pod(IMAGE, with(json!("ssd"))))).await;
    fixture.create::<Pod>("bare", pod(IMAGE, with(json!("ssd")))).await;
    let message = fixture.until_placed("False", "Unschedulable").await;
    assert!(
        message.contains("the nodes of pool waits do not have disk=ssd. Correct nodeSelector or affinity"),
        "{message}"
    );
    for workload in ["app", "bare"] {
        fixture.until_warned(workload, "Unschedulable").await;
    }
    let waits = |places: &Vec<(String, String)>| places.iter().all(|(_, phase)| phase == "Pending");
    stays("it waits", Duration::from_secs(1), || phases(fixture.all::<Pod>()), waits).await.unwrap();

    fixture.patch::<Deployment>("app", json!({ "template": { "spec": { "nodeSelector": { "disk": null } } } })).await;
    fixture.delete::<Pod>("bare").await;
    fixture.until_running_on(&["waits-1"]).await;
    fixture.until_all_placed().await;
    fixture.check().await;
}

#[tokio::test]
async fn a_workload_that_no_pool_can_run_is_reported_at_the_closest_pool() {
    let fixture = WorkloadFixture::with_one_node("refused").await;
    let of_docker = json!({
        "metadata": { "name": "refused-docker" }, "handler": "docker",
        "scheduling": { "nodeSelector": nodes_of("refused"), "tolerations": tolerated() },
    });
    create(&fixture.classes(), of_docker).await.unwrap();
    let elsewhere = json!({
        "runtimeClassName": "refused", "nodeSelector": { "node.kubernetes.io/windows-build": "10.0.14393" },
    });
    let cases = [
        (
            "handler",
            json!({ "runtimeClassName": "refused-docker" }),
            "does not have handler docker of RuntimeClass refused-docker",
        ),
        (
            "conflict",
            elsewhere,
            "nodeSelector has node.kubernetes.io/windows-build=10.0.14393 and RuntimeClass refused has",
        ),
    ];
    for (name, fields, part) in cases {
        fixture.create::<Deployment>(name, of_template(pod(IMAGE, fields))).await;
        fixture.until_warned(name, "Unschedulable").await;
        let message = fixture.until_placed("False", "Unschedulable").await;
        assert!(message.contains(part), "{name}: {message}");
        fixture.delete::<Deployment>(name).await;
        fixture.until_all_placed().await;
    }
    fixture.classes().delete("refused-docker", &DeleteParams::default()).await.unwrap();
    fixture.check().await;
}

#[tokio::test]
async fn a_field_that_windows_ignores_is_reported_until_it_is_removed() {
    let fixture = WorkloadFixture::with_one_node("fields").await;
    let mut app = pod(IMAGE, by_class("fields"));
    app["shareProcessNamespace"] = json!(true);
    fixture.create::<Deployment>("app", of_template(app)).await;
    fixture.until_warned("app", "FieldsWithoutEffect").await;
    let message = fixture.until_placed("True", "PlacedWithWarnings").await;
    assert!(message.contains("shareProcessNamespace. Remove them"), "{message}");

    fixture.patch::<Deployment>("app", json!({ "template": { "spec": { "shareProcessNamespace": null } } })).await;
    fixture.until_all_placed().await;
    fixture.check().await;
}

#[tokio::test]
async fn a_taint_that_an_observing_pool_would_set_is_reported_beforehand() {
    let fixture = WorkloadFixture::with_one_node("looks").await;
    let fields = json!({ "nodeSelector": nodes_of("looks"), "tolerations": tolerated() });
    fixture.create::<Deployment>("app", of_template(pod(IMAGE, fields))).await;
    fixture.until_running_on(&["looks-1"]).await;
    let taint = |key: &str| json!({ "key": key, "value": "windows", "effect": "NoSchedule" });
    fixture
        .edit_pool("looks", json!({ "spec": { "mode": "Observe", "taints": [taint("os"), taint("dedicated")] } }))
        .await
        .unwrap();
    let message = fixture.until_placed("False", "NotReschedulable").await;
    assert!(
        message.contains("it does not tolerate dedicated=windows:NoSchedule, which the pool has not set yet"),
        "{message}"
    );
    fixture.until_warned("app", "NotReschedulable").await;

    fixture.edit_pool("looks", json!({ "spec": { "taints": [taint("os")] } })).await.unwrap();
    fixture.until_all_placed().await;
    fixture.check().await;
}

#[tokio::test]
async fn a_pod_with_a_former_selector_of_its_class_is_reported_until_it_is_recreated() {
    let nodes = vec![
        tainted("carries", 1, super::SERVER_2022).label("ring", "first"),
        tainted("carries", 2, super::SERVER_2022).label("ring", "second"),
    ];
    let fixture = WorkloadFixture::new("carries", nodes, json!({})).await;
    let class = |ring: &str| {
        let mut selector = nodes_of("carries");
        selector["ring"] = json!(ring);
        json!({
            "metadata": { "name": "carries-own" }, "handler": "runhcs-wcow-process",
            "scheduling": { "nodeSelector": selector, "tolerations": tolerated() },
        })
    };
    create(&fixture.classes(), class("first")).await.unwrap();
    fixture.create::<Deployment>("app", of_template(pod(IMAGE, json!({ "runtimeClassName": "carries-own" })))).await;
    fixture.until_running_on(&["carries-1"]).await;

    fixture.classes().delete("carries-own", &DeleteParams::default()).await.unwrap();
    create(&fixture.classes(), class("second")).await.unwrap();
    let message = fixture.until_placed("False", "RuntimeClassChanged").await;
    assert!(
        message.contains(
            "was created when RuntimeClass carries-own selected ring=first, and the class now selects ring=second"
        ),
        "{message}"
    );
    fixture.until_warned("app", "RuntimeClassChanged").await;

    let all = Default::default();
    fixture.all::<Pod>().delete_collection(&DeleteParams::default(), &all).await.unwrap();
    fixture.until_running_on(&["carries-2"]).await;
    fixture.until_all_placed().await;
    fixture.check().await;
}

#[tokio::test]
async fn memory_limits_above_the_memory_of_the_node_are_reported_on_the_node() {
    let fixture = WorkloadFixture::with_one_node("memory").await;
    let app = |limit: &str| {
        let mut app = pod(IMAGE, by_class("memory"));
        app["containers"][0]["resources"]["limits"]["memory"] = json!(limit);
        of_template(app)
    };
    fixture.create::<Deployment>("app", app("64Gi")).await;
    let message = fixture.until_placed("False", "MemoryOvercommitted").await;
    assert!(message.starts_with("Node memory-1: has"), "{message}");
    until_warned(&fixture, "default", "memory-1", "MemoryOvercommitted").await;
    fixture.until_warned("app", "MemoryNotReserved").await;

    fixture.patch::<Deployment>("app", app("2Gi")).await;
    fixture.until_placed("True", "PlacedWithWarnings").await;
    fixture.patch::<Deployment>("app", app("1Gi")).await;
    fixture.until_all_placed().await;
    fixture.check().await;
}

//! The traps, as the real scheduler and the real controllers spring them, until the cause is mended.

use std::time::Duration;

use e2e::wait::{stays, until};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::Pod,
    node::v1::RuntimeClass,
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

use crate::{Town, by_class, common::SOON, guarded, left_out, nodes_of, of_template, phases, pod, tolerated, warnings};

const IMAGE: &str = "example.test/app:1";

impl Town {
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

    /// The DaemonSet controller has looked at this generation and makes so many pods.
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
async fn a_daemon_set_that_relies_on_its_class_gets_no_pod_until_its_template_says_the_same() {
    if left_out("a_daemon_set_that_relies_on_its_class_gets_no_pod_until_its_template_says_the_same") {
        return;
    }
    // A build of its own: the class leads to the nodes of this scene alone.
    let nodes = vec![guarded("relies", 1, "10.0.26100.4652")];
    let town = Town::open("relies", nodes, json!({ "windowsVersion": "ltsc2025" })).await;
    town.create::<DaemonSet>("agent", of_template(pod(IMAGE, json!({ "runtimeClassName": "relies" })))).await;

    let message = town.until_placed("False", "DaemonSetIgnoresRuntimeClass").await;
    let expected = "DaemonSet relies/agent: relies on RuntimeClass relies, of which the DaemonSet controller ignores";
    assert!(message.starts_with(expected), "{message}");
    town.until_warned("agent", "DaemonSetIgnoresRuntimeClass").await;
    town.until_daemon_set_wants("agent", 0).await;
    let places = || phases(town.all::<Pod>());
    stays("it gets no pod", Duration::from_secs(2), places, Vec::is_empty).await.unwrap();

    let mended = json!({ "nodeSelector": nodes_of("relies"), "tolerations": tolerated() });
    town.patch::<DaemonSet>("agent", json!({ "template": { "spec": mended } })).await;
    town.until_running_on(&["relies-1"]).await;
    town.until_placed("True", "Placed").await;
    town.close().await;
}

#[tokio::test]
async fn a_daemon_set_without_the_toleration_gets_no_pod_until_it_has_it() {
    if left_out("a_daemon_set_without_the_toleration_gets_no_pod_until_it_has_it") {
        return;
    }
    let town = Town::with_a_node("barred").await;
    town.create::<DaemonSet>("agent", of_template(pod(IMAGE, json!({ "nodeSelector": nodes_of("barred") })))).await;
    let message = town.until_placed("False", "DaemonSetNotTolerating").await;
    assert!(message.contains("it does not tolerate os=windows:NoSchedule: add the toleration"), "{message}");
    town.until_warned("agent", "DaemonSetNotTolerating").await;
    town.until_daemon_set_wants("agent", 0).await;

    town.patch::<DaemonSet>("agent", json!({ "template": { "spec": { "tolerations": tolerated() } } })).await;
    town.until_running_on(&["barred-1"]).await;
    town.until_placed("True", "Placed").await;
    town.close().await;
}

#[tokio::test]
async fn a_workload_for_linux_lands_on_a_windows_node_until_it_selects_linux() {
    if left_out("a_workload_for_linux_lands_on_a_windows_node_until_it_selects_linux") {
        return;
    }
    let town = Town::with_a_node("lands").await;
    let fields = json!({ "nodeSelector": { "test": "lands" }, "tolerations": [{ "operator": "Exists" }] });
    town.create::<Deployment>("app", of_template(pod(IMAGE, fields))).await;
    town.until_running_on(&["lands-1"]).await;
    let message = town.until_placed("False", "LinuxPodMayLand").await;
    assert!(message.ends_with("select kubernetes.io/os=linux"), "{message}");
    town.until_warned("app", "LinuxPodMayLand").await;

    let linux = json!({ "nodeSelector": { "kubernetes.io/os": "linux" } });
    town.patch::<Deployment>(
        "app",
        json!({ "strategy": { "type": "Recreate", "rollingUpdate": null }, "template": { "spec": linux } }),
    )
    .await;
    town.until_placed("True", "Placed").await;
    town.close().await;
}

#[tokio::test]
async fn a_linux_pod_that_is_on_a_windows_node_is_told_until_it_is_deleted() {
    if left_out("a_linux_pod_that_is_on_a_windows_node_is_told_until_it_is_deleted") {
        return;
    }
    let town = Town::with_a_node("stray").await;
    // Who names the node passes by the scheduler.
    let fields = json!({ "nodeName": "stray-1", "nodeSelector": { "kubernetes.io/os": "linux" } });
    town.create::<Pod>("app", pod(IMAGE, fields)).await;
    let message = town.until_placed("False", "LinuxPodOnWindowsNode").await;
    assert!(message.contains("Pod stray/app: is for Linux and on a Windows node"), "{message}");
    town.until_warned("app", "LinuxPodOnWindowsNode").await;
    town.delete::<Pod>("app").await;
    town.until_placed("True", "Placed").await;
    town.close().await;
}

#[tokio::test]
async fn a_pod_that_would_not_return_is_told_until_it_tolerates_the_taint() {
    if left_out("a_pod_that_would_not_return_is_told_until_it_tolerates_the_taint") {
        return;
    }
    let town = Town::with_a_node("returns").await;
    let fields = json!({ "nodeSelector": nodes_of("returns"), "tolerations": tolerated() });
    town.create::<Deployment>("app", of_template(pod(IMAGE, fields))).await;
    town.until_running_on(&["returns-1"]).await;
    town.until_counts([1, 0, 0, 0]).await;
    town.until_placed("True", "Placed").await;

    let taint = |key: &str| json!({ "key": key, "value": "windows", "effect": "NoSchedule" });
    town.edit_pool("returns", json!({ "spec": { "taints": [taint("os"), taint("dedicated")] } })).await;
    let message = town.until_placed("False", "NoPoolTakes").await;
    assert!(message.contains("WouldNotReturn: Deployment returns/app: runs, and would not come back"), "{message}");
    assert!(message.contains("it does not tolerate dedicated=windows:NoSchedule"), "{message}");
    for reason in ["NoPoolTakes", "WouldNotReturn"] {
        town.until_warned("app", reason).await;
    }

    let both = json!([{ "key": "os", "operator": "Exists" }, { "key": "dedicated", "operator": "Exists" }]);
    town.patch::<Deployment>("app", json!({ "template": { "spec": { "tolerations": both } } })).await;
    town.until_placed("True", "Placed").await;
    town.until_running_on(&["returns-1"]).await;
    town.close().await;
}

#[tokio::test]
async fn what_no_pool_takes_is_told_while_the_scheduler_keeps_it_waiting() {
    if left_out("what_no_pool_takes_is_told_while_the_scheduler_keeps_it_waiting") {
        return;
    }
    let town = Town::with_a_node("waits").await;
    let with = |more: Value| {
        let mut selector = nodes_of("waits");
        selector["disk"] = more;
        json!({ "runtimeClassName": "waits", "nodeSelector": selector })
    };
    town.create::<Deployment>("app", of_template(pod(IMAGE, with(json!("ssd"))))).await;
    town.create::<Pod>("bare", pod(IMAGE, with(json!("ssd")))).await;
    let message = town.until_placed("False", "NoPoolTakes").await;
    assert!(message.contains("those of pool waits not disk=ssd: correct the selector"), "{message}");
    for workload in ["app", "bare"] {
        town.until_warned(workload, "NoPoolTakes").await;
    }
    let waits = |places: &Vec<(String, String)>| places.iter().all(|(_, phase)| phase == "Pending");
    stays("it waits", Duration::from_secs(1), || phases(town.all::<Pod>()), waits).await.unwrap();

    town.patch::<Deployment>("app", json!({ "template": { "spec": { "nodeSelector": { "disk": null } } } })).await;
    town.delete::<Pod>("bare").await;
    town.until_running_on(&["waits-1"]).await;
    town.until_placed("True", "Placed").await;
    town.close().await;
}

#[tokio::test]
async fn what_the_api_server_refuses_or_no_runtime_can_start_is_told_at_the_pool_that_comes_nearest() {
    if left_out("what_the_api_server_refuses_or_no_runtime_can_start_is_told_at_the_pool_that_comes_nearest") {
        return;
    }
    let town = Town::with_a_node("refused").await;
    let classes = Api::<RuntimeClass>::all(town.client.clone());
    let of_docker = json!({
        "metadata": { "name": "refused-docker" }, "handler": "docker",
        "scheduling": { "nodeSelector": nodes_of("refused"), "tolerations": tolerated() },
    });
    classes.create(&PostParams::default(), &serde_json::from_value(of_docker).unwrap()).await.unwrap();
    let elsewhere = json!({
        "runtimeClassName": "refused", "nodeSelector": { "node.kubernetes.io/windows-build": "10.0.14393" },
    });
    let cases = [
        (
            "handler",
            json!({ "runtimeClassName": "refused-docker" }),
            "has no handler docker of RuntimeClass refused-docker",
        ),
        (
            "conflict",
            elsewhere,
            "it selects node.kubernetes.io/windows-build=10.0.14393 and RuntimeClass refused selects",
        ),
    ];
    for (name, fields, story) in cases {
        town.create::<Deployment>(name, of_template(pod(IMAGE, fields))).await;
        town.until_warned(name, "NoPoolTakes").await;
        let message = town.until_placed("False", "NoPoolTakes").await;
        assert!(message.contains(story), "{name}: {message}");
        town.delete::<Deployment>(name).await;
        town.until_placed("True", "Placed").await;
    }
    classes.delete("refused-docker", &DeleteParams::default()).await.unwrap();
    town.close().await;
}

#[tokio::test]
async fn a_field_that_windows_ignores_is_told_until_it_is_removed() {
    if left_out("a_field_that_windows_ignores_is_told_until_it_is_removed") {
        return;
    }
    let town = Town::with_a_node("fields").await;
    let mut app = pod(IMAGE, by_class("fields"));
    app["shareProcessNamespace"] = json!(true);
    town.create::<Deployment>("app", of_template(app)).await;
    town.until_warned("app", "FieldsWithoutEffect").await;
    let message = town.until_placed("True", "PlacedWithWarnings").await;
    assert!(message.contains("shareProcessNamespace: remove them"), "{message}");

    town.patch::<Deployment>("app", json!({ "template": { "spec": { "shareProcessNamespace": null } } })).await;
    town.until_placed("True", "Placed").await;
    town.close().await;
}

#[tokio::test]
async fn a_taint_that_a_pool_would_set_is_told_of_before_it_is_set() {
    if left_out("a_taint_that_a_pool_would_set_is_told_of_before_it_is_set") {
        return;
    }
    let town = Town::with_a_node("looks").await;
    let fields = json!({ "nodeSelector": nodes_of("looks"), "tolerations": tolerated() });
    town.create::<Deployment>("app", of_template(pod(IMAGE, fields))).await;
    town.until_running_on(&["looks-1"]).await;
    let taint = |key: &str| json!({ "key": key, "value": "windows", "effect": "NoSchedule" });
    town.edit_pool("looks", json!({ "spec": { "mode": "Observe", "taints": [taint("os"), taint("dedicated")] } }))
        .await;
    let message = town.until_placed("False", "WouldNotReturn").await;
    assert!(
        message.contains("it does not tolerate dedicated=windows:NoSchedule, once the pool enforces it"),
        "{message}"
    );
    town.until_warned("app", "WouldNotReturn").await;

    town.edit_pool("looks", json!({ "spec": { "taints": [taint("os")] } })).await;
    town.until_placed("True", "Placed").await;
    town.close().await;
}

#[tokio::test]
async fn a_pod_that_carries_its_class_as_it_was_is_told_until_it_is_made_anew() {
    if left_out("a_pod_that_carries_its_class_as_it_was_is_told_until_it_is_made_anew") {
        return;
    }
    let nodes = vec![
        guarded("carries", 1, crate::SERVER_2022).label("ring", "first"),
        guarded("carries", 2, crate::SERVER_2022).label("ring", "second"),
    ];
    let town = Town::open("carries", nodes, json!({})).await;
    let classes = Api::<RuntimeClass>::all(town.client.clone());
    let class = |ring: &str| {
        let mut selector = nodes_of("carries");
        selector["ring"] = json!(ring);
        let class = json!({
            "metadata": { "name": "carries-own" }, "handler": "runhcs-wcow-process",
            "scheduling": { "nodeSelector": selector, "tolerations": tolerated() },
        });
        serde_json::from_value::<RuntimeClass>(class).unwrap()
    };
    classes.create(&PostParams::default(), &class("first")).await.unwrap();
    town.create::<Deployment>("app", of_template(pod(IMAGE, json!({ "runtimeClassName": "carries-own" })))).await;
    town.until_running_on(&["carries-1"]).await;

    classes.delete("carries-own", &DeleteParams::default()).await.unwrap();
    classes.create(&PostParams::default(), &class("second")).await.unwrap();
    let message = town.until_placed("False", "RuntimeClassChanged").await;
    assert!(message.contains("was created when RuntimeClass carries-own selected ring=first, now second"), "{message}");
    town.until_warned("app", "RuntimeClassChanged").await;

    let all = Default::default();
    town.all::<Pod>().delete_collection(&DeleteParams::default(), &all).await.unwrap();
    town.until_running_on(&["carries-2"]).await;
    town.until_placed("True", "Placed").await;
    town.close().await;
}

#[tokio::test]
async fn more_memory_than_a_node_has_is_told_of_the_node_and_what_is_not_reserved_of_the_workload() {
    if left_out("more_memory_than_a_node_has_is_told_of_the_node_and_what_is_not_reserved_of_the_workload") {
        return;
    }
    let town = Town::with_a_node("memory").await;
    let app = |limit: &str| {
        let mut app = pod(IMAGE, by_class("memory"));
        app["containers"][0]["resources"]["limits"]["memory"] = json!(limit);
        of_template(app)
    };
    town.create::<Deployment>("app", app("64Gi")).await;
    let message = town.until_placed("False", "MemoryOvercommitted").await;
    assert!(message.starts_with("Node memory-1: offers"), "{message}");
    let events = Api::namespaced(town.client.clone(), "default");
    let of_node = || async {
        let warnings = warnings(&events, "memory-1").await?;
        Ok(warnings.into_iter().filter(|(reason, ..)| reason == "MemoryOvercommitted").collect::<Vec<_>>())
    };
    let told = until("the node is warned of", SOON, of_node, |told| !told.is_empty()).await.unwrap();
    assert!(matches!(told.as_slice(), [(.., 1)]), "{told:#?}");
    town.until_warned("app", "MemoryNotReserved").await;

    town.patch::<Deployment>("app", app("2Gi")).await;
    town.until_placed("True", "PlacedWithWarnings").await;
    town.patch::<Deployment>("app", app("1Gi")).await;
    town.until_placed("True", "Placed").await;
    town.close().await;
}

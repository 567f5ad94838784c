//! The scheduling of Pods.

use e2e::{
    cluster::{SOON, create},
    fixture::{Fixture, spec, windows},
    wait::{eventually, until},
};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::with_nodes;

async fn create_pod(fixture: &Fixture, name: &str, class: Option<&str>) {
    let pods = fixture.namespaced::<Pod>("default");
    let pod = json!({
        "metadata": { "name": name },
        "spec": {
            "runtimeClassName": class,
            "nodeSelector": { "place": "here" },
            "containers": [{ "name": "app", "image": "example.test/app:1" }],
        },
    });
    // The admission plugin may not have received a new class yet.
    let create = || create(&pods, pod.clone());
    eventually("the class is known", SOON, create).await.unwrap();
}

#[tokio::test]
async fn pods_of_a_class_run_on_its_build_and_a_linux_pod_does_not() {
    let here = |fixture: &str, number, kernel: &str| windows(fixture, number, kernel).label("place", "here");
    let nodes =
        vec![here("place", 1, "10.0.20348.1"), here("place", 2, "10.0.17763.1").label("agentpool", "place-2019")];
    let fixture = with_nodes("place", nodes).await;
    fixture.apply_pool_and_wait("place", spec("place", json!({}))).await.unwrap();
    fixture
        .apply_pool_and_wait("place-2019", spec("place-2019", json!({ "windowsVersion": "ltsc2019" })))
        .await
        .unwrap();
    fixture.until_status("place", "its node is tainted", |status| status.nodes.tainted == 1).await.unwrap();
    fixture.until_status("place-2019", "its node is tainted", |status| status.nodes.tainted == 1).await.unwrap();

    create_pod(&fixture, "place-on-2022", Some("place")).await;
    create_pod(&fixture, "place-on-2019", Some("place-2019")).await;
    create_pod(&fixture, "place-on-linux", None).await;
    let pods = fixture.namespaced::<Pod>("default");
    for (pod, node) in [("place-on-2022", "place-1"), ("place-on-2019", "place-2")] {
        let place = || async {
            let pod = pods.get(pod).await?;
            Ok((pod.spec.and_then(|spec| spec.node_name), pod.status.and_then(|status| status.phase)))
        };
        let runs = (Some(node.to_owned()), Some("Running".to_owned()));
        until(&format!("{pod} runs on {node}"), SOON, place, |now| *now == runs).await.unwrap();
    }
    let refused = || async {
        let status = pods.get("place-on-linux").await?.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default().into_iter();
        Ok(conditions
            .filter(|c| c.reason.as_deref() == Some("Unschedulable"))
            .find_map(|c| c.message)
            .unwrap_or_default())
    };
    until("the scheduler names the taint", SOON, refused, |message| message.contains("taint")).await.unwrap();
    assert_eq!(pods.get("place-on-linux").await.unwrap().spec.unwrap().node_name, None);
    fixture.nothing_was_forbidden().unwrap();
}

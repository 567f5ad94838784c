//! Pods, as the scheduler places them.

use e2e::{
    assets::{Component::Scheduler, skipped},
    wait::{eventually, until},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::PostParams};
use serde_json::json;

use crate::{
    common::{SOON, Scene, spec, windows},
    open,
};

async fn create_pod(scene: &Scene, name: &str, class: Option<&str>) {
    let pods = Api::<Pod>::namespaced(scene.client.clone(), "default");
    let pod = json!({
        "metadata": { "name": name },
        "spec": {
            "runtimeClassName": class,
            "nodeSelector": { "place": "here" },
            "containers": [{ "name": "app", "image": "example.test/app:1" }],
        },
    });
    // A class that was made a moment ago may not have come to the admission plugin yet.
    let create = || async { Ok(pods.create(&PostParams::default(), &serde_json::from_value(pod.clone())?).await?) };
    eventually("the class is known", SOON, create).await.unwrap();
}

#[tokio::test]
async fn pods_of_a_class_run_on_its_build_and_a_linux_pod_is_kept_off() {
    if skipped("pods_of_a_class_run_on_its_build_and_a_linux_pod_is_kept_off", &[Scheduler]).unwrap() {
        return;
    }
    let here = |scene: &str, number, kernel: &str| windows(scene, number, kernel).label("place", "here");
    let nodes = vec![here("place", 1, "10.0.20348.1"), here("place", 2, "10.0.17763.1").label("test", "place-2019")];
    let scene = open("place", nodes).await;
    scene.settled_pool("place", spec("place", json!({}))).await;
    scene.settled_pool("place-2019", spec("place-2019", json!({ "windowsVersion": "ltsc2019" }))).await;
    scene.until_status("place", "its node is guarded", |status| status.nodes.guarded == 1).await;
    scene.until_status("place-2019", "its node is guarded", |status| status.nodes.guarded == 1).await;

    create_pod(&scene, "place-on-2022", Some("place")).await;
    create_pod(&scene, "place-on-2019", Some("place-2019")).await;
    create_pod(&scene, "place-on-linux", None).await;
    let pods = Api::<Pod>::namespaced(scene.client.clone(), "default");
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
    scene.close().await;
}

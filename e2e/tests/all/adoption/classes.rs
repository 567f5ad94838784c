//! RuntimeClasses for compatible nodes: the real scheduler places real pods.

use std::collections::BTreeMap;

use e2e::{
    cluster::{SOON, create},
    fixture::{Fixture, spec, windows},
    objects::selector_of,
    wait::{eventually, until},
};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::shared;

const KERNELS: [(&str, &str); 3] =
    [("fits-2019", "10.0.17763.5329"), ("fits-2022", "10.0.20348.2700"), ("fits-2025", "10.0.26100.1742")];

async fn create_pod(fixture: &Fixture, name: &str, class: &str, on: &str) {
    let pod = json!({
        "metadata": { "name": name },
        "spec": {
            "runtimeClassName": class,
            "nodeSelector": { "agentpool": on },
            "containers": [{ "name": "main", "image": "example.test/app:1" }],
        },
    });
    let pods = fixture.namespaced::<Pod>("default");
    // The admission plugin may not have received a new class yet.
    eventually("the class is known", SOON, || create(&pods, pod.clone())).await.unwrap();
}

/// The node of a pod, or the message of the scheduler.
async fn placement(fixture: &Fixture, name: &str) -> anyhow::Result<Result<String, String>> {
    let pod = fixture.namespaced::<Pod>("default").get(name).await?;
    let node = pod.spec.and_then(|spec| spec.node_name);
    let conditions = pod.status.unwrap_or_default().conditions.unwrap_or_default().into_iter();
    let refused = conditions.filter(|one| one.reason.as_deref() == Some("Unschedulable")).find_map(|one| one.message);
    Ok(node.ok_or_else(|| refused.unwrap_or_default()))
}

#[tokio::test]
async fn pods_of_a_release_run_on_every_compatible_host_and_on_no_other() {
    let nodes = KERNELS.map(|(name, kernel)| windows(name, 1, kernel).runtime("containerd://2.1.4"));
    let fixture = Fixture::new(shared().await, "fits", nodes.into()).await.unwrap();
    for (name, _) in KERNELS {
        let version = name.replace("fits-", "ltsc");
        let fields = json!({ "windowsVersion": version });
        fixture.apply_pool_and_wait(name, spec(name, fields)).await.unwrap();
    }
    // The class widens after it existed: its pods run at all times.
    create_pod(&fixture, "fits-before", "fits-2022", "fits-2022").await;
    let classes = |name: &str| json!({ "spec": { "runtimeClasses": [{ "name": name, "scope": "Compatible" }] } });
    for (name, _) in KERNELS {
        fixture.edit_pool(name, classes(name)).await.unwrap();
    }
    for (name, _) in KERNELS {
        let selector = || async { Ok(selector_of(&fixture.class(name).await?)) };
        let label = format!("runs.winpool.dev/{}", name.replace("fits-", "ltsc"));
        let is_wide = |selector: &BTreeMap<String, String>| selector.get(&label).is_some_and(|value| value == "true");
        until(&format!("class {name} selects {label}"), SOON, selector, is_wide).await.unwrap();
        fixture.until_ready(name).await.unwrap();
    }
    // Class, node, and whether the pod runs there.
    let table = [
        ("fits-2022", "fits-2022", true),
        ("fits-2022", "fits-2025", true),
        ("fits-2022", "fits-2019", false),
        ("fits-2019", "fits-2019", true),
        ("fits-2019", "fits-2022", false),
        ("fits-2025", "fits-2025", true),
        ("fits-2025", "fits-2022", false),
    ];
    for (class, on, _) in table {
        let pod = format!("{class}-on-{}", on.replace("fits-", ""));
        create_pod(&fixture, &pod, class, on).await;
    }
    for (class, on, runs) in table {
        let pod = format!("{class}-on-{}", on.replace("fits-", ""));
        let expected = |placed: &Result<String, String>| match placed {
            Ok(node) => runs && *node == format!("{on}-1"),
            Err(message) => !runs && !message.is_empty(),
        };
        drop(until(&format!("{pod} is placed: {runs}"), SOON, || placement(&fixture, &pod), expected).await.unwrap());
    }
    fixture.nothing_was_forbidden().unwrap();
}

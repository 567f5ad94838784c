//! RuntimeClasses for one build or for compatible nodes: the real scheduler places real pods.

use std::collections::BTreeMap;

use e2e::{
    cluster::{DEFAULT_TAINT, SOON, create},
    fixture::{Fixture, spec, windows},
    objects::selector_of,
    wait::{eventually, until},
};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::shared;

const KERNELS: [(&str, &str); 3] =
    [("fits-2019", "10.0.17763.5329"), ("fits-2022", "10.0.20348.2700"), ("fits-2025", "10.0.26100.1742")];

async fn create_pod(fixture: &Fixture, name: &str, class: Option<&str>, on: &str) {
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

/// Waits until a pod runs on a node, or the scheduler has refused it with this text; empty for any.
async fn until_placed(fixture: &Fixture, pod: &str, expected: Result<&str, &str>) {
    let is_expected = |placed: &Result<String, String>| match (placed, expected) {
        (Ok(node), Ok(expected)) => node == expected,
        (Err(message), Err(text)) => !message.is_empty() && message.contains(text),
        _ => false,
    };
    let what = format!("{pod} is placed: {expected:?}");
    drop(until(&what, SOON, || placement(fixture, pod), is_expected).await.unwrap());
}

#[tokio::test]
async fn pods_run_on_the_build_of_their_class_or_on_every_compatible_host_and_on_no_other() {
    let nodes = KERNELS.map(|(name, kernel)| windows(name, 1, kernel).runtime("containerd://2.1.4"));
    let fixture = Fixture::new(shared().await, "fits", nodes.into()).await.unwrap();
    for (name, _) in KERNELS {
        let version = name.replace("fits-", "ltsc");
        let fields = json!({ "windowsVersion": version });
        fixture.apply_pool_and_wait(name, spec(name, fields)).await.unwrap();
    }
    fixture.until_taints("fits-2022-1", &[DEFAULT_TAINT]).await.unwrap();
    create_pod(&fixture, "fits-of-build", Some("fits-2022"), "fits-2022").await;
    create_pod(&fixture, "fits-other-build", Some("fits-2022"), "fits-2025").await;
    create_pod(&fixture, "fits-linux", None, "fits-2022").await;
    until_placed(&fixture, "fits-of-build", Ok("fits-2022-1")).await;
    until_placed(&fixture, "fits-other-build", Err("")).await;
    until_placed(&fixture, "fits-linux", Err("taint")).await;
    // The classes widen while their pods run.
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
        create_pod(&fixture, &pod, Some(class), on).await;
    }
    for (class, on, runs) in table {
        let pod = format!("{class}-on-{}", on.replace("fits-", ""));
        let node = format!("{on}-1");
        until_placed(&fixture, &pod, if runs { Ok(&node) } else { Err("") }).await;
    }
    fixture.nothing_was_forbidden().unwrap();
}

//! What a pool makes, changes and keeps.

use e2e::wait::{eventually, until};
use k8s_openapi::api::{core::v1::ConfigMap, node::v1::RuntimeClass};
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};

use crate::{
    common::{GUARD, SOON, history::History, selector_of, spec, windows},
    open, with_a_node,
};

/// The record of a node, without its signature.
fn owned(node: &k8s_openapi::api::core::v1::Node) -> Value {
    use kube::ResourceExt;
    let mut record: Value = serde_json::from_str(&node.annotations()["winpool.dev/owned"]).unwrap();
    assert_eq!(record["signature"].take().as_str().map(str::len), Some(44), "an HMAC-SHA256 in base64");
    record.as_object_mut().unwrap().remove("signature");
    record
}

#[tokio::test]
async fn a_pool_guards_its_nodes_leads_pods_to_them_and_says_so() {
    let scene =
        open("create", vec![windows("create", 1, "10.0.20348.2700"), windows("create", 2, "10.0.20348.2800")]).await;
    scene.profile("create", json!({})).await;
    scene
        .settled_pool(
            "create",
            spec(
                "create",
                json!({ "runtimeClasses": null, "labels": { "team": "web" }, "profileRef": { "name": "create" } }),
            ),
        )
        .await;

    let maps = Api::<ConfigMap>::namespaced(scene.client.clone(), "winpool-system");
    let maps = maps.list(&ListParams::default().labels("winpool.dev/pool=create")).await.unwrap().items;
    let [map] = maps.as_slice() else { panic!("the nodes are alike and share a configuration: {maps:#?}") };
    assert_eq!(map.immutable, Some(true));
    let name = map.metadata.name.as_deref().unwrap();
    assert!(name.starts_with("create-"), "{name}");
    let files: Vec<_> = map.data.iter().flatten().map(|(file, _)| file.as_str()).collect();
    assert!(["containerd.toml", "kubelet.args", "kubelet.yaml"].iter().all(|file| files.contains(file)), "{files:?}");

    for node in ["create-1", "create-2"] {
        assert_eq!(scene.taints(node).await.unwrap(), [GUARD]);
        assert_eq!(scene.pool_of(node).await.unwrap().as_deref(), Some("create"));
        assert_eq!(scene.label(node, "team").await.unwrap().as_deref(), Some("web"));
        let node = scene.get_node(node).await.unwrap();
        assert_eq!(node.metadata.annotations.as_ref().unwrap()["winpool.dev/config"], name);
        let expected = json!({
            "pool": "create",
            "taints": { "os:NoSchedule": "added" },
            "labels": { "team": "added", "node.kubernetes.io/windows-build": "found" },
        });
        assert_eq!(owned(&node), expected);
    }

    let class = scene.class("windows-ltsc2022").await.unwrap();
    assert_eq!(class.handler, "runhcs-wcow-process");
    let selector = json!({
        "kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64", "node.kubernetes.io/windows-build": "10.0.20348",
    });
    assert_eq!(json!(selector_of(&class)), selector);
    assert_eq!(scene.tolerations("windows-ltsc2022").await.unwrap(), [GUARD]);

    let status = scene.status("create").await.unwrap();
    assert_eq!(status.windows_build, "10.0.20348");
    assert_eq!((status.nodes.matched, status.nodes.ready, status.nodes.guarded), (2, 2, 2));
    assert_eq!((status.builds[0].build.as_str(), status.builds[0].revisions.as_str()), ("10.0.20348", "2700..2800"));
    assert_eq!(status.applied.taints, ["os:NoSchedule"]);
    assert_eq!((status.configs[0].name.as_str(), status.configs[0].wanted), (name, 2));
    assert_eq!(scene.condition("create", "Ready").await.unwrap().reason, "AsSpecified");

    let table = scene.stage.kubectl(&["get", "wnp", "create", "-o", "wide"]).unwrap();
    let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let columns = [
        "NAME",
        "READY",
        "NODES",
        "GUARDED",
        "WINDOWS",
        "KUBELET",
        "SKEWED",
        "MISMATCHED",
        "PROBLEM",
        "AGE",
        "PROFILE",
        "RUNTIMECLASS",
        "SUPPORT",
        "MESSAGE",
    ];
    assert_eq!(head, columns, "{table}");
    let row = lines.next().unwrap();
    let kubelet = scene.stage.control_plane.version().to_string();
    assert_eq!(row[..8], ["create", "True", "2/2", "2/2", "10.0.20348", &kubelet, "0", "0"], "{table}");

    let profile = || async { Ok(scene.profiles().get("create").await?.data["status"]["usedBy"].clone()) };
    let used = json!({ "count": 1, "pools": ["create"] });
    until("the profile says who uses it", SOON, profile, |by| *by == used).await.unwrap();
    scene.is_quiet().await;
    scene.close().await;
}

#[tokio::test]
async fn a_tainted_node_always_has_its_toleration_in_the_class() {
    let scene = with_a_node("taints").await;
    // Nodes of other pools have taints too, which a class for a build has to tolerate as long as they are there.
    let own = json!({ "runtimeClasses": [{ "name": "taints", "scope": "Pool" }] });
    scene.settled_pool("taints", spec("taints", own)).await;
    let history = History::of(&scene.client, "taints-1", "taints").await;
    for (taints, expected) in [
        (json!([{ "key": "team", "value": "web", "effect": "NoSchedule" }]), vec!["team=web:NoSchedule"]),
        (json!([{ "key": "team", "value": "batch", "effect": "NoSchedule" }]), vec!["team=batch:NoSchedule"]),
        (
            json!([{ "key": "team", "value": "batch", "effect": "NoSchedule" }, { "key": "os", "effect": "PreferNoSchedule" }]),
            vec!["team=batch:NoSchedule", "os=:PreferNoSchedule"],
        ),
        (json!([]), vec![]),
        (json!([{ "key": "os", "value": "windows", "effect": "NoSchedule" }]), vec![GUARD]),
    ] {
        scene.edit_pool("taints", json!({ "spec": { "taints": taints } })).await;
        scene.until_taints("taints-1", &expected).await;
        scene.until_tolerations("taints", &expected).await;
    }
    let moments = history.until_now().await;
    for moment in &moments {
        let missing: Vec<_> = moment.taints.iter().filter(|taint| !moment.tolerations.contains(taint)).collect();
        assert!(missing.is_empty(), "{missing:?} in {moments:#?}");
    }
    assert!(moments.iter().any(|moment| moment.taints == ["team=batch:NoSchedule"]), "{moments:#?}");
    scene.is_quiet().await;
    scene.close().await;
}

#[tokio::test]
async fn a_selector_is_narrowed_only_when_the_nodes_carry_its_labels() {
    let mut scene = open("narrow", vec![]).await;
    scene.settled_pool("narrow", spec("narrow", json!({ "paused": false }))).await;
    scene.add_nodes(vec![windows("narrow", 1, "10.0.20348.1")]).await;
    let history = History::of(&scene.client, "narrow-1", "narrow").await;
    scene.edit_pool("narrow", json!({ "spec": { "runtimeClasses": [{ "name": "narrow", "scope": "Pool" }] } })).await;
    let narrowed = || async { Ok(selector_of(&scene.class("narrow").await?).contains_key("winpool.dev/pool")) };
    until("the class leads to the pool only", SOON, narrowed, |narrowed| *narrowed).await.unwrap();
    for moment in history.until_now().await {
        let (leads_to, is_in) = (moment.selector.get("winpool.dev/pool"), moment.labels.get("winpool.dev/pool"));
        assert!(leads_to.is_none() || leads_to == is_in, "{leads_to:?}, and the node is in {is_in:?}");
    }
    scene.close().await;
}

#[tokio::test]
async fn what_is_changed_by_hand_is_changed_back_at_once() {
    let scene = with_a_node("drift").await;
    scene.profile("drift", json!({})).await;
    let more = json!({ "labels": { "team": "web" }, "profileRef": { "name": "drift" } });
    scene.settled_pool("drift", spec("drift", more)).await;
    let before = scene.get_node("drift-1").await.unwrap();

    scene.edit_node("drift-1", json!({ "spec": { "taints": null } })).await;
    scene.until_taints("drift-1", &[GUARD]).await;
    scene.edit_node("drift-1", json!({ "metadata": { "labels": { "team": "theirs" } } })).await;
    let team = || scene.label("drift-1", "team");
    until("the label is back", SOON, team, |team| team.as_deref() == Some("web")).await.unwrap();
    scene.edit_node("drift-1", json!({ "metadata": { "labels": { "winpool.dev/pool": null, "team": null } } })).await;
    scene.until_pool_of("drift-1", Some("drift")).await;
    until("the label is back", SOON, team, |team| team.as_deref() == Some("web")).await.unwrap();
    scene.edit_node("drift-1", json!({ "metadata": { "annotations": { "winpool.dev/config": "other" } } })).await;
    let config = || async {
        Ok(scene.get_node("drift-1").await?.metadata.annotations.unwrap_or_default().remove("winpool.dev/config"))
    };
    let wanted = before.metadata.annotations.as_ref().unwrap().get("winpool.dev/config").cloned();
    until("the configuration is named again", SOON, config, |config| *config == wanted).await.unwrap();

    let class = || async {
        let class = scene.class("drift").await?;
        Ok(
            json!({ "scheduling": class.scheduling, "overhead": class.overhead.and_then(|overhead| overhead.pod_fixed) }),
        )
    };
    let wanted_class = class().await.unwrap();
    let anything = json!([{ "operator": "Exists" }]);
    for change in [
        json!({ "scheduling": { "tolerations": null } }),
        json!({ "scheduling": { "tolerations": anything, "nodeSelector": { "disk": "fast" } } }),
        json!({ "scheduling": { "nodeSelector": { "kubernetes.io/os": null } } }),
        json!({ "overhead": { "podFixed": { "memory": "1Gi" } } }),
    ] {
        scene.edit_class("drift", change).await;
        let as_before = |class: &Value| {
            class["scheduling"] == wanted_class["scheduling"]
                && class["overhead"].as_object().is_none_or(|all| all.is_empty())
        };
        until("the class is as it was", SOON, class, as_before).await.unwrap();
    }
    scene.api::<RuntimeClass>().delete("drift", &DeleteParams::default()).await.unwrap();
    eventually("the class is made again", SOON, || scene.class("drift")).await.unwrap();

    let maps = Api::<ConfigMap>::namespaced(scene.client.clone(), "winpool-system");
    let map = maps.get(wanted.as_deref().unwrap()).await.unwrap();
    maps.delete(wanted.as_deref().unwrap(), &DeleteParams::default()).await.unwrap();
    let again = || async { Ok(maps.get(wanted.as_deref().unwrap()).await?) };
    assert_eq!(eventually("the ConfigMap is made again", SOON, again).await.unwrap().data, map.data);

    scene.until_event("drift", "NodesRepaired").await;
    scene.is_quiet().await;
    scene.close().await;
}

#[tokio::test]
async fn what_was_done_is_told_as_events() {
    let scene = with_a_node("events").await;
    scene.profile("events", json!({})).await;
    scene.settled_pool("events", spec("events", json!({ "profileRef": { "name": "events" } }))).await;
    let guarded = scene.until_event("events", "NodesGuarded").await;
    assert!(guarded.contains("events-1 (label winpool.dev/pool=events, taint os=windows:NoSchedule"), "{guarded}");
    let class = scene.until_event("events", "RuntimeClassApplied").await;
    assert!(class.contains("RuntimeClass events: create"), "{class}");
    scene.until_event("events", "ConfigRendered").await;
    scene.edit_pool("events", json!({ "spec": { "profileRef": { "name": "nowhere" } } })).await;
    let missing = scene.until_event("events", "NotFound").await;
    assert!(missing.contains("there is no WindowsRuntimeProfile nowhere"), "{missing}");
    scene.close().await;
}

//! Rendered configurations: whether they are in effect, and whether they are what `winpool render` prints.

use std::fs;

use e2e::{control_plane::User, operator::winpool, wait::until};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::{Value, json};

use crate::{
    common::{GUARD, SOON, spec, windows},
    open, with_a_node,
};

#[tokio::test]
async fn a_configuration_is_in_effect_when_the_nodes_own_numbers_say_so() {
    let name = "effect";
    let mut scene = open(name, vec![windows(name, 1, "10.0.20348.1").taking_configuration()]).await;
    scene.profile(name, json!({ "kubelet": { "maxPods": 42, "kubeReserved": { "memory": "512Mi" } } })).await;
    scene.settled_pool(name, spec(name, json!({ "profileRef": { "name": name } }))).await;
    scene.until(name, "ConfigInEffect", "True", "InEffect").await;
    scene.until_status(name, "one of one", |status| status.configs[0].in_effect == 1 && status.nodes.behind == 0).await;
    let pods = || async {
        let status = scene.get_node("effect-1").await?.status.unwrap_or_default();
        Ok(status.capacity.unwrap_or_default()["pods"].0.clone())
    };
    assert_eq!(pods().await.unwrap(), "42");
    assert_eq!(
        scene.kubelets.configuration_of("effect-1"),
        Some(scene.status(name).await.unwrap().configs[0].name.clone())
    );

    let more = json!({ "spec": { "kubelet": { "maxPods": 60 } } });
    crate::common::edit(&scene.profiles(), name, more).await;
    until("the kubelet takes the new configuration", SOON, pods, |pods| pods == "60").await.unwrap();
    scene.until(name, "ConfigInEffect", "True", "InEffect").await;
    scene.until_status(name, "one of one", |status| status.configs[0].in_effect == 1).await;

    // Its kubelet starts again on a new Node, and brings the taint of its configuration.
    scene.kubelets.delete("effect-1").await.unwrap();
    scene.kubelets.register_again("effect-1").await.unwrap();
    scene.until_pool_of("effect-1", Some(name)).await;
    assert_eq!(scene.taints("effect-1").await.unwrap(), [GUARD]);
    scene.edit_pool(name, json!({ "spec": { "taints": [] } })).await;
    scene.until_taints("effect-1", &[]).await;
    scene.edit_pool(name, json!({ "spec": { "taints": null } })).await;
    scene.until_taints("effect-1", &[GUARD]).await;
    scene.until(name, "ConfigInEffect", "True", "InEffect").await;

    scene.add_nodes(vec![windows(name, 2, "10.0.20348.1")]).await;
    let message = scene.until(name, "ConfigInEffect", "Unknown", "NotDelivered").await;
    assert!(message.contains("effect-2"), "{message}");
    scene.until_status(name, "one is behind", |status| status.nodes.behind == 1).await;

    let mut other = windows(name, 3, "10.0.20348.1");
    other.capacity.pods = 77;
    scene.add_nodes(vec![other]).await;
    let message = scene.until(name, "ConfigInEffect", "False", "Differs").await;
    assert!(message.contains("effect-3") && message.contains("77"), "{message}");
    scene.until("effect", "Ready", "True", "AsSpecified").await;
    scene.is_quiet().await;
    scene.close().await;
}

/// The objects of a kind in a `v1` List, by name.
fn of_kind<'a>(list: &'a Value, kind: &'a str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let items = list["items"].as_array().unwrap().iter().filter(move |object| object["kind"] == kind);
    items.map(|object| (object["metadata"]["name"].as_str().unwrap(), object))
}

#[tokio::test]
async fn render_prints_byte_for_byte_what_the_operator_writes() {
    let name = "render";
    let nodes = vec![
        windows(name, 1, "10.0.20348.1").taint("gpu", "yes", "NoSchedule"),
        windows(name, 2, "10.0.17763.1").runtime("containerd://1.6.28").without_build_label(),
        windows(name, 3, "10.0.20348.1").runtime("docker://20.10.9"),
    ];
    let scene = open(name, nodes).await;
    let folder = scene.stage.control_plane.directory().join(name);
    fs::create_dir(&folder).unwrap();
    let listed = scene.stage.kubectl(&["get", "nodes", "-l", "test=render", "-o", "json"]).unwrap();
    fs::write(scene.stage.control_plane.directory().join("render-nodes.json"), listed).unwrap();

    let profile = json!({
        "kubelet": { "maxPods": 42, "evictionHard": { "memory.available": "1Gi" } },
        "containerd": { "registryMirrors": [{ "registry": "docker.io", "endpoints": ["https://mirror.example"] }] },
    });
    let pool = spec(
        name,
        json!({
            "labels": { "team": "web" },
            "profileRef": { "name": name },
            "runtimeClasses": [{ "name": name }, { "name": "render-hyperv", "isolation": "HyperV", "scope": "Pool" }],
        }),
    );
    for (kind, spec) in [("WindowsRuntimeProfile", &profile), ("WindowsNodePool", &pool)] {
        let object = json!({
            "apiVersion": "winpool.dev/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec,
        });
        fs::write(folder.join(format!("{kind}.json")), object.to_string()).unwrap();
    }
    let nodes = scene.stage.control_plane.directory().join("render-nodes.json");
    let arguments = ["render", "-f", folder.to_str().unwrap(), "--nodes", nodes.to_str().unwrap(), "-o", "json"];
    let output = winpool(&scene.stage.control_plane, User::RivalA, &arguments).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rendered: Value = serde_json::from_slice(&output.stdout).unwrap();

    scene.profile(name, profile).await;
    scene.settled_pool(name, pool).await;
    let maps = Api::<ConfigMap>::namespaced(scene.client.clone(), "winpool-system");
    let status = scene.status(name).await.unwrap();
    let mut written: Vec<_> = status.configs.iter().map(|config| config.name.as_str()).collect();
    written.sort_unstable();
    assert_eq!(written, of_kind(&rendered, "ConfigMap").map(|(name, _)| name).collect::<Vec<_>>());
    assert_eq!(written.len(), 3, "a configuration for each of the nodes");
    for (name, rendered) in of_kind(&rendered, "ConfigMap") {
        let written = json!(maps.get(name).await.unwrap());
        for field in ["data", "immutable"] {
            assert_eq!(rendered[field], written[field], "{name}");
        }
        assert_eq!(rendered["metadata"]["labels"], written["metadata"]["labels"]);
    }
    let classes: Vec<_> = of_kind(&rendered, "RuntimeClass").collect();
    assert_eq!(classes.len(), 2);
    for (name, rendered) in classes {
        let written = json!(scene.class(name).await.unwrap());
        for field in ["handler", "scheduling", "overhead"] {
            assert_eq!(rendered.get(field), written.get(field), "{name}");
        }
        assert_eq!(rendered["metadata"]["labels"], written["metadata"]["labels"]);
    }
    let nodes: Vec<_> = of_kind(&rendered, "Node").collect();
    assert_eq!(nodes.len(), 3);
    for (name, rendered) in nodes {
        let written = json!(scene.get_node(name).await.unwrap());
        assert_eq!(rendered["spec"]["taints"], written["spec"]["taints"], "{name}");
        for field in ["labels", "annotations"] {
            // Only the operator can sign the record.
            let unsigned = rendered["metadata"][field].as_object().unwrap().iter();
            for (key, value) in unsigned.filter(|(key, _)| *key != "winpool.dev/owned") {
                assert_eq!(written["metadata"][field][key], *value, "{name}: {key}");
            }
        }
    }
    scene.close().await;
}

#[tokio::test]
async fn a_configuration_of_a_profile_that_is_changed_back_is_used_again() {
    let scene = with_a_node("back").await;
    scene.profile("back", json!({ "kubelet": { "maxPods": 42 } })).await;
    scene.settled_pool("back", spec("back", json!({ "profileRef": { "name": "back" } }))).await;
    let config = || async {
        let annotations = scene.get_node("back-1").await?.metadata.annotations.unwrap_or_default();
        Ok(annotations.get("winpool.dev/config").cloned().unwrap_or_default())
    };
    let first = config().await.unwrap();
    let maps = Api::<ConfigMap>::namespaced(scene.client.clone(), "winpool-system");
    let uid = maps.get(&first).await.unwrap().metadata.uid;
    crate::common::edit(&scene.profiles(), "back", json!({ "spec": { "kubelet": { "maxPods": 43 } } })).await;
    until("the new configuration is named", SOON, config, |now| *now != first).await.unwrap();
    crate::common::edit(&scene.profiles(), "back", json!({ "spec": { "kubelet": { "maxPods": 42 } } })).await;
    until("the first is named again", SOON, config, |now| *now == first).await.unwrap();
    assert_eq!(maps.get(&first).await.unwrap().metadata.uid, uid);

    // An immutable ConfigMap cannot be edited, and one that is deleted comes back with every byte.
    let patch = kube::api::Patch::Merge(json!({ "data": { "kubelet.yaml": "maxPods: 1" } }));
    maps.patch(&first, &kube::api::PatchParams::default(), &patch).await.unwrap_err();
    scene.is_quiet().await;
    scene.close().await;
}

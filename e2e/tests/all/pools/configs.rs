//! Rendered configurations: `winpool render` prints the same.

use std::fs;

use e2e::{
    cluster::{pool_object, profile_object},
    control_plane::User,
    fixture::{spec, windows},
    operator::winpool,
};
use serde_json::{Value, json};

use super::with_nodes;

/// The objects of a kind in a `v1` List, by name.
fn of_kind<'a>(list: &'a Value, kind: &'a str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let items = list["items"].as_array().unwrap().iter().filter(move |object| object["kind"] == kind);
    items.map(|object| (object["metadata"]["name"].as_str().unwrap(), object))
}

#[tokio::test]
async fn render_prints_byte_for_byte_what_the_operator_writes() {
    let name = "render";
    let nodes = vec![
        windows(name, 1, "10.0.20348.1").kubelet("v1.36.0").runtime("containerd://2.3.0").taint(
            "gpu",
            "yes",
            "NoSchedule",
        ),
        windows(name, 2, "10.0.17763.1").kubelet("v1.30.4").runtime("containerd://1.7.27").without_build_label(),
        windows(name, 3, "10.0.20348.1").kubelet("v1.34.1").runtime("containerd://2.1.4"),
    ];
    let fixture = with_nodes(name, nodes).await;
    let folder = fixture.control_plane.directory().join(name);
    fs::create_dir(&folder).unwrap();
    let listed = fixture.kubectl(&["get", "nodes", "-l", "agentpool=render", "-o", "json"]).unwrap();
    fs::write(fixture.control_plane.directory().join("render-nodes.json"), listed).unwrap();

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
    for object in [profile_object(name, profile.clone()), pool_object(name, pool.clone())] {
        fs::write(folder.join(format!("{}.json", object["kind"].as_str().unwrap())), object.to_string()).unwrap();
    }
    let nodes = fixture.control_plane.directory().join("render-nodes.json");
    let arguments = ["render", "-f", folder.to_str().unwrap(), "--nodes", nodes.to_str().unwrap(), "-o", "json"];
    let output = winpool(&fixture.control_plane, User::OtherA, &arguments).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rendered: Value = serde_json::from_slice(&output.stdout).unwrap();

    fixture.apply_profile(name, profile).await.unwrap();
    fixture.apply_pool_and_wait(name, pool).await.unwrap();
    let maps = fixture.config_maps();
    let status = fixture.status(name).await.unwrap();
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
        let written = json!(fixture.class(name).await.unwrap());
        for field in ["handler", "scheduling", "overhead"] {
            assert_eq!(rendered.get(field), written.get(field), "{name}");
        }
        assert_eq!(rendered["metadata"]["labels"], written["metadata"]["labels"]);
    }
    let nodes: Vec<_> = of_kind(&rendered, "Node").collect();
    assert_eq!(nodes.len(), 3);
    for (name, rendered) in nodes {
        let written = json!(fixture.node(name).await.unwrap());
        assert_eq!(rendered["spec"]["taints"], written["spec"]["taints"], "{name}");
        for field in ["labels", "annotations"] {
            // Only the operator can sign the record.
            let unsigned = rendered["metadata"][field].as_object().unwrap().iter();
            for (key, value) in unsigned.filter(|(key, _)| *key != "winpool.dev/owned") {
                assert_eq!(written["metadata"][field][key], *value, "{name}: {key}");
            }
        }
    }
    fixture.nothing_was_forbidden().unwrap();
}

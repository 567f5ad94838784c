//! Objects that nobody would write today, beside those of pools that are well.

use anyhow::{Result, ensure};
use e2e::{
    audit::Request,
    control_plane::User,
    install::install_crds,
    kubectl::kubectl,
    kubelet::Kubelets,
    operator::Operator,
    wait::eventually,
    world::{SOON, World},
};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api,
    api::{DynamicObject, ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::{OS_WINDOWS, node};

const POOL: &str = "web";

/// Specs as an older, laxer schema may have let them in.
fn bad_specs() -> [(&'static str, Value); 5] {
    [
        ("number", json!(7)),
        ("absent", Value::Null),
        ("mess", json!({ "windowsVersion": {}, "nodeSelector": "all", "taints": "none" })),
        (
            "unknown",
            json!({ "windowsVersion": "ltsc2047", "nodeSelector": { "matchLabels": { "agentpool": "none" } } }),
        ),
        ("greedy", json!({ "windowsVersion": "ltsc2022", "nodeSelector": {} })),
    ]
}

/// Stores objects that the shipped schema refuses: under a schema without rules, which the shipped one then replaces.
async fn store_bad_objects(world: &World) {
    let lax = json!([{
        "op": "replace",
        "path": "/spec/versions/0/schema/openAPIV3Schema",
        "value": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
    }]);
    for crd in ["windowsnodepools.winpool.dev", "windowsruntimeprofiles.winpool.dev"] {
        let patch = ["patch", "crd", crd, "--type=json", "-p", &lax.to_string()];
        kubectl(&world.control_plane, User::Admin, &patch).unwrap();
    }
    let object = |kind: &str, name: &str, spec: &Value| -> Result<DynamicObject> {
        let metadata = json!({ "name": name });
        let mut object = json!({ "apiVersion": "winpool.dev/v1alpha1", "kind": kind, "metadata": metadata });
        if !spec.is_null() {
            object["spec"] = spec.clone();
        }
        Ok(serde_json::from_value(object)?)
    };
    for (name, spec) in bad_specs() {
        let create = || async {
            let pool = object("WindowsNodePool", name, &spec)?;
            Ok(world.pools().create(&PostParams::default(), &pool).await?)
        };
        eventually("the schema without rules takes it", SOON, create).await.unwrap();
    }
    let profiles = world.custom("WindowsRuntimeProfile");
    let profile = || async {
        let profile = object("WindowsRuntimeProfile", "broken", &json!({ "kubelet": "fast", "pauseImage": 3 }))?;
        Ok(profiles.create(&PostParams::default(), &profile).await?)
    };
    eventually("the schema without rules takes it", SOON, profile).await.unwrap();

    install_crds(&world.control_plane).unwrap();
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let refused = || async {
        let pool = object("WindowsNodePool", "another", &json!(7))?;
        ensure!(world.pools().create(&dry_run, &pool).await.is_err(), "the schema without rules still counts");
        Ok(())
    };
    eventually("the shipped schema is back", SOON, refused).await.unwrap();
}

#[tokio::test]
async fn bad_objects_stop_nobody_and_are_named() {
    let world = World::start().await.unwrap();
    store_bad_objects(&world).await;
    let odd = vec![
        node(POOL, "well"),
        node(POOL, "kubelet-odd").kubelet("tomorrow's"),
        node(POOL, "kubelet-late").kubelet("v1.99.0"),
        node(POOL, "runtime-odd").runtime("containerd://next-big-thing"),
        node(POOL, "runtime-late").runtime("containerd://99.1.0"),
        node(POOL, "runtime-other").runtime("hydra://1.0.0"),
        node("batch", "batch-well"),
    ];
    let _kubelets = Kubelets::start(world.client.clone(), odd).await.unwrap();
    let labels = json!({ "kubernetes.io/os": "windows", "agentpool": POOL });
    let silent = json!({ "metadata": { "name": "silent", "labels": labels } });
    world.nodes().create(&PostParams::default(), &serde_json::from_value(silent).unwrap()).await.unwrap();

    let operator = Operator::start(&world.control_plane, &[], &[]).await.unwrap();
    world.apply("WindowsRuntimeProfile", "standard", &json!({})).await.unwrap();
    for (pool, profile) in [(POOL, "standard"), ("batch", "broken")] {
        let spec = json!({
            "windowsVersion": "ltsc2022",
            "nodeSelector": { "matchLabels": { "agentpool": pool } },
            "profileRef": { "name": profile },
        });
        world.apply("WindowsNodePool", pool, &spec).await.unwrap();
    }

    world.until_guarded(POOL, OS_WINDOWS, 7).await.unwrap();
    world.until_guarded("batch", OS_WINDOWS, 1).await.unwrap();
    let told = world.until_condition("batch", "ProfileResolved", "False", "Invalid").await.unwrap();
    assert!(told.message.contains("kubelet"), "{}", told.message);
    let bad: Vec<&str> = bad_specs().iter().map(|(name, _)| *name).chain(["broken"]).collect();
    let concerns = |write: &Request| write.resource != "events" && !bad.contains(&write.name.as_str());
    world.until_quiet_about(concerns).await.unwrap();

    // Each is named: in an event, and in its own status where the API server lets a status be written beside such a spec.
    for (name, _) in bad_specs() {
        let named = || is_named(&world, &operator, name);
        eventually(&format!("it is said what is wrong with {name}"), SOON, named).await.unwrap();
    }
    let status = world.pool(POOL).await.unwrap()["status"].clone();
    assert_eq!((&status["nodes"]["matched"], &status["nodes"]["guarded"]), (&json!(7), &json!(7)));
    for (condition, reason, part) in [
        ("NodesConfigured", "Applied", "7 nodes"),
        ("ConfigRendered", "Failed", "containerd 99.1.0 is not known"),
        ("VersionSkew", "KubeletNewerThanAPIServer", "kubelet-late (v1.99.0)"),
    ] {
        let told = world.condition(POOL, condition).await.unwrap();
        assert!(told.reason == reason && told.message.contains(part), "{condition}: {told:?}");
    }
    let stumbles = operator.metric("winpool_watch_errors_total", &[]).await.unwrap();
    assert!(stumbles < 1.0, "no watch stumbled");
    assert!(operator.stop().await.unwrap().success());
    world.nothing_was_forbidden().unwrap();
}

/// Whether an event says that a pool is invalid, and its status too: or the log, that the API server refuses the status.
async fn is_named(world: &World, operator: &Operator, pool: &str) -> Result<()> {
    let events = Api::<Event>::namespaced(world.client.clone(), "default");
    let about = ListParams::default().fields(&format!("involvedObject.name={pool}"));
    let reasons: Vec<_> = events.list(&about).await?.items.into_iter().filter_map(|event| event.reason).collect();
    ensure!(reasons.iter().any(|reason| reason == "Invalid"), "{reasons:?}");
    match world.condition(pool, "SpecValid").await {
        Ok(told) => ensure!(told.status == "False" && told.reason == "Invalid", "{told:?}"),
        Err(error) => {
            let log = operator.log()?;
            let says = |line: &&str| line.contains(" WARN ") && line.contains(&format!(" {pool}: write-status: "));
            ensure!(log.lines().filter(says).count() == 1, "neither status ({error:#}) nor, once, the log:\n{log}");
        }
    }
    Ok(())
}

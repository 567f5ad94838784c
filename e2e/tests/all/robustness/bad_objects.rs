//! Invalid objects beside valid pools.

use anyhow::{Result, ensure};
use e2e::{
    audit::Request,
    cluster::{Cluster, OS_WINDOWS, SOON, create, pool_object, pool_spec, profile_object},
    install::{CRDS, install_crds},
    operator::Operator,
    wait::eventually,
};
use kube::api::PostParams;
use serde_json::{Value, json};

use super::node;

const POOL: &str = "web";

/// Invalid specs that an older, less strict schema may have accepted.
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

/// Stores objects that the shipped schema rejects, under a schema without rules, which is then replaced by the shipped
/// one.
async fn store_bad_objects(cluster: &Cluster) {
    let lax = json!([{
        "op": "replace",
        "path": "/spec/versions/0/schema/openAPIV3Schema",
        "value": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
    }]);
    for crd in CRDS {
        let patch = ["patch", crd, "--type=json", "-p", &lax.to_string()];
        cluster.kubectl(&patch).unwrap();
    }
    let (pools, profiles) = (cluster.pools(), cluster.profiles());
    for (name, spec) in bad_specs() {
        let create = || create(&pools, pool_object(name, spec.clone()));
        eventually("the schema without rules accepts it", SOON, create).await.unwrap();
    }
    let profile = profile_object("broken", json!({ "kubelet": "fast", "pauseImage": 3 }));
    let create = || create(&profiles, profile.clone());
    eventually("the schema without rules accepts it", SOON, create).await.unwrap();

    install_crds(&cluster.control_plane).unwrap();
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let refused = || async {
        let pool = serde_json::from_value(pool_object("another", json!(7)))?;
        ensure!(pools.create(&dry_run, &pool).await.is_err(), "the schema without rules is still in effect");
        Ok(())
    };
    eventually("the shipped schema is in effect", SOON, refused).await.unwrap();
}

#[tokio::test]
async fn invalid_objects_are_reported_and_affect_no_other() {
    let cluster = Cluster::start().await.unwrap();
    store_bad_objects(&cluster).await;
    let odd = vec![
        node(POOL, "well"),
        node(POOL, "kubelet-odd").kubelet("tomorrow's"),
        node(POOL, "kubelet-late").kubelet("v1.99.0"),
        node(POOL, "runtime-odd").runtime("containerd://next-big-thing"),
        node(POOL, "runtime-late").runtime("containerd://99.1.0"),
        node(POOL, "runtime-other").runtime("hydra://1.0.0"),
        node("batch", "batch-well"),
    ];
    let _kubelets = cluster.start_kubelets(odd).await.unwrap();
    let labels = json!({ "kubernetes.io/os": "windows", "agentpool": POOL });
    let silent = json!({ "metadata": { "name": "silent", "labels": labels } });
    create(&cluster.nodes(), silent).await.unwrap();

    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.apply_profile("standard", json!({})).await.unwrap();
    for (pool, profile) in [(POOL, "standard"), ("batch", "broken")] {
        cluster.apply_pool(pool, pool_spec(pool, json!({ "profileRef": { "name": profile } }))).await.unwrap();
    }

    cluster.until_tainted(POOL, OS_WINDOWS, 7).await.unwrap();
    cluster.until_tainted("batch", OS_WINDOWS, 1).await.unwrap();
    let found = cluster.until_condition("batch", "ProfileResolved", "False", "Invalid").await.unwrap();
    assert!(found.message.contains("kubelet"), "{}", found.message);
    let bad: Vec<&str> = bad_specs().iter().map(|(name, _)| *name).chain(["broken"]).collect();
    let concerns = |write: &Request| write.resource != "events" && !bad.contains(&write.name.as_str());
    cluster.until_idle_about(concerns).await.unwrap();

    // Each is reported: in an event, and in its status if the API server accepts a status for an object with such a
    // spec.
    for (name, _) in bad_specs() {
        let named = || is_named(&cluster, &operator, name);
        eventually(&format!("pool {name} is reported as invalid"), SOON, named).await.unwrap();
    }
    let status = cluster.pool(POOL).await.unwrap()["status"].clone();
    assert_eq!((&status["nodes"]["matched"], &status["nodes"]["tainted"]), (&json!(7), &json!(7)));
    for (condition, reason, part) in [
        ("NodesTainted", "Applied", "7 nodes"),
        ("ConfigRendered", "Failed", "the configuration format of containerd 99.1.0 is unknown"),
        ("VersionSkew", "KubeletNewerThanAPIServer", "kubelet-late (v1.99.0)"),
    ] {
        let found = cluster.condition(POOL, condition).await.unwrap();
        assert!(found.reason == reason && found.message.contains(part), "{condition}: {found:?}");
    }
    let errors = operator.metric("winpool_watch_errors_total", &[]).await.unwrap();
    assert!(errors < 1.0, "no watch failed");
    assert!(operator.stop().await.unwrap().success());
    cluster.nothing_was_forbidden().unwrap();
}

/// Whether an event reports that a pool is invalid, and its status too, or the log that the API server rejects the
/// status.
async fn is_named(cluster: &Cluster, operator: &Operator, pool: &str) -> Result<()> {
    let reasons: Vec<_> = cluster.events("default", pool).await?.into_iter().filter_map(|event| event.reason).collect();
    ensure!(reasons.iter().any(|reason| reason == "Invalid"), "{reasons:?}");
    match cluster.condition(pool, "SpecValid").await {
        Ok(found) => ensure!(found.status == "False" && found.reason == "Invalid", "{found:?}"),
        Err(error) => {
            let log = operator.log()?;
            let is_warning = |line: &&str| {
                line.contains(" WARN ")
                    && line.contains("operation=\"write-status\"")
                    && line.contains(&format!("objects=\"{pool}\""))
            };
            ensure!(
                log.lines().filter(is_warning).count() == 1,
                "neither status ({error:#}) nor, once, the log:\n{log}"
            );
        }
    }
    Ok(())
}

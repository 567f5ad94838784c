//! Without a look at workloads: by choice, and for want of the role.

use anyhow::ensure;
use e2e::{
    audit::Request,
    control_plane::User,
    kubectl::kubectl,
    kubelet::Kubelets,
    operator::Operator,
    wait::{eventually, until},
    world::World,
};
use k8s_openapi::api::{core::v1::Event, rbac::v1::ClusterRoleBinding};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use crate::{COUNTED, common::windows, of_template, pod, warnings};

/// What is read for the verdicts on workloads, and for nothing else.
const OF_WORKLOADS: [&str; 5] = ["pods", "deployments", "statefulsets", "daemonsets", "jobs"];

fn of_workloads(world: &World) -> Vec<Request> {
    let requests = world.control_plane.requests_of(User::Operator).unwrap();
    requests.into_iter().filter(|request| OF_WORKLOADS.contains(&request.resource.as_str())).collect()
}

/// A world with a node of pool `web`, and a Deployment whose class is missing.
async fn world() -> (World, Kubelets) {
    let world = World::start().await.unwrap();
    let node = windows("web", 1, crate::SERVER_2022).label("agentpool", "web");
    let kubelets = Kubelets::start(world.client.clone(), vec![node]).await.unwrap();
    let spec = of_template(pod("example.test/app:1", json!({ "runtimeClassName": "windows-lost" })));
    let deployment = serde_json::from_value(json!({ "metadata": { "name": "lost" }, "spec": spec })).unwrap();
    let deployments = Api::<k8s_openapi::api::apps::v1::Deployment>::namespaced(world.client.clone(), "default");
    deployments.create(&PostParams::default(), &deployment).await.unwrap();
    world.apply_pool("web", "ltsc2022", ("os", "windows")).await.unwrap();
    (world, kubelets)
}

#[tokio::test]
async fn workloads_that_are_not_looked_at_are_not_watched() {
    let (world, _kubelets) = world().await;
    let _operator = Operator::start(&world.control_plane, &["--workloads=off"], &[]).await.unwrap();
    world.until_guarded("web", ("os", "windows"), 1).await.unwrap();
    let told = world.until_condition("web", "WorkloadsPlaced", "Unknown", "NotLookedAt").await.unwrap();
    assert!(told.message.contains("--workloads=off"), "{}", told.message);
    world.until_as_specified("web").await.unwrap();
    world.until_quiet().await.unwrap();
    assert_eq!(of_workloads(&world), []);
    assert!(world.pool("web").await.unwrap()["status"].get("workloads").is_none());
    world.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn without_the_role_for_workloads_the_nodes_are_guarded_and_with_it_all_is_told() {
    let (world, _kubelets) = world().await;
    let bindings = Api::<ClusterRoleBinding>::all(world.client.clone());
    bindings.delete("winpool-workloads", &DeleteParams::default()).await.unwrap();
    let forbidden = || async {
        let answer = kubectl(
            &world.control_plane,
            User::Admin,
            &["auth", "can-i", "list", "pods", "--as", &User::Operator.name()],
        );
        ensure!(answer.is_err(), "the operator may still list pods");
        Ok(())
    };
    eventually("the role is taken away", COUNTED, forbidden).await.unwrap();
    let operator = Operator::spawn(&world.control_plane, &["--registry=off"], &[]).unwrap();
    world.until_guarded("web", ("os", "windows"), 1).await.unwrap();
    let told = world.until_condition("web", "WorkloadsPlaced", "Unknown", "NotLookedAt").await.unwrap();
    assert!(told.message.contains("config/rbac/workloads.yaml"), "{}", told.message);
    world.until_as_specified("web").await.unwrap();
    assert!(of_workloads(&world).iter().all(Request::is_forbidden));
    assert_eq!(operator.get("/livez").await.unwrap().0, 200);
    operator.wait_ready(COUNTED).await.unwrap();
    let (_, readyz) = operator.get("/readyz").await.unwrap();
    assert!(readyz.starts_with("ok\n") && readyz.contains("DaemonSet, Deployment, "), "{readyz}");
    let synced = async |kind| operator.metric("winpool_cache_synced", &[("kind", kind)]).await.unwrap() > 0.0;
    assert!(!synced("Pod").await && synced("Node").await);
    let log = operator.log().unwrap();
    let said = log.lines().filter(|line| line.contains("cannot watch") && line.contains("kind=\"Pod\"")).count();
    assert_eq!(said, 1, "{log}");

    let role = e2e::operator::workspace().join("config/rbac/workloads.yaml");
    kubectl(&world.control_plane, User::Admin, &["apply", "-f", &role.display().to_string()]).unwrap();
    let told = world.until_condition("web", "WorkloadsPlaced", "False", "NoPoolTakes").await.unwrap();
    assert!(
        told.message.contains("there is no RuntimeClass windows-lost: name one of windows-ltsc2022"),
        "{}",
        told.message
    );
    let events = Api::<Event>::namespaced(world.client.clone(), "default");
    let told = until("it is warned of", COUNTED, || warnings(&events, "lost"), |told| !told.is_empty()).await.unwrap();
    assert!(matches!(told.as_slice(), [(reason, _, 1)] if reason == "NoPoolTakes"), "{told:#?}");
    assert_eq!(operator.get("/readyz").await.unwrap(), (200, "ok\n".to_owned()));
    assert!(synced("Pod").await);
}

//! The roles of `config/cluster-api` have no permission that is not needed.

use e2e::{cluster::SOON, cluster_api::install_provider, permissions::unused, wait::until};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::{
    BASE, DEPLOYMENT, POOL, World, pool,
    references::{allow, create_machine_pool},
    templates::large_files,
};

const ROLES: [&str; 2] = ["config/cluster-api/cluster_role.yaml", "config/cluster-api/role.yaml"];

fn with_cleanup(fields: Value) -> Value {
    let mut spec = pool(fields);
    spec["deletionPolicy"] = json!("Cleanup");
    spec
}

#[tokio::test]
async fn each_permission_for_cluster_api_is_used_and_no_other_is_missing() {
    let world = World::v1beta2().await;
    install_provider(&world.cluster.control_plane, &world.cluster.client, &json!({"cpu": "8"})).await.unwrap();
    allow(&world).await;
    create_machine_pool(&world).await;
    // Files that need a Secret, and for each kind of machines a second configuration, after which nothing refers to the first.
    world.cluster.apply_profile("standard", large_files("x")).await.unwrap();
    let deployments = json!({"rotation": "Automatic", "autoscaling": {"cpu": "4", "memory": "16Gi"}});
    world.cluster.apply_pool(POOL, with_cleanup(deployments)).await.unwrap();
    let first = world.machines.until_template(DEPLOYMENT, |name| name != BASE).await.unwrap();
    world.cluster.apply_profile("standard", large_files("y")).await.unwrap();
    world.machines.until_template(DEPLOYMENT, |name| name != first).await.unwrap();

    let selector = json!({"matchLabels": {"winpool": POOL}});
    let pools = json!({"machineDeployments": null, "machinePools": selector, "rotation": "Automatic"});
    world.cluster.apply_pool(POOL, with_cleanup(pools)).await.unwrap();
    world.until("True", "UpToDate").await;
    let first = world.group().await.current;
    world.cluster.apply_profile("standard", large_files("z")).await.unwrap();
    let current = async || Ok(world.group().await.current);
    until("another KubeadmConfig", SOON, current, |name| *name != first).await.unwrap();

    world.cluster.pools().delete(POOL, &DeleteParams::default()).await.unwrap();
    let unused = async || unused(&ROLES, &world.cluster.requests()?);
    until("every permission is used", SOON, unused, Vec::is_empty).await.unwrap();
    world.cluster.until_pool_gone(POOL).await.unwrap();
    world.stop().await;
}

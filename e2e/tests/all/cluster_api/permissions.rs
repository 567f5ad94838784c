//! The roles of `config/cluster-api` have no permission that is not needed.

use e2e::{cluster::SOON, cluster_api::create_template, permissions::unused, wait::until};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::{
    BASE, DEPLOYMENT, Fixture, POOL, pool,
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
    let fixture = Fixture::start().await;
    create_template(&fixture.cluster.client, &json!({"cpu": "8"})).await.unwrap();
    allow(&fixture).await;
    create_machine_pool(&fixture).await;
    // Files that need a Secret, and for each kind of machines a second configuration, after which nothing refers to the first.
    fixture.cluster.apply_profile("standard", large_files("x")).await.unwrap();
    let deployments = json!({"rotation": "Automatic", "autoscaling": {"cpu": "4", "memory": "16Gi"}});
    fixture.cluster.apply_pool(POOL, with_cleanup(deployments)).await.unwrap();
    let first = fixture.machines.until_template(DEPLOYMENT, |name| name != BASE).await.unwrap();
    fixture.cluster.apply_profile("standard", large_files("y")).await.unwrap();
    fixture.machines.until_template(DEPLOYMENT, |name| name != first).await.unwrap();

    let selector = json!({"matchLabels": {"winpool": POOL}});
    let pools = json!({"machineDeployments": null, "machinePools": selector, "rotation": "Automatic"});
    fixture.cluster.apply_pool(POOL, with_cleanup(pools)).await.unwrap();
    fixture.until("True", "UpToDate").await;
    let first = fixture.group().await.current;
    fixture.cluster.apply_profile("standard", large_files("z")).await.unwrap();
    let current = async || Ok(fixture.group().await.current);
    until("another KubeadmConfig", SOON, current, |name| *name != first).await.unwrap();

    fixture.cluster.pools().delete(POOL, &DeleteParams::default()).await.unwrap();
    let unused = async || unused(&ROLES, &fixture.cluster.requests()?);
    until("every permission is used", SOON, unused, Vec::is_empty).await.unwrap();
    fixture.cluster.until_pool_gone(POOL).await.unwrap();
    fixture.stop().await;
}

//! Machines of Cluster API: a pool makes their template, and describes them to an autoscaler that starts with none.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use e2e::{
    cluster_api::{CLUSTER, Machines, NAMESPACE, install_cluster_api, install_cluster_api_permissions},
    control_plane::{ControlPlane, User},
    kubectl::kubectl,
    wait::until,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde_json::json;
use winpool_api::{WindowsNodePool, WindowsRuntimeProfile, facts::cluster_api::VERSION};

use crate::{
    pools,
    progress::{blocking, bold, step},
};

/// The pool, its profile, and the label of its MachineDeployment.
const NAME: &str = "scaled-2022";
const DEPLOYMENT: &str = "scaled-md";
const TIMEOUT: Duration = Duration::from_secs(120);

/// Shows the template and the annotations of a MachineDeployment.
///
/// # Errors
/// When they are not as expected.
pub async fn show(control_plane: &Arc<ControlPlane>, client: &Client) -> Result<()> {
    println!("\n{}", bold("Machines of Cluster API"));
    let machines = Machines::new(client.clone());
    let shared = control_plane.clone();
    step("installing the resources of Cluster API", async {
        install_cluster_api(&shared, VERSION).await?;
        blocking(move || install_cluster_api_permissions(&shared)).await?;
        machines.create_cluster().await?;
        machines.create_deployment(DEPLOYMENT, json!({"winpool": NAME}), "v1.36.2", "base-windows").await?;
        Ok(((), format!("MachineDeployment {DEPLOYMENT} of cluster {CLUSTER} created, with its template base-windows")))
    })
    .await?;
    let template = step("applying a pool with delivery.method: ClusterAPI", async {
        apply(client).await?;
        let read = || template(client);
        let template =
            until("the pool names the template", TIMEOUT, read, Option::is_some).await?.context("no template")?;
        let result = format!("MachinesTemplated=True RotationPending: KubeadmConfigTemplate {template} exists");
        Ok((template, result))
    })
    .await?;
    let files = r#"-o=jsonpath={range .spec.template.spec.files[*]}{.path}{"\n"}{end}"#;
    print(control_plane, &["get", "kubeadmconfigtemplate", &template, files]).await?;
    print(control_plane, &["annotate", "machinedeployment", DEPLOYMENT, "--list"]).await?;
    step("referring to the template, as a person or Git does", async {
        machines.refer(DEPLOYMENT, &template).await?;
        let read = || condition(client);
        until("the machines are up to date", TIMEOUT, read, |reason| reason == "UpToDate").await?;
        Ok(((), format!("MachinesTemplated=True UpToDate: {DEPLOYMENT} refers to {template}")))
    })
    .await
}

async fn apply(client: &Client) -> Result<()> {
    let pool = json!({
        "windowsVersion": "ltsc2022",
        "nodeSelector": {"matchLabels": {"agentpool": NAME}},
        "profileRef": {"name": NAME},
        "delivery": {"method": "ClusterAPI", "clusterAPI": {
            "namespace": NAMESPACE,
            "clusterName": CLUSTER,
            "machineDeployments": {"matchLabels": {"winpool": NAME}},
            "containerdVersion": "2.2",
            "autoscaling": {"cpu": "4", "memory": "16Gi"},
        }},
    });
    for (resource, spec) in [
        (ApiResource::erase::<WindowsRuntimeProfile>(&()), json!({"kubelet": {"maxPods": 60}})),
        (ApiResource::erase::<WindowsNodePool>(&()), pool),
    ] {
        let body = json!({
            "apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": NAME}, "spec": spec,
        });
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        api.patch(NAME, &PatchParams::apply("demo").force(), &Patch::Apply(body)).await?;
    }
    Ok(())
}

/// The template that exists and to which the MachineDeployment does not refer yet.
async fn template(client: &Client) -> Result<Option<String>> {
    let pool = pool(client).await?;
    let group = pool.status.and_then(|status| status.cluster_api?.groups.into_iter().next());
    let pending = condition(client).await? == "RotationPending";
    Ok(group.map(|group| group.template).filter(|template| pending && !template.is_empty()))
}

/// The reason of `MachinesTemplated`.
async fn condition(client: &Client) -> Result<String> {
    let status = pool(client).await?.status.unwrap_or_default();
    let condition = status.conditions.into_iter().find(|condition| condition.type_ == "MachinesTemplated");
    Ok(condition.map(|condition| condition.reason).unwrap_or_default())
}

async fn pool(client: &Client) -> Result<WindowsNodePool> {
    pools::read(client).await?.into_iter().find(|pool| pool.name_any() == NAME).context("the pool was deleted")
}

async fn print(control_plane: &Arc<ControlPlane>, arguments: &[&str]) -> Result<()> {
    let shared = control_plane.clone();
    let owned: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let text = blocking(move || {
        let arguments: Vec<&str> = owned.iter().map(String::as_str).collect();
        kubectl(&shared, User::Admin, &arguments)
    })
    .await?;
    println!("\n{}\n{}\n", bold(&format!("$ kubectl {}", arguments.join(" "))), text.trim_end());
    Ok(())
}

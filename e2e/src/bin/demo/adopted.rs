//! A pool that adopts nodes that others have tainted: the new taint waits for a Deployment.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use e2e::{
    control_plane::{ControlPlane, User},
    kubectl::kubectl,
    kubelet::{Kubelets, SimulatedNode},
    wait::until,
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::json;
use winpool_api::WindowsNodePool;

use crate::{
    pools,
    progress::{blocking, bold, step},
};

/// The pool, its Deployment, and the label of its nodes.
const NAME: &str = "adopted";
const TIMEOUT: Duration = Duration::from_secs(120);

/// Shows the adoption of two nodes.
///
/// # Errors
/// When the taints are not as expected.
pub async fn show(control_plane: &Arc<ControlPlane>, client: &Client, kubelets: &Kubelets) -> Result<()> {
    println!("\n{}", bold("Nodes that another tool has tainted"));
    let deployments = Api::<Deployment>::namespaced(client.clone(), "default");
    step("registering nodes with os=Windows:NoSchedule", async {
        let node = |number: u32| {
            SimulatedNode::windows(&format!("{NAME}-{number}"), "10.0.20348.2402").label("agentpool", NAME).taint(
                "os",
                "Windows",
                "NoSchedule",
            )
        };
        kubelets.add(vec![node(1), node(2)]).await?;
        deployments.create(&PostParams::default(), &serde_json::from_value(deployment())?).await?;
        let ready = || async {
            let status = deployments.get(NAME).await?.status.unwrap_or_default();
            Ok(status.ready_replicas)
        };
        until("its pods run", TIMEOUT, ready, |ready| *ready == Some(2)).await?;
        Ok(((), format!("2 nodes, and Deployment {NAME}, whose pods tolerate this taint only")))
    })
    .await?;
    let message = step("applying a pool that replaces the taint by os=windows:NoSchedule", async {
        apply(client).await?;
        let (_, message) = until_tainted(client, "WouldStrandPods").await?;
        Ok((message, "NodesTainted=False WouldStrandPods: the nodes keep their taint".to_owned()))
    })
    .await?;
    println!("\n  {message}\n");
    step("adding the toleration to the Deployment", async {
        let tolerations = json!([{"key": "os", "operator": "Exists", "effect": "NoSchedule"}]);
        let patch = json!({"spec": {"template": {"spec": {"tolerations": tolerations}}}});
        deployments.patch(NAME, &PatchParams::default(), &Patch::Merge(patch)).await?;
        until_tainted(client, "Applied").await?;
        Ok(((), "NodesTainted=True Applied: the taints are exchanged".to_owned()))
    })
    .await?;
    print_taints(control_plane).await
}

/// A Deployment whose pods tolerate the taint of the others only.
fn deployment() -> serde_json::Value {
    let labels = json!({"app": NAME});
    json!({
        "metadata": {"name": NAME},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": {"kubernetes.io/os": "windows", "agentpool": NAME},
                    "tolerations": [{"key": "os", "value": "Windows", "effect": "NoSchedule"}],
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "app", "image": "mcr.microsoft.com/windows/nanoserver:ltsc2022"}],
                },
            },
        },
    })
}

async fn apply(client: &Client) -> Result<()> {
    let resource = ApiResource::erase::<WindowsNodePool>(&());
    let spec = json!({
        "windowsVersion": "ltsc2022",
        "nodeSelector": {"matchLabels": {"agentpool": NAME}},
        "replacesTaints": [{"key": "os", "value": "Windows", "effect": "NoSchedule"}],
        "runtimeClasses": [{"name": "windows-ltsc2022-adopted", "scope": "Compatible"}],
    });
    let body = json!({
        "apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": NAME}, "spec": spec,
    });
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    api.patch(NAME, &PatchParams::apply("demo").force(), &Patch::Apply(body)).await?;
    Ok(())
}

/// Waits until `NodesTainted` has a reason. Returns the reason and the message.
async fn until_tainted(client: &Client, reason: &str) -> Result<(String, String)> {
    let read = || async {
        let pool = pools::read(client).await?.into_iter().find(|pool| pool.name_any() == NAME);
        let status = pool.context("the pool was deleted")?.status.unwrap_or_default();
        let found = status.conditions.into_iter().find(|condition| condition.type_ == "NodesTainted");
        Ok(found.map(|condition| (condition.reason, condition.message)).unwrap_or_default())
    };
    until(&format!("the pool reports {reason}"), TIMEOUT, read, |(now, _)| now == reason).await
}

async fn print_taints(control_plane: &Arc<ControlPlane>) -> Result<()> {
    let columns = "custom-columns=NAME:.metadata.name,TAINTS:.spec.taints[*].value,RUNS:.metadata.labels.runs\\.winpool\\.dev/ltsc2022";
    let shared = control_plane.clone();
    let selector = format!("agentpool={NAME}");
    let text =
        blocking(move || kubectl(&shared, User::Admin, &["get", "nodes", "-l", &selector, "-o", columns])).await?;
    println!("\n{}\n{}\n", bold(&format!("$ kubectl get nodes -l agentpool={NAME} -o {columns}")), text.trim_end());
    Ok(())
}

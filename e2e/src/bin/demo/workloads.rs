//! The Deployments of the demonstration, the nodes of their Pods, and the two workloads that are intentionally wrong.

use anyhow::{Context, Result};
use e2e::kubelet::WINDOWS_BUILD;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::{Node, Pod},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::fleet::{Mistakes, Placement, Workload};

/// The namespace of the workloads.
const NAMESPACE: &str = "default";

/// Creates the Deployments.
///
/// # Errors
/// When the API server rejects one.
pub async fn create(client: &Client, workloads: &[Workload]) -> Result<()> {
    let deployments = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);
    for workload in workloads {
        let object = serde_json::from_value(object(workload))?;
        deployments
            .create(&PostParams::default(), &object)
            .await
            .with_context(|| format!("creating Deployment {}", workload.name))?;
    }
    Ok(())
}

/// Creates the workloads that are intentionally wrong.
///
/// # Errors
/// When the API server rejects one.
pub async fn create_mistakes(client: &Client, mistakes: Mistakes) -> Result<()> {
    let by_class = |image: &str| {
        let mut pod = pod(image);
        pod["runtimeClassName"] = json!(mistakes.class);
        pod
    };
    let post = PostParams::default();
    let deployment = of_template(Mistakes::DEPLOYMENT, by_class(Mistakes::IMAGE));
    let deployments = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);
    deployments.create(&post, &serde_json::from_value(deployment)?).await.context("creating a Deployment")?;
    let daemon_set = of_template(Mistakes::DAEMON_SET, by_class(mistakes.fits));
    let daemon_sets = Api::<DaemonSet>::namespaced(client.clone(), NAMESPACE);
    daemon_sets.create(&post, &serde_json::from_value(daemon_set)?).await.context("creating a DaemonSet")?;
    Ok(())
}

/// A Pod's spec with a memory limit, because Windows has no out-of-memory killer and pages instead.
fn pod(image: &str) -> Value {
    let memory = json!({ "memory": "512Mi" });
    json!({ "containers": [{ "name": "app", "image": image, "resources": { "requests": memory, "limits": memory } }] })
}

/// The spec of a controller with this Pod as template, which selects by the label `app`.
fn of_template(name: &str, pod: Value) -> Value {
    let labels = json!({ "app": name });
    json!({
        "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": pod },
        },
    })
}

fn object(workload: &Workload) -> Value {
    let mut pod = pod(workload.image);
    match workload.placement {
        Placement::RuntimeClass { name, .. } => pod["runtimeClassName"] = json!(name),
        Placement::ByHand { build } => {
            pod["nodeSelector"] = json!({ "kubernetes.io/os": "windows", WINDOWS_BUILD: build });
            pod["tolerations"] =
                json!([{ "key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule" }]);
        }
        Placement::Anywhere => {}
    }
    let mut object = of_template(workload.name, pod);
    object["spec"]["replicas"] = json!(workload.replicas);
    object
}

/// The Pods that do not run yet, or run on a wrong node.
///
/// # Errors
/// When the API server does not answer.
pub async fn missing(client: &Client, workloads: &[Workload]) -> Result<Vec<String>> {
    let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE).list(&ListParams::default()).await?.items;
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?.items;
    Ok(workloads.iter().flat_map(|workload| missing_of(workload, &pods, &nodes)).collect())
}

fn missing_of(workload: &Workload, pods: &[Pod], nodes: &[Node]) -> Vec<String> {
    let own: Vec<&Pod> =
        pods.iter().filter(|pod| pod.labels().get("app").is_some_and(|app| app == workload.name)).collect();
    let running = own.iter().filter(|pod| phase(pod) == Some("Running")).count();
    let mut missing = Vec::new();
    if running < workload.replicas {
        let why = own.iter().find_map(|pod| unschedulable(pod)).map(|why| format!(" ({why})")).unwrap_or_default();
        missing.push(format!("Deployment {}: {running} of {} Pods run{why}", workload.name, workload.replicas));
    }
    missing.extend(own.iter().filter_map(|pod| misplaced(workload, pod, nodes)));
    missing
}

/// A message if a Pod is on a node of another build or operating system.
fn misplaced(workload: &Workload, pod: &Pod, nodes: &[Node]) -> Option<String> {
    let name = pod.spec.as_ref()?.node_name.as_deref()?;
    let node = nodes.iter().find(|node| node.name_any() == name)?;
    let info = node.status.as_ref()?.node_info.as_ref()?;
    let build = (info.operating_system == "windows")
        .then(|| info.kernel_version.rsplit_once('.').map_or(info.kernel_version.as_str(), |(build, _)| build));
    let wanted = workload.placement.build();
    (build != wanted).then(|| {
        let words = |build: Option<&str>| build.map_or("Linux".to_owned(), |build| format!("Windows {build}"));
        format!("Pod {} is on {name}, which runs {}; it needs {}", pod.name_any(), words(build), words(wanted))
    })
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

fn unschedulable(pod: &Pod) -> Option<&str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let unscheduled = conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    unscheduled.message.as_deref()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn node(name: &str, os: &str, kernel: &str) -> Node {
        let info = json!({
            "operatingSystem": os, "kernelVersion": kernel, "architecture": "amd64", "bootID": "", "machineID": "",
            "systemUUID": "", "osImage": "", "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "",
        });
        serde_json::from_value(json!({ "metadata": { "name": name }, "status": { "nodeInfo": info } })).unwrap()
    }

    #[test]
    fn a_pod_belongs_on_its_build_and_a_linux_pod_on_no_windows_node() {
        let nodes = [
            node("w19", "windows", "10.0.17763.1"),
            node("w22", "windows", "10.0.20348.1"),
            node("l", "linux", "5.10.0-20"),
        ];
        let server_2022 = Placement::ByHand { build: "10.0.20348" };
        for (placement, on, phase, expected) in [
            (server_2022, "w22", "Running", None),
            (
                server_2022,
                "w19",
                "Running",
                Some("Pod a is on w19, which runs Windows 10.0.17763; it needs Windows 10.0.20348"),
            ),
            (server_2022, "w22", "Pending", Some("Deployment a: 0 of 1 Pods run")),
            (Placement::Anywhere, "l", "Running", None),
            (
                Placement::Anywhere,
                "w22",
                "Running",
                Some("Pod a is on w22, which runs Windows 10.0.20348; it needs Linux"),
            ),
        ] {
            let pod = json!({
                "metadata": { "name": "a", "labels": { "app": "a" } },
                "spec": { "nodeName": on, "containers": [] },
                "status": { "phase": phase },
            });
            let workload = Workload { name: "a", replicas: 1, placement, image: "" };
            let missing = missing_of(&workload, &[serde_json::from_value(pod).unwrap()], &nodes);
            assert_eq!(missing.first().map(String::as_str), expected, "{placement:?} on {on}");
        }
    }
}

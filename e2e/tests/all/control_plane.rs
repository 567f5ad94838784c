//! Tests of the harness: the control plane is a real one, and simulated nodes behave like real nodes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::ensure;
use e2e::{
    cluster::{Cluster, OS_WINDOWS},
    control_plane::{ControlPlane, OPERATOR_NAMESPACE, Options, User},
    kubectl::{kubectl, kubectl_with_input},
    kubelet::{CONFIG_ANNOTATION, Kubelets, SimulatedNode, WINDOWS_BUILD},
    network::accepts_connections,
    shared::Shared,
    wait::{eventually, stays, until},
};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Namespace, Node, Pod, ServiceAccount},
        node::v1::RuntimeClass,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(180);

/// One control plane for the tests that use different names and do not affect each other.
async fn shared() -> Arc<ControlPlane> {
    static SHARED: Shared<ControlPlane> = Shared::new();
    SHARED.get(async || ControlPlane::start(Options::default()).await).await.unwrap()
}

async fn create<K>(api: Api<K>, object: Value) -> K
where
    K: Resource + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

fn windows_class(name: &str, build: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "handler": "runhcs-wcow-process",
        "scheduling": {
            "nodeSelector": { "kubernetes.io/os": "windows", WINDOWS_BUILD: build },
            "tolerations": [{ "key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule" }],
        },
    })
}

fn deployment(name: &str, replicas: u32, class: Option<&str>, selector: &Value) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": {
                    "runtimeClassName": class,
                    "nodeSelector": selector,
                    "containers": [{ "name": "app", "image": "example.test/app:1" }],
                },
            },
        },
    })
}

async fn pods_of(client: &Client, app: &str) -> anyhow::Result<Vec<Pod>> {
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    Ok(pods.list(&ListParams::default().labels(&format!("app={app}"))).await?.items)
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref())
}

fn has_taint(node: &Node, key: &str) -> bool {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).any(|taint| taint.key == key)
}

#[tokio::test]
async fn each_kubeconfig_authenticates_its_user() {
    let control_plane = shared().await;
    let version = control_plane.client(User::Admin).await.unwrap().apiserver_version().await.unwrap();
    assert_eq!(version.git_version, control_plane.version().text);
    assert!(kubectl(&control_plane, User::Admin, &["get", "namespaces"]).unwrap().contains("kube-system"));
    for (user, may) in [(User::Admin, true), (User::OtherA, true), (User::OtherB, true), (User::Operator, false)] {
        let nodes = Api::<Node>::all(control_plane.client(user).await.unwrap()).list(&ListParams::default()).await;
        assert_eq!(nodes.is_ok(), may, "{user:?}: {nodes:?}");
    }
    let user = control_plane.client_as("somebody", &["some-group"]).await.unwrap();
    let refusal = Api::<Node>::all(user).list(&ListParams::default()).await.unwrap_err().to_string();
    assert!(refusal.contains(r#"User "somebody" cannot list"#), "{refusal}");
}

#[tokio::test]
async fn requests_are_recorded_with_their_answers() {
    let control_plane = shared().await;
    let other = control_plane.client(User::OtherB).await.unwrap();
    let config_maps = Api::<ConfigMap>::namespaced(other, "default");
    create(config_maps.clone(), json!({ "metadata": { "name": "recorded" } })).await;
    config_maps.delete("recorded", &DeleteParams::default()).await.unwrap();
    assert_eq!(config_maps.get_opt("recorded").await.unwrap(), None);

    let mine = || async {
        let requests = control_plane.requests_of(User::OtherB)?;
        let of_config_maps = requests.into_iter().filter(|request| request.resource == "configmaps");
        Ok(of_config_maps.map(|r| (r.verb.clone(), r.name.clone(), r.code, r.is_write())).collect::<Vec<_>>())
    };
    let recorded = until("three requests are recorded", SOON, mine, |requests| requests.len() == 3).await.unwrap();
    let expected = [("create", "", 201, true), ("delete", "recorded", 200, true), ("get", "recorded", 404, false)];
    for ((verb, name, code, write), (wanted_verb, wanted_name, wanted_code, wanted_write)) in
        recorded.iter().zip(expected)
    {
        assert_eq!((verb.as_str(), *code, *write), (wanted_verb, wanted_code, wanted_write));
        // API server versions differ in whether the audit log has the name of a created object from its body.
        assert!(name == wanted_name || verb == "create", "{name}");
    }

    let operator = control_plane.client(User::Operator).await.unwrap();
    Api::<Namespace>::all(operator).get("default").await.unwrap_err();
    let forbidden = || async {
        let requests = control_plane.requests_of(User::Operator)?;
        Ok(requests.into_iter().filter(|r| r.resource == "namespaces" && r.is_forbidden()).count())
    };
    until("the refusal is recorded", SOON, forbidden, |count| *count == 1).await.unwrap();
}

#[tokio::test]
async fn a_runtime_class_gives_its_selector_and_tolerations_to_a_pod() {
    let control_plane = shared().await;
    let client = control_plane.client(User::Admin).await.unwrap();
    create(Api::<RuntimeClass>::all(client.clone()), windows_class("merged", "10.0.1")).await;
    let pods = Api::<Pod>::namespaced(client, "default");
    let pod = json!({
        "metadata": { "name": "merged" },
        "spec": {
            "runtimeClassName": "merged",
            "nodeSelector": { "own": "selector" },
            "containers": [{ "name": "app", "image": "example.test/app:1" }],
        },
    });
    // The admission plugin may not have received a new class yet.
    let created = || async { Ok(pods.create(&PostParams::default(), &serde_json::from_value(pod.clone())?).await?) };
    let spec = eventually("the class is known", SOON, created).await.unwrap().spec.unwrap();
    let selector: BTreeMap<_, _> = [("kubernetes.io/os", "windows"), (WINDOWS_BUILD, "10.0.1"), ("own", "selector")]
        .map(|(k, v)| (k.into(), v.into()))
        .into();
    assert_eq!(spec.node_selector, Some(selector));
    let tolerations = spec.tolerations.unwrap();
    assert!(tolerations.iter().any(|t| t.key.as_deref() == Some("os") && t.value.as_deref() == Some("windows")));
}

#[tokio::test]
async fn windows_pods_run_on_their_build_and_a_linux_pod_stays_pending() {
    let control_plane = shared().await;
    let client = control_plane.client(User::Admin).await.unwrap();
    let tainted_node = |node: SimulatedNode| node.taint("os", "windows", "NoSchedule").label("test", "placement");
    let nodes = vec![
        tainted_node(SimulatedNode::windows("placement-2019", "10.0.17763.5329")),
        tainted_node(SimulatedNode::windows("placement-2004", "10.0.19041.1000")),
    ];
    let _kubelets = Kubelets::start(client.clone(), nodes).await.unwrap();
    create(Api::<RuntimeClass>::all(client.clone()), windows_class("placement-2019", "10.0.17763")).await;
    let deployments = Api::<Deployment>::namespaced(client.clone(), "default");
    let anywhere_here = json!({ "test": "placement" });
    create(deployments.clone(), deployment("on-windows", 2, Some("placement-2019"), &anywhere_here)).await;
    create(deployments.clone(), deployment("on-linux", 1, None, &anywhere_here)).await;

    let running = |pods: &Vec<Pod>| pods.len() == 2 && pods.iter().all(|pod| phase(pod) == "Running");
    let pods = until("both Windows pods run", SOON, || pods_of(&client, "on-windows"), running).await.unwrap();
    assert!(pods.iter().all(|pod| node_of(pod) == Some("placement-2019")), "{pods:#?}");
    let available = || async { Ok(deployments.get("on-windows").await?.status.and_then(|s| s.available_replicas)) };
    until("the Deployment counts them", SOON, available, |count| *count == Some(2)).await.unwrap();

    let refused = |pods: &Vec<Pod>| {
        pods.iter().flat_map(|pod| pod.status.iter().flat_map(|status| status.conditions.iter().flatten())).any(|c| {
            c.reason.as_deref() == Some("Unschedulable") && c.message.as_deref().is_some_and(|m| m.contains("taint"))
        })
    };
    let pods = until("the scheduler names the taint", SOON, || pods_of(&client, "on-linux"), refused).await.unwrap();
    assert_eq!(node_of(&pods[0]), None);

    deployments.delete("on-windows", &DeleteParams::background()).await.unwrap();
    until("the kubelet completes the deletion of its pods", SOON, || pods_of(&client, "on-windows"), Vec::is_empty)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_node_reports_its_changes_and_can_be_registered_again() {
    let control_plane = shared().await;
    let client = control_plane.client(User::Admin).await.unwrap();
    let nodes = Api::<Node>::all(client.clone());
    let plain = SimulatedNode::windows("changes", "10.0.17763.1").runtime("containerd://1.7.27").kubelet("v1.29.7");
    let old = SimulatedNode::windows("changes-old", "10.0.17763.1").without_build_label();
    let kubelets = Kubelets::start(client, vec![plain, old]).await.unwrap();
    let label = |node: &Node| node.metadata.labels.as_ref().and_then(|labels| labels.get(WINDOWS_BUILD).cloned());

    let node = nodes.get("changes").await.unwrap();
    assert_eq!(label(&node).as_deref(), Some("10.0.17763"));
    assert!(!has_taint(&node, "node.kubernetes.io/not-ready"));
    let info = node.status.and_then(|status| status.node_info).unwrap();
    assert_eq!(info.kernel_version, "10.0.17763.1");
    assert_eq!(info.os_image, "Windows Server 2019 Datacenter");
    assert_eq!(
        (info.container_runtime_version.as_str(), info.kubelet_version.as_str()),
        ("containerd://1.7.27", "v1.29.7")
    );
    assert_eq!(label(&nodes.get("changes-old").await.unwrap()), None);

    kubelets.set_kernel_version("changes", "10.0.20348.7").await.unwrap();
    kubelets.set_kernel_version("changes-old", "10.0.20348.7").await.unwrap();
    assert_eq!(label(&nodes.get("changes").await.unwrap()).as_deref(), Some("10.0.20348"));
    assert_eq!(label(&nodes.get("changes-old").await.unwrap()), None);

    kubelets.set_ready("changes-old", false).await.unwrap();
    let pods = Api::<Pod>::namespaced(kubelets.client(), "default");
    let spec = json!({ "nodeName": "changes-old", "containers": [{ "name": "app", "image": "example.test/app:1" }] });
    create(pods.clone(), json!({ "metadata": { "name": "waits-for-its-node" }, "spec": spec })).await;
    let phase_now = || async { Ok(phase(&pods.get("waits-for-its-node").await?).to_owned()) };
    stays("its Pod waits", Duration::from_millis(500), phase_now, |phase| phase == "Pending").await.unwrap();
    kubelets.set_ready("changes-old", true).await.unwrap();
    until("its Pod runs", SOON, phase_now, |phase| phase == "Running").await.unwrap();

    let tainted = || async { Ok(has_taint(&nodes.get("changes").await?, "node.kubernetes.io/not-ready")) };
    kubelets.set_ready("changes", false).await.unwrap();
    until("the controller manager taints it", SOON, tainted, |tainted| *tainted).await.unwrap();
    kubelets.set_ready("changes", true).await.unwrap();
    until("the taint is removed", SOON, tainted, |tainted| !tainted).await.unwrap();

    let first = nodes.get("changes").await.unwrap().metadata.uid;
    kubelets.delete("changes").await.unwrap();
    assert_eq!(nodes.get_opt("changes").await.unwrap(), None);
    kubelets.register_again("changes").await.unwrap();
    assert_ne!(nodes.get("changes").await.unwrap().metadata.uid, first);
}

#[tokio::test]
async fn a_delivered_configuration_changes_the_allocatable_resources() {
    let control_plane = shared().await;
    let client = control_plane.client(User::Admin).await.unwrap();
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": OPERATOR_NAMESPACE } });
    kubectl_with_input(&control_plane, User::Admin, &["apply", "-f", "-"], &namespace.to_string()).unwrap();
    let nodes = Api::<Node>::all(client.clone());
    let delivered = SimulatedNode::windows("delivered", "10.0.20348.1").taking_configuration();
    let left_alone = SimulatedNode::windows("left-alone", "10.0.20348.1");
    let kubelets = Kubelets::start(client.clone(), vec![delivered, left_alone]).await.unwrap();
    let before = nodes.get("left-alone").await.unwrap().status.and_then(|status| status.allocatable);

    let yaml = "maxPods: 42\nsystemReserved: { cpu: 500m, memory: 2Gi }\nevictionHard: { memory.available: 1Gi }\n\
                registerWithTaints: [ { key: os, value: windows, effect: NoSchedule } ]\n";
    let config_maps = Api::<ConfigMap>::namespaced(client, OPERATOR_NAMESPACE);
    let annotate = |node: &'static str, variant: &str| {
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { CONFIG_ANNOTATION: variant } } }));
        let nodes = nodes.clone();
        async move { nodes.patch(node, &PatchParams::default(), &patch).await.unwrap() }
    };
    annotate("left-alone", "variant-1").await;
    // Out of order: the annotation is set first, and changed before the first ConfigMap exists.
    annotate("delivered", "variant-0").await;
    annotate("delivered", "variant-1").await;
    for (name, yaml) in [("variant-0", "maxPods: 7\n"), ("variant-1", yaml)] {
        create(config_maps.clone(), json!({ "metadata": { "name": name }, "data": { "kubelet.yaml": yaml } })).await;
    }

    let allocatable = || async {
        let status = nodes.get("delivered").await?.status.unwrap_or_default();
        Ok((status.allocatable.unwrap_or_default(), status.capacity.unwrap_or_default()))
    };
    let quantity = |text: &str| Some(Quantity(text.to_owned()));
    let (left, capacity) =
        until("42 pods", SOON, allocatable, |(left, _)| left.get("pods").cloned() == quantity("42")).await.unwrap();
    assert_eq!(left.get("cpu").cloned(), quantity("7500m"));
    assert_eq!(left.get("memory").cloned(), quantity("31138512896"));
    assert_eq!(capacity.get("pods").cloned(), quantity("42"));
    assert_eq!(kubelets.configuration_of("delivered").as_deref(), Some("variant-1"));

    let same = || async { Ok(nodes.get("left-alone").await?.status.and_then(|status| status.allocatable)) };
    stays("a node without delivery keeps its allocatable resources", Duration::from_secs(1), same, |now| {
        *now == before
    })
    .await
    .unwrap();

    kubelets.delete("delivered").await.unwrap();
    kubelets.register_again("delivered").await.unwrap();
    assert!(
        has_taint(&nodes.get("delivered").await.unwrap(), "os"),
        "it registers with the taints of its configuration"
    );
}

#[tokio::test]
async fn a_restarted_api_server_has_its_former_objects() {
    let control_plane = ControlPlane::start(Options::api_server_only()).await.unwrap();
    let client = control_plane.client(User::Admin).await.unwrap();
    let kubelets = Kubelets::start(client.clone(), vec![SimulatedNode::linux("survivor")]).await.unwrap();

    control_plane.stop_api_server().await.unwrap();
    assert!(kubectl(&control_plane, User::Admin, &["get", "nodes"]).is_err(), "the API server is stopped");
    control_plane.start_api_server().await.unwrap();
    assert!(kubectl(&control_plane, User::Admin, &["get", "nodes"]).unwrap().contains("survivor"));

    // An existing client and an existing watch continue to work.
    let pods = Api::<Pod>::namespaced(client, "default");
    let spec = json!({ "nodeName": "survivor", "containers": [{ "name": "app", "image": "example.test/app:1" }] });
    let pod = || async {
        let pod = serde_json::from_value(json!({ "metadata": { "name": "bound" }, "spec": spec }))?;
        Ok(pods.create(&PostParams::default(), &pod).await?)
    };
    eventually("the old client works", SOON, pod).await.unwrap();
    let read = || async { Ok(phase(&pods.get("bound").await?).to_owned()) };
    until("the kubelet runs a pod again", SOON, read, |phase| phase == "Running").await.unwrap();
    drop(kubelets);
}

#[tokio::test]
async fn two_hundred_nodes_register() {
    let control_plane = shared().await;
    let client = control_plane.client(User::Admin).await.unwrap();
    let many = (0..200).map(|n| SimulatedNode::windows(&format!("many-{n:03}"), "10.0.20348.1").label("test", "many"));
    let _kubelets = Kubelets::start(client.clone(), many.collect()).await.unwrap();
    let listed = Api::<Node>::all(client).list(&ListParams::default().labels("test=many")).await.unwrap();
    assert_eq!(listed.items.len(), 200);
    assert!(listed.items.iter().all(|node| !has_taint(node, "node.kubernetes.io/not-ready")));
}

#[tokio::test]
async fn servers_are_used_again_with_the_objects_of_their_start_unless_more_was_changed() {
    // No other test uses servers with this argument.
    let options = Options { api_server_arguments: vec!["--v=0".to_owned()], ..Options::default() };
    let start = || async { Cluster::start_with(options.clone()).await.unwrap() };
    let accounts = |cluster: &Cluster| cluster.namespaced::<ServiceAccount>(OPERATOR_NAMESPACE);

    let first = start().await;
    let url = first.control_plane.url();
    let kubelets = first.start_kubelets(vec![SimulatedNode::linux("left")]).await.unwrap();
    let operator = first.start_operator(&[], &[]).await.unwrap();
    first.apply_tainting_pool("left", "ltsc2022", OS_WINDOWS).await.unwrap();
    first.until_idle().await.unwrap();
    assert!(!first.writes().unwrap().is_empty());
    first.kubectl(&["label", "namespace", OPERATOR_NAMESPACE, "changed=yes"]).unwrap();
    accounts(&first).delete("winpool", &DeleteParams::default()).await.unwrap();
    first.kubectl(&["delete", "clusterrolebinding", "winpool"]).unwrap();
    first.kubectl(&["create", "service", "clusterip", "left", "--tcp=80"]).unwrap();
    first.kubectl(&["create", "deployment", "left", "--image=left"]).unwrap();
    drop((kubelets, operator, first));

    let second = start().await;
    assert_eq!(second.control_plane.url(), url);
    assert_eq!(
        second.kubectl(&["get", "nodes,windowsnodepools,runtimeclasses,deployments", "-o", "name"]).unwrap(),
        ""
    );
    assert!(second.kubectl(&["get", "namespaces", "-l", "changed", "-o", "name"]).unwrap().is_empty());
    accounts(&second).get("winpool").await.unwrap();
    assert_eq!(second.requests().unwrap(), []);
    kubectl(&second.control_plane, User::Operator, &["get", "nodes"]).unwrap();
    second.kubectl(&["create", "priorityclass", "more", "--value=1"]).unwrap();
    drop(second);

    assert_ne!(start().await.control_plane.url(), url);
}

#[tokio::test]
async fn a_dropped_control_plane_leaves_no_process_and_no_files() {
    let control_plane = ControlPlane::start(Options::api_server_only()).await.unwrap();
    let (directory, url) = (control_plane.directory().to_owned(), control_plane.url());
    let port: u16 = url.rsplit(':').next().unwrap().parse().unwrap();
    accepts_connections(port).await.unwrap();
    drop(control_plane);
    let removed = || async {
        ensure!(accepts_connections(port).await.is_err(), "something still listens on port {port}");
        // The failure of any test keeps the files of all.
        let is_kept = directory.join("keep").exists();
        ensure!(!directory.exists() || is_kept, "{} is still there", directory.display());
        Ok(())
    };
    eventually("its processes and files are removed", SOON, removed).await.unwrap();
}

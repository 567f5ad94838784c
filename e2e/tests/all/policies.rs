//! The guard rails of `config/policies` on the API server: enforced where it has the kinds, else refused by it, and the operator
//! works without them. `policy_tables` has what they do to every request.

use std::time::Duration;

use anyhow::ensure;
use e2e::{
    cluster::{Cluster, DEFAULT_TAINT, SOON, pool_spec},
    control_plane::User,
    install::path,
    kubelet::{Kubelets, SimulatedNode},
    operator::Operator,
    wait::eventually,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use winpool::policies::FIRST_WITH_MUTATING;

const NODE: &str = "web-000";
const ALLOWED: &str = "";

/// A cluster with a tainted node in pool web, and its operator.
struct Guarded {
    cluster: Cluster,
    kubelets: Kubelets,
    _operator: Operator,
}

impl Guarded {
    async fn start() -> Self {
        let cluster = Cluster::start().await.unwrap();
        let node = SimulatedNode::windows(NODE, "10.0.20348.2700").label("agentpool", "web");
        let kubelets = cluster.start_kubelets(vec![node]).await.unwrap();
        let operator = cluster.start_operator(&[], &[]).await.unwrap();
        cluster.apply_pool_and_wait("web", pool_spec("web", json!({"labels": {"team": "web"}}))).await.unwrap();
        cluster.until_taints(NODE, &[DEFAULT_TAINT]).await.unwrap();
        Self { cluster, kubelets, _operator: operator }
    }

    /// Installs the mutating policies, and returns whether the API server has their kind. One that has not says so, and the
    /// operator works without them.
    async fn install_mutating(&self) -> bool {
        let installed = self.cluster.kubectl(&["apply", "-k", &path("config/policies/mutating")]);
        let has = self.cluster.control_plane.version().minor >= FIRST_WITH_MUTATING.0;
        match installed {
            Ok(_) => assert!(has, "installed before Kubernetes {FIRST_WITH_MUTATING}"),
            Err(error) => {
                let expected = "no matches for kind \"MutatingAdmissionPolicy\"";
                assert!(!has && error.to_string().contains(expected), "{error:#}");
                self.cluster.edit_node(NODE, json!({"spec": {"taints": null}})).await.unwrap();
                self.cluster.until_taints(NODE, &[DEFAULT_TAINT]).await.unwrap();
                self.cluster.nothing_was_forbidden().unwrap();
            }
        }
        has
    }

    /// The policy that rejects a change of a node by a user with all permissions, in a dry run.
    async fn change(&self, user: &str, node: &str, patch: &Value) -> String {
        let client = self.cluster.control_plane.client_as(user, &["system:masters"]).await.unwrap();
        let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
        rejected_by(Api::<Node>::all(client).patch(node, &dry_run, &Patch::Merge(patch)).await)
    }

    async fn until_enforced(&self, user: &str, node: &str, patch: &Value) {
        let enforced = || async {
            let policy = self.change(user, node, patch).await;
            ensure!(policy != ALLOWED, "it is allowed");
            Ok(())
        };
        eventually("the policies are enforced", SOON + Duration::from_secs(30), enforced).await.unwrap();
    }
}

/// The policy in the message of a rejection; empty if the request succeeded.
fn rejected_by<T>(result: kube::Result<T>) -> String {
    let Err(error) = result else { return ALLOWED.to_owned() };
    let text = error.to_string();
    let policy = text.split("Policy '").nth(1).and_then(|rest| rest.split('\'').next());
    policy.unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[tokio::test]
async fn what_the_policies_forbid_is_rejected_and_the_operator_continues() {
    let guarded = Guarded::start().await;
    let cluster = &guarded.cluster;
    cluster.kubectl(&["apply", "-k", &path("config/policies")]).unwrap();
    guarded.kubelets.add(vec![SimulatedNode::windows("other", "10.0.20348.2700")]).await.unwrap();
    let linux = json!({"metadata": {"name": "linux", "labels": {"kubernetes.io/os": "linux"}}});
    cluster
        .kubectl_with_input(
            &["create", "-f", "-"],
            &json!({"apiVersion": "v1", "kind": "Node", "metadata": linux["metadata"]}),
        )
        .unwrap();
    let operator = User::Operator.name();
    let no_taints = json!({"spec": {"taints": null}});
    let labelled = |key: &str, value: Value| json!({"metadata": {"labels": {key: value}}});
    guarded.until_enforced("admin", NODE, &no_taints).await;
    guarded.until_enforced(&operator, "linux", &labelled("a", json!("b"))).await;

    let foreign = json!({"spec": {"taints": [
        {"key": "os", "value": "windows", "effect": "NoSchedule"},
        {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"},
    ]}});
    let record = json!({"metadata": {"annotations": {"winpool.dev/owned": null}}});
    let node_controller = "system:serviceaccount:kube-system:node-controller";
    let autoscaler = "system:serviceaccount:kube-system:cluster-autoscaler";
    for (user, node, patch, expected) in [
        ("admin", NODE, &no_taints, "winpool-nodes"),
        (autoscaler, NODE, &no_taints, "winpool-nodes"),
        ("admin", NODE, &labelled("winpool.dev/pool", Value::Null), "winpool-nodes"),
        ("admin", NODE, &labelled("team", Value::Null), "winpool-nodes"),
        ("system:node:web-000", NODE, &record, "winpool-nodes"),
        (node_controller, NODE, &foreign, ALLOWED),
        (autoscaler, NODE, &foreign, ALLOWED),
        ("admin", NODE, &labelled("zone", json!("a")), ALLOWED),
        ("admin", "other", &labelled("team", Value::Null), ALLOWED),
        (&operator, NODE, &no_taints, ALLOWED),
        (&operator, "linux", &labelled("a", json!("b")), "winpool-operator"),
        (node_controller, "linux", &labelled("a", json!("b")), ALLOWED),
    ] {
        assert_eq!(guarded.change(user, node, patch).await, expected, "{user} {node} {patch}");
    }

    let classes: Api<k8s_openapi::api::node::v1::RuntimeClass> = cluster.api();
    let dry_run = DeleteParams { dry_run: true, ..DeleteParams::default() };
    assert_eq!(rejected_by(classes.delete("windows-ltsc2022", &dry_run).await), "winpool-runtime-classes");
    assert_eq!(rejected_by(create_pod(cluster, json!({})).await), "winpool-pods");
    let selecting = json!({"nodeSelector": {"kubernetes.io/os": "windows"}});
    assert_eq!(rejected_by(create_pod(cluster, selecting).await), ALLOWED);
    let of_class = json!({"runtimeClassName": "windows-ltsc2022"});
    assert_eq!(rejected_by(create_pod(cluster, of_class).await), ALLOWED);

    let pools: Api<winpool_api::WindowsNodePool> = cluster.api();
    assert_eq!(rejected_by(pools.delete("web", &dry_run).await), "winpool-pool-deletion");
    cluster.annotate_pool("web", "winpool.dev/allow-deletion", "web").await.unwrap();
    assert_eq!(rejected_by(pools.delete("web", &dry_run).await), ALLOWED);

    // The operator works under the policies, and a paused pool is not guarded.
    cluster.edit_pool("web", json!({"spec": {"labels": {"team": "other"}, "taints": []}})).await.unwrap();
    cluster.until_taints(NODE, &[]).await.unwrap();
    cluster.edit_pool("web", json!({"spec": {"paused": true}})).await.unwrap();
    let free = || async {
        let policy = guarded.change("admin", NODE, &labelled("winpool.dev/pool", Value::Null)).await;
        ensure!(policy == ALLOWED, "{policy}");
        Ok(())
    };
    eventually("the policies follow the pool", SOON, free).await.unwrap();
    cluster.nothing_was_forbidden().unwrap();
}

/// Creates a pod that tolerates the taint of the pool, in a dry run.
async fn create_pod(cluster: &Cluster, more: Value) -> kube::Result<Pod> {
    let tolerations = json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]);
    let mut spec = json!({"containers": [{"name": "app", "image": "app:1"}], "tolerations": tolerations});
    // No controller creates the ServiceAccount of the namespace.
    spec["serviceAccountName"] = json!("app");
    more.as_object().unwrap().iter().for_each(|(field, value)| spec[field] = value.clone());
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "app", "namespace": "default"}});
    cluster.kubectl_with_input(&["apply", "-f", "-"], &account).unwrap();
    let pod = serde_json::from_value(json!({"metadata": {"name": "app"}, "spec": spec})).unwrap();
    let pods: Api<Pod> = cluster.namespaced("default");
    pods.create(&PostParams { dry_run: true, ..PostParams::default() }, &pod).await
}

#[tokio::test]
async fn new_nodes_are_tainted_and_pods_get_the_class_of_the_namespace_where_the_api_server_has_mutating_policies() {
    let guarded = Guarded::start().await;
    let cluster = &guarded.cluster;
    if !guarded.install_mutating().await {
        return;
    }
    cluster.kubectl(&["label", "namespace", "default", "winpool.dev/default-runtime-class=windows-ltsc2022"]).unwrap();
    let nodes: Api<Node> = cluster.api();
    let new = json!({"metadata": {"name": "new", "labels": {"kubernetes.io/os": "windows", "agentpool": "web"}}});
    let new: Node = serde_json::from_value(new).unwrap();
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let tainted = || async {
        let created = nodes.create(&dry_run, &new).await?;
        let taints = created.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        ensure!(taints.iter().any(|taint| taint.key == "os"), "{taints:?}");
        Ok(created)
    };
    let created = eventually("new nodes are tainted", SOON + Duration::from_secs(30), tainted).await.unwrap();
    assert_eq!(created.annotations()["winpool.dev/registered-with"], "web os:NoSchedule");
    let classed = || async {
        let pod = create_pod(cluster, json!({"os": {"name": "windows"}})).await?;
        let spec = pod.spec.unwrap();
        ensure!(spec.runtime_class_name.as_deref() == Some("windows-ltsc2022"), "{spec:?}");
        Ok(spec.node_selector.unwrap_or_default())
    };
    // The plugin RuntimeClass runs again after the policy.
    let selector = eventually("pods get the class", SOON, classed).await.unwrap();
    assert_eq!(selector["kubernetes.io/os"], "windows");

    let new = SimulatedNode::windows("web-001", "10.0.20348.2700").label("agentpool", "web");
    guarded.kubelets.add(vec![new]).await.unwrap();
    cluster.until_tainted("web", e2e::cluster::OS_WINDOWS, 2).await.unwrap();
    cluster.until_ready("web").await.unwrap();
    let record = cluster.annotation("web-001", "winpool.dev/owned").await.unwrap().unwrap();
    assert!(record.contains("\"os:NoSchedule\":\"added\""), "{record}");
    assert_eq!(cluster.annotation("web-001", "winpool.dev/registered-with").await.unwrap(), None);
    cluster.nothing_was_forbidden().unwrap();
}

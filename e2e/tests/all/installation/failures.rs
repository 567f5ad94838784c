//! Installations that fail, and what docs/install.md says about each: what a person sees, and how it continues afterwards.

use std::{fs, process::Command, sync::Arc};

use e2e::{
    cluster::{Cluster, SOON},
    control_plane::{ControlPlane, Options, User},
    install::{apply, path},
    kubectl::{kubectl, kubectl_with_input},
    kubelet::{Refusal, SimulatedNode},
    operator::Operator,
    wait::{eventually, until},
};
use serde_json::Value;

use super::{Objects, helm_in, install_yaml, parsed};

/// Checks that the page about installation has the part of a message, so that whoever reads it finds the remedy.
#[track_caller]
fn assert_documented(part: &str) {
    let page = fs::read_to_string(path("docs/install.md")).unwrap();
    assert!(page.contains(part), "docs/install.md does not have {part:?}");
}

/// The objects of `install.yaml`.
fn objects() -> Objects {
    parsed(&fs::read_to_string(install_yaml()).unwrap())
}

/// Applies those objects of `install.yaml` whose kinds are not among these.
fn apply_without(control_plane: &ControlPlane, kinds: &[&str]) {
    let mut objects: Vec<Value> = objects().into_values().collect();
    objects.retain(|object| !kinds.contains(&object["kind"].as_str().unwrap()));
    // The namespace comes first.
    objects.sort_by_key(|object| object["kind"] != "Namespace");
    let list = serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    kubectl_with_input(control_plane, User::Admin, &["apply", "--validate=false", "-f", "-"], &list.to_string())
        .unwrap();
}

// The kubelets run while kubectl waits.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_be_pulled_is_corrected_by_applying_the_file_again() {
    let control_plane = Arc::new(ControlPlane::start(Options::default()).await.unwrap());
    let cluster = Cluster::connect(control_plane.clone()).await.unwrap();
    let kubelets = cluster.start_kubelets(vec![SimulatedNode::linux("linux-1")]).await.unwrap();
    let image = format!("registry.example/winpool:{}", env!("CARGO_PKG_VERSION"));
    kubelets.refuse(&image, Refusal::Image("failed to pull and unpack image: not found".to_owned()));
    apply(&control_plane, &["-f", &install_yaml()]).unwrap();

    let of_operator =
        |arguments: &[&str]| kubectl(&control_plane, User::Admin, &[&["-n", "winpool-system"], arguments].concat());
    let refused = || async { of_operator(&["get", "pods"]) };
    let sees = "ErrImagePull";
    until("both pods wait for their image", SOON, refused, |pods| pods.matches(sees).count() == 2).await.unwrap();
    assert_documented(sees);
    let rollout = of_operator(&["rollout", "status", "deployment", "winpool", "--timeout=1s"]).unwrap_err().to_string();
    let waits = "0 of 2 updated replicas are available";
    assert!(rollout.contains(waits), "{rollout}");
    assert_documented(waits);

    let text = fs::read_to_string(install_yaml()).unwrap();
    let corrected = control_plane.directory().join("corrected.yaml");
    fs::write(&corrected, text.replace(&format!("image: {image}"), "image: registry.internal/winpool:1")).unwrap();
    apply(&control_plane, &["-f", corrected.to_str().unwrap()]).unwrap();
    of_operator(&["rollout", "status", "deployment", "winpool", "--timeout=180s"]).unwrap();
}

#[tokio::test]
async fn whoever_has_no_rights_in_the_cluster_creates_nothing_and_sees_what_is_forbidden() {
    let control_plane = ControlPlane::start(Options::api_server_only()).await.unwrap();
    let admin = |arguments: &[&str]| kubectl(&control_plane, User::Admin, arguments).unwrap();
    admin(&["create", "namespace", "winpool-system"]);
    admin(&["-n", "winpool-system", "create", "rolebinding", "jane", "--clusterrole=admin", "--user=jane"]);
    let install = || apply(&control_plane, &["-f", &install_yaml(), "--as=jane"]).unwrap_err().to_string();

    // The rights of one namespace.
    let error = install();
    for part in ["Error from server (Forbidden)", "cannot get resource"] {
        assert!(error.contains(part), "{error}");
        assert_documented(part);
    }

    // The right to create roles, but not the permissions in them.
    let kinds = "--resource=clusterroles,clusterrolebindings,customresourcedefinitions,namespaces";
    admin(&["create", "clusterrole", "roles", "--verb=get,create,patch", kinds]);
    admin(&["create", "clusterrolebinding", "jane", "--clusterrole=roles", "--user=jane"]);
    let granted = || async {
        let error = install();
        let part = "is attempting to grant RBAC permissions not currently held";
        anyhow::ensure!(error.contains(part), "{error}");
        assert_documented(part);
        Ok(())
    };
    eventually("the role is in effect", SOON, granted).await.unwrap();

    // An administrator completes it.
    apply(&control_plane, &["-f", &install_yaml()]).unwrap();
}

#[tokio::test]
async fn pods_that_the_namespace_refuses_are_reported_by_their_replica_set() {
    let options = Options { scheduler: false, ..Options::default() };
    let control_plane = ControlPlane::start(options).await.unwrap();
    let in_namespace =
        |arguments: &[&str]| kubectl(&control_plane, User::Admin, &[&["-n", "winpool-system"], arguments].concat());
    kubectl(&control_plane, User::Admin, &["create", "namespace", "winpool-system"]).unwrap();
    in_namespace(&["create", "quota", "none", "--hard=pods=0"]).unwrap();
    // A quota is in effect when its status has it.
    let quota = || async { in_namespace(&["get", "quota", "none", "-o", "jsonpath={.status.hard.pods}"]) };
    until("the quota is in effect", SOON, quota, |pods| pods == "0").await.unwrap();
    apply(&control_plane, &["-f", &install_yaml()]).unwrap();
    let described = || async { in_namespace(&["describe", "replicasets"]) };
    let (event, cause) = ("FailedCreate", "exceeded quota: none");
    until("the event names the quota", SOON, described, |text| text.contains(event) && text.contains(cause))
        .await
        .unwrap();
    assert_documented(event);
}

/// An operator in a cluster in which a part of `install.yaml` is missing.
struct Waiting {
    control_plane: ControlPlane,
    operator: Operator,
}

impl Waiting {
    /// Starts it without the objects of these kinds, and checks that its log has `reason`.
    async fn without(kinds: &[&str], reason: &str) -> Self {
        let control_plane = ControlPlane::start(Options::api_server_only()).await.unwrap();
        apply_without(&control_plane, kinds);
        let operator = Operator::spawn(&control_plane, &[], &[]).unwrap();
        let log = || async { operator.log() };
        until("the log has the reason", SOON, log, |log| log.contains(reason)).await.unwrap();
        assert_documented(reason);
        let (status, _) = operator.get("/readyz").await.unwrap();
        assert_eq!(status, 503);
        Self { control_plane, operator }
    }

    /// Checks that it continues without a restart when everything is there.
    async fn continues(&self) {
        apply(&self.control_plane, &["-f", &install_yaml()]).unwrap();
        self.operator.wait_ready(SOON).await.unwrap();
    }
}

#[tokio::test]
async fn without_its_permissions_the_operator_waits_and_continues_when_it_has_them() {
    Waiting::without(&["ClusterRoleBinding", "RoleBinding"], "cannot list resource").await.continues().await;
}

#[tokio::test]
async fn without_the_definitions_the_operator_waits_and_continues_when_they_are_there() {
    let waiting = Waiting::without(&["CustomResourceDefinition"], "kubectl apply -k crds").await;
    let error = kubectl(&waiting.control_plane, User::Admin, &["get", "wnp"]).unwrap_err().to_string();
    let unknown = r#"the server doesn't have a resource type "wnp""#;
    assert!(error.contains(unknown), "{error}");
    assert_documented(unknown);
    waiting.continues().await;
    // For some time kubectl remembers the short names that it has seen, but asks again for others.
    kubectl(&waiting.control_plane, User::Admin, &["get", "windowsnodepools"]).unwrap();
}

#[tokio::test]
async fn a_definition_that_the_api_server_refuses_is_named_and_everything_else_is_created() {
    // Helm waits until the garbage collector has removed what belongs to a Deployment.
    let control_plane = ControlPlane::start(Options { scheduler: false, ..Options::default() }).await.unwrap();
    let (scope, unknown) = ("  scope: Cluster\n", "  scope: Everything\n");

    // Helm removes what it has created, if it is asked to.
    let chart = control_plane.directory().join("chart");
    assert!(Command::new("cp").arg("-r").args([path("charts/winpool").as_ref(), &*chart]).status().unwrap().success());
    let pools = chart.join("files/crds/winpool.dev_windowsnodepools.yaml");
    fs::write(&pools, fs::read_to_string(&pools).unwrap().replacen(scope, unknown, 1)).unwrap();
    let rollback = "--rollback-on-failure";
    let install = ["install", "winpool", chart.to_str().unwrap(), "--namespace", "winpool-system", rollback];
    let error = helm_in(&control_plane, &[&install[..], &["--create-namespace"]].concat()).unwrap_err();
    assert!(error.contains(r#""windowsnodepools.winpool.dev" is invalid"#), "{error}");
    assert_documented(rollback);
    let all = "deployments,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings";
    let left = kubectl(&control_plane, User::Admin, &["get", all, "-A", "-o", "name"]).unwrap();
    assert!(!left.contains("winpool"), "{left}");

    // kubectl leaves it.
    let text = fs::read_to_string(install_yaml()).unwrap();
    let broken = control_plane.directory().join("broken.yaml");
    // Of the file's three definitions, that of the pools is refused.
    let pools = text.find("name: windowsnodepools.winpool.dev").unwrap();
    let (before, definition) = text.split_at(pools);
    fs::write(&broken, format!("{before}{}", definition.replacen(scope, unknown, 1))).unwrap();
    let error = apply(&control_plane, &["-f", broken.to_str().unwrap()]).unwrap_err().to_string();
    let refused = r#"The CustomResourceDefinition "windowsnodepools.winpool.dev" is invalid"#;
    assert!(error.contains(refused), "{error}");
    assert_documented(refused);
    let created = ["deployment/winpool", "serviceaccount/winpool", "crd/windowsruntimeprofiles.winpool.dev"];
    kubectl(&control_plane, User::Admin, &[&["-n", "winpool-system", "get"], &created[..]].concat()).unwrap();
}

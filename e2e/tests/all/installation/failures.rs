//! Installations without permissions or definitions, and what docs/install.md says about each: what a person sees, and how it continues.

use std::fs;

use e2e::{
    cluster::SOON,
    control_plane::{ControlPlane, Options, User},
    install::{apply, path},
    kubectl::{kubectl, kubectl_with_input},
    operator::Operator,
    wait::until,
};
use serde_json::Value;

use super::{Objects, install_yaml, parsed};

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

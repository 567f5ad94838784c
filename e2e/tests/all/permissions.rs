//! The roles of the operator have no rule that it does not need, and none is missing.

mod services;

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::ensure;
use e2e::{
    audit::Request,
    certificates::unverified_client,
    cluster::{Cluster, OS_WINDOWS, SOON, create, edit},
    control_plane::{OPERATOR_NAMESPACE, Options},
    fixture::{spec, windows},
    network::free_port,
    operator::Operator,
    permissions::{Permission, Rule, rules, unused},
    prometheus::metrics_reader,
    requests::Requests,
    wait::{eventually, until},
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::Lease,
    core::v1::Secret,
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

const POOL: &str = "web";

/// The roles of the operator in `config/default`.
const ROLES: [&str; 4] = [
    "config/default/cluster_role.yaml",
    "config/default/role.yaml",
    "config/default/events_role.yaml",
    "config/default/workloads.yaml",
];

/// An operator as the Deployment runs it, with its port for metrics.
fn spawn(cluster: &Cluster) -> (Operator, SocketAddr) {
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let arguments = ["--leader-election=on", "--secure-address", &metrics.to_string()];
    (Operator::spawn(&cluster.control_plane, &arguments, &[]).unwrap(), metrics)
}

/// Reads the metrics as Prometheus does.
async fn read_metrics(metrics: SocketAddr, token: &str) {
    let client = unverified_client().unwrap();
    // Without the permission to review tokens the answer is an error.
    let _ = client.get(format!("https://{metrics}/metrics")).bearer_auth(token).send().await;
}

/// Applies a profile and a pool that removes what it added when it is deleted, and a Deployment with an issue.
async fn apply(cluster: &Cluster) {
    cluster.apply_profile(POOL, json!({ "kubelet": { "maxPods": 42 } })).await.unwrap();
    let fields = json!({ "profileRef": { "name": POOL }, "deletionPolicy": "Cleanup" });
    cluster.apply_pool(POOL, spec(POOL, fields)).await.unwrap();
    let deployments = cluster.namespaced::<Deployment>("default");
    if deployments.get_opt("lost").await.unwrap().is_none() {
        let template = json!({ "metadata": { "labels": { "app": "lost" } }, "spec": {
            "runtimeClassName": "windows-lost",
            "containers": [{ "name": "app", "image": "example.test/app:1" }],
            "nodeSelector": { "kubernetes.io/os": "windows" },
            "tolerations": [{ "key": OS_WINDOWS.0, "value": OS_WINDOWS.1, "effect": "NoSchedule" }],
        }});
        let spec = json!({ "selector": { "matchLabels": { "app": "lost" } }, "template": template });
        create(&deployments, json!({ "metadata": { "name": "lost" }, "spec": spec })).await.unwrap();
    }
}

#[tokio::test]
async fn each_permission_of_the_operator_is_used_and_no_other_is_missing() {
    let cluster = Cluster::start().await.unwrap();
    let token = metrics_reader(&cluster).await.unwrap();
    let _kubelets = cluster.start_kubelets(vec![windows(POOL, 1, "10.0.20348.1")]).await.unwrap();
    // WindowsNodeConfigs are watched if there is one.
    let config = json!({
        "apiVersion": "winpool.dev/v1alpha1",
        "kind": "WindowsNodeConfig",
        "metadata": { "name": "former" },
        "spec": {
            "assignedAt": "2026-01-01T00:00:00Z",
            "config": "former",
            "confirmTimeout": "10m",
            "digest": "0".repeat(64),
            "nodeUID": "former",
            "pool": "former",
        },
    });
    cluster.kubectl_with_input(&["create", "-f", "-"], &config).unwrap();
    let (_leader, metrics) = spawn(&cluster);
    apply(&cluster).await;
    cluster.until_tainted(POOL, OS_WINDOWS, 1).await.unwrap();
    // Another replica reads the key that the first one has stored.
    let (standby, _) = spawn(&cluster);
    standby.wait_ready(SOON).await.unwrap();

    // Another configuration, of which no node uses the former; a RuntimeClass without its toleration.
    edit(&cluster.profiles(), POOL, json!({ "spec": { "kubelet": { "maxPods": 60 } } })).await.unwrap();
    let class = cluster.classes().list(&ListParams::default()).await.unwrap().items.remove(0).metadata.name.unwrap();
    edit(&cluster.classes(), &class, json!({ "scheduling": { "tolerations": null } })).await.unwrap();
    let attempts = AtomicU32::new(0);
    let used_but_deletions = || async {
        read_metrics(metrics, &token).await;
        // On a configuration to which the profile returns, it is recorded what it is rendered from now.
        let pods = 42 + attempts.fetch_add(1, Ordering::Relaxed) % 2;
        edit(&cluster.profiles(), POOL, json!({ "spec": { "kubelet": { "maxPods": pods } } })).await?;
        // A profile that is missing from time to time: the event about the pool is repeated.
        for (name, status, reason) in [("missing", "False", "NotFound"), (POOL, "True", "Resolved")] {
            cluster.edit_pool(POOL, json!({ "spec": { "profileRef": { "name": name } } })).await?;
            cluster.until_condition(POOL, "ProfileResolved", status, reason).await?;
        }
        let unused = unused(&ROLES, &cluster.requests()?)?;
        let others: Vec<_> = unused.iter().filter(|permission| permission.verb != "delete").collect();
        ensure!(others.is_empty(), "{others:#?}");
        Ok(())
    };
    eventually("every permission but those to delete is used", SOON, used_but_deletions).await.unwrap();
    cluster.pools().delete(POOL, &DeleteParams::default()).await.unwrap();
    let unused = || async { unused(&ROLES, &cluster.requests()?) };
    until("every permission is used", SOON, unused, Vec::is_empty).await.unwrap();
    cluster.nothing_was_forbidden().unwrap();
}

/// All rules of the operator.
fn shipped() -> Vec<Rule> {
    ROLES.iter().flat_map(|file| rules(file).unwrap()).collect()
}

/// Writes the roles with those of the rules that `keep` selects.
async fn write_roles(cluster: &Cluster, rules: &[Rule], keep: impl Fn(&Rule) -> bool) {
    let of_one_role = |one: &Rule, other: &Rule| (&one.role, &one.namespace) == (&other.role, &other.namespace);
    for role in rules.chunk_by(of_one_role) {
        let kept: Vec<_> = role.iter().filter(|rule| keep(rule)).map(|rule| &rule.rule).collect();
        let (Rule { role, namespace, .. }, patch) = (&role[0], json!({ "rules": kept }));
        let edited = match namespace.as_str() {
            "" => edit(&cluster.api::<ClusterRole>(), role, patch).await,
            _ => edit(&cluster.namespaced::<Role>(namespace), role, patch).await,
        };
        edited.unwrap();
    }
}

/// Whether two rules permit the same, at least in one namespace.
fn overlap(one: &Rule, other: &Rule) -> bool {
    let anywhere = |rule: &Rule| {
        let permissions = rule.permissions().into_iter();
        permissions.map(|permission| Permission { namespace: String::new(), ..permission }).collect::<Vec<_>>()
    };
    let others = anywhere(other);
    anywhere(one).iter().any(|permission| others.contains(permission))
}

#[tokio::test]
async fn without_any_rule_a_request_of_the_operator_is_refused_and_reported() {
    let cluster = Cluster::start().await.unwrap();
    let token = metrics_reader(&cluster).await.unwrap();
    let _kubelets = cluster.start_kubelets(vec![windows(POOL, 1, "10.0.20348.1")]).await.unwrap();
    let rules = shipped();
    assert!(rules.len() > 15);
    for rule in &rules {
        // Events are permitted in one namespace, and in all for the checks of workloads.
        write_roles(&cluster, &rules, |other| !overlap(rule, other)).await;
        // The operator reads these once, at its start: the removal must be in effect before.
        if rule.permissions().iter().any(|permission| permission.resource == "customresourcedefinitions") {
            let (group, name) = ("apiextensions.k8s.io", "windowsnodepools.winpool.dev");
            let get = json!({ "group": group, "resource": "customresourcedefinitions", "name": name, "verb": "get" });
            cluster.until_operator_may(get, false).await.unwrap();
        }
        // So that the operator creates them.
        let secrets = cluster.namespaced::<Secret>(OPERATOR_NAMESPACE);
        let leases = cluster.namespaced::<Lease>(OPERATOR_NAMESPACE);
        let _ = secrets.delete("winpool-ownership", &DeleteParams::default()).await;
        let _ = leases.delete("winpool", &DeleteParams::default()).await;
        let before = cluster.requests().unwrap().len();
        let (operator, metrics) = spawn(&cluster);
        apply(&cluster).await;
        let refused = || async {
            read_metrics(metrics, &token).await;
            let requests = cluster.requests()?.split_off(before);
            let permissions = rule.permissions();
            let is_of_rule = |request: &Request| permissions.iter().any(|permission| permission.permits(request));
            ensure!(
                requests.iter().any(|request| request.is_forbidden() && is_of_rule(request)),
                "no refusal: {rule:?}"
            );
            let (log, resource) = (operator.log()?, &permissions[0].resource);
            ensure!(log.contains("is forbidden: User"), "{rule:?}: {resource} is not in {log}");
            Ok(())
        };
        eventually("a request is refused and reported", SOON, refused).await.unwrap();
        drop(operator);
        write_roles(&cluster, &rules, |_| true).await;
    }
}

#[tokio::test]
async fn a_kind_that_cannot_be_listed_costs_what_needs_it_until_it_can() {
    let cluster = Cluster::start().await.unwrap();
    let _kubelets = cluster.start_kubelets(vec![windows(POOL, 1, "10.0.20348.1")]).await.unwrap();
    let rules = shipped();
    // Nodes are last, because without them there is no taint.
    for (resource, condition) in [("configmaps", "ConfigRendered"), ("nodes", "NodesAssigned")] {
        let lists = |rule: &Rule| rule.permissions().iter().any(|of| of.resource == resource && of.verb == "list");
        write_roles(&cluster, &rules, |rule| !lists(rule)).await;
        let list = json!({ "resource": resource, "verb": "list", "namespace": OPERATOR_NAMESPACE });
        cluster.until_operator_may(list, false).await.unwrap();
        let (_operator, _) = spawn(&cluster);
        apply(&cluster).await;
        cluster.until_condition(POOL, condition, "False", "ListRefused").await.unwrap();
        cluster.until_condition(POOL, "Ready", "False", "ListRefused").await.unwrap();
        if resource != "nodes" {
            cluster.until_tainted(POOL, OS_WINDOWS, 1).await.unwrap();
        }
        write_roles(&cluster, &rules, |_| true).await;
        cluster.until_ready(POOL).await.unwrap();
    }
}

#[tokio::test]
async fn the_roles_of_kubernetes_for_users_include_the_resources() {
    let options = Options { controller_manager: true, ..Options::api_server_only() };
    let cluster = Cluster::start_with(options).await.unwrap();
    for role in ["view", "edit", "admin"] {
        let binding = |user: String| {
            let group = "rbac.authorization.k8s.io";
            let subject = json!({ "apiGroup": group, "kind": "User", "name": user });
            let reference = json!({ "apiGroup": group, "kind": "ClusterRole", "name": role });
            json!({ "metadata": { "name": format!("all-{role}") }, "subjects": [subject], "roleRef": reference })
        };
        create(&cluster.api::<ClusterRoleBinding>(), binding(role.to_owned())).await.unwrap();
        let of_default = cluster.namespaced::<RoleBinding>("default");
        create(&of_default, binding(format!("{role}-of-default"))).await.unwrap();
    }
    let requests = Requests::to(&cluster.control_plane).await.unwrap();
    let may = async |user: &str, verb: &str, resource: &str| {
        let attributes = json!({ "group": "winpool.dev", "resource": resource, "verb": verb });
        requests.allows(user, &attributes).await
    };
    let aggregated = || async {
        ensure!(may("view", "list", "windowsnodepools").await? && may("admin", "patch", "windowsnodepools").await?);
        Ok(())
    };
    eventually("the roles are aggregated", SOON, aggregated).await.unwrap();
    for (user, verb, resource, expected) in [
        ("view", "get", "windowsnodepools", true),
        ("view", "watch", "windowsnodeconfigs", true),
        ("view", "patch", "windowsnodepools", false),
        ("edit", "list", "windowsruntimeprofiles", true),
        ("edit", "create", "windowsruntimeprofiles", true),
        ("edit", "delete", "windowsnodepools", true),
        ("edit", "create", "windowsnodeconfigs", false),
        ("admin", "update", "windowsnodepools", true),
        ("admin", "delete", "windowsnodeconfigs", false),
        // The resources are cluster-scoped.
        ("view-of-default", "get", "windowsnodepools", false),
        ("admin-of-default", "create", "windowsnodepools", false),
    ] {
        assert_eq!(may(user, verb, resource).await.unwrap(), expected, "{user} {verb} {resource}");
    }
}

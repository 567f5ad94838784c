//! Specs: the stored form of written fields, and the messages about mistakes.

use e2e::{
    cluster::{DEFAULT_TAINT, create, pool_object},
    fixture::{Fixture, spec},
};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{with_nodes, with_one_node};

#[tokio::test]
async fn hosts_and_reserved_labels_are_used_only_if_the_operator_allows_them() {
    let name = "allowed";
    let fixture = with_one_node(name).await;
    let mirror = |endpoint: &str| json!({ "containerd": { "registryMirrors": [{ "registry": "mcr.microsoft.com", "endpoints": [endpoint] }] } });
    let labels = json!({ "node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/windows": "" });
    fixture.apply_profile(name, mirror("https://evil.example")).await.unwrap();
    let fields = json!({ "profileRef": { "name": name }, "labels": labels });
    fixture.apply_pool(name, spec(name, fields)).await.unwrap();
    let message = fixture.until_condition(name, "ProfileResolved", "False", "Invalid").await.unwrap().message;
    assert!(message.contains("add evil.example to WINPOOL_ALLOW_HOSTS (--allow-hosts)"), "{message}");
    fixture.until_condition(name, "SpecValid", "False", "Invalid").await.unwrap();
    fixture.until_taints("allowed-1", &[DEFAULT_TAINT]).await.unwrap();
    let node = fixture.node("allowed-1").await.unwrap();
    let roles: Vec<_> = node.labels().keys().filter(|key| key.starts_with("node-role.")).collect();
    assert_eq!(roles, ["node-role.kubernetes.io/windows"]);

    for (endpoint, is_allowed) in [("http://mirror.example", false), ("https://mirror.example", true)] {
        fixture.apply_profile(name, mirror(endpoint)).await.unwrap();
        let (status, reason) = if is_allowed { ("True", "Resolved") } else { ("False", "Invalid") };
        fixture.until_condition(name, "ProfileResolved", status, reason).await.unwrap();
    }
    fixture.nothing_was_forbidden().unwrap();
}

/// How a user can apply a pool.
#[derive(Clone, Copy, Debug)]
enum Apply {
    ClientSide,
    ServerSide,
}

async fn apply(fixture: &Fixture, name: &str, how: Apply, taints: Option<&Value>) -> Value {
    let mut spec = spec("defaults", json!({ "runtimeClasses": [] }));
    if let Some(taints) = taints {
        spec["taints"] = taints.clone();
    }
    let arguments = match how {
        Apply::ClientSide => &["apply", "-f", "-"][..],
        Apply::ServerSide => &["apply", "--server-side", "-f", "-"],
    };
    fixture.kubectl_with_input(arguments, &pool_object(name, spec)).unwrap();
    fixture.pools().get(name).await.unwrap().data["spec"]["taints"].clone()
}

#[tokio::test]
async fn the_taints_that_are_written_are_the_taints_that_are_stored() {
    let fixture = with_nodes("defaults", vec![]).await;
    let (none, one) = (json!([]), json!([{ "key": "team", "value": "web", "effect": "NoSchedule" }]));
    let default = json!([{ "key": "os", "value": "windows", "effect": "NoSchedule" }]);
    let values = [(None, &default), (Some(&none), &none), (Some(&one), &one)];
    // Each value is followed by each.
    const ORDER: [usize; 10] = [0, 0, 1, 1, 2, 2, 0, 2, 1, 0];
    for (how, name) in [(Apply::ClientSide, "defaults-client"), (Apply::ServerSide, "defaults-server")] {
        for (step, (taints, stored)) in ORDER.map(|value| values[value]).into_iter().enumerate() {
            assert_eq!(apply(&fixture, name, how, taints).await, *stored, "{how:?}, step {step}: {taints:?}");
        }
    }
    for (number, taints) in [Value::Null, none, one].into_iter().enumerate() {
        let name = format!("defaults-{number}");
        let pool = spec("defaults", json!({ "runtimeClasses": [], "taints": taints }));
        create(&fixture.pools(), pool_object(&name, pool)).await.unwrap();
        let stored = fixture.pools().get(&name).await.unwrap().data["spec"]["taints"].clone();
        assert_eq!(stored, if taints.is_null() { default.clone() } else { taints });
    }
    fixture.nothing_was_forbidden().unwrap();
}

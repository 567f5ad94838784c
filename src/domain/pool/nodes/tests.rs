//! Nodes that are alike share a plan.

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::*;
use crate::{api::names::annotation, domain::revert::RevertDetector};

fn node(name: &str, metadata: &Value, taints: &Value) -> WindowsNode {
    let mut object = json!({
        "metadata": metadata, "spec": {"taints": taints},
        "status": {"nodeInfo": {
            "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "containerd://1.7.28",
            "kernelVersion": "10.0.20348.4529", "kubeProxyVersion": "", "kubeletVersion": "v1.34.2",
            "machineID": "", "operatingSystem": "windows", "osImage": "", "systemUUID": "",
        }},
    });
    object["metadata"]["name"] = json!(name);
    object["metadata"]["uid"] = json!(format!("uid of {name}"));
    object["metadata"]["resourceVersion"] = json!(format!("of {name}"));
    serde_json::from_value::<Node>(object).unwrap().into()
}

#[test]
fn nodes_that_are_alike_are_planned_as_each_would_be_alone() {
    let host = |name: &str| json!({"labels": {"kubernetes.io/hostname": name}});
    let owned = json!({"labels": {"old": "x"}, "annotations": {annotation::OWNED: r#"{"labels":{"old":"added"}}"#}});
    let nodes = [
        node("new-1", &host("new-1"), &json!([])),
        node("new-2", &host("new-2"), &json!([])),
        node("contested", &host("contested"), &json!([])),
        node("refused", &host("refused"), &json!([])),
        node("new-3", &host("new-3"), &json!([])),
        node("team", &json!({"labels": {"team": "other"}}), &json!([])),
        node("tainted", &host("tainted"), &json!([{"key": "os", "value": "linux", "effect": "NoSchedule"}])),
        node("pooled", &json!({"labels": {label::POOL: "web"}}), &json!([])),
        node("owned", &owned, &json!([])),
    ];
    let mut reverts = RevertDetector::default();
    let write = taint_write(&"os:NoSchedule".parse().unwrap(), "windows");
    let contested = ObjectId::Uid("uid of contested".into());
    (0..6).for_each(|_| reverts.note(&contested, std::slice::from_ref(&write), Timestamp::UNIX_EPOCH));
    let snapshot = Snapshot {
        reverts: Arc::new(reverts),
        refusals: [("refused".to_owned(), "denied".to_owned())].into(),
        ..Snapshot::default()
    };
    let (applied, labels) = (AppliedKeys::default(), BTreeMap::from([("team".to_owned(), "web".to_owned())]));
    let taints = [Taint { key: "os".into(), value: "windows".into(), effect: TaintEffect::NoSchedule }];
    let (waiting, widened, blocked, evictions) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), Evictions::Allowed);
    let desired = DesiredNode {
        pool: "web",
        labels: &labels,
        taints: &taints,
        waiting: &waiting,
        widened: &widened,
        blocked: &blocked,
        evictions: &evictions,
    };
    for desired in [Some(desired), None] {
        let mut shared = Planner::new(&snapshot, &applied, desired.clone());
        let mut distinct = Vec::new();
        for (node, config, registered) in nodes
            .iter()
            .flat_map(|node| {
                [Config::None, Config::Named("web-1")]
                    .map(|config| [false, true].map(|registered| (node, config, registered)))
            })
            .flatten()
        {
            let plan = shared.plan(node, config, registered);
            let alone = Planner::new(&snapshot, &applied, desired.clone()).plan(node, config, registered);
            assert_eq!(plan, alone, "{}", node.name);
            if !distinct.iter().any(|other| Arc::ptr_eq(other, &plan)) {
                distinct.push(plan);
            }
        }
        assert!(distinct.len() < nodes.len() * 4, "some are shared");
    }
}

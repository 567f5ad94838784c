//! Equal nodes share a plan, and what admission rejects is left out of the next one.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use winpool_api::{
    Taint, TaintEffect, TaintKey,
    names::{annotation, label},
};

use super::*;
use crate::{
    operation::{Denial, DeniedPart, Edit},
    pool::evictions::Evictions,
    revert::{FieldWrite, ObjectId, RevertDetector},
};

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
    object["metadata"]["resourceVersion"] = json!(format!("version of {name}"));
    serde_json::from_value::<Node>(object).unwrap().into()
}

/// Pool `web`, which desires labels and a taint, with nothing in the way.
struct Web {
    labels: BTreeMap<String, String>,
    taints: [Taint; 1],
    no_taints: BTreeSet<TaintKey>,
    no_classes: BTreeSet<String>,
    evictions: Evictions<'static>,
}

impl Web {
    fn new() -> Self {
        Self {
            labels: BTreeMap::from([("team".to_owned(), "web".to_owned())]),
            taints: [Taint { key: "os".into(), value: "windows".into(), effect: TaintEffect::NoSchedule }],
            no_taints: BTreeSet::new(),
            no_classes: BTreeSet::new(),
            evictions: Evictions::Allowed,
        }
    }

    fn desired(&self) -> DesiredNode<'_> {
        DesiredNode {
            pool: "web",
            labels: &self.labels,
            taints: &self.taints,
            untolerated: &self.no_taints,
            extended_classes: &self.no_classes,
            blocked: &self.no_taints,
            awaited: &self.no_taints,
            evictions: &self.evictions,
            held: &self.no_taints,
            replaced: &[],
        }
    }
}

#[test]
fn a_shared_plan_is_equal_to_the_plan_of_each_node() {
    let host = |name: &str| json!({"labels": {"kubernetes.io/hostname": name}});
    let owned = json!({"labels": {"old": "x"}, "annotations": {annotation::OWNED: r#"{"labels":{"old":"added"}}"#}});
    // Only a new node was registered with its taints.
    let registered = |name: &str, created: &str| {
        let taints = json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]);
        node(name, &json!({"creationTimestamp": created}), &taints)
    };
    let nodes = [
        registered("young", "1970-01-01T00:00:00Z"),
        registered("old", "1969-12-31T23:00:00Z"),
        node("new-1", &host("new-1"), &json!([])),
        node("new-2", &host("new-2"), &json!([])),
        node("reverted", &host("reverted"), &json!([])),
        node("refused", &host("refused"), &json!([])),
        node("new-3", &host("new-3"), &json!([])),
        node("team", &json!({"labels": {"team": "other"}}), &json!([])),
        node("tainted", &host("tainted"), &json!([{"key": "os", "value": "linux", "effect": "NoSchedule"}])),
        node("pooled", &json!({"labels": {label::POOL: "web"}}), &json!([])),
        node("owned", &owned, &json!([])),
    ];
    let mut reverts = RevertDetector::default();
    let write = FieldWrite::taint(&"os:NoSchedule".parse().unwrap(), Some("windows"));
    let reverted = ObjectId::Uid("uid of reverted".into());
    (0..6).for_each(|_| reverts.note(&reverted, std::slice::from_ref(&write), Timestamp::UNIX_EPOCH));
    let denial = Denial { message: "denied".into(), part: DeniedPart::Taints };
    let snapshot = Snapshot {
        reverts: Arc::new(reverts),
        denials: [("refused".to_owned(), denial)].into(),
        ..Snapshot::default()
    };
    let (applied, web) = (AppliedKeys::default(), Web::new());
    for desired in [Some(web.desired()), None] {
        let mut shared = NodePlanner::new(&snapshot, &applied, desired.clone());
        let mut distinct = Vec::new();
        for (node, config, configured) in nodes
            .iter()
            .flat_map(|node| {
                [DesiredConfig::None, DesiredConfig::Named("web-1")]
                    .map(|config| [false, true].map(|configured| (node, config, configured)))
            })
            .flatten()
        {
            let plan = shared.plan(node, config, configured);
            let single = NodePlanner::new(&snapshot, &applied, desired.clone()).plan(node, config, configured);
            assert_eq!(plan, single, "{}", node.name);
            if !distinct.iter().any(|other| Arc::ptr_eq(other, &plan)) {
                distinct.push(plan);
            }
        }
        assert!(distinct.len() < nodes.len() * 4, "some are shared");
    }
}

#[test]
fn without_what_admission_rejects_the_rest_is_written_and_the_taints_alone_if_labels_are_rejected() {
    let (applied, web, new) = (AppliedKeys::default(), Web::new(), node("new", &json!({}), &json!([])));
    // What was rejected: whether labels, the record, and taints are written, and what the next plan leaves out.
    for (rejected, expected) in [
        (None, (true, true, true, Some(DeniedPart::Taints))),
        (Some(DeniedPart::Taints), (true, true, false, Some(DeniedPart::Metadata))),
        (Some(DeniedPart::Metadata), (false, false, true, None)),
    ] {
        let denial = rejected.map(|part| ("new".to_owned(), Denial { message: "denied".into(), part }));
        let snapshot = Snapshot { denials: denial.into_iter().collect(), ..Snapshot::default() };
        let desired = web.desired();
        let plan = NodePlanner::new(&snapshot, &applied, Some(desired)).plan(&new, DesiredConfig::None, false);
        let edit = plan.edit.as_ref().unwrap();
        let written = (!edit.labels.is_empty(), edit.record != Edit::Keep, edit.taints.is_some(), edit.if_denied);
        assert_eq!(written, expected, "{rejected:?}");
        let denied = plan.obstacles.iter().any(|obstacle| obstacle.to_string().contains("denied"));
        assert_eq!(denied, rejected.is_some(), "{rejected:?}: {:?}", plan.obstacles);
    }
}

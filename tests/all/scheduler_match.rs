//! The node that an autoscaler simulates from the annotations of a pool is one that the pool's RuntimeClasses select and
//! whose taints they tolerate. Otherwise the autoscaler would not start a machine for a pod that waits for one.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use serde_json::Value;
use winpool::render::{Input, autoscaler_hints};
use winpool_api::{Taint, TaintEffect, Toleration};
use winpool_check::{
    manifests::{BootstrapTemplates, Budget, ManifestSet, Manifests},
    render::{render, snapshot},
};
use winpool_core::Objects;
use winpool_facts::Minor;
use winpool_rules::pool::configs::ExpectedNode;

const PROFILE: &str =
    "apiVersion: winpool.dev/v1alpha1\nkind: WindowsRuntimeProfile\nmetadata: {name: standard}\nspec: {}\n";

fn pool(windows: &str, selector: &str, more: &str) -> String {
    format!(
        "{PROFILE}---
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {{name: web.a-1}}
spec:
  windowsVersion: {windows}
  nodeSelector: {selector}
  profileRef: {{name: standard}}
  runtimeClasses: [{{name: of-build, scope: Build}}, {{name: of-pool, scope: Pool}}]
  {more}
  delivery:
    method: ClusterAPI
    clusterAPI:
      namespace: clusters
      clusterName: prod
      machineDeployments: {{matchLabels: {{winpool: web}}}}
      autoscaling: {{cpu: 4, memory: 16Gi}}
"
    )
}

/// The labels and taints of the simulated node, as `clusterapi_nodegroup.go` and `clusterapi_utils.go` of the autoscaler
/// read them, and the RuntimeClasses.
fn simulated(text: &str) -> (BTreeMap<String, String>, Vec<Taint>, Vec<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool.yaml");
    std::fs::write(&path, text).unwrap();
    let resources = ManifestSet::new(Manifests::read(&[path], &mut Budget::unbounded()).unwrap()).unwrap();
    let snapshot = snapshot(&resources, Objects::default(), "winpool-system");
    let expected_nodes = [ExpectedNode { kubelet: Minor(36), containerd: None }];
    let input = Input {
        snapshot: &snapshot,
        expected_nodes: &expected_nodes,
        resources: &resources,
        templates: &BootstrapTemplates::default(),
    };
    let hints = autoscaler_hints(&input).unwrap();
    let patch: Value = serde_saphyr::from_str(&hints.texts["web.a-1.yaml"]).unwrap();
    let annotation = |name: &str| {
        let key = format!("capacity.cluster-autoscaler.kubernetes.io/{name}");
        patch["metadata"]["annotations"][key].as_str().unwrap_or_default().to_owned()
    };
    let labels = annotation("labels");
    let labels = labels.split(',').filter_map(|one| one.split_once('='));
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let taints = annotation("taints");
    let taints = taints.split(',').filter(|one| !one.is_empty()).map(taint).collect();
    let classes = render(&snapshot, &expected_nodes, &resources).unwrap().runtime_classes.into_values().collect();
    (labels, taints, classes)
}

fn taint(text: &str) -> Taint {
    let (left, effect) = text.split_once(':').unwrap();
    let (key, value) = left.split_once('=').unwrap_or((left, ""));
    Taint { key: key.into(), value: value.into(), effect: TaintEffect::named(effect).unwrap() }
}

#[test]
fn every_class_selects_and_tolerates_the_simulated_node() {
    let selectors = [
        "{matchLabels: {agentpool: web, example.com/a: ''}}",
        "{matchExpressions: [{key: agentpool, operator: Exists}]}",
    ];
    let taints = [
        "",
        "taints: []",
        "taints: [{key: os, value: windows, effect: NoSchedule}, {key: batch, effect: NoExecute}]",
        "taints: [{key: a.b/c, value: x, effect: PreferNoSchedule}, {key: a.b/c, value: z, effect: NoExecute}]\n  labels: {team: web}",
    ];
    for windows in ["ltsc2019", "ltsc2022", "ltsc2025"] {
        for (selector, more) in selectors.iter().flat_map(|selector| taints.map(|more| (selector, more))) {
            let (labels, taints, classes) = simulated(&pool(windows, selector, more));
            assert_eq!(classes.len(), 2);
            for class in classes {
                let selected = class["scheduling"]["nodeSelector"].as_object().unwrap();
                assert!(selected.len() >= 3, "{class}");
                for (key, value) in selected {
                    assert_eq!(labels.get(key).map(String::as_str), value.as_str(), "{key} of {class}");
                }
                let tolerations =
                    class["scheduling"].get("tolerations").cloned().unwrap_or_else(|| Value::Array(vec![]));
                let tolerations: Vec<core::Toleration> = serde_json::from_value(tolerations).unwrap();
                let tolerations: Vec<_> = tolerations.iter().filter_map(Toleration::read).collect();
                for taint in taints.iter().filter(|taint| taint.effect != TaintEffect::PreferNoSchedule) {
                    assert!(tolerations.iter().any(|one| one.tolerates(taint)), "{taint:?} and {class}");
                }
            }
        }
    }
}

//! Properties of `winpool adopt`, for any nodes and RuntimeClasses: what it writes changes nothing in a consistent cluster, and it
//! reports what changes in another one.

use std::collections::BTreeMap;

use proptest::{
    prelude::*,
    sample::{select, subsequence},
};
use serde_json::{Value, json};
use winpool as commands;
use winpool_api::Mode;
use winpool_check::{
    adopt::{AdoptedPool, Adoption},
    manifests::{Budget, ManifestSet, Manifests},
};
use winpool_render::{
    profile,
    reserve::{ConfigState, Reserves, config_state},
};

use super::{adoption, apply, class};
use winpool_model::{CLASS, Model, NODE, cases, node};

fn any_taints() -> impl Strategy<Value = Value> {
    let known = [
        json!({"key": "os", "value": "windows", "effect": "NoSchedule"}),
        json!({"key": "os", "value": "Windows", "effect": "NoSchedule"}),
        json!({"key": "os", "value": "mine", "effect": "NoSchedule"}),
        json!({"key": "node.kubernetes.io/os", "value": "windows", "effect": "NoSchedule"}),
        json!({"key": "team", "value": "a", "effect": "NoSchedule"}),
        json!({"key": "drain", "effect": "NoExecute"}),
        json!({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}),
    ];
    // A node has one taint for each key and effect.
    subsequence(known.to_vec(), 0..=3).prop_map(|taints| {
        let by_key: BTreeMap<String, Value> =
            taints.into_iter().map(|taint| (format!("{}{}", taint["key"], taint["effect"]), taint)).collect();
        json!(by_key.into_values().collect::<Vec<_>>())
    })
}

fn any_labels() -> impl Strategy<Value = Value> {
    let label = |keys: Vec<&'static str>| {
        (select(keys), select(vec!["web", "Web", "batch"])).prop_map(|(key, value)| json!({key: value}))
    };
    prop_oneof![
        Just(json!({})),
        label(vec!["agentpool", "karpenter.sh/nodepool", "eks.amazonaws.com/nodegroup"]),
        label(vec!["team"]),
        select(vec!["web", "batch"])
            .prop_map(|name| json!({"agentpool": name, "kubernetes.azure.com/agentpool": name})),
        select(vec!["web", "batch"])
            .prop_map(|name| json!({"eks.amazonaws.com/nodegroup": name, "alpha.eksctl.io/nodegroup-name": "batch"})),
    ]
}

fn any_class() -> impl Strategy<Value = Value> {
    let build = select(vec!["10.0.17763", "10.0.20348", "10.0.26100"]);
    let selector = (build, 0..6).prop_map(|(build, form)| {
        let mut selector = json!({"kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64", "node.kubernetes.io/windows-build": build});
        match form {
            0 => selector["agentpool"] = json!("web"),
            1 => drop(selector.as_object_mut().unwrap().remove("kubernetes.io/arch")),
            2 => selector = json!({"kubernetes.io/os": "windows"}),
            _ => {}
        }
        selector
    });
    let tolerations = select(vec![
        json!([]),
        json!([{"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}]),
        json!([{"key": "os", "operator": "Exists"}]),
        json!([{"operator": "Exists"}]),
    ]);
    let handler = select(vec!["runhcs-wcow-process", "runhcs-wcow-hypervisor", "docker"]);
    (selector, tolerations, handler)
        .prop_map(|(selector, tolerations, handler)| class(handler, &selector, &tolerations))
}

/// A cluster without pools.
fn any_cluster() -> impl Strategy<Value = Model> {
    let any_node = (select(vec![17763, 20348, 26100]), any_labels(), any_taints());
    let nodes = prop::collection::vec(any_node, 1..8);
    let classes = prop::collection::vec(any_class(), 0..3);
    (nodes, classes, any::<bool>()).prop_map(|(nodes, classes, equal)| {
        let mut model = Model::new();
        let same = nodes[0].2.clone();
        for (index, (build, labels, taints)) in nodes.into_iter().enumerate() {
            let taints = if equal { same.clone() } else { taints };
            model.put(NODE, &format!("n{index}"), node(build, "containerd://1.7.27", &labels, &taints));
        }
        for (index, class) in classes.into_iter().enumerate() {
            model.put(CLASS, &format!("c{index}"), class);
        }
        model
    })
}

/// The taints of each node.
fn taints(model: &Model) -> Vec<Value> {
    model.all(NODE).map(|node| node["spec"]["taints"].clone()).collect()
}

/// The labels and annotations of each node that do not belong to winpool.
fn foreign_metadata(model: &Model) -> Vec<Value> {
    let foreign = |map: &Value| -> BTreeMap<String, Value> {
        let entries = map.as_object().into_iter().flatten();
        let others = entries.filter(|(key, _)| !key.split('/').next().unwrap().ends_with("winpool.dev"));
        others.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let of_node =
        |node: &Value| json!([foreign(&node["metadata"]["labels"]), foreign(&node["metadata"]["annotations"])]);
    model.all(NODE).map(of_node).collect()
}

fn classes(model: &Model) -> Vec<Value> {
    model.all(CLASS).cloned().collect()
}

fn any_pool(adoption: &Adoption, has: impl Fn(&AdoptedPool) -> bool) -> bool {
    adoption.pools.iter().any(has)
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn each_node_is_selected_by_exactly_one_pool(model in any_cluster()) {
        let adoption = adoption(&model);
        prop_assert_eq!(&adoption.problems, &[]);
        let mut nodes: Vec<&String> = adoption.pools.iter().flat_map(|pool| &pool.nodes).collect();
        nodes.sort();
        prop_assert_eq!(nodes.len(), model.names(NODE).len());
        for node in model.snapshot().nodes.values() {
            let selecting: Vec<_> = adoption.pools.iter().filter(|pool| pool.selector.matches(&node.labels)).collect();
            prop_assert_eq!(selecting.len(), 1, "{}", node.name);
            prop_assert!(selecting[0].nodes.contains(&node.name));
        }
    }

    #[test]
    fn mode_enforce_changes_what_the_comments_tell_and_nothing_else(mut model in any_cluster()) {
        let adoption = adoption(&model);
        let before = (taints(&model), foreign_metadata(&model), classes(&model));
        apply(&mut model, &adoption, Mode::Enforce);
        model.converge();
        prop_assert_eq!(&foreign_metadata(&model), &before.1);
        let changes_taints = any_pool(&adoption, |pool| !pool.changes.edits.is_empty());
        prop_assert_eq!(taints(&model) != before.0, changes_taints, "{:?}", adoption);
        let changes_classes = any_pool(&adoption, |pool| !pool.changes.classes.is_empty());
        prop_assert_eq!(classes(&model) != before.2, changes_classes, "{:?}", adoption);
    }

    #[test]
    fn mode_observe_writes_nothing_and_leaves_nothing_to_adopt(mut model in any_cluster()) {
        let adopted = adoption(&model);
        let before = (taints(&model), foreign_metadata(&model), classes(&model));
        apply(&mut model, &adopted, Mode::Observe);
        model.converge();
        prop_assert_eq!((taints(&model), foreign_metadata(&model), classes(&model)), before);
        let again = adoption(&model);
        prop_assert!(again.pools.is_empty() && again.problems.is_empty());
        prop_assert_eq!(again.assigned, model.names(NODE).len());
    }

    #[test]
    fn the_text_is_read_as_the_same_resources(model in any_cluster()) {
        let adoption = adoption(&model);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), commands::adopt::text(&adoption)).unwrap();
        let manifests = Manifests::read(&[file.path().to_owned()], &mut Budget::unbounded()).unwrap();
        let resources = ManifestSet::new(manifests).unwrap();
        prop_assert_eq!(resources.pools.len(), adoption.pools.len());
        for adopted in &adoption.pools {
            let expected = adopted.parsed(Mode::Observe, model.now);
            prop_assert_eq!(&resources.pools[&adopted.name].0.spec, &expected.spec);
            let spec = &adopted.profile.as_ref().unwrap().spec;
            prop_assert_eq!(&resources.profiles[&adopted.name].0.profile, &profile::check(spec));
        }
    }

    #[test]
    fn a_profile_is_in_effect_on_the_nodes_that_it_was_made_from(
        resources in prop::collection::vec((0_i64..8, 0_i64..30_000, 0_i64..100, 1_u32..250, select(vec!["v1.30.4", "v1.34.1"])), 1..5),
    ) {
        let mut model = Model::new();
        for (index, (cpu, memory, disk, pods, kubelet)) in resources.into_iter().enumerate() {
            let mut node = node(20348, "containerd://1.7.27", &json!({"agentpool": "a"}), &json!([]));
            node["status"]["nodeInfo"]["kubeletVersion"] = json!(kubelet);
            node["status"]["capacity"] = json!({"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": pods.to_string()});
            let left = json!({
                "cpu": (8 - cpu).to_string(), "memory": format!("{}Mi", 32 * 1024 - memory),
                "ephemeral-storage": format!("{}Gi", 100 - disk), "pods": pods.to_string(),
            });
            node["status"]["allocatable"] = left;
            model.put(NODE, &format!("n{index}"), node);
        }
        let adoption = adoption(&model);
        let adopted = adoption.pools[0].profile.as_ref().unwrap();
        let checked = profile::check(&adopted.spec).unwrap();
        let snapshot = model.snapshot();
        for name in &adopted.nodes {
            let node = snapshot.nodes.get(name).unwrap();
            let state = config_state(&Reserves::from(&checked.kubelet), node.kubelet_minor().unwrap(), &node.capacity, &node.allocatable);
            prop_assert_eq!(state, ConfigState::InEffect);
        }
        prop_assert_eq!(adopted.nodes.len() + adopted.differing.len() + adopted.unknown.len(), model.names(NODE).len());
    }
}

//! The rules of `winpool adopt`, as tables of nodes and classes and what is written for them.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Value, json};
use winpool_api::Mode;
use winpool_check::adopt::{AdoptedPool, OmissionReason};

use super::{adoption, apply, class};
use winpool_model::{CLASS, Model, NODE, POOL, node, pool};

#[derive(Deserialize)]
struct Cases {
    groups: Vec<Group>,
    taints: Vec<(Vec<Vec<String>>, Vec<String>)>,
    classes: Vec<(String, Value, Value, String)>,
}

#[derive(Deserialize)]
struct Group {
    nodes: Vec<(u32, Value)>,
    pools: Vec<String>,
}

static CASES: LazyLock<Cases> = LazyLock::new(|| serde_saphyr::from_str(include_str!("tables.yaml")).unwrap());

/// A cluster with these nodes, named `n0`, `n1` and so on: build, labels and taints as `key=value:Effect`.
fn cluster(nodes: &[(u32, Value, &[&str])]) -> Model {
    let mut model = Model::new();
    for (index, (build, labels, taints)) in nodes.iter().enumerate() {
        let taints: Vec<Value> = taints.iter().map(|text| taint(text)).collect();
        model.put(NODE, &format!("n{index}"), node(*build, "containerd://1.7.27", labels, &json!(taints)));
    }
    model
}

fn taint(text: &str) -> Value {
    let (key, effect) = text.rsplit_once(':').unwrap();
    let (key, value) = key.split_once('=').unwrap_or((key, ""));
    json!({"key": key, "value": value, "effect": effect})
}

/// The pools as `name: selector: nodes`.
fn pools(model: &Model) -> Vec<String> {
    let text = |pool: &AdoptedPool| format!("{}: {}: {}", pool.name, pool.selector, pool.nodes.join(" "));
    adoption(model).pools.iter().map(text).collect()
}

#[test]
fn nodes_are_grouped_by_build_and_by_the_label_of_their_platform() {
    for Group { nodes, pools: expected } in &CASES.groups {
        let nodes: Vec<_> = nodes.iter().map(|(build, labels)| (*build, labels.clone(), &[][..])).collect();
        let mut model = cluster(&nodes);
        let selector = json!({"matchLabels": {"cloud.google.com/gke-nodepool": "existing"}});
        model.put(
            POOL,
            "existing",
            pool(json!({"windowsVersion": "ltsc2022", "nodeSelector": selector, "mode": "Observe"})),
        );
        assert_eq!(pools(&model), *expected, "{nodes:?}");
        assert_eq!(adoption(&model).problems, []);
    }
}

#[test]
fn a_name_does_not_depend_on_the_number_of_other_pools() {
    let long = "a".repeat(63);
    let mut model = cluster(&[(20348, json!({"agentpool": long}), &[]), (26100, json!({"agentpool": long}), &[])]);
    let names = |model: &Model| adoption(model).pools.into_iter().map(|pool| pool.name).collect::<Vec<_>>();
    let first = names(&model);
    assert!(first.iter().all(|name| name.len() == 63), "{first:?}");
    model.put(NODE, "other", node(20348, "containerd://1.7.27", &json!({"agentpool": "web"}), &json!([])));
    assert_eq!(names(&model)[..2], first);
    // A pool with the name exists.
    model.put(POOL, "web", pool(json!({"windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"a": "b"}}})));
    assert_eq!(names(&model)[2], "web-fe4dac");
}

#[test]
fn a_node_that_an_existing_pool_has_is_not_selected_again() {
    let mut model = cluster(&[
        (20348, json!({"agentpool": "web", "team": "a"}), &[]),
        (20348, json!({"agentpool": "web", "team": "b"}), &[]),
    ]);
    let selector = json!({"matchLabels": {"team": "a"}});
    model.put(POOL, "first", pool(json!({"windowsVersion": "ltsc2022", "nodeSelector": selector})));
    let problems: Vec<_> = adoption(&model).problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems, ["node n0 is selected by several pools: first, web. Change their selectors"]);
}

/// The taints, `replaces` those that are replaced, and `not` those that stay on single nodes.
fn taints(pool: &AdoptedPool) -> Vec<String> {
    let taints = pool.taints.taints.iter().map(ToString::to_string);
    let replaced = pool.taints.replaced.iter().map(|taint| format!("replaces {taint}"));
    let partial = pool.taints.partial.iter().map(|(taint, nodes)| format!("not {taint} {}", nodes.join(" ")));
    taints.chain(replaced).chain(partial).collect()
}

#[test]
fn the_taints_of_a_pool_are_the_permanent_ones_that_its_nodes_have_in_common() {
    for (nodes, expected) in &CASES.taints {
        let all: Vec<Vec<_>> = nodes.iter().map(|taints| taints.iter().map(String::as_str).collect()).collect();
        let nodes: Vec<_> = all.iter().map(|taints| (20348, json!({"agentpool": "a"}), &taints[..])).collect();
        assert_eq!(taints(&adoption(&cluster(&nodes)).pools[0]), *expected, "{nodes:?}");
    }
}

#[test]
fn no_two_pools_replace_the_taints_of_each_other() {
    let (a, b) = (json!({"agentpool": "a"}), json!({"agentpool": "b"}));
    let adoption = adoption(&cluster(&[
        (20348, a.clone(), &["os=windows:NoSchedule"]),
        (20348, a.clone(), &["os=windows:NoSchedule"]),
        (20348, a, &["os=Windows:NoSchedule"]),
        (20348, b.clone(), &["os=Windows:NoSchedule"]),
        (20348, b.clone(), &["os=Windows:NoSchedule"]),
        (20348, b.clone(), &["os=Windows:NoSchedule"]),
        (20348, b, &["os=windows:NoSchedule"]),
    ]));
    let expected = ["os=Windows:NoSchedule", "replaces os=windows:NoSchedule"];
    assert_eq!(taints(&adoption.pools[0]), expected);
    let expected = ["os=Windows:NoSchedule", "replaces os=windows:NoSchedule"];
    assert_eq!(taints(&adoption.pools[1]), expected);
}

#[test]
fn a_class_is_in_the_pool_if_a_pool_can_express_it_and_is_adopted_if_it_differs() {
    for (handler, selector, tolerations, expected) in &CASES.classes {
        let class = class(handler, selector, tolerations);
        let mut model = cluster(&[(20348, json!({"agentpool": "web"}), &["os=windows:NoSchedule"])]);
        model.put(CLASS, "c", class.clone());
        let adoption = adoption(&model);
        assert_eq!(described(&adoption.pools[0]), *expected, "{class}");
        assert_eq!(adoption.pools[0].changes.is_empty(), !expected.contains("adopt"), "{class}");
    }
}

/// The only class of a pool, or why there is none.
fn described(pool: &AdoptedPool) -> String {
    if let [adopted] = pool.classes.as_slice() {
        let class = &adopted.class;
        let handler = if class.handler.is_empty() { String::new() } else { format!(" {}", class.handler) };
        let adopt = if class.adopt { " adopt: " } else { "" };
        let difference = adopted.difference.as_deref().unwrap_or_default();
        return format!("{:?} {:?}{handler}{adopt}{difference}", class.isolation, class.scope);
    }
    let reason = |reason: &OmissionReason| match reason {
        OmissionReason::Selector(selector) => {
            selector.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
        }
        other => format!("{other:?}"),
    };
    pool.omitted_classes.iter().map(|omitted| format!("not: {}", reason(&omitted.reason))).collect()
}

#[test]
fn a_class_whose_pods_must_not_run_on_the_nodes_of_a_pool_is_not_opened_for_them() {
    let exact = json!({"kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64", "node.kubernetes.io/windows-build": "10.0.20348"});
    let tolerates = json!([{"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}]);
    let mut model = cluster(&[
        (20348, json!({"agentpool": "web"}), &["os=windows:NoSchedule"]),
        (20348, json!({"agentpool": "batch"}), &["os=windows:NoSchedule", "team=batch:NoSchedule"]),
    ]);
    model.put(CLASS, "c", class("runhcs-wcow-process", &exact, &tolerates));
    let adoption = adoption(&model);
    let [batch, web] = adoption.pools.as_slice() else { panic!("two pools") };
    assert_eq!(described(web), "Process Build");
    assert!(batch.classes.is_empty());
    assert!(matches!(&batch.omitted_classes[0].reason, OmissionReason::Untolerated(taint) if taint.key == "team"));
    apply(&mut model, &adoption, Mode::Enforce);
    let before = model.get(CLASS, "c").cloned();
    model.converge();
    assert_eq!(model.get(CLASS, "c").cloned(), before);
}

//! Whom a record on a node is believed, what Retain leaves behind, and which evictions are held. On a model of the API server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod model;

use model::{CLASS, NODE, POD, POOL, World, node, pod, pool, taints};
use serde_json::{Value, json};
use winpool::domain::pool::plan::{clean_up, plan};

fn web_node(taints: &Value) -> Value {
    node(20348, "containerd://2.1.4", &json!({"agentpool": "web"}), taints)
}

fn web(more: &Value) -> Value {
    let mut spec = json!({"windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": "web"}}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    pool(spec)
}

fn taint(key: &str, value: &str, effect: &str) -> Value {
    json!({"key": key, "value": value, "effect": effect})
}

/// A pool `web` with one node `win-1`, settled.
fn settled(more: &Value, taints: &Value) -> World {
    let mut world = World::new();
    world.put(NODE, "win-1", web_node(taints));
    world.put(POOL, "web", web(more));
    world.settle();
    world
}

fn win(world: &World) -> &Value {
    world.get(NODE, "win-1").unwrap()
}

fn record(world: &World, node: &str) -> String {
    let node = world.get(NODE, node).unwrap();
    node["metadata"]["annotations"]["winpool.dev/owned"].as_str().unwrap().to_owned()
}

fn set_record(world: &mut World, node: &str, text: &str) {
    world.edit(NODE, node, |node| node["metadata"]["annotations"]["winpool.dev/owned"] = json!(text));
}

/// Status, reason and message of a condition.
fn condition(world: &World, pool: &str, name: &str) -> (String, String, String) {
    let conditions = world.get(POOL, pool).unwrap()["status"]["conditions"].as_array().unwrap().clone();
    let found = conditions.into_iter().find(|condition| condition["type"] == name).unwrap();
    let text = |field: &str| found[field].as_str().unwrap().to_owned();
    (text("status"), text("reason"), text("message"))
}

const PROTECTED: &str = "node-restriction.kubernetes.io/tier";

#[test]
fn a_label_that_a_kubelet_wrote_makes_its_node_no_member() {
    let mut world = settled(&json!({"labels": {PROTECTED: "gold"}}), &json!([]));
    let forged = r#"{"pool":"web","taints":{"os:NoSchedule":"added"}}"#;
    for (name, annotations) in [("label", json!({})), ("record", json!({"winpool.dev/owned": forged}))] {
        let mut other = node(20348, "containerd://2.1.4", &json!({"winpool.dev/pool": "web"}), &json!([]));
        other["metadata"]["annotations"] = annotations;
        world.put(NODE, name, other);
    }
    // A record of another node, copied.
    let copied = record(&world, "win-1");
    world.put(NODE, "copy", node(20348, "containerd://2.1.4", &json!({"winpool.dev/pool": "web"}), &json!([])));
    set_record(&mut world, "copy", &copied);
    world.settle();
    for name in ["label", "record", "copy"] {
        let node = world.get(NODE, name).unwrap();
        assert_eq!(taints(node), Vec::<String>::new(), "{name}");
        assert_eq!(node["metadata"]["labels"].get(PROTECTED), None, "{name}");
    }
    let (status, reason, message) = condition(&world, "web", "NodesAssigned");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "RecordNotVerified"));
    assert!(
        message.starts_with("copy, label, record have label winpool.dev/pool=web without a valid record"),
        "{message}"
    );
    assert!(message.ends_with("kubectl get nodes -l winpool.dev/pool=web"), "{message}");
}

#[test]
fn a_forged_record_removes_nothing_that_an_administrator_set() {
    let gpu = taint("gpu", "yes", "NoSchedule");
    let mut world = settled(&json!({}), &json!([gpu]));
    // Another pool has applied a taint of this key.
    let batch = json!({
        "windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": "batch"}}, "taints": [gpu],
    });
    world.put(POOL, "batch", pool(batch));
    world.settle();
    for pool in ["web", "batch"] {
        let forged =
            format!(r#"{{"pool":"{pool}","taints":{{"gpu:NoSchedule":"added"}},"labels":{{"agentpool":"added"}}}}"#);
        set_record(&mut world, "win-1", &forged);
        world.settle();
        assert_eq!(taints(win(&world)), ["gpu=yes:NoSchedule", "os=windows:NoSchedule"], "{pool}");
        assert_eq!(win(&world)["metadata"]["labels"]["agentpool"], "web");
    }
}

#[test]
fn an_older_record_of_the_same_node_reaches_no_further_than_what_its_pool_applies() {
    let os = taint("os", "windows", "NoSchedule");
    let mut world = settled(&json!({"taints": [os, taint("team", "web", "NoSchedule")]}), &json!([]));
    let old = record(&world, "win-1");
    world.edit(POOL, "web", |pool| pool["spec"]["taints"] = json!([os]));
    world.settle();
    assert_eq!(taints(win(&world)), ["os=windows:NoSchedule"], "the pool removes what it added");
    // An administrator sets the taint, and the kubelet writes the old record back.
    world.edit(NODE, "win-1", |node| {
        node["spec"]["taints"].as_array_mut().unwrap().push(taint("team", "web", "NoSchedule"));
    });
    set_record(&mut world, "win-1", &old);
    world.settle();
    assert_eq!(taints(win(&world)), ["os=windows:NoSchedule", "team=web:NoSchedule"]);
}

#[test]
fn without_the_key_nothing_is_removed_and_the_condition_says_how_to_recover() {
    let mut world = settled(&json!({"deletionPolicy": "Cleanup", "labels": {"team": "web"}}), &json!([]));
    let before = win(&world).clone();
    world.key = 8;
    world.settle();
    assert_eq!(*win(&world), before, "a record that cannot be verified is left as it is");
    let (_, _, message) = condition(&world, "web", "NodesConfigured");
    assert!(message.contains("The records on win-1 could not be verified"), "{message}");
    assert!(message.contains("restore the former Secret"), "{message}");

    // What the selector asks for is still written, and what the old record claims is kept.
    world.edit(POOL, "web", |pool| {
        pool["spec"]["taints"] = json!([taint("team", "web", "NoSchedule")]);
        pool["spec"]["labels"] = json!({});
    });
    world.settle();
    assert_eq!(taints(win(&world)), ["os=windows:NoSchedule", "team=web:NoSchedule"]);
    assert_eq!(win(&world)["metadata"]["labels"]["team"], "web");
    let kept: Value = serde_json::from_str(&record(&world, "win-1")).unwrap();
    assert_eq!(kept["taints"], json!({"os:NoSchedule": "claimed", "team:NoSchedule": "added"}));
    assert_eq!(kept["labels"]["team"], "claimed");

    world.delete(POOL, "web");
    world.settle();
    assert_eq!(taints(win(&world)), ["os=windows:NoSchedule"], "only what is proven is removed");
    assert_eq!(world.get(POOL, "web"), None);
}

#[test]
fn a_clean_up_waits_where_no_record_can_be_verified_and_says_how_to_recover() {
    let mut world = settled(&json!({"deletionPolicy": "Cleanup"}), &json!([]));
    let before = win(&world).clone();
    world.key = 8;
    world.delete(POOL, "web");
    world.settle();
    assert_eq!(*win(&world), before);
    assert_eq!(world.names(CLASS), ["windows-ltsc2022"]);
    let (status, _, message) = condition(&world, "web", "Ready");
    assert_eq!(status, "False");
    assert!(message.contains("the records on win-1 cannot be verified"), "{message}");
    assert!(message.contains("winpool cleanup --pool web --trust-records"), "{message}");
    world.key = 7;
    world.settle();
    assert_eq!(taints(win(&world)), Vec::<String>::new());
    assert_eq!(world.get(POOL, "web"), None);
}

#[test]
fn the_former_key_makes_untouched_records_valid_again() {
    let mut world = settled(&json!({"deletionPolicy": "Cleanup"}), &json!([]));
    world.key = 8;
    world.settle();
    world.key = 7;
    world.settle();
    assert_eq!(condition(&world, "web", "NodesConfigured").2, "labels and taints are on 1 node");
    world.delete(POOL, "web");
    world.settle();
    assert_eq!(taints(win(&world)), Vec::<String>::new());
}

#[test]
fn a_clean_up_that_trusts_the_records_removes_what_they_claim() {
    let mut world = settled(&json!({}), &json!([]));
    world.delete(POOL, "web");
    let mut snapshot = world.snapshot();
    snapshot.ownership = std::sync::Arc::default();
    let names = ["web".to_owned()].into();
    for operation in clean_up(&snapshot, &names).iter().flat_map(|plan| plan.steps.iter().flatten()) {
        world.run_after(operation, &winpool::domain::operation::Unwritten::default());
    }
    assert_eq!(taints(win(&world)), Vec::<String>::new());
    assert_eq!(win(&world)["metadata"]["annotations"], json!({"example.com/note": "keep"}));
    assert_eq!(world.names(CLASS), Vec::<String>::new());
}

#[test]
fn a_pool_created_again_with_fewer_taints_removes_what_its_predecessor_added() {
    let os = taint("os", "windows", "NoSchedule");
    let mut world = settled(&json!({"taints": [os, taint("team", "web", "NoSchedule")]}), &json!([]));
    world.delete(POOL, "web");
    world.settle();
    assert_eq!(taints(win(&world)), ["os=windows:NoSchedule", "team=web:NoSchedule"], "Retain");
    world.put(POOL, "web", web(&json!({"taints": [os]})));
    world.settle();
    assert_eq!(taints(win(&world)), ["os=windows:NoSchedule"]);
}

#[test]
fn a_retained_pool_leaves_every_object_as_it_is() {
    let batch = |more: Value| {
        let mut spec = json!({
            "windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": "batch"}},
            "taints": [taint("batch", "yes", "NoSchedule")], "runtimeClasses": [{"name": "windows-ltsc2022"}],
        });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        pool(spec)
    };
    let mut world = settled(&json!({}), &json!([]));
    world.put(NODE, "win-2", node(20348, "containerd://2.1.4", &json!({"agentpool": "batch"}), &json!([])));
    world.put(POOL, "batch", batch(json!({})));
    world.settle();
    let objects =
        |world: &World| -> Vec<Value> { [NODE, CLASS].into_iter().flat_map(|kind| world.all(kind)).cloned().collect() };
    let before = objects(&world);
    // Either of the two that share a class goes, the older one too.
    for gone in ["web", "batch"] {
        let mut world = world.clone();
        world.delete(POOL, gone);
        world.settle();
        assert_eq!(objects(&world), before, "{gone} was deleted with Retain");
    }

    // A class that was left behind is not given another meaning by a pool of another build.
    world.delete(POOL, "web");
    world.delete(POOL, "batch");
    world.settle();
    world.put(POOL, "next", batch(json!({"windowsVersion": "ltsc2025"})));
    world.settle();
    let (_, reason, message) = condition(&world, "next", "RuntimeClassReady");
    assert_eq!(reason, "NameTaken");
    assert!(message.contains("was left by pool web, which was deleted with Retain"), "{message}");
    let selector = |world: &World| {
        let class = world.get(CLASS, "windows-ltsc2022").unwrap();
        class["scheduling"]["nodeSelector"]["node.kubernetes.io/windows-build"].as_str().unwrap().to_owned()
    };
    assert_eq!(selector(&world), "10.0.20348");
    world.edit(POOL, "next", |pool| pool["spec"]["runtimeClasses"][0]["adopt"] = json!(true));
    world.settle();
    assert_eq!(selector(&world), "10.0.26100");
}

#[test]
fn a_toleration_stays_while_a_node_that_the_class_selects_has_the_taint() {
    let mut world = settled(&json!({}), &json!([]));
    world.edit(POOL, "web", |pool| pool["spec"]["taints"] = json!([taint("team", "web", "NoSchedule")]));
    // Somebody else keeps a taint on a node of the same build that is in no pool.
    let by_hand = json!([taint("os", "windows", "NoSchedule")]);
    world.put(NODE, "by-hand", node(20348, "containerd://2.1.4", &json!({}), &by_hand));
    world.settle();
    let keys = |world: &World| -> Vec<String> {
        let class = world.get(CLASS, "windows-ltsc2022").unwrap();
        let tolerations = class["scheduling"]["tolerations"].as_array().unwrap();
        tolerations.iter().map(|toleration| toleration["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(&world), ["team", "os"]);
    world.edit(NODE, "by-hand", |node| node["spec"]["taints"] = json!([]));
    world.settle();
    assert_eq!(keys(&world), ["team"]);
}

#[test]
fn a_pool_that_observes_takes_no_node_and_no_name_from_one_that_enforces() {
    let mut world = World::new();
    world.put(NODE, "win-1", web_node(&json!([])));
    world.put(
        POOL,
        "watcher",
        web(&json!({"mode": "Observe", "runtimeClasses": [{"name": "windows", "scope": "Pool"}]})),
    );
    world.put(POOL, "web", web(&json!({"runtimeClasses": [{"name": "windows"}]})));
    world.settle();
    assert_eq!(taints(win(&world)), ["os=windows:NoSchedule"]);
    assert_eq!(win(&world)["metadata"]["labels"]["winpool.dev/pool"], "web");
    assert_eq!(condition(&world, "web", "RuntimeClassReady").1, "Applied");
    assert_eq!(condition(&world, "watcher", "RuntimeClassReady").1, "NameTaken");
    // A fallback pool keeps its node when a pool that observes selects it.
    world.put(NODE, "win-2", node(20348, "containerd://2.1.4", &json!({"agentpool": "new"}), &json!([])));
    world.put(POOL, "rest", pool(json!({"windowsVersion": "ltsc2022", "fallback": true})));
    world.settle();
    let mut spec = web(&json!({"mode": "Observe"}));
    spec["spec"]["nodeSelector"] = json!({"matchLabels": {"agentpool": "new"}});
    world.put(POOL, "new", spec);
    world.settle();
    world.edit(NODE, "win-2", |node| node["spec"]["taints"] = json!([]));
    world.settle();
    assert_eq!(taints(world.get(NODE, "win-2").unwrap()), ["os=windows:NoSchedule"]);
}

/// A pool with a NoExecute taint and these pods on `win-1`; `pods` none where they are not read.
#[test]
fn a_no_execute_taint_is_held_on_a_node_with_pods_that_do_not_tolerate_it_whenever_they_meet() {
    let drain = taint("drain", "a", "NoExecute");
    let tolerates = |more: Value| {
        let mut toleration = json!({"key": "drain", "operator": "Exists"});
        toleration.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([toleration])
    };
    let mut mirror = pod("win-1", &json!([]));
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    let mut finished = pod("win-1", &json!([]));
    finished["status"] = json!({"phase": "Succeeded"});
    let table = [
        ("no pod", vec![], true),
        ("a pod elsewhere", vec![pod("win-2", &json!([]))], true),
        ("a pod that does not tolerate it", vec![pod("win-1", &json!([]))], false),
        ("a pod that tolerates it", vec![pod("win-1", &tolerates(json!({})))], true),
        (
            "a pod that tolerates it for a minute",
            vec![pod("win-1", &tolerates(json!({"tolerationSeconds": 60})))],
            false,
        ),
        ("a static pod", vec![mirror], true),
        ("a pod that has ended", vec![finished], true),
    ];
    for (what, pods, applied) in table {
        let mut world = World::new();
        world.put(POOL, "web", web(&json!({"taints": [drain]})));
        world.settle();
        // Node and pods come after the pool: what the pool applied before gives no permission.
        world.put(NODE, "win-1", web_node(&json!([])));
        for (number, pod) in pods.into_iter().enumerate() {
            world.put(POD, &format!("default/{number}"), pod);
        }
        world.settle();
        assert_eq!(taints(win(&world)) == ["drain=a:NoExecute"], applied, "{what}");
        assert_eq!(
            condition(&world, "web", "NodesConfigured").1,
            if applied { "Applied" } else { "WouldEvict" },
            "{what}"
        );
        world.edit(POOL, "web", |pool| pool["metadata"]["annotations"] = json!({"winpool.dev/allow-evict": "1"}));
        world.settle();
        assert_eq!(taints(win(&world)), ["drain=a:NoExecute"], "{what}: allowed");
    }
}

#[test]
fn a_no_execute_taint_gets_another_value_with_permission_only() {
    let drain = |value: &str| json!([taint("drain", value, "NoExecute")]);
    let mut world = settled(&json!({"taints": drain("a")}), &json!([]));
    let tolerations = json!([{"key": "drain", "operator": "Equal", "value": "a", "effect": "NoExecute"}]);
    world.put(POD, "default/web", pod("win-1", &tolerations));
    world.edit(POOL, "web", |pool| pool["spec"]["taints"] = drain("b"));
    world.settle();
    assert_eq!(taints(win(&world)), ["drain=a:NoExecute"]);
    assert_eq!(condition(&world, "web", "NodesConfigured").1, "WouldEvict");
    world.edit(POOL, "web", |pool| pool["metadata"]["annotations"] = json!({"winpool.dev/allow-evict": "2"}));
    world.settle();
    assert_eq!(taints(win(&world)), ["drain=b:NoExecute"]);
}

#[test]
fn without_pods_every_new_no_execute_taint_is_held() {
    let mut world = World::new();
    world.put(NODE, "win-1", web_node(&json!([])));
    world.put(POOL, "web", web(&json!({"taints": [taint("drain", "", "NoExecute")]})));
    let mut snapshot = world.snapshot();
    snapshot.pods = None;
    let plan = plan(&snapshot, "web").unwrap();
    let words: Vec<_> = plan.steps.iter().flatten().filter_map(winpool::domain::operation::Operation::words).collect();
    assert!(words.iter().all(|words| !words.contains("drain")), "{words:?}");
}

#[test]
fn a_refused_clean_up_leaves_taints_record_label_and_finalizer() {
    let mut world = settled(&json!({"deletionPolicy": "Cleanup"}), &json!([]));
    let before = win(&world).clone();
    world.refuses = Some(|operation| matches!(operation, winpool::domain::operation::Operation::PatchNode(_)));
    world.delete(POOL, "web");
    for _ in 0..3 {
        world.pass_until("web", usize::MAX, |_| {});
    }
    assert_eq!(*win(&world), before);
    assert_eq!(world.names(CLASS), ["windows-ltsc2022"]);
    let (status, _, message) = condition(&world, "web", "Ready");
    assert_eq!(status, "False");
    assert!(message.contains("refused by the model"), "{message}");
    world.refuses = None;
    world.settle();
    assert_eq!(taints(win(&world)), Vec::<String>::new());
    assert_eq!(world.get(POOL, "web"), None);
}

//! Verified and unverified records, deletion with Retain, and held evictions, on a model of the API server.

use jiff::SignedDuration;
use serde_json::{Value, json};
use winpool_core::kind::Kind;
use winpool_rules::{
    pool::plan::{clean_up, plan},
    status::{event::Regarding, nodes::refused_claims},
};

use winpool_model::{CLASS, Model, NODE, POD, POOL, condition, node, pod, pool, taint, taints, web, web_node, with};

/// A converged pool `web` with one node `win-1`.
fn converged(more: &Value, taints: &Value) -> Model {
    let mut model = Model::new();
    model.allowances.label_prefixes = vec![PROTECTED.parse().unwrap()];
    model.put(NODE, "win-1", web_node(taints.clone()));
    model.put(POOL, "web", web(more.clone()));
    model.converge();
    model
}

fn win(model: &Model) -> &Value {
    model.get(NODE, "win-1").unwrap()
}

fn record(model: &Model, node: &str) -> String {
    let node = model.get(NODE, node).unwrap();
    node["metadata"]["annotations"]["winpool.dev/owned"].as_str().unwrap().to_owned()
}

fn set_record(model: &mut Model, node: &str, text: &str) {
    model.edit(NODE, node, |node| node["metadata"]["annotations"]["winpool.dev/owned"] = json!(text));
}

const PROTECTED: &str = "node-restriction.kubernetes.io/tier";

#[test]
fn a_former_record_makes_its_node_a_held_member_again_and_changes_no_other_node() {
    let mut model = converged(&json!({}), &json!([]));
    let former = record(&model, "win-1");
    model.edit(NODE, "win-1", |node| node["metadata"]["labels"]["agentpool"] = json!("none"));
    model.annotate("web", "winpool.dev/allow-release", "agentpool=web");
    model.converge();
    assert_eq!(taints(win(&model)), Vec::<String>::new(), "it is released");
    model.edit(POOL, "web", |pool| pool["metadata"]["annotations"] = json!({}));
    model.put(NODE, "win-2", node(20348, "containerd://2.2.10", &json!({"agentpool": "none"}), &json!([])));
    model.converge();
    let other = model.get(NODE, "win-2").unwrap().clone();
    set_record(&mut model, "win-1", &former);
    model.converge();
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule"]);
    let (status, reason, message) = condition(&model, "web", "NodesAssigned");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ReleaseHeld"));
    assert!(message.contains("win-1"), "{message}");
    assert_eq!(*model.get(NODE, "win-2").unwrap(), other);
}

#[test]
fn a_label_or_record_that_a_kubelet_wrote_does_not_make_its_node_a_member() {
    let mut model = converged(&json!({"labels": {PROTECTED: "gold"}}), &json!([]));
    let forged = r#"{"pool":"web","taints":{"os:NoSchedule":"added"}}"#;
    for (name, annotations) in [("label", json!({})), ("record", json!({"winpool.dev/owned": forged}))] {
        let mut other = node(20348, "containerd://2.2.10", &json!({"winpool.dev/pool": "web"}), &json!([]));
        other["metadata"]["annotations"] = annotations;
        model.put(NODE, name, other);
    }
    // A record of another node, copied.
    let copied = record(&model, "win-1");
    model.put(NODE, "copy", node(20348, "containerd://2.2.10", &json!({"winpool.dev/pool": "web"}), &json!([])));
    set_record(&mut model, "copy", &copied);
    model.converge();
    for name in ["label", "record", "copy"] {
        let node = model.get(NODE, name).unwrap();
        assert_eq!(taints(node), Vec::<String>::new(), "{name}");
        assert_eq!(node["metadata"]["labels"].get(PROTECTED), None, "{name}");
    }
    let (status, reason, message) = condition(&model, "web", "NodesAssigned");
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Assigned"), "a claim is no verdict on the pool");
    assert_eq!(condition(&model, "web", "Ready").0, "True");
    assert_eq!(
        message,
        "1 node belongs to this pool alone. 3 nodes have label winpool.dev/pool=web without a valid record of this operator \
         and are not selected, so nothing is written to them: copy, label, record. Remove the label. Policy winpool-nodes of \
         config/policies rejects such a change of a node, except by the operator"
    );
    let events: Vec<_> =
        refused_claims(&model.snapshot()).into_iter().map(|event| (event.about, event.reason)).collect();
    let about = |name: &str| {
        let node = model.get(NODE, name).unwrap();
        let uid = node["metadata"]["uid"].as_str().unwrap();
        (Regarding::new(Kind::NODE, name, uid), "RecordNotVerified".to_owned())
    };
    assert_eq!(events, ["copy", "label", "record"].map(about));
}

#[test]
fn records_that_the_key_does_not_verify_are_a_verdict_on_their_pool_and_those_of_one_kubelet_are_not() {
    let assigned = |model: &Model| {
        let (status, reason, message) = condition(model, "web", "NodesAssigned");
        (format!("{status} {reason}"), message)
    };
    let mut model = converged(&json!({}), &json!([]));
    model.put(NODE, "win-2", web_node(json!([])));
    model.converge();
    let valid = record(&model, "win-1");
    set_record(&mut model, "win-1", &valid.replace("added", "found"));
    model.converge();
    assert_eq!(assigned(&model).0, "True Assigned", "the record of win-2 is verified");
    set_record(&mut model, "win-1", &valid);

    // A node that the pool no longer selects has only its label and record.
    model.edit(NODE, "win-2", |node| node["metadata"]["labels"]["agentpool"] = json!("other"));
    model.key = 8;
    model.converge();
    let (reason, message) = assigned(&model);
    assert_eq!(reason, "False RecordNotVerified");
    assert!(
        message.starts_with("the records on 2 nodes cannot be verified with the key in Secret winpool-ownership")
            && message.contains("so nothing is removed from them: win-1, win-2. Restore the former Secret"),
        "{message}"
    );
    model.now += SignedDuration::from_mins(1);
    model.converge();
    assert_eq!(condition(&model, "web", "Stalled").0, "True");
    model.key = 7;
    model.converge();
    assert_eq!(assigned(&model).0, "False ReleaseHeld", "win-2 is a member again");
}

#[test]
fn a_forged_record_does_not_remove_taints_and_labels_of_administrators() {
    let gpu = taint("gpu", "yes", "NoSchedule");
    let mut model = converged(&json!({}), &json!([gpu]));
    // Another pool has applied a taint of this key.
    let batch = json!({
        "windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": "batch"}}, "taints": [gpu],
    });
    model.put(POOL, "batch", pool(batch));
    model.converge();
    for pool in ["web", "batch"] {
        let forged =
            format!(r#"{{"pool":"{pool}","taints":{{"gpu:NoSchedule":"added"}},"labels":{{"agentpool":"added"}}}}"#);
        set_record(&mut model, "win-1", &forged);
        model.converge();
        assert_eq!(taints(win(&model)), ["gpu=yes:NoSchedule", "os=windows:NoSchedule"], "{pool}");
        assert_eq!(win(&model)["metadata"]["labels"]["agentpool"], "web");
    }
}

#[test]
fn an_older_record_of_a_node_does_not_remove_taints_that_its_pool_no_longer_applies() {
    let os = taint("os", "windows", "NoSchedule");
    let mut model = converged(&json!({"taints": [os, taint("team", "web", "NoSchedule")]}), &json!([]));
    let old = record(&model, "win-1");
    model.set_spec("web", "taints", json!([os]));
    model.converge();
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule"], "the pool removes what it added");
    // An administrator sets the taint, and the kubelet writes the old record back.
    model.edit(NODE, "win-1", |node| {
        node["spec"]["taints"].as_array_mut().unwrap().push(taint("team", "web", "NoSchedule"));
    });
    set_record(&mut model, "win-1", &old);
    model.converge();
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule", "team=web:NoSchedule"]);
}

#[test]
fn without_the_key_nothing_is_removed_and_the_condition_has_a_remedy() {
    let mut model = converged(&json!({"deletionPolicy": "Cleanup", "labels": {"team": "web"}}), &json!([]));
    let before = win(&model).clone();
    model.key = 8;
    model.converge();
    assert_eq!(*win(&model), before, "a record that cannot be verified is not changed");
    let (_, _, message) = condition(&model, "web", "NodesTainted");
    assert!(
        message.contains("The records on 1 node cannot be verified with the key in Secret winpool-ownership"),
        "{message}"
    );
    assert!(message.contains("are never removed: win-1. Restore the former Secret"), "{message}");

    // Changes of the spec are still applied, and the entries of the old record are kept.
    model.set_spec("web", "taints", json!([taint("team", "web", "NoSchedule")]));
    model.set_spec("web", "labels", json!({}));
    model.converge();
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule", "team=web:NoSchedule"]);
    assert_eq!(win(&model)["metadata"]["labels"]["team"], "web");
    let kept: Value = serde_json::from_str(&record(&model, "win-1")).unwrap();
    assert_eq!(kept["taints"], json!({"os:NoSchedule": "claimed", "team:NoSchedule": "added"}));
    assert_eq!(kept["labels"]["team"], "claimed");

    model.delete(POOL, "web");
    model.converge();
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule"], "only taints that the record has as added are removed");
    assert_eq!(model.get(POOL, "web"), None);
}

#[test]
fn a_cleanup_waits_for_records_that_cannot_be_verified_and_has_a_remedy() {
    let mut model = converged(&json!({"deletionPolicy": "Cleanup"}), &json!([]));
    let before = win(&model).clone();
    model.key = 8;
    model.delete(POOL, "web");
    model.converge();
    assert_eq!(*win(&model), before);
    assert_eq!(model.names(CLASS), ["windows-ltsc2022"]);
    let (status, _, message) = condition(&model, "web", "Ready");
    assert_eq!(status, "False");
    assert!(message.contains("the records on win-1 cannot be verified"), "{message}");
    assert!(message.contains("winpool cleanup --pool web --trust-records"), "{message}");
    model.key = 7;
    model.converge();
    assert_eq!(taints(win(&model)), Vec::<String>::new());
    assert_eq!(model.get(POOL, "web"), None);
}

#[test]
fn a_cleanup_that_trusts_all_records_removes_their_entries() {
    let mut model = converged(&json!({}), &json!([]));
    model.delete(POOL, "web");
    let mut snapshot = model.snapshot();
    snapshot.ownership = std::sync::Arc::default();
    let names = ["web".to_owned()].into();
    for operation in clean_up(&snapshot, &names).iter().flat_map(|plan| plan.steps.iter().flatten()) {
        model.run_after(operation, &winpool_rules::operation::Unwritten::default());
    }
    assert_eq!(taints(win(&model)), Vec::<String>::new());
    assert_eq!(win(&model)["metadata"]["annotations"], json!({"example.com/note": "keep"}));
    assert_eq!(model.names(CLASS), Vec::<String>::new());
}

#[test]
fn a_recreated_pool_with_fewer_taints_removes_those_of_the_deleted_pool() {
    let os = taint("os", "windows", "NoSchedule");
    let mut model = converged(&json!({"taints": [os, taint("team", "web", "NoSchedule")]}), &json!([]));
    model.delete(POOL, "web");
    model.converge();
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule", "team=web:NoSchedule"], "Retain");
    model.put(POOL, "web", web(json!({"taints": [os]})));
    model.converge();
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule"]);
}

/// What happens to a re-created pool before it is cleaned up.
type FirstState = (&'static str, fn(&mut Model));

#[test]
fn a_cleanup_of_a_recreated_pool_removes_what_the_deleted_pool_added() {
    let table: [FirstState; 5] = [
        ("it enforces", |model| _ = model.converge()),
        ("it observes", |model| {
            model.set_spec("web", "mode", json!("Observe"));
            model.converge();
            model.set_spec("web", "mode", json!("Enforce"));
        }),
        ("its spec is invalid", |model| {
            model.set_spec("web", "windowsVersion", json!("ltsc1"));
            model.converge();
            model.set_spec("web", "windowsVersion", json!("ltsc2022"));
        }),
        ("nodes cannot be written", |model| {
            model.refuses = Some(|write| write.object.kind == Kind::NODE);
            model.reconcile_until("web", usize::MAX, |_| {});
            model.refuses = None;
        }),
        ("it is deleted at once, and nodes cannot be written", |model| {
            model.edit(POOL, "web", |pool| pool["metadata"]["finalizers"] = json!(["winpool.dev/cleanup"]));
            model.delete(POOL, "web");
            model.refuses = Some(|write| write.object.kind == Kind::NODE);
            model.reconcile_until("web", usize::MAX, |_| {});
            model.refuses = None;
        }),
    ];
    let os = taint("os", "windows", "NoSchedule");
    for (case, before) in table {
        let more = json!({"taints": [os, taint("team", "web", "NoSchedule")], "labels": {"team": "web"}});
        let mut model = Model::new();
        model.put(NODE, "win-1", web_node(json!([])));
        let initial = win(&model).clone();
        model.put(POOL, "web", web(more));
        model.converge();
        model.delete(POOL, "web");
        model.put(POOL, "web", web(json!({"taints": [os], "deletionPolicy": "Cleanup"})));
        before(&mut model);
        model.converge();
        model.delete(POOL, "web");
        model.converge();
        assert_eq!(model.get(POOL, "web"), None, "{case}");
        assert_eq!(taints(win(&model)), Vec::<String>::new(), "{case}");
        for field in ["labels", "annotations"] {
            assert_eq!(win(&model)["metadata"][field], initial["metadata"][field], "{case}");
        }
    }
}

#[test]
fn a_record_is_kept_while_what_it_lists_as_added_is_on_the_node() {
    let (os, team) = (taint("os", "windows", "NoSchedule"), taint("team", "web", "NoSchedule"));
    let mut model = converged(&json!({"taints": [os, team], "labels": {"team": "web"}}), &json!([]));
    model.delete(POOL, "web");
    // Another pool takes the node, and cannot know whether the deleted pool or its record was older.
    let next = json!({
        "windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": "web"}}, "taints": [os],
        "deletionPolicy": "Cleanup",
    });
    model.put(POOL, "next", pool(next));
    model.converge();
    model.delete(POOL, "next");
    model.converge();
    assert_eq!(model.get(POOL, "next"), None);
    assert_eq!(taints(win(&model)), ["team=web:NoSchedule"]);
    let kept: Value = serde_json::from_str(&record(&model, "win-1")).unwrap();
    assert_eq!(kept["taints"], json!({"team:NoSchedule": "added"}));
    assert_eq!(kept["labels"], json!({"team": "added"}));

    // A pool of the name in the record removes the rest.
    model.put(POOL, "next", web(json!({"taints": [], "deletionPolicy": "Cleanup"})));
    model.converge();
    model.delete(POOL, "next");
    model.converge();
    assert_eq!(taints(win(&model)), Vec::<String>::new());
    assert_eq!(win(&model)["metadata"]["annotations"], json!({"example.com/note": "keep"}));
}

#[test]
fn the_record_of_a_node_that_has_lost_its_label_is_removed_with_everything_or_kept_as_it_is() {
    let (os, team) = (taint("os", "windows", "NoSchedule"), taint("team", "web", "NoSchedule"));
    let mut model = converged(&json!({"taints": [os, team]}), &json!([]));
    model.delete(POOL, "web");
    model.put(POOL, "next", web(json!({"taints": [os], "deletionPolicy": "Cleanup"})));
    model.converge();
    model.edit(NODE, "win-1", |node| node["metadata"]["labels"]["kubernetes.io/os"] = json!("linux"));
    let before = record(&model, "win-1");
    model.delete(POOL, "next");
    model.converge();
    assert_eq!(taints(win(&model)), ["team=web:NoSchedule"]);
    assert_eq!(record(&model, "win-1"), before);
}

#[test]
fn keys_that_a_pool_has_dropped_are_owned_again_when_the_records_can_be_verified_again() {
    let os = taint("os", "windows", "NoSchedule");
    let mut model = converged(&json!({"taints": [os, taint("team", "web", "NoSchedule")]}), &json!([]));
    model.key = 8;
    model.set_spec("web", "taints", json!([os]));
    model.converge();
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule", "team=web:NoSchedule"]);
    model.key = 7;
    model.converge();
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule"]);
}

#[test]
fn a_deleted_pool_with_retain_leaves_all_objects_unchanged() {
    let batch = |more: Value| {
        let spec = json!({
            "windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": "batch"}},
            "taints": [taint("batch", "yes", "NoSchedule")], "runtimeClasses": [{"name": "windows-ltsc2022"}],
        });
        pool(with(spec, &more))
    };
    let mut model = converged(&json!({}), &json!([]));
    model.put(NODE, "win-2", node(20348, "containerd://2.2.10", &json!({"agentpool": "batch"}), &json!([])));
    model.put(POOL, "batch", batch(json!({})));
    model.converge();
    let objects =
        |model: &Model| -> Vec<Value> { [NODE, CLASS].into_iter().flat_map(|kind| model.all(kind)).cloned().collect() };
    let before = objects(&model);
    // Both pools share a class, and either of them is deleted.
    for deleted in ["web", "batch"] {
        let mut model = model.clone();
        model.delete(POOL, deleted);
        model.converge();
        let class = model.get(CLASS, "windows-ltsc2022").unwrap();
        assert_eq!(class["metadata"]["labels"]["winpool.dev/pool"], if deleted == "web" { "batch" } else { "web" });
        // The first pool left takes the class over, with the tolerations that nodes need.
        let unlabelled = |objects: &[Value]| -> Vec<Value> {
            let strip = |mut object: Value| {
                object["metadata"]["labels"]["winpool.dev/pool"] = Value::Null;
                object["metadata"]["resourceVersion"] = Value::Null;
                let tolerations = object.pointer_mut("/scheduling/tolerations").and_then(Value::as_array_mut);
                tolerations.into_iter().for_each(|all| all.sort_by_key(ToString::to_string));
                object
            };
            objects.iter().cloned().map(strip).collect()
        };
        assert_eq!(unlabelled(&objects(&model)), unlabelled(&before), "{deleted} was deleted with Retain");
    }

    // A pool of another build does not change a retained class.
    model.delete(POOL, "web");
    model.delete(POOL, "batch");
    model.converge();
    model.put(POOL, "next", batch(json!({"windowsVersion": "ltsc2025"})));
    model.converge();
    let (_, reason, message) = condition(&model, "next", "RuntimeClassReady");
    assert_eq!(reason, "NameTaken");
    assert!(message.contains("was created for pool web, which was deleted with deletionPolicy Retain"), "{message}");
    let selector = |model: &Model| {
        let class = model.get(CLASS, "windows-ltsc2022").unwrap();
        class["scheduling"]["nodeSelector"]["node.kubernetes.io/windows-build"].as_str().unwrap().to_owned()
    };
    assert_eq!(selector(&model), "10.0.20348");
    model.edit(POOL, "next", |pool| pool["spec"]["runtimeClasses"][0]["adopt"] = json!(true));
    model.converge();
    assert_eq!(condition(&model, "next", "RuntimeClassReady").1, "WouldStrand", "its nodes are of the former build");
    assert_eq!(selector(&model), "10.0.20348");
    model.annotate("next", "winpool.dev/allow-strand", "ltsc2025");
    model.converge();
    assert_eq!(selector(&model), "10.0.26100");
}

#[test]
fn a_cleanup_removes_what_a_deleted_pool_left_if_its_records_are_verified() {
    let mut model = converged(&json!({"labels": {"team": "web"}}), &json!([]));
    model.delete(POOL, "web");
    let removals = |model: &Model| -> Vec<String> {
        let plans = clean_up(&model.snapshot(), &["web".to_owned()].into());
        plans.iter().flat_map(|plan| plan.steps.iter().flatten()).filter_map(|write| write.summary()).collect()
    };
    let [node, class] = &removals(&model)[..] else { panic!("{:?}", removals(&model)) };
    assert!(
        node.starts_with("Node win-1: ") && node.ends_with("remove label team, remove taint os:NoSchedule"),
        "{node}"
    );
    assert_eq!(class, "RuntimeClass windows-ltsc2022: delete");
    model.key = 8;
    assert_eq!(removals(&model), [""; 0], "the records are signed with another key");
}

#[test]
fn a_toleration_is_kept_while_a_node_that_the_class_selects_has_the_taint() {
    let mut model = converged(&json!({}), &json!([]));
    model.set_spec("web", "taints", json!([taint("team", "web", "NoSchedule")]));
    // An administrator sets a taint on a node of the same build that is in no pool.
    let manual = json!([taint("os", "windows", "NoSchedule")]);
    model.put(NODE, "manual", node(20348, "containerd://2.2.10", &json!({}), &manual));
    model.converge();
    let keys = |model: &Model| -> Vec<String> {
        let class = model.get(CLASS, "windows-ltsc2022").unwrap();
        let tolerations = class["scheduling"]["tolerations"].as_array().unwrap();
        tolerations.iter().map(|toleration| toleration["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(&model), ["team", "os"]);
    model.edit(NODE, "manual", |node| node["spec"]["taints"] = json!([]));
    model.converge();
    assert_eq!(keys(&model), ["team"]);
}

#[test]
fn a_pool_in_mode_observe_takes_no_node_and_no_class_from_a_pool_in_mode_enforce() {
    let mut model = Model::new();
    model.put(NODE, "win-1", web_node(json!([])));
    model.put(
        POOL,
        "watcher",
        web(json!({"mode": "Observe", "runtimeClasses": [{"name": "windows", "scope": "Pool"}]})),
    );
    model.put(POOL, "web", web(json!({"runtimeClasses": [{"name": "windows"}]})));
    model.converge();
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule"]);
    assert_eq!(win(&model)["metadata"]["labels"]["winpool.dev/pool"], "web");
    assert_eq!(condition(&model, "web", "RuntimeClassReady").1, "Applied");
    assert_eq!(condition(&model, "watcher", "RuntimeClassReady").1, "NameTaken");
    // A fallback pool keeps a node that a pool in mode Observe selects.
    model.put(NODE, "win-2", node(20348, "containerd://2.2.10", &json!({"agentpool": "new"}), &json!([])));
    model.put(POOL, "rest", pool(json!({"windowsVersion": "ltsc2022", "fallback": true})));
    model.converge();
    let mut spec = web(json!({"mode": "Observe"}));
    spec["spec"]["nodeSelector"] = json!({"matchLabels": {"agentpool": "new"}});
    model.put(POOL, "new", spec);
    model.converge();
    model.edit(NODE, "win-2", |node| node["spec"]["taints"] = json!([]));
    model.converge();
    assert_eq!(taints(model.get(NODE, "win-2").unwrap()), ["os=windows:NoSchedule"]);
}

#[test]
fn a_no_execute_taint_is_held_on_a_node_with_pods_that_do_not_tolerate_it() {
    let drain = taint("drain", "a", "NoExecute");
    let tolerates = |more: Value| json!([with(json!({"key": "drain", "operator": "Exists"}), &more)]);
    let mut mirror = pod("win-1", &json!([]));
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    let mut finished = pod("win-1", &json!([]));
    finished["status"] = json!({"phase": "Succeeded"});
    let table = [
        ("no pod", vec![], true),
        ("a pod on another node", vec![pod("win-2", &json!([]))], true),
        ("a pod that does not tolerate it", vec![pod("win-1", &json!([]))], false),
        ("a pod that tolerates it", vec![pod("win-1", &tolerates(json!({})))], true),
        (
            "a pod that tolerates it for a minute",
            vec![pod("win-1", &tolerates(json!({"tolerationSeconds": 60})))],
            false,
        ),
        ("a static pod", vec![mirror], true),
        ("a finished pod", vec![finished], true),
    ];
    for (case, pods, applied) in table {
        let mut model = Model::new();
        model.put(POOL, "web", web(json!({"taints": [drain]})));
        model.converge();
        // Node and pods are created after the pool has applied the taint to others.
        model.put(NODE, "win-1", web_node(json!([])));
        for (number, pod) in pods.into_iter().enumerate() {
            model.put(POD, &format!("default/{number}"), pod);
        }
        model.converge();
        assert_eq!(taints(win(&model)) == ["drain=a:NoExecute"], applied, "{case}");
        assert_eq!(
            condition(&model, "web", "NodesTainted").1,
            if applied { "Applied" } else { "WouldEvict" },
            "{case}"
        );
        model.annotate("web", "winpool.dev/allow-evict", "drain=a");
        model.converge();
        assert_eq!(taints(win(&model)), ["drain=a:NoExecute"], "{case}: allowed");
    }
}

#[test]
fn the_value_of_a_no_execute_taint_is_changed_only_if_evictions_are_allowed() {
    let drain = |value: &str| json!([taint("drain", value, "NoExecute")]);
    let mut model = converged(&json!({"taints": drain("a")}), &json!([]));
    let tolerations = json!([{"key": "drain", "operator": "Equal", "value": "a", "effect": "NoExecute"}]);
    model.put(POD, "default/web", pod("win-1", &tolerations));
    model.set_spec("web", "taints", drain("b"));
    model.converge();
    assert_eq!(taints(win(&model)), ["drain=a:NoExecute"]);
    assert_eq!(condition(&model, "web", "NodesTainted").1, "WouldEvict");
    model.annotate("web", "winpool.dev/allow-evict", "drain=b");
    model.converge();
    assert_eq!(taints(win(&model)), ["drain=b:NoExecute"]);
}

#[test]
fn every_new_no_execute_taint_is_held_if_pods_are_not_known() {
    let mut model = Model::new();
    model.put(NODE, "win-1", web_node(json!([])));
    model.put(POOL, "web", web(json!({"taints": [taint("drain", "", "NoExecute")]})));
    let mut snapshot = model.snapshot();
    snapshot.pods = None;
    let plan = plan(&snapshot, "web").unwrap();
    let summaries: Vec<_> = plan.steps.iter().flatten().filter_map(winpool_rules::operation::Write::summary).collect();
    assert!(summaries.iter().all(|summary| !summary.contains("drain")), "{summaries:?}");
}

#[test]
fn a_rejected_cleanup_keeps_taints_record_label_and_finalizer() {
    let mut model = converged(&json!({"deletionPolicy": "Cleanup"}), &json!([]));
    let before = win(&model).clone();
    model.refuses = Some(|write| write.node_edit().is_some());
    model.delete(POOL, "web");
    for _ in 0..3 {
        model.reconcile_until("web", usize::MAX, |_| {});
    }
    assert_eq!(*win(&model), before);
    assert_eq!(model.names(CLASS), ["windows-ltsc2022"]);
    let (status, _, message) = condition(&model, "web", "Ready");
    assert_eq!(status, "False");
    assert!(message.contains("rejected by the model"), "{message}");
    model.refuses = None;
    model.converge();
    assert_eq!(taints(win(&model)), Vec::<String>::new());
    assert_eq!(model.get(POOL, "web"), None);
}

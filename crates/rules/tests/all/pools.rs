//! The changes of nodes and RuntimeClasses by pools, on a model of the API server.

use jiff::SignedDuration;
use serde_json::{Value, json};
use winpool_api::RuntimeClassState;
use winpool_rules::{
    operation::Action,
    pool::{Snapshot, plan::plan},
};

use winpool_model::{
    CLASS, CONFIG, Model, NODE, POOL, PROFILE, condition, node, pool, profile, status, taint, taints, web, web_node,
};

mod limits;

/// A converged pool `web` with one node `win-1`.
fn converged(spec: Value, taints: Value) -> Model {
    let mut model = Model::new();
    model.put(NODE, "win-1", web_node(taints));
    model.put(POOL, "web", web(spec));
    model.converge();
    model
}

fn reason(model: &Model, pool: &str, type_: &str) -> String {
    condition(model, pool, type_).1
}

fn win(model: &Model) -> &Value {
    model.get(NODE, "win-1").unwrap()
}

fn label<'a>(node: &'a Value, key: &str) -> Option<&'a str> {
    node["metadata"]["labels"][key].as_str()
}

/// The record of a node, without its signature.
fn owned(node: &Value) -> Value {
    let text = node["metadata"]["annotations"]["winpool.dev/owned"].as_str().unwrap_or("null");
    let mut record: Value = serde_json::from_str(text).unwrap();
    record.as_object_mut().map(|record| record.remove("signature"));
    record
}

fn tolerations(model: &Model, class: &str) -> Vec<String> {
    let text = |toleration: &Value| {
        format!("{}={}", toleration["key"].as_str().unwrap(), toleration["value"].as_str().unwrap_or("*"))
    };
    model.get(CLASS, class).unwrap()["scheduling"]["tolerations"].as_array().into_iter().flatten().map(text).collect()
}

#[test]
fn a_stored_pool_with_a_refused_label_taints_a_new_node_and_writes_all_other_labels() {
    let labels = json!({"topology.kubernetes.io/zone": "a", "team": "web"});
    let mut model = converged(json!({"labels": labels}), json!([]));
    model.put(NODE, "win-2", web_node(json!([])));
    model.converge();
    let node = model.get(NODE, "win-2").unwrap();
    assert_eq!(taints(node), ["os=windows:NoSchedule"]);
    assert_eq!((label(node, "team"), label(node, "topology.kubernetes.io/zone")), (Some("web"), None));
    let (status, reason, message) = condition(&model, "web", "SpecValid");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Invalid"));
    assert!(message.contains("spec.labels[topology.kubernetes.io/zone]"), "{message}");
}

#[test]
fn a_pool_taints_and_labels_its_nodes_and_creates_a_class_that_selects_them() {
    let model = converged(json!({"labels": {"team": "web"}}), json!([]));
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule"]);
    assert_eq!(label(win(&model), "winpool.dev/pool"), Some("web"));
    assert_eq!(label(win(&model), "team"), Some("web"));
    assert_eq!(
        owned(win(&model)),
        json!({
            "pool": "web",
            "taints": {"os:NoSchedule": "added"},
            "labels": {"team": "added", "node.kubernetes.io/windows-build": "found"},
        })
    );
    let class = model.get(CLASS, "windows-ltsc2022").unwrap();
    assert_eq!(class["handler"], "runhcs-wcow-process");
    assert_eq!(
        class["scheduling"]["nodeSelector"],
        json!({"kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64", "node.kubernetes.io/windows-build": "10.0.20348"})
    );
    assert_eq!(tolerations(&model, "windows-ltsc2022"), ["os=windows"]);
    let status = status(&model, "web");
    assert_eq!((status.columns.nodes.as_str(), status.columns.tainted.as_str()), ("1/1", "1/1"));
    assert_eq!(status.applied.taints, ["os:NoSchedule"]);
    assert_eq!(reason(&model, "web", "Ready"), "AsSpecified");
}

#[test]
fn keys_are_recorded_in_the_status_before_they_are_set_on_nodes() {
    let mut model = Model::new();
    model.put(NODE, "win-1", web_node(json!([])));
    model.put(POOL, "web", web(json!({})));
    model.reconcile_until("web", usize::MAX, |model| {
        if !taints(win(model)).is_empty() {
            assert_eq!(status(model, "web").applied.taints, ["os:NoSchedule"]);
        }
    });
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule"]);
}

#[test]
fn an_equal_taint_that_was_present_is_found_and_is_never_removed() {
    let mut model = converged(json!({"deletionPolicy": "Cleanup"}), json!([taint("os", "windows", "NoSchedule")]));
    assert_eq!(owned(win(&model))["taints"], json!({"os:NoSchedule": "found"}));
    model.delete(POOL, "web");
    model.converge();
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule"]);
    assert_eq!(label(win(&model), "winpool.dev/pool"), None);
}

#[test]
fn a_taint_of_a_kubelet_that_registered_with_the_rendered_configuration_is_added() {
    let mut model = Model::new();
    model.put(PROFILE, "standard", profile(json!({})));
    model.put(POOL, "web", web(json!({"profileRef": {"name": "standard"}, "deletionPolicy": "Cleanup"})));
    let taints_of_pool = json!([taint("os", "windows", "NoSchedule")]);
    let mut registered = web_node(taints_of_pool.clone());
    // 2Gi are reserved for the system, 500Mi and 10 % by the eviction thresholds.
    registered["status"]["allocatable"] =
        json!({"cpu": "4", "memory": "14168064Ki", "ephemeral-storage": "96636764160", "pods": "110"});
    model.put(NODE, "win-1", registered);
    model.put(NODE, "win-2", web_node(taints_of_pool));
    model.converge();
    let origin = |model: &Model, name: &str| owned(model.get(NODE, name).unwrap())["taints"]["os:NoSchedule"].clone();
    assert_eq!([origin(&model, "win-1"), origin(&model, "win-2")], ["added", "found"]);
    // A kubelet can remove its record later, when an administrator may have set the taint.
    let mut older = model.clone();
    older.now += SignedDuration::from_mins(11);
    older.edit(NODE, "win-1", |node| {
        drop(node["metadata"]["annotations"].as_object_mut().unwrap().remove("winpool.dev/owned"));
    });
    older.converge();
    assert_eq!(origin(&older, "win-1"), "found");
    assert_eq!(status(&model, "web").configs[0].in_effect, 1);
    assert_eq!(reason(&model, "web", "ConfigInEffect"), "Differs", "win-2 reserves no resources");
    model.delete(POOL, "web");
    model.converge();
    assert_eq!(taints(win(&model)), Vec::<String>::new());
    assert_eq!(taints(model.get(NODE, "win-2").unwrap()), ["os=windows:NoSchedule"]);
}

#[test]
fn a_taint_that_the_admission_policy_set_for_the_pool_is_added_and_its_mark_is_removed() {
    let taints_of_pool = json!([taint("os", "windows", "NoSchedule")]);
    for (registered_with, minutes, origin, remaining) in [
        ("web os:NoSchedule", 9, "added", vec![]),
        ("web team:NoExecute os:NoSchedule", 9, "added", vec![]),
        // The kubelet has registered with the taint.
        ("web", 9, "found", vec!["os=windows:NoSchedule"]),
        ("web team:NoExecute", 9, "found", vec!["os=windows:NoSchedule"]),
        ("web-2 os:NoSchedule", 9, "found", vec!["os=windows:NoSchedule"]),
        ("batch os:NoSchedule", 9, "found", vec!["os=windows:NoSchedule"]),
        // A kubelet may have written the annotation.
        ("web os:NoSchedule", 11, "found", vec!["os=windows:NoSchedule"]),
    ] {
        let mut registered = web_node(taints_of_pool.clone());
        registered["metadata"]["annotations"] = json!({"winpool.dev/registered-with": registered_with});
        let mut model = Model::new();
        model.put(NODE, "win-1", registered);
        model.now += SignedDuration::from_mins(minutes);
        model.put(POOL, "web", web(json!({"deletionPolicy": "Cleanup"})));
        model.converge();
        assert_eq!(owned(win(&model))["taints"], json!({"os:NoSchedule": origin}), "{registered_with} {minutes}");
        assert_eq!(win(&model)["metadata"]["annotations"].get("winpool.dev/registered-with"), None);
        model.delete(POOL, "web");
        model.converge();
        assert_eq!(taints(win(&model)), remaining, "{registered_with} {minutes}");
    }
}

#[test]
fn a_taint_with_another_value_is_a_conflict_and_the_rest_is_applied() {
    let model = converged(json!({"labels": {"team": "web"}}), json!([taint("os", "Windows", "NoSchedule")]));
    assert_eq!(taints(win(&model)), ["os=Windows:NoSchedule"]);
    assert_eq!(label(win(&model), "team"), Some("web"));
    let (status, reason, message) = condition(&model, "web", "NodesTainted");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "TaintConflict"));
    assert!(message.contains("win-1 (os=Windows:NoSchedule instead of os=windows:NoSchedule)"), "{message}");
    assert!(message.ends_with("kubectl get nodes -l winpool.dev/pool=web"), "{message}");
}

#[test]
fn a_label_with_another_value_is_a_conflict() {
    let mut model = Model::new();
    model.put(
        NODE,
        "win-1",
        node(20348, "containerd://2.2.10", &json!({"agentpool": "web", "team": "theirs"}), &json!([])),
    );
    model.put(POOL, "web", web(json!({"labels": {"team": "web"}})));
    model.converge();
    assert_eq!(label(win(&model), "team"), Some("theirs"));
    assert_eq!(reason(&model, "web", "NodesTainted"), "LabelConflict");
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule"]);
}

#[test]
fn an_added_taint_gets_the_new_value() {
    let mut model = converged(json!({}), json!([]));
    model.set_spec("web", "taints", json!([taint("os", "Windows", "NoSchedule")]));
    model.converge();
    assert_eq!(taints(win(&model)), ["os=Windows:NoSchedule"]);
    assert_eq!(tolerations(&model, "windows-ltsc2022"), ["os=Windows"]);
}

#[test]
fn tolerations_are_added_before_the_taints_and_removed_after_them() {
    let mut model = converged(json!({}), json!([]));
    model.set_spec("web", "taints", json!([taint("team", "web", "NoSchedule")]));
    let mut seen = Vec::new();
    model.converge_watched(|model| seen.push((taints(win(model)), tolerations(model, "windows-ltsc2022"))));
    for (taints, tolerated) in &seen {
        for taint in taints {
            assert!(
                tolerated.iter().any(|toleration| taint.starts_with(toleration)),
                "{taint} is not tolerated: {seen:?}"
            );
        }
    }
    assert_eq!(seen.last().unwrap(), &(vec!["team=web:NoSchedule".to_owned()], vec!["team=web".to_owned()]));
}

#[test]
fn a_selector_is_narrowed_after_the_nodes_have_its_labels() {
    let mut model = Model::new();
    model.put(POOL, "web", web(json!({})));
    model.converge();
    model.put(NODE, "win-1", web_node(json!([])));
    model.set_spec("web", "runtimeClasses", json!([{"name": "windows-ltsc2022", "scope": "Pool"}]));
    model.converge_watched(|model| {
        let selector = &model.get(CLASS, "windows-ltsc2022").unwrap()["scheduling"]["nodeSelector"];
        let narrowed = selector.get("winpool.dev/pool").is_some();
        assert!(!narrowed || label(win(model), "winpool.dev/pool").is_some());
    });
    assert_eq!(model.get(CLASS, "windows-ltsc2022").unwrap()["scheduling"]["nodeSelector"]["winpool.dev/pool"], "web");
}

#[test]
fn changes_by_other_clients_are_reverted() {
    let mut model = converged(json!({}), json!([]));
    model.edit(NODE, "win-1", |node| node["spec"]["taints"] = json!([]));
    model.edit(CLASS, "windows-ltsc2022", |class| class["scheduling"]["tolerations"] = json!([]));
    model.converge();
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule"]);
    assert_eq!(tolerations(&model, "windows-ltsc2022"), ["os=windows"]);
}

#[test]
fn keys_that_other_clients_add_to_the_maps_of_a_class_are_removed() {
    let mut model = converged(json!({}), json!([]));
    let before = model.get(CLASS, "windows-ltsc2022").unwrap().clone();
    model.edit(CLASS, "windows-ltsc2022", |class| {
        class["scheduling"]["nodeSelector"]["disk"] = json!("fast");
        class["overhead"] = json!({"podFixed": {"memory": "1Gi"}});
    });
    model.converge();
    let class = model.get(CLASS, "windows-ltsc2022").unwrap();
    assert_eq!(class["scheduling"], before["scheduling"]);
    assert_eq!(class["overhead"]["podFixed"], json!({}));
}

#[test]
fn nodes_that_no_longer_match_are_held_until_their_release_is_allowed() {
    let mut model = converged(json!({}), json!([]));
    model.edit(POOL, "web", |pool| pool["spec"]["nodeSelector"]["matchLabels"]["agentpool"] = json!("wbe"));
    model.converge();
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule"]);
    let (status, reason, message) = condition(&model, "web", "NodesAssigned");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ReleaseHeld"));
    assert!(
        message.contains("kubectl annotate wnp web winpool.dev/allow-release=agentpool=wbe --overwrite"),
        "{message}"
    );

    model.edit(NODE, "win-1", |node| node["spec"]["taints"] = json!([]));
    model.converge();
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule"], "a held node is reconciled like any other");

    model.annotate("web", "winpool.dev/allow-release", "agentpool=web");
    model.converge();
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule"], "the annotation names another selector");
    model.annotate("web", "winpool.dev/allow-release", "agentpool=wbe");
    model.converge();
    assert_eq!(taints(win(&model)), Vec::<String>::new());
    assert_eq!(label(win(&model), "winpool.dev/pool"), None);
}

#[test]
fn a_class_is_changed_to_a_new_build_when_it_has_a_ready_node() {
    let mut model = converged(json!({"runtimeClasses": [{"name": "windows"}]}), json!([]));
    model.set_spec("web", "windowsVersion", json!("ltsc2025"));
    model.converge();
    let build = |model: &Model| {
        model.get(CLASS, "windows").unwrap()["scheduling"]["nodeSelector"]["node.kubernetes.io/windows-build"].clone()
    };
    assert_eq!(build(&model), "10.0.20348");
    assert_eq!(reason(&model, "web", "RuntimeClassReady"), "WouldStrand");

    let mut allowed = model.clone();
    allowed.annotate("web", "winpool.dev/allow-strand", "ltsc2025");
    allowed.converge();
    assert_eq!(build(&allowed), "10.0.26100");

    model.put(NODE, "win-2", node(26100, "containerd://2.2.10", &json!({"agentpool": "web"}), &json!([])));
    model.converge();
    assert_eq!(build(&model), "10.0.26100");
    assert_eq!(reason(&model, "web", "RuntimeClassReady"), "Applied");
    assert_eq!(reason(&model, "web", "OSMismatch"), "NodeBuildDiffers");
}

/// A pool `old` with three nodes and this RuntimeClass, deleted with Retain, and pool `web` created for the same nodes.
fn after_a_deleted_pool(class: &Value) -> Model {
    let mut model = Model::new();
    for name in ["win-1", "win-2", "win-3"] {
        model.put(NODE, name, web_node(json!([])));
    }
    model.put(POOL, "old", web(json!({"runtimeClasses": [class]})));
    model.converge();
    model.delete(POOL, "old");
    model.put(POOL, "web", web(json!({})));
    model.converge();
    model
}

#[test]
fn a_change_of_the_version_is_held_by_the_class_that_a_deleted_pool_left() {
    let more = json!([{"key": "gpu", "operator": "Exists"}]);
    for (case, class, expected) in [
        ("an equal class is taken over", json!({"name": "windows-ltsc2022"}), "web"),
        ("another class stays as it is", json!({"name": "windows-ltsc2022", "tolerations": more}), "old"),
    ] {
        let mut model = after_a_deleted_pool(&class);
        let labels = &model.get(CLASS, "windows-ltsc2022").unwrap()["metadata"]["labels"];
        assert_eq!(labels["winpool.dev/pool"], expected, "{case}");
        assert_eq!(reason(&model, "web", "Ready"), "AsSpecified", "{case}");

        model.set_spec("web", "windowsVersion", json!("ltsc2025"));
        model.converge();
        assert_eq!(model.names(CLASS), ["windows-ltsc2022"], "{case}");
        let (state, held, message) = condition(&model, "web", "RuntimeClassReady");
        assert_eq!((state.as_str(), held.as_str()), ("False", "WouldStrand"), "{case}: {message}");
        assert_eq!(condition(&model, "web", "Ready").0, "False", "{case}");

        model.annotate("web", "winpool.dev/allow-strand", "ltsc2025");
        model.converge();
        assert_eq!(model.names(CLASS), ["windows-ltsc2022", "windows-ltsc2025"], "{case}");
        assert_eq!(condition(&model, "web", "Ready").0, "True", "{case}");
    }
}

#[test]
fn a_class_that_another_deleted_pool_left_holds_no_pool_with_classes_of_its_own() {
    let mut model = converged(json!({"runtimeClasses": [{"name": "web"}]}), json!([]));
    let other = json!({"runtimeClasses": [{"name": "old"}], "nodeSelector": {"matchLabels": {"agentpool": "old"}}});
    model.put(POOL, "old", web(other));
    model.converge();
    model.delete(POOL, "old");
    let build = |model: &Model, class: &str| {
        model.get(CLASS, class).unwrap()["scheduling"]["nodeSelector"]["node.kubernetes.io/windows-build"].clone()
    };
    model.set_spec("web", "windowsVersion", json!("ltsc2025"));
    model.annotate("web", "winpool.dev/allow-strand", "ltsc2025");
    model.converge();
    assert_eq!([build(&model, "web"), build(&model, "old")], ["10.0.26100", "10.0.20348"]);

    model.set_spec("web", "windowsVersion", json!("ltsc2019"));
    model.converge();
    assert_eq!(
        [build(&model, "web"), build(&model, "old")],
        ["10.0.17763", "10.0.20348"],
        "no pod of web is left behind"
    );
}

#[test]
fn a_pool_whose_class_selects_none_of_its_nodes_is_not_ready() {
    let mut model = converged(json!({"windowsVersion": "ltsc2025"}), json!([]));
    assert_eq!(model.names(CLASS), ["windows-ltsc2025"], "the class is created: no pod depends on it yet");
    let expected = "RuntimeClass windows-ltsc2025 selects build 10.0.26100, and the 1 node of the pool runs 10.0.20348: pods \
                    with this class stay Pending. Correct spec.windowsVersion, add nodes with build 10.0.26100, or allow it \
                    with: kubectl annotate wnp web winpool.dev/allow-strand=ltsc2025 --overwrite";
    let found = condition(&model, "web", "RuntimeClassReady");
    assert_eq!(found, ("False".to_owned(), "WouldStrand".to_owned(), expected.to_owned()));
    assert_eq!(condition(&model, "web", "Ready").0, "False");

    let mut allowed = model.clone();
    allowed.annotate("web", "winpool.dev/allow-strand", "ltsc2025");
    allowed.converge();
    assert_eq!(reason(&allowed, "web", "RuntimeClassReady"), "Applied");

    let mut without = model.clone();
    without.delete(NODE, "win-1");
    without.converge();
    assert_eq!(condition(&without, "web", "NodesAssigned").1, "ScaledToZero");
    assert_eq!(condition(&without, "web", "Ready").0, "True");

    model.put(NODE, "win-2", node(26100, "containerd://2.1.4", &json!({"agentpool": "web"}), &json!([])));
    model.converge();
    assert_eq!(reason(&model, "web", "RuntimeClassReady"), "Applied");
}

#[test]
fn an_unused_class_of_the_new_build_does_not_allow_stranding() {
    let mut model = converged(json!({"windowsVersion": "ltsc2025"}), json!([]));
    assert_eq!(model.names(CLASS), ["windows-ltsc2025"]);
    model.set_spec("web", "windowsVersion", json!("ltsc2022"));
    model.set_spec("web", "runtimeClasses", json!([{"name": "windows"}]));
    model.converge();
    model.set_spec("web", "windowsVersion", json!("ltsc2025"));
    model.converge();
    let (_, reason, message) = condition(&model, "web", "RuntimeClassReady");
    assert_eq!(reason, "WouldStrand", "{message}");
    let remedy = "kubectl annotate wnp web winpool.dev/allow-strand=ltsc2025 --overwrite";
    assert!(message.contains(remedy), "{message}");
}

#[test]
fn a_default_class_of_another_name_is_created_when_the_new_build_has_a_ready_node() {
    let mut model = converged(json!({}), json!([]));
    model.set_spec("web", "windowsVersion", json!("ltsc2025"));
    model.converge();
    assert_eq!(reason(&model, "web", "RuntimeClassReady"), "WouldStrand");
    assert_eq!(model.names(CLASS), ["windows-ltsc2022"]);
    model.put(NODE, "win-2", node(26100, "containerd://2.2.10", &json!({"agentpool": "web"}), &json!([])));
    model.converge();
    assert_eq!(model.names(CLASS), ["windows-ltsc2022", "windows-ltsc2025"]);
    let states = status(&model, "web").runtime_classes;
    assert!(states.iter().any(|class| class.name == "windows-ltsc2022" && class.state == RuntimeClassState::Unused));
}

#[test]
fn a_node_moves_between_pools_in_one_write() {
    let mut model = converged(json!({"labels": {"team": "web"}}), json!([]));
    model.put(
        POOL,
        "batch",
        pool(json!({
            "windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": "batch"}},
            "taints": [{"key": "batch", "value": "yes", "effect": "NoSchedule"}],
        })),
    );
    model.converge();
    model.edit(NODE, "win-1", |node| node["metadata"]["labels"]["agentpool"] = json!("batch"));
    let mut states = Vec::new();
    model.converge_watched(|model| {
        states.push((
            label(win(model), "winpool.dev/pool").map(str::to_owned),
            taints(win(model)),
            label(win(model), "team").is_some(),
        ))
    });
    states.dedup();
    let before = (Some("web".to_owned()), vec!["os=windows:NoSchedule".to_owned()], true);
    let after = (Some("batch".to_owned()), vec!["batch=yes:NoSchedule".to_owned()], false);
    assert!(states.iter().all(|state| *state == before || *state == after), "{states:?}");
    assert_eq!(states.last(), Some(&after));
    assert_eq!(status(&model, "web").nodes.matched, 0);
}

#[test]
fn the_pool_that_has_a_node_keeps_it_and_both_pools_report_the_conflict() {
    let mut model = converged(json!({}), json!([]));
    model.put(POOL, "another", web(json!({})));
    model.converge();
    assert_eq!(label(win(&model), "winpool.dev/pool"), Some("web"));
    for pool in ["web", "another"] {
        assert_eq!(reason(&model, pool, "NodesAssigned"), "NodeConflict", "{pool}");
        assert_eq!(status(&model, pool).nodes.contested, 1, "{pool}");
    }
}

#[test]
fn a_new_node_is_assigned_to_the_older_of_two_pools_that_select_it() {
    let mut model = Model::new();
    model.put(POOL, "zeta", web(json!({})));
    model.put(POOL, "alpha", web(json!({})));
    model.put(NODE, "win-1", web_node(json!([])));
    model.converge();
    assert_eq!(label(win(&model), "winpool.dev/pool"), Some("zeta"));
}

#[test]
fn the_fallback_pool_takes_a_node_until_another_pool_selects_it() {
    let mut model = Model::new();
    model.put(POOL, "rest", pool(json!({"windowsVersion": "ltsc2022", "fallback": true})));
    model.put(POOL, "rest-too", pool(json!({"windowsVersion": "ltsc2022", "fallback": true})));
    model.put(NODE, "win-1", web_node(json!([])));
    model.converge();
    assert_eq!(label(win(&model), "winpool.dev/pool"), Some("rest"));
    assert_eq!(reason(&model, "rest-too", "NodesAssigned"), "NodeConflict");
    model.put(POOL, "web", web(json!({})));
    model.converge();
    assert_eq!(label(win(&model), "winpool.dev/pool"), Some("web"));
}

#[test]
fn a_pool_that_observes_writes_nothing_and_reports_what_would_change() {
    let model = converged(json!({"mode": "Observe"}), json!([]));
    assert_eq!(taints(win(&model)), Vec::<String>::new());
    assert_eq!(model.names(CLASS), Vec::<String>::new());
    let status = status(&model, "web");
    assert_eq!(status.pending.count, 2);
    assert_eq!(status.pending.first[0], "RuntimeClass windows-ltsc2022: create");
    let of_node = &status.pending.first[1];
    assert!(of_node.starts_with("Node win-1: label winpool.dev/pool=web"), "{of_node}");
    let ready = condition(&model, "web", "Ready");
    assert_eq!((ready.0.as_str(), ready.1.as_str()), ("True", "Observing"));
    assert!(ready.2.contains("1 node differs from the spec"), "{}", ready.2);
}

#[test]
fn a_stored_pool_that_is_paused_writes_nothing_not_even_when_it_is_deleted() {
    let mut model = converged(json!({"deletionPolicy": "Cleanup"}), json!([]));
    let before = win(&model).clone();
    model.set_spec("web", "paused", json!(true));
    model.set_spec("web", "labels", json!({"team": "web"}));
    model.converge();
    let expected = "spec.paused: it was replaced by spec.mode, so nothing is written for this pool: write mode: Observe, and \
                    remove paused";
    let invalid = ("False".to_owned(), "Invalid".to_owned(), expected.to_owned());
    assert_eq!(condition(&model, "web", "SpecValid"), invalid);
    model.delete(POOL, "web");
    model.converge();
    assert_eq!((condition(&model, "web", "SpecValid"), win(&model)), (invalid, &before));
    model.set_spec("web", "paused", json!(false));
    model.converge();
    assert_eq!((model.names(POOL), taints(win(&model))), (vec![], vec![]));
}

#[test]
fn a_deleted_pool_with_retain_leaves_nodes_unchanged_and_a_new_pool_adopts_them_without_a_write() {
    let mut model = converged(json!({}), json!([]));
    model.delete(POOL, "web");
    assert_eq!(model.names(POOL), Vec::<String>::new());
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule"]);
    let before = win(&model).clone();
    model.put(POOL, "web", web(json!({})));
    model.converge();
    assert_eq!(*win(&model), before);
    assert_eq!(status(&model, "web").applied.taints, ["os:NoSchedule"]);
}

#[test]
fn a_pool_that_observes_can_be_deleted_with_retain() {
    let mut model = converged(json!({"deletionPolicy": "Cleanup"}), json!([]));
    model.set_spec("web", "mode", json!("Observe"));
    model.set_spec("web", "deletionPolicy", json!("Retain"));
    model.converge();
    model.delete(POOL, "web");
    model.converge();
    assert_eq!(model.names(POOL), Vec::<String>::new());
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule"]);
}

#[test]
fn a_cleanup_releases_a_node_that_has_lost_the_label_of_windows_and_keeps_the_finalizer_until_it_is_listed() {
    let mut model = converged(json!({"deletionPolicy": "Cleanup", "labels": {"team": "web"}}), json!([]));
    model.edit(NODE, "win-1", |node| {
        drop(node["metadata"]["labels"].as_object_mut().unwrap().remove("kubernetes.io/os"))
    });
    model.converge();
    model.delete(POOL, "web");
    let not_listed = plan(&Snapshot { unwatched: None, ..model.snapshot() }, "web").unwrap();
    assert!(not_listed.awaits_unwatched());
    let writes = not_listed.steps.iter().flatten().map(|write| write.action.name());
    assert!(writes.clone().all(|action| action != Action::RemoveFinalizer.name()), "{:?}", writes.collect::<Vec<_>>());
    let none = plan(&Snapshot { unwatched: Some(Vec::new()), ..model.snapshot() }, "web").unwrap();
    assert!(none.steps.iter().flatten().any(|write| write.action == Action::RemoveFinalizer));
    model.converge();
    assert_eq!(model.names(POOL), Vec::<String>::new());
    assert_eq!((taints(win(&model)), label(win(&model), "team")), (Vec::new(), None));
    assert_eq!(win(&model)["metadata"]["annotations"].as_object().unwrap().get("winpool.dev/owned"), None);
}

#[test]
fn an_existing_class_is_not_changed_until_it_is_adopted() {
    let mut model = Model::new();
    let theirs = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {}, "handler": "runhcs-wcow-process",
        "scheduling": {"tolerations": [{"key": "sku", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}]},
    });
    model.put(CLASS, "windows-ltsc2022", theirs.clone());
    model.put(POOL, "web", web(json!({"deletionPolicy": "Cleanup"})));
    model.converge();
    assert_eq!(model.get(CLASS, "windows-ltsc2022").unwrap()["scheduling"], theirs["scheduling"]);
    let (status, reason, message) = condition(&model, "web", "RuntimeClassReady");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "NotOurs"));
    assert!(message.contains("no toleration for os=windows:NoSchedule"), "{message}");

    model.set_spec("web", "runtimeClasses", json!([{"name": "windows-ltsc2022", "adopt": true}]));
    model.converge();
    assert_eq!(tolerations(&model, "windows-ltsc2022"), ["os=windows", "sku=windows"]);

    model.delete(POOL, "web");
    model.converge();
    assert_eq!(model.get(CLASS, "windows-ltsc2022").unwrap()["scheduling"], theirs["scheduling"]);
}

#[test]
fn another_handler_is_reported_and_a_class_that_is_deleted_is_created_with_it() {
    let mut model = converged(json!({}), json!([]));
    model.set_spec("web", "runtimeClasses", json!([{"name": "windows-ltsc2022", "isolation": "HyperV"}]));
    model.converge();
    let (_, reason, message) = condition(&model, "web", "RuntimeClassReady");
    assert_eq!(reason, "HandlerDiffers");
    assert!(message.contains("Use another name in spec.runtimeClasses, or delete the class"), "{message}");
    model.delete(CLASS, "windows-ltsc2022");
    model.converge();
    let class = model.get(CLASS, "windows-ltsc2022").unwrap();
    assert_eq!(class["handler"], "runhcs-wcow-hypervisor");
    assert_eq!(class["overhead"]["podFixed"], json!({"cpu": "100m", "memory": "512Mi"}));
}

#[test]
fn pools_with_the_same_build_and_handler_share_a_class_with_the_tolerations_of_all() {
    let mut model = converged(json!({}), json!([]));
    let other = |version: &str| {
        pool(json!({
            "windowsVersion": version, "nodeSelector": {"matchLabels": {"agentpool": "batch"}},
            "taints": [{"key": "batch", "value": "yes", "effect": "NoSchedule"}],
            "runtimeClasses": [{"name": "windows-ltsc2022"}],
        }))
    };
    model.put(POOL, "batch", other("ltsc2022"));
    model.converge();
    assert_eq!(tolerations(&model, "windows-ltsc2022"), ["os=windows", "batch=yes"]);
    model.put(POOL, "batch", other("ltsc2025"));
    model.converge();
    assert_eq!(reason(&model, "batch", "RuntimeClassReady"), "NameTaken");
    assert_eq!(reason(&model, "web", "RuntimeClassReady"), "Applied");
    assert_eq!(tolerations(&model, "windows-ltsc2022"), ["os=windows"]);
}

#[test]
fn a_missing_taint_is_added_despite_an_annotation_of_cluster_api() {
    let mut model = Model::new();
    let mut machine = web_node(json!([]));
    machine["metadata"]["annotations"]["cluster.x-k8s.io/taints-from-machine"] = json!("os:NoSchedule");
    model.put(NODE, "win-1", machine);
    model.put(POOL, "web", web(json!({})));
    model.converge();
    assert_eq!(taints(win(&model)), ["os=windows:NoSchedule"]);
}

#[test]
fn a_node_without_the_label_of_its_build_gets_it_whoever_removed_it() {
    const BUILD: &str = "node.kubernetes.io/windows-build";
    let mut model = Model::new();
    let labels = json!({"agentpool": "web", BUILD: null});
    model.put(NODE, "win-1", node(20348, "containerd://2.2.10", &labels, &json!([])));
    model.put(POOL, "web", web(json!({})));
    model.converge();
    assert_eq!(label(win(&model), BUILD), Some("10.0.20348"));
    let mut model = converged(json!({}), json!([]));
    for _ in 0..2 {
        model.edit(NODE, "win-1", |node| drop(node["metadata"]["labels"].as_object_mut().unwrap().remove(BUILD)));
        model.converge();
        assert_eq!(label(win(&model), BUILD), Some("10.0.20348"), "removed by another client");
    }
}

#[test]
fn a_node_without_status_is_tainted_and_does_not_affect_ready() {
    let mut model = converged(json!({"profileRef": {"name": "standard"}}), json!([]));
    model.put(PROFILE, "standard", profile(json!({})));
    let mut odd = web_node(json!([]));
    odd["status"] = json!({});
    model.put(NODE, "win-2", odd);
    model.converge();
    assert_eq!(status(&model, "web").nodes.tainted, 2);
    assert_eq!(condition(&model, "web", "Ready").0, "True");
    assert_eq!(reason(&model, "web", "RuntimeSupported"), "UnknownVersion");
}

#[test]
fn a_pool_without_its_profile_keeps_its_configurations_and_taints_new_nodes() {
    let mut model = Model::new();
    model.put(PROFILE, "standard", profile(json!({})));
    model.put(NODE, "win-1", web_node(json!([])));
    model.put(POOL, "web", web(json!({"profileRef": {"name": "standard"}})));
    model.converge();
    let configs = model.names(CONFIG);
    assert_eq!(configs.len(), 1);
    assert_eq!(win(&model)["metadata"]["annotations"]["winpool.dev/config"], json!(configs[0]));
    model.delete(PROFILE, "standard");
    model.put(NODE, "win-2", web_node(json!([])));
    model.converge();
    assert_eq!(model.names(CONFIG), configs);
    assert_eq!(taints(model.get(NODE, "win-2").unwrap()), ["os=windows:NoSchedule"]);
    assert_eq!(reason(&model, "web", "ProfileResolved"), "NotFound");
    assert_eq!(status(&model, "web").configs.len(), 1);
}

//! What a pool does to nodes and RuntimeClasses, rule by rule, on a model of the API server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod model;

use model::{CLASS, CONFIG, NODE, POOL, PROFILE, World, node, pool, profile, taints};
use serde_json::{Value, json};
use winpool::{
    api::{RuntimeClassState, WindowsNodePoolStatus},
    domain::pool::plan::plan,
};

fn web(more: Value) -> Value {
    let mut spec = json!({"windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": "web"}}});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    pool(spec)
}

fn web_node(taints: Value) -> Value {
    node(20348, "containerd://2.1.4", &json!({"agentpool": "web"}), &taints)
}

/// A pool `web` with one node `win-1`, settled.
fn settled(spec: Value, taints: Value) -> World {
    let mut world = World::new();
    world.put(NODE, "win-1", web_node(taints));
    world.put(POOL, "web", web(spec));
    world.settle();
    world
}

fn status(world: &World, pool: &str) -> WindowsNodePoolStatus {
    serde_json::from_value(world.get(POOL, pool).unwrap()["status"].clone()).unwrap()
}

fn condition(world: &World, pool: &str, type_: &str) -> (String, String, String) {
    let found = status(world, pool).conditions.into_iter().find(|condition| condition.type_ == type_).unwrap();
    (found.status, found.reason, found.message)
}

fn reason(world: &World, pool: &str, type_: &str) -> String {
    condition(world, pool, type_).1
}

fn win(world: &World) -> &Value {
    world.get(NODE, "win-1").unwrap()
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

/// The words of everything that would be written now.
fn words(world: &World, pool: &str) -> Vec<String> {
    plan(&world.snapshot(), pool).unwrap().steps.iter().flatten().filter_map(|operation| operation.words()).collect()
}

fn writes(world: &World, pool: &str) -> usize {
    plan(&world.snapshot(), pool).unwrap().steps.iter().flatten().count()
}

fn tolerations(world: &World, class: &str) -> Vec<String> {
    let text = |toleration: &Value| {
        format!("{}={}", toleration["key"].as_str().unwrap(), toleration["value"].as_str().unwrap_or("*"))
    };
    world.get(CLASS, class).unwrap()["scheduling"]["tolerations"].as_array().into_iter().flatten().map(text).collect()
}

#[test]
fn a_pool_guards_its_nodes_and_leads_pods_to_them() {
    let world = settled(json!({"labels": {"team": "web"}}), json!([]));
    assert_eq!(taints(win(&world)), ["os=windows:NoSchedule"]);
    assert_eq!(label(win(&world), "winpool.dev/pool"), Some("web"));
    assert_eq!(label(win(&world), "team"), Some("web"));
    assert_eq!(
        owned(win(&world)),
        json!({
            "pool": "web",
            "taints": {"os:NoSchedule": "added"},
            "labels": {"team": "added", "node.kubernetes.io/windows-build": "found"},
        })
    );
    let class = world.get(CLASS, "windows-ltsc2022").unwrap();
    assert_eq!(class["handler"], "runhcs-wcow-process");
    assert_eq!(
        class["scheduling"]["nodeSelector"],
        json!({"kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64", "node.kubernetes.io/windows-build": "10.0.20348"})
    );
    assert_eq!(tolerations(&world, "windows-ltsc2022"), ["os=windows"]);
    let status = status(&world, "web");
    assert_eq!((status.columns.nodes.as_str(), status.columns.guarded.as_str()), ("1/1", "1/1"));
    assert_eq!(status.applied.taints, ["os:NoSchedule"]);
    assert_eq!(reason(&world, "web", "Ready"), "AsSpecified");
}

#[test]
fn status_knows_what_is_set_before_it_is_set() {
    let mut world = World::new();
    world.put(NODE, "win-1", web_node(json!([])));
    world.put(POOL, "web", web(json!({})));
    world.pass_until("web", usize::MAX, |world| {
        if !taints(win(world)).is_empty() {
            assert_eq!(status(world, "web").applied.taints, ["os:NoSchedule"]);
        }
    });
    assert_eq!(taints(win(&world)), ["os=windows:NoSchedule"]);
}

#[test]
fn an_equal_taint_that_was_there_is_found_and_stays_for_ever() {
    let mut world = settled(
        json!({"deletionPolicy": "Cleanup"}),
        json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]),
    );
    assert_eq!(owned(win(&world))["taints"], json!({"os:NoSchedule": "found"}));
    world.delete(POOL, "web");
    world.settle();
    assert_eq!(taints(win(&world)), ["os=windows:NoSchedule"]);
    assert_eq!(label(win(&world), "winpool.dev/pool"), None);
}

#[test]
fn a_taint_that_our_rendered_registration_brought_counts_as_added() {
    let mut world = World::new();
    world.put(PROFILE, "standard", profile(json!({})));
    world.put(POOL, "web", web(json!({"profileRef": {"name": "standard"}, "deletionPolicy": "Cleanup"})));
    let taint = json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]);
    let mut registered = web_node(taint.clone());
    // 2Gi reserved for the system, 500Mi and 10 % kept free by the eviction thresholds.
    registered["status"]["allocatable"] =
        json!({"cpu": "4", "memory": "14168064Ki", "ephemeral-storage": "96636764160", "pods": "110"});
    world.put(NODE, "win-1", registered);
    world.put(NODE, "win-2", web_node(taint));
    world.settle();
    assert_eq!(owned(win(&world))["taints"], json!({"os:NoSchedule": "added"}));
    assert_eq!(owned(world.get(NODE, "win-2").unwrap())["taints"], json!({"os:NoSchedule": "found"}));
    assert_eq!(status(&world, "web").configs[0].in_effect, 1);
    assert_eq!(reason(&world, "web", "ConfigInEffect"), "Differs", "win-2 reserves nothing at all");
    world.delete(POOL, "web");
    world.settle();
    assert_eq!(taints(win(&world)), Vec::<String>::new());
    assert_eq!(taints(world.get(NODE, "win-2").unwrap()), ["os=windows:NoSchedule"]);
}

#[test]
fn a_taint_of_another_value_is_a_conflict_and_the_rest_is_still_done() {
    let world =
        settled(json!({"labels": {"team": "web"}}), json!([{"key": "os", "value": "Windows", "effect": "NoSchedule"}]));
    assert_eq!(taints(win(&world)), ["os=Windows:NoSchedule"]);
    assert_eq!(label(win(&world), "team"), Some("web"));
    let (status, reason, message) = condition(&world, "web", "NodesConfigured");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "TaintConflict"));
    assert!(message.contains("win-1 (os=Windows:NoSchedule instead of os=windows:NoSchedule)"), "{message}");
    assert!(message.ends_with("kubectl get nodes -l winpool.dev/pool=web"), "{message}");
}

#[test]
fn a_label_of_another_value_is_a_conflict() {
    let mut world = World::new();
    world.put(
        NODE,
        "win-1",
        node(20348, "containerd://2.1.4", &json!({"agentpool": "web", "team": "theirs"}), &json!([])),
    );
    world.put(POOL, "web", web(json!({"labels": {"team": "web"}})));
    world.settle();
    assert_eq!(label(win(&world), "team"), Some("theirs"));
    assert_eq!(reason(&world, "web", "NodesConfigured"), "LabelConflict");
    assert_eq!(taints(win(&world)), ["os=windows:NoSchedule"]);
}

#[test]
fn our_own_taint_follows_a_new_value() {
    let mut world = settled(json!({}), json!([]));
    world.edit(POOL, "web", |pool| {
        pool["spec"]["taints"] = json!([{"key": "os", "value": "Windows", "effect": "NoSchedule"}])
    });
    world.settle();
    assert_eq!(taints(win(&world)), ["os=Windows:NoSchedule"]);
    assert_eq!(tolerations(&world, "windows-ltsc2022"), ["os=Windows"]);
}

#[test]
fn tolerations_come_before_the_taints_and_go_after_them() {
    let mut world = settled(json!({}), json!([]));
    world.edit(POOL, "web", |pool| {
        pool["spec"]["taints"] = json!([{"key": "team", "value": "web", "effect": "NoSchedule"}])
    });
    let mut seen = Vec::new();
    world.settle_watched(|world| seen.push((taints(win(world)), tolerations(world, "windows-ltsc2022"))));
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
fn a_selector_is_narrowed_when_the_nodes_carry_its_labels() {
    let mut world = World::new();
    world.put(POOL, "web", web(json!({})));
    world.settle();
    world.put(NODE, "win-1", web_node(json!([])));
    world.edit(POOL, "web", |pool| {
        pool["spec"]["runtimeClasses"] = json!([{"name": "windows-ltsc2022", "scope": "Pool"}])
    });
    world.settle_watched(|world| {
        let selector = &world.get(CLASS, "windows-ltsc2022").unwrap()["scheduling"]["nodeSelector"];
        let narrowed = selector.get("winpool.dev/pool").is_some();
        assert!(!narrowed || label(win(world), "winpool.dev/pool").is_some());
    });
    assert_eq!(world.get(CLASS, "windows-ltsc2022").unwrap()["scheduling"]["nodeSelector"]["winpool.dev/pool"], "web");
}

#[test]
fn what_is_changed_by_hand_is_changed_back() {
    let mut world = settled(json!({}), json!([]));
    world.edit(NODE, "win-1", |node| node["spec"]["taints"] = json!([]));
    world.edit(CLASS, "windows-ltsc2022", |class| class["scheduling"]["tolerations"] = json!([]));
    world.settle();
    assert_eq!(taints(win(&world)), ["os=windows:NoSchedule"]);
    assert_eq!(tolerations(&world, "windows-ltsc2022"), ["os=windows"]);
}

#[test]
fn what_others_put_into_a_class_is_taken_off_it() {
    let mut world = settled(json!({}), json!([]));
    let before = world.get(CLASS, "windows-ltsc2022").unwrap().clone();
    world.edit(CLASS, "windows-ltsc2022", |class| {
        class["scheduling"]["nodeSelector"]["disk"] = json!("fast");
        class["overhead"] = json!({"podFixed": {"memory": "1Gi"}});
    });
    world.settle();
    let class = world.get(CLASS, "windows-ltsc2022").unwrap();
    assert_eq!(class["scheduling"], before["scheduling"]);
    assert_eq!(class["overhead"]["podFixed"], json!({}));
}

#[test]
fn a_mistyped_selector_holds_the_nodes_until_their_release_is_allowed() {
    let mut world = settled(json!({}), json!([]));
    world.edit(POOL, "web", |pool| pool["spec"]["nodeSelector"]["matchLabels"]["agentpool"] = json!("wbe"));
    world.settle();
    assert_eq!(taints(win(&world)), ["os=windows:NoSchedule"]);
    let (status, reason, message) = condition(&world, "web", "NodesAssigned");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ReleaseHeld"));
    assert!(message.contains("winpool.dev/allow-release=2"), "{message}");

    world.edit(NODE, "win-1", |node| node["spec"]["taints"] = json!([]));
    world.settle();
    assert_eq!(taints(win(&world)), ["os=windows:NoSchedule"], "a held node is guarded like any other");

    world.edit(POOL, "web", |pool| pool["metadata"]["annotations"] = json!({"winpool.dev/allow-release": "1"}));
    world.settle();
    assert_eq!(taints(win(&world)), ["os=windows:NoSchedule"], "the permission is for another generation");
    world.edit(POOL, "web", |pool| pool["metadata"]["annotations"] = json!({"winpool.dev/allow-release": "2"}));
    world.settle();
    assert_eq!(taints(win(&world)), Vec::<String>::new());
    assert_eq!(label(win(&world), "winpool.dev/pool"), None);
}

#[test]
fn a_changed_version_waits_for_a_ready_node_of_the_new_build() {
    let mut world = settled(json!({"runtimeClasses": [{"name": "windows"}]}), json!([]));
    world.edit(POOL, "web", |pool| pool["spec"]["windowsVersion"] = json!("ltsc2025"));
    world.settle();
    let build = |world: &World| {
        world.get(CLASS, "windows").unwrap()["scheduling"]["nodeSelector"]["node.kubernetes.io/windows-build"].clone()
    };
    assert_eq!(build(&world), "10.0.20348");
    assert_eq!(reason(&world, "web", "RuntimeClassReady"), "WouldStrand");

    let mut allowed = world.clone();
    allowed.edit(POOL, "web", |pool| pool["metadata"]["annotations"] = json!({"winpool.dev/allow-strand": "2"}));
    allowed.settle();
    assert_eq!(build(&allowed), "10.0.26100");

    world.put(NODE, "win-2", node(26100, "containerd://2.1.4", &json!({"agentpool": "web"}), &json!([])));
    world.settle();
    assert_eq!(build(&world), "10.0.26100");
    assert_eq!(reason(&world, "web", "RuntimeClassReady"), "Applied");
    assert_eq!(reason(&world, "web", "OSMismatch"), "NodeBuildDiffers");
}

#[test]
fn a_class_of_a_former_name_does_not_let_another_strand() {
    let mut world = settled(json!({"windowsVersion": "ltsc2025"}), json!([]));
    assert_eq!(world.names(CLASS), ["windows-ltsc2025"]);
    world.edit(POOL, "web", |pool| {
        pool["spec"]["windowsVersion"] = json!("ltsc2022");
        pool["spec"]["runtimeClasses"] = json!([{"name": "windows"}]);
    });
    world.settle();
    world.edit(POOL, "web", |pool| pool["spec"]["windowsVersion"] = json!("ltsc2025"));
    world.settle();
    let (_, reason, message) = condition(&world, "web", "RuntimeClassReady");
    assert_eq!(reason, "WouldStrand", "{message}");
    let remedy = "kubectl annotate wnp web winpool.dev/allow-strand=3 --overwrite";
    assert!(message.contains(remedy), "{message}");
}

#[test]
fn a_changed_version_is_held_for_the_default_class_too_and_the_old_one_stays() {
    let mut world = settled(json!({}), json!([]));
    world.edit(POOL, "web", |pool| pool["spec"]["windowsVersion"] = json!("ltsc2025"));
    world.settle();
    assert_eq!(reason(&world, "web", "RuntimeClassReady"), "WouldStrand");
    assert_eq!(world.names(CLASS), ["windows-ltsc2022"]);
    world.put(NODE, "win-2", node(26100, "containerd://2.1.4", &json!({"agentpool": "web"}), &json!([])));
    world.settle();
    assert_eq!(world.names(CLASS), ["windows-ltsc2022", "windows-ltsc2025"]);
    let states = status(&world, "web").runtime_classes;
    assert!(states.iter().any(|class| class.name == "windows-ltsc2022" && class.state == RuntimeClassState::Unused));
}

#[test]
fn a_node_moves_between_pools_in_one_write() {
    let mut world = settled(json!({"labels": {"team": "web"}}), json!([]));
    world.put(
        POOL,
        "batch",
        pool(json!({
            "windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": "batch"}},
            "taints": [{"key": "batch", "value": "yes", "effect": "NoSchedule"}],
        })),
    );
    world.settle();
    world.edit(NODE, "win-1", |node| node["metadata"]["labels"]["agentpool"] = json!("batch"));
    let mut states = Vec::new();
    world.settle_watched(|world| {
        states.push((
            label(win(world), "winpool.dev/pool").map(str::to_owned),
            taints(win(world)),
            label(win(world), "team").is_some(),
        ))
    });
    states.dedup();
    let before = (Some("web".to_owned()), vec!["os=windows:NoSchedule".to_owned()], true);
    let after = (Some("batch".to_owned()), vec!["batch=yes:NoSchedule".to_owned()], false);
    assert!(states.iter().all(|state| *state == before || *state == after), "{states:?}");
    assert_eq!(states.last(), Some(&after));
    assert_eq!(status(&world, "web").nodes.matched, 0);
}

#[test]
fn the_pool_that_has_a_node_keeps_it_and_both_say_so() {
    let mut world = settled(json!({}), json!([]));
    world.put(POOL, "another", web(json!({})));
    world.settle();
    assert_eq!(label(win(&world), "winpool.dev/pool"), Some("web"));
    for pool in ["web", "another"] {
        assert_eq!(reason(&world, pool, "NodesAssigned"), "NodeConflict", "{pool}");
        assert_eq!(status(&world, pool).nodes.contested, 1, "{pool}");
    }
}

#[test]
fn of_two_pools_that_match_a_new_node_the_older_takes_it() {
    let mut world = World::new();
    world.put(POOL, "zeta", web(json!({})));
    world.put(POOL, "alpha", web(json!({})));
    world.put(NODE, "win-1", web_node(json!([])));
    world.settle();
    assert_eq!(label(win(&world), "winpool.dev/pool"), Some("zeta"));
}

#[test]
fn the_fallback_pool_takes_what_no_other_matches_and_gives_it_up() {
    let mut world = World::new();
    world.put(POOL, "rest", pool(json!({"windowsVersion": "ltsc2022", "fallback": true})));
    world.put(POOL, "rest-too", pool(json!({"windowsVersion": "ltsc2022", "fallback": true})));
    world.put(NODE, "win-1", web_node(json!([])));
    world.settle();
    assert_eq!(label(win(&world), "winpool.dev/pool"), Some("rest"));
    assert_eq!(reason(&world, "rest-too", "NodesAssigned"), "NodeConflict");
    world.put(POOL, "web", web(json!({})));
    world.settle();
    assert_eq!(label(win(&world), "winpool.dev/pool"), Some("web"));
}

#[test]
fn observe_and_paused_write_nothing_and_say_what_would_change() {
    for (key, value, reason_word) in [("mode", json!("Observe"), "Observing"), ("paused", json!(true), "Paused")] {
        let world = settled(json!({key: value}), json!([]));
        assert_eq!(taints(win(&world)), Vec::<String>::new());
        assert_eq!(world.names(CLASS), Vec::<String>::new());
        let status = status(&world, "web");
        assert_eq!(status.pending.count, 2);
        assert_eq!(status.pending.first[0], "RuntimeClass windows-ltsc2022: create");
        assert!(
            status.pending.first[1].starts_with("Node win-1: label winpool.dev/pool=web"),
            "{:?}",
            status.pending.first
        );
        let ready = condition(&world, "web", "Ready");
        assert_eq!((ready.0.as_str(), ready.1.as_str()), ("False", reason_word));
        assert_eq!(status.columns.problem, reason_word);
    }
}

#[test]
fn retain_leaves_everything_and_a_pool_made_again_takes_it_back_without_a_write() {
    let mut world = settled(json!({}), json!([]));
    world.delete(POOL, "web");
    assert_eq!(world.names(POOL), Vec::<String>::new());
    assert_eq!(taints(win(&world)), ["os=windows:NoSchedule"]);
    let before = win(&world).clone();
    world.put(POOL, "web", web(json!({})));
    world.settle();
    assert_eq!(*win(&world), before);
    assert_eq!(status(&world, "web").applied.taints, ["os:NoSchedule"]);
}

#[test]
fn a_paused_pool_whose_policy_became_retain_can_be_deleted() {
    let mut world = settled(json!({"deletionPolicy": "Cleanup"}), json!([]));
    world.edit(POOL, "web", |pool| {
        pool["spec"]["paused"] = json!(true);
        pool["spec"]["deletionPolicy"] = json!("Retain");
    });
    world.settle();
    world.delete(POOL, "web");
    world.settle();
    assert_eq!(world.names(POOL), Vec::<String>::new());
    assert_eq!(taints(win(&world)), ["os=windows:NoSchedule"]);
}

#[test]
fn cleanup_gives_a_node_to_the_pool_that_takes_it_without_a_gap() {
    let mut world = settled(json!({"deletionPolicy": "Cleanup"}), json!([]));
    world.put(POOL, "rest", pool(json!({"windowsVersion": "ltsc2022", "fallback": true})));
    world.settle();
    world.delete(POOL, "web");
    world.settle_watched(|world| assert_eq!(taints(win(world)), ["os=windows:NoSchedule"]));
    assert_eq!(label(win(&world), "winpool.dev/pool"), Some("rest"));
    assert_eq!(world.names(POOL), ["rest"]);
}

#[test]
fn a_class_that_somebody_else_made_is_left_alone_until_it_is_adopted() {
    let mut world = World::new();
    let theirs = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {}, "handler": "runhcs-wcow-process",
        "scheduling": {"tolerations": [{"key": "sku", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}]},
    });
    world.put(CLASS, "windows-ltsc2022", theirs.clone());
    world.put(POOL, "web", web(json!({"deletionPolicy": "Cleanup"})));
    world.settle();
    assert_eq!(world.get(CLASS, "windows-ltsc2022").unwrap()["scheduling"], theirs["scheduling"]);
    let (status, reason, message) = condition(&world, "web", "RuntimeClassReady");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "NotOurs"));
    assert!(message.contains("no toleration for os=windows:NoSchedule"), "{message}");

    world.edit(POOL, "web", |pool| {
        pool["spec"]["runtimeClasses"] = json!([{"name": "windows-ltsc2022", "adopt": true}])
    });
    world.settle();
    assert_eq!(tolerations(&world, "windows-ltsc2022"), ["os=windows", "sku=windows"]);

    world.delete(POOL, "web");
    world.settle();
    assert_eq!(world.get(CLASS, "windows-ltsc2022").unwrap()["scheduling"], theirs["scheduling"]);
}

#[test]
fn a_handler_cannot_be_changed_and_the_remedy_is_said() {
    let mut world = settled(json!({}), json!([]));
    world.edit(POOL, "web", |pool| {
        pool["spec"]["runtimeClasses"] = json!([{"name": "windows-ltsc2022", "isolation": "HyperV"}])
    });
    world.settle();
    let (_, reason, message) = condition(&world, "web", "RuntimeClassReady");
    assert_eq!(reason, "HandlerDiffers");
    assert!(message.contains("give the class another name"), "{message}");
}

#[test]
fn pools_of_one_build_and_handler_share_a_class_with_the_tolerations_of_all() {
    let mut world = settled(json!({}), json!([]));
    let other = |version: &str| {
        pool(json!({
            "windowsVersion": version, "nodeSelector": {"matchLabels": {"agentpool": "batch"}},
            "taints": [{"key": "batch", "value": "yes", "effect": "NoSchedule"}],
            "runtimeClasses": [{"name": "windows-ltsc2022"}],
        }))
    };
    world.put(POOL, "batch", other("ltsc2022"));
    world.settle();
    assert_eq!(tolerations(&world, "windows-ltsc2022"), ["os=windows", "batch=yes"]);
    world.put(POOL, "batch", other("ltsc2025"));
    world.settle();
    assert_eq!(reason(&world, "batch", "RuntimeClassReady"), "NameTaken");
    assert_eq!(reason(&world, "web", "RuntimeClassReady"), "Applied");
    assert_eq!(tolerations(&world, "windows-ltsc2022"), ["os=windows"]);
}

#[test]
fn an_annotation_of_cluster_api_excuses_no_missing_taint() {
    let mut world = World::new();
    let mut machine = web_node(json!([]));
    machine["metadata"]["annotations"]["cluster.x-k8s.io/taints-from-machine"] = json!("os:NoSchedule");
    world.put(NODE, "win-1", machine);
    world.put(POOL, "web", web(json!({})));
    world.settle();
    assert_eq!(taints(win(&world)), ["os=windows:NoSchedule"]);
}

#[test]
fn an_old_kubelet_gets_the_build_label_from_its_kernel() {
    let mut world = World::new();
    let old = node(
        17763,
        "docker://20.10.9",
        &json!({"agentpool": "web", "node.kubernetes.io/windows-build": null}),
        &json!([]),
    );
    world.put(NODE, "win-1", old);
    world.put(
        POOL,
        "web",
        web(json!({"windowsVersion": "ltsc2019", "runtimeClasses": [{"name": "w", "handler": "docker"}]})),
    );
    world.settle();
    assert_eq!(label(win(&world), "node.kubernetes.io/windows-build"), Some("10.0.17763"));
    assert_eq!(reason(&world, "web", "RuntimeSupported"), "Supported");
}

#[test]
fn a_docker_node_fits_the_handler_docker_only() {
    let mut world = World::new();
    world.put(NODE, "win-1", node(20348, "docker://24.0.7", &json!({"agentpool": "web"}), &json!([])));
    world.put(POOL, "web", web(json!({})));
    world.settle();
    assert_eq!(reason(&world, "web", "RuntimeSupported"), "HandlerUnavailable");
}

#[test]
fn a_node_that_reports_nothing_is_guarded_and_stops_nobody() {
    let mut world = settled(json!({"profileRef": {"name": "standard"}}), json!([]));
    world.put(PROFILE, "standard", profile(json!({})));
    let mut odd = web_node(json!([]));
    odd["status"] = json!({});
    world.put(NODE, "win-2", odd);
    world.settle();
    assert_eq!(status(&world, "web").nodes.guarded, 2);
    assert_eq!(condition(&world, "web", "Ready").0, "True");
    assert_eq!(reason(&world, "web", "RuntimeSupported"), "UnknownVersion");
}

#[test]
fn a_pool_without_its_profile_says_so_keeps_its_configurations_and_guards_on() {
    let mut world = World::new();
    world.put(PROFILE, "standard", profile(json!({})));
    world.put(NODE, "win-1", web_node(json!([])));
    world.put(POOL, "web", web(json!({"profileRef": {"name": "standard"}})));
    world.settle();
    let configs = world.names(CONFIG);
    assert_eq!(configs.len(), 1);
    assert_eq!(win(&world)["metadata"]["annotations"]["winpool.dev/config"], json!(configs[0]));
    world.delete(PROFILE, "standard");
    world.put(NODE, "win-2", web_node(json!([])));
    world.settle();
    assert_eq!(world.names(CONFIG), configs);
    assert_eq!(taints(world.get(NODE, "win-2").unwrap()), ["os=windows:NoSchedule"]);
    assert_eq!(reason(&world, "web", "ProfileResolved"), "NotFound");
    assert_eq!(status(&world, "web").configs.len(), 1);
}

#[test]
fn an_unchanged_world_is_not_written() {
    let world = settled(json!({"labels": {"team": "web"}, "deletionPolicy": "Cleanup"}), json!([]));
    assert_eq!(writes(&world, "web"), 0);
    assert_eq!(words(&world, "web"), Vec::<String>::new());
}

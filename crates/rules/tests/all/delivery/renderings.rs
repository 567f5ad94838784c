//! A new version of winpool that renders other settings from the same profile: what existing nodes keep, and what lets them go on.

use serde_json::{Value, json};
use winpool_render::settings::digest_of;

use super::*;

/// The cluster after an earlier version of winpool has delivered a configuration with 100 pods, where this version renders 110.
/// Returns the name of its ConfigMap, and of the one that this version renders.
fn delivered_before(nodes: usize, delivery: &Value) -> (Cluster, [String; 2]) {
    let mut cluster = Cluster::new(nodes, never_drain());
    cluster.model.set_spec("web", "delivery", delivery.clone());
    cluster.converge();
    let [new] = &cluster.model.names(CONFIG)[..] else { panic!("one configuration") };
    let new = new.clone();
    let mut map = cluster.model.get(CONFIG, &new).unwrap().clone();
    let yaml = map["data"]["kubelet.yaml"].as_str().unwrap().replace("maxPods: 110", "maxPods: 100");
    map["data"]["kubelet.yaml"] = json!(yaml);
    let digest = digest_of(&serde_json::from_value(map["data"].clone()).unwrap());
    let old = format!("web-{}", &digest[..10]);
    cluster.model.delete(CONFIG, &new);
    cluster.model.put(CONFIG, &old, map);
    let applied = json!({"config": old, "digest": digest});
    for name in cluster.model.names(NODE) {
        cluster.model.edit(NODE, &name, |node| {
            node["metadata"]["annotations"]["winpool.dev/config"] = json!(old);
            node["status"]["allocatable"] =
                json!({"cpu": "4", "memory": "14168064Ki", "ephemeral-storage": "96636764160", "pods": "100"});
        });
    }
    for name in cluster.model.names(NODE_CONFIG) {
        cluster.model.edit(NODE_CONFIG, &name, |config| {
            for (field, value) in [("config", json!(old)), ("digest", json!(digest)), ("confirmed", json!(digest))] {
                config["spec"][field] = value;
            }
            config["status"]["applied"] = applied.clone();
            config["status"]["observedDigest"] = json!(digest);
        });
    }
    cluster.take_log();
    (cluster, [old, new])
}

fn assigned(cluster: &Cluster, node: &str) -> String {
    let node = cluster.model.get(NODE, node).unwrap();
    node["metadata"]["annotations"]["winpool.dev/config"].as_str().unwrap().to_owned()
}

fn agent() -> Value {
    json!({"method": "Agent", "rollout": never_drain()})
}

#[test]
fn existing_nodes_keep_their_configuration_and_new_ones_get_the_new_one() {
    for (delivery, or_attempt) in [
        (Value::Null, ""),
        (json!({"rollout": {"attempt": 7}}), ""),
        (agent(), ", or set spec.delivery.rollout.attempt: 2"),
    ] {
        let (mut cluster, [old, new]) = delivered_before(2, &delivery);
        let status = cluster.converge();
        assert_eq!(cluster.take_log(), Vec::<String>::new(), "nothing is assigned or restarted");
        for node in ["win-1", "win-2"] {
            assert_eq!(assigned(&cluster, node), old);
        }
        assert_eq!(cluster.model.names(CONFIG).len(), 2, "the new one exists");
        let digest = new.strip_prefix("web-").unwrap();
        let message = format!(
            "this version of winpool renders other settings from the same profile, and 2 nodes keep their ConfigMap: win-1, win-2 \
             ({old} → {new}). status.pending lists the differences. Allow it: kubectl annotate wnp web \
             winpool.dev/allow-rendering={digest} --overwrite{or_attempt}. {LIST}"
        );
        assert_eq!(config_in_effect(&status), ("False".into(), "RenderingChanged".into(), message));
        let of = |name: &str| status.conditions.iter().find(|found| found.type_ == name);
        assert_eq!(of("Ready").unwrap().status, "True");
        assert_eq!((of("Reconciling"), of("Stalled")), (None, None));
        assert_eq!(
            (status.columns.configured.as_str(), status.columns.problem.as_str()),
            ("2/2", "Config/RenderingChanged(2)")
        );
        assert_eq!(status.nodes.behind, 0);
        assert_eq!(status.pending.count, 1);
        let change = format!("ConfigMap {old} → {new}: kubelet.yaml maxPods: 100 → 110");
        assert_eq!(status.pending.first, [change]);
        let rows: Vec<_> = status.configs.iter().map(|row| (row.name.clone(), row.wanted, row.in_effect)).collect();
        assert_eq!(rows, [(new.clone(), 0, 0), (old.clone(), 2, 2)]);

        cluster.model.put(NODE, "win-3", web_node());
        cluster.converge();
        assert_eq!([assigned(&cluster, "win-1"), assigned(&cluster, "win-3")], [old, new]);
    }
}

#[test]
fn a_person_lets_existing_nodes_get_the_new_configuration() {
    let allow = |value: &'static str| {
        move |cluster: &mut Cluster, new: &str| {
            let value = value.replace("NEW", new.strip_prefix("web-").unwrap());
            cluster.model.annotate("web", "winpool.dev/allow-rendering", value);
        }
    };
    let edit_rollout = |field: &'static str, value: u32| {
        move |cluster: &mut Cluster, _: &str| {
            cluster.model.edit(POOL, "web", |pool| pool["spec"]["delivery"]["rollout"][field] = json!(value));
        }
    };
    let edit_pool = |field: &'static str, value: Value| {
        move |cluster: &mut Cluster, _: &str| {
            cluster.model.edit(POOL, "web", |pool| pool["spec"][field] = value.clone())
        }
    };
    let edit_old = |change: fn(&mut Value)| {
        move |cluster: &mut Cluster, _: &str| {
            let old = assigned(cluster, "win-1");
            cluster.model.edit(CONFIG, &old, change);
        }
    };
    let table: [(&str, bool, bool, &dyn Fn(&mut Cluster, &str)); 15] = [
        ("nothing", false, false, &|_, _| {}),
        ("consent", true, true, &allow("NEW")),
        ("consent to several", true, true, &allow("0123456789, NEW")),
        ("consent to another one", false, false, &allow("0123456789")),
        ("a higher attempt, which counts only with a delivery method", false, true, &edit_rollout("attempt", 2)),
        ("another limit", false, false, &edit_rollout("maxFailures", 2)),
        ("another label", false, false, &edit_pool("labels", json!({"team": "web"}))),
        ("another taint, with which kubelets register", true, true, &edit_pool("taints", json!([]))),
        ("another profile", true, true, &|cluster, _| cluster.set_profile(json!({"kubelet": {"maxPods": 50}}))),
        ("the same settings, written", true, true, &|cluster, _| {
            cluster.set_profile(json!({"kubelet": {"maxPods": 110}}))
        }),
        ("another variant: an upgraded kubelet", true, true, &|cluster, _| {
            for node in ["win-1", "win-2"] {
                cluster.model.edit(NODE, node, |node| node["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.33.1"));
            }
        }),
        ("no record", true, true, &edit_old(|map| map["metadata"]["annotations"] = json!({}))),
        (
            "content that is not that of its name",
            true,
            true,
            &edit_old(|map| map["data"]["kubelet.yaml"] = json!("maxPods: 1\n")),
        ),
        ("no ConfigMap", true, true, &|cluster, _| {
            let old = assigned(cluster, "win-1");
            cluster.model.delete(CONFIG, &old);
        }),
        ("another digest than that of the agents", false, true, &|cluster, _| {
            for config in cluster.model.names(NODE_CONFIG) {
                cluster.model.edit(NODE_CONFIG, &config, |config| config["spec"]["digest"] = json!("0".repeat(64)));
            }
        }),
    ];
    for (case, without_method, with_agents, change) in table {
        for (delivery, expected) in [(json!({"method": "None"}), without_method), (agent(), with_agents)] {
            let (mut cluster, [old, new]) = delivered_before(2, &delivery);
            change(&mut cluster, &new);
            cluster.reconcile("web");
            cluster.reconcile("web");
            let is_released = assigned(&cluster, "win-1") != old;
            assert_eq!(is_released, expected, "{case}, {}", delivery["method"]);
        }
    }
}

#[test]
fn agents_deliver_an_allowed_rendering_as_a_rollout_and_the_consent_is_no_longer_needed() {
    let (mut cluster, [_, new]) = delivered_before(2, &agent());
    let digest = new.strip_prefix("web-").unwrap().to_owned();
    cluster.model.annotate("web", "winpool.dev/allow-rendering", digest);
    let status = cluster.converge();
    assert_eq!(
        cluster.take_log(),
        [
            "WindowsNodeConfig win-1: assign CONFIG (KubeletRestart)",
            "WindowsNodeConfig win-1: confirm CONFIG",
            "WindowsNodeConfig win-2: assign CONFIG (KubeletRestart)",
            "WindowsNodeConfig win-2: confirm CONFIG",
        ]
    );
    assert_eq!(config_in_effect(&status).1, "InEffect");
    assert_eq!(status.pending.count, 0);
    cluster.model.edit(POOL, "web", |pool| pool["metadata"]["annotations"] = json!({}));
    assert_eq!(config_in_effect(&cluster.converge()).1, "InEffect");
    assert_eq!(cluster.take_log(), Vec::<String>::new());
}

#[test]
fn other_bytes_of_the_same_settings_change_nothing() {
    let mut cluster = Cluster::converged(2, never_drain());
    let [name] = &cluster.model.names(CONFIG)[..] else { panic!("one configuration") };
    cluster.model.edit(CONFIG, name, |map| {
        for (file, text) in map["data"].as_object_mut().unwrap() {
            *text = json!(format!("# another comment\n\n{}", text.as_str().unwrap()));
            assert!(!file.is_empty());
        }
    });
    let before = cluster.model.clone();
    cluster.converge();
    assert_eq!(cluster.take_log(), Vec::<String>::new());
    for kind in [CONFIG, NODE, NODE_CONFIG] {
        assert!(cluster.model.all(kind).eq(before.all(kind)), "{kind}");
    }
}

#[test]
fn what_a_configuration_is_rendered_from_is_recorded_and_updated() {
    let record = |cluster: &Cluster| {
        let map = cluster.model.all(CONFIG).next().unwrap();
        map["metadata"]["annotations"]["winpool.dev/rendered-from"].as_str().unwrap_or_default().to_owned()
    };
    let mut cluster = Cluster::converged(2, never_drain());
    let first = record(&cluster);
    assert_eq!(first.len(), 10, "{first}");
    cluster.model.edit(POOL, "web", |pool| pool["spec"]["delivery"]["rollout"]["attempt"] = json!(2));
    cluster.converge();
    let second = record(&cluster);
    assert_ne!(first, second);
    // A version of another ConfigMap, from before it was recorded.
    let name = cluster.model.names(CONFIG).remove(0);
    cluster.model.edit(CONFIG, &name, |map| drop(map["metadata"].as_object_mut().unwrap().remove("annotations")));
    cluster.converge();
    assert_eq!(record(&cluster), second);
    // These two versions of containerd have one configuration.
    let other = json!("containerd://2.1.9");
    cluster.model.edit(NODE, "win-2", |node| node["status"]["nodeInfo"]["containerRuntimeVersion"] = other);
    cluster.converge();
    assert_eq!(cluster.model.names(CONFIG).len(), 1);
    assert!(record(&cluster).contains(&second) && record(&cluster).len() == 21, "{}", record(&cluster));
}

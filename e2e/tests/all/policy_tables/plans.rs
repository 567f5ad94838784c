//! The policies and the plans of the operator: no write of a node is rejected.

use serde_json::{Value, json};

use super::{ALLOWED, NODES, OPERATOR, Request, Server, model, with};
use model::{Model, NODE, POOL, PROFILE};

/// Pools in many states, with nodes of several builds and with taints of others.
fn models() -> Vec<Model> {
    let os = json!({"key": "os", "value": "windows", "effect": "NoSchedule"});
    let drain = json!({"key": "drain", "value": "now", "effect": "NoExecute"});
    let gpu = json!({"key": "gpu", "value": "yes", "effect": "NoSchedule"});
    let in_group = |group: &str| json!({"matchLabels": {"group": group}});
    let specs = [
        vec![
            json!({"windowsVersion": "ltsc2022", "nodeSelector": in_group("a"), "taints": [os, drain], "labels": {"team": "web"}, "profileRef": {"name": "standard"}}),
        ],
        vec![
            json!({"windowsVersion": "ltsc2022", "nodeSelector": in_group("a"), "taints": [os], "runtimeClasses": [{"name": "own", "scope": "Pool"}]}),
            json!({"windowsVersion": "ltsc2019", "fallback": true, "taints": [os, drain], "deletionPolicy": "Cleanup"}),
        ],
    ];
    let mut models = Vec::new();
    let nodes = [
        (20348, json!({"group": "a", "team": "other"}), json!([])),
        (20348, json!({"group": "a", "team": "web"}), json!([gpu, os])),
        (17763, json!({"group": "b", "team": "other"}), json!([os])),
        (26100, json!({"group": "a", "team": "other"}), json!([gpu])),
    ];
    for pools in specs {
        let mut model = Model::new();
        model.put(PROFILE, "standard", model::profile(json!({})));
        for (index, (build, labels, taints)) in nodes.iter().enumerate() {
            model.put(NODE, &format!("win-{index}"), model::node(*build, "containerd://2.1.4", labels, taints));
        }
        for (index, spec) in pools.into_iter().enumerate() {
            model.put(POOL, &format!("pool-{index}"), model::pool(spec));
        }
        models.push(model);
    }
    models
}

fn each(model: &mut Model, kind: &'static str, change: fn(&mut Value)) {
    model.names(kind).iter().for_each(|name| model.edit(kind, name, change));
}

/// What administrators and kubelets change, one after the other.
fn changes() -> [fn(&mut Model); 6] {
    [
        |_| {},
        |model| {
            each(model, POOL, |pool| {
                pool["spec"]["taints"] = json!([{"key": "os", "value": "windows", "effect": "NoExecute"}]);
            });
        },
        |model| each(model, POOL, |pool| pool["spec"]["labels"] = json!({"team": "other", "tier": "front"})),
        |model| each(model, NODE, |node| node["metadata"]["labels"]["group"] = json!("b")),
        // A kubelet removes the label of Windows from its node, and the pool is cleaned up.
        |model| {
            model.edit(NODE, "win-0", |node| {
                node["metadata"]["labels"].as_object_mut().unwrap().remove("kubernetes.io/os");
            });
        },
        |model| {
            each(model, POOL, |pool| pool["spec"]["deletionPolicy"] = json!("Cleanup"));
            model.converge();
            model.names(POOL).iter().for_each(|pool| model.delete(POOL, pool));
        },
    ]
}

/// Every change of a node by the plans: before and after.
fn writes() -> Vec<(Value, Value)> {
    let mut writes = Vec::new();
    for mut model in models() {
        for change in changes() {
            change(&mut model);
            let mut before = model.clone();
            model.converge_watched(|after| {
                let pairs = after.names(NODE).into_iter().map(|name| (before.get(NODE, &name), after.get(NODE, &name)));
                let changed = pairs.filter(|(old, new)| old != new);
                writes.extend(changed.map(|(old, new)| (old.unwrap().clone(), new.unwrap().clone())));
                before = after.clone();
            });
        }
    }
    writes
}

#[tokio::test]
async fn the_policies_reject_no_write_of_the_operator() {
    let server = Server::get().await;
    let writes = writes();
    let unlabelled = |(old, _): &(Value, Value)| old["metadata"]["labels"]["kubernetes.io/os"].is_null();
    assert!(writes.iter().any(unlabelled), "a node without the label");
    let mut rows = Vec::new();
    for (old, new) in writes {
        // As another node of the same content.
        let [old, new] = [old, new].map(|node| json!({
            "metadata": {"labels": node["metadata"]["labels"], "annotations": node["metadata"]["annotations"]}, "spec": node["spec"],
        }));
        let stored = server.store(NODES, &old).await;
        let [taints, before, after] =
            [&stored, &old, &new].map(|node| node["spec"]["taints"].as_array().cloned().unwrap_or_default());
        // The API server has added a taint to the new node.
        let added = taints.into_iter().filter(|taint| !before.contains(taint));
        let kept: Vec<_> = after.into_iter().chain(added).collect();
        let changed = with(new.clone(), &["spec", "taints"], json!(kept));
        rows.push((format!("{old} {new}"), Request::replace(OPERATOR, NODES, &stored, &changed), ALLOWED));
    }
    assert!(rows.len() > 20, "{}", rows.len());
    server.outcomes(rows).await;
}

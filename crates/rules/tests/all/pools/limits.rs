//! What pools and profiles cannot do: take RuntimeClasses of other operating systems or keep those of others, and, unless the operator
//! allows it, set labels that Kubernetes reserves and send traffic of nodes to other hosts.

use serde_json::{Value, json};
use winpool_render::allowances::Allowances;
use winpool_rules::{
    pool::{Snapshot, plan::plan},
    status::profile::report,
};
use winpool_workload::Workloads;

use super::{converged, label, reason, tolerations, win};
use winpool_model::{
    CLASS, CONFIG, DEPLOYMENT, Model, NODE, POD, POOL, PROFILE, condition, profile, taints, web, web_node, with,
};

/// A class of other clients.
fn foreign_class(handler: &str, scheduling: &Value) -> Value {
    json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {}, "handler": handler, "scheduling": scheduling,
    })
}

#[test]
fn an_adopted_class_is_that_of_others_again_once_no_pool_names_it() {
    let theirs = json!({
        "nodeSelector": {"sku": "windows"},
        "tolerations": [{"key": "sku", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}],
    });
    let adopting = |more: Value| {
        let mut model = Model::new();
        model.put(NODE, "win-1", web_node(json!([])));
        model.put(CLASS, "theirs", foreign_class("runhcs-wcow-process", &theirs));
        model.put(POOL, "web", web(with(json!({"runtimeClasses": [{"name": "theirs", "adopt": true}]}), &more)));
        model.converge();
        assert_eq!(tolerations(&model, "theirs"), ["os=windows", "sku=windows"]);
        model
    };
    let no_class = |model: &mut Model| model.set_spec("web", "runtimeClasses", json!([]));
    let deleted = |model: &mut Model| model.delete(POOL, "web");
    // With Retain, and while the pool exists, the nodes keep the taint, which pods of the class must tolerate.
    for (more, end, kept) in [
        (json!({}), &deleted as &dyn Fn(&mut Model), true),
        (json!({}), &no_class, true),
        (json!({"deletionPolicy": "Cleanup"}), &deleted, false),
    ] {
        let mut model = adopting(more.clone());
        end(&mut model);
        model.converge();
        let class = model.get(CLASS, "theirs").unwrap();
        assert_eq!(class["scheduling"]["nodeSelector"], theirs["nodeSelector"], "{more}");
        let expected: &[&str] = if kept { &["sku=windows", "os=windows"] } else { &["sku=windows"] };
        assert_eq!(tolerations(&model, "theirs"), expected, "{more}");
        assert!(class["metadata"]["labels"].as_object().is_none_or(serde_json::Map::is_empty), "{more}");
        assert!(class["metadata"]["annotations"].get("winpool.dev/adopted").is_none(), "{more}");
    }
}

#[test]
fn a_class_of_another_operating_system_is_neither_taken_over_nor_created() {
    let pod = |spec: Value| json!({"metadata": {"namespace": "shop"}, "spec": spec});
    let linux_pod =
        || pod(json!({"runtimeClassName": "theirs", "nodeSelector": {"kubernetes.io/os": "linux"}, "containers": []}));
    let elsewhere = || pod(json!({"runtimeClassName": "theirs", "nodeName": "linux-1", "containers": []}));
    let on_windows = || pod(json!({"runtimeClassName": "theirs", "nodeName": "win-1", "containers": []}));
    let template = json!({"spec": {"os": {"name": "linux"}, "runtimeClassName": "theirs", "containers": []}});
    let deployment = || json!({"metadata": {"namespace": "shop"}, "spec": {"selector": {}, "template": template}});
    let reporting = json!([{"name": "runsc"}, {"name": ""}]);
    let class = |handler: &str| Some(foreign_class(handler, &json!({})));
    let linux_class = Some(foreign_class("docker", &json!({"nodeSelector": {"kubernetes.io/os": "linux"}})));
    let table = [
        ("runsc", class("runsc"), None, json!([]), "no node of the pool reports handler runsc"),
        ("runsc", None, None, json!([]), "no node of the pool reports handler runsc"),
        ("docker", linux_class, None, json!([]), "it selects nodes of another operating system"),
        ("docker", class("docker"), Some((POD, linux_pod())), json!([]), "Pod shop/web names it"),
        ("docker", class("docker"), Some((POD, elsewhere())), json!([]), "Pod shop/web names it"),
        ("docker", class("docker"), Some((DEPLOYMENT, deployment())), json!([]), "Deployment shop/web names it"),
        ("runsc", class("runsc"), Some((POD, linux_pod())), reporting.clone(), "Pod shop/web names it"),
        ("docker", class("docker"), Some((POD, on_windows())), json!([]), ""),
        ("docker", class("docker"), None, json!([]), ""),
        ("runhcs-wcow-hypervisor-17763", class("runhcs-wcow-hypervisor-17763"), None, json!([]), ""),
        ("runsc", class("runsc"), None, reporting.clone(), ""),
        ("runsc", None, None, reporting, ""),
    ];
    for (handler, existing, workload, handlers, expected) in table {
        let mut model = Model::new();
        let mut node = web_node(json!([]));
        node["status"]["runtimeHandlers"] = handlers;
        model.put(NODE, "win-1", node);
        if let Some(existing) = existing.clone() {
            model.put(CLASS, "theirs", existing);
        }
        if let Some((kind, workload)) = workload {
            model.put(kind, "web", workload);
        }
        let before = model.get(CLASS, "theirs").cloned();
        let class = json!({"name": "theirs", "handler": handler, "adopt": true});
        model.put(POOL, "web", web(json!({"runtimeClasses": [class]})));
        model.converge();
        let (_, reason, message) = condition(&model, "web", "RuntimeClassReady");
        let verb = if before.is_some() { "taken over" } else { "created" };
        match expected {
            "" => assert_eq!(reason, "Applied", "{handler}: {message}"),
            why => {
                assert_eq!(reason, "NotForWindows", "{handler}");
                assert!(message.contains(&format!("RuntimeClass theirs is not {verb}, because {why}")), "{message}");
                assert_eq!(model.get(CLASS, "theirs"), before.as_ref(), "{handler}");
            }
        }
        assert_eq!(taints(win(&model)), ["os=windows:NoSchedule"], "{handler}: nodes are tainted nevertheless");
    }
}

#[test]
fn a_class_is_not_taken_over_before_the_pods_that_name_it_are_known() {
    let mut model = Model::new();
    model.put(NODE, "win-1", web_node(json!([])));
    model.put(CLASS, "theirs", foreign_class("docker", &json!({})));
    model.put(POOL, "web", web(json!({"runtimeClasses": [{"name": "theirs", "handler": "docker", "adopt": true}]})));
    for (workloads, is_taken) in [(Workloads::Waiting, false), (Workloads::Off, true)] {
        let snapshot = Snapshot { pods: None, workloads, ..model.snapshot() };
        let plan = plan(&snapshot, "web").unwrap();
        let writes = plan.steps.iter().flatten().filter(|write| write.object.name == "theirs");
        assert_eq!(writes.count() > 0, is_taken);
    }
}

#[test]
fn a_label_that_kubernetes_reserves_is_not_written_unless_the_operator_allows_it_and_all_others_are() {
    let mut model =
        converged(json!({"labels": {"node-role.kubernetes.io/control-plane": "", "team": "web"}}), json!([]));
    assert_eq!(label(win(&model), "node-role.kubernetes.io/control-plane"), None);
    assert_eq!(
        (label(win(&model), "team"), taints(win(&model))),
        (Some("web"), vec!["os=windows:NoSchedule".to_owned()])
    );
    let (status, reason, message) = condition(&model, "web", "SpecValid");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Invalid"));
    assert!(message.contains("add node-role.kubernetes.io/control-plane to WINPOOL_ALLOW_LABEL_PREFIXES"), "{message}");

    model.allowances.label_prefixes = vec!["node-role.kubernetes.io/".parse().unwrap()];
    model.converge();
    assert_eq!(label(win(&model), "node-role.kubernetes.io/control-plane"), Some(""));
    assert_eq!(condition(&model, "web", "SpecValid").0, "True");
}

#[test]
fn a_profile_that_sends_image_pulls_to_a_host_that_is_not_allowed_is_invalid_and_nodes_keep_their_configuration() {
    let mirrors = |endpoint: &str| json!({"containerd": {"registryMirrors": [{"registry": "mcr.microsoft.com", "endpoints": [endpoint]}]}});
    let mut model = Model::new();
    model.put(NODE, "win-1", web_node(json!([])));
    model.put(PROFILE, "standard", profile(json!({})));
    model.put(POOL, "web", web(json!({"profileRef": {"name": "standard"}})));
    model.converge();
    let config = win(&model)["metadata"]["annotations"]["winpool.dev/config"].clone();
    assert!(config.is_string());
    for (endpoint, entry) in [("https://evil.example", "evil.example"), ("http://evil.example", "http://evil.example")]
    {
        model.edit(PROFILE, "standard", |profile| profile["spec"] = mirrors(endpoint));
        model.allowances.hosts = vec!["mirror.example".parse().unwrap()];
        model.converge();
        assert_eq!(win(&model)["metadata"]["annotations"]["winpool.dev/config"], config, "{endpoint}");
        assert_eq!(reason(&model, "web", "ProfileResolved"), "Invalid", "{endpoint}");
        let report = report(&model.snapshot(), "standard").unwrap();
        let message = &report.status.conditions.iter().find(|condition| condition.type_ == "Valid").unwrap().message;
        assert!(message.contains(&format!("add {entry} to WINPOOL_ALLOW_HOSTS")), "{message}");
        model.allowances.hosts = vec![entry.parse().unwrap()];
        model.converge();
        assert_ne!(win(&model)["metadata"]["annotations"]["winpool.dev/config"], config, "{endpoint}");
        model.edit(PROFILE, "standard", |profile| profile["spec"] = json!({}));
        model.converge();
    }
}

#[test]
fn without_a_former_allowance_nodes_keep_their_configuration_and_lose_the_label() {
    let mirror = json!({"containerd": {"registryMirrors": [{"registry": "docker.io", "endpoints": ["https://mirror.example"]}]}});
    let mut model = Model::new();
    model.allowances.hosts = vec!["mirror.example".parse().unwrap()];
    model.allowances.label_prefixes = vec!["node-role.kubernetes.io/windows".parse().unwrap()];
    model.put(NODE, "win-1", web_node(json!([])));
    model.put(PROFILE, "standard", profile(mirror));
    let labels = json!({"node-role.kubernetes.io/windows": ""});
    model.put(POOL, "web", web(json!({"profileRef": {"name": "standard"}, "labels": labels})));
    model.converge();
    let config = win(&model)["metadata"]["annotations"]["winpool.dev/config"].clone();
    assert!(config.is_string());
    assert_eq!(label(win(&model), "node-role.kubernetes.io/windows"), Some(""));
    model.allowances = Allowances::default();
    model.converge();
    assert_eq!(win(&model)["metadata"]["annotations"]["winpool.dev/config"], config);
    assert!(model.get(CONFIG, config.as_str().unwrap()).is_some());
    assert_eq!(label(win(&model), "node-role.kubernetes.io/windows"), None);
}

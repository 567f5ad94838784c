//! Consents that are spent.

use serde_json::{Value, json};

use winpool_model::{Model, NODE, POD, POOL, condition, node, pod, taint, web};

/// A pool `web` with a ready node, and the annotation.
fn model(spec: Value, annotation: &str, value: &str) -> Model {
    let mut model = Model::new();
    model.put(NODE, "win-1", node(20348, "containerd://2.3.7", &json!({"agentpool": "web"}), &json!([])));
    model.put(POOL, "web", web(spec));
    model.annotate("web", &format!("winpool.dev/{annotation}"), value);
    model
}

fn spent(model: &mut Model) -> bool {
    model.converge();
    let (status, _, message) = condition(model, "web", "SpecValid");
    assert_eq!(status, "True", "a spent consent is no problem");
    message.contains("Spent, so that it can be removed from the pool: annotation winpool.dev/allow-")
}

#[test]
fn a_consent_is_spent_when_the_change_is_made_or_cannot_be_made() {
    let drain = || json!({"taints": [taint("drain", "", "NoExecute")]});
    // Whether the only node runs the build of the pool.
    let table = [
        ("allow-release", "agentpool=web", json!({}), true),
        ("allow-empty", "agentpool=web", json!({}), true),
        ("allow-strand", "ltsc2022", json!({}), true),
        ("allow-strand", "ltsc2025", json!({"windowsVersion": "ltsc2025"}), false),
        ("allow-strand", "ltsc2022", json!({"windowsVersion": "ltsc2025"}), true),
        ("allow-evict", "drain", drain(), true),
        ("allow-pending", "os", json!({}), true),
        ("allow-rendering", "3f9a1c0d2e", json!({}), true),
        ("allow-evict", "drain", json!({"mode": "Observe", "taints": [taint("drain", "", "NoExecute")]}), false),
        ("acknowledge-issues", "CVE-2023-3676", json!({}), false),
    ];
    for (annotation, value, spec, expected) in table {
        assert_eq!(spent(&mut model(spec.clone(), annotation, value)), expected, "{annotation}: {value} {spec}");
    }
}

#[test]
fn a_consent_is_not_spent_before_its_change_is_made() {
    let mut model = model(json!({}), "allow-pending", "team");
    model.put(POD, "default/web", pod("win-1", &json!([])));
    assert!(spent(&mut model));
    let failing = |model: &mut Model| model.refuses = Some(|write| write.object.kind == winpool_core::kind::Kind::NODE);
    model.annotate("web", "winpool.dev/allow-evict", "drain");
    model.set_spec("web", "taints", json!([taint("drain", "", "NoExecute")]));
    failing(&mut model);
    model.reconcile_until("web", usize::MAX, |_| {});
    model.reconcile_until("web", usize::MAX, |_| {});
    let message = condition(&model, "web", "SpecValid").2;
    assert!(message.contains("annotation winpool.dev/allow-pending") && !message.contains("allow-evict"), "{message}");
    model.refuses = None;
    model.converge();
    let message = condition(&model, "web", "SpecValid").2;
    assert!(message.contains("annotation winpool.dev/allow-evict, winpool.dev/allow-pending"), "{message}");
}

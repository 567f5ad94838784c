//! A selector without nodes: a mistake, or a pool that is meant to be empty.

use jiff::SignedDuration;
use serde_json::json;

use winpool_model::{Model, NODE, POOL, condition, kstatus, node, status, web};

/// A cluster whose only node has `agentpool=batch`, and a pool `web` with this selector, after so many minutes.
fn model(selector: &serde_json::Value, minutes: i64) -> Model {
    let mut model = Model::new();
    model.put(NODE, "win-1", node(20348, "containerd://2.3.7", &json!({"agentpool": "webb"}), &json!([])));
    model.put(POOL, "web", web(json!({"nodeSelector": selector})));
    pass(&mut model, minutes);
    model
}

fn pass(model: &mut Model, minutes: i64) {
    model.converge();
    model.now += SignedDuration::from_mins(minutes);
    model.converge();
}

fn assigned(model: &Model) -> (String, String) {
    let (status, reason, _) = condition(model, "web", "NodesAssigned");
    (status, reason)
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn a_selector_that_has_matched_no_node_for_ten_minutes_is_a_problem_that_names_what_is_like_it() {
    let list = "on Windows nodes agentpool is webb";
    let table = [
        (json!({"matchLabels": {"agentpool": "web"}}), format!("{list}, did you mean agentpool=webb?")),
        (json!({"matchLabels": {"agentpool": "database"}}), format!("{list}. Correct spec.nodeSelector")),
        (
            json!({"matchLabels": {"agentpol": "webb"}}),
            "no Windows node has the label agentpol, did you mean agentpool?".to_owned(),
        ),
        (
            json!({"matchExpressions": [{"key": "agentpool", "operator": "In", "values": ["webbb", "x"]}]}),
            "did you mean agentpool=webb?".to_owned(),
        ),
    ];
    for (selector, part) in table {
        let early = model(&selector, 9);
        assert_eq!(assigned(&early), is("True", "NoNodes"), "{selector}");
        assert_eq!(condition(&early, "web", "Ready").0, "True");
        assert_eq!(kstatus::compute(early.get(POOL, "web").unwrap()), kstatus::KStatus::InProgress, "Flux waits");
        let late = model(&selector, 10);
        let (status_of, reason, message) = condition(&late, "web", "NodesAssigned");
        assert_eq!((status_of, reason), is("False", "SelectsNoNode"));
        assert!(message.contains(&part), "{message}");
        assert_eq!(condition(&late, "web", "Ready").0, "False");
        assert_eq!(status(&late, "web").columns.problem, "Nodes/SelectsNoNode");
        assert_eq!(kstatus::compute(late.get(POOL, "web").unwrap()), kstatus::KStatus::Failed);
    }
}

#[test]
fn a_pool_in_mode_observe_is_not_ready_with_such_a_selector_either() {
    let mut model = model(&json!({"matchLabels": {"agentpool": "web"}}), 0);
    model.set_spec("web", "mode", json!("Observe"));
    pass(&mut model, 11);
    assert_eq!(condition(&model, "web", "Ready").1, "SelectsNoNode");
}

#[test]
fn a_pool_that_is_meant_to_be_empty_is_ready() {
    let zero = is("True", "ScaledToZero");
    let mut scaled = model(&json!({"matchLabels": {"agentpool": "webb"}}), 0);
    assert_eq!(assigned(&scaled), is("True", "Assigned"));
    scaled.delete(NODE, "win-1");
    pass(&mut scaled, 60);
    assert_eq!((assigned(&scaled), condition(&scaled, "web", "Ready").0), (zero.clone(), "True".to_owned()));
    scaled.set_spec("web", "nodeSelector", json!({"matchLabels": {"agentpool": "other"}}));
    scaled.converge();
    assert_eq!(assigned(&scaled), is("True", "NoNodes"), "another selector");
    pass(&mut scaled, 11);
    assert_eq!(assigned(&scaled), is("False", "SelectsNoNode"));
    scaled.annotate("web", "winpool.dev/allow-empty", "agentpool=other");
    scaled.converge();
    assert_eq!(assigned(&scaled), zero);

    let mut fallback = Model::new();
    fallback.put(POOL, "web", web(json!({"nodeSelector": null, "fallback": true})));
    pass(&mut fallback, 60);
    assert_eq!(assigned(&fallback), is("True", "Assigned"), "a fallback pool");
}

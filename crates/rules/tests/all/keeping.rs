//! Unused configurations, and objects that another client repeatedly reverts, on a model of the API server.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use winpool_api::{RuntimeClassState, WindowsNodePoolStatus};
use winpool_rules::{
    operation::{Done, Outcome, Unwritten, Write},
    pool::{Snapshot, plan::plan},
    revert::RevertDetector,
    status::{Report, pool::report},
};

use winpool_model::{CLASS, CONFIG, Model, NODE, POOL, PROFILE, node, pool, profile, taints};

const CLASS_NAME: &str = "windows-ltsc2022";

/// A pool `web` with one node `win-1` and a profile `standard`.
fn model() -> Model {
    let mut model = Model::new();
    model.put(PROFILE, "standard", profile(json!({})));
    model.put(NODE, "win-1", node(20348, "containerd://2.2.10", &json!({"agentpool": "web"}), &json!([])));
    let spec = json!({
        "windowsVersion": "ltsc2022",
        "nodeSelector": {"matchLabels": {"agentpool": "web"}},
        "profileRef": {"name": "standard"},
    });
    model.put(POOL, "web", pool(spec));
    model
}

/// Sets maxPods in the profile, and returns the name of the configuration.
fn configured(model: &mut Model, max_pods: u32) -> String {
    model.edit(PROFILE, "standard", |profile| profile["spec"]["kubelet"] = json!({"maxPods": max_pods}));
    model.converge();
    config_of(model, "win-1")
}

/// The name of the configuration in the annotation of a node.
fn config_of(model: &Model, node: &str) -> String {
    let annotations = &model.get(NODE, node).unwrap()["metadata"]["annotations"];
    annotations["winpool.dev/config"].as_str().unwrap().to_owned()
}

fn sorted(names: &[String]) -> Vec<String> {
    let mut names = names.to_vec();
    names.sort();
    names
}

#[test]
fn the_three_newest_unused_configurations_are_kept() {
    let mut model = model();
    let mut configs = Vec::new();
    for max_pods in 101..=106 {
        configs.push(configured(&mut model, max_pods));
        let kept = configs.len().saturating_sub(4);
        assert_eq!(model.names(CONFIG), sorted(&configs[kept..]), "after {} configurations", configs.len());
    }
}

#[test]
fn a_rollback_uses_the_configuration_that_was_kept() {
    let mut model = model();
    let configs: Vec<String> = (101..=104).map(|max_pods| configured(&mut model, max_pods)).collect();
    // Only the record of what they were rendered from may change.
    let objects = |model: &Model| -> Vec<Value> {
        model.all(CONFIG).map(|map| json!([map["metadata"]["name"], map["metadata"]["uid"], map["data"]])).collect()
    };
    let before = objects(&model);
    assert_eq!(before.len(), 4);
    assert_eq!(configured(&mut model, 101), configs[0]);
    assert_eq!(objects(&model), before);
}

#[test]
fn a_configuration_that_a_node_names_is_kept() {
    let mut model = model();
    let oldest = configured(&mut model, 101);
    // A node that has left the pool.
    model.put(NODE, "win-2", node(20348, "containerd://2.2.10", &json!({}), &json!([])));
    model.edit(NODE, "win-2", |node| node["metadata"]["annotations"]["winpool.dev/config"] = json!(oldest));
    let configs: Vec<String> = (102..=107).map(|max_pods| configured(&mut model, max_pods)).collect();
    let mut expected = configs[2..].to_vec();
    expected.push(oldest.clone());
    assert_eq!(model.names(CONFIG), sorted(&expected));

    model.edit(NODE, "win-2", |node| {
        node["metadata"]["annotations"].as_object_mut().unwrap().remove("winpool.dev/config");
    });
    model.converge();
    assert_eq!(model.names(CONFIG), sorted(&configs[2..]));
}

#[test]
fn the_configurations_of_another_pool_are_not_deleted() {
    let mut model = model();
    let of_batch =
        json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "winpool", "winpool.dev/pool": "batch"}}});
    for number in 1..=5 {
        model.put(CONFIG, &format!("batch-{number}"), of_batch.clone());
    }
    let configs: Vec<String> = (101..=105).map(|max_pods| configured(&mut model, max_pods)).collect();
    let expected = (1..=5).map(|number| format!("batch-{number}")).chain(sorted(&configs[1..])).collect::<Vec<_>>();
    assert_eq!(model.names(CONFIG), expected);
}

fn note(reverts: &mut RevertDetector, write: &Write, outcome: &Outcome, now: Timestamp) {
    if *outcome == Outcome::Done {
        reverts.note(&write.identity(), &write.field_writes(), now);
    }
}

/// An operator whose writes another client reverts.
struct RevertTest {
    model: Model,
    reverts: RevertDetector,
}

impl RevertTest {
    fn snapshot(&self) -> Snapshot {
        Snapshot { reverts: Arc::new(self.reverts.clone()), ..self.model.snapshot() }
    }

    /// Reconciles the pool, and returns the number of writes to the class.
    fn reconcile(&mut self) -> (Report<WindowsNodePoolStatus>, usize) {
        let snapshot = self.snapshot();
        let plan = plan(&snapshot, "web").unwrap();
        let mut done = Done { results: Vec::new(), complete: true };
        for operation in plan.steps.iter().flatten() {
            let outcome = self.model.run_after(operation, &Unwritten::default());
            note(&mut self.reverts, operation, &outcome, self.model.now);
            done.results.push((operation.clone(), outcome));
        }
        let plan = plan.with_outcomes(&done);
        let report = report(&snapshot, &plan, &done);
        if let Some(write) = &report.write {
            self.model.write_status(write);
        }
        let of_class = |write: &&Write| write.object.name == CLASS_NAME;
        let writes = plan.steps.iter().flatten().filter(of_class).count();
        (report, writes)
    }

    /// Reconciles the pool until it is deleted.
    fn clean_up(&mut self) {
        while self.model.get(POOL, "web").is_some() {
            let plan = plan(&self.snapshot(), "web").unwrap();
            for operation in plan.steps.iter().flatten() {
                let outcome = self.model.run_after(operation, &Unwritten::default());
                note(&mut self.reverts, operation, &outcome, self.model.now);
            }
        }
    }

    /// Another client removes the tolerations of the class.
    fn revert(&mut self) {
        self.model.now += SignedDuration::from_secs(30);
        self.model.edit(CLASS, CLASS_NAME, |class| {
            class["scheduling"]["tolerations"] = json!([]);
            class["metadata"]["managedFields"] =
                json!([{"manager": "their-controller", "time": "2026-06-01T12:00:00Z"}]);
        });
    }

    fn tolerates(&self) -> bool {
        let class = self.model.get(CLASS, CLASS_NAME).unwrap();
        class["scheduling"]["tolerations"].as_array().is_some_and(|tolerations| !tolerations.is_empty())
    }
}

fn ready(report: &Report<WindowsNodePoolStatus>) -> (String, String, String) {
    let found = report.status.conditions.iter().find(|condition| condition.type_ == "RuntimeClassReady").unwrap();
    (found.status.clone(), found.reason.clone(), found.message.clone())
}

#[test]
fn a_repeatedly_reverted_class_is_not_written_for_ten_minutes() {
    let mut test = RevertTest { model: model(), reverts: RevertDetector::default() };
    assert_eq!(test.reconcile().1, 1, "the class is created");
    for count in 1..=6 {
        test.revert();
        let (report, writes) = test.reconcile();
        assert_eq!((writes, test.tolerates()), (1, true), "revert {count} is repaired");
        assert_eq!(ready(&report).1, "Applied");
    }

    test.revert();
    let (report, writes) = test.reconcile();
    assert_eq!((writes, test.tolerates()), (0, false), "the class is not written");
    let (status, reason, message) = ready(&report);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Contested"));
    assert!(message.starts_with("their-controller repeatedly reverts RuntimeClass windows-ltsc2022 ("), "{message}");
    assert!(message.contains("no toleration for os=windows:NoSchedule"), "{message}");
    assert!(message.contains("Stop that client from writing the class, or change spec.runtimeClasses"), "{message}");
    let states: Vec<_> = report.status.runtime_classes.iter().map(|class| (class.name.as_str(), class.state)).collect();
    assert_eq!(states, [(CLASS_NAME, RuntimeClassState::Contested)]);
    assert!(report.requeue_after.is_some(), "it is reconciled again without an event");

    // Nodes are not affected.
    test.model.edit(NODE, "win-1", |node| node["spec"]["taints"] = json!([]));
    assert_eq!(test.reconcile().1, 0);
    assert_eq!(taints(test.model.get(NODE, "win-1").unwrap()), ["os=windows:NoSchedule"]);

    test.model.now += SignedDuration::from_mins(10);
    let (report, writes) = test.reconcile();
    assert_eq!((writes, test.tolerates()), (1, true), "the write is retried after ten minutes");
    assert_eq!(ready(&report).1, "Applied");
}

#[test]
fn a_changed_class_is_written_despite_a_conflict() {
    let mut test = RevertTest { model: model(), reverts: RevertDetector::default() };
    test.reconcile();
    for _ in 0..7 {
        test.revert();
        test.reconcile();
    }
    assert!(!test.tolerates());
    test.model.set_spec("web", "taints", json!([{"key": "team", "value": "web", "effect": "NoSchedule"}]));
    let (report, _) = test.reconcile();
    assert!(test.tolerates(), "the conflict is about another value");
    assert_eq!(ready(&report).1, "Applied");
}

#[test]
fn a_class_whose_tolerations_another_client_replaces_is_in_conflict_too() {
    let mut test = RevertTest { model: model(), reverts: RevertDetector::default() };
    test.reconcile();
    let mut writes = 0;
    for _ in 0..12 {
        test.revert();
        test.model.edit(CLASS, CLASS_NAME, |class| {
            class["scheduling"]["tolerations"] = json!([{"key": "theirs", "operator": "Exists"}]);
        });
        // First the tolerations are added, then the desired class is applied.
        writes += test.reconcile().1 + test.reconcile().1;
    }
    assert_eq!(writes, 2 * 6, "each of six reverts is repaired in two steps, and then the class is not written");
    assert_eq!(ready(&test.reconcile().0).1, "Contested");
}

#[test]
fn a_new_taint_is_held_if_a_class_cannot_be_changed_and_a_removed_taint_is_added_again() {
    let mut test = RevertTest { model: model(), reverts: RevertDetector::default() };
    test.reconcile();
    let os = json!({"key": "os", "value": "windows", "effect": "NoSchedule"});
    // A class with another handler cannot be changed.
    test.model.edit(CLASS, CLASS_NAME, |class| class["handler"] = json!("other"));
    test.model.set_spec("web", "taints", json!([os, {"key": "team", "value": "web", "effect": "NoSchedule"}]));
    test.model.edit(NODE, "win-1", |node| node["spec"]["taints"] = json!([]));
    let (report, _) = test.reconcile();
    assert_eq!(taints(test.model.get(NODE, "win-1").unwrap()), ["os=windows:NoSchedule"]);
    let found = report.status.conditions.iter().find(|condition| condition.type_ == "NodesTainted").unwrap();
    assert_eq!((found.status.as_str(), found.reason.as_str()), ("False", "Progressing"));
    assert!(found.message.contains("win-1 (team:NoSchedule)"), "{}", found.message);
}

#[test]
fn cleanups_of_a_recreated_pool_are_not_reverts() {
    let mut test = RevertTest { model: model(), reverts: RevertDetector::default() };
    let spec = test.model.get(POOL, "web").unwrap().clone();
    for _ in 0..8 {
        test.model.set_spec("web", "deletionPolicy", json!("Cleanup"));
        test.reconcile();
        test.reconcile();
        assert_eq!(taints(test.model.get(NODE, "win-1").unwrap()), ["os=windows:NoSchedule"]);
        test.model.delete(POOL, "web");
        test.clean_up();
        assert_eq!(taints(test.model.get(NODE, "win-1").unwrap()), Vec::<String>::new());
        test.model.put(POOL, "web", pool(spec["spec"].clone()));
    }
    let (report, _) = test.reconcile();
    assert_eq!(report.status.nodes.tainted, 1);
    assert_eq!(ready(&report).1, "Applied");
}

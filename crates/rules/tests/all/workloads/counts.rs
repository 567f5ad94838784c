//! Workloads in the status of a pool: conditions, messages and counts.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use winpool_rules::{operation::Done, pool::plan::plan, status::pool::report};
use winpool_workload::{StorageState, Workloads};

use winpool_model::{
    POOL,
    workloads::{Cluster, container, found, running, spec, tolerated, two_pools},
};

/// The status after a reconcile with these workloads.
fn status(cluster: &Cluster, pool: &str, workloads: Workloads) -> Value {
    let mut snapshot = cluster.model.snapshot();
    snapshot.workloads = workloads;
    let plan = plan(&snapshot, pool).unwrap();
    let done = Done { results: Vec::new(), complete: true };
    let body = report(&snapshot, &plan, &done).write.map(|write| write.body().into_owned());
    // Without a write the stored status is up to date.
    body.as_ref().or(cluster.model.get(POOL, pool)).unwrap()["status"].clone()
}

fn status_of(cluster: &Cluster, pool: &str) -> Value {
    let summary = Arc::new(cluster.summary(pool));
    status(cluster, pool, Workloads::Known(BTreeMap::from([(pool.to_owned(), summary)])))
}

fn condition(status: &Value, type_: &str) -> (String, String, String) {
    let all = status["conditions"].as_array().unwrap();
    let one = all.iter().find(|condition| condition["type"] == type_).unwrap();
    let field = |name: &str| one[name].as_str().unwrap().to_owned();
    (field("status"), field("reason"), field("message"))
}

/// Status and reason of `WorkloadsPlaced`, if it is reported.
fn placed(status: &Value) -> Option<(String, String)> {
    let conditions = status["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|found| found["type"] == "WorkloadsPlaced")?;
    let text = |name: &str| found[name].as_str().unwrap().to_owned();
    Some((text("status"), text("reason")))
}

fn pair(status: &str, reason: &str) -> Option<(String, String)> {
    Some((status.to_owned(), reason.to_owned()))
}

/// Two pools and `count` Deployments, each with a pod on `web-1` whose image is named for Windows Server 2019.
fn with_old_images(count: usize) -> Cluster {
    let mut cluster = two_pools();
    for number in 1..=count {
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("app-{number}-5d8"), "uid": "u", "controller": true}]);
        let metadata = json!({"labels": {"pod-template-hash": "5d8"}, "ownerReferences": owner});
        let image = if number % 2 == 0 { "example.com/even:ltsc2019" } else { "example.com/odd:ltsc2019" };
        let fields = json!({"nodeName": "web-1", "containers": [container(image)], "tolerations": tolerated(), "os": {"name": "windows"}});
        cluster.pod(&format!("app-{number}-5d8-x"), metadata, spec(fields), json!({}));
    }
    cluster
}

#[test]
fn the_first_five_workloads_are_named_grouped_by_message() {
    let even = "example.com/even:ltsc2019 probably does not run on 10.0.20348.1000: according to its name it is for 10.0.17763 \
                (ltsc2019), and the node runs only images for 10.0.20348 (ltsc2022). Rebuild it on ltsc2022, or use pool batch";
    let odd = even.replace("even", "odd");
    let table = [
        (1, format!("Deployment shop/app-1: {odd}")),
        (
            5,
            format!(
                "Deployment shop/app-2, Deployment shop/app-4: {even}. Deployment shop/app-1, Deployment shop/app-3, Deployment shop/app-5: {odd}"
            ),
        ),
        (
            6,
            format!(
                "Deployment shop/app-2, Deployment shop/app-4: {even}. Deployment shop/app-1, Deployment shop/app-3, Deployment shop/app-5: {odd}. 1 workload more"
            ),
        ),
        (
            8,
            format!(
                "Deployment shop/app-2, Deployment shop/app-4: {even}. Deployment shop/app-1, Deployment shop/app-3, Deployment shop/app-5: {odd}. 3 workloads more"
            ),
        ),
    ];
    for (count, message) in table {
        let status = status_of(&with_old_images(count), "web");
        let expected = ("True".to_owned(), "ImagesCannotRun".to_owned(), message);
        assert_eq!(condition(&status, "OSMismatch"), expected, "{count}");
        assert_eq!(status["workloads"]["suspected"], count);
        assert_eq!(placed(&status), None, "images are reported in OSMismatch only");
    }
}

#[test]
fn an_event_says_that_a_problem_is_no_longer_reported() {
    let mut cluster = with_old_images(1);
    let reported = status_of(&cluster, "web");
    cluster.controllers.clear();
    cluster.pods.clear();
    cluster.model.edit(POOL, "web", |pool| pool["status"] = reported);
    let snapshot = cluster.model.snapshot();
    let done = Done { results: Vec::new(), complete: true };
    let report = report(&snapshot, &plan(&snapshot, "web").unwrap(), &done);
    let events: Vec<_> =
        report.events.iter().map(|event| (event.warning, event.reason.as_str(), event.message.as_str())).collect();
    assert_eq!(events, [(false, "ProblemResolved", "OSMismatch: ImagesCannotRun is no longer reported")]);
}

#[test]
fn the_message_is_bounded_for_a_thousand_workloads() {
    let message = condition(&status_of(&with_old_images(1000), "web"), "OSMismatch").2;
    assert_eq!(message.matches("Deployment shop/").count(), 5, "{message}");
    assert!(message.ends_with(". 995 workloads more"), "{message}");
    let affected = &with_old_images(1000).summary("web").issues[&winpool_workload::IssueKind::ImagesCannotRun];
    assert_eq!((affected.count, affected.first.len()), (1000, 50));
}

#[test]
fn pods_are_counted_by_image_status_and_by_class() {
    let mut cluster = two_pools();
    let on = |image: &str, class: Value| json!({"containers": [container(image)], "runtimeClassName": class, "tolerations": tolerated(), "os": {"name": "windows"}});
    cluster.lookups.insert("example.com/new:1".into(), found(&["windows/amd64 10.0.20348.1"]));
    cluster.lookups.insert("example.com/old:1".into(), found(&["windows/amd64 10.0.17763.1"]));
    cluster.class("mine", "runhcs-wcow-process", json!({"kubernetes.io/os": "windows"}));
    let ours = json!("windows-ltsc2022");
    cluster.pod_on("runs", "web-1", on("example.com/any:1", ours.clone()), running());
    cluster.pod_on("fits", "web-1", on("example.com/new:1", ours), json!({}));
    cluster.pod_on("cannot", "web-2", on("example.com/old:1", json!("mine")), json!({}));
    cluster.pod_on("suspected", "web-2", on("example.com/app:ltsc2019", Value::Null), json!({}));
    cluster.pod_on("unknown", "web-2", on("example.com/any:1", Value::Null), json!({}));
    // The status of a pod is that of its worst image.
    let two = json!({"containers": [container("example.com/any:1"), {"name": "old", "image": "example.com/old:1"}], "tolerations": tolerated()});
    cluster.pod_on("two", "web-2", two, json!({}));
    let expected = json!({
        "pods": 6, "cannotRun": 2, "suspected": 1, "unknown": 1,
        "runtimeClasses": [{"name": "windows-ltsc2022", "pods": 2}, {"name": "mine", "pods": 1}],
    });
    assert_eq!(status_of(&cluster, "web")["workloads"], expected);
    assert_eq!(status_of(&cluster, "batch")["workloads"], Value::Null, "a pool without pods");
}

#[test]
fn the_worst_issue_is_the_reason_and_the_message_has_all() {
    let mut cluster = two_pools();
    assert_eq!(placed(&status_of(&cluster, "web")), None);
    let without_limit =
        json!({"runtimeClassName": "windows-ltsc2022", "containers": [{"name": "app", "image": "example.com/app:1"}]});
    cluster.named_controller("Deployment", "free", spec(without_limit), json!({}));
    assert_eq!(placed(&status_of(&cluster, "web")), pair("True", "PlacedWithWarnings"));
    cluster.pod_on("stray", "web-1", json!({"os": {"name": "linux"}}), running());
    assert_eq!(placed(&status_of(&cluster, "web")), pair("False", "LinuxPodOnWindowsNode"));
    cluster.controller("DaemonSet", spec(json!({"runtimeClassName": "windows-ltsc2022"})));
    cluster.named_controller("Deployment", "lost", spec(json!({"runtimeClassName": "windows-lost"})), json!({}));
    let status = status_of(&cluster, "web");
    assert_eq!(placed(&status), pair("False", "Unschedulable"));
    let message = condition(&status, "WorkloadsPlaced").2;
    let reasons = [
        "Deployment shop/lost",
        ". DaemonSetIgnoresRuntimeClass: DaemonSet shop/daemonset",
        ". LinuxPodOnWindowsNode: Pod shop/stray",
        ". MemoryNotReserved: Deployment shop/free",
    ];
    let places: Vec<_> = reasons.iter().map(|reason| message.find(reason)).collect();
    assert!(places[0] == Some(0) && places.iter().all(Option::is_some) && places.is_sorted(), "{message}");
    cluster.controllers.clear();
    cluster.pods.clear();
    assert_eq!(placed(&status_of(&cluster, "web")), None, "the causes are resolved");
}

#[test]
fn workloads_are_unknown_until_they_are_read_and_without_a_condition_if_they_are_not() {
    let mut cluster = two_pools();
    let waiting = status(&cluster, "web", Workloads::Waiting);
    let (truth, reason, message) = condition(&waiting, "WorkloadsPlaced");
    assert_eq!((truth.as_str(), reason.as_str()), ("Unknown", "NotChecked"));
    assert!(message.contains("config/default/workloads.yaml"), "{message}");
    let off = status(&cluster, "web", Workloads::Off);
    assert!(off["conditions"].as_array().unwrap().iter().all(|found| found["type"] != "WorkloadsPlaced"));
    cluster.model.storage = StorageState::Waiting;
    let (truth, reason, message) = condition(&status_of(&cluster, "web"), "WorkloadsPlaced");
    assert_eq!((truth.as_str(), reason.as_str()), ("Unknown", "NotChecked"), "volumes are not read");
    assert!(message.contains("config/storage"), "{message}");
    for status in [waiting, off] {
        assert_eq!(condition(&status, "Ready").0, "True", "the nodes are tainted");
    }
}

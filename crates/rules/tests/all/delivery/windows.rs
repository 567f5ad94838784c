//! Maintenance windows: nothing begins outside of them.

use super::*;

#[test]
fn a_rollout_awaits_the_next_window_and_begins_with_it() {
    let mut cluster = Cluster::converged(2, json!({"drain": "Always"}));
    cluster.model.now = "2026-06-06T19:00:00Z".parse().unwrap();
    cluster.model.edit(POOL, "web", |pool| {
        let window = json!({"schedule": "0 22 * * SAT", "duration": "1h", "timeZone": "Europe/Berlin"});
        pool["spec"]["delivery"]["maintenanceWindows"] = json!([window]);
    });
    cluster.set_profile(json!({"kubelet": {"maxPods": 60}}));
    // The ConfigMap is written first.
    cluster.reconcile("web");
    let status = cluster.reconcile("web");
    let expected = format!(
        "no maintenance window is open, and the next begins at 2026-06-06T20:00:00Z (spec.delivery.maintenanceWindows). 0 of 2 nodes \
         run their configuration. {LIST}"
    );
    assert_eq!(config_in_effect(&status), ("False".into(), "AwaitsWindow".into(), expected));
    let ready = status.conditions.iter().find(|found| found.type_ == "Ready").unwrap();
    assert_eq!((ready.status.as_str(), status.columns.problem.as_str()), ("True", "-"));
    assert!(status.conditions.iter().all(|found| found.type_ != "Reconciling"), "Flux does not wait for a window");
    assert_eq!(cluster.take_log(), Vec::<String>::new());
    let snapshot = cluster.model.snapshot();
    let report = report(&snapshot, &plan(&snapshot, "web").unwrap(), &Done::default());
    assert_eq!(report.requeue_after.unwrap().as_secs(), 3600, "it is reconciled when the window begins");

    cluster.model.put(NODE, "win-3", web_node());
    cluster.model.edit(NODE, "win-3", |node| node["metadata"]["creationTimestamp"] = json!("2026-06-06T18:59:00Z"));
    let status = cluster.converge();
    let of_new_node =
        ["WindowsNodeConfig win-3: assign CONFIG (ContainerdRestart)", "WindowsNodeConfig win-3: confirm CONFIG"];
    assert_eq!(cluster.take_log(), of_new_node, "a new node does not wait, and is not drained");
    assert_eq!((config_in_effect(&status).1.as_str(), status.columns.configured.as_str()), ("AwaitsWindow", "1/3"));

    cluster.model.now = "2026-06-06T20:00:00Z".parse().unwrap();
    assert_eq!(config_in_effect(&cluster.converge()).1, "InEffect");
}

//! The request of a diagnosis, from the annotation of a pool to the WindowsNodeConfig of a node.

use jiff::SignedDuration;
use serde_json::json;

use super::{Cluster, never_drain};
use winpool_model::PROFILE;

const DIAGNOSE: &str = "winpool.dev/diagnose";

/// A pool whose two nodes run their configuration, with a request of now.
fn requested(node: &str) -> Cluster {
    let mut cluster = Cluster::converged(2, never_drain());
    let now = cluster.model.now;
    cluster.model.annotate("web", DIAGNOSE, format!("{node}@{now}"));
    cluster.reconcile("web");
    cluster
}

#[test]
fn a_request_is_copied_to_its_node_and_removed_after_fifteen_minutes_without_another_change() {
    let mut cluster = Cluster::converged(2, never_drain());
    let before = cluster.node_config("win-1")["spec"].clone();
    let now = cluster.model.now;
    cluster.model.annotate("web", DIAGNOSE, format!("win-1@{now}"));
    cluster.reconcile("web");
    assert_eq!(cluster.take_log(), ["WindowsNodeConfig win-1: request a diagnosis"]);
    let mut requested = cluster.node_config("win-1")["spec"].clone();
    assert!(requested.as_object_mut().unwrap().remove("diagnose").is_some());
    assert_eq!(requested, before, "digest, disruption and attempt stay");
    assert!(cluster.node_config("win-2")["spec"]["diagnose"].is_null());

    cluster.reconcile("web");
    assert_eq!(cluster.take_log(), [""; 0], "it is written once");
    cluster.model.now += SignedDuration::from_mins(15);
    cluster.reconcile("web");
    assert_eq!(cluster.take_log(), ["WindowsNodeConfig win-1: remove the request of a diagnosis"]);
    assert_eq!(cluster.node_config("win-1")["spec"], before);
}

#[test]
fn the_pool_is_reconciled_when_a_request_ends() {
    let mut cluster = requested("win-1");
    cluster.model.now += SignedDuration::from_mins(14);
    let (_, result) = cluster.model.reconcile_until("web", usize::MAX, |_| {}).unwrap();
    let after = result.requeue_after.unwrap();
    assert!((59..=60).contains(&after.as_secs()), "{after:?}");
}

#[test]
fn a_request_that_is_old_or_not_one_for_a_member_changes_nothing() {
    let mut cluster = Cluster::converged(2, never_drain());
    let now = cluster.model.now;
    let old = now - SignedDuration::from_mins(16);
    for value in [format!("win-1@{old}"), format!("win-9@{now}"), "win-1".to_owned(), "win-1@now".to_owned()] {
        cluster.model.annotate("web", DIAGNOSE, &value);
        cluster.reconcile("web");
        assert_eq!(cluster.take_log(), [""; 0], "{value}");
    }
}

#[test]
fn a_request_stays_while_the_configuration_changes() {
    let mut cluster = requested("win-2");
    let asked = cluster.node_config("win-2")["spec"]["diagnose"].clone();
    cluster.model.edit(PROFILE, "standard", |profile| profile["spec"] = json!({"kubelet": {"maxPods": 50}}));
    cluster.converge();
    let spec = &cluster.node_config("win-2")["spec"];
    assert_eq!((&spec["diagnose"], &spec["confirmed"]), (&asked, &spec["digest"]));
}

//! Others write what agents read, and agents write what is not theirs.

use e2e::{
    agent::KUBELET_CONFIG,
    cluster::{SOON, create},
    control_plane::OPERATOR_NAMESPACE,
    operator::Operator,
    rollout::Step,
    wait::until,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use winpool_api::{NodeConfigPhase, WindowsNodeConfig};

use super::{Fleet, POOL, is_assignment};

/// Replaces the content of an immutable ConfigMap, with the same name and labels.
async fn replace_config(fleet: &Fleet, name: &str, max_pods: u32) {
    let api = fleet.cluster.config_maps();
    let ConfigMap { metadata, data, .. } = api.get(name).await.unwrap();
    let kubelet = data.as_ref().unwrap()["kubelet.yaml"].replace("maxPods: 42", &format!("maxPods: {max_pods}"));
    let mut data = json!(data);
    data["kubelet.yaml"] = json!(kubelet);
    api.delete(name, &DeleteParams::default()).await.unwrap();
    create(&api, json!({ "metadata": { "name": name, "labels": metadata.labels }, "data": data })).await.unwrap();
}

#[tokio::test]
async fn a_configuration_that_somebody_changed_is_refused_until_the_operator_has_restored_it() {
    let mut fleet = Fleet::without_agents(2).await;
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({ "maxUnavailable": 1 })).await;
    fleet.until_assigned("win-01").await;
    operator.kill().unwrap();

    let spec = fleet.configs().await["win-01"].spec.clone();
    replace_config(&fleet, &spec.config, 99).await;
    let before = fleet.machines["win-01"].text(KUBELET_CONFIG);
    fleet.start_agents();
    fleet.until_phase("win-01", NodeConfigPhase::Refused).await;
    let status = fleet.configs().await.remove("win-01").unwrap().status.unwrap();
    assert_eq!(status.reason, "DigestDiffers", "{}", status.message);
    let machine = &fleet.machines["win-01"];
    assert_eq!(machine.text(KUBELET_CONFIG), before);
    assert_eq!((machine.kubelet_starts(), machine.has_restore_service()), (0, false));

    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.until_complete().await;
    for (name, machine) in &fleet.machines {
        assert!(machine.text(KUBELET_CONFIG).contains("maxPods: 42"), "{name}");
        assert_eq!(machine.kubelet_starts(), 1, "{name}");
        let digests = fleet.configs().await[name].spec.digest.clone();
        assert_eq!(digests, spec.digest, "only the digest of what the operator rendered is assigned");
        assert_eq!(fleet.log().of(name, is_assignment).count(), 1, "{name}");
    }
    fleet.check_budget(1);
    operator.stop().await.unwrap();
    fleet.stop().await;
}

/// Applies a status to a WindowsNodeConfig as an agent.
async fn forge(fleet: &Fleet, node: &str, status: Value) -> kube::Result<WindowsNodeConfig> {
    let configs: Api<WindowsNodeConfig> = Api::all(fleet.client.clone());
    let body = json!({
        "apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodeConfig", "metadata": { "name": node }, "status": status,
    });
    configs.patch_status(node, &PatchParams::apply("winpool-agent").force(), &Patch::Apply(body)).await
}

/// Waits until the operator has reconciled the pool twice more, so that it has seen all that was written before.
async fn until_reconciled(operator: &Operator) {
    let reconciles =
        async || operator.metric("winpool_reconcile_duration_seconds_count", &[("controller", "pool")]).await;
    let before = reconciles().await.unwrap();
    until("the pool is reconciled twice", SOON, reconciles, |now| *now >= before + 2.0).await.unwrap();
}

#[tokio::test]
async fn a_status_that_another_agent_wrote_is_not_confirmed_while_the_node_does_not_show_it() {
    let mut fleet = Fleet::without_agents(1).await;
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({})).await;
    fleet.until_assigned("win-01").await;
    let spec = fleet.configs().await["win-01"].spec.clone();
    let reference = json!({ "config": spec.config, "digest": spec.digest });
    let now = jiff::Timestamp::now();
    let (past, future) = (now - jiff::SignedDuration::from_hours(1), now + jiff::SignedDuration::from_hours(1));
    for (phase, applied, restarted) in [
        ("Verifying", Value::Null, past),
        ("Verifying", Value::Null, future),
        ("Applied", reference.clone(), past),
        ("Applied", reference, now),
    ] {
        let status = json!({
            "phase": phase, "observedDigest": spec.digest, "observedAttempt": spec.attempt, "rejected": [],
            "restartedAt": restarted.round(jiff::Unit::Second).unwrap(),
        });
        let status = e2e::cluster::with_fields(status, json!({ "applied": applied }));
        forge(&fleet, "win-01", status).await.unwrap();
        until_reconciled(&operator).await;
        let config = fleet.configs().await.remove("win-01").unwrap();
        assert_eq!(config.spec.confirmed, None, "{phase} {restarted}");
        assert_eq!(fleet.cluster.condition(POOL, "ConfigInEffect").await.unwrap().reason, "RollingOut");
    }
    assert_eq!(fleet.machines["win-01"].kubelet_starts(), 0);

    // The agent of the node corrects the status, and applies the configuration.
    fleet.start_agents();
    fleet.until_complete().await;
    assert_eq!(fleet.machines["win-01"].kubelet_starts(), 1);
    let log = fleet.log();
    let confirmed = log.of("win-01", |step| *step == Step::Confirmed).count();
    assert_eq!(confirmed, 1);
    operator.stop().await.unwrap();
    fleet.stop().await;
}

#[tokio::test]
async fn an_agent_may_write_no_spec_and_no_configuration() {
    let fleet = Fleet::without_agents(1).await;
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({})).await;
    fleet.until_assigned("win-01").await;
    let spec = fleet.configs().await["win-01"].spec.clone();
    let configs: Api<WindowsNodeConfig> = Api::all(fleet.client.clone());
    let maps: Api<ConfigMap> = Api::namespaced(fleet.client.clone(), OPERATOR_NAMESPACE);
    let params = PatchParams::default();
    let confirm = Patch::Merge(json!({ "spec": { "confirmed": spec.digest } }));
    let relabel = Patch::Merge(json!({ "metadata": { "labels": { "winpool.dev/pool": "other" } } }));
    let refused = [
        configs.patch("win-01", &params, &confirm).await.map(drop),
        configs.delete("win-01", &DeleteParams::default()).await.map(drop),
        maps.patch(&spec.config, &params, &relabel).await.map(drop),
        maps.delete(&spec.config, &DeleteParams::default()).await.map(drop),
    ];
    for refused in refused {
        assert!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403), "{refused:?}");
    }
    // A write of the status changes nothing else.
    let status = json!({ "phase": "Preflight", "observedDigest": spec.digest, "observedAttempt": 1, "rejected": [] });
    forge(&fleet, "win-01", status).await.unwrap();
    let both = Patch::Merge(json!({ "spec": { "confirmed": spec.digest }, "status": { "phase": "Verifying" } }));
    configs.patch_status("win-01", &params, &both).await.unwrap();
    assert_eq!(fleet.configs().await["win-01"].spec, spec);
    operator.stop().await.unwrap();
}

//! Pools: status, conditions, events.

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Event, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{
    ResourceExt,
    api::{DynamicObject, ListParams},
};
use serde_json::{Value, json};
use winpool_api::WindowsNodePoolStatus;

use super::{Cluster, SOON, edit, pool_spec};
use crate::wait::{eventually, until};

impl Cluster {
    /// Applies a pool that selects the nodes labelled `agentpool=<name>`, with one NoSchedule taint.
    pub async fn apply_tainting_pool(&self, name: &str, windows_version: &str, taint: (&str, &str)) -> Result<()> {
        let taints = json!([{ "key": taint.0, "value": taint.1, "effect": "NoSchedule" }]);
        self.apply_pool(name, pool_spec(name, json!({ "windowsVersion": windows_version, "taints": taints }))).await
    }

    /// Applies a pool, and waits until its nodes and RuntimeClasses are as specified, with its profile if it names one.
    pub async fn apply_pool_and_wait(&self, name: &str, spec: Value) -> Result<()> {
        let has_profile = spec.get("profileRef").is_some();
        self.apply_pool(name, spec).await?;
        if has_profile {
            // The operator can observe a pool before its profile, and then taints its nodes without a configuration.
            self.until_condition(name, "ProfileResolved", "True", "Resolved").await?;
        }
        self.until_condition(name, "NodesTainted", "True", "Applied").await?;
        self.until_condition(name, "RuntimeClassReady", "True", "Applied").await.map(drop)
    }

    /// Changes a pool with a merge patch, and waits until the operator has observed its generation.
    pub async fn edit_pool(&self, name: &str, patch: Value) -> Result<()> {
        edit(&self.pools(), name, patch).await?;
        self.until_observed(name).await
    }

    pub async fn annotate_pool(&self, pool: &str, annotation: &str, value: &str) -> Result<()> {
        edit(&self.pools(), pool, json!({ "metadata": { "annotations": { annotation: value } } })).await
    }

    /// Runs the command `kubectl annotate … --overwrite` in a message.
    pub fn run_remedy(&self, message: &str) -> Result<()> {
        const END: &str = "--overwrite";
        let found = message.split_once("kubectl annotate ").and_then(|(_, rest)| rest.split_once(END));
        let (arguments, _) = found.with_context(|| format!("no command in: {message}"))?;
        let arguments = arguments.split_whitespace().map(|argument| argument.trim_matches('\''));
        self.kubectl(&["annotate"].into_iter().chain(arguments).chain([END]).collect::<Vec<_>>()).map(drop)
    }

    /// Waits until a pool that is created now is younger than this one: creation times are whole seconds.
    pub async fn until_younger_than(&self, pool: &str) -> Result<()> {
        let created = self.pools().get(pool).await?.metadata.creation_timestamp.context("a creation timestamp")?.0;
        let now = || async { Ok(Timestamp::now().as_second()) };
        until("the next second begins", SOON, now, |now| *now > created.as_second()).await.map(drop)
    }

    pub async fn until_pool_gone(&self, pool: &str) -> Result<()> {
        let gone = || async {
            let left = self.pools().get_opt(pool).await?;
            ensure!(left.is_none(), "{left:#?}");
            Ok(())
        };
        // The garbage collector, if it runs, discovers a new resource within half a minute.
        eventually(&format!("pool {pool} is gone"), SOON * 2, gone).await
    }

    pub async fn pool(&self, name: &str) -> Result<Value> {
        Ok(serde_json::to_value(self.pools().get(name).await?)?)
    }

    pub async fn status(&self, pool: &str) -> Result<WindowsNodePoolStatus> {
        let object = self.pools().get(pool).await?;
        let status = object.data.get("status").with_context(|| format!("pool {pool} has no status yet"))?;
        Ok(serde_json::from_value(status.clone())?)
    }

    /// Waits until `holds` is true of a pool's status; `what` completes the sentence "until pool … shows …".
    pub async fn until_status(
        &self,
        pool: &str,
        what: &str,
        holds: impl Fn(&WindowsNodePoolStatus) -> bool,
    ) -> Result<()> {
        until(&format!("pool {pool} shows {what}"), SOON, || self.status(pool), holds).await.map(drop)
    }

    /// Waits until the operator has observed the present generation of a pool.
    pub async fn until_observed(&self, pool: &str) -> Result<()> {
        let observed = || async {
            let generation = self.pools().get(pool).await?.metadata.generation;
            let observed = self.status(pool).await?.observed_generation;
            ensure!(observed == generation, "{observed:?} of {generation:?}");
            Ok(())
        };
        eventually(&format!("the present generation of pool {pool} is observed"), SOON, observed).await
    }

    /// A condition of a pool for its present generation.
    pub async fn condition(&self, pool: &str, type_: &str) -> Result<Condition> {
        let object = self.pools().get(pool).await?;
        let missing = || format!("{pool} has no condition {type_}: {}", object.data["status"]);
        reported(&object, type_)?.with_context(missing)
    }

    /// Waits until a condition of a pool has this status and reason, and returns it.
    pub async fn until_condition(&self, pool: &str, type_: &str, status: &str, reason: &str) -> Result<Condition> {
        let what = format!("pool {pool} has {type_}={status} ({reason})");
        let holds = |condition: &Condition| condition.status == status && condition.reason == reason;
        until(&what, SOON, || self.condition(pool, type_), holds).await
    }

    /// Waits until a pool has observed its present generation without a condition, as a flag that has nothing to report.
    pub async fn until_absent(&self, pool: &str, type_: &str) -> Result<()> {
        let absent = || async {
            let object = self.pools().get(pool).await?;
            ensure!(object.data["status"]["observedGeneration"].as_i64() == object.metadata.generation, "not observed");
            let found = reported(&object, type_)?;
            ensure!(found.is_none(), "{found:?}");
            Ok(())
        };
        eventually(&format!("pool {pool} has no condition {type_}"), SOON, absent).await
    }

    /// Waits until a pool is ready in its present generation.
    pub async fn until_ready(&self, pool: &str) -> Result<()> {
        self.until_condition(pool, "Ready", "True", "AsSpecified").await.map(drop)
    }

    /// The events in a namespace about the object of this name.
    pub async fn events(&self, namespace: &str, object: &str) -> Result<Vec<Event>> {
        let about = ListParams::default().fields(&format!("involvedObject.name={object}"));
        Ok(self.namespaced::<Event>(namespace).list(&about).await?.items)
    }

    /// Waits for an event with this reason in the namespace `default`, which contains the events of cluster-scoped
    /// objects, and returns the messages of all events with that reason, one per line.
    pub async fn until_event(&self, object: &str, reason: &str) -> Result<String> {
        let found = || async {
            let events = self.events("default", object).await?;
            let messages = events.iter().filter(|event| event.reason.as_deref() == Some(reason));
            let messages: Vec<_> = messages.filter_map(|event| event.message.clone()).collect();
            ensure!(!messages.is_empty(), "{events:#?}");
            Ok(messages.join("\n"))
        };
        eventually(&format!("there is an event {reason} about {object}"), SOON, found).await
    }
}

/// A condition of a pool for its present generation, if it is reported.
fn reported(pool: &DynamicObject, type_: &str) -> Result<Option<Condition>> {
    let (status, generation) = (&pool.data["status"], pool.metadata.generation);
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let Some(found) = conditions.find(|condition| condition["type"] == type_) else { return Ok(None) };
    let condition: Condition = serde_json::from_value(found.clone())?;
    let observed = condition.observed_generation.or(status["observedGeneration"].as_i64());
    ensure!(observed == generation, "{}: {found} is about {observed:?} of {generation:?}", pool.name_any());
    Ok(Some(condition))
}

//! Whether the pools are as specified, and the problems that they report.

use anyhow::Result;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Api, Client, ResourceExt, api::ListParams};
use winpool_api::{
    Mode, WindowsNodePool, WindowsNodePoolStatus,
    conditions::{CONDITIONS, CONFIG_IN_EFFECT, ConditionType, OS_MISMATCH, READY, Role, WORKLOADS_PLACED},
};

use crate::fleet::Mistakes;

/// A problem of a pool, or a change that the operator would make for it.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// For instance `OSMismatch=True NodeBuildDiffers`.
    pub title: String,
    /// What is wrong, and what to do.
    pub message: String,
}

/// Reads every pool.
///
/// # Errors
/// When the API server does not answer, or a pool does not match the operator's types.
pub async fn read(client: &Client) -> Result<Vec<WindowsNodePool>> {
    Ok(Api::all(client.clone()).list(&ListParams::default()).await?.items)
}

fn condition<'a>(pool: &'a WindowsNodePool, name: &str) -> Option<&'a Condition> {
    pool.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == name)
}

/// The mistakes that their pool does not report yet: the image and the DaemonSet.
pub fn unreported(pools: &[WindowsNodePool], mistakes: Mistakes) -> Vec<String> {
    let pool = pools.iter().find(|pool| pool.name_any() == mistakes.pool);
    let message = |name| pool.and_then(|pool| condition(pool, name)).map_or("", |found| found.message.as_str());
    let expected = [(OS_MISMATCH.name, Mistakes::DEPLOYMENT), (WORKLOADS_PLACED.name, Mistakes::DAEMON_SET)];
    let unreported =
        expected.into_iter().filter(|(name, object)| !message(name).contains(&format!("default/{object}")));
    unreported.map(|(name, object)| format!("{name} of pool {} does not name {object} yet", mistakes.pool)).collect()
}

/// The pools that are not as specified, and whether fewer than `delivered` nodes run their configuration.
pub fn missing(pools: &[WindowsNodePool], delivered: u32) -> Vec<String> {
    let mut missing: Vec<String> = pools.iter().filter_map(missing_of).collect();
    let statuses = pools.iter().filter_map(|pool| pool.status.as_ref());
    let in_effect: u32 = statuses.map(|status| status.nodes.configured).sum();
    if in_effect < delivered {
        missing.push(format!("{in_effect} of {delivered} nodes show the configuration that they took"));
    }
    if pools.is_empty() {
        missing.push("there are no pools".to_owned());
    }
    missing
}

fn missing_of(pool: &WindowsNodePool) -> Option<String> {
    let name = pool.name_any();
    let current = |status: &&WindowsNodePoolStatus| status.observed_generation == pool.metadata.generation;
    let status = pool.status.as_ref().filter(current);
    let Some((status, ready)) = status.zip(condition(pool, READY.name)) else {
        return Some(format!("pool {name} has no status yet"));
    };
    let (matched, tainted) = (status.nodes.matched, status.nodes.tainted);
    match pool.spec.mode {
        _ if matched == 0 => Some(format!("pool {name} has no nodes yet")),
        Mode::Observe => (ready.reason != "Observing").then(|| format!("pool {name} does not observe")),
        Mode::Enforce if ready.status != "True" => {
            Some(format!("pool {name} is not Ready: {}: {}", ready.reason, ready.message))
        }
        Mode::Enforce => (tainted < matched).then(|| format!("pool {name}: {tainted} of {matched} nodes are tainted")),
    }
}

/// The problems of a pool, in the order of its conditions, and the changes that the operator would make.
pub fn findings(pool: &WindowsNodePool) -> Vec<Finding> {
    let observes = pool.spec.mode == Mode::Observe;
    let is_unknown = |known: &ConditionType, status: &str| {
        // A pool in mode Observe delivers no configuration, and workloads are assessed after the pools.
        let expected = *known == WORKLOADS_PLACED || (observes && *known == CONFIG_IN_EFFECT);
        status == "Unknown" && !expected
    };
    let problems = CONDITIONS.iter().filter(|known| known.role != Role::Summary).filter_map(|known| {
        let Condition { status, reason, message, .. } = condition(pool, known.name)?;
        (known.is_problem(status, reason) || is_unknown(known, status))
            .then(|| Finding { title: format!("{}={status} {reason}", known.name), message: message.clone() })
    });
    let pending = pool.status.iter().flat_map(|status| &status.pending.first);
    let would = pending.map(|change| Finding { title: "would change".to_owned(), message: change.clone() });
    problems.chain(would).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use winpool_api::NodeCounts;

    use super::*;
    use serde_json::{Value, json};

    fn pool(mode: &str, ready: &str, reason: &str, tainted: u32, more: Value) -> WindowsNodePool {
        let pending = if mode == "Observe" { json!(["label a on node b"]) } else { json!([]) };
        let mut conditions = vec![condition("Ready", ready, reason, "words")];
        conditions.extend(more.as_array().unwrap().clone());
        let nodes = NodeCounts { matched: 3, tainted, configured: 3, ..NodeCounts::default() };
        serde_json::from_value(json!({
            "apiVersion": "winpool.dev/v1alpha1",
            "kind": "WindowsNodePool",
            "metadata": { "name": "web", "generation": 2 },
            "spec": { "windowsVersion": "ltsc2022", "mode": mode },
            "status": {
                "observedGeneration": 2,
                "nodes": nodes,
                "pending": { "count": 1, "first": pending },
                "conditions": conditions,
            },
        }))
        .unwrap()
    }

    fn condition(name: &str, status: &str, reason: &str, message: &str) -> Value {
        let time = "2026-01-01T00:00:00Z";
        json!({ "type": name, "status": status, "reason": reason, "message": message, "lastTransitionTime": time })
    }

    #[test]
    fn a_pool_has_converged_when_it_is_ready_and_all_its_nodes_are_tainted() {
        for (pool, delivered, expected) in [
            (pool("Enforce", "True", "AsSpecified", 3, json!([])), 3, None),
            (pool("Enforce", "True", "AsSpecified", 2, json!([])), 3, Some("pool web: 2 of 3 nodes are tainted")),
            (pool("Enforce", "False", "Refused", 3, json!([])), 3, Some("pool web is not Ready: Refused: words")),
            (pool("Observe", "True", "Observing", 0, json!([])), 3, None),
            (
                pool("Enforce", "True", "AsSpecified", 3, json!([])),
                4,
                Some("3 of 4 nodes show the configuration that they took"),
            ),
        ] {
            assert_eq!(missing(&[pool], delivered).first().map(String::as_str), expected);
        }
        let mut stale = pool("Enforce", "True", "AsSpecified", 3, json!([]));
        stale.metadata.generation = Some(3);
        assert_eq!(missing(&[stale], 0), ["pool web has no status yet"]);
        assert_eq!(missing(&[], 0), ["there are no pools"]);
    }

    #[test]
    fn mistakes_are_reported_when_both_conditions_name_them() {
        let mistakes = Mistakes { pool: "web", class: "", fits: "" };
        for (images, placed, expected) in [
            ("Deployment default/legacy: words", "R: DaemonSet default/agent: words", 0),
            ("Deployment default/legacy: words", "fine", 1),
            ("fine", "fine", 2),
        ] {
            let both =
                json!([condition("OSMismatch", "x", "R", images), condition("WorkloadsPlaced", "x", "R", placed)]);
            let pools = [pool("Enforce", "True", "AsSpecified", 3, both)];
            assert_eq!(unreported(&pools, mistakes).len(), expected, "{images}; {placed}");
        }
    }

    #[test]
    fn findings_follow_the_polarity_of_each_condition() {
        for (name, status, found) in [
            ("VersionSkew", "True", true),
            ("VersionSkew", "False", false),
            ("OSMismatch", "True", true),
            ("OSMismatch", "Unknown", true),
            ("OSSupported", "True", false),
            ("OSSupported", "False", true),
            ("ConfigInEffect", "Unknown", true),
            ("WorkloadsPlaced", "False", true),
            ("WorkloadsPlaced", "Unknown", false),
            ("NodesTainted", "False", true),
            ("Stalled", "True", false),
        ] {
            let pool = pool("Enforce", "True", "AsSpecified", 3, json!([condition(name, status, "R", "m")]));
            let expected = found.then(|| Finding { title: format!("{name}={status} R"), message: "m".into() });
            assert_eq!(findings(&pool), Vec::from_iter(expected), "{name}={status}");
        }
        let flags = json!([
            condition("OSMismatch", "True", "R", "m"),
            condition("ConfigInEffect", "Unknown", "R", "m"),
            condition("NodesTainted", "False", "Observing", "m"),
        ]);
        let findings = findings(&pool("Observe", "True", "Observing", 0, flags));
        let titles: Vec<_> = findings.iter().map(|finding| finding.title.as_str()).collect();
        assert_eq!(titles, ["OSMismatch=True R", "would change"]);
    }
}

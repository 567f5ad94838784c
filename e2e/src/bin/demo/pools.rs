//! What the pools say about themselves: when they have settled, and what a person should do.

use anyhow::Result;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use serde::Deserialize;

use crate::fleet::Mistakes;

/// A pool, as far as the demonstration looks at it.
#[derive(Debug, Deserialize)]
pub struct Pool {
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
    generation: i64,
}

#[derive(Debug, Deserialize)]
struct Spec {
    #[serde(default)]
    mode: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    observed_generation: i64,
    nodes: Nodes,
    configs: Vec<Config>,
    pending: Pending,
    conditions: Vec<Condition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Nodes {
    matched: u32,
    guarded: u32,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    in_effect: usize,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pending {
    first: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    message: String,
}

/// Something that a person should know about a pool.
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
/// When the API server does not answer.
pub async fn read(client: &Client) -> Result<Vec<Pool>> {
    let kind = GroupVersionKind::gvk("winpool.dev", "v1alpha1", "WindowsNodePool");
    let pools = Api::<DynamicObject>::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let list = pools.list(&ListParams::default()).await?;
    list.items.into_iter().map(|pool| Ok(serde_json::from_value(serde_json::to_value(pool)?)?)).collect()
}

/// What is still missing until a pool tells of what is wrong on purpose: an image, and a DaemonSet.
pub fn untold(pools: &[Pool], mistakes: Mistakes) -> Vec<String> {
    const TOLD: [(&str, &str); 2] = [("OSMismatch", Mistakes::DEPLOYMENT), ("WorkloadsPlaced", Mistakes::DAEMON_SET)];
    let pool = pools.iter().find(|pool| pool.name() == mistakes.pool);
    let message = |kind| pool.and_then(|pool| pool.condition(kind)).map_or("", |condition| condition.message.as_str());
    let untold = TOLD.into_iter().filter(|(kind, name)| !message(kind).contains(&format!("default/{name}")));
    untold.map(|(kind, name)| format!("{kind} of pool {} does not tell of {name} yet", mistakes.pool)).collect()
}

/// What is still missing until every pool is as its spec says and `delivered` nodes show their configuration in effect.
pub fn missing(pools: &[Pool], delivered: usize) -> Vec<String> {
    let mut missing: Vec<String> = pools.iter().filter_map(Pool::missing).collect();
    let in_effect: usize = pools.iter().flat_map(|pool| &pool.status.configs).map(|config| config.in_effect).sum();
    if in_effect < delivered {
        missing
            .push(format!("{in_effect} of {delivered} nodes show in their numbers that they took their configuration"));
    }
    if pools.is_empty() {
        missing.push("there are no pools".to_owned());
    }
    missing
}

impl Pool {
    /// The pool's name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    fn observes(&self) -> bool {
        self.spec.mode == "Observe"
    }

    fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.kind == kind)
    }

    fn missing(&self) -> Option<String> {
        let name = self.name();
        let Some(ready) =
            self.condition("Ready").filter(|_| self.status.observed_generation == self.metadata.generation)
        else {
            return Some(format!("pool {name} has no status yet"));
        };
        let Nodes { matched, guarded } = self.status.nodes;
        match () {
            () if matched == 0 => Some(format!("pool {name} has no nodes yet")),
            () if self.observes() => (ready.reason != "Observing").then(|| format!("pool {name} does not observe")),
            () if ready.status != "True" => {
                Some(format!("pool {name} is not Ready: {}: {}", ready.reason, ready.message))
            }
            () => (guarded < matched).then(|| format!("pool {name}: {guarded} of {matched} nodes are guarded")),
        }
    }

    /// What a person should know, the worst first.
    pub fn findings(&self) -> Vec<Finding> {
        // A pool that only observes is not Ready by design; what it would change is said instead.
        const ASKED: [&str; 6] =
            ["SpecValid", "ProfileResolved", "ConfigRendered", "RuntimeClassReady", "NodesAssigned", "NodesConfigured"];
        const FLAGS: [(&str, &[&str]); 6] = [
            ("OSMismatch", &["True", "Unknown"]),
            ("VersionSkew", &["True", "Unknown"]),
            ("OSSupported", &["False", "Unknown"]),
            ("RuntimeSupported", &["False", "Unknown"]),
            ("ConfigInEffect", &["False", "Unknown"]),
            ("WorkloadsPlaced", &["False"]),
        ];
        let asked = ASKED.into_iter().map(|kind| (kind, &["False", "Unknown"][..])).filter(|_| !self.observes());
        let flags = FLAGS.into_iter().filter(|(kind, _)| !self.observes() || *kind != "ConfigInEffect");
        let would = |change: &String| Finding { title: "would change".to_owned(), message: change.clone() };
        asked
            .chain(flags)
            .filter_map(|(kind, bad)| self.condition(kind).filter(|condition| bad.contains(&condition.status.as_str())))
            .map(|condition| Finding {
                title: format!("{}={} {}", condition.kind, condition.status, condition.reason),
                message: condition.message.clone(),
            })
            .chain(self.status.pending.first.iter().map(would))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    fn pool(mode: &str, ready: &str, reason: &str, guarded: u32, more: Value) -> Pool {
        let pending = if mode == "Observe" { json!(["label a on node b"]) } else { json!([]) };
        let mut conditions = vec![json!({ "type": "Ready", "status": ready, "reason": reason, "message": "words" })];
        conditions.extend(more.as_array().unwrap().clone());
        serde_json::from_value(json!({
            "metadata": { "name": "web", "generation": 2 },
            "spec": { "mode": mode },
            "status": {
                "observedGeneration": 2,
                "nodes": { "matched": 3, "guarded": guarded },
                "configs": [{ "inEffect": 1 }, { "inEffect": 2 }],
                "pending": { "first": pending },
                "conditions": conditions,
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_pool_has_settled_when_it_is_ready_and_all_its_nodes_are_guarded() {
        for (pool, delivered, expected) in [
            (pool("Enforce", "True", "AsSpecified", 3, json!([])), 3, None),
            (pool("Enforce", "True", "AsSpecified", 2, json!([])), 3, Some("pool web: 2 of 3 nodes are guarded")),
            (pool("Enforce", "False", "Refused", 3, json!([])), 3, Some("pool web is not Ready: Refused: words")),
            (pool("Observe", "False", "Observing", 0, json!([])), 3, None),
            (
                pool("Enforce", "True", "AsSpecified", 3, json!([])),
                4,
                Some("3 of 4 nodes show in their numbers that they took their configuration"),
            ),
        ] {
            assert_eq!(missing(&[pool], delivered).first().map(String::as_str), expected);
        }
        let mut stale = pool("Enforce", "True", "AsSpecified", 3, json!([]));
        stale.metadata.generation = 3;
        assert_eq!(missing(&[stale], 0), ["pool web has no status yet"]);
        assert_eq!(missing(&[], 0), ["there are no pools"]);
    }

    #[test]
    fn what_is_wrong_on_purpose_is_told_when_both_conditions_name_it() {
        let mistakes = Mistakes { pool: "web", class: "", fits: "" };
        let told = |images: &str, placed: &str| {
            let condition =
                |kind: &str, message: &str| json!({ "type": kind, "status": "x", "reason": "R", "message": message });
            let both = json!([condition("OSMismatch", images), condition("WorkloadsPlaced", placed)]);
            untold(&[pool("Enforce", "True", "AsSpecified", 3, both)], mistakes).len()
        };
        for (images, placed, untold) in [
            ("Deployment default/legacy: words", "R: DaemonSet default/agent: words", 0),
            ("Deployment default/legacy: words", "fine", 1),
            ("fine", "fine", 2),
        ] {
            assert_eq!(told(images, placed), untold, "{images}; {placed}");
        }
    }

    #[test]
    fn findings_know_which_conditions_are_good_and_which_are_bad_when_true() {
        let condition =
            |kind: &str, status: &str| json!({ "type": kind, "status": status, "reason": "R", "message": "m" });
        for (kind, status, found) in [
            ("VersionSkew", "True", true),
            ("VersionSkew", "False", false),
            ("OSMismatch", "True", true),
            ("OSMismatch", "Unknown", true),
            ("OSSupported", "True", false),
            ("OSSupported", "False", true),
            ("ConfigInEffect", "Unknown", true),
            ("WorkloadsPlaced", "False", true),
            ("WorkloadsPlaced", "Unknown", false),
            ("NodesConfigured", "False", true),
            ("Stalled", "True", false),
        ] {
            let findings = pool("Enforce", "True", "AsSpecified", 3, json!([condition(kind, status)])).findings();
            let expected = found.then(|| Finding { title: format!("{kind}={status} R"), message: "m".into() });
            assert_eq!(findings, Vec::from_iter(expected), "{kind}={status}");
        }
        let flags = json!([
            condition("OSMismatch", "True"),
            condition("ConfigInEffect", "False"),
            condition("NodesConfigured", "False")
        ]);
        let observed = pool("Observe", "False", "Observing", 0, flags).findings();
        let titles: Vec<_> = observed.iter().map(|finding| finding.title.as_str()).collect();
        assert_eq!(titles, ["OSMismatch=True R", "would change"]);
    }
}

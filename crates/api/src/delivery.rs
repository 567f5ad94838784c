//! `spec.delivery` of a pool: how the rendered configuration gets onto the nodes.

use derive_more::Display;
use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::{
    cluster_api::ClusterApi,
    pattern::{CRON, PERCENTAGE, TIME_ZONE, UP_TO_A_DAY},
    schema,
};

/// How the rendered configuration gets onto the nodes.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("(has(self.method) && self.method == 'ClusterAPI') == has(self.clusterAPI)")
        .message("write clusterAPI with method: ClusterAPI, and only with it"),
    validation = Rule::new("!has(self.drift) || self.drift != 'Reapply' || (has(self.method) && self.method == 'Agent')")
        .message("drift: Reapply needs agents: write method: Agent, or remove drift"),
    validation = Rule::new("!has(self.maintenanceWindows) || size(self.maintenanceWindows) == 0 || (has(self.method) && self.method != 'None')")
        .message("maintenanceWindows need a delivery by winpool: write method: Agent or ClusterAPI, or remove maintenanceWindows")
)]
pub struct Delivery {
    /// None: winpool only renders the configuration, and your own tool copies it. Agent: the node agent of
    /// config/agent applies, verifies and if necessary rolls back the configuration of each node. ClusterAPI: machines get
    /// it when they are created, from a KubeadmConfigTemplate. Example: Agent.
    #[serde(default)]
    pub method: DeliveryMethod,
    /// With method Agent: how many nodes change at a time, and when the rollout halts. Example:
    /// {maxUnavailable: "10%", maxFailures: 2}.
    #[serde(default)]
    pub rollout: RolloutSettings,
    /// With method Agent: what follows when something else changes files or services of a node whose configuration is applied.
    /// Report (default): ConfigInEffect names the node. Reapply: the configuration is applied again, within the limits of rollout, at most once
    /// in an hour on each node. Example: Reapply.
    // Without a default in the schema, so that stored pools stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftPolicy>,
    /// With methods Agent and ClusterAPI: when nodes may begin to change; without windows at any time. Outside of all windows no
    /// node is drained or gets another configuration, and no machines are replaced. What has begun is finished, and a new node
    /// gets its first configuration at once. Example: [{schedule: "0 22 * * SAT", duration: 6h, timeZone: Europe/Berlin}].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub maintenance_windows: Vec<MaintenanceWindow>,
    /// With method ClusterAPI: the machines, and what their templates contain.
    #[serde(default, rename = "clusterAPI", skip_serializing_if = "Option::is_none")]
    pub cluster_api: Option<ClusterApi>,
}

/// The method of delivery.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // explained at the field
pub enum DeliveryMethod {
    #[default]
    None,
    Agent,
    #[serde(rename = "ClusterAPI")]
    ClusterApi,
}

/// What follows when something else changes a node.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // explained at the field
pub enum DriftPolicy {
    #[default]
    Report,
    Reapply,
}

/// A recurring time in which nodes may begin to change.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceWindow {
    /// When it begins, as in a CronJob: minute, hour, day of month, month, day of week. Example: "0 22 * * SAT".
    #[schemars(length(min = 1, max = 128), regex(pattern = CRON.pattern))]
    pub schedule: String,
    /// How long it is open: minutes or hours, from 1m to 24h. Example: 6h.
    #[schemars(length(min = 1, max = 32), regex(pattern = UP_TO_A_DAY.pattern))]
    pub duration: String,
    /// The time zone of the schedule, a name of the IANA database. Example: Europe/Berlin.
    #[serde(default = "utc")]
    #[schemars(length(min = 1, max = 64), regex(pattern = TIME_ZONE.pattern))]
    pub time_zone: String,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// How a new configuration is rolled out to the nodes of a pool.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
// By its path, because the schema is derived from a copy of the type under another name.
#[serde(default = "RolloutSettings::default", rename_all = "camelCase")]
pub struct RolloutSettings {
    /// The number or percentage of the pool's nodes that may be unavailable, at least one node. A percentage is rounded
    /// down. Nodes that are not Ready, cordoned or under maintenance for any other cause count. Examples: 1, "25%".
    pub max_unavailable: NodeLimit,
    /// The number of nodes on which a configuration may fail. Then no further node gets it. Example: 1.
    #[schemars(range(min = 1, max = 1000))]
    pub max_failures: u32,
    /// How long, such as 10m, a node may take to drain, and then to apply and verify its configuration. Half of it is the time that the
    /// agent waits for the operator's confirmation before it rolls back. Minutes or hours, from 1m to 24h. Example: 10m.
    #[schemars(length(min = 1, max = 32), regex(pattern = UP_TO_A_DAY.pattern))]
    pub timeout: String,
    /// Whether pods are evicted from a node before it changes. IfNeeded: if its allocatable resources become less, or if it is a
    /// node of RKE2, where kubelet, containerd and kube-proxy restart together. Always:
    /// before every restart of a service. Never: pods keep running, and a kubelet that restarts with less resources may
    /// reject some of them. Example: IfNeeded.
    pub drain: DrainPolicy,
    /// The attempt. Raise it to apply a configuration again on the nodes where it failed, or where something else has changed files or
    /// services since. Example: 2.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub attempt: u32,
    /// While true, no further node begins to change. Nodes that have begun are finished. Example: false.
    pub paused: bool,
}

impl Default for RolloutSettings {
    fn default() -> Self {
        Self {
            max_unavailable: NodeLimit::default(),
            max_failures: 1,
            timeout: "10m".to_owned(),
            drain: DrainPolicy::default(),
            attempt: 1,
            paused: false,
        }
    }
}

/// Whether pods are evicted before a node changes.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // explained at the field
pub enum DrainPolicy {
    #[default]
    IfNeeded,
    Always,
    Never,
}

/// A number of nodes, or a percentage of the nodes of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Display)]
#[serde(try_from = "Value")]
pub enum NodeLimit {
    /// This number.
    Nodes(u32),
    /// This percentage, from 1 to 100.
    #[display("{_0}%")]
    Percent(u32),
}

impl Default for NodeLimit {
    fn default() -> Self {
        Self::Nodes(1)
    }
}

impl NodeLimit {
    /// The number of nodes of a pool with this many nodes: at least one, and a percentage rounded down.
    pub fn of(self, nodes: usize) -> usize {
        let limit = match self {
            Self::Nodes(number) => usize::try_from(number).unwrap_or(usize::MAX),
            Self::Percent(percent) => nodes.saturating_mul(usize::try_from(percent).unwrap_or_default()) / 100,
        };
        limit.max(1)
    }

    fn from_number(number: u64) -> Option<Self> {
        u32::try_from(number).ok().filter(|number| *number > 0).map(Self::Nodes)
    }

    fn from_text(text: &str) -> Option<Self> {
        let percent = text.strip_suffix('%')?;
        let plain = percent.bytes().all(|byte| byte.is_ascii_digit()) && !percent.starts_with('0');
        percent.parse().ok().filter(|percent| plain && (1..=100).contains(percent)).map(Self::Percent)
    }
}

impl Serialize for NodeLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nodes(number) => serializer.serialize_u32(*number),
            Self::Percent(_) => serializer.collect_str(self),
        }
    }
}

impl TryFrom<Value> for NodeLimit {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let limit = match &value {
            Value::Number(number) => number.as_u64().and_then(Self::from_number),
            Value::String(text) => Self::from_text(text),
            _ => None,
        };
        let expected = "a number of nodes of at least 1, or a percentage from \"1%\" to \"100%\"";
        limit.ok_or_else(|| schema::unexpected(&value, expected))
    }
}

impl JsonSchema for NodeLimit {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NodeLimit".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "minimum": 1,
            "maximum": 100_000,
            "maxLength": 4,
            "pattern": PERCENTAGE.pattern,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_limit_is_a_number_or_a_percentage_of_at_least_one_node() {
        let limit = |value: Value| serde_json::from_value::<NodeLimit>(value);
        for (written, of_0, of_3, of_10, of_1000) in [
            (json!(1), 1, 1, 1, 1),
            (json!(7), 7, 7, 7, 7),
            (json!("1%"), 1, 1, 1, 10),
            (json!("25%"), 1, 1, 2, 250),
            (json!("50%"), 1, 1, 5, 500),
            (json!("100%"), 1, 3, 10, 1000),
        ] {
            let parsed = limit(written.clone()).unwrap();
            assert_eq!([0, 3, 10, 1000].map(|nodes| parsed.of(nodes)), [of_0, of_3, of_10, of_1000], "{written}");
            assert_eq!(json!(parsed), written);
        }
        for wrong in
            [json!(0), json!(-1), json!("1"), json!("0%"), json!("01%"), json!("101%"), json!("+5%"), json!("%")]
        {
            let error = limit(wrong.clone()).unwrap_err().to_string();
            assert!(error.contains("a percentage from \"1%\" to \"100%\""), "{wrong}: {error}");
        }
    }

    #[test]
    fn without_settings_one_node_changes_at_a_time_and_one_failure_halts_the_rollout() {
        let delivery: Delivery = serde_json::from_value(json!({"method": "Agent"})).unwrap();
        assert_eq!(
            json!(delivery),
            json!({
                "method": "Agent",
                "rollout": {
                    "maxUnavailable": 1, "maxFailures": 1, "timeout": "10m", "drain": "IfNeeded", "attempt": 1, "paused": false,
                },
            })
        );
    }
}

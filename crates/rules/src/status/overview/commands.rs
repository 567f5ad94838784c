//! The commands that show or solve a problem.

use winpool_api::names::reason;

use crate::{
    pool::Pool,
    status::pool::{list_nodes, list_sentence},
};

/// Any type, or any reason.
const ANY: &str = "*";
const DESCRIBE: &str = "kubectl describe wnp {pool}";
const LOGS: &str = "kubectl -n {namespace} logs deployment/winpool --tail=50";
const NODES: &str = "{nodes} -o wide";
const WINDOWS_NODES: &str = "kubectl get nodes -l kubernetes.io/os=windows --show-labels";
const PLAN: &str = "winpool plan --pool {pool}";
const CONFIGS: &str = "kubectl get wnc -o wide";
const FACTS: &str = "kubectl get wnc -o custom-columns=NODE:.metadata.name,FACTS:.status.facts";
const EVENTS: &str = "kubectl get events -A --field-selector reason={reason}";
const MACHINES: &str = "kubectl -n {machines} get machinedeployments.cluster.x-k8s.io,machinesets.cluster.x-k8s.io,machines.cluster.x-k8s.io";

/// The commands by type and reason; the first row that matches counts.
#[rustfmt::skip]
const COMMANDS: &[(&str, &str, &[&str])] = &[
    ("Operator", ANY, &["kubectl -n {namespace} get pods -l app.kubernetes.io/name=winpool", LOGS]),
    (ANY, reason::LIST_REFUSED, &[LOGS]),
    (ANY, reason::WRITE_FAILED, &[LOGS]),
    ("ProfileResolved", reason::NOT_FOUND, &["kubectl get wrp"]),
    ("ProfileResolved", ANY, &["kubectl describe wrp {profile}"]),
    ("NodesAssigned", ANY, &[WINDOWS_NODES]),
    ("RuntimeClassReady", ANY, &["kubectl get runtimeclasses -o yaml --show-managed-fields"]),
    ("NodesTainted", reason::WOULD_STRAND_PODS, &[PLAN]),
    ("NodesTainted", ANY, &[NODES]),
    ("ConfigRendered", ANY, &["kubectl describe wrp {profile}"]),
    ("OSMismatch", reason::IMAGES_CANNOT_RUN, &[EVENTS]),
    ("OSMismatch", reason::PAUSE_IMAGE_CANNOT_RUN, &["kubectl describe wrp {profile}"]),
    ("OSMismatch", ANY, &[NODES]),
    ("VersionSkew", ANY, &[NODES]),
    ("OSSupported", ANY, &[NODES]),
    ("RuntimeSupported", ANY, &[NODES]),
    ("KnownIssues", ANY, &[NODES]),
    ("NodeHygiene", ANY, &[FACTS]),
    ("ConfigInEffect", reason::RENDERING_CHANGED, &[PLAN]),
    ("ConfigInEffect", ANY, &[CONFIGS]),
    ("MachinesTemplated", ANY, &[MACHINES]),
    ("WorkloadsPlaced", ANY, &[EVENTS]),
    (ANY, ANY, &[DESCRIBE]),
];

/// What the commands about a pool name.
pub struct Places<'a> {
    pool: &'a str,
    profile: Option<&'a str>,
    namespace: &'a str,
    machines: Option<&'a str>,
    /// The command that lists its nodes; `None` if its spec is invalid.
    nodes: Option<String>,
}

impl<'a> Places<'a> {
    pub fn new(pool: &'a Pool, namespace: &'a str) -> Self {
        let spec = pool.spec.as_ref().ok();
        Self {
            pool: &pool.name,
            profile: spec.and_then(|spec| spec.profile.as_deref()),
            namespace,
            machines: spec.and_then(|spec| Some(spec.cluster_api.as_ref()?.namespace.as_str())),
            nodes: spec.map(|spec| list_nodes(pool, spec)),
        }
    }

    /// A message of a condition, without the sentence that lists the nodes if the commands do that.
    pub fn message(&self, message: &str, commands: &[String]) -> String {
        let listed = self.nodes.as_ref().filter(|nodes| commands.iter().any(|command| command.starts_with(*nodes)));
        let before = listed.and_then(|nodes| message.strip_suffix(&format!(". {}", list_sentence(nodes))));
        before.unwrap_or(message).to_owned()
    }

    /// The commands for a type and reason. Those that name what the pool does not have are omitted.
    pub fn commands(&self, condition: &str, reason: &str) -> Vec<String> {
        let matches =
            |row: &&(&str, &str, &[&str])| [ANY, condition].contains(&row.0) && [ANY, reason].contains(&row.1);
        let commands = COMMANDS.iter().find(matches).map_or(&[][..], |(_, _, commands)| commands);
        commands.iter().filter_map(|command| self.filled(command, reason)).collect()
    }

    /// Every command that a problem of the pool may have.
    pub fn all(&self) -> impl Iterator<Item = String> {
        COMMANDS
            .iter()
            .flat_map(|(_, reason, commands)| commands.iter().filter_map(|command| self.filled(command, reason)))
    }

    fn filled(&self, command: &str, reason: &str) -> Option<String> {
        let values = [
            ("{pool}", Some(self.pool)),
            ("{profile}", self.profile),
            ("{namespace}", Some(self.namespace)),
            ("{machines}", self.machines),
            ("{nodes}", self.nodes.as_deref()),
            ("{reason}", Some(reason)),
        ];
        values
            .into_iter()
            .filter(|(place, _)| command.contains(place))
            .try_fold(command.to_owned(), |command, (place, value)| Some(command.replace(place, value?)))
    }
}

#[cfg(test)]
mod tests {
    use winpool_api::conditions::condition_type;

    use super::*;

    #[test]
    fn every_row_is_of_a_condition_with_this_reason() {
        for (condition, reason, commands) in COMMANDS {
            assert!(!commands.is_empty());
            if let Some(of) = condition_type(condition) {
                assert!(*reason == ANY || of.reason(reason).is_some(), "{condition}/{reason}");
            } else {
                assert!([ANY, "Operator"].contains(condition), "{condition}");
            }
        }
    }

    #[test]
    fn the_nodes_of_a_pool_that_does_not_write_are_listed_by_its_selector() {
        for (mode, selector) in
            [("Enforce", "winpool.dev/pool=web"), ("Observe", "kubernetes.io/os=windows,agentpool=web")]
        {
            let object = serde_json::json!({
                "metadata": { "name": "web" },
                "spec": { "windowsVersion": "ltsc2022", "nodeSelector": { "matchLabels": { "agentpool": "web" } }, "mode": mode },
            });
            let pool = Pool::from_object(serde_json::from_value(object).unwrap());
            let places = Places::new(&pool, "system");
            let commands = places.commands("OSMismatch", reason::NODE_BUILD_DIFFERS);
            assert_eq!(commands, [format!("kubectl get nodes -l {selector} -o wide")]);
            let sentence = format!("2 nodes differ. List the nodes: kubectl get nodes -l {selector}");
            assert_eq!(places.message(&sentence, &commands), "2 nodes differ");
            assert_eq!(places.message(&sentence, &[]), sentence);
        }
    }

    #[test]
    fn a_command_names_what_the_pool_has() {
        let places = Places { pool: "web", profile: None, namespace: "system", machines: Some("prod"), nodes: None };
        let table: [(&str, &str, &[&str]); 5] = [
            ("NodesTainted", reason::WOULD_STRAND_PODS, &["winpool plan --pool web"]),
            ("NodesTainted", reason::WRITE_FAILED, &["kubectl -n system logs deployment/winpool --tail=50"]),
            ("ProfileResolved", reason::INVALID, &[]),
            ("WorkloadsPlaced", "Unschedulable", &["kubectl get events -A --field-selector reason=Unschedulable"]),
            ("SpecValid", reason::INVALID, &["kubectl describe wnp web"]),
        ];
        for (condition, reason, expected) in table {
            assert_eq!(places.commands(condition, reason), expected, "{condition}/{reason}");
        }
    }
}

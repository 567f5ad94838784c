//! winpool-pods: pods that tolerate the taints of an enforced pool.

use serde_json::{Value, json};

use super::{
    ADMIN, ALLOWED, DAEMON_SETS, INVALID, KUBELET, PODS, Place, REPLICA_SETS, Request, Server, TENANT, pool, with,
};

pub const BY_PODS: &str = "winpool-pods";

/// An enforced pool with two taints.
pub fn pools() -> Vec<Value> {
    let taints = json!([
        {"key": "two", "value": "windows", "effect": "NoSchedule"}, {"key": "team", "value": "web", "effect": "NoExecute"},
        {"key": "soft", "value": "windows", "effect": "PreferNoSchedule"},
    ]);
    vec![pool("two", &json!({"taints": taints}))]
}

/// The creation of a pod.
pub fn create(user: &str, place: Place, spec: &Value) -> Request {
    let mut pod = json!({"metadata": {"name": "app"}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}});
    spec.as_object().unwrap().iter().for_each(|(field, value)| pod["spec"][field] = value.clone());
    Request::create(user, place, &pod)
}

/// A required affinity to nodes.
pub fn affinity(terms: &[Value]) -> Value {
    let required = json!({"nodeSelectorTerms": terms});
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})
}

/// A term with one expression.
pub fn term(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
}

/// The term for one node.
pub fn one_node() -> Value {
    json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["win-1"]}]})
}

/// Pods that tolerate the taint `<key>=windows:NoSchedule` in many ways, and their outcomes if a pool has it.
fn pods(key: &str) -> Vec<(String, &'static str, Value)> {
    let taint = || json!({"key": key, "value": "windows", "effect": "NoSchedule"});
    let of_key = || json!({"key": key, "operator": "Exists"});
    // The API server itself adds two tolerations to each pod.
    let fillers = |count: usize| -> Vec<Value> {
        let filler = |index| json!({"key": format!("filler-{index}"), "operator": "Exists"});
        (0..count).map(filler).chain([taint()]).collect()
    };
    let by_tolerations = [
        ("a toleration of the taint", BY_PODS, json!([taint()])),
        ("a toleration of the key", BY_PODS, json!([of_key()])),
        ("a toleration without operator and effect", BY_PODS, json!([{"key": key, "value": "windows"}])),
        ("a toleration of everything and one of the key", BY_PODS, json!([{"operator": "Exists"}, of_key()])),
        ("a toleration among fillers", BY_PODS, json!(fillers(97))),
        ("more tolerations than a real pod has", BY_PODS, json!(fillers(98))),
        // kube-proxy and network plugins on all nodes.
        ("a toleration of everything", ALLOWED, json!([{"operator": "Exists"}])),
        ("a toleration of every NoSchedule", ALLOWED, json!([{"operator": "Exists", "effect": "NoSchedule"}])),
        ("a toleration of another value", ALLOWED, json!([{"key": key, "value": "Windows"}])),
        ("a toleration of another effect", ALLOWED, json!([{"key": key, "operator": "Exists", "effect": "NoExecute"}])),
        ("a toleration of the key in upper case", ALLOWED, json!([{"key": key.to_uppercase(), "operator": "Exists"}])),
        ("a toleration with an operator for numbers", INVALID, json!([{"key": key, "operator": "Gt", "value": "5"}])),
        ("other tolerations", ALLOWED, json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}])),
        ("no toleration", ALLOWED, json!([])),
    ];
    let by_selection = [
        ("os.name", ALLOWED, json!({"os": {"name": "windows"}})),
        ("a selector of the system", ALLOWED, json!({"nodeSelector": {"kubernetes.io/os": "linux"}})),
        ("a selector of the deprecated label", ALLOWED, json!({"nodeSelector": {"beta.kubernetes.io/os": "windows"}})),
        ("a selector of a build", ALLOWED, json!({"nodeSelector": {"node.kubernetes.io/windows-build": "10.0.20348"}})),
        ("a selector of a pool", ALLOWED, json!({"nodeSelector": {"winpool.dev/pool": "web"}})),
        ("a selector of a release", ALLOWED, json!({"nodeSelector": {"runs.winpool.dev/ltsc2022": "true"}})),
        ("another selector", BY_PODS, json!({"nodeSelector": {"disk": "ssd"}})),
        ("a selector in upper case", BY_PODS, json!({"nodeSelector": {"kubernetes.io/OS": "windows"}})),
        // The plugin RuntimeClass merges selector and tolerations of the class before policies are evaluated.
        ("a RuntimeClass of a pool", ALLOWED, json!({"runtimeClassName": "windows-ltsc2022"})),
        ("a pod of a kubelet", ALLOWED, json!({"nodeName": "win-1"})),
        ("an affinity to pods", BY_PODS, json!({"affinity": {"podAffinity": {}}})),
    ];
    const OS: &str = "kubernetes.io/os";
    let filled: Vec<Value> = (0..101).map(|_| term(OS, "In", &["linux"])).collect();
    let by_affinity = [
        ("to one system", ALLOWED, vec![term(OS, "In", &["linux"])]),
        ("to one system by the deprecated label", ALLOWED, vec![term("beta.kubernetes.io/os", "In", &["windows"])]),
        ("to one system in each term", ALLOWED, vec![term(OS, "In", &["linux"]), term(OS, "In", &["windows"])]),
        ("to a build", ALLOWED, vec![term("node.kubernetes.io/windows-build", "In", &["10.0.20348"])]),
        ("to any pool", ALLOWED, vec![term("winpool.dev/pool", "Exists", &[])]),
        ("to a release", ALLOWED, vec![term("runs.winpool.dev/ltsc2022", "Exists", &[])]),
        ("to any system", BY_PODS, vec![term(OS, "Exists", &[])]),
        ("to two systems", BY_PODS, vec![term(OS, "In", &["linux", "windows"])]),
        ("to other systems", BY_PODS, vec![term(OS, "NotIn", &["plan9"])]),
        ("to no system", BY_PODS, vec![term(OS, "DoesNotExist", &[])]),
        ("to a system by number", BY_PODS, vec![term(OS, "Gt", &["1"])]),
        ("to no release", BY_PODS, vec![term("runs.winpool.dev/x", "DoesNotExist", &[])]),
        ("to no pool", BY_PODS, vec![term("winpool.dev/pool", "NotIn", &["web"])]),
        ("to one node", BY_PODS, vec![one_node()]),
        ("with a term without system", BY_PODS, vec![term(OS, "In", &["linux"]), term("disk", "Exists", &[])]),
        ("with more terms than a real pod has", BY_PODS, filled),
    ];
    let tolerating = |spec: Value| with(spec, &["tolerations"], json!([taint()]));
    let by_tolerations =
        by_tolerations.map(|(what, expected, all)| (what.to_owned(), expected, json!({"tolerations": all})));
    let by_selection = by_selection.map(|(what, expected, spec)| (what.to_owned(), expected, tolerating(spec)));
    let by_affinity = by_affinity.map(|(what, expected, terms)| {
        (format!("an affinity {what}"), expected, tolerating(json!({"affinity": affinity(&terms)})))
    });
    by_tolerations.into_iter().chain(by_selection).chain(by_affinity).collect()
}

#[tokio::test]
async fn a_pod_that_tolerates_the_taints_of_a_pool_by_key_selects_an_operating_system() {
    let server = Server::get().await;
    let mut rows = Vec::new();
    for (case, expected, spec) in pods("os") {
        for user in [TENANT, ADMIN, REPLICA_SETS, DAEMON_SETS, KUBELET] {
            rows.push((case.clone(), create(user, PODS, &spec), expected));
        }
    }
    for key in ["observed", "paused", "deleting", "absent"] {
        for (case, expected, spec) in pods(key) {
            // So many tolerations are rejected whatever they are, while any pool is enforced.
            let any = case == "more tolerations than a real pod has" || expected == INVALID;
            rows.push((format!("{key}: {case}"), create(TENANT, PODS, &spec), if any { expected } else { ALLOWED }));
        }
    }
    server.outcomes(rows).await;
}

#[tokio::test]
async fn a_pod_that_tolerates_a_part_of_the_taints_of_a_pool_is_not_concerned() {
    let server = Server::get().await;
    let (two, team) = (json!({"key": "two", "operator": "Exists"}), json!({"key": "team", "operator": "Exists"}));
    let every = json!({"operator": "Exists"});
    let rows = [
        ("one taint", ALLOWED, json!([two])),
        ("the other taint", ALLOWED, json!([team])),
        ("both", BY_PODS, json!([two, team])),
        ("both, and the one of PreferNoSchedule", BY_PODS, json!([two, team, {"key": "soft", "operator": "Exists"}])),
        ("one by its key and everything", BY_PODS, json!([two, every])),
        ("the one of PreferNoSchedule and everything", ALLOWED, json!([{"key": "soft", "operator": "Exists"}, every])),
    ];
    let request = |tolerations: Value| create(TENANT, PODS, &json!({"tolerations": tolerations}));
    server.outcomes(rows.map(|(what, expected, tolerations)| (what, request(tolerations), expected))).await;
}

//! Every admission policy on the API server: requests of every user, as dry runs, and their outcomes. All policies are installed with
//! `failurePolicy: Fail`, so that an error in an expression is an outcome too: with `Ignore` it would only make the policy ineffective.

mod agents;
mod bypasses;
mod classes;
mod costs;
mod created;
mod nodes;
mod operator;
mod plans;
mod pods;
mod types;
mod users;

use std::{collections::HashMap, fs, future::ready, sync::Arc, time::Duration};

use anyhow::ensure;
use e2e::{
    cluster::SOON,
    control_plane::{ControlPlane, Options},
    install::path,
    requests::{self, Requests},
    shared::Shared,
    wait::eventually,
};
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use winpool::admission_policies::{FIRST_WITH_MUTATING, MUTATING, Policy, VALIDATING};
use winpool_api::names::DEFAULT_NAMESPACE;
use winpool_facts::node_restriction::KUBELET_LABELS;
use winpool_model as model;

const OPERATOR: &str = "system:serviceaccount:winpool-system:winpool";
const AGENT: &str = "system:serviceaccount:winpool-agent:winpool-agent";
const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";
const NODE_CONTROLLER: &str = "system:serviceaccount:kube-system:node-controller";
const ROUTE_CONTROLLER: &str = "system:serviceaccount:kube-system:route-controller";
const CLOUD_CONTROLLER: &str = "system:serviceaccount:kube-system:cloud-node-controller";
const AUTOSCALER: &str = "system:serviceaccount:kube-system:cluster-autoscaler";
const REPLICA_SETS: &str = "system:serviceaccount:kube-system:replicaset-controller";
const DAEMON_SETS: &str = "system:serviceaccount:kube-system:daemon-set-controller";
const KUBELET: &str = "system:node:win-1";
const ADMIN: &str = "kubernetes-admin";
const TENANT: &str = "jane";
/// Everyone except the operator.
const OTHERS: [&str; 7] = [KUBELET, NODE_CONTROLLER, CLOUD_CONTROLLER, AUTOSCALER, COLLECTOR, ADMIN, TENANT];

/// Every user, with the outcome of what is the operator's alone.
fn for_everyone(of_others: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    OTHERS.into_iter().map(move |user| (user, of_others)).chain([(OPERATOR, ALLOWED)])
}

/// The outcomes besides the name of the policy that rejects the request.
const ALLOWED: &str = "";
/// The API server itself takes no such object, whatever the policies say.
const INVALID: &str = "invalid";

/// Where the objects of a kind are, with their API version and kind.
#[derive(Clone, Copy)]
struct Place(&'static str, &'static str, &'static str);

const NODES: Place = Place("/api/v1/nodes", "v1", "Node");
const PODS: Place = Place("/api/v1/namespaces/default/pods", "v1", "Pod");
const SHOP: Place = Place("/api/v1/namespaces/shop/pods", "v1", "Pod");
const MAPS: Place = Place("/api/v1/namespaces/winpool-system/configmaps", "v1", "ConfigMap");
const CLASSES: Place = Place("/apis/node.k8s.io/v1/runtimeclasses", "node.k8s.io/v1", "RuntimeClass");
const POOLS: Place = Place("/apis/winpool.dev/v1alpha1/windowsnodepools", "winpool.dev/v1alpha1", "WindowsNodePool");
const CONFIGS: Place =
    Place("/apis/winpool.dev/v1alpha1/windowsnodeconfigs", "winpool.dev/v1alpha1", "WindowsNodeConfig");

/// What a user sends to the API server; [`Server::send`] makes it a dry run.
#[derive(Clone)]
struct Request {
    user: String,
    /// The name and the UID of the node in the token of the user.
    token_of: Option<(&'static str, Option<&'static str>)>,
    method: &'static str,
    content: &'static str,
    path: String,
    body: Value,
}

impl Request {
    fn new(user: &str, method: &'static str, path: String, body: Value) -> Self {
        let content = "application/json";
        Self { user: user.to_owned(), token_of: None, method, content, path, body }
    }

    fn create(user: &str, place: Place, object: &Value) -> Self {
        Self::new(user, "POST", place.0.to_owned(), identified(place, object))
    }

    /// The replacement of a stored object.
    fn replace(user: &str, place: Place, stored: &Value, object: &Value) -> Self {
        let mut body = identified(place, object);
        for field in ["name", "resourceVersion"] {
            body["metadata"][field] = stored["metadata"][field].clone();
        }
        Self::new(user, "PUT", path_of(place, stored), body)
    }

    /// The replacement of the status of a stored object.
    fn replace_status(user: &str, place: Place, stored: &Value, object: &Value) -> Self {
        let request = Self::replace(user, place, stored, object);
        Self { path: format!("{}/status", request.path), ..request }
    }

    fn delete(user: &str, place: Place, stored: &Value) -> Self {
        Self::new(user, "DELETE", path_of(place, stored), Value::Null)
    }

    /// The patch of a stored object in a format, such as `merge-patch+json`.
    fn patch(user: &str, place: Place, stored: &Value, content: &'static str, body: Value) -> Self {
        Self { content, ..Self::new(user, "PATCH", path_of(place, stored), body) }
    }
}

fn path_of(Place(path, ..): Place, stored: &Value) -> String {
    format!("{path}/{}", stored["metadata"]["name"].as_str().unwrap())
}

fn identified(Place(_, version, kind): Place, object: &Value) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = json!(version);
    object["kind"] = json!(kind);
    object
}

/// The answer to a request.
#[derive(Debug)]
struct Answer {
    /// The policy that rejects it, or [`ALLOWED`] or [`INVALID`]; with the message of a policy that failed.
    outcome: String,
    object: Value,
}

/// A client of one test for an API server with all policies, and with the pools and classes that the tables speak of.
struct Server {
    requests: Requests,
    shared: Arc<SharedServer>,
}

/// What the tests use together.
struct SharedServer {
    control_plane: ControlPlane,
    /// The stored objects, by what they were stored from.
    stored: Mutex<HashMap<String, Value>>,
}

impl Server {
    async fn get() -> Self {
        static SHARED: Shared<SharedServer> = Shared::new();
        Self::of(SHARED.get(async || Ok(Self::started().await)).await.unwrap()).await
    }

    /// A server that no other test uses.
    async fn own() -> Self {
        Self::of(Arc::new(Self::started().await)).await
    }

    async fn of(shared: Arc<SharedServer>) -> Self {
        Self { requests: Requests::to(&shared.control_plane).await.unwrap(), shared }
    }

    async fn started() -> SharedServer {
        let options = Options { agents: true, ..Options::api_server_only() };
        let control_plane = ControlPlane::start_installed(options).await.unwrap();
        let server = Self::of(Arc::new(SharedServer { control_plane, stored: Mutex::default() })).await;
        let shop =
            json!({"metadata": {"name": "shop", "labels": {"winpool.dev/default-runtime-class": "windows-ltsc2022"}}});
        server.admin_creates("/api/v1/namespaces", &identified(Place("", "v1", "Namespace"), &shop)).await;
        for class in classes::stored() {
            server.store(CLASSES, &class).await;
        }
        let pools = classes::pools().into_iter().chain(pods::pools()).chain(created::pools()).chain([web()]);
        for pool in pools {
            server.store(POOLS, &pool).await;
        }
        server.install().await;
        let Self { shared, .. } = server;
        Arc::into_inner(shared).unwrap()
    }

    /// Whether the API server has mutating policies.
    fn mutates(&self) -> bool {
        self.shared.control_plane.version().minor >= FIRST_WITH_MUTATING.0
    }

    fn mutating(&self) -> &'static [Policy] {
        if self.mutates() { MUTATING } else { &[] }
    }

    /// Installs all policies that the API server has, and waits until each is enforced.
    async fn install(&self) {
        let all = [objects(VALIDATING), objects(self.mutating()), agents::policies()].concat();
        for mut object in all {
            if object["spec"]["failurePolicy"].is_string() {
                object["spec"]["failurePolicy"] = json!("Fail");
            }
            let kind = object["kind"].as_str().unwrap().to_lowercase();
            let plural = kind.strip_suffix('y').map_or(format!("{kind}s"), |stem| format!("{stem}ies"));
            self.admin_creates(&format!("/apis/admissionregistration.k8s.io/v1/{plural}"), &object).await;
        }
        let enforced = || async {
            for (policy, request) in users::of_each_policy(self).await {
                let answer = self.send(&request).await;
                ensure!(users::effect(&answer) == policy, "{policy}: {answer:?}");
            }
            Ok(())
        };
        eventually("the policies are enforced", SOON + Duration::from_secs(30), enforced).await.unwrap();
    }

    async fn admin_creates(&self, path: &str, object: &Value) -> Value {
        let (status, body) = self.requests.create(path, object).await.unwrap();
        assert_eq!(status, 201, "{path}: {body}");
        body
    }

    /// The object in the API server, which is stored by the first call: with its status, and being deleted if it has a deletion
    /// timestamp. No policy concerns the creation of these objects. Without a name it gets one.
    async fn store(&self, place: Place, object: &Value) -> Value {
        let key = format!("{} {object}", place.0);
        let mut all = self.shared.stored.lock().await;
        if let Some(stored) = all.get(&key) {
            return stored.clone();
        }
        let mut new = identified(place, object);
        if new["metadata"]["name"].is_null() {
            new["metadata"]["generateName"] = json!("row-");
        }
        let deleting = new["metadata"].as_object_mut().unwrap().remove("deletionTimestamp").is_some();
        if deleting {
            new["metadata"]["finalizers"] = json!(["example.com/held"]);
        }
        let request = Request::new(OPERATOR, "POST", place.0.to_owned(), new);
        let (code, mut stored) = self.exchange(&request).await;
        assert_eq!(code, 201, "{object}: {}", stored["message"]);
        if deleting {
            (_, stored) = self.requests.delete(&path_of(place, &stored)).await.unwrap();
            assert!(stored["metadata"]["deletionTimestamp"].is_string(), "{stored}");
        }
        if place.0 == POOLS.0 && !object["status"].is_null() {
            stored["status"] = object["status"].clone();
            let path = format!("{}/status", path_of(place, &stored));
            (_, stored) = self.requests.replace(&path, &stored).await.unwrap();
            assert_eq!(stored["status"]["nodes"], object["status"]["nodes"], "{stored}");
        }
        all.insert(key, stored.clone());
        stored
    }

    /// The answer to a request, which changes nothing.
    async fn send(&self, request: &Request) -> Answer {
        let (path, and) = (&request.path, if request.path.contains('?') { '&' } else { '?' });
        let (code, object) =
            self.exchange(&Request { path: format!("{path}{and}dryRun=All"), ..request.clone() }).await;
        let message = object["message"].as_str().unwrap_or_default();
        let policy = message.split("Policy '").nth(1).and_then(|rest| rest.split('\'').next());
        let failed = ["resulted in error", "failed to", "budget", "error"].iter().any(|text| message.contains(text));
        let outcome = match (code, policy) {
            (200 | 201, _) => ALLOWED.to_owned(),
            (_, Some(policy)) if !failed => policy.to_owned(),
            (422, None) => INVALID.to_owned(),
            _ => format!("{code}: {message}"),
        };
        Answer { outcome, object }
    }

    async fn exchange(&self, request: &Request) -> requests::Answer {
        let mut sent = http::Request::builder()
            .method(request.method)
            .uri(&request.path)
            .header("Content-Type", request.content)
            .header("Impersonate-User", &request.user)
            .header("Impersonate-Group", "system:masters");
        if let Some((name, uid)) = request.token_of {
            const EXTRA: &str = "Impersonate-Extra-authentication.kubernetes.io%2f";
            sent = sent.header(format!("{EXTRA}node-name"), name);
            sent = uid.into_iter().fold(sent, |sent, uid| sent.header(format!("{EXTRA}node-uid"), uid));
        }
        self.requests.exchange(sent, &request.body).await.unwrap()
    }

    /// Sends each request, and compares its outcome.
    async fn outcomes(&self, rows: impl IntoIterator<Item = (impl Into<String>, Request, &'static str)>) {
        let sent = rows.into_iter().map(move |(what, request, expected)| {
            let what: String = what.into();
            async move {
                let Answer { outcome, object } = self.send(&request).await;
                let (user, message) = (request.user, &object["message"]);
                (outcome != expected).then(|| format!("{user}: {what}: {outcome:?} instead of {expected:?}: {message}"))
            }
        });
        let wrong: Vec<String> = stream::iter(sent).buffered(8).filter_map(ready).collect().await;
        assert!(wrong.is_empty(), "{}: {wrong:#?}", wrong.len());
    }
}

/// The objects of policies.
fn objects(policies: &[Policy]) -> Vec<Value> {
    let texts = policies.iter().map(|policy| policy.yaml(DEFAULT_NAMESPACE, FIRST_WITH_MUTATING));
    texts.flat_map(|text| serde_saphyr::from_multiple::<Value>(&text).unwrap()).collect()
}

/// The objects in a file of `config`.
fn documents(file: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&fs::read_to_string(path("config/".to_owned() + file)).unwrap()).unwrap()
}

/// A pool, with other fields in its spec.
fn pool(name: &str, spec: &Value) -> Value {
    let mut pool = json!({
        "metadata": {"name": name},
        "spec": {
            "windowsVersion": "ltsc2022",
            "nodeSelector": {"matchLabels": {"agentpool": name}},
            "taints": [],
        },
    });
    spec.as_object().unwrap().iter().for_each(|(field, value)| pool["spec"][field] = value.clone());
    pool
}

fn deleting(mut pool: Value) -> Value {
    pool["metadata"]["deletionTimestamp"] = json!("2026-06-01T12:00:00Z");
    pool
}

/// The default taint of a pool.
fn os() -> Value {
    json!({"key": "os", "value": "windows", "effect": "NoSchedule"})
}

/// The labels that kubelets and cloud controllers write, without those of the system.
fn labels_of_others() -> impl Iterator<Item = &'static str> {
    KUBELET_LABELS.into_iter().filter(|label| !label.ends_with("/os") && !label.ends_with("/arch"))
}

/// The enforced pool of the tables. Its labels are also those that kubelets and cloud controllers write.
fn web() -> Value {
    let mut labels = json!({"team": "web"});
    let others = labels_of_others().filter(|label| *label != "kubernetes.io/hostname");
    others.for_each(|label| labels[label] = json!("of-pool"));
    let mut pool = pool("web", &json!({"taints": [os()], "labels": labels}));
    pool["status"] = classes::status("windows");
    pool
}

/// A node of a pool, with a taint, labels and annotations of others.
fn node_of(pool: &str) -> Value {
    json!({
        "metadata": {
            "labels": {
                "kubernetes.io/os": "windows", "winpool.dev/pool": pool, "runs.winpool.dev/ltsc2022": "true",
                "team": "web", "zone": "a",
            },
            "annotations": {"winpool.dev/owned": "{}", "winpool.dev/config": "web-1", "example.com/note": "keep"},
        },
        "spec": {"taints": [os(), {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
    })
}

/// A node of the enforced pool.
fn node() -> Value {
    node_of("web")
}

/// A value with another one, or nothing, at a path.
fn with(mut object: Value, path: &[&str], value: Value) -> Value {
    let (last, parents) = path.split_last().unwrap();
    let parent = parents.iter().fold(&mut object, |object, field| &mut object[*field]);
    match value {
        Value::Null => drop(parent.as_object_mut().map(|fields| fields.remove(*last))),
        value => parent[*last] = value,
    }
    object
}

//! The writer of all objects except events and the key of the ownership records.

mod machines;

use std::{borrow::Cow, fmt::Debug, future::Future, time::Duration};

use futures::{StreamExt, stream};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Node, Pod},
    node::v1::RuntimeClass,
};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
    core::{ObjectMeta, PartialObjectMeta, Request, request},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tracing::{Instrument, field::Empty, info_span};
use winpool_api::{WindowsNodeConfig, WindowsNodePool, WindowsRuntimeProfile, names::manager};
use winpool_core::{
    node::WindowsNode,
    operation::{
        AfterFailure, Done, ErrorCause, EvictedPod, NodePatch, Operation, Outcome, Parts, Shortfall, TaintPart,
        Unwritten, WriteError,
    },
    pool::{ConfigMapView, NodeConfigView, Pool, ProfileView, RuntimeClassView},
    workload,
};

use super::{View, claim::NotLeader, client::with_deadline, deadline::DeadlineExceeded, explain, is, status_code};
use crate::admin::Metrics;

/// How long a write may take, including waits for a permit and retries after 429.
const LIMIT: Duration = Duration::from_secs(30);
/// How many operations of one step run at once.
const CONCURRENCY: usize = 16;

/// Sends operations to the API server.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    namespace: String,
    metrics: Metrics,
}

/// A custom resource of winpool, for writing its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A WindowsNodePool.
    Pool,
    /// A WindowsRuntimeProfile.
    Profile,
}

impl Resource {
    /// The kind, as Kubernetes spells it.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Pool => Pool::KIND,
            Self::Profile => ProfileView::KIND,
        }
    }

    fn api(self) -> ApiResource {
        match self {
            Self::Pool => ApiResource::erase::<WindowsNodePool>(&()),
            Self::Profile => ApiResource::erase::<WindowsRuntimeProfile>(&()),
        }
    }
}

/// The version of an object after a write: a cache with this version contains the write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenVersion {
    /// The kind of the object.
    pub kind: &'static str,
    /// The name of the object.
    pub name: String,
    /// The resource version; `None` when the object was deleted.
    pub version: Option<String>,
}

impl Writer {
    /// A writer with this client. ConfigMaps are written to the namespace.
    pub fn new(client: Client, namespace: String, metrics: Metrics) -> Self {
        Self { client, namespace, metrics }
    }

    /// The same writer with a deadline. Operations after the deadline are not sent and end with [`Outcome::Conflict`].
    pub fn with_deadline(&self, deadline: Instant) -> Self {
        Self { client: with_deadline(&self.client, deadline), ..self.clone() }
    }

    /// Runs the steps of a plan in order, and the operations of one step concurrently.
    ///
    /// After a failure, later steps skip the object that could not be written, and operations that depend on it. `written` has
    /// the versions that earlier steps of the plan have left, and gets those of these steps.
    pub async fn run(
        &self,
        steps: &[Vec<Operation>],
        after_failure: AfterFailure,
        written: &mut Vec<WrittenVersion>,
    ) -> Done {
        let mut done = Done { results: Vec::new(), complete: true };
        let mut unwritten = Unwritten::default();
        for step in steps {
            let mut operations = step.clone();
            operations.retain(|operation| operation.is_permitted(&unwritten));
            let requests = operations.into_iter().enumerate().map(|(position, operation)| {
                let (writer, unwritten, written) = (self, &unwritten, written.as_slice());
                async move {
                    let (outcome, version) = writer.perform(&operation, unwritten, written).await;
                    (position, operation, outcome, version)
                }
            });
            // Unordered, so that a slow request does not delay later ones.
            let mut results: Vec<_> = stream::iter(requests).buffer_unordered(CONCURRENCY).collect().await;
            results.sort_unstable_by_key(|(position, ..)| *position);
            for (_, operation, outcome, version) in results {
                if !succeeded(&outcome) {
                    done.complete = false;
                    unwritten.add(operation.target(), operation.object());
                }
                done.results.push((operation, outcome));
                written.extend(version);
            }
            if !done.complete && after_failure == AfterFailure::Stop {
                break;
            }
        }
        done
    }

    /// Applies the status of a custom resource of winpool to the version in the body, or to the one that these writes left.
    pub async fn write_status(
        &self,
        resource: Resource,
        name: &str,
        body: &Value,
        written: &[WrittenVersion],
    ) -> Written {
        let body = with_own_version(body, resource.kind(), name, written);
        let request = self.apply_status(resource, name, &body);
        self.send("write-status", resource.kind(), name, Intent::Change, request).await
    }

    async fn perform(&self, operation: &Operation, unwritten: &Unwritten, written: &[WrittenVersion]) -> Written {
        let label = operation.kind();
        match operation {
            Operation::AddFinalizer { pool, resource_version, finalizers } => {
                let request = self.set_finalizers(pool, resource_version, finalizers);
                self.send(label, Pool::KIND, pool, Intent::Change, request).await
            }
            Operation::RemoveFinalizer { pool, resource_version, finalizers } => {
                let request = self.set_finalizers(pool, resource_version, finalizers);
                // The pool may be deleted with its last finalizer, so there may be no version to wait for.
                (self.send(label, Pool::KIND, pool, Intent::Change, request).await.0, None)
            }
            Operation::RecordApplied { pool, body } => {
                let body = with_own_version(body, Pool::KIND, pool, written);
                let request = self.apply_status(Resource::Pool, pool, &body);
                self.send(label, Pool::KIND, pool, Intent::Change, request).await
            }
            Operation::ApplyRuntimeClass { name, body, .. } if is_new(body) => {
                let request = create(&self.client, self.runtime_classes(), body);
                self.send(label, RuntimeClassView::KIND, name, Intent::Apply, request).await
            }
            Operation::ApplyRuntimeClass { name, body, .. } => {
                let body = with_own_version(body, RuntimeClassView::KIND, name, written);
                let request = apply(self.runtime_classes(), name, &body);
                self.send(label, RuntimeClassView::KIND, name, Intent::Apply, request).await
            }
            Operation::StripRuntimeClass { name, body } => {
                let body = with_own_version(body, RuntimeClassView::KIND, name, written);
                let request = merge(self.runtime_classes(), manager::OBJECTS, name, &body);
                self.send(label, RuntimeClassView::KIND, name, Intent::Change, request).await
            }
            Operation::DeleteRuntimeClass { name, uid } => {
                let request = delete(self.runtime_classes(), name, uid);
                self.send(label, RuntimeClassView::KIND, name, Intent::Change, request).await
            }
            Operation::CreateConfigMap { name, body } => {
                let request = create(&self.client, self.config_maps(), body);
                self.send(label, ConfigMapView::KIND, name, Intent::Create, request).await
            }
            Operation::DeleteConfigMap { name, uid } => {
                let request = delete(self.config_maps(), name, uid);
                self.send(label, ConfigMapView::KIND, name, Intent::Change, request).await
            }
            Operation::PatchNode(patch) => self.patch_node(label, patch, unwritten).await,
            Operation::ApplyNodeConfig { name, body, .. } if is_new(body) => {
                let request = create(&self.client, self.node_configs(), body);
                self.send(label, NodeConfigView::KIND, name, Intent::Apply, request).await
            }
            Operation::ApplyNodeConfig { name, body, .. } => {
                let request = apply(self.node_configs(), name, body);
                self.send(label, NodeConfigView::KIND, name, Intent::Apply, request).await
            }
            Operation::DeleteNodeConfig { name, uid } => {
                let request = delete(self.node_configs(), name, uid);
                self.send(label, NodeConfigView::KIND, name, Intent::Change, request).await
            }
            Operation::CordonNode { node, body } | Operation::UncordonNode { node, body } => {
                let api: Api<Node> = Api::all(self.client.clone());
                let request = merge(api, manager::NODES, node, body);
                self.send(label, WindowsNode::KIND, node, Intent::Change, request).await
            }
            Operation::CreateMachineObject { object, body } => {
                let request = machines::create(&self.client, object, body);
                self.send(label, machines::kind(object), &object.key, Intent::Apply, request).await
            }
            Operation::PatchMachineObject { object, body, .. } => {
                let api = machines::api(&self.client, object);
                let request = merge(api, manager::MACHINES, &object.name, body);
                self.send(label, machines::kind(object), &object.key, Intent::Change, request).await
            }
            Operation::DeleteMachineObject { object, uid } => {
                let request = machines::delete(&self.client, object, uid.as_deref());
                self.send(label, machines::kind(object), &object.key, Intent::Change, request).await
            }
            Operation::EvictPod(pod) => {
                let request = self.evict(pod);
                // Pods are not waited for: one that is evicted terminates first.
                (self.send(label, workload::Pod::KIND, &pod.key, Intent::Evict, request).await.0, None)
            }
        }
    }

    /// Evicts a pod. The API server answers 429 if a PodDisruptionBudget does not allow it now.
    async fn evict(&self, pod: &EvictedPod) -> kube::Result<Option<String>> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        // `Api::evict` does not send the precondition: it names the field `delete_options`.
        let params = PostParams { field_manager: Some(manager::NODES.to_owned()), ..PostParams::default() };
        api.create_subresource::<Value, Value>("eviction", &pod.name, &params, &pod.body()).await.map(|_| None)
    }

    fn node_configs(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &ApiResource::erase::<WindowsNodeConfig>(&()))
    }

    /// Patches a node with all parts that do not depend on an unwritten object. If admission rejects the patch, it is
    /// sent again without the taints.
    async fn patch_node(&self, label: &'static str, patch: &NodePatch, unwritten: &Unwritten) -> Written {
        let attempt = async |label, parts| {
            let body = patch.body(parts);
            let api: Api<Node> = Api::all(self.client.clone());
            let request = merge(api, manager::NODES, &patch.node, &body);
            self.send(label, WindowsNode::KIND, &patch.node, Intent::Change, request).await
        };
        let (parts, dependency) = patch.writable(unwritten);
        let done = match dependency {
            Some((target, name)) => Outcome::Partly { written: parts, why: Shortfall::Waits(target, name) },
            None => Outcome::Done,
        };
        if !patch.change.has(parts) {
            return (done, None);
        }
        let (outcome, version) = attempt(label, parts).await;
        let refusal = match &outcome {
            Outcome::Refused(error) if patch.may_leave_taints() && !error.message.contains(PATCH_FORBIDDEN) => error,
            Outcome::Done => return (done, version),
            _ => return (outcome, version),
        };
        let parts = Parts { taints: TaintPart::None, ..parts };
        let refused = Outcome::Partly { written: parts, why: Shortfall::Refused(refusal.clone()) };
        if !patch.change.has(parts) {
            return (refused, None);
        }
        match attempt("patch-node-without-taints", parts).await {
            (Outcome::Done, version) => (refused, version),
            // The taints are not the reason: set only them, because they exclude Linux pods.
            (Outcome::Refused(_), _) => match attempt("patch-node-with-taints-alone", Parts::TAINTS).await {
                (Outcome::Done, version) => {
                    (Outcome::Partly { written: Parts::TAINTS, why: Shortfall::Refused(refusal.clone()) }, version)
                }
                _ => (outcome, None),
            },
            other => other,
        }
    }

    async fn set_finalizers(
        &self,
        pool: &str,
        resource_version: &str,
        finalizers: &[String],
    ) -> kube::Result<Option<String>> {
        let api: Api<WindowsNodePool> = Api::all(self.client.clone());
        let body = json!({"metadata": {"resourceVersion": resource_version, "finalizers": finalizers}});
        merge(api, manager::FINALIZERS, pool, &body).await
    }

    async fn apply_status(&self, resource: Resource, name: &str, body: &Value) -> kube::Result<Option<String>> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource.api());
        let params = PatchParams::apply(manager::STATUS).force();
        version(api.patch_status(name, &params, &Patch::Apply(body)).await?.metadata)
    }

    fn runtime_classes(&self) -> Api<RuntimeClass> {
        Api::all(self.client.clone())
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Sends one request, with a time limit, a span and a metric.
    async fn send(
        &self,
        label: &'static str,
        kind: &'static str,
        name: &str,
        intent: Intent,
        request: impl Future<Output = kube::Result<Option<String>>>,
    ) -> Written {
        let span = info_span!("write", operation = label, object = %format_args!("{kind} {name}"), outcome = Empty);
        let answer = timeout(LIMIT, request).instrument(span.clone()).await;
        let (outcome, version) = match answer {
            Ok(Ok(version)) => (Outcome::Done, Some(WrittenVersion { kind, name: name.to_owned(), version })),
            Ok(Err(error)) => (outcome_of(&error, intent), None),
            Err(_) => (Outcome::Failed(format!("the API server did not answer within {LIMIT:?}").into()), None),
        };
        span.record("outcome", outcome_label(&outcome));
        self.metrics.operation(label, outcome_label(&outcome));
        (outcome, version)
    }
}

/// How a write ended, and the version of the object afterwards.
type Written = (Outcome, Option<WrittenVersion>);

/// What a write is for. It decides the meaning of 404, 409 and 429.
#[derive(Clone, Copy)]
enum Intent {
    /// To change an object. 404: it does not exist.
    Change,
    /// To apply an object, or to create one that the caches would contain. 404: its namespace or its kind does not exist.
    Apply,
    /// To create an object. 404: as above. 409: another client has created it, and the caches do not contain those of others.
    Create,
    /// To evict a pod. 404: it does not exist. 429: a PodDisruptionBudget does not allow the eviction now.
    Evict,
}

/// The outcome of a write, for metrics and traces.
fn outcome_label(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "done",
        Outcome::Partly { why: Shortfall::Refused(_), .. } => "without-taints",
        Outcome::Partly { why: Shortfall::Waits(..), .. } => "waiting",
        Outcome::Conflict => "conflict",
        Outcome::NotFound => "not-found",
        Outcome::Delayed => "delayed",
        Outcome::Refused(_) => "refused",
        Outcome::Failed(_) => "failed",
    }
}

/// Whether operations that depend on a write can continue.
fn succeeded(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Done | Outcome::Partly { .. } | Outcome::NotFound | Outcome::Delayed => true,
        Outcome::Conflict | Outcome::Refused(_) | Outcome::Failed(_) => false,
    }
}

/// Part of the message of an API server that forbids the verb, by RBAC or because it has just started and has not read
/// the roles (kubernetes/apiserver, `pkg/endpoints/handlers/responsewriters/errors.go`). An admission plugin that
/// rejects the taints returns the same code and reason.
const PATCH_FORBIDDEN: &str = "cannot patch resource \"nodes\"";

fn outcome_of(error: &kube::Error, intent: Intent) -> Outcome {
    if is::<DeadlineExceeded>(error) || is::<NotLeader>(error) {
        return Outcome::Conflict;
    }
    match (status_code(error), intent) {
        (Some(404), Intent::Change | Intent::Evict) => Outcome::NotFound,
        (Some(409), Intent::Create) => Outcome::Refused(exists(write_error(error))),
        (Some(409), _) => Outcome::Conflict,
        (Some(429), Intent::Evict) => Outcome::Delayed,
        (Some(400 | 403 | 422), _) => Outcome::Refused(write_error(error)),
        _ => Outcome::Failed(write_error(error)),
    }
}

/// The error of a creation, with its remedy.
fn exists(error: WriteError) -> WriteError {
    let message = format!("{}. It was written by another client: delete it, and it is created again", error.message);
    WriteError { message, ..error }
}

fn write_error(error: &kube::Error) -> WriteError {
    let cause = match error {
        kube::Error::Api(status) => {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            ErrorCause::Status {
                code: status.code,
                reason: status.reason.clone(),
                fields: causes.map(|cause| cause.field.clone()).collect(),
            }
        }
        _ => ErrorCause::NoResponse,
    };
    WriteError { cause, message: explain(error) }
}

/// The version after a write; empty if the answer has none, which is not waited for.
fn version(metadata: ObjectMeta) -> kube::Result<Option<String>> {
    Ok(Some(metadata.resource_version.unwrap_or_default()))
}

/// The body with the version that an earlier write of the same run left, which the plan could not know.
fn with_own_version<'b>(body: &'b Value, kind: &str, name: &str, written: &[WrittenVersion]) -> Cow<'b, Value> {
    let own = written.iter().rev().find(|written| written.kind == kind && written.name == name);
    let Some(version) = own.and_then(|written| written.version.as_ref()) else { return Cow::Borrowed(body) };
    let mut body = body.clone();
    body["metadata"]["resourceVersion"] = json!(version);
    Cow::Owned(body)
}

/// Creates an object. The API server rejects unknown fields; [`PostParams`] cannot ask for it.
async fn create<K: kube::Resource>(client: &Client, api: Api<K>, body: &Value) -> kube::Result<Option<String>> {
    let params = PostParams { field_manager: Some(manager::OBJECTS.to_owned()), ..PostParams::default() };
    let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
    let mut request = Request::new(api.resource_url()).create(&params, body).map_err(kube::Error::BuildRequest)?;
    let strict = http::Uri::try_from(format!("{}&fieldValidation=Strict", request.uri()));
    *request.uri_mut() =
        strict.map_err(|error| kube::Error::BuildRequest(request::Error::BuildRequest(error.into())))?;
    version(client.request::<PartialObjectMeta>(request).await?.metadata)
}

/// Sends a merge patch.
async fn merge<K>(api: Api<K>, manager: &str, name: &str, body: &Value) -> kube::Result<Option<String>>
where
    K: Clone + Debug + DeserializeOwned,
{
    let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    version(api.patch_metadata(name, &params, &Patch::Merge(body)).await?.metadata)
}

/// Whether a body is of an object that does not exist. It is created by POST, because an apply that is late would change
/// an object that another leader has created.
fn is_new(body: &Value) -> bool {
    body["metadata"]["resourceVersion"].is_null()
}

/// Applies a whole object, with the fields of other managers. The API server rejects unknown fields.
async fn apply<K>(api: Api<K>, name: &str, body: &Value) -> kube::Result<Option<String>>
where
    K: Clone + Debug + DeserializeOwned,
{
    let params = PatchParams::apply(manager::OBJECTS).validation_strict().force();
    version(api.patch_metadata(name, &params, &Patch::Apply(body)).await?.metadata)
}

/// Deletes the object with this uid; its dependents are deleted in the background.
async fn delete<K>(api: Api<K>, name: &str, uid: &str) -> kube::Result<Option<String>>
where
    K: Clone + Debug + DeserializeOwned,
{
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    api.delete(name, &DeleteParams::background().preconditions(preconditions)).await.map(|_| None)
}

#[cfg(test)]
mod tests;

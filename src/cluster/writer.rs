//! The only place that writes to the API server.

use std::{fmt::Debug, future::Future, time::Duration};

use futures::{StreamExt, stream};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Node},
    node::v1::RuntimeClass,
};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions},
    core::ObjectMeta,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::{Instrument, field::Empty, info_span};

use super::{View, client::expiring, expiry::Expired, explain};
use crate::{
    admin::Metrics,
    api::{WindowsNodePool, WindowsRuntimeProfile, names::manager},
    domain::{
        node::WindowsNode,
        operation::{AfterFailure, Done, NodePatch, Operation, Outcome, Parts, Shortfall, TaintPart, Unwritten},
        pool::{ConfigMapView, Pool, ProfileView, RuntimeClassView},
    },
};

/// How long a write may take, with the time that it waits for an API server under load.
const LIMIT: Duration = Duration::from_secs(30);
/// How many operations of one step may be under way at once.
const AT_ONCE: usize = 16;

/// Sends operations to the API server.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    namespace: String,
    metrics: Metrics,
}

/// One of our custom resources, for writing its status.
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

/// What the API server has after a write: a cache that shows it is up to date with us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The kind of the object.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Its version; `None` when it was deleted.
    pub version: Option<String>,
}

impl Writer {
    /// Writes through this client; ConfigMaps go into the namespace.
    pub fn new(client: Client, namespace: String, metrics: Metrics) -> Self {
        Self { client, namespace, metrics }
    }

    /// The same, but nothing is sent after this time: then it is answered as if somebody had written first.
    pub fn until(&self, at: tokio::time::Instant) -> Self {
        Self { client: expiring(&self.client, at), ..self.clone() }
    }

    /// Runs the steps of a plan in order. The operations of a step run side by side.
    ///
    /// An object that could not be written is not written by a later step either, and what depends on it waits.
    pub async fn run(&self, steps: &[Vec<Operation>], after_failure: AfterFailure) -> Done {
        self.run_marking(steps, after_failure).await.0
    }

    /// Like [`Self::run`], with what the API server has afterwards.
    pub async fn run_marking(&self, steps: &[Vec<Operation>], after_failure: AfterFailure) -> (Done, Vec<Mark>) {
        let mut done = Done { results: Vec::new(), complete: true };
        let mut marks = Vec::new();
        let mut unwritten = Unwritten::default();
        for step in steps {
            let mut operations = step.clone();
            operations.retain(|operation| !unwritten.has(operation));
            let requests = operations.into_iter().map(|operation| {
                let (writer, unwritten) = (self, &unwritten);
                async move {
                    let (outcome, mark) = writer.perform(&operation, unwritten).await;
                    (operation, outcome, mark)
                }
            });
            let answers: Vec<_> = stream::iter(requests).buffered(AT_ONCE).collect().await;
            for (operation, outcome, mark) in answers {
                if !gets_through(&outcome) {
                    done.complete = false;
                    unwritten.add(&operation);
                }
                done.results.push((operation, outcome));
                marks.extend(mark);
            }
            if !done.complete && after_failure == AfterFailure::Stop {
                break;
            }
        }
        (done, marks)
    }

    /// Applies the status of one of our resources.
    pub async fn write_status(&self, resource: Resource, name: &str, body: &Value) -> (Outcome, Option<Mark>) {
        let request = self.apply_status(resource, name, body);
        self.send("write-status", resource.kind(), name, Missing::IsGone, request).await
    }

    async fn perform(&self, operation: &Operation, unwritten: &Unwritten) -> (Outcome, Option<Mark>) {
        let label = operation.kind();
        match operation {
            Operation::AddFinalizer { pool, resource_version, finalizers } => {
                let request = self.set_finalizers(pool, resource_version, finalizers);
                self.send(label, Pool::KIND, pool, Missing::IsGone, request).await
            }
            Operation::RemoveFinalizer { pool, resource_version, finalizers } => {
                let request = self.set_finalizers(pool, resource_version, finalizers);
                // The pool may vanish with its last finalizer, so no version of it can be waited for.
                (self.send(label, Pool::KIND, pool, Missing::IsGone, request).await.0, None)
            }
            Operation::RecordApplied { pool, body } => {
                let request = self.apply_status(Resource::Pool, pool, body);
                self.send(label, Pool::KIND, pool, Missing::IsGone, request).await
            }
            Operation::ApplyRuntimeClass { name, body, force, .. } => {
                let api: Api<RuntimeClass> = Api::all(self.client.clone());
                let request = apply(api, name, body, *force);
                self.send(label, RuntimeClassView::KIND, name, Missing::IsWrong, request).await
            }
            Operation::StripRuntimeClass { name, body } => {
                let request = self.strip_class(name, body);
                self.send(label, RuntimeClassView::KIND, name, Missing::IsGone, request).await
            }
            Operation::DeleteRuntimeClass { name, uid } => {
                let api: Api<RuntimeClass> = Api::all(self.client.clone());
                self.send(label, RuntimeClassView::KIND, name, Missing::IsGone, delete(api, name, uid)).await
            }
            Operation::ApplyConfigMap { name, body } => {
                let request = apply(self.config_maps(), name, body, true);
                self.send(label, ConfigMapView::KIND, name, Missing::IsWrong, request).await
            }
            Operation::DeleteConfigMap { name, uid } => {
                let request = delete(self.config_maps(), name, uid);
                self.send(label, ConfigMapView::KIND, name, Missing::IsGone, request).await
            }
            Operation::PatchNode(patch) => self.patch_node(label, patch, unwritten).await,
        }
    }

    /// Patches a node with everything that does not wait for another object; if that is refused, once more without the
    /// taints.
    async fn patch_node(
        &self,
        label: &'static str,
        patch: &NodePatch,
        unwritten: &Unwritten,
    ) -> (Outcome, Option<Mark>) {
        let attempt = async |label, parts| {
            let body = patch.body(parts);
            let request = self.merge_node(&patch.node, &body);
            self.send(label, WindowsNode::KIND, &patch.node, Missing::IsGone, request).await
        };
        let (parts, waits_for) = patch.writable(unwritten);
        let done = match waits_for {
            Some((target, name)) => Outcome::Partly { written: parts, why: Shortfall::Waits(target, name) },
            None => Outcome::Done,
        };
        if !patch.change.has(parts) {
            return (done, None);
        }
        let (outcome, mark) = attempt(label, parts).await;
        let refusal = match &outcome {
            Outcome::Refused(refusal) if patch.may_leave_taints() && !refusal.contains(MAY_NOT) => refusal,
            Outcome::Done => return (done, mark),
            _ => return (outcome, mark),
        };
        let parts = Parts { taints: TaintPart::None, ..parts };
        let refused = Outcome::Partly { written: parts, why: Shortfall::Refused(refusal.clone()) };
        if !patch.change.has(parts) {
            return (refused, None);
        }
        match attempt("patch-node-without-taints", parts).await {
            (Outcome::Done, mark) => (refused, mark),
            // It was not the taints: Linux pods stay away all the same.
            (Outcome::Refused(_), _) => match attempt("patch-node-with-taints-alone", Parts::TAINTS).await {
                (Outcome::Done, mark) => {
                    (Outcome::Partly { written: Parts::TAINTS, why: Shortfall::Refused(refusal.clone()) }, mark)
                }
                _ => (outcome, None),
            },
            other => other,
        }
    }

    async fn merge_node(&self, node: &str, body: &Value) -> kube::Result<Option<String>> {
        let api: Api<Node> = Api::all(self.client.clone());
        let answer = api.patch_metadata(node, &managed_by(manager::NODES), &Patch::Merge(body)).await?;
        version(answer.metadata)
    }

    async fn strip_class(&self, name: &str, body: &Value) -> kube::Result<Option<String>> {
        let api: Api<RuntimeClass> = Api::all(self.client.clone());
        version(api.patch_metadata(name, &managed_by(manager::OBJECTS), &Patch::Merge(body)).await?.metadata)
    }

    async fn set_finalizers(
        &self,
        pool: &str,
        version_seen: &str,
        finalizers: &[String],
    ) -> kube::Result<Option<String>> {
        let api: Api<WindowsNodePool> = Api::all(self.client.clone());
        let body = json!({"metadata": {"resourceVersion": version_seen, "finalizers": finalizers}});
        let answer = api.patch_metadata(pool, &managed_by(manager::FINALIZERS), &Patch::Merge(&body)).await?;
        version(answer.metadata)
    }

    async fn apply_status(&self, resource: Resource, name: &str, body: &Value) -> kube::Result<Option<String>> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource.api());
        let params = PatchParams::apply(manager::STATUS).force();
        version(api.patch_status(name, &params, &Patch::Apply(body)).await?.metadata)
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// One request: with a time limit, a span of its own, and a place in the metrics.
    async fn send(
        &self,
        label: &'static str,
        kind: &'static str,
        name: &str,
        missing: Missing,
        request: impl Future<Output = kube::Result<Option<String>>>,
    ) -> (Outcome, Option<Mark>) {
        let span = info_span!("write", operation = label, object = %format_args!("{kind} {name}"), outcome = Empty);
        let answer = timeout(LIMIT, request).instrument(span.clone()).await;
        let (outcome, mark) = match answer {
            Ok(Ok(version)) => (Outcome::Done, Some(Mark { kind, name: name.to_owned(), version })),
            Ok(Err(error)) => (judge(&error, missing), None),
            Err(_) => (Outcome::Failed(format!("the API server did not answer within {LIMIT:?}")), None),
        };
        span.record("outcome", in_a_word(&outcome));
        self.metrics.operation(label, in_a_word(&outcome));
        (outcome, mark)
    }
}

/// What a 404 means.
#[derive(Clone, Copy)]
enum Missing {
    /// The object that is written is gone.
    IsGone,
    /// The write would have made the object, so something else is missing: a namespace, or the whole kind.
    IsWrong,
}

/// How a write ended, for metrics and traces.
fn in_a_word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "done",
        Outcome::Partly { why: Shortfall::Refused(_), .. } => "without-taints",
        Outcome::Partly { why: Shortfall::Waits(..), .. } => "waiting",
        Outcome::Conflict => "conflict",
        Outcome::Gone => "gone",
        Outcome::Refused(_) => "refused",
        Outcome::Failed(_) => "failed",
    }
}

/// Whether a write got through, as far as it could.
fn gets_through(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Done | Outcome::Partly { .. } | Outcome::Gone => true,
        Outcome::Conflict | Outcome::Refused(_) | Outcome::Failed(_) => false,
    }
}

/// How the API server says that the verb itself is not allowed, by RBAC or because it has only just started and has not
/// read the roles (kubernetes/apiserver, `pkg/endpoints/handlers/responsewriters/errors.go`): the taints are not why.
const MAY_NOT: &str = "cannot patch resource \"nodes\"";

fn judge(error: &kube::Error, missing: Missing) -> Outcome {
    if Expired::is(error) {
        return Outcome::Conflict;
    }
    let code = match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    };
    match (code, missing) {
        (404, Missing::IsGone) => Outcome::Gone,
        (409, _) => Outcome::Conflict,
        (400 | 403 | 422, _) => Outcome::Refused(explain(error)),
        _ => Outcome::Failed(explain(error)),
    }
}

fn managed_by(manager: &str) -> PatchParams {
    PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() }
}

/// The version after a write. One without a version is not waited for.
fn version(metadata: ObjectMeta) -> kube::Result<Option<String>> {
    Ok(Some(metadata.resource_version.unwrap_or_default()))
}

/// Applies a whole object of ours. Unknown fields are refused, not dropped.
async fn apply<K>(api: Api<K>, name: &str, body: &Value, force: bool) -> kube::Result<Option<String>>
where
    K: Clone + Debug + DeserializeOwned,
{
    let params = PatchParams { force, ..PatchParams::apply(manager::OBJECTS).validation_strict() };
    version(api.patch_metadata(name, &params, &Patch::Apply(body)).await?.metadata)
}

/// Deletes the object of this uid and no other; what it owns follows in the background.
async fn delete<K>(api: Api<K>, name: &str, uid: &str) -> kube::Result<Option<String>>
where
    K: Clone + Debug + DeserializeOwned,
{
    let only = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    api.delete(name, &DeleteParams::background().preconditions(only)).await.map(|_| None)
}

#[cfg(test)]
mod tests;

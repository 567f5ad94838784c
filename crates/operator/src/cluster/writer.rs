//! The writer of all objects except events and the key of the ownership records.

#![allow(clippy::disallowed_types)] // writes

use std::time::Duration;

use futures::{StreamExt, stream};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
    core::{PartialObjectMeta, Request, request},
};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tracing::{Instrument, field::Empty, info_span};
use winpool_api::names::manager;
use winpool_core::kind::{Kind, KindScope, Selection};
use winpool_rules::operation::{
    Action, AfterFailure, Done, ErrorCause, Outcome, Unwritten, Verb, Write, WriteError, WriteTarget,
};

use super::{
    claim::NotLeader,
    client::{DeadlineExceeded, with_deadline},
    explain, is, kinds, status_code,
};
use crate::admin::Metrics;

/// How long a write may take, with all its requests.
const LIMIT: Duration = Duration::from_secs(30);
/// How many writes of one step run at once.
const CONCURRENCY: usize = 16;

/// Sends writes to the API server.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    namespace: String,
    metrics: Metrics,
}

/// The version of an object after a write: a cache with this version contains the write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenVersion {
    pub kind: Kind,
    /// Its name, or `namespace/name`.
    pub name: String,
    /// The resource version; `None` when the object was deleted.
    pub version: Option<String>,
}

/// How a write ended, and the version of the object afterwards.
type Written = (Outcome, Option<WrittenVersion>);

impl Writer {
    /// A writer with this client. ConfigMaps are written to the namespace.
    pub fn new(client: Client, namespace: String, metrics: Metrics) -> Self {
        Self { client, namespace, metrics }
    }

    /// The same writer with a deadline. Writes after the deadline are not sent and end with [`Outcome::Conflict`].
    pub fn with_deadline(&self, deadline: Instant) -> Self {
        Self { client: with_deadline(&self.client, deadline), ..self.clone() }
    }

    /// Runs the steps of a plan in order, and the writes of one step concurrently.
    ///
    /// After a failure, later steps skip the object that could not be written, and writes that depend on it. `written` has
    /// the versions that earlier steps of the plan have left, and gets those of these steps.
    pub async fn run<'s>(
        &self,
        steps: impl IntoIterator<Item = &'s [Write]>,
        after_failure: AfterFailure,
        written: &mut Vec<WrittenVersion>,
    ) -> Done {
        let mut done = Done { results: Vec::new(), complete: true };
        let mut unwritten = Unwritten::default();
        for step in steps {
            let permitted = step.iter().filter(|write| !write.is_blocked(&unwritten));
            let (ready, waiting): (Vec<_>, Vec<_>) = permitted.partition(|write| write.waits_for(&unwritten).is_none());
            // A node is planned again at once, without what it waits for.
            for write in waiting.into_iter().filter(|write| write.node_edit().is_some()) {
                let outcome = write.waits_for(&unwritten).cloned().map(Outcome::Waits);
                done.results.extend(outcome.map(|outcome| (write.clone(), outcome)));
            }
            let requests = ready.into_iter().cloned().enumerate().map(|(position, write)| {
                let (writer, written) = (self, written.as_slice());
                async move {
                    let (outcome, version) = writer.send(&write, written).await;
                    (position, write, outcome, version)
                }
            });
            // Unordered, so that a slow request does not delay later ones.
            let mut results: Vec<_> = stream::iter(requests).buffer_unordered(CONCURRENCY).collect().await;
            results.sort_unstable_by_key(|(position, ..)| *position);
            for (_, write, outcome, version) in results {
                if !outcome.succeeded() {
                    done.complete = false;
                    unwritten.add(&write);
                }
                done.results.push((write, outcome));
                written.extend(version);
            }
            if !done.complete && after_failure == AfterFailure::Stop {
                break;
            }
        }
        done
    }

    /// Sends one write, with a time limit, a span and a metric. `written` has the versions that earlier writes have left.
    pub async fn send(&self, write: &Write, written: &[WrittenVersion]) -> Written {
        let name = write.action.name();
        let span = info_span!("write", operation = name, object = %write.object, outcome = Empty);
        let answer = timeout(LIMIT, self.request(write, body(write, written))).instrument(span.clone()).await;
        let (outcome, version) = match answer {
            Ok(Ok(version)) => (Outcome::Done, written_version(write, version)),
            Ok(Err(error)) => (outcome_of(&error, write), None),
            Err(_) => (Outcome::Failed(format!("the API server did not answer within {LIMIT:?}").into()), None),
        };
        span.record("outcome", outcome_label(&outcome));
        self.metrics.operation(name, outcome_label(&outcome));
        (outcome, version)
    }

    /// The request of a write. Returns the version of the object afterwards; `None` if it was deleted.
    async fn request(&self, write: &Write, body: Value) -> kube::Result<Option<String>> {
        let WriteTarget { kind, name, uid, .. } = &write.object;
        let api = self.api(&write.object);
        let field_manager = Some(kind.manager.to_owned());
        let metadata = match write.verb {
            Verb::Create => create(&self.client, &api, kind.manager, &body).await?.metadata,
            Verb::Apply => {
                let params = PatchParams::apply(kind.manager).validation_strict().force();
                api.patch_metadata(name, &params, &Patch::Apply(body)).await?.metadata
            }
            Verb::ApplyStatus => {
                let params = PatchParams::apply(manager::STATUS).force();
                api.patch_status(name, &params, &Patch::Apply(body)).await?.metadata
            }
            Verb::Merge => {
                let params = PatchParams { field_manager, ..PatchParams::default() };
                api.patch_metadata(name, &params, &Patch::Merge(body)).await?.metadata
            }
            Verb::Delete => {
                // Its dependents are deleted in the background.
                let params = DeleteParams::background();
                let preconditions = uid.clone().map(|uid| Preconditions { uid: Some(uid), resource_version: None });
                api.delete(name, &DeleteParams { preconditions, ..params }).await?;
                return Ok(None);
            }
            Verb::Evict => {
                // `Api::evict` does not send the precondition: it names the field `delete_options`.
                let params = PostParams { field_manager, ..PostParams::default() };
                api.create_subresource::<Value, Value>("eviction", name, &params, &body).await?;
                return Ok(None);
            }
        };
        // An answer without a version is not waited for.
        Ok(Some(metadata.resource_version.unwrap_or_default()))
    }

    fn api(&self, object: &WriteTarget) -> Api<DynamicObject> {
        let client = self.client.clone();
        match (object.kind.scope, &object.namespace) {
            (KindScope::Operator, _) => kinds::namespaced(client, object.kind, &self.namespace),
            (KindScope::Namespaces, Some(namespace)) => kinds::namespaced(client, object.kind, namespace),
            (KindScope::Cluster | KindScope::Namespaces, _) => kinds::all(client, object.kind),
        }
    }
}

/// What is sent: with the version that the write was planned from, or that an earlier write of the same run has left, which the
/// plan could not know.
fn body(write: &Write, written: &[WrittenVersion]) -> Value {
    let mut body = write.body().into_owned();
    if let Some(planned_from) = &write.planned_from {
        let (kind, name) = (write.object.kind, write.object.key());
        let own = written.iter().rev().find(|written| written.kind == kind && written.name == name);
        body["metadata"]["resourceVersion"] = json!(own.and_then(|own| own.version.as_ref()).unwrap_or(planned_from));
    }
    body
}

/// The version to wait for. A pod that is evicted terminates first, and a pool may be deleted with its last finalizer.
fn written_version(write: &Write, version: Option<String>) -> Option<WrittenVersion> {
    let awaited = ![Action::EvictPod, Action::RemoveFinalizer].contains(&write.action);
    awaited.then(|| WrittenVersion { kind: write.object.kind, name: write.object.key().into_owned(), version })
}

/// The outcome of a write, for metrics and traces.
fn outcome_label(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "done",
        Outcome::Waits(_) => "waiting",
        Outcome::Denied(..) => "rejected",
        Outcome::Conflict => "conflict",
        Outcome::NotFound => "not-found",
        Outcome::Delayed => "delayed",
        Outcome::Refused(_) => "refused",
        Outcome::Failed(_) => "failed",
    }
}

/// Part of the message of an API server that forbids the verb, by RBAC or because it has just started and has not read
/// the roles (kubernetes/apiserver, `pkg/endpoints/handlers/responsewriters/errors.go`). An admission plugin that
/// rejects the taints returns the same code and reason.
const PATCH_FORBIDDEN: &str = "cannot patch resource \"nodes\"";

fn outcome_of(error: &kube::Error, write: &Write) -> Outcome {
    if is::<DeadlineExceeded>(error) || is::<NotLeader>(error) {
        return Outcome::Conflict;
    }
    // The caches do not contain the objects of others.
    let is_foreign = write.verb == Verb::Create && write.object.kind.selection != Selection::All;
    match (status_code(error), write.verb) {
        // The namespace or the kind does not exist.
        (Some(404), Verb::Create | Verb::Apply) => Outcome::Failed(write_error(error)),
        (Some(404), _) => Outcome::NotFound,
        (Some(409), _) if is_foreign => Outcome::Refused(exists(write_error(error))),
        (Some(409), _) => Outcome::Conflict,
        (Some(429), Verb::Evict) => Outcome::Delayed,
        (Some(400 | 403 | 422), _) => refused(write, write_error(error)),
        _ => Outcome::Failed(write_error(error)),
    }
}

/// Without a part that admission rejects, the change of a node may be written.
fn refused(write: &Write, error: WriteError) -> Outcome {
    let part = write.node_edit().and_then(|edit| edit.if_denied);
    match part.filter(|_| !error.message.raw().contains(PATCH_FORBIDDEN)) {
        Some(part) => Outcome::Denied(part, error),
        None => Outcome::Refused(error),
    }
}

/// The error of a creation, with its remedy.
fn exists(error: WriteError) -> WriteError {
    let message =
        format!("{}. It was written by another client: delete it, and it is created again", error.message.raw());
    WriteError { message: message.into(), ..error }
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
    WriteError { cause, message: explain(error).into() }
}

/// Creates an object. The API server rejects unknown fields; [`PostParams`] cannot ask for it.
async fn create(
    client: &Client,
    api: &Api<DynamicObject>,
    manager: &str,
    body: &Value,
) -> kube::Result<PartialObjectMeta<DynamicObject>> {
    let params = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
    let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
    let mut request = Request::new(api.resource_url()).create(&params, body).map_err(kube::Error::BuildRequest)?;
    let strict = http::Uri::try_from(format!("{}&fieldValidation=Strict", request.uri()));
    *request.uri_mut() =
        strict.map_err(|error| kube::Error::BuildRequest(request::Error::BuildRequest(error.into())))?;
    client.request(request).await
}

#[cfg(test)]
mod tests;

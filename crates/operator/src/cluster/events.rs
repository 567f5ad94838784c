//! Publishes events of events.k8s.io/v1 by the recorder of kube-runtime. Events about one object with the same type, action and
//! reason are a series if each follows within six minutes; a series has the message of its first event, which the API server
//! does not let change (kubernetes/kubernetes, `pkg/apis/core/validation/events.go`).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube_runtime::events::{self, EventType, Recorder, Reporter};
use parking_lot::Mutex;
use tokio::time::timeout;
use tracing::warn;
use winpool_api::{bounds::shortened, names::EVENT_REPORTER};
use winpool_rules::status::event::{Event, Regarding};

use super::{explain, status_code};

/// The longest message, in bytes.
const MAX_MESSAGE: usize = 1024;
/// How long the events of one reconcile may take together.
const LIMIT: Duration = Duration::from_secs(5);
/// How many requests run at once.
const CONCURRENCY: usize = 4;

/// Publishes events. A repeated event increases the count of its series.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
    /// The cause of the last failure, so that an outage is logged once.
    failure: Arc<Mutex<Option<Failure>>>,
}

/// Why an event was not published: the status code, or `None` without an answer.
type Failure = Option<u16>;

impl Events {
    /// Publishes with this client, as the process with this identity.
    pub fn new(client: Client, identity: String) -> Self {
        let reporter = Reporter { controller: EVENT_REPORTER.to_owned(), instance: Some(identity) };
        Self { recorder: Recorder::new(client, reporter), failure: Arc::default() }
    }

    /// Publishes the events, and returns for each whether it was published. Failures are only logged.
    pub async fn publish(&self, events: &[Event]) -> Vec<bool> {
        let done: Vec<_> = events.iter().map(|_| AtomicBool::new(false)).collect();
        let all = stream::iter(events.iter().zip(&done));
        let published = all.for_each_concurrent(CONCURRENCY, |(event, done)| async move {
            let result = self.recorder.publish(&published(event), &reference(&event.about)).await;
            done.store(result.is_ok(), Ordering::Relaxed);
            self.log(event, result);
        });
        if timeout(LIMIT, published).await.is_err() {
            warn!("events not published: the API server did not answer within {LIMIT:?}");
        }
        done.into_iter().map(AtomicBool::into_inner).collect()
    }

    /// Logs a failure, unless the last event failed with the same cause.
    fn log(&self, event: &Event, result: kube::Result<()>) {
        let failure = result.as_ref().err().map(status_code);
        let mut last = self.failure.lock();
        if let Err(error) = result
            && *last != failure
        {
            warn!(reason = event.reason, error = explain(&error), "event not published");
        }
        *last = failure;
    }
}

fn published(event: &Event) -> events::Event {
    events::Event {
        type_: if event.warning { EventType::Warning } else { EventType::Normal },
        reason: event.reason.clone(),
        note: Some(message_of(event)),
        action: event.action.to_owned(),
        secondary: None,
    }
}

fn reference(about: &Regarding) -> ObjectReference {
    let Regarding { api_version, kind, namespace, name, uid } = about.clone();
    ObjectReference {
        api_version: Some(api_version),
        kind: Some(kind),
        namespace,
        name: Some(name),
        uid: Some(uid),
        ..ObjectReference::default()
    }
}

/// The message of an event. A long message is shortened in the middle, because it ends with the remedy.
fn message_of(event: &Event) -> String {
    let text = &event.message;
    let mut max_chars = MAX_MESSAGE * text.chars().count() / text.len().max(MAX_MESSAGE);
    loop {
        let message = shortened(text, max_chars);
        if message.len() <= MAX_MESSAGE {
            return message;
        }
        // The kept characters take more bytes than the omitted ones.
        max_chars = max_chars * MAX_MESSAGE / message.len();
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;
    use kube::client::Body;
    use serde_json::{Value, json};
    use winpool_core::kind::Kind;

    use super::*;

    type Seen = Arc<Mutex<Vec<(String, String, Value)>>>;

    /// Events to a server that answers with these status codes and then with 200, and the requests.
    fn events(codes: &'static [u16]) -> (Events, Seen) {
        let seen = Seen::default();
        let log = seen.clone();
        let server = tower::service_fn(move |request: http::Request<Body>| {
            let log = log.clone();
            async move {
                let (head, body) = request.into_parts();
                let body: Value = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap();
                let code = codes.get(log.lock().len()).copied().unwrap_or(200);
                log.lock().push((head.method.to_string(), head.uri.to_string(), body));
                let answer = match code {
                    200 => {
                        json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "eventTime": null})
                    }
                    _ => json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code,
                                "reason": "Forbidden"}),
                };
                let response = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, Infallible>(response.unwrap())
            }
        });
        (Events::new(Client::new(server, "elsewhere"), "win_1".to_owned()), seen)
    }

    fn event(reason: &str, message: &str) -> Event {
        Event {
            about: Regarding::new(Kind::NODE, "win-1", "u-1"),
            warning: true,
            reason: reason.into(),
            action: "Assign",
            message: message.into(),
        }
    }

    #[tokio::test]
    async fn an_event_about_a_node_is_in_namespace_default_and_its_repetitions_are_a_series() {
        let (events, seen) = events(&[]);
        for message in ["first", "second", "third"] {
            assert_eq!(events.publish(&[event("NoPool", message)]).await, [true]);
        }
        events.publish(&[event("Other", "else")]).await;
        let seen = seen.lock();
        let (method, path, body) = &seen[0];
        let collection = "/apis/events.k8s.io/v1/namespaces/default/events";
        assert_eq!((method.as_str(), path.clone()), ("POST", format!("{collection}?")));
        let node = json!({"apiVersion": "v1", "kind": "Node", "name": "win-1", "uid": "u-1"});
        assert_eq!(body["regarding"], node);
        let fields = ["type", "reason", "action", "note", "reportingController", "reportingInstance"];
        assert_eq!(fields.map(|field| &body[field]), ["Warning", "NoPool", "Assign", "first", "winpool", "win_1"]);
        let name = body["metadata"]["name"].as_str().unwrap();
        for ((method, path, body), count) in seen[1..3].iter().zip([2, 3]) {
            assert_eq!((method.as_str(), path.clone()), ("PATCH", format!("{collection}/{name}?")));
            assert_eq!((&body["series"]["count"], &body["note"]), (&json!(count), &json!("first")));
        }
        assert_eq!((seen[3].0.as_str(), seen.len()), ("POST", 4));
    }

    #[tokio::test]
    async fn a_refused_event_is_reported_as_not_published_and_created_the_next_time() {
        let (events, seen) = events(&[403]);
        let both = [event("NoPool", "refused"), event("Other", "taken")];
        assert_eq!(events.publish(&both).await, [false, true]);
        assert_eq!(events.publish(&both[..1]).await, [true]);
        let methods: Vec<_> = seen.lock().iter().map(|(method, ..)| method.clone()).collect();
        assert_eq!(methods, ["POST", "POST", "POST"]);
    }

    #[test]
    fn a_message_over_one_kilobyte_loses_its_middle() {
        let of = |message: &str| message_of(&event("Turned", message));
        for whole in ["short".to_owned(), "a".repeat(1024), "ü".repeat(512)] {
            assert_eq!(of(&whole), whole);
        }
        for long in ["a".repeat(1025), "ü".repeat(600), "…".repeat(400), "n".repeat(40_000)] {
            let cut = of(&format!("begin {long}; kubectl get nodes"));
            assert!((900..=1024).contains(&cut.len()), "{}", cut.len());
            assert!(cut.starts_with("begin ") && cut.ends_with("; kubectl get nodes"), "{cut}");
            assert!(cut.contains(" characters omitted)"), "{cut}");
        }
    }
}

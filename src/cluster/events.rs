//! Publishes events of core/v1, as the kubelet does. `kubectl describe` shows both versions, but API servers of 1.20
//! reject events of events.k8s.io/v1 about cluster-scoped objects outside kube-system (kubernetes/kubernetes,
//! pkg/apis/core/validation/events.go).

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1 as core, apimachinery::pkg::apis::meta::v1::Time};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    core::ObjectMeta,
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, timeout};
use tracing::warn;
use winpool_api::bounds;
use winpool_core::status::event::{Event, Regarding};

use super::{explain, status_code};

/// The namespace for events about cluster-scoped objects.
const NAMESPACE: &str = "default";
/// The source of the events.
const COMPONENT: &str = "winpool";
/// The longest message, in bytes.
const MAX_MESSAGE: usize = 1024;
/// The longest part of an object's name in the name of an event, in bytes.
const MAX_NAME: usize = 220;
/// How long after an event a repetition is counted in it instead of published as a new event.
const SERIES: Duration = Duration::from_secs(360);
/// The minimum time between two requests for one event; in between, repetitions are only counted.
const MIN_INTERVAL: Duration = Duration::from_secs(10);
/// How long the events of one reconcile may take together.
const LIMIT: Duration = Duration::from_secs(5);
/// How many requests run at once.
const CONCURRENCY: usize = 4;

/// Publishes events. A repeated event increases the count of the existing one and replaces its message.
#[derive(Clone)]
pub struct Events {
    client: Client,
    published: Arc<Mutex<HashMap<Key, Published>>>,
    /// The cause of the last failure, so that an outage is logged once.
    failure: Arc<Mutex<Option<Failure>>>,
}

/// The uid of the object, whether the event is a warning, and its reason: events with the same key are a series.
type Key = (String, bool, String);

/// Why an event was not published: the status code, or `None` without an answer.
type Failure = Option<u16>;

#[derive(Clone)]
struct Published {
    name: String,
    count: i32,
    last: Instant,
    sent: Instant,
}

/// The request for an event.
enum Request {
    Create,
    Update {
        name: String,
        count: i32,
    },
    /// No request: the repetition is only counted.
    Skip,
}

impl Events {
    /// Publishes with this client.
    pub fn new(client: Client) -> Self {
        Self { client, published: Arc::default(), failure: Arc::default() }
    }

    /// Publishes the events, and returns for each whether it was published. Failures are only logged.
    pub async fn publish(&self, events: &[Event]) -> Vec<bool> {
        let done: Vec<_> = events.iter().map(|_| AtomicBool::new(false)).collect();
        let all = stream::iter(events.iter().zip(&done));
        let published = all.for_each_concurrent(CONCURRENCY, |(event, done)| async move {
            let result = self.publish_one(event).await;
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

    /// The events in the namespace of the object.
    fn api(&self, event: &Event) -> Api<core::Event> {
        Api::namespaced(self.client.clone(), namespace(&event.about))
    }

    async fn publish_one(&self, event: &Event) -> kube::Result<()> {
        let key = key(event);
        match self.next_request(&key) {
            Request::Skip => Ok(()),
            Request::Create => self.create(key, event).await,
            Request::Update { name, count } => {
                let body = json!({
                    "count": count,
                    "lastTimestamp": Time(Timestamp::now()),
                    "message": message_of(event),
                });
                match self.api(event).patch(&name, &PatchParams::default(), &Patch::Merge(&body)).await {
                    Err(kube::Error::Api(status)) if status.is_not_found() => self.create(key, event).await,
                    answer => answer.map(drop),
                }
            }
        }
    }

    fn next_request(&self, key: &Key) -> Request {
        let now = Instant::now();
        let mut published = self.published.lock();
        published.retain(|_, event| now.duration_since(event.last) < SERIES);
        let Some(event) = published.get_mut(key) else { return Request::Create };
        event.count = event.count.saturating_add(1);
        event.last = now;
        if now.duration_since(event.sent) < MIN_INTERVAL {
            return Request::Skip;
        }
        event.sent = now;
        Request::Update { name: event.name.clone(), count: event.count }
    }

    async fn create(&self, key: Key, event: &Event) -> kube::Result<()> {
        let object = object(event, Timestamp::now());
        let name = object.metadata.name.clone().unwrap_or_default();
        self.api(event).create(&PostParams::default(), &object).await?;
        let now = Instant::now();
        self.published.lock().insert(key, Published { name, count: 1, last: now, sent: now });
        Ok(())
    }
}

fn key(event: &Event) -> Key {
    (event.about.uid.clone(), event.warning, event.reason.clone())
}

fn object(event: &Event, now: Timestamp) -> core::Event {
    let about = reference(&event.about);
    let object = shortened(about.name.as_deref().unwrap_or_default(), MAX_NAME);
    core::Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{:x}", object.trim_end_matches(['.', '-']), now.as_nanosecond())),
            namespace: Some(namespace(&event.about).to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: about,
        type_: Some(if event.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(event.reason.clone()),
        action: Some(event.action.to_owned()),
        message: Some(message_of(event)),
        source: Some(core::EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        reporting_component: Some(COMPONENT.to_owned()),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..core::Event::default()
    }
}

/// The namespace of an object's events.
fn namespace(about: &Regarding) -> &str {
    about.namespace.as_deref().unwrap_or(NAMESPACE)
}

fn reference(about: &Regarding) -> core::ObjectReference {
    let Regarding { api_version, kind, namespace, name, uid } = about.clone();
    core::ObjectReference {
        api_version: Some(api_version),
        kind: Some(kind),
        namespace,
        name: Some(name),
        uid: Some(uid),
        ..core::ObjectReference::default()
    }
}

/// The message of an event. A long message is shortened in the middle, because it ends with the remedy.
fn message_of(event: &Event) -> String {
    let text = &event.message;
    let max_chars = MAX_MESSAGE * text.chars().count() / text.len().max(MAX_MESSAGE);
    // The result can still be too long in bytes, if its characters take more bytes than the omitted ones.
    shortened(&bounds::shortened(text, max_chars), MAX_MESSAGE)
}

/// The text in at most `longest` bytes, cut at a character boundary and marked with dots.
fn shortened(text: &str, longest: usize) -> String {
    const MORE: &str = "...";
    if text.len() <= longest {
        return text.to_owned();
    }
    let end = (0..=longest - MORE.len()).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text.get(..end).unwrap_or_default().to_owned() + MORE
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;
    use kube::client::Body;
    use serde_json::Value;
    use tokio::time::advance;
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
                        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {}})
                    }
                    _ => json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code,
                                "reason": if code == 404 { "NotFound" } else { "Forbidden" }}),
                };
                let response = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, Infallible>(response.unwrap())
            }
        });
        (Events::new(Client::new(server, "elsewhere")), seen)
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

    #[tokio::test(start_paused = true)]
    async fn an_event_about_a_node_is_in_namespace_default_and_repetitions_increase_its_count() {
        let (events, seen) = events(&[]);
        events.publish(&[event("NoPool", "first")]).await;
        events.publish(&[event("NoPool", "too soon")]).await;
        advance(MIN_INTERVAL).await;
        events.publish(&[event("NoPool", "third")]).await;
        advance(SERIES).await;
        events.publish(&[event("NoPool", "another day"), event("Other", "else")]).await;
        let seen = seen.lock();
        let (method, path, body) = &seen[0];
        assert_eq!((method.as_str(), path.as_str()), ("POST", "/api/v1/namespaces/default/events?"));
        let node = json!({"apiVersion": "v1", "kind": "Node", "name": "win-1", "uid": "u-1"});
        assert_eq!(body["involvedObject"], node);
        let fields = ["type", "reason", "action", "message", "count"].map(|field| body[field].to_string());
        assert_eq!(fields, [r#""Warning""#, r#""NoPool""#, r#""Assign""#, r#""first""#, "1"]);
        assert!(body.get("eventTime").is_none() && body["firstTimestamp"].is_string());
        let (method, path, body) = &seen[1];
        let name = seen[0].2["metadata"]["name"].as_str().unwrap();
        assert_eq!((method.as_str(), path.clone()), ("PATCH", format!("/api/v1/namespaces/default/events/{name}?")));
        assert_eq!((&body["count"], &body["message"]), (&json!(3), &json!("third")));
        assert_eq!(seen[2..].iter().map(|(method, ..)| method.as_str()).collect::<Vec<_>>(), ["POST", "POST"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_event_is_created_again_and_a_refused_one_is_reported_as_not_published() {
        let (events, seen) = events(&[200, 404, 200, 403]);
        assert_eq!(events.publish(&[event("NoPool", "first")]).await, [true]);
        advance(MIN_INTERVAL).await;
        assert_eq!(events.publish(&[event("NoPool", "second")]).await, [true]);
        assert_eq!(events.publish(&[event("Other", "refused"), event("Third", "taken")]).await, [false, true]);
        let methods: Vec<_> = seen.lock().iter().map(|(method, ..)| method.clone()).collect();
        assert_eq!(methods, ["POST", "PATCH", "POST", "POST", "POST"]);
    }

    #[test]
    fn the_name_of_an_event_is_valid_also_for_objects_with_long_names() {
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        for name in ["win-1".to_owned(), format!("{}-{}", "a".repeat(216), "b".repeat(36)), "a.".repeat(126) + "b"] {
            let about = Regarding::new(Kind::NODE, &name, "u");
            let name = object(&Event { about, ..event("NoPool", "") }, now).metadata.name.unwrap();
            assert!(name.len() <= 253 && !name.contains("..") && !name.contains("-."), "{name}");
        }
    }

    #[test]
    fn a_name_is_cut_at_a_character_boundary() {
        assert_eq!(shortened("short", 220), "short");
        assert_eq!(shortened(&"a".repeat(220), 220), "a".repeat(220));
        for long in ["a".repeat(221), "ü".repeat(120), "…".repeat(90)] {
            let cut = shortened(&long, 220);
            assert!((216..=220).contains(&cut.len()), "{}", cut.len());
            assert!(cut.ends_with("..."));
        }
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

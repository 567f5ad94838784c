//! Tells people what happened, as events on the objects.
//!
//! They are events of core/v1, as the kubelet writes them: API servers of 1.20 refuse those of events.k8s.io/v1 on
//! objects that have no namespace (kubernetes/kubernetes, pkg/apis/core/validation/events.go: such events had to be in
//! kube-system), and `kubectl describe` shows both alike.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    core::ObjectMeta,
};
use serde_json::json;
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::explain;
use crate::{
    api::{bounds, names::GROUP},
    domain::note::{About, Note},
};

/// Where events of cluster-scoped objects land.
const NAMESPACE: &str = "default";
/// Who says it.
const COMPONENT: &str = "winpool";
/// The longest message, in bytes.
const LONGEST: usize = 1024;
/// The longest part of an object's name in an event's, so that the whole is a name.
const LONGEST_NAME: usize = 220;
/// How long a repetition belongs to the event before it.
const SERIES: Duration = Duration::from_secs(360);
/// The least time between two requests for one event; repetitions in between are only counted.
const PACE: Duration = Duration::from_secs(10);
/// How long the events of one pass may take together.
const LIMIT: Duration = Duration::from_secs(5);

/// Publishes notes. A note that repeats an earlier one becomes a count on its event, with the latest message.
#[derive(Clone)]
pub struct Events {
    client: Client,
    told: Arc<Mutex<HashMap<Key, Told>>>,
    /// Why the last event was lost, if it was: an outage is said once.
    lost: Arc<Mutex<Option<String>>>,
}

/// What makes two notes one event: the object's uid, whether it is a warning, and the reason.
type Key = (String, bool, String);

/// An event that was published.
#[derive(Clone)]
struct Told {
    name: String,
    count: i32,
    last: Instant,
    sent: Instant,
}

/// What a note becomes.
enum Saying {
    /// A new event.
    New,
    /// An event with so many repetitions.
    Again { name: String, count: i32 },
    /// Nothing for now: it is counted.
    Counted,
}

impl Events {
    /// Publishes through this client.
    pub fn new(client: Client) -> Self {
        Self { client, told: Arc::default(), lost: Arc::default() }
    }

    /// Publishes the notes, and returns for each whether that was done. An event that cannot be published is said in the
    /// log: it never fails a pass.
    pub async fn publish(&self, notes: &[Note]) -> Vec<bool> {
        let done: Vec<_> = notes.iter().map(|_| AtomicBool::new(false)).collect();
        let published = stream::iter(notes.iter().zip(&done)).for_each_concurrent(4, |(note, done)| async move {
            let lost = self.say(note).await.err().map(|error| explain(&error));
            done.store(lost.is_none(), Ordering::Relaxed);
            let mut before = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(error) = lost.as_ref().filter(|_| *before != lost) {
                warn!(reason = note.reason, "events are lost while this lasts: {error}");
            }
            *before = lost;
        });
        if timeout(LIMIT, published).await.is_err() {
            warn!("events are lost: the API server did not take them within {LIMIT:?}");
        }
        done.into_iter().map(AtomicBool::into_inner).collect()
    }

    /// The events in the namespace of the object.
    fn api(&self, note: &Note) -> Api<Event> {
        Api::namespaced(self.client.clone(), namespace(&note.about))
    }

    async fn say(&self, note: &Note) -> kube::Result<()> {
        let key = key(note);
        match self.saying(&key) {
            Saying::Counted => Ok(()),
            Saying::New => self.create(key, note).await,
            Saying::Again { name, count } => {
                let body = json!({
                    "count": count,
                    "lastTimestamp": Time(Timestamp::now()),
                    "message": message_of(note),
                });
                match self.api(note).patch(&name, &PatchParams::default(), &Patch::Merge(&body)).await {
                    Err(kube::Error::Api(status)) if status.is_not_found() => self.create(key, note).await,
                    answer => answer.map(drop),
                }
            }
        }
    }

    fn saying(&self, key: &Key) -> Saying {
        let now = Instant::now();
        let mut told = self.told();
        told.retain(|_, told| now.duration_since(told.last) < SERIES);
        let Some(told) = told.get_mut(key) else { return Saying::New };
        told.count = told.count.saturating_add(1);
        told.last = now;
        if now.duration_since(told.sent) < PACE {
            return Saying::Counted;
        }
        told.sent = now;
        Saying::Again { name: told.name.clone(), count: told.count }
    }

    async fn create(&self, key: Key, note: &Note) -> kube::Result<()> {
        let event = event(note, Timestamp::now());
        let name = event.metadata.name.clone().unwrap_or_default();
        self.api(note).create(&PostParams::default(), &event).await?;
        let now = Instant::now();
        self.told().insert(key, Told { name, count: 1, last: now, sent: now });
        Ok(())
    }

    /// What was told is plain data: a panic elsewhere cannot leave it half-written.
    fn told(&self) -> MutexGuard<'_, HashMap<Key, Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(note: &Note) -> Key {
    (note.about.uid().to_owned(), note.warning, note.reason.clone())
}

fn event(note: &Note, now: Timestamp) -> Event {
    let about = reference(&note.about);
    let object = shortened(about.name.as_deref().unwrap_or_default(), LONGEST_NAME);
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{:x}", object.trim_end_matches(['.', '-']), now.as_nanosecond())),
            namespace: Some(namespace(&note.about).to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: about,
        type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(note.reason.clone()),
        action: Some(note.action.to_owned()),
        message: Some(message_of(note)),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        reporting_component: Some(COMPONENT.to_owned()),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    }
}

/// The namespace of an object's events.
fn namespace(about: &About) -> &str {
    match about {
        About::Workload { workload, .. } => &workload.namespace,
        About::Pool { .. } | About::Profile { .. } | About::Node { .. } => NAMESPACE,
    }
}

fn reference(about: &About) -> ObjectReference {
    let ours = format!("{GROUP}/v1alpha1");
    let (version, kind, name) = match about {
        About::Pool { name, .. } => (ours.as_str(), "WindowsNodePool", name),
        About::Profile { name, .. } => (ours.as_str(), "WindowsRuntimeProfile", name),
        About::Node { name, .. } => ("v1", "Node", name),
        About::Workload { workload, .. } => (workload.api_version(), workload.kind.as_str(), &workload.name),
    };
    let namespace = match about {
        About::Workload { workload, .. } => Some(workload.namespace.clone()),
        About::Pool { .. } | About::Profile { .. } | About::Node { .. } => None,
    };
    ObjectReference {
        api_version: Some(version.to_owned()),
        kind: Some(kind.to_owned()),
        namespace,
        name: Some(name.clone()),
        uid: Some(about.uid().to_owned()),
        ..ObjectReference::default()
    }
}

/// The message of a note, without its middle where it is too long: it ends with the command to run.
fn message_of(note: &Note) -> String {
    let text = &note.message;
    let most = LONGEST * text.chars().count() / text.len().max(LONGEST);
    // Where the ends have more bytes to a letter than the rest, the last of them go.
    shortened(&bounds::shortened(text, most), LONGEST)
}

/// At most so many bytes, cut between letters; what is cut is shown by dots, which a name must not have at its end.
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

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::Value;
    use tokio::time::advance;

    use super::*;

    type Seen = Arc<Mutex<Vec<(String, String, Value)>>>;

    /// Events to a server that answers with these codes in turn and then with 200, and what it saw.
    fn events(codes: &'static [u16]) -> (Events, Seen) {
        let seen = Seen::default();
        let log = seen.clone();
        let server = tower::service_fn(move |request: Request<Body>| {
            let log = log.clone();
            async move {
                let (head, body) = request.into_parts();
                let body: Value = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap();
                let code = codes.get(log.lock().unwrap().len()).copied().unwrap_or(200);
                log.lock().unwrap().push((head.method.to_string(), head.uri.to_string(), body));
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

    fn note(reason: &str, message: &str) -> Note {
        Note {
            about: About::Node { name: "win-1".into(), uid: "u-1".into() },
            warning: true,
            reason: reason.into(),
            action: "Assign",
            message: message.into(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_note_is_an_event_in_default_and_its_repetitions_are_a_count() {
        let (events, seen) = events(&[]);
        events.publish(&[note("NoPool", "first")]).await;
        events.publish(&[note("NoPool", "too soon")]).await;
        advance(PACE).await;
        events.publish(&[note("NoPool", "third")]).await;
        advance(SERIES).await;
        events.publish(&[note("NoPool", "another day"), note("Other", "else")]).await;
        let seen = seen.lock().unwrap();
        let (method, path, body) = &seen[0];
        assert_eq!((method.as_str(), path.as_str()), ("POST", "/api/v1/namespaces/default/events?"));
        let node = json!({"apiVersion": "v1", "kind": "Node", "name": "win-1", "uid": "u-1"});
        assert_eq!(body["involvedObject"], node);
        let told = ["type", "reason", "action", "message", "count"].map(|field| body[field].to_string());
        assert_eq!(told, [r#""Warning""#, r#""NoPool""#, r#""Assign""#, r#""first""#, "1"]);
        assert!(body.get("eventTime").is_none() && body["firstTimestamp"].is_string());
        let (method, path, body) = &seen[1];
        let name = seen[0].2["metadata"]["name"].as_str().unwrap();
        assert_eq!((method.as_str(), path.clone()), ("PATCH", format!("/api/v1/namespaces/default/events/{name}?")));
        assert_eq!((&body["count"], &body["message"]), (&json!(3), &json!("third")));
        assert_eq!(seen[2..].iter().map(|(method, ..)| method.as_str()).collect::<Vec<_>>(), ["POST", "POST"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_expired_is_made_again_and_one_that_is_refused_is_lost() {
        let (events, seen) = events(&[200, 404, 200, 403]);
        assert_eq!(events.publish(&[note("NoPool", "first")]).await, [true]);
        advance(PACE).await;
        assert_eq!(events.publish(&[note("NoPool", "second")]).await, [true]);
        assert_eq!(events.publish(&[note("Other", "refused"), note("Third", "taken")]).await, [false, true]);
        let methods: Vec<_> = seen.lock().unwrap().iter().map(|(method, ..)| method.clone()).collect();
        assert_eq!(methods, ["POST", "PATCH", "POST", "POST", "POST"]);
    }

    #[test]
    fn an_event_has_a_name_that_kubernetes_takes_however_long_the_object_s_is() {
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        for name in ["win-1".to_owned(), format!("{}-{}", "a".repeat(216), "b".repeat(36)), "a.".repeat(126) + "b"] {
            let about = About::Node { name, uid: "u".into() };
            let name = event(&Note { about, ..note("NoPool", "") }, now).metadata.name.unwrap();
            assert!(name.len() <= 253 && !name.contains("..") && !name.contains("-."), "{name}");
        }
    }

    #[test]
    fn a_name_is_cut_between_letters() {
        assert_eq!(shortened("short", 220), "short");
        assert_eq!(shortened(&"a".repeat(220), 220), "a".repeat(220));
        for long in ["a".repeat(221), "ü".repeat(120), "…".repeat(90)] {
            let cut = shortened(&long, 220);
            assert!((216..=220).contains(&cut.len()), "{}", cut.len());
            assert!(cut.ends_with("..."));
        }
    }

    #[test]
    fn a_message_of_more_than_a_kilobyte_loses_its_middle() {
        let of = |message: &str| message_of(&note("Turned", message));
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

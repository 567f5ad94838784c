//! Reads pull secrets in the background, so that a slow API server does not delay the checks of workloads.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::Instant};
use tracing::debug;
use winpool_registry::Credentials;

use super::changes::PendingChanges;
use crate::cluster::limited;

/// How many Secrets are read at once.
const CONCURRENCY: usize = 8;
/// How long one read may take.
const LIMIT: Duration = Duration::from_secs(10);
/// The entries of a Secret with the logins of registries: of the current type, and of the older one.
const DOCKER_CONFIG: [&str; 2] = [".dockerconfigjson", ".dockercfg"];

/// The pull secrets that are being read or were read.
pub struct PullSecrets(Arc<Shared>);

struct Shared {
    client: Client,
    permits: Semaphore,
    secrets: Mutex<HashMap<Key, State>>,
    /// Is notified after each read.
    changes: PendingChanges,
}

/// The namespace and name of a Secret.
type Key = (String, String);

enum State {
    Reading,
    /// Without credentials, if the Secret could not be read.
    Read {
        credentials: Option<Credentials>,
        at: Instant,
    },
}

impl PullSecrets {
    /// Reads Secrets with this client. Each read ends with a notification of `changes`.
    pub fn new(client: Client, changes: PendingChanges) -> Self {
        let permits = Semaphore::new(CONCURRENCY);
        Self(Arc::new(Shared { client, permits, secrets: Mutex::default(), changes }))
    }

    /// The logins in these Secrets, read at `since` or later; `None` while one of them is being read. A Secret that
    /// cannot be read has no logins.
    pub fn credentials(&self, namespace: &str, names: &[String], since: Instant) -> Option<Option<Credentials>> {
        let mut secrets = self.0.secrets.lock();
        let mut all = Vec::new();
        let mut pending = false;
        for name in names {
            let key = (namespace.to_owned(), name.clone());
            match secrets.get(&key) {
                Some(State::Read { credentials, at }) if *at >= since => all.extend(credentials.clone()),
                Some(State::Reading) => pending = true,
                _ => {
                    secrets.insert(key.clone(), State::Reading);
                    tokio::spawn(self.0.clone().read(key));
                    pending = true;
                }
            }
        }
        (!pending).then(|| all.into_iter().reduce(merged))
    }

    /// Drops the credentials of all other Secrets.
    pub fn retain(&self, keys: &HashSet<Key>) {
        self.0.secrets.lock().retain(|key, state| matches!(state, State::Reading) || keys.contains(key));
    }
}

impl Shared {
    async fn read(self: Arc<Self>, key: Key) {
        let (namespace, name) = &key;
        let credentials = {
            // The semaphore is never closed.
            let _permit = self.permits.acquire().await;
            let secrets = Api::<Secret>::namespaced(self.client.clone(), namespace);
            let secret = limited(LIMIT, secrets.get(name)).await;
            secret.inspect_err(|error| debug!(namespace, name, error, "cannot read pull secret")).ok().and_then(logins)
        };
        self.secrets.lock().insert(key, State::Read { credentials, at: Instant::now() });
        self.changes.notify();
    }
}

fn logins(secret: Secret) -> Option<Credentials> {
    let data = secret.data.unwrap_or_default();
    let files = DOCKER_CONFIG.into_iter().filter_map(|key| data.get(key));
    files.filter_map(|file| Credentials::parse(&file.0).ok()).reduce(merged)
}

fn merged(mut first: Credentials, second: Credentials) -> Credentials {
    first.extend(second);
    first
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use base64::{Engine, engine::general_purpose::STANDARD};
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use tokio::time::{advance, sleep};

    use super::*;

    /// An API server that answers after this time with a Secret for the host `NAME.example`, and with 404 for `missing`;
    /// and the maximum number of concurrent requests.
    fn api_server(delay: Duration) -> (Client, Arc<AtomicUsize>) {
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let peak = most.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (running, peak) = (running.clone(), peak.clone());
            async move {
                let name = request.uri().path().rsplit('/').next().unwrap().to_owned();
                peak.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                sleep(delay).await;
                running.fetch_sub(1, Ordering::Relaxed);
                let logins = json!({"auths": {format!("{name}.example"): {"username": "u", "password": "p"}}});
                let data = json!({".dockerconfigjson": STANDARD.encode(logins.to_string())});
                let (code, body) = match name.as_str() {
                    "missing" => (404, json!({"kind": "Status", "status": "Failure", "code": 404, "message": "m"})),
                    _ => (200, json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data})),
                };
                let response = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
                Ok::<_, Infallible>(response.unwrap())
            }
        });
        (Client::new(service, "default"), most)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The hosts of the logins.
    fn hosts(credentials: Option<Option<Credentials>>) -> String {
        format!("{:?}", credentials.expect("all are read"))
    }

    #[tokio::test(start_paused = true)]
    async fn secrets_are_read_in_the_background_at_most_eight_at_once() {
        let (client, most) = api_server(Duration::from_secs(1));
        let (secrets, begin) = (PullSecrets::new(client, PendingChanges::default()), Instant::now());
        let all: Vec<_> = (0..20).map(|number| format!("s{number}")).collect();
        for _ in 0..3 {
            assert!(secrets.credentials("shop", &all, begin).is_none());
        }
        assert_eq!(begin.elapsed(), Duration::ZERO, "the caller does not wait");
        sleep(Duration::from_millis(3100)).await;
        assert!(hosts(secrets.credentials("shop", &all, begin)).contains("s19.example"));
        assert_eq!(most.load(Ordering::Relaxed), CONCURRENCY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_secret_that_cannot_be_read_in_time_has_no_logins() {
        for (delay, name) in [(Duration::from_secs(3600), "slow"), (Duration::ZERO, "missing")] {
            let (client, _) = api_server(delay);
            let changes = PendingChanges::default();
            let (secrets, begin) = (PullSecrets::new(client, changes.clone()), Instant::now());
            assert!(secrets.credentials("shop", &names(&[name]), begin).is_none());
            changes.recorded().await;
            assert!(begin.elapsed() <= LIMIT + Duration::from_millis(1), "{name}");
            assert_eq!(hosts(secrets.credentials("shop", &names(&[name]), begin)), "None");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_secret_is_read_again_if_later_credentials_are_requested_or_it_was_dropped() {
        let (client, _) = api_server(Duration::ZERO);
        let changes = PendingChanges::default();
        let (secrets, begin) = (PullSecrets::new(client, changes.clone()), Instant::now());
        let both = names(&["a", "missing"]);
        assert!(secrets.credentials("shop", &both, begin).is_none());
        sleep(Duration::from_secs(1)).await;
        assert_eq!(hosts(secrets.credentials("shop", &both, begin)), r#"Some({"a.example"})"#);
        advance(Duration::from_secs(60)).await;
        assert!(secrets.credentials("shop", &both, Instant::now()).is_none());
        sleep(Duration::from_secs(1)).await;
        secrets.retain(&HashSet::from([("shop".to_owned(), "a".to_owned())]));
        assert!(secrets.credentials("shop", &names(&["a"]), begin).is_some());
        secrets.retain(&HashSet::new());
        assert!(secrets.credentials("shop", &names(&["a"]), begin).is_none());
    }
}

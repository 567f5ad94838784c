//! A cache of lookups: one lookup at a time for each image, and retries after a back-off.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use winpool_core::image::{ImagePlatforms, Lookup, Reference};

use super::{credentials::Credentials, failure::Failure, lookup::Registry, lru::LruMap};

/// How long the result for a tag is cached, because a tag can move. The result for a digest does not expire.
const TAG_LIFETIME: Duration = Duration::from_secs(3600);
/// The delay before a failed lookup is retried; it doubles with each further failure.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(60);
/// The longest such delay, unless the host is in back-off for longer.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(3600);

/// An image, and the mirrors and credentials to look it up.
#[derive(Clone, Debug)]
pub struct LookupRequest {
    image: Reference,
    mirrors: Arc<[String]>,
    credentials: Option<Arc<Credentials>>,
    key: Key,
}

/// Identifies a result: the image and the logins, because a registry may show an image only to some logins.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    image: String,
    logins: Vec<[u8; 32]>,
}

/// The results of lookups, in memory.
///
/// No method waits: lookups run in the background, and a callback reports each result. Dropping the cache cancels them.
pub struct LookupCache {
    shared: Arc<Shared>,
    cancelled: CancellationToken,
    _cancel: DropGuard,
}

struct Shared {
    registry: Arc<Registry>,
    entries: Mutex<LruMap<Key, Entry>>,
    on_result: Box<dyn Fn(&Reference) + Send + Sync>,
}

#[derive(Default)]
struct Entry {
    result: Option<Arc<Lookup>>,
    /// When to look up again; `None` with a result means never.
    due: Option<Instant>,
    running: bool,
    failures: u32,
}

impl LookupRequest {
    /// A request for an image, with the mirrors of its registry and the credentials to use.
    pub fn new(image: Reference, mirrors: Arc<[String]>, credentials: Option<Arc<Credentials>>) -> Self {
        // The tag is ignored if there is a digest.
        let named = match image.digest() {
            Some(digest) => format!("{}/{}@{digest}", image.registry(), image.repository()),
            None => image.whole(),
        };
        let logins = credentials.iter().flat_map(|credentials| credentials.fingerprints(&image, &mirrors)).collect();
        Self { key: Key { image: named, logins }, image, mirrors, credentials }
    }
}

/// Without mirrors and credentials.
impl From<Reference> for LookupRequest {
    fn from(image: Reference) -> Self {
        Self::new(image, Arc::default(), None)
    }
}

impl LookupCache {
    /// A cache for at most this many results. `on_result` is called after each lookup, and must not block.
    pub fn new(
        registry: Arc<Registry>,
        capacity: usize,
        on_result: impl Fn(&Reference) + Send + Sync + 'static,
    ) -> Self {
        let entries = Mutex::new(LruMap::new(capacity.max(1)));
        let cancelled = CancellationToken::new();
        let shared = Arc::new(Shared { registry, entries, on_result: Box::new(on_result) });
        Self { shared, _cancel: cancelled.clone().drop_guard(), cancelled }
    }

    /// The last result, even while the image is looked up again.
    pub fn get(&self, request: &LookupRequest) -> Option<Arc<Lookup>> {
        self.shared.entries.lock().get(&request.key)?.result.clone()
    }

    /// Starts the lookups that are due: those without a result, those of tags after an hour, and failed ones after a
    /// delay. A lookup for which the cache has no capacity is not started: request it again.
    ///
    /// # Panics
    /// If it is called outside of a tokio runtime.
    pub fn request(&self, requests: impl IntoIterator<Item = LookupRequest>) {
        for request in requests {
            if self.shared.start(&request.key) {
                let (shared, cancelled) = (Arc::clone(&self.shared), self.cancelled.clone());
                // Boxed, so that a lookup that waits for others needs little memory.
                tokio::spawn(async move { cancelled.run_until_cancelled(Box::pin(shared.look_up(request))).await });
            }
        }
    }
}

impl Shared {
    /// Marks a lookup as running, if it is due. Returns whether it is.
    fn start(&self, key: &Key) -> bool {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get(key) {
            let due = entry.is_due(Instant::now());
            entry.running |= due;
            return due;
        }
        let entry = Entry { running: true, ..Entry::default() };
        entries.insert(key.clone(), entry, |entry| !entry.running).is_ok()
    }

    async fn look_up(&self, request: LookupRequest) {
        let LookupRequest { image, mirrors, credentials, key } = &request;
        let content = self.registry.find(image, mirrors, credentials.as_deref());
        // After a panic the entry would stay marked as running.
        let content = AssertUnwindSafe(content).catch_unwind().await;
        let content = content.unwrap_or_else(|_| Err(Failure::new("the lookup panicked, which is a bug in winpool")));
        if let Some(entry) = self.entries.lock().get(key) {
            entry.finish(content, image.digest().is_some(), Instant::now());
        }
        (self.on_result)(image);
    }
}

impl Entry {
    fn is_due(&self, now: Instant) -> bool {
        !self.running && (self.result.is_none() || self.due.is_some_and(|due| due <= now))
    }

    fn finish(&mut self, content: Result<ImagePlatforms, Failure>, by_digest: bool, now: Instant) {
        self.running = false;
        let lookup = match content {
            Ok(content) => {
                self.failures = 0;
                self.due = (!by_digest).then(|| now + TAG_LIFETIME);
                Lookup::Found(content)
            }
            Err(failure) => {
                let delay = FIRST_RETRY_DELAY.saturating_mul(1 << self.failures.min(16)).min(MAX_RETRY_DELAY);
                self.failures += 1;
                self.due = Some(failure.retry_at.map_or(now + delay, |at| at.max(now + delay)));
                Lookup::Failed(failure.to_string().into())
            }
        };
        self.result = Some(Arc::new(lookup));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Result<ImagePlatforms, Failure> {
        Ok(ImagePlatforms::default())
    }

    /// The time until an entry is due, in seconds.
    fn due(entry: &Entry, now: Instant) -> Option<u64> {
        assert!(!entry.is_due(now));
        entry.due.map(|due| (due - now).as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_tag_is_looked_up_again_after_an_hour_and_a_digest_never() {
        let now = Instant::now();
        for (by_digest, expected) in [(false, Some(3600)), (true, None)] {
            let mut entry = Entry { running: true, ..Entry::default() };
            entry.finish(found(), by_digest, now);
            assert_eq!(due(&entry, now), expected);
            assert_eq!(entry.is_due(now + TAG_LIFETIME), !by_digest);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_lookup_is_retried_after_a_minute_and_then_with_growing_delays() {
        let now = Instant::now();
        let mut entry = Entry::default();
        let mut delays = Vec::new();
        for _ in 0..8 {
            entry.finish(Err(Failure::new("no")), true, now);
            delays.push(due(&entry, now).unwrap());
        }
        assert_eq!(delays, [60, 120, 240, 480, 960, 1920, 3600, 3600]);
        entry.finish(found(), false, now);
        entry.finish(Err(Failure::new("no")), false, now);
        assert_eq!(due(&entry, now), Some(60), "a success resets the delay");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_lookup_is_not_retried_during_the_back_off_of_its_host() {
        let now = Instant::now();
        for (back_off, expected) in [(5, 60), (7200, 7200)] {
            let mut entry = Entry::default();
            entry.finish(Err(Failure::new("no").retry_at(now + Duration::from_secs(back_off))), false, now);
            assert_eq!(due(&entry, now), Some(expected));
        }
    }

    #[test]
    fn lookups_of_an_image_with_different_logins_have_different_keys() {
        const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let credentials = |host: &str, name: &str| {
            let file = format!(r#"{{"{host}": {{"username": "{name}", "password": "p"}}}}"#);
            Some(Arc::new(Credentials::parse(file.as_bytes()).unwrap()))
        };
        let key = |image: &str, mirrors: &[&str], credentials| {
            let mirrors = mirrors.iter().map(|mirror| (*mirror).to_owned()).collect();
            LookupRequest::new(image.parse().unwrap(), mirrors, credentials).key
        };
        let (by_tag, by_digest) = (format!("r.example/app:1@{DIGEST}"), format!("r.example/app@{DIGEST}"));
        assert_eq!(key(&by_tag, &[], None), key(&by_digest, &[], None));
        assert_eq!(key("nginx", &[], None), key("docker.io/library/nginx:latest", &[], None));
        let anonymous = key("r.example/app", &["https://m.example"], None);
        assert_eq!(key("r.example/app", &["https://m.example"], credentials("other.example", "a")), anonymous);
        let other = [("r.example", "a"), ("r.example", "b"), ("m.example", "a")]
            .map(|(host, name)| key("r.example/app", &["https://m.example"], credentials(host, name)));
        assert!(other.iter().all(|key| *key != anonymous) && other[0] != other[1]);
    }
}

//! What registries said, remembered: one lookup at a time for one image, and none that is not needed.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Credentials, Registry, bounded::Bounded, failure::Failure, host::lock};
use crate::domain::image::{Content, Lookup, Reference};

/// How long the answer for a tag is taken for true: somebody may move it. A digest is what it is.
pub const TAG_LIFE: Duration = Duration::from_secs(3600);
/// How long it takes at least until a lookup that failed is made again; it doubles with each failure.
pub const SHORTEST_PAUSE: Duration = Duration::from_secs(60);
/// The longest such time, unless the registry asks for more.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// An image, and what is needed to look it up.
#[derive(Clone, Debug)]
pub struct Wanted {
    image: Reference,
    mirrors: Arc<[String]>,
    credentials: Option<Arc<Credentials>>,
    key: Key,
}

/// What is looked up once: an image, and who asks. What a registry shows to one is nothing for another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    image: String,
    logins: Vec<[u8; 32]>,
}

/// The answers of registries, in memory alone.
///
/// All of it can be used from where nothing may wait: an answer is there or it is not, and whoever wants one is told
/// when it comes. Lookups end with this.
pub struct Lookups {
    shared: Arc<Shared>,
    ends: CancellationToken,
    _end: DropGuard,
}

struct Shared {
    registry: Arc<Registry>,
    entries: Mutex<Bounded<Key, Entry>>,
    answered: Box<dyn Fn(&Reference) + Send + Sync>,
}

#[derive(Default)]
struct Entry {
    answer: Option<Arc<Lookup>>,
    /// When to ask again; never, if there is none and an answer.
    again: Option<Instant>,
    asking: bool,
    failures: u32,
}

impl Wanted {
    /// An image, the mirrors of its registry, and credentials if they are to be used.
    pub fn new(image: Reference, mirrors: Arc<[String]>, credentials: Option<Arc<Credentials>>) -> Self {
        // With a digest the tag says nothing.
        let named = match image.digest() {
            Some(digest) => format!("{}/{}@{digest}", image.registry(), image.repository()),
            None => image.whole(),
        };
        let logins = credentials.iter().flat_map(|credentials| credentials.fingerprints(&image, &mirrors)).collect();
        Self { key: Key { image: named, logins }, image, mirrors, credentials }
    }

    /// The image.
    pub fn image(&self) -> &Reference {
        &self.image
    }
}

/// Anonymously, at the registry itself.
impl From<Reference> for Wanted {
    fn from(image: Reference) -> Self {
        Self::new(image, Arc::default(), None)
    }
}

impl Lookups {
    /// A memory for the answers for at most so many images. `answered` is called after each answer, from a task that
    /// should not be kept waiting.
    pub fn new(registry: Arc<Registry>, most: usize, answered: impl Fn(&Reference) + Send + Sync + 'static) -> Self {
        let entries = Mutex::new(Bounded::new(most.max(1)));
        let ends = CancellationToken::new();
        let shared = Arc::new(Shared { registry, entries, answered: Box::new(answered) });
        Self { shared, _end: ends.clone().drop_guard(), ends }
    }

    /// What is known now. An answer that is due to be asked for again is the last one known until then.
    pub fn get(&self, wanted: &Wanted) -> Option<Arc<Lookup>> {
        lock(&self.shared.entries).get(&wanted.key)?.answer.clone()
    }

    /// Starts what has to be looked up: what was not before, tags after [`TAG_LIFE`], failures after a while. For the
    /// rest, and for what is being looked up, nothing happens. When more is being looked up than fits, what is left over
    /// is for a later call. To be called in a runtime.
    pub fn want(&self, wanted: impl IntoIterator<Item = Wanted>) {
        for wanted in wanted {
            if self.shared.begins(&wanted.key) {
                let (shared, ends) = (Arc::clone(&self.shared), self.ends.clone());
                // While it waits for its turn, a lookup takes little room.
                tokio::spawn(async move { ends.run_until_cancelled(Box::pin(shared.find(wanted))).await });
            }
        }
    }

    /// How many are being looked up, or wait for their turn.
    pub fn asking(&self) -> usize {
        lock(&self.shared.entries).values().filter(|entry| entry.asking).count()
    }

    /// How many images are remembered or being looked up.
    pub fn len(&self) -> usize {
        lock(&self.shared.entries).len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Shared {
    /// Whether a lookup has to be made, which is then taken for begun.
    fn begins(&self, key: &Key) -> bool {
        let mut entries = lock(&self.entries);
        if let Some(entry) = entries.get(key) {
            let begins = entry.is_due(Instant::now());
            entry.asking |= begins;
            return begins;
        }
        let entry = Entry { asking: true, ..Entry::default() };
        entries.insert(key.clone(), entry, |entry| !entry.asking).is_ok()
    }

    async fn find(&self, wanted: Wanted) {
        let Wanted { image, mirrors, credentials, key } = &wanted;
        let found = self.registry.find(image, mirrors, credentials.as_deref());
        // A defect is a failure of this image, and not one that is never looked up again.
        let found = AssertUnwindSafe(found).catch_unwind().await;
        let found = found.unwrap_or_else(|_| Err(Failure::new("a defect of winpool: looking it up panicked")));
        if let Some(entry) = lock(&self.entries).get(key) {
            entry.answered(found, image.digest().is_some(), Instant::now());
        }
        (self.answered)(image);
    }
}

impl Entry {
    fn is_due(&self, now: Instant) -> bool {
        !self.asking && (self.answer.is_none() || self.again.is_some_and(|again| again <= now))
    }

    fn answered(&mut self, found: Result<Content, Failure>, by_digest: bool, now: Instant) {
        self.asking = false;
        let lookup = match found {
            Ok(content) => {
                self.failures = 0;
                self.again = (!by_digest).then(|| now + TAG_LIFE);
                Lookup::Found(content)
            }
            Err(failure) => {
                let pause = SHORTEST_PAUSE.saturating_mul(1 << self.failures.min(16)).min(LONGEST_PAUSE);
                self.failures += 1;
                self.again = Some(failure.until.map_or(now + pause, |until| until.max(now + pause)));
                Lookup::Failed(failure.to_string())
            }
        };
        self.answer = Some(Arc::new(lookup));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Result<Content, Failure> {
        Ok(Content::default())
    }

    /// After how many seconds an entry is due again.
    fn due(entry: &Entry, now: Instant) -> Option<u64> {
        assert!(!entry.is_due(now));
        entry.again.map(|again| (again - now).as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_tag_is_looked_up_again_after_an_hour_and_a_digest_never() {
        let now = Instant::now();
        for (by_digest, expected) in [(false, Some(3600)), (true, None)] {
            let mut entry = Entry { asking: true, ..Entry::default() };
            entry.answered(found(), by_digest, now);
            assert_eq!(due(&entry, now), expected);
            assert_eq!(entry.is_due(now + TAG_LIFE), !by_digest);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_looked_up_again_after_a_minute_and_then_ever_later() {
        let now = Instant::now();
        let mut entry = Entry::default();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            entry.answered(Err(Failure::new("no")), true, now);
            pauses.push(due(&entry, now).unwrap());
        }
        assert_eq!(pauses, [60, 120, 240, 480, 960, 1920, 3600, 3600]);
        entry.answered(found(), false, now);
        entry.answered(Err(Failure::new("no")), false, now);
        assert_eq!(due(&entry, now), Some(60), "an answer in between counts");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_waits_as_long_as_its_host_is_left_alone() {
        let now = Instant::now();
        for (until, expected) in [(5, 60), (7200, 7200)] {
            let mut entry = Entry::default();
            entry.answered(Err(Failure::new("no").until(now + Duration::from_secs(until))), false, now);
            assert_eq!(due(&entry, now), Some(expected));
        }
    }

    #[test]
    fn an_image_is_looked_up_once_for_each_who_may_see_another_answer() {
        const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let credentials = |host: &str, name: &str| {
            let file = format!(r#"{{"{host}": {{"username": "{name}", "password": "p"}}}}"#);
            Some(Arc::new(Credentials::parse(file.as_bytes()).unwrap()))
        };
        let key = |image: &str, mirrors: &[&str], credentials| {
            let mirrors = mirrors.iter().map(|mirror| (*mirror).to_owned()).collect();
            Wanted::new(image.parse().unwrap(), mirrors, credentials).key
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

//! Looks up the images of pods in their registries.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use kube::Client;
use tokio::time::Instant;
use winpool_core::image::{Lookup, Reference};
use winpool_registry::{LookupCache, LookupRequest, Registry};
use winpool_rules::pool::Snapshot;
use winpool_workload::{ImageRequest, WorkloadIndex};

use super::{changes::PendingChanges, pull_secrets::PullSecrets};
use crate::cluster::Caches;

/// How many lookups are cached.
const MAX_LOOKUPS: usize = 20_000;
/// How long after a failure the pull secrets are read again, because they may have been corrected.
const REREAD_SECRETS: Duration = Duration::from_secs(60);

/// Looks up the images that the index needs, if registries may be contacted.
pub struct Images {
    lookups: Option<LookupCache>,
    /// `None` if pull secrets are not used.
    secrets: Option<PullSecrets>,
    /// The attempts for each image, by its name in the pods.
    attempts: BTreeMap<String, Vec<Attempt>>,
}

/// The lookup of an image with the mirrors and credentials of some pods.
struct Attempt {
    source: Source,
    /// `None` while the pull secrets are read.
    request: Option<LookupRequest>,
    /// When the pull secrets were requested.
    since: Instant,
}

/// Where an image is looked up, and with which credentials.
#[derive(PartialEq, Eq)]
struct Source {
    mirrors: Arc<[String]>,
    namespace: String,
    secrets: Vec<String>,
}

impl Images {
    /// Looks up with this client of registries. Each result ends with a notification of `changes`.
    pub fn new(registry: Option<Arc<Registry>>, secrets: Option<Client>, changes: PendingChanges) -> Self {
        let secrets = secrets.map(|client| PullSecrets::new(client, changes.clone()));
        let lookups = registry.map(|registry| LookupCache::new(registry, MAX_LOOKUPS, move |_: &_| changes.notify()));
        Self { lookups, secrets, attempts: BTreeMap::new() }
    }

    /// Whether registries may be contacted.
    pub fn are_looked_up(&self) -> bool {
        self.lookups.is_some()
    }

    /// Whether pods need lookups.
    pub fn are_needed(&self) -> bool {
        !self.attempts.is_empty()
    }

    /// Starts the lookups that the index needs, and passes the available results to it, without waiting.
    pub fn look_up(&mut self, index: &mut WorkloadIndex, caches: &Caches) {
        let Some(lookups) = &self.lookups else { return };
        let requests: BTreeMap<String, Vec<ImageRequest>> =
            index.image_requests().map(|(image, requests)| (image.to_owned(), requests)).collect();
        self.attempts.retain(|image, _| requests.contains_key(image));
        let snapshot = caches.snapshot();
        let mut reading = HashSet::new();
        for (image, requests) in requests {
            let Ok(reference) = image.parse::<Reference>() else { continue };
            let mut sources: Vec<Source> = Vec::new();
            for request in &requests {
                let source = Source::new(request, &reference, &snapshot, self.secrets.is_some());
                if !sources.contains(&source) {
                    sources.push(source);
                }
            }
            let attempts = self.attempts.entry(image.clone()).or_default();
            update(attempts, sources);
            let results = attempts.iter_mut().map(|attempt| attempt.lookup(lookups, self.secrets.as_ref(), &reference));
            if let Some(lookup) = first_found(results) {
                index.set_lookup(&image, lookup);
            }
            let unread = attempts.iter().filter(|attempt| attempt.request.is_none());
            reading.extend(unread.flat_map(|attempt| attempt.source.secret_keys()));
        }
        if let Some(secrets) = &self.secrets {
            secrets.retain(&reading);
        }
        index.remove_unused_lookups();
    }
}

/// Keeps the attempts with these sources, in their order, and adds the missing ones.
fn update(attempts: &mut Vec<Attempt>, sources: Vec<Source>) {
    let mut former = std::mem::take(attempts);
    attempts.extend(sources.into_iter().map(
        |source| match former.iter().position(|attempt| attempt.source == source) {
            Some(position) => former.swap_remove(position),
            None => Attempt { source, request: None, since: Instant::now() },
        },
    ));
}

/// The first successful result, or else the first failure; `None` while an earlier attempt is pending. Attempts after a
/// success are not made.
fn first_found(results: impl Iterator<Item = Option<Arc<Lookup>>>) -> Option<Arc<Lookup>> {
    let mut first = None;
    for result in results {
        let lookup = result?;
        if matches!(*lookup, Lookup::Found(_)) {
            return Some(lookup);
        }
        first.get_or_insert(lookup);
    }
    first
}

impl Attempt {
    /// The result of the lookup; `None` while it is pending.
    fn lookup(
        &mut self,
        lookups: &LookupCache,
        secrets: Option<&PullSecrets>,
        image: &Reference,
    ) -> Option<Arc<Lookup>> {
        if self.must_reread_secrets(lookups) {
            (self.request, self.since) = (None, Instant::now());
        }
        if self.request.is_none() {
            let Source { mirrors, namespace, secrets: names } = &self.source;
            let credentials = match secrets {
                Some(secrets) => secrets.credentials(namespace, names, self.since)?,
                None => None,
            };
            self.request = Some(LookupRequest::new(image.clone(), mirrors.clone(), credentials.map(Arc::new)));
        }
        let request = self.request.as_ref()?;
        lookups.request([request.clone()]);
        lookups.get(request)
    }

    fn must_reread_secrets(&self, lookups: &LookupCache) -> bool {
        let failed = |request| matches!(lookups.get(request).as_deref(), Some(Lookup::Failed(_)));
        !self.source.secrets.is_empty()
            && self.since.elapsed() >= REREAD_SECRETS
            && self.request.as_ref().is_some_and(failed)
    }
}

impl Source {
    fn new(request: &ImageRequest, image: &Reference, snapshot: &Snapshot, uses_secrets: bool) -> Self {
        let mirrors = request.pool.as_ref().map(|pool| snapshot.mirrors(pool, image.registry())).unwrap_or_default();
        match uses_secrets && !request.pull_secrets.is_empty() {
            true => Self { mirrors, namespace: request.namespace.clone(), secrets: request.pull_secrets.clone() },
            false => Self { mirrors, namespace: String::new(), secrets: Vec::new() },
        }
    }

    /// Namespace and name of each pull secret.
    fn secret_keys(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.secrets.iter().map(|name| (self.namespace.clone(), name.clone()))
    }
}

#[cfg(test)]
mod tests {
    use winpool_core::image::ImagePlatforms;

    use super::*;

    fn source(secrets: &[&str]) -> Source {
        let secrets = secrets.iter().map(|name| (*name).to_owned()).collect();
        Source { mirrors: Arc::default(), namespace: "shop".into(), secrets }
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_are_kept_by_their_source_in_the_order_of_the_sources() {
        let mut attempts = Vec::new();
        let begin = Instant::now();
        update(&mut attempts, vec![source(&["a"]), source(&["b"])]);
        tokio::time::advance(Duration::from_secs(5)).await;
        update(&mut attempts, vec![source(&["b"]), source(&["c"]), source(&["a", "b"])]);
        let ages: Vec<_> =
            attempts.iter().map(|attempt| (&attempt.source.secrets[..], attempt.since - begin)).collect();
        let (kept, new) = (Duration::ZERO, Duration::from_secs(5));
        let names = [vec!["b".to_owned()], vec!["c".to_owned()], vec!["a".to_owned(), "b".to_owned()]];
        assert_eq!(ages, [(&names[0][..], kept), (&names[1][..], new), (&names[2][..], new)]);
        update(&mut attempts, Vec::new());
        assert!(attempts.is_empty());
    }

    #[test]
    fn the_first_image_that_is_found_counts_else_the_first_failure() {
        let failed = |error: &str| Some(Arc::new(Lookup::Failed(error.into())));
        let found = || Some(Arc::new(Lookup::Found(ImagePlatforms::default())));
        let table = [
            (vec![], "pending", 0),
            (vec![failed("401"), failed("404")], "failed: 401", 2),
            (vec![failed("401"), found(), failed("404")], "found", 2),
            (vec![found(), None], "found", 1),
            (vec![None, found()], "pending", 1),
            (vec![failed("401"), None], "pending", 2),
        ];
        for (results, expected, attempts) in table {
            let mut made = 0;
            let result = first_found(results.into_iter().inspect(|_| made += 1));
            let result = match result.as_deref() {
                None => "pending".to_owned(),
                Some(Lookup::Found(_)) => "found".to_owned(),
                Some(Lookup::Failed(error)) => format!("failed: {error}"),
            };
            assert_eq!((result.as_str(), made), (expected, attempts));
        }
    }

    #[test]
    fn pull_secrets_are_part_of_a_source_only_if_they_are_used() {
        let (snapshot, image) = (Snapshot::default(), "registry.example/app:1".parse().unwrap());
        let request = |secrets: &[&str]| ImageRequest {
            pool: None,
            namespace: "shop".into(),
            pull_secrets: secrets.iter().map(|name| (*name).to_owned()).collect(),
        };
        let key = |name: &str| ("shop".to_owned(), name.to_owned());
        for (secrets, used, namespace, keys) in [
            (&["a", "b"][..], true, "shop", vec![key("a"), key("b")]),
            // The pods of all namespaces share one lookup.
            (&["a", "b"], false, "", vec![]),
            (&[], true, "", vec![]),
        ] {
            let source = Source::new(&request(secrets), &image, &snapshot, used);
            let found: Vec<_> = source.secret_keys().collect();
            assert_eq!((source.namespace.as_str(), found), (namespace, keys), "{secrets:?}, {used}");
        }
    }
}

//! The lookup of an image: at the mirrors of its registry, then at the registry.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::{sync::Semaphore, time::Instant};
use winpool_core::image::{ImagePlatforms, Lookup, Reference};

use super::{
    authentication::Authentication,
    client::Client,
    credentials::Credentials,
    endpoint::Endpoint,
    failure::{Failure, RegistryError},
    fetch::ImageFetch,
    settings::RegistrySettings,
};

/// A client of registries. It caches tokens and the back-off of hosts, but no images.
#[derive(Debug)]
pub struct Registry {
    client: Client,
    authentication: Authentication,
    permits: Semaphore,
    lookups: AtomicU64,
    failures: AtomicU64,
}

/// The counters of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests, including those to token servers and after redirects.
    pub requests: u64,
    pub lookups: u64,
    pub failures: u64,
}

impl Registry {
    /// Creates a client. Its connections belong to the current tokio runtime.
    ///
    /// # Errors
    /// If the system has no trusted certificates, or those of the settings cannot be read.
    pub fn new(settings: RegistrySettings) -> Result<Self, RegistryError> {
        Ok(Self {
            permits: Semaphore::new(settings.concurrency.max(1)),
            client: Client::new(settings)?,
            authentication: Authentication::new(),
            lookups: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        })
    }

    /// Looks up an image: first at these mirrors of its registry in order, then at the registry. If the reference has a
    /// tag and a digest, the digest is used.
    pub async fn lookup(&self, image: &Reference, mirrors: &[String], credentials: Option<&Credentials>) -> Lookup {
        let found = self.find(image, mirrors, credentials).await;
        found.map_or_else(|failure| Lookup::Failed(failure.to_string().into()), Lookup::Found)
    }

    /// The counters since the client was created.
    pub fn counts(&self) -> Counts {
        Counts {
            requests: self.client.requests.load(Ordering::Relaxed),
            lookups: self.lookups.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }

    pub(super) async fn find(
        &self,
        image: &Reference,
        mirrors: &[String],
        credentials: Option<&Credentials>,
    ) -> Result<ImagePlatforms, Failure> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let mirrors = mirrors.iter().map(|mirror| Endpoint::mirror(mirror, image));
        let registry = std::iter::once_with(|| Endpoint::registry(image, &self.client.settings));
        let limit = self.client.settings.lookup_limit;
        let (mut remaining, mut failures) = (limit, Vec::new());
        for endpoint in mirrors.chain(registry) {
            let attempt = async {
                let endpoint = endpoint?;
                let host = self.client.hosts.get(&endpoint.host());
                // The permit of the host comes first, so that a slow host does not block lookups at other hosts.
                let _permits = (host.permits.acquire().await, self.permits.acquire().await);
                let start = Instant::now();
                let fetch = ImageFetch::new(&self.client, &self.authentication, &endpoint, image, credentials);
                let content = tokio::time::timeout(remaining, fetch.content()).await;
                remaining = remaining.saturating_sub(start.elapsed());
                content.unwrap_or_else(|_| {
                    let (host, limit) = (endpoint.host(), limit.as_secs_f32());
                    Err(Failure::new(format!("{host}: the lookup took longer than {limit} s")))
                })
            };
            match attempt.await {
                Ok(content) => return Ok(content),
                Err(failure) => failures.push(failure),
            }
        }
        self.failures.fetch_add(1, Ordering::Relaxed);
        let failure = Failure::of_all(&failures);
        tracing::debug!(%image, %failure, "registry lookup failed");
        Err(failure)
    }
}

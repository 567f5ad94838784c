//! The lookup of an image: at the mirrors of its registry, then at the registry.

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
}

impl Registry {
    /// Creates a client. Its connections belong to the current tokio runtime.
    pub fn new(settings: RegistrySettings) -> Result<Self, RegistryError> {
        Ok(Self {
            permits: Semaphore::new(settings.concurrency.max(1)),
            client: Client::new(settings)?,
            authentication: Authentication::new(),
        })
    }

    /// Looks up an image: first at these mirrors of its registry in order, then at the registry. If the reference has a
    /// tag and a digest, the digest is used.
    pub async fn lookup(&self, image: &Reference, mirrors: &[String], credentials: Option<&Credentials>) -> Lookup {
        let found = self.find(image, mirrors, credentials).await;
        found.map_or_else(|failure| Lookup::Failed(failure.to_string().into()), Lookup::Found)
    }

    pub(super) async fn find(
        &self,
        image: &Reference,
        mirrors: &[String],
        credentials: Option<&Credentials>,
    ) -> Result<ImagePlatforms, Failure> {
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
        let failure = Failure::of_all(&failures);
        tracing::debug!(%image, %failure, "registry lookup failed");
        Err(failure)
    }
}

//! What registries say that images are for: a client that reads indexes, manifests and image configurations, never a
//! layer, and a memory of what they said.
//!
//! Images are named by whoever may make a pod, so their registries are nobody's friends: what is read is bounded in
//! time and size, hosts that have trouble are left alone, and a secret goes to the host that it is for and to no other.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use winpool::registry::{Registry, Settings};
//!
//! let registry = Registry::new(Settings::default())?;
//! let image = "mcr.microsoft.com/windows/nanoserver:ltsc2022".parse()?;
//! println!("{:?}", registry.lookup(&image, &[], None).await);
//! # Ok(()) }
//! ```

mod authentication;
mod bounded;
mod client;
mod credentials;
mod endpoint;
mod failure;
mod host;
mod lookups;
mod manifest;
mod settings;
mod visit;

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

use tokio::{sync::Semaphore, time::Instant};

use self::{authentication::Authentication, client::Client, endpoint::Endpoint, failure::Failure, visit::Visit};
pub use self::{
    credentials::{Credentials, CredentialsError},
    lookups::{LONGEST_PAUSE, Lookups, SHORTEST_PAUSE, TAG_LIFE, Wanted},
    settings::Settings,
};
use crate::domain::image::{Content, Lookup, Reference};

/// A client of registries. It remembers tokens and which hosts are to be left alone, and nothing of images.
#[derive(Debug)]
pub struct Registry {
    client: Client,
    authentication: Authentication,
    turns: Semaphore,
    lookups: AtomicU64,
    failures: AtomicU64,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The certificates of further authorities cannot be read.
    #[error("{}: {reason}", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// TLS cannot be set up, for instance because the system has no certificates of authorities.
    #[error("a client for registries: {0}")]
    Client(String),
}

/// What a client has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were sent, those to token servers and after redirects too.
    pub requests: u64,
    /// Images that were looked up.
    pub lookups: u64,
    /// Those of them that failed.
    pub failures: u64,
}

impl Registry {
    /// A client. Connections belong to the runtime in which they are made.
    ///
    /// # Errors
    /// When there are no certificates to trust, or those of the settings cannot be read.
    pub fn new(settings: Settings) -> Result<Self, RegistryError> {
        Ok(Self {
            turns: Semaphore::new(settings.concurrency.max(1)),
            client: Client::new(settings)?,
            authentication: Authentication::new(),
            lookups: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        })
    }

    /// Looks up an image: at these mirrors of its registry in their order, then at the registry itself. With both a tag
    /// and a digest, the digest counts.
    pub async fn lookup(&self, image: &Reference, mirrors: &[String], credentials: Option<&Credentials>) -> Lookup {
        match self.find(image, mirrors, credentials).await {
            Ok(content) => Lookup::Found(content),
            Err(failure) => Lookup::Failed(failure.to_string()),
        }
    }

    /// What it has done.
    pub fn counts(&self) -> Counts {
        Counts {
            requests: self.client.requests.load(Ordering::Relaxed),
            lookups: self.lookups.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }

    async fn find(
        &self,
        image: &Reference,
        mirrors: &[String],
        credentials: Option<&Credentials>,
    ) -> Result<Content, Failure> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let mirrors = mirrors.iter().map(|mirror| Endpoint::mirror(mirror, image));
        let itself = std::iter::once_with(|| Endpoint::registry(image, &self.client.settings));
        let limit = self.client.settings.lookup_limit;
        let (mut left, mut failures) = (limit, Vec::new());
        for endpoint in mirrors.chain(itself) {
            let attempt = async {
                let endpoint = endpoint?;
                let host = self.client.hosts.named(&endpoint.host());
                // A host that is slow keeps its own images waiting, and those of others have their turn.
                let _turns = (host.turns.acquire().await, self.turns.acquire().await);
                let begin = Instant::now();
                let visit = Visit::new(self, &endpoint, image, credentials);
                let found = tokio::time::timeout(left, visit.content()).await;
                left = left.saturating_sub(begin.elapsed());
                found.unwrap_or_else(|_| {
                    let words = format!("{}: the image took longer than {} s", endpoint.host(), limit.as_secs_f32());
                    Err(Failure::new(words))
                })
            };
            match attempt.await {
                Ok(content) => return Ok(content),
                Err(failure) => failures.push(failure),
            }
        }
        self.failures.fetch_add(1, Ordering::Relaxed);
        let failure = Failure::of_all(&failures);
        tracing::debug!(%image, %failure, "a registry did not say what an image is for");
        Err(failure)
    }
}

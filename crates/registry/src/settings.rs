//! The settings of a client of registries.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

/// The settings and limits for requests to registries.
#[derive(Clone, Debug)]
pub struct RegistrySettings {
    /// A PEM file with certificates of additional authorities.
    pub certificates: Option<PathBuf>,
    /// Hosts, with their port if they have one, that are contacted over http. Secrets are sent without TLS only to these.
    pub plain_http: BTreeSet<String>,
    /// How long one request may take, with its response.
    pub request_limit: Duration,
    /// How long all requests of one lookup may take together, without the wait for other lookups.
    pub lookup_limit: Duration,
    /// How many lookups run at once.
    pub concurrency: usize,
    /// How many lookups run at once at one host.
    pub concurrency_per_host: usize,
    /// The most redirects that one request follows.
    pub redirects: usize,
    /// The largest index or manifest, in bytes.
    pub largest_manifest: usize,
    /// The largest image configuration, in bytes.
    pub largest_config: usize,
    /// The largest response of a token server, in bytes.
    pub largest_token: usize,
    /// The longest back-off of a host, also with `Retry-After`.
    pub longest_back_off: Duration,
}

impl Default for RegistrySettings {
    fn default() -> Self {
        Self {
            certificates: None,
            plain_http: BTreeSet::new(),
            request_limit: Duration::from_secs(10),
            lookup_limit: Duration::from_secs(30),
            concurrency: 16,
            concurrency_per_host: 8,
            redirects: 5,
            largest_manifest: 4 << 20,
            largest_config: 1 << 20,
            largest_token: 64 << 10,
            longest_back_off: Duration::from_secs(3600),
        }
    }
}

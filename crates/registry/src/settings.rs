//! What callers can choose of a client of registries.

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
        }
    }
}

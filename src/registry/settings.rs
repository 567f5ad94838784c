//! What a client of registries is told once.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

/// How registries are asked, and how much of them is borne.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A PEM file with certificates of authorities that are trusted beside those of the system.
    pub certificates: Option<PathBuf>,
    /// Hosts, with a port where they have one, that are asked over plain http. Nothing else is, and no secret goes
    /// anywhere else without TLS.
    pub plain_http: BTreeSet<String>,
    /// The longest time for one request, with its answer.
    pub request_limit: Duration,
    /// The longest time for all the requests that one image needs. Waiting for a turn does not count.
    pub lookup_limit: Duration,
    /// How many images are looked up at once.
    pub concurrency: usize,
    /// How many of them at one host.
    pub concurrency_per_host: usize,
    /// The most redirects that one request follows.
    pub redirects: usize,
    /// The largest index or manifest that is read, in bytes.
    pub largest_manifest: usize,
    /// The largest image configuration that is read, in bytes.
    pub largest_config: usize,
    /// The largest answer of a token server that is read, in bytes.
    pub largest_token: usize,
    /// The longest time that a host is left alone, whatever it asks for.
    pub longest_back_off: Duration,
}

impl Default for Settings {
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

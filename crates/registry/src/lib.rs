//! Looks up the platforms of images in container registries: a client that reads indexes, manifests and image
//! configurations, but no layers, and a cache of the results.
//!
//! Everyone who can create a pod can name an image, so registries are not trusted: responses are bounded in time and
//! size, failing hosts have a back-off, and a secret is sent only to its own host.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use winpool_registry::{Registry, RegistrySettings};
//!
//! let registry = Registry::new(RegistrySettings::default())?;
//! let image = "mcr.microsoft.com/windows/nanoserver:ltsc2022".parse()?;
//! println!("{:?}", registry.lookup(&image, &[], None).await);
//! # Ok(()) }
//! ```

#![allow(clippy::disallowed_methods)] // I/O, and time

mod authentication;
mod client;
mod credentials;
mod endpoint;
mod failure;
mod fetch;
mod host;
mod lookup;
mod lookup_cache;
mod lru;
mod manifest;
mod settings;

pub use self::{
    credentials::{Credentials, PullSecretError},
    failure::RegistryError,
    lookup::Registry,
    lookup_cache::{LookupCache, LookupRequest},
    settings::RegistrySettings,
};

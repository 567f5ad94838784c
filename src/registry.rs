//! The options for registries, and lookups of many images.

use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
    sync::Arc,
};

use futures::{StreamExt, stream};
use http::uri::Authority;
use tracing::warn;
use winpool_core::image::{Lookup, Reference};
use winpool_registry::{Registry, RegistrySettings};

use super::{CommandError, progress::Progress};

/// How many lookups are started at a time; the registry client limits its requests itself.
const CONCURRENT_LOOKUPS: usize = 64;

#[derive(Clone, Debug, Default, clap::Args)]
#[group(id = "registries")]
pub(super) struct Args {
    /// A PEM file with certificates of authorities to trust for registries, in addition to those of the system
    #[arg(long, env = "WINPOOL_REGISTRY_CA", value_name = "FILE")]
    registry_ca: Option<PathBuf>,
    /// Use plain HTTP for this registry, HOST or HOST:PORT; may be repeated
    #[arg(long, env = "WINPOOL_REGISTRY_PLAIN_HTTP", value_name = "HOST", value_delimiter = ',', value_parser = host)]
    registry_plain_http: Vec<String>,
}

impl Args {
    /// The client for these options.
    pub(super) fn registry(self) -> Result<Registry, CommandError> {
        let plain_http: BTreeSet<String> = self.registry_plain_http.into_iter().collect();
        let settings = RegistrySettings { certificates: self.registry_ca, plain_http, ..RegistrySettings::default() };
        Registry::new(settings).map_err(|error| CommandError::Usage(format!("--registry-ca: {error}")))
    }

    /// The client for the operator; `None` if the system has no trusted certificates.
    pub(super) fn registry_if_any(self) -> Result<Option<Registry>, CommandError> {
        let is_specified = self.registry_ca.is_some();
        match self.registry() {
            Ok(registry) => Ok(Some(registry)),
            Err(failure) if is_specified => Err(failure),
            Err(failure) => {
                warn!(error = %failure, "registry lookups disabled, set --registry-ca");
                Ok(None)
            }
        }
    }
}

/// A host with an optional port, as in the name of an image.
fn host(text: &str) -> Result<String, String> {
    let is_host = text.parse::<Authority>().is_ok_and(|authority| !authority.as_str().contains('@'));
    is_host.then(|| text.to_owned()).ok_or_else(|| "write HOST or HOST:PORT, such as registry.example:5000".to_owned())
}

/// Looks images up anonymously, first in the `mirrors` of their registries.
pub(super) async fn look_up(
    registry: &Registry,
    images: BTreeSet<String>,
    mirrors: impl Fn(&Reference) -> Arc<[String]>,
) -> HashMap<String, Arc<Lookup>> {
    let progress = &Progress::start("looking up images in their registries", "image");
    let references = images.into_iter().filter_map(|image| Some((image.parse::<Reference>().ok()?, image)));
    let lookups = references.map(|(reference, image)| {
        let mirrors = mirrors(&reference);
        async move {
            let lookup = registry.lookup(&reference, &mirrors, None).await;
            progress.add_one();
            (image, Arc::new(lookup))
        }
    });
    stream::iter(lookups.collect::<Vec<_>>()).buffer_unordered(CONCURRENT_LOOKUPS).collect().await
}

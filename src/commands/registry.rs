//! What a person types about registries, and one round of asking them.

use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
    sync::Arc,
};

use futures::{StreamExt, stream};
use tracing::warn;

use super::Failure;
use crate::{
    domain::image::{Lookup, Reference},
    registry::{Registry, Settings},
};

/// How many images are waited for at once; how many are asked for at once is the registry client's own matter.
const AT_ONCE: usize = 64;

/// What was typed.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(id = "registries")]
pub(super) struct Args {
    /// A PEM file with certificates of authorities that registries are trusted by, beside those of the system
    #[arg(long, env = "WINPOOL_REGISTRY_CA", value_name = "FILE")]
    registry_ca: Option<PathBuf>,
    /// A registry that is asked over plain http, as HOST or HOST:PORT; may be repeated
    #[arg(long, env = "WINPOOL_REGISTRY_PLAIN_HTTP", value_name = "HOST", value_delimiter = ',')]
    registry_plain_http: Vec<String>,
}

impl Args {
    /// The client that they describe.
    pub(super) fn registry(self) -> Result<Registry, Failure> {
        let plain_http: BTreeSet<String> = self.registry_plain_http.into_iter().collect();
        let settings = Settings { certificates: self.registry_ca, plain_http, ..Settings::default() };
        Registry::new(settings).map_err(|error| Failure::Usage(format!("--registry-ca: {error}")))
    }

    /// The same for the operator, which goes on without one where the system trusts nobody.
    pub(super) fn registry_if_any(self) -> Result<Option<Registry>, Failure> {
        let named = self.registry_ca.is_some();
        match self.registry() {
            Ok(registry) => Ok(Some(registry)),
            Err(failure) if named => Err(failure),
            Err(failure) => {
                warn!("registries are not asked what images are for, name certificates with --registry-ca: {failure}");
                Ok(None)
            }
        }
    }
}

/// Asks for images once each, anonymously; `mirrors` are those of a registry.
pub(super) async fn ask(
    registry: &Registry,
    images: BTreeSet<String>,
    mirrors: impl Fn(&Reference) -> Arc<[String]>,
) -> HashMap<String, Arc<Lookup>> {
    let known = images.into_iter().filter_map(|image| Some((image.parse::<Reference>().ok()?, image)));
    let asked = known.map(|(reference, image)| {
        let mirrors = mirrors(&reference);
        async move { (image, Arc::new(registry.lookup(&reference, &mirrors, None).await)) }
    });
    stream::iter(asked.collect::<Vec<_>>()).buffer_unordered(AT_ONCE).collect().await
}

//! Checks of images in a real registry by the operator, `winpool migrate` and `winpool doctor`, with simulated nodes.
//!
//! There is no scheduler: pods without a node wait, so only the registry has information about their images.

mod compatibility;
mod doctor;
mod migrate;
mod mirrors;
mod objects;
mod private;

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Result;
use e2e::{
    certificates::Authority,
    control_plane::Options,
    fixture::SharedCluster,
    registry::{Access, Registry},
    shared::Shared,
};

/// The time limit until a pool reports the result of a lookup: changed counts alone are written every half minute, and
/// a failed lookup is retried after a minute.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(180);

/// A cluster whose operator uses two registries over TLS with a private authority.
struct Registries {
    shared: Arc<SharedCluster>,
    registry: Registry,
    mirror: Registry,
    /// What the certificates of the registries are signed with.
    authority: Authority,
}

/// The cluster and the registries that the tests share.
async fn registries() -> Arc<Registries> {
    static REGISTRIES: Shared<Registries> = Shared::new();
    REGISTRIES.get(start).await.unwrap()
}

async fn start() -> Result<Registries> {
    let authority = Authority::new()?;
    let registry = Registry::start(&authority, &Access::Anonymous).await?;
    let mirror = Registry::start(&authority, &Access::Anonymous).await?;
    let ca = authority.file();
    let mirrors = mirror.host();
    let arguments = ["--registry-ca", text(&ca), "--allow-hosts", &mirrors];
    let shared = Arc::new(SharedCluster::start(Options::api_server_only(), &arguments).await?);
    Ok(Registries { shared, registry, mirror, authority })
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The tags and digests in winpool's requests for the manifests of a repository.
fn manifests(registry: &Registry, repository: &str) -> Vec<String> {
    let place = format!("/v2/{repository}/manifests/");
    let requests = registry.requests_of("winpool/").unwrap().into_iter();
    requests.filter_map(|request| Some(request.path.strip_prefix(&place)?.to_owned())).collect()
}

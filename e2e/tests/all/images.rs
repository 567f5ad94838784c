//! Images of a real registry, as the operator, `winpool migrate` and `winpool lint` check them for simulated nodes.
//!
//! There is no scheduler: a pod without a node waits, and what its registry says is all that is known of its image.

mod compatibility;
mod lint;
mod migrate;
mod mirrors;
mod objects;
mod private;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use e2e::{
    assets::{docker_registry, say_skipped},
    certificates::Authority,
    control_plane::Options,
    fixture::SharedCluster,
    registry::{Access, Registry},
};
use tokio::sync::OnceCell;

/// How long it may take until a pool says what a registry answered: counts alone are written every half minute, and what
/// failed is asked again after a minute.
const PATIENCE: Duration = Duration::from_secs(180);

/// A cluster whose operator asks two registries over TLS with a private authority.
struct Registries {
    shared: SharedCluster,
    registry: Registry,
    mirror: Registry,
}

/// What the tests share; without the program of the registry the test is skipped by name.
async fn registries(test: &str) -> Option<&'static Registries> {
    static REGISTRIES: OnceCell<Registries> = OnceCell::const_new();
    let program = program(test)?;
    Some(REGISTRIES.get_or_init(|| start(program)).await)
}

async fn start(program: PathBuf) -> Registries {
    let authority = Authority::new().unwrap();
    let registry = Registry::start(&program, &authority, &Access::Anonymous).await.unwrap();
    let mirror = Registry::start(&program, &authority, &Access::Anonymous).await.unwrap();
    let ca = authority.file();
    let arguments = ["--registry-ca", text(&ca)];
    let shared = SharedCluster::start(Options::api_server_only(), &arguments).await.unwrap();
    Registries { shared, registry, mirror }
}

/// The program of the registry; without it the test is skipped by name.
fn program(test: &str) -> Option<PathBuf> {
    let program = docker_registry().unwrap();
    if program.is_none() {
        say_skipped(test, &"docker-registry");
    }
    program
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The requests for the manifests of a repository that winpool made, by what was asked for.
fn manifests(registry: &Registry, repository: &str) -> Vec<String> {
    let place = format!("/v2/{repository}/manifests/");
    let requests = registry.requests_of("winpool/").unwrap().into_iter();
    requests.filter_map(|request| Some(request.path.strip_prefix(&place)?.to_owned())).collect()
}

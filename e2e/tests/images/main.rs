//! Images of a real registry, as the operator, `winpool migrate` and `winpool lint` judge them for simulated nodes.
//!
//! There is no scheduler: a pod without a node waits, and what its registry says is all that is known of its image.

// clippy.toml allows these in tests, but takes a helper of a test for something else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;

mod lint;
mod migrate;
mod mirrors;
mod objects;
mod private;
mod verdicts;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use common::Stage;
use e2e::{
    assets::{docker_registry, say_skipped},
    certificates::Authority,
    control_plane::{ControlPlane, Options},
    install::install,
    operator::Operator,
    registry::{Access, Registry},
};
use tokio::sync::OnceCell;

/// How long it may take until a pool says what a registry answered: counts alone are told every half minute, and what
/// failed is asked again after a minute.
const PATIENCE: Duration = Duration::from_secs(180);

/// A stage whose operator asks two registries over TLS with a private authority.
struct House {
    stage: Stage,
    registry: Registry,
    mirror: Registry,
}

/// The house that tests share; without the program of the registry the test is skipped by name.
async fn house(test: &str) -> Option<&'static House> {
    static HOUSE: OnceCell<House> = OnceCell::const_new();
    let program = program(test)?;
    Some(HOUSE.get_or_init(|| build(program)).await)
}

async fn build(program: PathBuf) -> House {
    let authority = Authority::new().unwrap();
    let registry = Registry::start(&program, &authority, &Access::Anonymous).await.unwrap();
    let mirror = Registry::start(&program, &authority, &Access::Anonymous).await.unwrap();
    let control_plane = ControlPlane::start(Options::api_server_only()).await.unwrap();
    install(&control_plane).unwrap();
    let operator = Operator::start(&control_plane, &["--registry-ca", text(&authority.file())], &[]).await.unwrap();
    House { stage: Stage { control_plane, operator }, registry, mirror }
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

//! The registry client, against a real registry and against servers with wrong or malicious responses.

mod access;
mod bounds;
mod images;
mod lookups;
mod mirrors;
pub mod server;
mod tokens;

use std::{path::Path, time::Duration};

use anyhow::Result;
use e2e::{
    assets::{docker_registry, print_skipped},
    certificates::Authority,
    registry::{Access, Registry},
};
use winpool::{
    domain::image::{Lookup, Reference},
    registry::{Credentials, Registry as Client, Settings},
};

/// Settings that trust this authority too.
fn trusting(authority: &Authority) -> Settings {
    Settings { certificates: Some(authority.file()), ..Settings::default() }
}

/// A client that trusts this authority too.
fn client(authority: &Authority) -> Result<Client> {
    Ok(Client::new(trusting(authority))?)
}

/// A client with short time limits.
fn client_with_short_limits(authority: &Authority) -> Result<Client> {
    let (request_limit, lookup_limit) = (Duration::from_millis(500), Duration::from_millis(1500));
    Ok(Client::new(Settings { request_limit, lookup_limit, ..trusting(authority) })?)
}

/// The registry program. If it is missing, prints that the test is skipped.
fn program(test: &str) -> Result<Option<&'static Path>> {
    static PROGRAM: std::sync::OnceLock<Option<std::path::PathBuf>> = std::sync::OnceLock::new();
    if PROGRAM.get().is_none() {
        let _ = PROGRAM.set(docker_registry()?);
    }
    let program = PROGRAM.get().and_then(Option::as_deref);
    if program.is_none() {
        print_skipped(test, &"docker-registry");
    }
    Ok(program)
}

/// A registry without authentication.
async fn anonymous(program: &Path) -> Result<(Authority, Registry)> {
    let authority = Authority::new()?;
    let registry = Registry::start(program, &authority, &Access::Anonymous).await?;
    Ok((authority, registry))
}

fn credentials(host: &str, (name, password): (&str, &str)) -> Credentials {
    let file = serde_json::json!({ "auths": { host: { "username": name, "password": password } } });
    Credentials::parse(file.to_string().as_bytes()).expect("credentials")
}

fn image(text: &str) -> Reference {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The platforms that were found, as sorted texts; or the error.
fn described(lookup: &Lookup) -> Vec<String> {
    match lookup {
        Lookup::Found(content) => {
            let mut platforms: Vec<String> = content.platforms.iter().map(ToString::to_string).collect();
            platforms.sort();
            platforms
        }
        Lookup::Failed(error) => vec![format!("failed: {error}")],
    }
}

/// The error of a failed lookup.
fn error_of(lookup: &Lookup) -> &str {
    match lookup {
        Lookup::Failed(error) => error,
        Lookup::Found(content) => panic!("found {content:?}"),
    }
}

//! The registry client, against a real registry and against servers with wrong or malicious responses.

mod access;
mod bounds;
mod images;
mod lookups;
mod mirrors;
pub mod server;
mod tokens;

use std::time::Duration;

use anyhow::Result;
use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{
    certificates::Authority,
    registry::{Access, Registry},
};
use winpool_core::image::{Lookup, Reference};
use winpool_registry::{Credentials, Registry as Client, RegistrySettings};

/// Settings that trust this authority too.
fn trusting(authority: &Authority) -> RegistrySettings {
    RegistrySettings { certificates: Some(authority.file()), ..RegistrySettings::default() }
}

/// A client that trusts this authority too.
fn client(authority: &Authority) -> Result<Client> {
    Ok(Client::new(trusting(authority))?)
}

/// A client with short time limits.
fn client_with_short_limits(authority: &Authority) -> Result<Client> {
    let (request_limit, lookup_limit) = (Duration::from_millis(500), Duration::from_millis(1500));
    Ok(Client::new(RegistrySettings { request_limit, lookup_limit, ..trusting(authority) })?)
}

/// A registry without authentication.
async fn anonymous() -> Result<(Authority, Registry)> {
    let authority = Authority::new()?;
    let registry = Registry::start(&authority, &Access::Anonymous).await?;
    Ok((authority, registry))
}

fn credentials(host: &str, (name, password): (&str, &str)) -> Credentials {
    let file = serde_json::json!({ "auths": { host: { "username": name, "password": password } } });
    Credentials::parse(file.to_string().as_bytes()).expect("credentials")
}

/// The header `Authorization` of a login.
fn basic((name, password): (&str, &str)) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
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
fn error_of(lookup: &Lookup) -> String {
    match lookup {
        Lookup::Failed(error) => error.to_string(),
        Lookup::Found(content) => panic!("found {content:?}"),
    }
}

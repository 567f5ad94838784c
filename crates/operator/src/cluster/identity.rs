//! The identity of this process: in the Lease of the leader, and in the audit log of the API server.

use http::{HeaderValue, header::USER_AGENT};
use kube::Config;

/// The name of the host, which is that of the Pod, and random digits.
pub fn identity() -> Result<String, getrandom::Error> {
    let host = std::env::var("HOSTNAME").ok().filter(|host| !host.is_empty());
    Ok(format!("{}_{:08x}", host.as_deref().unwrap_or("winpool"), getrandom::u32()?))
}

/// The same configuration, whose clients send the version of winpool and an identity with each request.
pub fn identified(mut config: Config, identity: &str) -> Config {
    let agent = format!("winpool/{} ({identity})", env!("CARGO_PKG_VERSION"));
    // The name of a host has no characters that a header cannot have.
    config.headers.extend(HeaderValue::from_str(&agent).ok().map(|agent| (USER_AGENT, agent)));
    config
}

//! A real image registry on loopback: Debian's `docker-registry`, over TLS, with or without authentication.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{
    assets,
    certificates::Authority,
    directory::Directory,
    images::{GZIP, ManifestFormat, Repository, windows},
    network::{accepts_connections, free_port},
    process::Process,
};

const START_TIMEOUT: Duration = Duration::from_secs(300);

/// The name and the password of the one user under [`Access::Basic`].
pub const LOGIN: (&str, &str) = ("puller", "correct horse");
/// The same in the format of `htpasswd -B`, with the lowest cost.
const HTPASSWD: &str = "puller:$2b$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e\n";

/// The authentication that a registry requires.
#[derive(Clone, Debug)]
pub enum Access {
    Anonymous,
    /// Basic authentication with [`LOGIN`].
    Basic,
    Token {
        /// The address of the token server.
        realm: String,
        /// The issuer of the tokens.
        issuer: String,
        /// The certificate of the key that signs them, as PEM.
        certificate: String,
    },
}

/// The name of the registry in tokens.
pub const SERVICE: &str = "registry on loopback";

/// A running registry. Dropping it ends it and deletes its images.
pub struct Registry {
    process: Process,
    port: u16,
    client: reqwest::Client,
    _directory: Directory,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    /// The path with its query.
    pub path: String,
    pub status: u16,
    /// The `User-Agent`.
    pub agent: String,
}

impl Registry {
    pub async fn start(authority: &Authority, access: &Access) -> Result<Self> {
        let program = assets::program("registry")?;
        let directory = Directory::new()?;
        let folder = directory.path();
        let port = free_port()?;
        let (certificate, key) = authority.issue()?.write(folder, "server")?;
        let mut configuration = json!({
            "version": 0.1,
            "log": { "level": "warn" },
            "storage": { "filesystem": { "rootdirectory": folder.join("images") } },
            "http": {
                "addr": format!("127.0.0.1:{port}"),
                "secret": "of no consequence to one registry alone",
                "tls": { "certificate": certificate, "key": key },
            },
            // The base layers of Windows used to be foreign layers, with URLs of another registry.
            "validation": { "manifests": { "urls": { "allow": ["^https://"] } } },
        });
        if let Some(auth) = access.configuration(folder)? {
            configuration["auth"] = auth;
        }
        let file = folder.join("config.yml");
        // JSON is YAML.
        fs::write(&file, configuration.to_string())?;
        let mut command = Command::new(program);
        command.arg("serve").arg(&file);
        let process = Process::spawn("docker-registry", command, &folder.join("registry.log"))?;
        process.ready(START_TIMEOUT, || accepts_connections(port)).await?;
        Ok(Self { process, port, client: authority.client()?, _directory: directory })
    }

    /// The host and port, as in image references.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A repository to push to, with this `Authorization` header.
    pub fn repository(&self, name: &str, authorization: Option<&str>) -> Repository {
        Repository {
            client: self.client.clone(),
            root: format!("https://{}/v2/{name}", self.host()),
            authorization: authorization.map(str::to_owned),
        }
    }

    /// The answered requests in the access log whose `User-Agent` begins with `agent`.
    pub fn requests_of(&self, agent: &str) -> Result<Vec<Request>> {
        let log = fs::read_to_string(self.process.log())?;
        let requests = log.lines().filter_map(Request::parse);
        let requests: Vec<Request> = requests.collect();
        ensure!(!requests.is_empty(), "there is no access log in {}", self.process.log_tail());
        Ok(requests.into_iter().filter(|request| request.agent.starts_with(agent)).collect())
    }
}

impl Access {
    fn configuration(&self, folder: &Path) -> Result<Option<Value>> {
        Ok(match self {
            Self::Anonymous => None,
            Self::Basic => {
                let path = folder.join("htpasswd");
                fs::write(&path, HTPASSWD)?;
                Some(json!({ "htpasswd": { "realm": "registry", "path": path } }))
            }
            Self::Token { realm, issuer, certificate } => {
                let path = folder.join("tokens.crt");
                fs::write(&path, certificate)?;
                let token = json!({ "realm": realm, "service": SERVICE, "issuer": issuer, "rootcertbundle": path });
                Some(json!({ "token": token }))
            }
        })
    }
}

impl Request {
    /// Reads a line such as `127.0.0.1 - - [time] "GET /v2/ HTTP/1.1" 200 2 "" "agent"`.
    fn parse(line: &str) -> Option<Self> {
        let (_, rest) = line.split_once("] \"")?;
        let mut parts = rest.split('"');
        let mut request = parts.next()?.split(' ');
        let status = parts.next()?.split_whitespace().next()?.parse().ok()?;
        let agent = parts.nth(2).unwrap_or_default().to_owned();
        Some(Self { method: request.next()?.to_owned(), path: request.next()?.to_owned(), status, agent })
    }
}

/// Pushes `count` images, each for another Windows version, and returns their references: every second one by digest.
pub async fn fill(registry: &Registry, count: usize) -> Result<Vec<String>> {
    const REPOSITORIES: usize = 10;
    let types = ManifestFormat::Docker.media_types();
    let mut references = Vec::new();
    for team in 0..REPOSITORIES {
        let name = format!("team-{team}/app");
        let repository = registry.repository(&name, None);
        let layer = repository.blob(types.gzip, GZIP).await?;
        for number in (team..count).step_by(REPOSITORIES) {
            let (tag, platform) = (format!("v{number}"), windows(&format!("10.0.20348.{number}")));
            let image = repository
                .image_of(Some(&tag), ManifestFormat::Docker, &platform, std::slice::from_ref(&layer))
                .await?;
            let digest = image["digest"].as_str().unwrap_or_default();
            let suffix = if number % 2 == 0 { format!("@{digest}") } else { format!(":{tag}") };
            references.push(format!("{}/{name}{suffix}", registry.host()));
        }
    }
    Ok(references)
}

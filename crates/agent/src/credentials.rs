//! The connection to the API server from a HostProcess container.
//!
//! kube reads the files of the ServiceAccount below `/var/run/secrets`, which on Windows is relative to the current drive. A
//! HostProcess container sees the file system of the host: its own volumes are below `%CONTAINER_SANDBOX_MOUNT_POINT%`.
//! Source: <https://kubernetes.io/docs/tasks/configure-pod-container/create-hostprocess-pod/#volume-mounts>.

use std::{io, net::Ipv6Addr, path::PathBuf};

use kube::Config;
use rustls::pki_types::{
    CertificateDer,
    pem::{self, PemObject},
};

/// Where the volumes of a HostProcess container are, on the file system of the host.
pub const MOUNT_POINT: &str = "CONTAINER_SANDBOX_MOUNT_POINT";
/// The directory of the ServiceAccount's files, below the mount point.
const SERVICE_ACCOUNT: &str = r"var\run\secrets\kubernetes.io\serviceaccount";

/// Why there is no connection to the API server.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The container was not started as HostProcess container with a ServiceAccount.
    #[error("environment variable {0} is not set. Run the agent as a HostProcess container with a ServiceAccount")]
    NotSet(&'static str),
    #[error("cannot read {path}: {error}")]
    Unreadable { path: String, error: io::Error },
    /// The certificate authority of the cluster is not in PEM format.
    #[error("{path} has no certificate: {error}")]
    InvalidCertificate { path: String, error: pem::Error },
    #[error("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are no address: {0}")]
    InvalidAddress(#[from] http::uri::InvalidUri),
}

/// The configuration of the client, from the variables and the files of a HostProcess container.
///
/// kube reads the token and the certificate authority again when they are rotated.
pub fn in_cluster(
    variable: impl Fn(&'static str) -> Option<String>,
    read: impl Fn(&str) -> io::Result<Vec<u8>>,
) -> Result<Config, CredentialsError> {
    let required = |name| variable(name).filter(|value| !value.is_empty()).ok_or(CredentialsError::NotSet(name));
    let root = required(MOUNT_POINT)?;
    let path = |file| format!(r"{}\{SERVICE_ACCOUNT}\{file}", root.trim_end_matches(['\\', '/']));
    let content =
        |path: &str| read(path).map_err(|error| CredentialsError::Unreadable { path: path.to_owned(), error });

    let (token, authority) = (path("token"), path("ca.crt"));
    content(&token)?;
    let certificates = certificates(&content(&authority)?)
        .map_err(|error| CredentialsError::InvalidCertificate { path: authority.clone(), error })?;

    let mut config = Config::new(url(&required("KUBERNETES_SERVICE_HOST")?, &required("KUBERNETES_SERVICE_PORT")?)?);
    config.default_namespace = String::from_utf8_lossy(&content(&path("namespace"))?).trim().to_owned();
    config.root_cert = Some(certificates);
    config.root_cert_file = Some(PathBuf::from(authority));
    config.auth_info.token_file = Some(token);
    Ok(config)
}

/// The URL of the API server. An IPv6 address is in brackets.
fn url(host: &str, port: &str) -> Result<http::Uri, http::uri::InvalidUri> {
    match host.parse::<Ipv6Addr>() {
        Ok(address) => format!("https://[{address}]:{port}"),
        Err(_) => format!("https://{host}:{port}"),
    }
    .parse()
}

/// The certificates of a PEM file in DER format, at least one.
fn certificates(file: &[u8]) -> Result<Vec<Vec<u8>>, pem::Error> {
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(file).map(|read| Ok(read?.to_vec())).collect::<Result<_, _>>()?;
    if certificates.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(certificates) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEM: &str = "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n";

    /// A container with these variables, and the files of a ServiceAccount below `C:\hpc`.
    fn config(variables: &[(&str, &str)], authority: &str) -> Result<Config, CredentialsError> {
        in_cluster(
            |name| variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).to_owned()),
            |path| match path {
                r"C:\hpc\var\run\secrets\kubernetes.io\serviceaccount\token" => Ok(b"secret".to_vec()),
                r"C:\hpc\var\run\secrets\kubernetes.io\serviceaccount\ca.crt" => Ok(authority.as_bytes().to_vec()),
                r"C:\hpc\var\run\secrets\kubernetes.io\serviceaccount\namespace" => Ok(b"winpool-agent\n".to_vec()),
                _ => Err(io::ErrorKind::NotFound.into()),
            },
        )
    }

    fn variables<'a>(root: &'a str, host: &'a str) -> [(&'static str, &'a str); 3] {
        [(MOUNT_POINT, root), ("KUBERNETES_SERVICE_HOST", host), ("KUBERNETES_SERVICE_PORT", "443")]
    }

    #[test]
    fn the_files_are_read_below_the_mount_point_of_the_container() {
        for root in [r"C:\hpc", r"C:\hpc\"] {
            let config = config(&variables(root, "10.96.0.1"), PEM).unwrap();
            let directory = r"C:\hpc\var\run\secrets\kubernetes.io\serviceaccount";
            assert_eq!(config.auth_info.token_file, Some(format!(r"{directory}\token")));
            assert_eq!(config.root_cert_file, Some(PathBuf::from(format!(r"{directory}\ca.crt"))));
            assert_eq!(config.root_cert, Some(vec![vec![1, 2, 3]]));
            assert_eq!(config.default_namespace, "winpool-agent");
        }
    }

    #[test]
    fn the_address_of_the_api_server_is_that_of_its_service() {
        for (host, url) in [
            ("10.96.0.1", "https://10.96.0.1:443/"),
            ("fd00::1", "https://[fd00::1]:443/"),
            ("api.example.com", "https://api.example.com:443/"),
        ] {
            let config = config(&variables(r"C:\hpc", host), PEM).unwrap();
            assert_eq!(config.cluster_url.to_string(), url);
        }
    }

    #[test]
    fn an_error_names_the_variable_or_the_file() {
        let all = variables(r"C:\hpc", "10.96.0.1");
        let other_root = variables(r"C:\other", "10.96.0.1");
        let no_host = variables(r"C:\hpc", "");
        for (variables, authority, expected) in [
            (&all[1..], PEM, "CONTAINER_SANDBOX_MOUNT_POINT is not set"),
            (&all[..2], PEM, "KUBERNETES_SERVICE_PORT is not set"),
            (&no_host[..], PEM, "KUBERNETES_SERVICE_HOST is not set"),
            (&other_root[..], PEM, r"cannot read C:\other\var\run\secrets\kubernetes.io\serviceaccount\token"),
            (&all[..], "", r"C:\hpc\var\run\secrets\kubernetes.io\serviceaccount\ca.crt has no certificate"),
        ] {
            let error = config(variables, authority).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}

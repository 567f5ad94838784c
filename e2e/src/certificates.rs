//! A certificate authority for servers on loopback.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct Certificate {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "private authority");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("ca.crt"), issuer.pem())?;
        Ok(Self { issuer, folder })
    }

    /// A file with the certificate of the authority, as PEM. It is removed when the authority is dropped.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// The certificate of the authority, with the key that signs others.
    pub(crate) fn own(&self) -> Certificate {
        Certificate { certificate: self.issuer.pem(), key: self.issuer.key().serialize_pem() }
    }

    /// A certificate for a client, with its name. It expired in 2020.
    pub fn issue_expired(&self, client: &str) -> Result<Certificate> {
        let mut params = of_client(client);
        (params.not_before, params.not_after) = (date_time_ymd(2019, 1, 1), date_time_ymd(2020, 1, 1));
        self.sign(&params)
    }

    /// A certificate for the kubelet of a node: it expires after `rest`, which is 5 % of its lifetime.
    pub fn issue_near_its_end(&self, node: &str, rest: Duration) -> Result<Certificate> {
        let mut params = of_client(&format!("system:node:{node}"));
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        let now = date_time_ymd(1970, 1, 1) + SystemTime::now().duration_since(UNIX_EPOCH)?;
        (params.not_before, params.not_after) = (now - 19 * rest, now + rest);
        self.sign(&params)
    }

    /// A certificate for servers on loopback: `127.0.0.1`, `127.0.0.2` and `localhost`.
    pub fn issue(&self) -> Result<Certificate> {
        let names = ["127.0.0.1", "127.0.0.2", "localhost"].map(str::to_owned);
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "a server on loopback");
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Result<Certificate> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Certificate { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// A client that trusts only this authority.
    pub fn client(&self) -> Result<reqwest::Client> {
        install_ring();
        let authority = reqwest::Certificate::from_pem(self.issuer.pem().as_bytes())?;
        // Without a pool: a connection ends with the runtime of the test that opened it, and several tests share a client.
        let builder = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
        Ok(builder.tls_certs_only([authority]).build()?)
    }
}

fn of_client(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

/// A client that verifies no certificate, for servers whose certificate is self-signed.
pub fn unverified_client() -> Result<reqwest::Client> {
    install_ring();
    Ok(reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true).build()?)
}

/// Only the first call in a process has an effect; every caller in this process installs ring.
fn install_ring() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

impl Certificate {
    /// Writes `<name>.crt` and `<name>.key` into a folder, and returns their paths.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> Result<(PathBuf, PathBuf)> {
        let [certificate, key] = ["crt", "key"].map(|extension| folder.join(format!("{name}.{extension}")));
        fs::write(&certificate, &self.certificate)?;
        fs::write(&key, &self.key)?;
        Ok((certificate, key))
    }
}

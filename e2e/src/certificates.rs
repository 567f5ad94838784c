//! A certificate authority of our own, for servers on loopback.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};

/// An authority that nobody trusts who was not told to.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl Authority {
    /// A fresh one.
    ///
    /// # Errors
    /// When its certificate cannot be made or written.
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

    /// A file with its own certificate, as PEM. It is there as long as the authority.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// A certificate for servers on loopback: `127.0.0.1`, `127.0.0.2` and `localhost`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn issue(&self) -> Result<Certificate> {
        let names = ["127.0.0.1", "127.0.0.2", "localhost"].map(str::to_owned);
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "a server on loopback");
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Certificate { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// A client that trusts it and nobody else.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn client(&self) -> Result<reqwest::Client> {
        // The first in a process to install one decides; each that there is in this one is ring.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let authority = reqwest::Certificate::from_pem(self.issuer.pem().as_bytes())?;
        Ok(reqwest::Client::builder().no_proxy().tls_certs_only([authority]).build()?)
    }
}

impl Certificate {
    /// Writes `<name>.crt` and `<name>.key` into a folder, and returns where they are.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> Result<(PathBuf, PathBuf)> {
        let [certificate, key] = ["crt", "key"].map(|extension| folder.join(format!("{name}.{extension}")));
        fs::write(&certificate, &self.certificate)?;
        fs::write(&key, &self.key)?;
        Ok((certificate, key))
    }
}

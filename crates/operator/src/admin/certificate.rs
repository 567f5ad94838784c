//! The certificate of the server, which may change while it runs.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rcgen::{CertificateParams, KeyPair};
use rustls::{
    ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::{sync::watch, time::sleep};
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

/// How often the files are read. A Secret that is mounted changes about a minute after its object.
const INTERVAL: Duration = Duration::from_secs(10);

/// Where the certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// A new key and a certificate of its own, for clients that do not verify it.
    SelfSigned,
    /// PEM files, which are read again when they change.
    Files {
        /// The certificate, followed by those of intermediate authorities.
        certificate: PathBuf,
        key: PathBuf,
    },
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read, or has no PEM block of its kind.
    #[error("{}: {why}", file.display())]
    File { file: PathBuf, why: String },
    /// Certificate and key do not belong together, or cannot be used.
    #[error("certificate and key: {0}")]
    Pair(#[from] rustls::Error),
    #[error("a self-signed certificate cannot be created: {0}")]
    SelfSigned(#[from] rcgen::Error),
}

/// The certificate in use, and where a newer one would come from.
#[derive(Debug)]
pub struct Certificate {
    source: CertificateSource,
    current: watch::Sender<Arc<CertifiedKey>>,
}

impl Certificate {
    /// Reads or creates a certificate.
    pub fn new(source: CertificateSource) -> Result<Self, CertificateError> {
        let current = watch::Sender::new(Arc::new(source.certified_key()?));
        Ok(Self { source, current })
    }

    /// Accepts connections with the certificate in use at that time.
    pub(super) fn acceptor(&self) -> Result<TlsAcceptor, rustls::Error> {
        let config = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let mut config = config.with_no_client_auth().with_cert_resolver(Arc::new(Current(self.current.subscribe())));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Reads the files periodically. While they cannot be used, the former certificate stays in use.
    pub(super) async fn run(&self) {
        let CertificateSource::Files { certificate, .. } = &self.source else { return std::future::pending().await };
        let mut failure = None;
        loop {
            sleep(INTERVAL).await;
            match self.source.certified_key() {
                Ok(read) => {
                    failure = None;
                    if self.replace(read) {
                        info!(file = %certificate.display(), "certificate of the admin server replaced");
                    }
                }
                Err(error) => {
                    let error = Some(error.to_string());
                    if failure != error {
                        warn!(error, "certificate of the admin server not replaced, the former one stays in use");
                    }
                    failure = error;
                }
            }
        }
    }

    /// Uses another certificate; false if it is in use already.
    fn replace(&self, read: CertifiedKey) -> bool {
        self.current.send_if_modified(|current| {
            let is_new = current.cert != read.cert;
            if is_new {
                *current = Arc::new(read);
            }
            is_new
        })
    }
}

impl CertificateSource {
    fn certified_key(&self) -> Result<CertifiedKey, CertificateError> {
        let (chain, key) = match self {
            Self::SelfSigned => {
                let key = KeyPair::generate()?;
                let certificate = CertificateParams::new(vec!["localhost".to_owned()])?.self_signed(&key)?;
                (vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
            }
            Self::Files { certificate, key } => (chain(certificate)?, private_key(key)?),
        };
        Ok(CertifiedKey::from_der(chain, key, &provider())?)
    }
}

fn chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let parsed = CertificateDer::pem_slice_iter(&read(file)?).collect::<Result<Vec<_>, _>>();
    match parsed {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err(unusable(file, "no PEM block with a certificate")),
        Err(error) => Err(unusable(file, error)),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, CertificateError> {
    PrivateKeyDer::from_pem_slice(&read(file)?).map_err(|error| unusable(file, error))
}

fn read(file: &Path) -> Result<Vec<u8>, CertificateError> {
    fs::read(file).map_err(|error| unusable(file, error))
}

fn unusable(file: &Path, why: impl ToString) -> CertificateError {
    CertificateError::File { file: file.to_owned(), why: why.to_string() }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Selects the certificate in use, whatever name the client asks for.
#[derive(Debug)]
struct Current(watch::Receiver<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.borrow().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Certificate and key as PEM.
    fn pair() -> [String; 2] {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        [certificate.pem(), key.serialize_pem()]
    }

    fn source(folder: &Path) -> CertificateSource {
        CertificateSource::Files { certificate: folder.join("tls.crt"), key: folder.join("tls.key") }
    }

    #[test]
    fn a_certificate_that_cannot_be_used_is_an_error_that_names_the_file() {
        let ([certificate, key], [_, other_key]) = (pair(), pair());
        for (certificate, key, expected) in [
            (Some(&certificate), Some(&key), ""),
            (None, Some(&key), "tls.crt: No such file or directory"),
            (Some(&certificate), None, "tls.key: No such file or directory"),
            (Some(&key), Some(&key), "tls.crt: no PEM block with a certificate"),
            (Some(&certificate), Some(&certificate), "tls.key: no items found"),
            (Some(&certificate), Some(&other_key), "certificate and key: keys may not be consistent"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in [("tls.crt", certificate), ("tls.key", key)] {
                text.into_iter().for_each(|text| fs::write(folder.path().join(name), text).unwrap());
            }
            let result = Certificate::new(source(folder.path()));
            let text = result.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(text.contains(expected) && text.is_empty() == expected.is_empty(), "{expected}: {text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_certificate_is_used_and_an_invalid_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let write = |pair: &[String; 2]| {
            fs::write(folder.path().join("tls.crt"), &pair[0]).unwrap();
            fs::write(folder.path().join("tls.key"), &pair[1]).unwrap();
        };
        let (first, second) = (pair(), pair());
        write(&first);
        let certificate = Certificate::new(source(folder.path())).unwrap();
        let in_use = || certificate.current.borrow().cert.clone();
        let before = in_use();
        tokio::select! {
            () = certificate.run() => unreachable!("it runs until it is dropped"),
            () = async {
                write(&[second[0].clone(), first[1].clone()]);
                sleep(2 * INTERVAL).await;
                assert_eq!(in_use(), before, "half of a pair is not used");
                write(&second);
                sleep(2 * INTERVAL).await;
                assert_ne!(in_use(), before);
            } => {}
        }
    }
}

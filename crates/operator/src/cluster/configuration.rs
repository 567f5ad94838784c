//! Failures that last until the configuration of the client is corrected.

use std::{error::Error, io, time::Duration};

use kube::Client;
use tokio::time::timeout;

use super::{explain, status_code};

/// How long the API server may take to answer the first request.
const LIMIT: Duration = Duration::from_secs(5);

/// The remedy of a failure that does not end by itself: the API server rejects the credentials, or its certificate is not
/// trusted. Other failures may end by themselves.
pub(super) fn configuration_remedy(error: &(dyn Error + 'static), code: Option<u16>) -> Option<&'static str> {
    match code {
        Some(401) => Some("log in to the cluster again: the credentials of the kubeconfig are wrong or have expired"),
        None if is_untrusted_certificate(error) => Some(
            "correct certificate-authority and server in the kubeconfig: the certificate of the API server is not trusted",
        ),
        _ => None,
    }
}

/// Whether an error was caused by the certificate of the other side.
fn is_untrusted_certificate(error: &(dyn Error + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return matches!(error, rustls::Error::InvalidCertificate(_));
    }
    // The source of an io::Error is that of the error in it.
    let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref).map(|inner| inner as _);
    inner.or_else(|| error.source()).is_some_and(is_untrusted_certificate)
}

/// Sends one request, to find mistakes in the configuration of the client. An API server that cannot be reached now, or takes
/// long, may answer later.
/// Err: cause and remedy, if the API server rejects the credentials, or its certificate is not trusted.
pub async fn check_configuration(client: &Client) -> Result<(), String> {
    let Ok(Err(error)) = timeout(LIMIT, client.apiserver_version()).await else { return Ok(()) };
    let remedy = configuration_remedy(&error, status_code(&error));
    remedy.map_or(Ok(()), |remedy| Err(format!("{}: {remedy}", explain(&error))))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn rejected_credentials_and_untrusted_certificates_have_a_remedy_and_other_failures_may_end() {
        let answer = |code| kube::Error::Api(Status { code, ..Status::default() }.boxed());
        let tls = |error: rustls::Error| {
            let nested = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, error));
            kube::Error::Service(Box::new(nested))
        };
        for (error, expected) in [
            (answer(401), Some("log in to the cluster again")),
            (tls(rustls::CertificateError::UnknownIssuer.into()), Some("correct certificate-authority")),
            (tls(rustls::CertificateError::NotValidForName.into()), Some("correct certificate-authority")),
            (tls(rustls::Error::HandshakeNotComplete), None),
            (answer(403), None),
            (answer(503), None),
            (kube::Error::Service(Box::new(io::Error::from(io::ErrorKind::ConnectionRefused))), None),
        ] {
            let remedy = configuration_remedy(&error, status_code(&error));
            assert_eq!(remedy.is_some(), expected.is_some(), "{error:?}: {remedy:?}");
            assert!(remedy.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{error:?}: {remedy:?}");
        }
    }
}

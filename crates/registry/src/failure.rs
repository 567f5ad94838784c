//! Why a lookup failed.

use std::{fmt, path::PathBuf};

use tokio::time::Instant;
use winpool_core::ForeignText;

/// The maximum number of characters of a message, because it is shown in a status.
const MAX_MESSAGE: usize = 400;

/// Why a lookup failed. The message does not quote the server, because its answer may repeat a secret of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    message: ForeignText,
    /// The earliest time at which a retry may succeed; `None` for any time.
    pub(super) retry_at: Option<Instant>,
}

impl Failure {
    pub(super) fn new(message: impl fmt::Display) -> Self {
        Self { message: message.to_string().into(), retry_at: None }
    }

    pub(super) fn retry_at(mut self, at: Instant) -> Self {
        self.retry_at = Some(at);
        self
    }

    /// The failure of several attempts. A retry may succeed as soon as one of them may.
    pub(super) fn of_all(failures: &[Self]) -> Self {
        let messages: Vec<_> = failures.iter().map(|failure| failure.message.raw()).collect();
        let retry_at = failures.iter().map(|failure| failure.retry_at).min().flatten();
        Self { retry_at, ..Self::new(messages.join("; ")) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.MAX_MESSAGE$}", self.message)
    }
}

/// Why the client cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The certificates of additional authorities cannot be read.
    #[error("{}: {reason}", path.display())]
    Certificates { path: PathBuf, reason: String },
    /// TLS cannot be set up, for instance because the system has no certificates of authorities.
    #[error("cannot create a client for registries: {0}")]
    Client(String),
}

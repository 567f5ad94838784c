//! What several tests use together: it starts with the first of them, and ends with the last.

use std::sync::{self, Arc, MutexGuard, PoisonError, Weak};

use anyhow::Result;
use tokio::sync::Mutex;

/// A value that exists as long as a test uses it. The tests of a module run one after the other, several at a time: they share
/// one, and the next module has the machine for itself.
#[derive(Debug, Default)]
pub struct Shared<T>(Mutex<Weak<T>>);

impl<T> Shared<T> {
    /// For a `static`.
    pub const fn new() -> Self {
        Self(Mutex::const_new(Weak::new()))
    }

    /// The value, which `start` makes if no test uses one.
    pub async fn get(&self, start: impl AsyncFnOnce() -> Result<T>) -> Result<Arc<T>> {
        let mut current = self.0.lock().await;
        if let Some(value) = current.upgrade() {
            return Ok(value);
        }
        let value = Arc::new(start().await?);
        *current = Arc::downgrade(&value);
        Ok(value)
    }
}

/// Locks, also after a test has panicked with the lock.
pub(crate) fn lock<T>(mutex: &sync::Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

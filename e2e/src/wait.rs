//! Waits until a cluster reaches a state, instead of sleeping for a fixed time.

use std::{
    fmt::Debug,
    future::Future,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, bail};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// The size of a test: the full one for `make test-long`, which sets `WINPOOL_TEST_LONG`.
pub fn size<T>(usual: T, long: T) -> T {
    if std::env::var_os("WINPOOL_TEST_LONG").is_some() { long } else { usual }
}

/// Calls `check` until it succeeds, and returns its value. Its error describes the observed state; `what` completes the
/// sentence "timed out waiting until …".
pub async fn eventually<T, F, Fut>(what: &str, timeout: Duration, mut check: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T>>,
{
    let started = Instant::now();
    let mut pause = FIRST_PAUSE;
    let mut last = None;
    loop {
        let left = timeout.saturating_sub(started.elapsed());
        match tokio::time::timeout(left.max(LONGEST_PAUSE), check()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => last = Some(error),
            Err(_) => last = Some(last.unwrap_or_else(|| anyhow!("the check itself gave no answer"))),
        }
        if started.elapsed() >= timeout {
            let last = last.map(|error| format!("{error:#}")).unwrap_or_default();
            bail!("timed out after {timeout:?} waiting until {what}; last seen: {last}");
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Reads a value until `holds` is true of it, and returns it.
pub async fn until<T, F, Fut, P>(what: &str, timeout: Duration, mut read: F, holds: P) -> Result<T>
where
    T: Debug,
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T>>,
    P: Fn(&T) -> bool,
{
    let holds = &holds;
    eventually(what, timeout, || {
        let value = read();
        async move {
            let value = value.await?;
            if holds(&value) { Ok(value) } else { Err(anyhow!("{value:#?}")) }
        }
    })
    .await
}

/// Checks for the whole `period` that `holds` is true of the values of `read`.
pub async fn stays<T, F, Fut, P>(what: &str, period: Duration, mut read: F, holds: P) -> Result<()>
where
    T: Debug,
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T>>,
    P: Fn(&T) -> bool,
{
    let started = Instant::now();
    while started.elapsed() < period {
        let value = read().await?;
        if !holds(&value) {
            bail!("after {:?} it is no longer so that {what}: {value:#?}", started.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

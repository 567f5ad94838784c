//! Progress lines for the user: the current step, its duration and its result.

use std::{
    future::Future,
    io::{IsTerminal, stdout},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tokio::task::JoinHandle;

/// The interval between the progress lines of a step.
const INTERVAL: Duration = Duration::from_secs(5);

/// Runs a step of the demonstration: prints a line every five seconds while it runs, and then its duration with the
/// text that `work` returns.
///
/// # Errors
/// Those of `work`, with the step's name.
pub async fn step<T>(what: &str, work: impl Future<Output = Result<(T, String)>>) -> Result<T> {
    step_with_progress(what, &Progress::default(), work).await
}

/// Like [`step`], with a progress text in the lines.
///
/// # Errors
/// Those of `work`, with the step's name.
pub async fn step_with_progress<T>(
    what: &str,
    progress: &Progress,
    work: impl Future<Output = Result<(T, String)>>,
) -> Result<T> {
    let started = Instant::now();
    let ticker = Ticker::start(what, started, progress.clone());
    let ended = work.await;
    drop(ticker);
    finished(what, started, ended)
}

/// Like [`step`], for work that prints its progress itself.
///
/// # Errors
/// Those of `work`, with the step's name.
pub async fn step_with_own_progress<T>(what: &str, work: impl Future<Output = Result<(T, String)>>) -> Result<T> {
    let started = Instant::now();
    finished(what, started, work.await)
}

fn finished<T>(what: &str, started: Instant, ended: Result<(T, String)>) -> Result<T> {
    let (value, result) = ended.with_context(|| what.to_owned())?;
    println!("{} {result}", dim(&format!("[{:>5.1} s]", started.elapsed().as_secs_f64())));
    Ok(value)
}

/// Runs blocking work, such as waiting for a program, on a separate thread.
///
/// # Errors
/// Those of `work`.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.context("a thread ended early")?
}

/// The latest progress text of a step.
#[derive(Clone, Default)]
pub struct Progress(Arc<Mutex<String>>);

impl Progress {
    /// Replaces the text.
    pub fn set(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    fn get(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Prints the progress lines of a step until it is dropped.
struct Ticker(JoinHandle<()>);

impl Ticker {
    fn start(what: &str, started: Instant, progress: Progress) -> Self {
        let what = what.to_owned();
        Self(tokio::spawn(async move {
            loop {
                tokio::time::sleep(INTERVAL).await;
                let progress = Some(progress.get()).filter(|progress| !progress.is_empty());
                let progress = progress.map(|progress| format!(": {progress}")).unwrap_or_default();
                println!("{} {what}{progress}", dim(&format!("[{:>5.0} s …]", started.elapsed().as_secs_f64())));
            }
        }))
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// In bold letters, on a terminal.
pub fn bold(text: &str) -> String {
    styled("1", text)
}

/// In pale letters, on a terminal.
pub fn dim(text: &str) -> String {
    styled("2", text)
}

fn styled(code: &str, text: &str) -> String {
    if stdout().is_terminal() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

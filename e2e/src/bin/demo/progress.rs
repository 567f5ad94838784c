//! Lines for the person who waits: what is under way, for how long, and how it ended.

use std::{
    future::Future,
    io::{IsTerminal, stdout},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tokio::task::JoinHandle;

/// How often a step that goes on says so.
const STILL: Duration = Duration::from_secs(5);

/// Makes a step of the demonstration: says what begins, says every five seconds that it goes on, and says what came of
/// it after how many seconds. The words that `work` returns end the line.
///
/// # Errors
/// Those of `work`, with the step's name.
pub async fn step<T>(what: &str, work: impl Future<Output = Result<(T, String)>>) -> Result<T> {
    step_with_news(what, &News::default(), work).await
}

/// As [`step`], with news of how far it is.
///
/// # Errors
/// Those of `work`, with the step's name.
pub async fn step_with_news<T>(what: &str, news: &News, work: impl Future<Output = Result<(T, String)>>) -> Result<T> {
    let started = Instant::now();
    let still = Still::start(what, started, news.clone());
    let ended = work.await;
    drop(still);
    let (value, words) = ended.with_context(|| what.to_owned())?;
    println!("{} {words}", dim(&format!("[{:>5.1} s]", started.elapsed().as_secs_f64())));
    Ok(value)
}

/// Runs what blocks, such as a program that is waited for, on a thread of its own.
///
/// # Errors
/// Those of `work`.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.context("a thread ended early")?
}

/// The latest news of a step.
#[derive(Clone, Default)]
pub struct News(Arc<Mutex<String>>);

impl News {
    /// Replaces them.
    pub fn set(&self, words: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = words;
    }

    fn get(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Says that a step goes on, until it is dropped.
struct Still(JoinHandle<()>);

impl Still {
    fn start(what: &str, started: Instant, news: News) -> Self {
        let what = what.to_owned();
        Self(tokio::spawn(async move {
            loop {
                tokio::time::sleep(STILL).await;
                let news = Some(news.get()).filter(|news| !news.is_empty());
                let news = news.map(|news| format!(": {news}")).unwrap_or_default();
                println!("{} {what}{news}", dim(&format!("[{:>5.0} s …]", started.elapsed().as_secs_f64())));
            }
        }))
    }
}

impl Drop for Still {
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

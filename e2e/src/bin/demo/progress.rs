//! The lines that show the current step, its duration and its result.

use std::{
    cell::RefCell,
    io::{IsTerminal, stdout},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tokio::time::sleep;

/// The interval between the lines of a step that has not ended.
const INTERVAL: Duration = Duration::from_secs(5);

/// Runs a step: prints a line every five seconds while it runs, and then its duration with the text that `work` returns. `work`
/// writes into its argument what it waits for.
pub async fn step<T>(what: &str, work: impl AsyncFnOnce(&RefCell<String>) -> Result<(T, String)>) -> Result<T> {
    let (started, waits_for) = (Instant::now(), RefCell::default());
    let ended = tokio::select! {
        ended = work(&waits_for) => ended,
        never = print_each_interval(what, started, &waits_for) => never,
    };
    let (value, result) = ended.with_context(|| what.to_owned())?;
    println!("{} {result}", dim(&format!("[{:>5.1} s]", started.elapsed().as_secs_f64())));
    Ok(value)
}

async fn print_each_interval<T>(what: &str, started: Instant, waits_for: &RefCell<String>) -> T {
    loop {
        sleep(INTERVAL).await;
        let time = dim(&format!("[{:>5.0} s …]", started.elapsed().as_secs_f64()));
        println!("{time} {}", [what, &waits_for.borrow()].join(": ").trim_end_matches(": "));
    }
}

/// Runs blocking work, such as waiting for a program, on a separate thread.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.context("a thread ended early")?
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

//! A line on the terminal that shows that long work goes on.

use std::{
    io::{self, IsTerminal as _},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use kube::Client;
use parking_lot::Mutex;
use winpool_core::text::counted;
use winpool_operator::cluster;

/// Work that takes less time is not shown.
const DELAY: Duration = Duration::from_millis(700);
/// The time between two updates.
const INTERVAL: Duration = Duration::from_millis(200);

/// The width of the line that stderr shows at present.
static WIDTH: Mutex<usize> = Mutex::new(0);

/// Removes the line, before something else is written to stderr. It appears again with the next update.
pub(super) fn interrupt() {
    remove(&WIDTH, &mut io::stderr());
}

/// A line on stderr about work that goes on, if stderr is a terminal. It is removed when this value is dropped.
pub(super) struct Progress {
    done: Arc<AtomicUsize>,
    line: Option<Line>,
}

/// The thread that writes the line. It ends when the sender is dropped.
struct Line {
    end: Sender<()>,
    thread: JoinHandle<()>,
}

impl Progress {
    /// Shows `work`, and how many units of it are done.
    pub(super) fn start(work: &'static str, unit: &'static str) -> Self {
        let done = Arc::<AtomicUsize>::default();
        let line = io::stderr().is_terminal().then(|| {
            let ((end, ended), counter) = (mpsc::channel(), done.clone());
            let text = move || text(work, unit, counter.load(Ordering::Relaxed));
            Line { end, thread: thread::spawn(move || show(text, &ended, &WIDTH, io::stderr())) }
        });
        Self { done, line }
    }

    pub(super) fn add_one(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// The same client, whose answered requests are counted.
    pub(super) fn counting(&self, client: Client) -> Client {
        let done = self.done.clone();
        cluster::observed(client, move || {
            done.fetch_add(1, Ordering::Relaxed);
        })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(Line { end, thread }) = self.line.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

fn text(work: &str, unit: &str, done: usize) -> String {
    match done {
        0 => format!("winpool: {work} …"),
        done => format!("winpool: {work} … {}", counted(done, unit)),
    }
}

/// Writes the line until the work ends, and removes it.
fn show(text: impl Fn() -> String, ended: &mpsc::Receiver<()>, width: &Mutex<usize>, mut out: impl io::Write) {
    let mut wait = DELAY;
    while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        let text = text();
        let mut width = width.lock();
        // Spaces remove the rest of a longer line, also where a terminal knows no escape sequences.
        let _ = write!(out, "\r{text:<before$}", before = *width);
        let _ = out.flush();
        (*width, wait) = (text.chars().count().max(*width), INTERVAL);
    }
    remove(width, &mut out);
}

fn remove(width: &Mutex<usize>, out: &mut impl io::Write) {
    let mut width = width.lock();
    if *width > 0 {
        let _ = write!(out, "\r{:<before$}\r", "", before = *width);
        let _ = out.flush();
        *width = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_counts_what_is_done() {
        assert_eq!(text("reading the cluster", "request", 0), "winpool: reading the cluster …");
        assert_eq!(text("reading the cluster", "request", 12), "winpool: reading the cluster … 12 requests");
    }

    #[test]
    fn short_work_writes_nothing_and_the_line_of_long_work_is_removed() {
        let written = |duration: Duration| {
            let (end, ended) = mpsc::channel();
            let thread = thread::spawn(move || {
                let mut out = Vec::new();
                show(|| "12345".to_owned(), &ended, &Mutex::new(0), &mut out);
                String::from_utf8(out).unwrap()
            });
            thread::sleep(duration);
            drop(end);
            thread.join().unwrap()
        };
        assert_eq!(written(Duration::ZERO), "");
        let long = written(DELAY + INTERVAL / 2);
        assert!(long.starts_with("\r12345") && long.ends_with("\r     \r"), "{long:?}");
    }
}

//! `winpool status --watch`: the progress of rollouts until none runs.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::{sleep, timeout};
use winpool_core::{Objects, foreign_text::escaped, text::counted};
use winpool_operator::cluster;
use winpool_rules::{
    pool::Pool,
    status::overview::{Overview, PoolOverview, PoolProgress, Share},
};

use super::{CommandError, input, output, read::Reader, text};
use crate::signals::Signals;

/// The time between two reads of the pools. The other objects are read when a pool has changed.
const INTERVAL: Duration = Duration::from_secs(2);
/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Prints the progress until no rollout runs, or a signal arrives. Returns the last status.
pub async fn until_done(
    reader: &Reader,
    mut pools: Objects<Pool>,
    mut overview: Overview,
    prints: bool,
) -> Result<Overview, CommandError> {
    let mut signals = Signals::listen()?;
    let mut screen = Screen { terminal: io::stdout().is_terminal(), lines: Vec::new() };
    let mut paces = Paces::default();
    let mut outage = false;
    while overview.is_running() {
        if prints {
            output::print(&screen.shown(&paces.lines(&overview, Timestamp::now())))?;
        }
        let read = tokio::select! {
            _ = signals.next() => break,
            read = next(reader, &pools) => read,
        };
        let problem = read.map(|changed| changed.into_iter().for_each(|now| (pools, overview) = now)).err();
        if problem.is_some() != outage {
            outage = problem.is_some();
            let text = problem.map(|error| format!("{error}. Trying again"));
            screen.interrupt();
            input::note(text.as_deref().unwrap_or("the API server answers again"));
        }
    }
    if prints {
        output::print(&screen.cleared())?;
    }
    Ok(overview)
}

/// What changed after the interval; `None` if nothing did.
async fn next(reader: &Reader, before: &Objects<Pool>) -> Result<Option<(Objects<Pool>, Overview)>, CommandError> {
    sleep(INTERVAL).await;
    let late = |_| CommandError::Cluster(format!("the API server did not answer within {LIMIT:?}"));
    let pools = timeout(LIMIT, cluster::list_served_pools(&reader.client)).await.map_err(late)??;
    if pools.values().eq(before.values()) {
        return Ok(None);
    }
    let overview = timeout(LIMIT, reader.overview(pools.clone())).await.map_err(late)?;
    Ok(Some((pools, overview)))
}

/// When the progress of each pool was first observed.
#[derive(Default)]
struct Paces(BTreeMap<String, Pace>);

#[derive(Clone, Copy)]
struct Pace {
    share: Share,
    at: Timestamp,
}

impl Paces {
    /// A line for each pool that is changing: what identifies it, and the times, which change by themselves.
    fn lines(&mut self, overview: &Overview, now: Timestamp) -> Vec<(String, String)> {
        let changing = overview.pools.iter().filter_map(|pool| Some((pool, pool.progress.as_ref()?)));
        let running = changing.filter(|(_, progress)| progress.running);
        running.map(|(pool, progress)| (line(pool, progress), self.times(pool, progress, now))).collect()
    }

    /// The elapsed time, and the time that is left if as much is done per time as since the first observation.
    fn times(&mut self, pool: &PoolOverview, progress: &PoolProgress, now: Timestamp) -> String {
        let share = progress.nodes.or(progress.machines).unwrap_or(Share { done: 0, total: 0 });
        let pace = self.0.entry(pool.name.clone()).or_insert(Pace { share, at: now });
        if pace.share.total != share.total || pace.share.done > share.done {
            *pace = Pace { share, at: now };
        }
        let elapsed = now.duration_since(progress.since.unwrap_or(pace.at));
        let left = left(*pace, share, now).map(|left| format!(", about {} left", minutes(left))).unwrap_or_default();
        format!(" ({} elapsed{left})", minutes(elapsed))
    }
}

fn left(first: Pace, share: Share, now: Timestamp) -> Option<SignedDuration> {
    let done = i32::try_from(share.done.checked_sub(first.share.done)?).ok().filter(|done| *done > 0)?;
    let remaining = i32::try_from(share.total.checked_sub(share.done)?).ok()?;
    now.duration_since(first.at).checked_mul(remaining)?.checked_div(done)
}

fn minutes(duration: SignedDuration) -> String {
    match duration.as_secs().max(0) {
        seconds @ ..=99 => format!("{seconds} s"),
        seconds => counted(usize::try_from((seconds + 30) / 60).unwrap_or(usize::MAX), "minute").to_string(),
    }
}

fn line(pool: &PoolOverview, progress: &PoolProgress) -> String {
    let counts = text::progress(progress);
    let unreconciled = pool.problems.iter().find(|problem| problem.condition == "Operator");
    let what = match (counts.is_empty(), unreconciled) {
        (_, Some(problem)) => problem.message.as_str(),
        (true, None) => "the spec is being applied",
        (false, None) => &counts,
    };
    format!("{}: {what}", pool.name)
}

/// The lines on stdout: rewritten on a terminal, else printed when they change.
struct Screen {
    terminal: bool,
    lines: Vec<String>,
}

impl Screen {
    /// What to print so that these lines are shown.
    fn shown(&mut self, lines: &[(String, String)]) -> String {
        let new = lines.iter().filter(|(line, _)| self.terminal || !self.lines.contains(line));
        let print: Vec<String> = new.map(|(line, times)| escaped(&format!("{line}{times}")).into_owned()).collect();
        let before = self.cleared();
        self.lines = if self.terminal { print.clone() } else { lines.iter().map(|(line, _)| line.clone()).collect() };
        before + &print.iter().map(|line| format!("{line}\n")).collect::<String>()
    }

    /// What to print so that no line is shown on a terminal.
    fn cleared(&mut self) -> String {
        match std::mem::take(&mut self.lines).len() {
            count if self.terminal && count > 0 => format!("\u{1b}[{count}A\r\u{1b}[J"),
            _ => String::new(),
        }
    }

    /// Keeps the lines on the terminal, because something else follows them.
    fn interrupt(&mut self) {
        if self.terminal {
            self.lines.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pool(done: usize, since: Option<i64>) -> Overview {
        let progress = PoolProgress {
            running: true,
            nodes: Some(Share { done, total: 6 }),
            in_work: vec!["web-3".into()],
            since: since.map(at),
            ..PoolProgress::default()
        };
        let pool = PoolOverview { name: "web".into(), progress: Some(progress), ..PoolOverview::default() };
        Overview { pools: vec![pool], ..Overview::default() }
    }

    #[test]
    fn the_time_that_is_left_is_estimated_from_observed_progress_only() {
        let mut paces = Paces::default();
        let mut times = |done, since, second| paces.lines(&pool(done, since), at(second)).remove(0).1;
        assert_eq!(times(1, None, 1000), " (0 s elapsed)");
        assert_eq!(times(1, None, 1060), " (60 s elapsed)", "nothing was done in this time");
        assert_eq!(times(2, Some(400), 1090), " (12 minutes elapsed, about 6 minutes left)");
        assert_eq!(times(5, None, 1180), " (3 minutes elapsed, about 45 s left)");
        assert_eq!(times(0, None, 1200), " (0 s elapsed)", "another rollout");
    }

    #[test]
    fn lines_are_rewritten_on_a_terminal_and_else_printed_when_they_change() {
        let line = |text: &str, times: &str| vec![(text.to_owned(), times.to_owned())];
        let steps = [line("web: 1", " a"), line("web: 1", " b"), line("web: 2", " c")];
        let shown = |terminal| {
            let mut screen = Screen { terminal, lines: Vec::new() };
            let shown: Vec<_> = steps.iter().map(|lines| screen.shown(lines)).collect();
            (shown, screen.cleared())
        };
        let erase = "\u{1b}[1A\r\u{1b}[J";
        let rewritten = vec!["web: 1 a\n".to_owned(), format!("{erase}web: 1 b\n"), format!("{erase}web: 2 c\n")];
        assert_eq!(shown(true), (rewritten, erase.to_owned()));
        assert_eq!(shown(false), (vec!["web: 1 a\n".into(), String::new(), "web: 2 c\n".into()], String::new()));
    }

    #[test]
    fn a_line_has_counts_and_nodes() {
        let lines = Paces::default().lines(&pool(2, None), at(0));
        assert_eq!(lines[0].0, "web: 2 of 6 nodes run their configuration; in work: web-3");
    }
}

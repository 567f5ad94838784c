//! Which versions the API servers have: behind one address there may be several, so each question takes a new connection.

use std::{collections::VecDeque, time::Duration};

use k8s_openapi::apimachinery::pkg::version::Info;
use kube::Config;
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tracing::debug;

use super::{client, explain};
use crate::facts::Minor;

/// How often an API server is asked.
const EVERY: Duration = Duration::from_secs(30);
/// How long an answer counts.
const LASTS: Duration = Duration::from_secs(15 * 60);
/// How long an answer is waited for.
const LIMIT: Duration = Duration::from_secs(10);

/// Asks for the API servers' versions and publishes the lowest of the last 15 minutes, which decides the skew policy.
pub struct Versions {
    config: Config,
    seen: Seen,
    lowest: watch::Sender<Option<Minor>>,
}

impl Versions {
    /// With the channel on which the lowest minor is published; `None` while no API server has answered lately.
    pub fn new(config: Config) -> (Self, watch::Receiver<Option<Minor>>) {
        let (lowest, receiver) = watch::channel(None);
        (Self { config, seen: Seen::default(), lowest }, receiver)
    }

    /// Asks once. A failure is no news: the watches say loudly enough when the API server is away.
    pub async fn ask(&mut self) {
        match timeout(LIMIT, self.answer()).await {
            Ok(Ok(minor)) => self.seen.answer(minor, Instant::now()),
            Ok(Err(text)) => debug!("the API server's version is not known: {text}"),
            Err(_) => debug!("the API server did not give its version within {LIMIT:?}"),
        }
        let lowest = self.seen.lowest(Instant::now());
        self.lowest.send_if_modified(|published| std::mem::replace(published, lowest) != lowest);
    }

    /// Asks again and again.
    pub async fn run(&mut self) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            self.ask().await;
        }
    }

    async fn answer(&self) -> Result<Minor, String> {
        let client = client(self.config.clone()).map_err(|error| explain(&error))?;
        let info = client.apiserver_version().await.map_err(|error| explain(&error))?;
        minor(&info)
    }
}

/// The minor that an API server reports; managed clouds write `34+`.
pub(super) fn minor(info: &Info) -> Result<Minor, String> {
    format!("{}.{}", info.major, info.minor).parse().map_err(|error: crate::facts::ParseVersionError| error.to_string())
}

/// The answers of late.
#[derive(Debug, Default)]
struct Seen(VecDeque<(Instant, Minor)>);

impl Seen {
    fn answer(&mut self, minor: Minor, now: Instant) {
        self.0.push_back((now, minor));
    }

    fn lowest(&mut self, now: Instant) -> Option<Minor> {
        self.0.retain(|(at, _)| now.duration_since(*at) < LASTS);
        self.0.iter().map(|(_, minor)| *minor).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_answer_of_the_last_quarter_of_an_hour_counts() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut seen = Seen::default();
        assert_eq!(seen.lowest(at(0)), None, "nobody has answered");
        seen.answer(Minor(35), at(0));
        seen.answer(Minor(34), at(30));
        seen.answer(Minor(35), at(60));
        assert_eq!(seen.lowest(at(60)), Some(Minor(34)));
        assert_eq!(seen.lowest(at(929)), Some(Minor(34)));
        assert_eq!(seen.lowest(at(930)), Some(Minor(35)), "the old server has not answered for 15 minutes");
        assert_eq!(seen.lowest(at(960)), None, "nobody has");
    }

    #[test]
    fn a_plus_behind_the_minor_is_ignored() {
        let info = |major: &str, minor: &str| Info { major: major.into(), minor: minor.into(), ..Info::default() };
        assert_eq!(minor(&info("1", "34")), Ok(Minor(34)));
        assert_eq!(minor(&info("1", "20+")), Ok(Minor(20)));
        assert!(minor(&info("", "")).is_err());
    }
}

//! The versions of the API servers. Several may share one address, so each probe opens a new connection.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::version::Info;
use kube::Config;
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, MissedTickBehavior, interval},
};
use tracing::debug;
use winpool_facts::{Minor, support::OLDEST};

use super::{client::probe_client, explain, limited};
use crate::admin::Metrics;

/// The time between two probes.
const INTERVAL: Duration = Duration::from_secs(30);
/// How long an answer counts.
const MAX_AGE: Duration = Duration::from_secs(15 * 60);
/// How long one probe may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The API server is older than winpool supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the API server has Kubernetes {0}, which no release of winpool supports. Upgrade the cluster to Kubernetes {OLDEST} or \
     later, or remove winpool from it"
)]
pub struct UnsupportedVersion(Minor);

/// Probes the versions of the API servers and publishes the lowest of the last 15 minutes, which decides the skew policy.
pub struct VersionProbe {
    config: Config,
    metrics: Metrics,
    recent: RecentVersions,
    lowest: watch::Sender<Option<Minor>>,
}

impl VersionProbe {
    /// Creates the probe and the channel on which the lowest minor is published; `None` without a recent answer.
    pub fn new(config: Config, metrics: Metrics) -> (Self, watch::Receiver<Option<Minor>>) {
        let (lowest, receiver) = watch::channel(None);
        (Self { config, metrics, recent: RecentVersions::default(), lowest }, receiver)
    }

    /// Probes once. A failure is logged at debug level only, because the watches report an unreachable API server.
    async fn probe(&mut self) {
        match self.fetch().await {
            Ok(minor) => self.recent.add(minor, Instant::now()),
            Err(error) => debug!(error, "API server version is unknown"),
        }
        let lowest = self.recent.lowest(Instant::now());
        self.lowest.send_if_modified(|published| std::mem::replace(published, lowest) != lowest);
    }

    /// Probes once, and fails if an API server is older than winpool supports. One that does not answer is no failure.
    pub async fn check(&mut self) -> Result<(), UnsupportedVersion> {
        self.probe().await;
        supported(*self.lowest.borrow())
    }

    /// Probes periodically; the first time after an interval. What was probed is kept when the task is started again.
    pub async fn run(shared: Arc<Mutex<Self>>) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            shared.lock().await.probe().await;
        }
    }

    async fn fetch(&self) -> Result<Minor, String> {
        let client = probe_client(self.config.clone(), &self.metrics).map_err(|error| explain(&error))?;
        minor(&limited(LIMIT, client.apiserver_version()).await?)
    }
}

fn supported(lowest: Option<Minor>) -> Result<(), UnsupportedVersion> {
    lowest.filter(|minor| *minor < OLDEST).map_or(Ok(()), |minor| Err(UnsupportedVersion(minor)))
}

/// The minor that an API server reports, which may have a suffix, such as `34+` on managed clouds.
pub(super) fn minor(info: &Info) -> Result<Minor, String> {
    format!("{}.{}", info.major, info.minor)
        .parse()
        .map_err(|error: winpool_facts::ParseVersionError| error.to_string())
}

/// The recent answers, with their time.
#[derive(Debug, Default)]
struct RecentVersions(VecDeque<(Instant, Minor)>);

impl RecentVersions {
    fn add(&mut self, minor: Minor, now: Instant) {
        self.0.push_back((now, minor));
    }

    fn lowest(&mut self, now: Instant) -> Option<Minor> {
        self.0.retain(|(at, _)| now.duration_since(*at) < MAX_AGE);
        self.0.iter().map(|(_, minor)| *minor).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_version_of_the_last_fifteen_minutes_is_used() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut recent = RecentVersions::default();
        assert_eq!(recent.lowest(at(0)), None, "no answer");
        recent.add(Minor(35), at(0));
        recent.add(Minor(34), at(30));
        recent.add(Minor(35), at(60));
        assert_eq!(recent.lowest(at(60)), Some(Minor(34)));
        assert_eq!(recent.lowest(at(929)), Some(Minor(34)));
        assert_eq!(recent.lowest(at(930)), Some(Minor(35)), "no answer of the old server for 15 minutes");
        assert_eq!(recent.lowest(at(960)), None, "no answer for 15 minutes");
    }

    #[test]
    fn only_an_api_server_before_1_30_is_refused() {
        for (answer, is_supported) in
            [(Some(20), false), (Some(29), false), (Some(30), true), (Some(37), true), (Some(99), true), (None, true)]
        {
            assert_eq!(supported(answer.map(Minor)).is_ok(), is_supported, "{answer:?}");
        }
        assert_eq!(
            UnsupportedVersion(Minor(29)).to_string(),
            "the API server has Kubernetes 1.29, which no release of winpool supports. Upgrade the cluster to Kubernetes 1.30 or \
             later, or remove winpool from it"
        );
    }

    #[test]
    fn a_plus_after_the_minor_is_ignored() {
        let info = |major: &str, minor: &str| Info { major: major.into(), minor: minor.into(), ..Info::default() };
        assert_eq!(minor(&info("1", "34")), Ok(Minor(34)));
        assert!(minor(&info("", "")).is_err());
    }
}

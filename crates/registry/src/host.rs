//! The limit for concurrent lookups at one host, and the back-off when it fails.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, header::RETRY_AFTER};
use jiff::{Timestamp, fmt::rfc2822::DateTimeParser};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::Instant};

use super::{failure::Failure, lru::LruMap};

/// The first back-off of a host that sends no `Retry-After`; it doubles with each further failure.
const FIRST_BACK_OFF: Duration = Duration::from_secs(5);
/// The longest back-off of a host that sends no `Retry-After`.
const MAX_BACK_OFF: Duration = Duration::from_secs(600);
/// The longest back-off of a host that sends `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);
/// The maximum number of hosts. Bounded, because everyone who can create a pod can name a host.
const MAX_HOSTS: usize = 1024;

#[derive(Debug)]
pub(super) struct Hosts {
    known: Mutex<LruMap<String, Arc<Host>>>,
    concurrency: usize,
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) permits: Semaphore,
    back_off: Mutex<BackOff>,
}

#[derive(Debug, Default)]
struct BackOff {
    end: Option<BackOffEnd>,
    failures: u32,
}

/// The end of a back-off, as an instant for waiting and as a time for messages.
#[derive(Clone, Copy, Debug)]
struct BackOffEnd {
    instant: Instant,
    time: Timestamp,
}

impl Hosts {
    pub(super) fn new(concurrency: usize) -> Self {
        Self { known: Mutex::new(LruMap::new(MAX_HOSTS)), concurrency: concurrency.max(1) }
    }

    /// The host with this name, with its port if it has one.
    pub(super) fn get(&self, name: &str) -> Arc<Host> {
        let mut known = self.known.lock();
        if let Some(host) = known.get(name) {
            return Arc::clone(host);
        }
        let host = Arc::new(Host {
            name: name.to_owned(),
            permits: Semaphore::new(self.concurrency),
            back_off: Mutex::default(),
        });
        let is_idle = |host: &Arc<Host>| Arc::strong_count(host) == 1 && host.check_back_off().is_ok();
        let _ = known.insert(name.to_owned(), Arc::clone(&host), is_idle);
        host
    }
}

impl Host {
    /// Fails during a back-off.
    pub(super) fn check_back_off(&self) -> Result<(), Failure> {
        match self.back_off.lock().end {
            Some(end) if end.instant > Instant::now() => Err(self.failure("failed before", end)),
            _ => Ok(()),
        }
    }

    /// Resets the back-off after a response, unless a back-off is running: the request may have been sent before it.
    pub(super) fn succeeded(&self) {
        let mut back_off = self.back_off.lock();
        if back_off.end.is_none_or(|end| end.instant <= Instant::now()) {
            *back_off = BackOff::default();
        }
    }

    /// Starts a back-off for the time in `Retry-After`, or for twice as long as the last one.
    pub(super) fn back_off(&self, cause: &str, retry_after: Option<Duration>) -> Failure {
        let mut back_off = self.back_off.lock();
        let now = Instant::now();
        let end = match back_off.end {
            // The request was sent before the back-off started.
            Some(end) if end.instant > now => end,
            _ => {
                let doubled = FIRST_BACK_OFF.saturating_mul(1 << back_off.failures.min(16)).min(MAX_BACK_OFF);
                let pause = retry_after.unwrap_or(doubled).clamp(Duration::from_secs(1), MAX_RETRY_AFTER);
                back_off.failures += 1;
                BackOffEnd { instant: now + pause, time: Timestamp::now() + pause }
            }
        };
        back_off.end = Some(end);
        self.failure(cause, end)
    }

    fn failure(&self, cause: &str, end: BackOffEnd) -> Failure {
        Failure::new(format!("{} {cause}, no requests until {:.0}", self.name, end.time)).retry_at(end.instant)
    }
}

/// The time in `Retry-After`: a number of seconds, or a date.
///
/// Source: RFC 9110, section 10.2.3.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(hosts: &Hosts) -> Arc<Host> {
        hosts.get("registry.example")
    }

    /// The rest of the back-off, in seconds.
    fn remaining(host: &Host) -> Option<u64> {
        host.check_back_off().err().and_then(|failure| failure.retry_at).map(|at| (at - Instant::now()).as_secs())
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now: Timestamp = "2025-03-01T12:00:00Z".parse().unwrap();
        let table = [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Sat, 01 Mar 2025 12:00:30 GMT", Some(30)),
            ("Sat, 01 Mar 2025 11:00:00 GMT", Some(0)),
            ("99999999999999999999999999", None),
            ("-5", None),
            ("soon", None),
            ("", None),
        ];
        for (text, seconds) in table {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            assert_eq!(retry_after(&headers, now), seconds.map(Duration::from_secs), "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_back_off_of_a_host_without_retry_after_doubles() {
        let hosts = Hosts::new(1);
        let host = host(&hosts);
        let mut waited = Vec::new();
        for _ in 0..9 {
            host.back_off("answered 503", None);
            waited.push(remaining(&host).unwrap());
            tokio::time::advance(Duration::from_secs(waited[waited.len() - 1])).await;
            assert_eq!(remaining(&host), None);
        }
        assert_eq!(waited, [5, 10, 20, 40, 80, 160, 320, 600, 600]);
        host.succeeded();
        host.back_off("answered 503", None);
        assert_eq!(remaining(&host), Some(5), "a success resets the back-off");
    }

    #[tokio::test(start_paused = true)]
    async fn the_back_off_is_the_time_in_retry_after_within_bounds() {
        let hosts = Hosts::new(1);
        for (retry_after, expected) in [(90, 90), (0, 1), (u64::MAX, 3600)] {
            let host = hosts.get(&format!("{retry_after}.example"));
            host.back_off("answered 429", Some(Duration::from_secs(retry_after)));
            assert_eq!(remaining(&host), Some(expected), "{retry_after}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_of_concurrent_requests_count_as_one() {
        let hosts = Hosts::new(8);
        let host = host(&hosts);
        for _ in 0..8 {
            host.back_off("answered 503", None);
        }
        // A success of a concurrent request does not end the back-off.
        host.succeeded();
        assert_eq!(remaining(&host), Some(5));
    }

    #[tokio::test(start_paused = true)]
    async fn the_message_has_the_host_the_cause_and_the_time() {
        let hosts = Hosts::new(1);
        let first = host(&hosts).back_off("answered 429", None).to_string();
        let until = first.strip_prefix("registry.example answered 429, no requests until ").unwrap();
        assert!(until.ends_with('Z') && until.parse::<Timestamp>().is_ok(), "{first}");
        let later = host(&hosts).check_back_off().unwrap_err().to_string();
        assert_eq!(later, format!("registry.example failed before, no requests until {until}"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_in_back_off_is_not_evicted_by_many_other_hosts() {
        let hosts = Hosts::new(1);
        host(&hosts).back_off("answered 429", None);
        for number in 0..2 * MAX_HOSTS {
            hosts.get(&format!("{number}.example"));
        }
        assert!(host(&hosts).check_back_off().is_err());
        assert_eq!(hosts.known.lock().len(), MAX_HOSTS);
    }
}

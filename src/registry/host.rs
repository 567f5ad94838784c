//! Manners towards one host: how many ask it at once, and how long it is left alone when it has trouble.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{HeaderMap, header::RETRY_AFTER};
use jiff::{Timestamp, fmt::rfc2822::DateTimeParser};
use tokio::{sync::Semaphore, time::Instant};

use super::{bounded::Bounded, failure::Failure};

/// The first time that a host is left alone for which it does not say how long; it doubles from there.
const FIRST: Duration = Duration::from_secs(5);
/// The longest time for which that doubles.
const LONGEST_UNASKED: Duration = Duration::from_secs(600);
/// Hosts are named by whoever may make a pod.
const MOST_HOSTS: usize = 1024;

/// The hosts that were asked.
#[derive(Debug)]
pub(super) struct Hosts {
    known: Mutex<Bounded<String, Arc<Host>>>,
    concurrency: usize,
    longest: Duration,
}

/// One host.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) name: String,
    /// Who asks it now.
    pub(super) turns: Semaphore,
    trouble: Mutex<Trouble>,
    longest: Duration,
}

#[derive(Debug, Default)]
struct Trouble {
    until: Option<Until>,
    in_a_row: u32,
}

/// The same moment on the clock that is waited by and on the one that people read.
#[derive(Clone, Copy, Debug)]
struct Until {
    instant: Instant,
    time: Timestamp,
}

impl Hosts {
    pub(super) fn new(concurrency: usize, longest: Duration) -> Self {
        Self { known: Mutex::new(Bounded::new(MOST_HOSTS)), concurrency: concurrency.max(1), longest }
    }

    /// The host of this name, with a port where it has one.
    pub(super) fn named(&self, name: &str) -> Arc<Host> {
        let mut known = lock(&self.known);
        if let Some(host) = known.get(name) {
            return Arc::clone(host);
        }
        let host = Arc::new(Host {
            name: name.to_owned(),
            turns: Semaphore::new(self.concurrency),
            trouble: Mutex::default(),
            longest: self.longest,
        });
        // One that somebody holds, or that is to be left alone, stays known.
        let idle = |host: &Arc<Host>| Arc::strong_count(host) == 1 && host.check().is_ok();
        let _ = known.insert(name.to_owned(), Arc::clone(&host), idle);
        host
    }
}

impl Host {
    /// # Errors
    /// While it is to be left alone.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match lock(&self.trouble).until {
            Some(until) if until.instant > Instant::now() => Err(self.left_alone(until, "is left alone")),
            _ => Ok(()),
        }
    }

    /// It answered, and had no trouble. What was on its way when trouble began does not end it.
    pub(super) fn well(&self) {
        let mut trouble = lock(&self.trouble);
        if trouble.until.is_none_or(|until| until.instant <= Instant::now()) {
            *trouble = Trouble::default();
        }
    }

    /// It has this trouble: it is left alone for as long as it asks, or else for twice as long as the last time.
    pub(super) fn in_trouble(&self, trouble: &str, asked: Option<Duration>) -> Failure {
        let mut state = lock(&self.trouble);
        let now = Instant::now();
        let until = match state.until {
            // Those who were on their way when it began say nothing new.
            Some(until) if until.instant > now => until,
            _ => {
                let doubled = FIRST.saturating_mul(1 << state.in_a_row.min(16)).min(LONGEST_UNASKED);
                let pause = asked.unwrap_or(doubled).clamp(Duration::from_secs(1), self.longest);
                state.in_a_row += 1;
                Until { instant: now + pause, time: Timestamp::now() + pause }
            }
        };
        state.until = Some(until);
        self.left_alone(until, &format!("{trouble} and is left alone"))
    }

    fn left_alone(&self, until: Until, words: &str) -> Failure {
        Failure::new(format!("{} {words} until {:.0}", self.name, until.time)).until(until.instant)
    }
}

/// What `Retry-After` asks for: a number of seconds, or a date.
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

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(hosts: &Hosts) -> Arc<Host> {
        hosts.named("registry.example")
    }

    fn waits(host: &Host) -> Option<u64> {
        host.check().err().and_then(|failure| failure.until).map(|until| (until - Instant::now()).as_secs())
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
    async fn a_host_that_does_not_say_how_long_is_left_alone_for_twice_as_long_each_time() {
        let hosts = Hosts::new(1, Duration::from_secs(3600));
        let host = host(&hosts);
        let mut waited = Vec::new();
        for _ in 0..9 {
            host.in_trouble("answers 503", None);
            waited.push(waits(&host).unwrap());
            tokio::time::advance(Duration::from_secs(waited[waited.len() - 1])).await;
            assert_eq!(waits(&host), None);
        }
        assert_eq!(waited, [5, 10, 20, 40, 80, 160, 320, 600, 600]);
        host.well();
        host.in_trouble("answers 503", None);
        assert_eq!(waits(&host), Some(5), "what it answered well in between counts");
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_gets_the_time_it_asks_for_within_reason() {
        let hosts = Hosts::new(1, Duration::from_secs(3600));
        for (asks, gets) in [(90, 90), (0, 1), (u64::MAX, 3600)] {
            let host = hosts.named(&format!("{asks}.example"));
            host.in_trouble("answers 429", Some(Duration::from_secs(asks)));
            assert_eq!(waits(&host), Some(gets), "{asks}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn several_that_meet_the_same_trouble_at_once_count_as_one() {
        let hosts = Hosts::new(8, Duration::from_secs(3600));
        let host = host(&hosts);
        for _ in 0..8 {
            host.in_trouble("answers 503", None);
        }
        // One of them got an answer all the same: the host still asked to be left alone.
        host.well();
        assert_eq!(waits(&host), Some(5));
    }

    #[tokio::test(start_paused = true)]
    async fn the_words_name_the_host_its_trouble_and_the_time() {
        let hosts = Hosts::new(1, Duration::from_secs(3600));
        let first = host(&hosts).in_trouble("answers 429", None).to_string();
        let until = first.strip_prefix("registry.example answers 429 and is left alone until ").unwrap();
        assert!(until.ends_with('Z') && until.parse::<Timestamp>().is_ok(), "{first}");
        let later = host(&hosts).check().unwrap_err().to_string();
        assert_eq!(later, format!("registry.example is left alone until {until}"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_hosts_does_not_make_a_troubled_one_forgotten() {
        let hosts = Hosts::new(1, Duration::from_secs(3600));
        host(&hosts).in_trouble("answers 429", None);
        for number in 0..2 * MOST_HOSTS {
            hosts.named(&format!("{number}.example"));
        }
        assert!(host(&hosts).check().is_err());
        assert_eq!(lock(&hosts.known).len(), MOST_HOSTS);
    }
}

//! Which process may write: the decisions of leader election with a Lease, as in Kubernetes' own components
//! (kubernetes/client-go, `tools/leaderelection/leaderelection.go`), with a claim that ends by itself.
//!
//! The holder renews the Lease. Its claim lasts for the duration of the Lease from the moment at which it began to send
//! the last successful renewal. Another process takes the Lease when it has not seen a change of it for that duration,
//! which begins after the renewal was received. So claims do not overlap, if the clocks run equally fast. Times are
//! measured by the clock of each process and are never compared between processes; `renewTime` is not read, and neither is
//! `leaseDurationSeconds`: everyone who can write the Lease could stop all processes with a long one.

use std::time::Duration;

/// A Lease as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseView {
    /// Its version, which changes with each renewal.
    pub version: String,
    /// The identity of the holder; empty after a release.
    pub holder: String,
}

/// What to send to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Another process may hold the Lease.
    Wait,
    /// Create the Lease, unless it exists.
    Create,
    /// Replace the Lease, if it still has the version that was read: to renew the own one, or to take one that was released
    /// or not renewed.
    Replace,
}

/// The state of one process in an election. `now` is the time since any fixed moment, by a clock that only rises.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Election {
    identity: String,
    duration: Duration,
    /// The Lease that was last seen, and when it was first seen in this version.
    seen: Option<(LeaseView, Duration)>,
    /// When the claim of this process ends, if it has one.
    claimed_until: Option<Duration>,
}

impl Election {
    /// The election for a process with a unique identity, and Leases of this duration.
    pub fn new(identity: String, duration: Duration) -> Self {
        Self { identity, duration, seen: None, claimed_until: None }
    }

    /// What to send after the Lease was read; `None` if it does not exist.
    pub fn attempt(&mut self, lease: Option<LeaseView>, now: Duration) -> Attempt {
        let Some(lease) = lease else { return self.attempt_without_lease(now) };
        let holder = lease.holder.clone();
        if self.seen.as_ref().is_none_or(|(seen, _)| *seen != lease) {
            self.seen = Some((lease, now));
        }
        if holder == self.identity {
            return Attempt::Replace;
        }
        // Another process took the Lease.
        self.claimed_until = None;
        match holder.is_empty() || self.has_expired(now) {
            true => Attempt::Replace,
            false => Attempt::Wait,
        }
    }

    /// The holder of a deleted Lease may not know yet that it was deleted.
    fn attempt_without_lease(&mut self, now: Duration) -> Attempt {
        let is_held =
            self.seen.as_ref().is_some_and(|(seen, _)| !seen.holder.is_empty() && seen.holder != self.identity);
        if is_held && !self.has_expired(now) { Attempt::Wait } else { Attempt::Create }
    }

    fn has_expired(&self, now: Duration) -> bool {
        self.seen.as_ref().is_none_or(|(_, since)| now.saturating_sub(*since) >= self.duration)
    }

    /// The API server accepted an attempt that began to be sent at `sent`.
    pub fn accepted(&mut self, sent: Duration) {
        self.claimed_until = Some(sent + self.duration);
    }

    /// When the claim ends; `None` without a claim. A claim that has ended stays ended until it is renewed.
    pub fn claimed_until(&self) -> Option<Duration> {
        self.claimed_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURATION: Duration = Duration::from_secs(20);

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn lease(version: &str, holder: &str) -> Option<LeaseView> {
        Some(LeaseView { version: version.to_owned(), holder: holder.to_owned() })
    }

    #[test]
    fn a_lease_is_taken_when_it_is_released_or_was_not_renewed_for_its_duration() {
        // What is read at which time, and the attempts.
        let table: [(&str, Vec<(u64, Option<LeaseView>, Attempt)>); 7] = [
            ("no Lease", vec![(0, None, Attempt::Create)]),
            ("a released Lease", vec![(0, lease("1", ""), Attempt::Replace)]),
            ("the own Lease", vec![(0, lease("1", "me"), Attempt::Replace)]),
            (
                "a Lease that is renewed",
                vec![
                    (0, lease("1", "other"), Attempt::Wait),
                    (19, lease("2", "other"), Attempt::Wait),
                    (38, lease("3", "other"), Attempt::Wait),
                ],
            ),
            (
                "a Lease that is not renewed",
                vec![
                    (5, lease("1", "other"), Attempt::Wait),
                    (24, lease("1", "other"), Attempt::Wait),
                    (25, lease("1", "other"), Attempt::Replace),
                ],
            ),
            (
                "a Lease that is deleted while it is held",
                vec![(0, lease("1", "other"), Attempt::Wait), (19, None, Attempt::Wait), (20, None, Attempt::Create)],
            ),
            ("an own Lease that is deleted", vec![(0, lease("1", "me"), Attempt::Replace), (1, None, Attempt::Create)]),
        ];
        for (case, reads) in table {
            let mut election = Election::new("me".to_owned(), DURATION);
            for (now, read, expected) in reads {
                assert_eq!(election.attempt(read, seconds(now)), expected, "{case}, after {now} s");
            }
        }
    }

    #[test]
    fn a_claim_lasts_from_the_moment_of_sending_and_ends_when_another_process_has_the_lease() {
        let mut election = Election::new("me".to_owned(), DURATION);
        assert_eq!(election.claimed_until(), None);
        election.attempt(None, seconds(1));
        election.accepted(seconds(1));
        assert_eq!(election.claimed_until(), Some(seconds(21)));
        election.attempt(lease("1", "me"), seconds(3));
        assert_eq!(election.claimed_until(), Some(seconds(21)), "an attempt alone changes nothing");
        election.accepted(seconds(3));
        assert_eq!(election.claimed_until(), Some(seconds(23)));
        election.attempt(lease("7", "other"), seconds(4));
        assert_eq!(election.claimed_until(), None);
    }
}

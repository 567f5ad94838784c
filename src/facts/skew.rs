//! How far a kubelet's minor may be from the API server's.
//!
//! Source: kubernetes/website, `content/en/releases/version-skew-policy.md` (commit 01bc097), and
//! kubernetes/enhancements, KEP 3935 (stable in 1.28): a kubelet is never newer than the API server, and at most three
//! minors older, or two if the kubelet is older than 1.25. With several API servers, each has to allow it: the oldest
//! says how new a kubelet may be, the newest how old.

use jiff::civil::{Date, date};

use super::Minor;

/// The day of the newest source.
pub const AS_OF: Date = date(2026, 7, 24);

/// Where a kubelet stands against the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Skew {
    /// Within the policy.
    Within,
    /// The kubelet is newer than the API server, which no version allows.
    KubeletNewer,
    /// The kubelet is too old for the API server.
    KubeletTooOld {
        /// The oldest kubelet that this API server allows.
        oldest: Minor,
    },
}

/// The first kubelet that may be three minors older than the API server.
const THREE_MINORS_SINCE: Minor = Minor(25);

/// Where a kubelet stands against an API server.
pub fn skew(kubelet: Minor, api_server: Minor) -> Skew {
    let oldest = oldest_kubelet(api_server);
    if kubelet > api_server {
        Skew::KubeletNewer
    } else if kubelet < oldest {
        Skew::KubeletTooOld { oldest }
    } else {
        Skew::Within
    }
}

/// The oldest kubelet that an API server allows. Three minors back is what counts as soon as a kubelet lies there that
/// may be so far behind, which is from 1.28 on.
fn oldest_kubelet(api_server: Minor) -> Minor {
    let three_back = Minor(api_server.0.saturating_sub(3));
    if three_back >= THREE_MINORS_SINCE { three_back } else { Minor(api_server.0.saturating_sub(2)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The oldest kubelet for each API server.
    #[rustfmt::skip]
    const OLDEST: [(u32, u32); 24] = [
        (14, 12), (15, 13), (16, 14), (17, 15), (18, 16), (19, 17), (20, 18), (21, 19), (22, 20), (23, 21), (24, 22), (25, 23),
        (26, 24), (27, 25), (28, 25), (29, 26), (30, 27), (31, 28), (32, 29), (33, 30), (34, 31), (35, 32), (36, 33), (37, 34),
    ];

    #[test]
    fn every_pair_of_minors_is_judged_as_the_policy_says() {
        for (api_server, oldest) in OLDEST {
            for kubelet in 14..=37 {
                let expected = match kubelet {
                    newer if newer > api_server => Skew::KubeletNewer,
                    older if older < oldest => Skew::KubeletTooOld { oldest: Minor(oldest) },
                    _ => Skew::Within,
                };
                assert_eq!(skew(Minor(kubelet), Minor(api_server)), expected, "{kubelet} with {api_server}");
            }
        }
    }

    #[test]
    fn three_minors_begin_with_kubelet_1_25() {
        assert_eq!(skew(Minor(24), Minor(27)), Skew::KubeletTooOld { oldest: Minor(25) });
        assert_eq!(skew(Minor(24), Minor(26)), Skew::Within);
        assert_eq!(skew(Minor(25), Minor(28)), Skew::Within);
        assert_eq!(skew(Minor(0), Minor(1)), Skew::Within, "no minor lies below zero");
    }
}

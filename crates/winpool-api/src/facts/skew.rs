//! The version skew policy for kubelets.
//!
//! Source: kubernetes/website, `content/en/releases/version-skew-policy.md` (commit 01bc097), and
//! kubernetes/enhancements, KEP 3935 (stable in 1.28): a kubelet is never newer than the API server, and at most three
//! minors older, or two if the kubelet is older than 1.25. With several API servers, each must allow it: the oldest
//! determines the newest kubelet, and the newest the oldest kubelet. kube-proxy may be three minors older or newer than the kubelet
//! beside it, or two if kube-proxy is older than 1.25.

use super::Minor;

/// The skew between a kubelet and an API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Skew {
    /// Within the policy.
    Within,
    /// The kubelet is newer than the API server.
    KubeletNewer,
    /// The kubelet is older than the policy allows.
    KubeletTooOld {
        /// The oldest supported kubelet.
        oldest: Minor,
    },
}

/// The first kubelet that may be three minors older than the API server.
const THREE_MINORS_SINCE: Minor = Minor(25);

/// The skew between a kubelet and an API server.
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

/// Whether kube-proxy may run beside a kubelet.
pub fn kube_proxy_may_run_beside(kube_proxy: Minor, kubelet: Minor) -> bool {
    let most = if kube_proxy < THREE_MINORS_SINCE { 2 } else { 3 };
    kube_proxy.0.abs_diff(kubelet.0) <= most
}

/// The oldest kubelet that an API server supports: three minors older from API server 1.28 on, before that two.
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
    fn kube_proxy_may_be_three_minors_older_or_newer_than_the_kubelet_and_two_before_1_25() {
        for (kube_proxy, kubelets) in [(24, 22..=26), (25, 22..=28), (34, 31..=37)] {
            for kubelet in 14..=40 {
                let may = kube_proxy_may_run_beside(Minor(kube_proxy), Minor(kubelet));
                assert_eq!(may, kubelets.contains(&kubelet), "{kube_proxy} beside {kubelet}");
            }
        }
    }

    #[test]
    fn the_skew_of_each_pair_of_minors_follows_the_policy() {
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
    fn a_skew_of_three_minors_is_allowed_from_kubelet_1_25_on() {
        assert_eq!(skew(Minor(24), Minor(27)), Skew::KubeletTooOld { oldest: Minor(25) });
        assert_eq!(skew(Minor(24), Minor(26)), Skew::Within);
        assert_eq!(skew(Minor(25), Minor(28)), Skew::Within);
        assert_eq!(skew(Minor(0), Minor(1)), Skew::Within, "minors are not negative");
    }
}

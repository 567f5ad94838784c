//! The version skew policy for kubelets.
//!
//! Source: kubernetes/website, `content/en/releases/version-skew-policy.md` (commit 01bc097), and
//! kubernetes/enhancements, KEP 3935 (stable in 1.28): a kubelet is never newer than the API server, and at most three
//! minors older. With several API servers, each must allow it: the oldest determines the newest kubelet, and the newest the
//! oldest kubelet. kube-proxy may be three minors older or newer than the kubelet beside it.

use super::Minor;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Skew {
    Within,
    KubeletNewer,
    KubeletTooOld { oldest: Minor },
}

/// The greatest difference of two minors that may run together.
const MOST: u32 = 3;

pub fn skew(kubelet: Minor, api_server: Minor) -> Skew {
    let oldest = Minor(api_server.0.saturating_sub(MOST));
    if kubelet > api_server {
        Skew::KubeletNewer
    } else if kubelet < oldest {
        Skew::KubeletTooOld { oldest }
    } else {
        Skew::Within
    }
}

pub fn kube_proxy_may_run_beside(kube_proxy: Minor, kubelet: Minor) -> bool {
    kube_proxy.0.abs_diff(kubelet.0) <= MOST
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The oldest kubelet for each API server.
    #[rustfmt::skip]
    const OLDEST: [(u32, u32); 8] =
        [(30, 27), (31, 28), (32, 29), (33, 30), (34, 31), (35, 32), (36, 33), (37, 34)];

    #[test]
    fn kube_proxy_may_be_three_minors_older_or_newer_than_the_kubelet() {
        for (kube_proxy, kubelets) in [(30, 27..=33), (34, 31..=37)] {
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
}

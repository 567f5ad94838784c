//! The problems of the network of a node, by what its agent reports of HNS.

use winpool_api::{NetworkFacts, names::reason};
use winpool_core::{ForeignText, text::some_of};

/// A problem: the reason of the condition, what shows it, if it is there, and what to do.
pub type NetworkProblem = (&'static str, Option<String>, &'static str);

/// All problems that a node can have, the worst first.
pub fn problems(network: &NetworkFacts) -> [NetworkProblem; 3] {
    let list = |all: &[String], what: &str| {
        let shown = || format!("{what} {}", ForeignText::from(some_of(all)));
        (!all.is_empty()).then(shown)
    };
    let lost = network.load_balancers_lost.then(|| "HNS has lost its load balancers".to_owned());
    [
        (
            reason::ENDPOINTS_DUPLICATE,
            list(&network.duplicates, "more than one endpoint of HNS has the address"),
            "Drain the node, so that its pods are created elsewhere",
        ),
        (reason::LOAD_BALANCERS_LOST, lost, "Restart kube-proxy on the node, which writes them again"),
        (
            reason::ENDPOINTS_LOST,
            list(&network.lost, "HNS has endpoints of no running pod with the address"),
            "Drain and restart the node when it suits: another pod may get such an address",
        ),
    ]
}

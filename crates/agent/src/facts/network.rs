//! The state of the host network service (HNS): what a reading shows, and which problems two readings that follow each other have in
//! common. A pod that begins or ends looks like a problem for a moment.
//!
//! Sources, read 2026-11-29: microsoft/hcsshim v0.15.0-rc.4, `internal/hns/hnsendpoint.go` (the members and states of an endpoint; those of
//! the newer API, `hcn/hcnendpoint.go`, have no state); projectcalico/calico, `felix/dataplane/windows/endpoint_mgr.go` (an endpoint of a pod
//! is attached, and some CNIs leave others); kubernetes/kubernetes 1.37.2, `pkg/proxy/winkernel`: `hns.go` (a local and a remote endpoint
//! of one network can have one address by a defect of Windows) and `proxier.go` (`newSourceVIP` makes an endpoint on the node that is never
//! attached and in no namespace; remote endpoints can have the MAC address of the node). Azure/AKS#5653: pods with such an address
//! lose their network.

use std::collections::{BTreeMap, BTreeSet};

use winpool_api::NetworkFacts;

use crate::{hns, script::Lines};

/// `EndpointState` of hcsshim.
const CREATED: &str = "1";
const DETACHED: &str = "4";
const DEGRADED: &str = "5";
/// The bounds of lists and texts in the schema.
const MAX_SHOWN: usize = 16;
const MAX_TEXT: usize = 64;

/// What was read of HNS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkReading {
    endpoints: u32,
    duplicates: BTreeSet<String>,
    lost: BTreeSet<String>,
    load_balancers: Option<u32>,
    /// Whether this reading or one before it has shown load balancers.
    had_load_balancers: bool,
}

/// An endpoint: `network|state|is remote|namespace|MAC address|IPv4 address|IPv6 address`.
struct Endpoint<'a> {
    network: &'a str,
    is_remote: bool,
    is_lost: bool,
    mac: &'a str,
    addresses: [&'a str; 2],
}

impl<'a> Endpoint<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let &[network, state, remote, namespace, mac, ip, ipv6] = &line.split('|').collect::<Vec<_>>()[..] else {
            return None;
        };
        let is_remote = remote.eq_ignore_ascii_case("true");
        let is_left = [DETACHED, DEGRADED].contains(&state) || (state == CREATED && !namespace.is_empty());
        Some(Self { network, is_remote, is_lost: is_left && !is_remote, mac, addresses: [ip, ipv6] })
    }

    fn addresses(&self) -> impl Iterator<Item = &'a str> {
        self.addresses.into_iter().filter(|address| is_shown(address))
    }
}

fn is_shown(text: &str) -> bool {
    (1..=MAX_TEXT).contains(&text.len())
}

impl NetworkReading {
    /// What the script printed; `None` if the endpoints were not read.
    pub fn parse(lines: &Lines, before: Option<&Self>) -> Option<Self> {
        if !lines.is_read("endpoint") {
            return None;
        }
        let endpoints: Vec<_> = lines.values("endpoint").filter_map(Endpoint::parse).collect();
        let local = || endpoints.iter().filter(|endpoint| !endpoint.is_remote);
        let mut numbers: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let addresses = endpoints.iter().flat_map(|one| one.addresses().map(|address| (one.network, address)));
        let macs = local().filter(|one| is_shown(one.mac)).map(|one| (one.network, one.mac));
        addresses.chain(macs).for_each(|key| *numbers.entry(key).or_default() += 1);
        let duplicates = numbers.into_iter().filter(|(_, number)| *number > 1).map(|((_, text), _)| text.to_owned());
        let lost = endpoints.iter().filter(|one| one.is_lost).filter_map(|one| one.addresses().next());
        let load_balancers = hns::load_balancers(lines);
        Some(Self {
            endpoints: u32::try_from(local().count()).unwrap_or(u32::MAX),
            duplicates: duplicates.collect(),
            lost: lost.map(str::to_owned).collect(),
            load_balancers,
            had_load_balancers: load_balancers > Some(0) || before.is_some_and(|before| before.had_load_balancers),
        })
    }

    /// What is reported: the figures, and the problems that the reading before has shown too.
    pub fn facts(&self, before: Option<&Self>) -> NetworkFacts {
        let none = Self::default();
        let before = before.unwrap_or(&none);
        let lasting = |now: &BTreeSet<String>, before: &BTreeSet<String>| -> Vec<String> {
            now.intersection(before).take(MAX_SHOWN).cloned().collect()
        };
        NetworkFacts {
            endpoints: self.endpoints,
            duplicates: lasting(&self.duplicates, &before.duplicates),
            lost: lasting(&self.lost, &before.lost),
            load_balancers: self.load_balancers,
            load_balancers_lost: before.had_load_balancers
                && [self, before].map(|of| of.load_balancers) == [Some(0); 2],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAT: &str = "76177bd4";
    const OVERLAY: &str = "5f1c0de2";

    fn reading(lines: &[&str], before: Option<&NetworkReading>) -> Option<NetworkReading> {
        NetworkReading::parse(&Lines::parse(&lines.join("\r\n")), before)
    }

    /// The problems of two readings with the same endpoints: addresses of more than one, and of endpoints that are lost.
    fn problems(endpoints: &[String]) -> [String; 2] {
        let mut lines: Vec<_> = endpoints.iter().map(String::as_str).collect();
        lines.push("endpoint|read");
        let before = reading(&lines, None).unwrap();
        assert_eq!(
            (before.facts(None).duplicates, before.facts(None).lost),
            (vec![], vec![]),
            "one reading shows none"
        );
        let facts = reading(&lines, Some(&before)).unwrap().facts(Some(&before));
        [facts.duplicates, facts.lost].map(|all| all.join(" "))
    }

    #[test]
    fn endpoints_are_duplicate_within_a_network_and_lost_if_they_were_detached_or_are_in_a_namespace_unattached() {
        let endpoint = |network: &str, state: u8, remote: &str, namespace: &str, mac: &str, ip: &str| {
            format!("endpoint|{network}|{state}|{remote}|{namespace}|{mac}|{ip}|")
        };
        let pod = |mac: &str, ip: &str| endpoint(OVERLAY, 3, "False", "2c094b9e", mac, ip);
        let table = [
            ("two pods", vec![pod("00-01", "10.1.0.5"), pod("00-02", "10.1.0.6")], ["", ""]),
            ("one address", vec![pod("00-01", "10.1.0.5"), pod("00-02", "10.1.0.5")], ["10.1.0.5", ""]),
            ("one MAC address", vec![pod("00-01", "10.1.0.5"), pod("00-01", "10.1.0.6")], ["00-01", ""]),
            (
                "in two networks",
                vec![pod("00-01", "10.1.0.5"), endpoint(NAT, 3, "False", "2c09", "00-01", "10.1.0.5")],
                ["", ""],
            ),
            (
                "of a pod of another node",
                vec![pod("00-01", "10.1.0.5"), endpoint(OVERLAY, 1, "True", "", "02-11", "10.1.0.5")],
                ["10.1.0.5", ""],
            ),
            (
                "remote with the MAC address of the node",
                vec![pod("00-01", "10.1.0.5"), endpoint(OVERLAY, 1, "True", "", "00-01", "10.2.0.5")],
                ["", ""],
            ),
            // `newSourceVIP` of kube-proxy.
            ("source VIP", vec![endpoint(OVERLAY, 1, "False", "", "00-01", "10.1.0.2")], ["", ""]),
            // microsoft/Windows-Containers#563: the container has no adapter.
            (
                "never attached",
                vec![endpoint(NAT, 1, "False", "2c094b9e", "00-15-5D-CD-BE-47", "172.27.148.101")],
                ["", "172.27.148.101"],
            ),
            ("detached", vec![endpoint(OVERLAY, 4, "False", "", "00-01", "10.1.0.5")], ["", "10.1.0.5"]),
            ("degraded", vec![endpoint(OVERLAY, 5, "False", "", "00-01", "10.1.0.5")], ["", "10.1.0.5"]),
            (
                "without addresses",
                vec![endpoint(OVERLAY, 4, "False", "", "", ""), endpoint(OVERLAY, 4, "False", "", "", "")],
                ["", ""],
            ),
            ("of another form", vec!["endpoint|10.1.0.5|False".to_owned()], ["", ""]),
        ];
        for (case, endpoints, expected) in table {
            assert_eq!(problems(&endpoints), expected, "{case}");
        }
        let ipv6 = format!("endpoint|{OVERLAY}|3|False|2c09||10.1.0.5|fd00::5");
        assert_eq!(problems(&[ipv6.clone(), ipv6.replace("10.1.0.5", "10.1.0.6")]), ["fd00::5", ""]);
    }

    #[test]
    fn load_balancers_are_lost_if_there_were_some_and_two_readings_show_none() {
        let one = "loadbalancer|Load Balancer : 3599612c-54b4-4b9d-9258-4fc5e2100549";
        let (some, none, unread) = (&[one, "loadbalancer|read"][..], &["loadbalancer|read"][..], &[][..]);
        for (case, readings, expected) in [
            ("there are some", vec![some, some], (Some(1), false)),
            // Before kube-proxy starts, or on a node without it.
            ("never any", vec![none, none, none], (Some(0), false)),
            ("while kube-proxy starts again", vec![some, none], (Some(0), false)),
            ("lost", vec![some, none, none], (Some(0), true)),
            ("still lost", vec![some, none, none, none], (Some(0), true)),
            ("written again", vec![some, none, none, some], (Some(1), false)),
            ("not read", vec![some, none, unread], (None, false)),
        ] {
            let (mut before, mut facts) = (None, None);
            for lines in readings {
                let now = reading(&[&["endpoint|read"][..], lines].concat(), before.as_ref()).unwrap();
                facts = Some(now.facts(before.as_ref()));
                before = Some(now);
            }
            let facts = facts.unwrap();
            assert_eq!((facts.load_balancers, facts.load_balancers_lost), expected, "{case}");
        }
    }

    #[test]
    fn lists_that_were_not_read_to_their_end_show_nothing_and_long_ones_are_cut() {
        assert_eq!(reading(&["endpoint|a|3|False|n|m|10.1.0.5|"], None), None);
        let many: Vec<_> = (0..99).map(|index| format!("endpoint|a|4|False|||10.1.0.{index}|")).collect();
        assert_eq!(problems(&many)[1].split(' ').count(), MAX_SHOWN);
        let lines: Vec<_> = many.iter().map(String::as_str).chain(["endpoint|read"]).collect();
        assert_eq!(reading(&lines, None).unwrap().facts(None).endpoints, 99);
    }
}

//! The Service features and limits of Windows nodes.
//!
//! Sources: kubernetes/website, in `docs`: `concepts/services-networking/windows-networking.md` (1.31, 1.36 and 038a69be, read 2026-11-29),
//! `reference/networking/virtual-ips.md`, and `concepts/services-networking/dual-stack.md` (IPv6 only in dual-stack networks, and
//! Services of a single family); kubernetes/enhancements, KEP 5100 (2025-02): Direct Server Return needs the gate WinDSR, on from
//! 1.33, and `--enable-dsr=true`; kubernetes/kubernetes, `pkg/proxy/winkernel/proxier.go` at v1.37.2, and v1.38.0-beta.0, which has no gate; the EKS user guide, `windows-support.adoc` (2024), and Microsoft's KB5011551 (2022-03-22) for the
//! 64 endpoints of earlier Windows Server 2019 (read again 2026-11-29).

use super::{Build, Minor, OsVersion};

/// The annotation of a Service that preserves the virtual address in packets to a backend.
pub const PRESERVE_DESTINATION: &str = "preserve-destination";

/// The first minor whose kube-proxy enables the gate WinDSR by default.
pub const DSR_GATE_ON_SINCE: Minor = Minor(33);

pub const SESSION_AFFINITY_SINCE: Build = Build(20348);

pub const MAX_ENDPOINTS: u64 = 1024;

pub const MAX_ENDPOINTS_BEFORE: u64 = 64;

/// The update of Windows Server 2019 that raised the maximum number of endpoints.
pub const MAX_ENDPOINTS_SINCE: OsVersion = OsVersion { build: Build(17763), revision: Some(2746) };

/// The most endpoints of a Service on a host. An unknown revision of Windows Server 2019 counts as an old one.
pub fn max_endpoints(host: OsVersion) -> u64 {
    let oldest = OsVersion { revision: Some(host.revision.unwrap_or_default()), ..host };
    if oldest < MAX_ENDPOINTS_SINCE { MAX_ENDPOINTS_BEFORE } else { MAX_ENDPOINTS }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feature_gates::feature_gate;

    #[test]
    fn the_gate_of_direct_server_return_is_on_from_its_minor() {
        let gate = feature_gate("WinDSR").unwrap();
        let before = Minor(DSR_GATE_ON_SINCE.0 - 1);
        assert_eq!([before, DSR_GATE_ON_SINCE].map(|minor| gate.default_in(minor)), [false, true]);
    }

    #[test]
    fn an_old_windows_has_a_lower_maximum_of_endpoints() {
        let table = [
            ("10.0.14393.7000", 64),
            ("10.0.17763", 64),
            ("10.0.17763.2745", 64),
            ("10.0.17763.2746", 1024),
            ("10.0.20348", 1024),
            ("10.0.26100.1", 1024),
        ];
        for (host, expected) in table {
            assert_eq!(max_endpoints(host.parse().unwrap()), expected, "{host}");
        }
    }
}

//! What Windows nodes do of a Service, and since when.
//!
//! Sources: kubernetes/website, `docs/concepts/services-networking/windows-networking.md` (1.31 and 1.36, tables "Windows
//! Service Settings" and "Limitations") and `docs/reference/networking/virtual-ips.md` (session stickiness timeout);
//! kubernetes/enhancements, KEP 5100 (2025-02) for Direct Server Return: the gate WinDSR is off by default up to 1.32 and
//! on from 1.33, and `--enable-dsr=true` is asked for with either; aws/eks user guide, `windows-support.adoc` (2024), and
//! Microsoft's KB5011551 (2022-03-22) for the 64 endpoints of earlier Windows Server 2019. That Windows nodes have no IPv6
//! alone, and Services of one family on a dual-stack network only: kubernetes/website,
//! `docs/concepts/services-networking/dual-stack.md`, "Windows support".

use jiff::civil::{Date, date};

use super::{Build, Minor, OsVersion};

/// The day of the newest source.
pub const AS_OF: Date = date(2026, 4, 22);

/// The annotation of a Service that keeps the virtual address in packets to a backend.
pub const PRESERVE_DESTINATION: &str = "preserve-destination";

/// The first minor whose kube-proxy has the gate WinDSR on by default.
pub const DSR_GATE_ON_SINCE: Minor = Minor(33);

/// The first Windows that keeps a client with its backend.
pub const SESSION_AFFINITY_SINCE: Build = Build(20348);

/// The endpoints that a Service may have on any Windows node.
pub const MOST_ENDPOINTS: u64 = 1024;

/// The endpoints that a Service may have on a Windows older than [`MORE_ENDPOINTS_SINCE`].
pub const MOST_ENDPOINTS_BEFORE: u64 = 64;

/// The update of Windows Server 2019 with which a Service may have more than 64 endpoints.
pub const MORE_ENDPOINTS_SINCE: OsVersion = OsVersion { build: Build(17763), revision: Some(2746) };

/// The endpoints that a Service may have on a Windows; of Windows Server 2019 without its revision, the fewer.
pub fn most_endpoints(host: OsVersion) -> u64 {
    let as_old = OsVersion { revision: Some(host.revision.unwrap_or_default()), ..host };
    if as_old < MORE_ENDPOINTS_SINCE { MOST_ENDPOINTS_BEFORE } else { MOST_ENDPOINTS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_windows_takes_fewer_endpoints() {
        let table = [
            ("10.0.14393.7000", 64),
            ("10.0.17763", 64),
            ("10.0.17763.2745", 64),
            ("10.0.17763.2746", 1024),
            ("10.0.20348", 1024),
            ("10.0.26100.1", 1024),
        ];
        for (host, expected) in table {
            assert_eq!(most_endpoints(host.parse().unwrap()), expected, "{host}");
        }
    }
}

//! What platforms reserve on a Windows node by themselves, without the threshold of eviction.
//!
//! Sources: at each row.

const GI: i64 = 1 << 30;

/// The size of a node, on which the reserves of platforms depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeSize {
    pub cores: i64,
    /// Memory in bytes.
    pub memory: i64,
    pub max_pods: i64,
}

/// `systemReserved` and `kubeReserved` together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// CPU in thousandths; `None` if the source has none for this number of processors.
    pub cpu_milli: Option<i64>,
    /// Memory in bytes.
    pub memory: i64,
}

/// What a platform reserves.
#[derive(Clone, Copy, Debug)]
pub struct PlatformReserve {
    pub platform: &'static str,
    /// `Err` has the reason why it is not known.
    pub reserve: Result<fn(NodeSize) -> Reserve, &'static str>,
    pub source: &'static str,
}

#[rustfmt::skip]
pub const RESERVES: &[PlatformReserve] = &[
    PlatformReserve { platform: "AKS", reserve: Ok(aks),
        source: "MicrosoftDocs/azure-aks-docs (fb060abe), articles/aks/node-resource-reservations.md, for AKS 1.29 and later, read 2026-11-29" },
    PlatformReserve { platform: "EKS", reserve: Err("the published Start-EKSBootstrap.ps1, for Kubernetes 1.17, sets none; later ones are not published"),
        source: "bgsilvait/EKS (f27f2c9c), Windows/Start-EKSBootstrap_117_DSR.ps1, read 2026-11-29" },
    PlatformReserve { platform: "GKE", reserve: Err("no source was found for nodes with Windows"),
        source: "docs.cloud.google.com, kubernetes-engine/docs/concepts/plan-node-sizes, searched 2026-11-29" },
    PlatformReserve { platform: "WMCO", reserve: Ok(|_| Reserve { cpu_milli: Some(500), memory: 2 * GI }),
        source: "openshift/windows-machine-config-operator (0be4b9cc), pkg/nodeconfig/nodeconfig.go, read 2026-11-29" },
];

/// Processors, and the CPU that AKS reserves for them in thousandths.
const AKS_CPU: &[(i64, i64)] = &[(1, 60), (2, 100), (4, 140), (8, 180), (16, 260), (32, 420), (64, 740)];

/// The lesser of 20 MB for each pod and 50 MB, and of a quarter of the memory; and 2 GB for the processes of Windows.
fn aks(size: NodeSize) -> Reserve {
    const MB: i64 = 1_000_000;
    let kubelet = (size.max_pods.saturating_mul(20 * MB).saturating_add(50 * MB)).min(size.memory / 4);
    let cpu = AKS_CPU.iter().find(|(cores, _)| *cores == size.cores).map(|(_, milli)| *milli);
    Reserve { cpu_milli: cpu, memory: kubelet.saturating_add(2000 * MB) }
}

/// The memory that Microsoft and Kubernetes recommend to reserve on every Windows node
/// (kubernetes/website, `windows-resource-management.md`, 1.31).
pub const RECOMMENDED_MEMORY: i64 = 2 * GI;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserves_are_those_of_the_examples_in_the_sources() {
        let aks = |cores, memory, max_pods| aks(NodeSize { cores, memory, max_pods });
        let of = |milli, memory| Reserve { cpu_milli: milli, memory };
        // 8 GB with 30 pods have 650 MB, and 4 GB with 70 pods have 1000 MB, without those of Windows.
        assert_eq!(aks(2, 8_000_000_000, 30), of(Some(100), 2_650_000_000));
        assert_eq!(aks(4, 4_000_000_000, 70), of(Some(140), 3_000_000_000));
        assert_eq!(aks(6, 4_000_000_000, 70), of(None, 3_000_000_000));
        assert_eq!(aks(64, i64::MAX, i64::MAX).memory, i64::MAX / 4 + 2_000_000_000);
    }
}

//! The command-line flags of the kubelet on Windows: those of the newest minor, and those that ended, with the last minor that knows
//! them. A kubelet does not start with an unknown flag.
//!
//! Sources: `cmd/kubelet/app/options` of kubernetes/kubernetes, with `pkg/kubelet/config/flags.go` up to 1.34, and `logs/api/v1/options.go`
//! of component-base, at v1.30.14, v1.34.4 and v1.37.2 (read 2026-11-29), which have every flag but `help`, `version` and
//! `log-flush-frequency`; the same at 1.21, 1.23 and 1.25 to 1.36 (2026-08); v1.38.0-beta.0 has those of 1.37. The minor of a removal is that of the release notes: 1.24
//! (dockershim), 1.27, 1.31 (pull requests 122082 and 122363), 1.34 (122384 and 130161) and 1.35 (133779). Who sets a flag:
//! `cmd/kubeadm/app/phases/kubelet/flags.go` at v1.34.4, rancher/rke2#9591, Azure/AgentBaker#4870.

use super::Minor;

/// A flag that a kubelet refuses after a minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndedFlag {
    /// The name, without the dashes.
    pub name: &'static str,
    /// The last minor that knows it.
    pub last: Minor,
    /// The product that sets it, and what to do there; empty if none is known.
    pub set_by: &'static str,
}

impl EndedFlag {
    /// Whether a kubelet of the minor knows it.
    pub fn known_in(&self, minor: Minor) -> bool {
        minor <= self.last
    }
}

/// The flag of this name, as it is written on a command line, if it ended.
pub fn ended(name: &str) -> Option<&'static EndedFlag> {
    let name = name.replace('_', "-");
    ENDED.iter().find(|flag| flag.name == name)
}

const fn until(name: &'static str, last: u32) -> EndedFlag {
    EndedFlag { name, last: Minor(last), set_by: "" }
}

/// The priority class of the kubelet's process, for which there is no field.
pub const WINDOWS_PRIORITYCLASS: &str = "windows-priorityclass";
/// The taints with which a new node registers. The flag is deprecated, because there is a field for them.
pub const REGISTER_WITH_TAINTS: &str = "register-with-taints";
/// The resolver file on which the DNS settings of pods are based; empty for none.
pub const RESOLV_CONF: &str = "resolv-conf";
/// The verbosity of the log, for which there is a field too.
pub const V: &str = "v";

/// The flags of the newest minor that was read, sorted. Of these, 1.30 lacks `fail-cgroupv1` only.
#[rustfmt::skip]
pub const FLAGS: &[&str] = &[
    "address", "allowed-unsafe-sysctls", "anonymous-auth", "authentication-token-webhook",
    "authentication-token-webhook-cache-ttl", "authorization-mode", "authorization-webhook-cache-authorized-ttl",
    "authorization-webhook-cache-unauthorized-ttl", "bootstrap-kubeconfig", "cert-dir", "cgroup-driver", "cgroup-root",
    "cgroups-per-qos", "client-ca-file", "cloud-provider", "cluster-dns", "cluster-domain", "config", "config-dir",
    "container-log-max-files", "container-log-max-size", "container-runtime-endpoint", "contention-profiling", "cpu-cfs-quota",
    "cpu-cfs-quota-period", "cpu-manager-policy", "cpu-manager-policy-options", "cpu-manager-reconcile-period",
    "enable-controller-attach-detach", "enable-debugging-handlers", "enable-server", "enforce-node-allocatable", "event-burst",
    "event-qps", "eviction-hard", "eviction-max-pod-grace-period", "eviction-minimum-reclaim",
    "eviction-pressure-transition-period", "eviction-soft", "eviction-soft-grace-period", "exit-on-lock-contention",
    "experimental-allocatable-ignore-eviction", "experimental-mounter-path", "fail-cgroupv1", "fail-swap-on", "feature-gates",
    "file-check-frequency", "hairpin-mode", "healthz-bind-address", "healthz-port", "hostname-override", "http-check-frequency",
    "image-credential-provider-bin-dir", "image-credential-provider-config", "image-gc-high-threshold",
    "image-gc-low-threshold", "image-service-endpoint", "kernel-memcg-notification", "kube-api-burst", "kube-api-content-type",
    "kube-api-qps", "kube-reserved", "kube-reserved-cgroup", "kubeconfig", "kubelet-cgroups",
    "local-storage-capacity-isolation", "lock-file", "log-json-info-buffer-size", "log-json-split-stream",
    "log-text-info-buffer-size", "log-text-split-stream", "logging-format", "make-iptables-util-chains", "manifest-url",
    "manifest-url-header", "max-open-files", "max-pods", "maximum-dead-containers", "maximum-dead-containers-per-container",
    "memory-manager-policy", "minimum-container-ttl-duration", "minimum-image-ttl-duration", "node-ip", "node-labels",
    "node-status-max-images", "node-status-update-frequency", "oom-score-adj", "pod-cidr", "pod-manifest-path", "pod-max-pids",
    "pods-per-core", "port", "protect-kernel-defaults", "provider-id", "qos-reserved", "read-only-port", "register-node",
    "register-with-taints", "registry-burst", "registry-qps", "reserved-cpus", "reserved-memory", "resolv-conf", "root-dir",
    "rotate-certificates", "rotate-server-certificates", "runonce", "runtime-cgroups", "runtime-request-timeout",
    "seccomp-default", "serialize-image-pulls", "streaming-connection-idle-timeout", "sync-frequency", "system-cgroups",
    "system-reserved", "system-reserved-cgroup", "tls-cert-file", "tls-cipher-suites", "tls-min-version",
    "tls-private-key-file", "topology-manager-policy", "topology-manager-policy-options", "topology-manager-scope", "v",
    "vmodule", "volume-plugin-dir", "volume-stats-agg-period", "windows-priorityclass", "windows-service",
];

/// The flags that ended, sorted; of those that ended before 1.30, the ones that installers for Windows have set.
pub const ENDED: &[EndedFlag] = &[
    EndedFlag {
        set_by: "RKE2 with a cloud provider up to its releases of January 2026: upgrade RKE2 first",
        ..until("cloud-config", 33)
    },
    until("cni-bin-dir", 23),
    until("cni-conf-dir", 23),
    until("container-runtime", 26),
    until("image-pull-progress-deadline", 23),
    until("iptables-drop-bit", 30),
    until("iptables-masquerade-bit", 30),
    EndedFlag { set_by: "AKS up to 1.30", ..until("keep-terminated-pod-volumes", 30) },
    until("network-plugin", 23),
    EndedFlag {
        set_by: r"kubeadm up to 1.34, in C:\var\lib\kubelet\kubeadm-flags.env",
        ..until("pod-infra-container-image", 34)
    },
    until("register-schedulable", 33),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet_fields::FIELDS;

    #[test]
    fn a_kubelet_refuses_the_flags_that_ended_before_its_minor() {
        let refused = |minor: u32| {
            let refused = ENDED.iter().filter(|flag| !flag.known_in(Minor(minor)));
            refused.map(|flag| flag.name).collect::<Vec<_>>()
        };
        let before_1_30 =
            ["cni-bin-dir", "cni-conf-dir", "container-runtime", "image-pull-progress-deadline", "network-plugin"];
        assert_eq!(refused(30), before_1_30);
        let new = |minor: u32| {
            let before = refused(minor - 1);
            refused(minor).into_iter().filter(|name| !before.contains(name)).collect::<Vec<_>>()
        };
        assert_eq!(new(31), ["iptables-drop-bit", "iptables-masquerade-bit", "keep-terminated-pod-volumes"]);
        assert_eq!(new(34), ["cloud-config", "register-schedulable"]);
        assert_eq!(new(35), ["pod-infra-container-image"]);
        for minor in [32, 33, 36, 37, 38] {
            assert_eq!(new(minor), [""; 0], "1.{minor}");
        }
    }

    #[test]
    fn a_flag_is_found_as_it_is_written() {
        let table = [("cloud-config", Some("cloud-config")), ("cloud_config", Some("cloud-config")), ("config", None)];
        for (written, expected) in table {
            assert_eq!(ended(written).map(|flag| flag.name), expected, "{written}");
        }
    }

    #[test]
    fn each_flag_has_one_row_and_those_of_fields_and_settings_are_known() {
        assert!(FLAGS.is_sorted_by(|a, b| a < b) && ENDED.is_sorted_by(|a, b| a.name < b.name));
        let set = [WINDOWS_PRIORITYCLASS, REGISTER_WITH_TAINTS, RESOLV_CONF, V];
        for flag in FIELDS.iter().filter_map(|field| field.flag).chain(set) {
            assert!(FLAGS.contains(&flag) && ended(flag).is_none(), "{flag}");
        }
    }
}

//! Specs that an API server rejects: by the validation rules, with `path: message`, or by the rest of the schema, with
//! the path.

/// Specs of pools in YAML, with the violation.
pub fn pools() -> Vec<(String, &'static str)> {
    let selector =
        "spec: write either spec.nodeSelector, or spec.fallback: true for the nodes that no other pool matches";
    let empty = "spec.nodeSelector: an empty selector would match every Windows node: write matchLabels or matchExpressions, or spec.fallback: true instead of the selector";
    let whole = [
        ("{windowsVersion: ltsc2022}", selector),
        ("{windowsVersion: ltsc2022, fallback: false}", selector),
        ("{windowsVersion: ltsc2022, fallback: true, nodeSelector: {matchLabels: {a: b}}}", selector),
        ("{windowsVersion: ltsc2022, nodeSelector: {}}", empty),
        ("{windowsVersion: ltsc2022, nodeSelector: {matchLabels: {}, matchExpressions: []}}", empty),
        (
            "{windowsVersion: ltsc2022, nodeSelector: {matchLabels: {winpool.dev/pool: web}}}",
            "spec.nodeSelector.matchLabels: winpool.dev/ labels are set from this selector: select by another label",
        ),
        (
            "{windowsVersion: ltsc2022, nodeSelector: {matchLabels: {'a b': c}}}",
            "spec.nodeSelector.matchLabels: a label key is a name of at most 63 characters, with an optional DNS prefix: example.com/team",
        ),
        (
            "{windowsVersion: ltsc2022, nodeSelector: {matchExpressions: [{key: a, operator: Exists}, {key: winpool.dev/pool, operator: Exists}]}}",
            "spec.nodeSelector.matchExpressions[1]: winpool.dev/ labels are set from this selector: select by another label",
        ),
        (
            "{windowsVersion: ltsc2022, nodeSelector: {matchExpressions: [{key: a, operator: In}]}}",
            "spec.nodeSelector.matchExpressions[0]: In and NotIn need at least one value. Exists and DoesNotExist take no values",
        ),
        (
            "{windowsVersion: ltsc2022, nodeSelector: {matchExpressions: [{key: a, operator: DoesNotExist, values: [b]}]}}",
            "spec.nodeSelector.matchExpressions[0]: In and NotIn need at least one value. Exists and DoesNotExist take no values",
        ),
    ];
    let parts = [
        (
            "taints: [{key: a, effect: NoSchedule}, {key: a, value: b, effect: NoSchedule}]",
            "spec.taints: a node can have only one taint per key and effect: remove the duplicate",
        ),
        (
            "replacesTaints: [{key: os, value: Windows, effect: NoSchedule}, {key: os, value: Windows, effect: NoSchedule}]",
            "spec.replacesTaints: remove the duplicate from spec.replacesTaints",
        ),
        (
            "replacesTaints: [{key: os, value: windows, effect: NoSchedule}]",
            "spec: spec.replacesTaints names a taint of spec.taints, which would be removed from the nodes: remove it from one of the two",
        ),
        (
            "taints: [{key: a, effect: NoSchedule}], replacesTaints: [{key: a, value: '', effect: NoSchedule}]",
            "spec: spec.replacesTaints names a taint of spec.taints, which would be removed from the nodes: remove it from one of the two",
        ),
        (
            "taints: [], replacesTaints: [{key: os, value: Windows, effect: NoSchedule}]",
            "spec: spec.replacesTaints needs a taint in spec.taints: without one Linux pods could be scheduled to the nodes",
        ),
        (
            "profileRef: {name: standard}, delivery: {method: ClusterAPI}",
            "spec.delivery: write clusterAPI with method: ClusterAPI, and only with it",
        ),
        (
            "profileRef: {name: standard}, delivery: {drift: Reapply}",
            "spec.delivery: drift: Reapply needs agents: write method: Agent, or remove drift",
        ),
        (
            "profileRef: {name: standard}, delivery: {clusterAPI: {namespace: default, clusterName: prod, machineDeployments: {matchLabels: {a: b}}}}",
            "spec.delivery: write clusterAPI with method: ClusterAPI, and only with it",
        ),
        (
            "profileRef: {name: standard}, delivery: {method: ClusterAPI, clusterAPI: {namespace: default, clusterName: prod}}",
            "spec.delivery.clusterAPI: write either machineDeployments or machinePools",
        ),
        (
            "labels: {'-a': b}",
            "spec.labels: a label key is a name of at most 63 characters, with an optional DNS prefix: example.com/team",
        ),
        (
            "labels: {kubernetes.io/os: windows}",
            "spec.labels: labels of winpool.dev/ and runs.winpool.dev/, kubernetes.io/os, kubernetes.io/arch, kubernetes.io/hostname and node.kubernetes.io/windows-build are set by the operator and the kubelet: remove them here",
        ),
        (
            "runtimeClasses: [{name: a}, {name: b}, {name: a}]",
            "spec.runtimeClasses: the names of the RuntimeClasses of a pool must be unique: rename the duplicate",
        ),
        (
            "runtimeClasses: [{name: a, tolerations: [{key: a, operator: Exists, value: b}]}]",
            "spec.runtimeClasses[0].tolerations[0]: operator Exists takes no value: remove the value, or write operator Equal",
        ),
        (
            "runtimeClasses: [{name: a, tolerations: [{value: b}]}]",
            "spec.runtimeClasses[0].tolerations[0]: a toleration without a key tolerates every taint and needs operator Exists: write a key, or operator Exists",
        ),
    ];
    let whole = whole.map(|(spec, violation)| (spec.to_owned(), violation));
    whole.into_iter().chain(parts.map(|(part, violation)| (pool(part), violation))).collect()
}

/// A valid spec of a pool, with an additional part.
pub fn pool(part: &str) -> String {
    format!("{{windowsVersion: ltsc2022, nodeSelector: {{matchLabels: {{agentpool: web}}}}, {part}}}")
}

/// The violation by a pool whose name is too long. It has no path.
pub const LONG_NAME: &str = "metadata.name becomes a label value on the nodes: write at most 63 characters";

/// Unknown Windows versions.
pub const UNKNOWN_VERSIONS: [&str; 13] = [
    "",
    "ltsc2024",
    "windows-ltsc2022",
    "xltsc2022",
    "10.0.20349",
    "10.0.26099",
    "10.0.26000",
    "10.0.026100",
    "10.0.100000",
    "10.0.2",
    "10.0.20348.4529",
    "20348",
    "6.3.9600",
];

/// The start of their message.
pub const UNKNOWN_VERSION: &str = "unknown Windows version: write one of ltsc2016, ";

/// Specs of profiles in YAML, with the violation.
pub fn profiles() -> Vec<(&'static str, &'static str)> {
    let tag = "spec.pauseImage: the tag is not allowed with source Node: remove the tag, or set another source";
    let repository = "spec.pauseImage: the repository is required with source Custom and not allowed with other sources: set both source: Custom and repository";
    vec![
        (
            "{kubelet: {systemReserved: {pid: 100}}}",
            "spec.kubelet.systemReserved: a Windows kubelet can reserve cpu, memory and ephemeral-storage: remove the other keys",
        ),
        (
            "{kubelet: {kubeReserved: {memory: 1Gi, hugepages-2Mi: 1Gi}}}",
            "spec.kubelet.kubeReserved: a Windows kubelet can reserve cpu, memory and ephemeral-storage: remove the other keys",
        ),
        (
            "{kubelet: {evictionHard: {nodefs.inodesFree: 5%}}}",
            "spec.kubelet.evictionHard: a Windows kubelet supports the eviction signals memory.available, nodefs.available and imagefs.available: remove the other keys",
        ),
        (
            "{kubelet: {imageGC: {highThresholdPercent: 50}}}",
            "spec.kubelet.imageGC: lowThresholdPercent must be lower than highThresholdPercent: write a lower value",
        ),
        ("{pauseImage: {source: Custom}}", repository),
        ("{pauseImage: {source: Node, repository: registry.example/pause}}", repository),
        ("{pauseImage: {source: Node, tag: '3.10'}}", tag),
        ("{pauseImage: {source: Custom, repository: ''}}", repository),
        ("{pauseImage: {repository: registry.example/pause}}", repository),
        (
            "{containerd: {registryMirrors: [{registry: a, endpoints: ['https://m']}, {registry: a, endpoints: ['https://n']}]}}",
            "spec.containerd.registryMirrors: write the endpoints of a registry in one entry: merge the duplicates",
        ),
        (
            "{containerd: {registryMirrors: [{registry: a, endpoints: ['https://m'], caFile: 'C:\\m.pem', skipVerify: true}]}}",
            "spec.containerd.registryMirrors[0]: caFile has no effect with skipVerify: remove skipVerify, or remove caFile",
        ),
        (
            "{containerd: {imagePullProgressTimeout: 0m0s}}",
            "spec.containerd.imagePullProgressTimeout: the timeout must not be zero: write hours and minutes, such as 30m",
        ),
        (
            "{kubeProxy: {winDSR: true, featureGates: {WinDSR: false}}}",
            "spec.kubeProxy: kube-proxy does not start with winDSR if the gate WinDSR is disabled: remove the gate, or write winDSR: false",
        ),
    ]
}

/// WindowsNodeConfigs in YAML, with the violation.
pub fn node_configs() -> Vec<(String, &'static str)> {
    let (digest, other) = ("a".repeat(64), "b".repeat(64));
    vec![(
        format!(
            "{{pool: web, nodeUID: u, config: web-1, digest: {digest}, attempt: 1, confirmed: {other}, confirmTimeout: 5m, \
             assignedAt: '2026-06-01T12:00:00Z'}}"
        ),
        "spec: confirmed is the digest that the operator has verified on the node: write the value of digest, or remove it",
    )]
}

/// Specs that every API server rejects, with or without support for validation rules: kind, spec in YAML, and path.
pub fn by_schema() -> Vec<(&'static str, String, &'static str)> {
    let taints = |count: usize| (0..count).map(|n| format!("{{key: a{n}, effect: NoExecute}}")).collect::<Vec<_>>();
    let classes = |count: usize| (0..count).map(|n| format!("{{name: a{n}}}")).collect::<Vec<_>>();
    let labels = |count: usize| (0..count).map(|n| format!("a{n}: b")).collect::<Vec<_>>();
    let long = format!("profileRef: {{name: {}}}", "a".repeat(254));
    let many_taints = format!("taints: [{}]", taints(17).join(", "));
    let many_classes = format!("runtimeClasses: [{}]", classes(9).join(", "));
    let many_labels = format!("labels: {{{}}}", labels(33).join(", "));
    let long_extra = format!("{{containerd: {{extraConfig: '#{}'}}}}", "a".repeat(16384));
    let pools = [
        ("windowsVersion: 1809", "spec.windowsVersion"),
        ("windowsVersion: null", "spec.windowsVersion"),
        ("taints: [{key: a b, effect: NoSchedule}]", "spec.taints[0].key"),
        ("taints: [{key: a, effect: Never}]", "spec.taints[0].effect"),
        ("taints: [{key: a}]", "spec.taints[0].effect"),
        ("taints: [{key: a, value: b c, effect: NoSchedule}]", "spec.taints[0].value"),
        (&many_taints, "spec.taints"),
        ("labels: {team: a b}", "spec.labels.team"),
        ("labels: {team: 5}", "spec.labels.team"),
        (&many_labels, "spec.labels"),
        ("mode: Watch", "spec.mode"),
        ("paused: 'true'", "spec.paused"),
        ("deletionPolicy: Delete", "spec.deletionPolicy"),
        (&long, "spec.profileRef.name"),
        ("profileRef: {name: ''}", "spec.profileRef.name"),
        ("runtimeClasses: [{name: Upper}]", "spec.runtimeClasses[0].name"),
        ("runtimeClasses: [{name: a, handler: A_b}]", "spec.runtimeClasses[0].handler"),
        ("runtimeClasses: [{name: a, overhead: {cpu: some}}]", "spec.runtimeClasses[0].overhead.cpu"),
        ("runtimeClasses: [{name: a, overhead: {cpu: 1.5}}]", "spec.runtimeClasses[0].overhead.cpu"),
        (&many_classes, "spec.runtimeClasses"),
        ("delivery: {method: Cluster}", "spec.delivery.method"),
        ("delivery: {rollout: {maxUnavailable: 0}}", "spec.delivery.rollout.maxUnavailable"),
        ("delivery: {rollout: {maxUnavailable: 100001}}", "spec.delivery.rollout.maxUnavailable"),
        ("delivery: {rollout: {maxUnavailable: '1'}}", "spec.delivery.rollout.maxUnavailable"),
        ("delivery: {rollout: {maxUnavailable: 0%}}", "spec.delivery.rollout.maxUnavailable"),
        ("delivery: {rollout: {maxUnavailable: 101%}}", "spec.delivery.rollout.maxUnavailable"),
        ("delivery: {rollout: {maxFailures: 0}}", "spec.delivery.rollout.maxFailures"),
        ("delivery: {rollout: {timeout: 59s}}", "spec.delivery.rollout.timeout"),
        ("delivery: {rollout: {timeout: 0m}}", "spec.delivery.rollout.timeout"),
        ("delivery: {rollout: {timeout: 1441m}}", "spec.delivery.rollout.timeout"),
        ("delivery: {rollout: {timeout: 25h}}", "spec.delivery.rollout.timeout"),
        ("delivery: {rollout: {drain: Sometimes}}", "spec.delivery.rollout.drain"),
        ("delivery: {rollout: {attempt: 0}}", "spec.delivery.rollout.attempt"),
        ("delivery: {rollout: {paused: 'yes'}}", "spec.delivery.rollout.paused"),
    ];
    let profiles = [
        ("{kubelet: {systemReserved: {memory: 2 GB}}}", "spec.kubelet.systemReserved.memory"),
        ("{kubelet: {evictionHard: {memory.available: '-1'}}}", "spec.kubelet.evictionHard.memory.available"),
        ("{kubelet: {priorityClass: Highest}}", "spec.kubelet.priorityClass"),
        ("{kubelet: {maxPods: 0}}", "spec.kubelet.maxPods"),
        ("{kubelet: {maxPods: 1001}}", "spec.kubelet.maxPods"),
        ("{kubelet: {maxPods: 1.5}}", "spec.kubelet.maxPods"),
        ("{maxImageUpdatesBehind: -1}", "spec.maxImageUpdatesBehind"),
        ("{maxImageUpdatesBehind: 121}", "spec.maxImageUpdatesBehind"),
        ("{maxImageUpdatesBehind: '3'}", "spec.maxImageUpdatesBehind"),
        ("{kubelet: {imageGC: {highThresholdPercent: 101}}}", "spec.kubelet.imageGC.highThresholdPercent"),
        ("{kubelet: {containerLogs: {maxFiles: 1}}}", "spec.kubelet.containerLogs.maxFiles"),
        ("{kubelet: {containerLogs: {maxFiles: 5000}}}", "spec.kubelet.containerLogs.maxFiles"),
        ("{kubelet: {featureGates: {A: 'yes'}}}", "spec.kubelet.featureGates.A"),
        ("{kubelet: [maxPods]}", "spec.kubelet"),
        ("{pauseImage: {source: Mine}}", "spec.pauseImage.source"),
        ("{pauseImage: {source: Custom, repository: registry.example/Pause}}", "spec.pauseImage.repository"),
        ("{pauseImage: {tag: '-3.9'}}", "spec.pauseImage.tag"),
        (
            "{containerd: {registryMirrors: [{registry: a, endpoints: []}]}}",
            "spec.containerd.registryMirrors[0].endpoints",
        ),
        (
            "{containerd: {registryMirrors: [{registry: a, endpoints: ['ftp://m']}]}}",
            "spec.containerd.registryMirrors[0].endpoints[0]",
        ),
        (
            "{containerd: {registryMirrors: [{registry: 'https://a', endpoints: ['https://m']}]}}",
            "spec.containerd.registryMirrors[0].registry",
        ),
        (
            "{containerd: {registryMirrors: [{registry: a, endpoints: ['https://m'], caFile: /etc/ca.pem}]}}",
            "spec.containerd.registryMirrors[0].caFile",
        ),
        ("{containerd: {imagePullProgressTimeout: 30 minutes}}", "spec.containerd.imagePullProgressTimeout"),
        ("{containerd: {root: /var/lib/containerd}}", "spec.containerd.root"),
        (&long_extra, "spec.containerd.extraConfig"),
        ("{kubelet: {logging: {verbosity: 11}}}", "spec.kubelet.logging.verbosity"),
        ("{kubeProxy: {mode: iptables}}", "spec.kubeProxy.mode"),
        ("{kubeProxy: {networkName: a b}}", "spec.kubeProxy.networkName"),
        ("{kubeProxy: {sourceVIP: vip.example}}", "spec.kubeProxy.sourceVIP"),
        ("{proxy: {httpProxy: 'http://u:p@proxy'}}", "spec.proxy.httpProxy"),
        ("{proxy: {httpsProxy: 'proxy:3128', noProxy: a}}", "spec.proxy.httpsProxy"),
        ("{proxy: {httpProxy: 'http://proxy', noProxy: 'a, b'}}", "spec.proxy.noProxy"),
    ];
    let pools = pools.map(|(part, path)| ("WindowsNodePool", pool_with(part), path));
    let profiles = profiles.map(|(spec, path)| ("WindowsRuntimeProfile", spec.to_owned(), path));
    pools.into_iter().chain(profiles).collect()
}

/// As [`pool`]. The part may also set the version.
fn pool_with(part: &str) -> String {
    if part.starts_with("windowsVersion") { format!("{{fallback: true, {part}}}") } else { pool(part) }
}

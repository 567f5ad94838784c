//! Specs that the validation rules refuse, each with where and what is said: `path: message`.

/// The spec of a pool, in YAML, with what is said about it.
pub fn pools() -> Vec<(String, &'static str)> {
    let selector = "spec: write either spec.nodeSelector, to choose nodes by label, or spec.fallback: true, to take the Windows nodes that no other pool matches";
    let empty = "spec.nodeSelector: an empty selector would match every Windows node: write matchLabels or matchExpressions, or spec.fallback: true instead of the selector";
    let whole = [
        ("{windowsVersion: ltsc2022}", selector),
        ("{windowsVersion: ltsc2022, fallback: false}", selector),
        ("{windowsVersion: ltsc2022, fallback: true, nodeSelector: {matchLabels: {a: b}}}", selector),
        ("{windowsVersion: ltsc2022, nodeSelector: {}}", empty),
        ("{windowsVersion: ltsc2022, nodeSelector: {matchLabels: {}, matchExpressions: []}}", empty),
        (
            "{windowsVersion: ltsc2022, nodeSelector: {matchLabels: {winpool.dev/pool: web}}}",
            "spec.nodeSelector.matchLabels: winpool.dev/ labels are set from this selector: select by a label of your own",
        ),
        (
            "{windowsVersion: ltsc2022, nodeSelector: {matchLabels: {'a b': c}}}",
            "spec.nodeSelector.matchLabels: a label key is a name of at most 63 characters, with an optional DNS prefix: example.com/team",
        ),
        (
            "{windowsVersion: ltsc2022, nodeSelector: {matchExpressions: [{key: a, operator: Exists}, {key: winpool.dev/pool, operator: Exists}]}}",
            "spec.nodeSelector.matchExpressions[1]: winpool.dev/ labels are set from this selector: select by a label of your own",
        ),
        (
            "{windowsVersion: ltsc2022, nodeSelector: {matchExpressions: [{key: a, operator: In}]}}",
            "spec.nodeSelector.matchExpressions[0]: In and NotIn need at least one value; Exists and DoesNotExist take none",
        ),
        (
            "{windowsVersion: ltsc2022, nodeSelector: {matchExpressions: [{key: a, operator: DoesNotExist, values: [b]}]}}",
            "spec.nodeSelector.matchExpressions[0]: In and NotIn need at least one value; Exists and DoesNotExist take none",
        ),
    ];
    let parts = [
        (
            "taints: [{key: a, effect: NoSchedule}, {key: a, value: b, effect: NoSchedule}]",
            "spec.taints: a node can have one taint of a key and effect: remove the duplicate",
        ),
        (
            "labels: {'-a': b}",
            "spec.labels: a label key is a name of at most 63 characters, with an optional DNS prefix: example.com/team",
        ),
        (
            "labels: {kubernetes.io/os: windows}",
            "spec.labels: winpool.dev/ labels, kubernetes.io/os, kubernetes.io/arch, kubernetes.io/hostname and node.kubernetes.io/windows-build are set by the operator and the kubelet: remove them here",
        ),
        (
            "runtimeClasses: [{name: a}, {name: b}, {name: a}]",
            "spec.runtimeClasses: each RuntimeClass of a pool needs a name of its own: rename the duplicate",
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
    let whole = whole.map(|(spec, said)| (spec.to_owned(), said));
    whole.into_iter().chain(parts.map(|(part, said)| (pool(part), said))).collect()
}

/// The spec of a pool with this, and nothing else that could be refused.
pub fn pool(part: &str) -> String {
    format!("{{windowsVersion: ltsc2022, nodeSelector: {{matchLabels: {{agentpool: web}}}}, {part}}}")
}

/// What is said about a pool whose name is too long: it is about no field of the spec.
pub const LONG_NAME: &str = "metadata.name becomes a label value on the nodes: write at most 63 characters";

/// Windows versions that nobody knows.
pub const UNKNOWN_VERSIONS: [&str; 10] = [
    "",
    "ltsc2024",
    "windows-ltsc2022",
    "xltsc2022",
    "10.0.20349",
    "10.0.26099",
    "10.0.2",
    "10.0.20348.4529",
    "20348",
    "6.3.9600",
];

/// How what is said about one of them begins.
pub const UNKNOWN_VERSION: &str = "unknown Windows version: write one of ltsc2016, ";

/// The spec of a profile, in YAML, with what is said about it.
pub fn profiles() -> Vec<(&'static str, &'static str)> {
    let repository = "spec.pauseImage: source Custom needs a repository, the other sources have their own: write source: Custom together with repository";
    vec![
        (
            "{kubelet: {systemReserved: {pid: 100}}}",
            "spec.kubelet.systemReserved: a Windows kubelet reserves cpu, memory and ephemeral-storage: remove the other keys",
        ),
        (
            "{kubelet: {kubeReserved: {memory: 1Gi, hugepages-2Mi: 1Gi}}}",
            "spec.kubelet.kubeReserved: a Windows kubelet reserves cpu, memory and ephemeral-storage: remove the other keys",
        ),
        (
            "{kubelet: {evictionHard: {nodefs.inodesFree: 5%}}}",
            "spec.kubelet.evictionHard: Windows knows the eviction signals memory.available, nodefs.available and imagefs.available: remove the other keys",
        ),
        (
            "{kubelet: {imageGC: {highThresholdPercent: 50}}}",
            "spec.kubelet.imageGC: lowThresholdPercent is where garbage collection stops: write less than highThresholdPercent",
        ),
        ("{pauseImage: {source: Custom}}", repository),
        ("{pauseImage: {source: Custom, repository: ''}}", repository),
        ("{pauseImage: {repository: registry.example/pause}}", repository),
        (
            "{containerd: {registryMirrors: [{registry: a, endpoints: ['https://m']}, {registry: a, endpoints: ['https://n']}]}}",
            "spec.containerd.registryMirrors: write the endpoints of a registry in one entry: merge the duplicates",
        ),
    ]
}

//! Specs that an API server accepts.

/// Known and future Windows versions.
pub const VERSIONS: [&str; 11] = [
    "ltsc2016",
    "1809",
    "20H2",
    "20h2",
    "LTSC2025",
    "23H2",
    "10.0.17763",
    "10.0.26100",
    "10.0.27842",
    "10.0.31000",
    "10.0.99999",
];

/// The specs of pools, in YAML.
pub const POOLS: [&str; 5] = [
    "{windowsVersion: ltsc2022, fallback: true}",
    "{windowsVersion: ltsc2022, fallback: true, nodeSelector: null, taints: null, mode: null}",
    "{windowsVersion: ltsc2022, nodeSelector: {matchLabels: {agentpool: web}}}",
    "{windowsVersion: ltsc2022, fallback: false, nodeSelector: {matchLabels: {agentpool: web}}}",
    "{windowsVersion: ltsc2022, nodeSelector: {matchExpressions: [{key: a/b, operator: In, values: [c]}, {key: d, operator: Exists}]}}",
];

/// Parts of the spec of a pool, in YAML.
pub const PARTS_OF_POOLS: [&str; 18] = [
    "taints: []",
    "taints: [{key: os, value: windows, effect: NoSchedule}, {key: os, value: windows, effect: NoExecute}]",
    "replacesTaints: [{key: os, value: Windows, effect: NoSchedule}, {key: os, value: windows, effect: NoExecute}]",
    "taints: [{key: a, effect: NoSchedule}], replacesTaints: [{key: a, value: b, effect: NoSchedule}]",
    "labels: {team: web, example.com/team: web}",
    "runtimeClasses: []",
    "runtimeClasses: [{name: a}, {name: b, isolation: HyperV, tolerations: [{key: os, value: Windows}, {operator: Exists}]}]",
    "runtimeClasses: [{name: a.b-c, handler: docker, scope: Pool, adopt: true, overhead: {cpu: 1, memory: 64Mi, example.com/gpu: '2'}}]",
    "profileRef: {name: standard}, mode: Observe, paused: true, deletionPolicy: Cleanup",
    "profileRef: null",
    "delivery: null",
    "delivery: {}",
    "delivery: {method: Agent}",
    "profileRef: {name: standard}, delivery: {method: Agent, drift: Reapply}",
    "profileRef: {name: standard}, delivery: {method: ClusterAPI, clusterAPI: {namespace: default, clusterName: prod, machineDeployments: {matchLabels: {winpool: web}}}}",
    "profileRef: {name: standard}, delivery: {method: ClusterAPI, clusterAPI: {namespace: default, clusterName: prod, machinePools: {matchLabels: {winpool: web}}, templateFrom: {name: base-windows}, containerdVersion: '2.2', rotation: Automatic, autoscaling: {cpu: 4, memory: 16Gi, ephemeralDisk: 120Gi}}}",
    "delivery: {method: Agent, rollout: {maxUnavailable: 10, maxFailures: 3, timeout: 1440m, drain: Always, attempt: 2, paused: true}}",
    "delivery: {method: None, rollout: {maxUnavailable: '25%', timeout: 24h, drain: Never}}",
];

/// The specs of profiles, in YAML.
pub const PROFILES: [&str; 17] = [
    "{}",
    "{kubelet: null}",
    "{kubelet: {systemReserved: {cpu: 500m, memory: 2Gi, ephemeral-storage: 1Gi}, kubeReserved: {}}}",
    "{maxImageUpdatesBehind: 0}",
    "{maxImageUpdatesBehind: 120}",
    "{kubelet: {systemReserved: {cpu: 1, memory: 4000000000}, maxPods: 60.0, containerLogs: {maxSize: 1e6, maxFiles: 100}}}",
    "{kubelet: {evictionHard: {memory.available: 500Mi, nodefs.available: 10%, imagefs.available: 15%}}}",
    "{kubelet: {imageGC: {lowThresholdPercent: 70}, extra: {registryPullQPS: 10}}}",
    "{kubelet: {priorityClass: High, featureGates: {GracefulNodeShutdown: true}}}",
    "{pauseImage: {source: Upstream}}",
    "{pauseImage: {source: Node}}",
    "{pauseImage: {source: Custom, repository: registry.example/pause, tag: '3.10'}}",
    "{containerd: {registryMirrors: [{registry: a.example, endpoints: ['https://m']}, {registry: b.example, endpoints: ['https://m']}]}}",
    "{containerd: {cni: {binDir: 'C:\\cni\\bin', confDir: 'C:\\cni\\conf'}}}",
    "{kubelet: {logging: {verbosity: 2}}, containerd: {imagePullProgressTimeout: 1h30m, root: 'D:\\containerd', extraConfig: 'oom_score = 5'}}",
    "{containerd: {registryMirrors: [{registry: a.example, endpoints: ['https://m'], caFile: 'C:\\m.pem', skipVerify: false}]}}",
    "{kubeProxy: {winDSR: true, networkName: vxlan0, sourceVIP: 10.244.1.2, featureGates: {WinOverlay: true}}, proxy: {httpProxy: 'http://p:3128', noProxy: '.svc,10.0.0.0/8'}}",
];

//! `winpool render --target kube-proxy`: the ConfigMap of kube-proxy in the pods of Windows nodes.

use std::{
    fs,
    process::{Command, Output},
};

const POOL: &str = "
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {name: POOL}
spec:
  windowsVersion: ltsc2022
  nodeSelector: {matchLabels: {agentpool: POOL}}
  profileRef: {name: POOL}
---
apiVersion: winpool.dev/v1alpha1
kind: WindowsRuntimeProfile
metadata: {name: POOL}
spec: SPEC
---";

/// A ConfigMap of kubeadm, shortened.
const PRESENT: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: kube-proxy, namespace: kube-system, labels: {app: kube-proxy}, resourceVersion: '249'}
data:
  config.conf: |-
    apiVersion: kubeproxy.config.k8s.io/v1alpha1
    clusterCIDR: 10.244.0.0/16
    kind: KubeProxyConfiguration
    mode: ''
  kubeconfig.conf: |-
    apiVersion: v1
    kind: Config
";

/// What the command prints for pools with a profile each, and a ConfigMap.
fn output(profiles: &[(&str, &str)], config_map: &str, more: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let pools: String = profiles.iter().map(|(pool, spec)| POOL.replace("POOL", pool).replace("SPEC", spec)).collect();
    let file = directory.path().join("input.yaml");
    fs::write(&file, format!("{pools}{config_map}")).unwrap();
    let arguments = ["render", "-f", file.to_str().unwrap(), "--target", "kube-proxy"];
    Command::new(env!("CARGO_BIN_EXE_winpool")).args(arguments).args(more).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn windows_nodes_get_a_config_map_of_their_own_because_linux_nodes_read_the_present_one() {
    let output = output(&[("web", "{kubeProxy: {winDSR: true}}")], PRESENT, &["--kubernetes", "1.36"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("name: kube-proxy-windows") && stdout.contains("mode: kernelspace"), "{stdout}");
    assert!(
        stderr(&output).contains("kube-proxy on Linux does not start with mode: kernelspace"),
        "{}",
        stderr(&output)
    );
    assert!(!stderr(&output).contains("skipped"), "{}", stderr(&output));
}

#[test]
fn pools_with_equal_settings_share_it_and_others_are_an_error() {
    let dsr = "{kubeProxy: {winDSR: true}}";
    let table: [(&[(&str, &str)], &str, &[&str], &str); 5] = [
        (
            &[("web", dsr), ("batch", "{kubeProxy: {winDSR: true}, kubelet: {maxPods: 60}}"), ("plain", "{}")],
            PRESENT,
            &[],
            "",
        ),
        (
            &[("web", dsr), ("batch", "{kubeProxy: {networkName: vxlan0}}")],
            PRESENT,
            &[],
            "different settings of kube-proxy",
        ),
        // The gate is on by default from 1.33 on.
        (&[("web", dsr)], PRESENT, &["--kubernetes", "1.32,1.36"], "different settings of kube-proxy"),
        (&[("web", "{}")], PRESENT, &[], "no profile of a pool has spec.kubeProxy"),
        (&[("web", dsr)], "", &[], "no ConfigMap with the entry config.conf is among the files"),
    ];
    for (profiles, config_map, more, expected) in table {
        let output = output(profiles, config_map, more);
        assert_eq!(output.status.success(), expected.is_empty(), "{profiles:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{profiles:?}: {}", stderr(&output));
    }
}

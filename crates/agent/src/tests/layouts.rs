//! Nodes of each layout, as their bootstrap leaves them.

use super::fake::{FakeHost, service};
use crate::host::ServiceDefinition;

pub const KUBEADM_CONFIG: &str = r"C:\var\lib\kubelet\config.yaml";
pub const CONTAINERD_CONFIG: &str = r"C:\Program Files\containerd\config.toml";

/// What kubeadm writes for the kubelet.
pub const KUBEADM_YAML: &str = "\
apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  anonymous:
    enabled: false
  webhook:
    cacheTTL: 0s
    enabled: true
  x509:
    clientCAFile: /etc/kubernetes/pki/ca.crt
authorization:
  mode: Webhook
clusterDNS:
- 10.96.0.10
clusterDomain: cluster.local
kind: KubeletConfiguration
staticPodPath: \"\"
";

/// The configuration of containerd of image-builder, for a version.
pub fn containerd_toml(version: u32) -> String {
    let plugin = if version == 2 { "io.containerd.grpc.v1.cri" } else { "io.containerd.cri.v1.runtime" };
    format!(
        "root = \"C:\\\\ProgramData\\\\containerd\\\\root\"\nversion = {version}\n\
         imports = [\"C:\\\\Program Files\\\\containerd\\\\conf.d\\\\*.toml\"]\n\n[plugins]\n\
         \x20 [plugins.\"{plugin}\".cni]\n    bin_dir = \"C:/opt/cni/bin\"\n"
    )
}

pub fn containerd_service() -> ServiceDefinition {
    service("containerd", r#""C:\Program Files\containerd\containerd.exe" --run-service"#, &[])
}

/// image-builder with a service of its own.
pub fn kubeadm() -> FakeHost {
    let kubelet = "\"C:\\k\\kube-log-runner.exe\" --log-file=C:/var/log/kubelet/kubelet.log C:\\k\\kubelet.exe \
                   --windows-service --cert-dir=C:/var/lib/kubelet/pki --config=C:/var/lib/kubelet/config.yaml \
                   --kubeconfig=C:/etc/kubernetes/kubelet.conf --enforce-node-allocatable=\"\" --resolv-conf=\"\"";
    FakeHost::with(
        vec![service("kubelet", kubelet, &["containerd"]), containerd_service()],
        &[
            (KUBEADM_CONFIG, KUBEADM_YAML),
            (r"C:\var\lib\kubelet\kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"--node-labels=a=b\"\n"),
            (CONTAINERD_CONFIG, &containerd_toml(3)),
        ],
    )
}

/// The start script of sig-windows-tools, in which the fixed flags come last.
pub const START_SCRIPT: &str = "$FileContent = Get-Content -Path \"/var/lib/kubelet/kubeadm-flags.env\"\r\n\
    $global:KubeletArgs = $FileContent.TrimStart('KUBELET_KUBEADM_ARGS=').Trim('\"')\r\n\
    $cmd = \"C:\\k\\kubelet.exe $global:KubeletArgs --cert-dir=$env:SYSTEMDRIVE\\var\\lib\\kubelet\\pki \
    --config=/var/lib/kubelet/config.yaml --kubeconfig=/etc/kubernetes/kubelet.conf --resolv-conf=`\"`\" \"\r\n\
    Invoke-Expression $cmd\r\n";

/// sig-windows-tools with nssm.
pub fn nssm() -> FakeHost {
    FakeHost::with(
        vec![service("kubelet", r"C:\Program Files\nssm\nssm.exe", &["containerd"]), containerd_service()],
        &[
            (KUBEADM_CONFIG, KUBEADM_YAML),
            (r"C:\k\StartKubelet.ps1", START_SCRIPT),
            (r"C:\var\lib\kubelet\kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"--node-labels=a=b\"\r\n"),
            (CONTAINERD_CONFIG, &containerd_toml(3)),
        ],
    )
}

pub const RKE2: &str = r"C:\var\lib\rancher\rke2\agent\etc";

pub fn rke2() -> FakeHost {
    let command = r"C:\usr\local\bin\rke2.exe agent --config /etc/rancher/rke2/config.yaml";
    FakeHost::with(
        vec![service("rke2", command, &[])],
        &[
            (r"C:\etc\rancher\rke2\config.yaml", "server: https://10.0.0.1:9345\ntoken: secret\n"),
            (&format!(r"{RKE2}\kubelet.conf.d\00-rke2-defaults.conf"), "healthzBindAddress: 127.0.0.1\nmaxPods: 250\n"),
            (&format!(r"{RKE2}\kubelet.conf.d\20-cli-config-dir\extra.conf"), "maxPods: 200\n"),
            (
                &format!(r"{RKE2}\containerd\config.toml"),
                "version = 3\nimports = [\"/var/lib/rancher/rke2/agent/etc/containerd/config-v3.toml.d/*.toml\"]\n",
            ),
        ],
    )
}

pub const EKS_CONFIG: &str = r"C:\ProgramData\kubernetes\kubelet-config.json";
pub const EKS_JSON: &str = "{\r\n  \"kind\": \"KubeletConfiguration\",\r\n  \"apiVersion\": \"kubelet.config.k8s.io/v1beta1\",\r\n  \
    \"featureGates\": {\r\n    \"RotateKubeletServerCertificate\": true\r\n  },\r\n  \"clusterDNS\": [\r\n    \"10.100.0.10\"\r\n  ]\r\n}\r\n";

pub fn eks(extra: &str) -> FakeHost {
    let host = r#""C:\Program Files\Amazon\EKS\EKS-WindowsServiceHost.exe""#;
    let kubelet = format!(
        r#"{host} kubelet "C:\Program Files\kubernetes\kubelet.exe" --kubeconfig="C:\ProgramData\kubernetes\kubeconfig" --resolv-conf="" --config="{EKS_CONFIG}" --node-ip=10.0.0.7 {extra}"#
    );
    let proxy = format!(
        r#"{host} kube-proxy "C:\Program Files\kubernetes\kube-proxy.exe" --proxy-mode=kernelspace --feature-gates="WinDSR=true""#
    );
    let services = vec![service("kubelet", &kubelet, &[]), service("kube-proxy", &proxy, &[]), containerd_service()];
    FakeHost::with(services, &[(EKS_CONFIG, EKS_JSON), (CONTAINERD_CONFIG, &containerd_toml(2))]).containerd("1.7.27")
}

/// Services of one's own, with spaces and umlauts in their paths.
pub fn plain() -> FakeHost {
    let kubelet = r#""C:\Süd Knoten\kubelet.exe" --windows-service --config "C:\Süd Knoten\kubelet.yaml" --config-dir="C:\Süd Knoten\kubelet.d""#;
    let proxy = r#""C:\Süd Knoten\kube-proxy.exe" --windows-service --config="C:\Süd Knoten\proxy.yaml""#;
    let containerd = r#""C:\Süd Knoten\containerd.exe" --run-service --config "C:\Süd Knoten\containerd.toml""#;
    let services = vec![
        service("kube-proxy", proxy, &["Kubelet"]),
        service("Kubelet", kubelet, &["Containerd"]),
        service("Containerd", containerd, &[]),
        service("monitor", r"C:\monitor.exe", &["containerd"]),
        service("Spooler", r"C:\Windows\System32\spoolsv.exe", &["RPCSS"]),
    ];
    FakeHost::with(
        services,
        &[
            (r"C:\Süd Knoten\kubelet.yaml", "kind: KubeletConfiguration\nhealthzPort: 10300\n"),
            (r"C:\Süd Knoten\kubelet.d\10-site.conf", "maxPods: 20\n"),
            (r"C:\Süd Knoten\proxy.yaml", "kind: KubeProxyConfiguration\nhealthzBindAddress: 0.0.0.0:10300\n"),
            (r"C:\Süd Knoten\containerd.toml", "version = 3 # ours\r\n"),
        ],
    )
}

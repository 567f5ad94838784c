//! Simulated nodes, and the Node objects that their kubelets register.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::{Value, json};

use crate::{
    allocatable::{Capacity, KubeletConfiguration, allocatable, default_memory_threshold},
    assets::Version,
};

/// The label with the Windows build, which a Windows kubelet sets.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";

#[derive(Clone, Debug)]
pub struct SimulatedNode {
    pub name: String,
    /// Set for a Windows node; a Linux node otherwise.
    pub windows: Option<Windows>,
    /// For instance `v1.37.2`; `None` for the API server's own version.
    pub kubelet_version: Option<String>,
    /// As nodes report it: `containerd://2.3.4`.
    pub container_runtime: String,
    /// Labels beyond those that every kubelet sets.
    pub labels: BTreeMap<String, String>,
    /// The taints that the kubelet registers with.
    pub taints: Vec<Taint>,
    pub capacity: Capacity,
    /// Whether the node's condition `Ready` is true.
    pub ready: bool,
    /// Whether the configuration named by the annotation `winpool.dev/config` is delivered to this node, which changes
    /// its allocatable resources.
    pub takes_configuration: bool,
}

/// The Windows version of a node.
#[derive(Clone, Debug)]
pub struct Windows {
    /// Build and revision, as nodes report it: `10.0.20348.2700`.
    pub kernel_version: String,
    /// The product's name, as nodes report it: `Windows Server 2022 Datacenter`.
    pub os_image: String,
    /// Whether the kubelet sets `node.kubernetes.io/windows-build`.
    pub build_label: bool,
}

impl Windows {
    pub fn new(kernel_version: &str) -> Self {
        let os_image = match kernel_version.split('.').nth(2) {
            Some("14393") => "Windows Server 2016 Datacenter",
            Some("17763") => "Windows Server 2019 Datacenter",
            Some("20348") => "Windows Server 2022 Datacenter",
            Some("26100") => "Windows Server 2025 Datacenter",
            _ => "Windows Server Datacenter",
        };
        Self { kernel_version: kernel_version.to_owned(), os_image: os_image.to_owned(), build_label: true }
    }

    /// The build without the revision: `10.0.20348`.
    pub fn build(&self) -> String {
        self.kernel_version.splitn(4, '.').take(3).collect::<Vec<_>>().join(".")
    }
}

impl SimulatedNode {
    /// A ready Windows node with containerd, 8 cores and 32 GiB.
    pub fn windows(name: &str, kernel_version: &str) -> Self {
        Self { windows: Some(Windows::new(kernel_version)), ..Self::linux(name) }
    }

    /// A ready Linux node with containerd, 8 cores and 32 GiB.
    pub fn linux(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            windows: None,
            kubelet_version: None,
            container_runtime: "containerd://1.7.27".to_owned(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            capacity: Capacity::default(),
            ready: true,
            takes_configuration: false,
        }
    }

    /// Sets the kubelet version, for instance `v1.37.2`.
    pub fn kubelet(mut self, version: &str) -> Self {
        self.kubelet_version = Some(version.to_owned());
        self
    }

    /// Sets the container runtime, for instance `containerd://2.3.4`.
    pub fn runtime(mut self, runtime: &str) -> Self {
        self.container_runtime = runtime.to_owned();
        self
    }

    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds a taint that the kubelet registers with; an empty `value` means none.
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        let value = Some(value.to_owned()).filter(|value| !value.is_empty());
        self.taints.push(Taint { key: key.to_owned(), value, effect: effect.to_owned(), time_added: None });
        self
    }

    /// Its kubelet does not set `node.kubernetes.io/windows-build`.
    pub fn without_build_label(mut self) -> Self {
        if let Some(windows) = &mut self.windows {
            windows.build_label = false;
        }
        self
    }

    pub fn taking_configuration(mut self) -> Self {
        self.takes_configuration = true;
        self
    }

    /// The labels that the kubelet sets at registration and after an upgrade.
    pub(crate) fn kubelet_labels(&self) -> BTreeMap<String, String> {
        let os = self.operating_system();
        let mut labels: BTreeMap<String, String> = [
            ("kubernetes.io/os", os),
            ("kubernetes.io/arch", "amd64"),
            ("kubernetes.io/hostname", self.name.as_str()),
            ("beta.kubernetes.io/os", os),
            ("beta.kubernetes.io/arch", "amd64"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        if let Some(windows) = self.windows.as_ref().filter(|windows| windows.build_label) {
            labels.insert(WINDOWS_BUILD.to_owned(), windows.build());
        }
        labels
    }

    /// The Node that a kubelet of this version registers without a rendered configuration.
    pub fn registered(&self, version: &str) -> serde_json::Result<Node> {
        self.object(None, version)
    }

    /// The Node that its kubelet registers, with the taints of its configuration if it has one.
    pub(crate) fn object(
        &self,
        configuration: Option<&KubeletConfiguration>,
        version: &str,
    ) -> serde_json::Result<Node> {
        let mut labels = self.kubelet_labels();
        labels.extend(self.labels.clone());
        let mut taints = self.taints.clone();
        for taint in configuration.iter().flat_map(|configuration| &configuration.register_with_taints) {
            if !taints.iter().any(|own| own.key == taint.key && own.effect == taint.effect) {
                taints.push(taint.clone());
            }
        }
        serde_json::from_value(json!({
            "metadata": { "name": self.name, "labels": labels },
            "spec": { "taints": taints },
            "status": self.status(configuration, version),
        }))
    }

    /// The status that the kubelet reports. `version` is the kubelet version if the node does not set one.
    pub(crate) fn status(&self, configuration: Option<&KubeletConfiguration>, version: &str) -> Value {
        let now = k8s_openapi::jiff::Timestamp::now().to_string();
        let condition = |kind: &str, status: bool, reason: &str| {
            json!({
                "type": kind,
                "status": if status { "True" } else { "False" },
                "reason": reason,
                "message": "",
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            })
        };
        let version = self.kubelet_version.as_deref().unwrap_or(version);
        let (kernel, image) = match &self.windows {
            Some(windows) => (windows.kernel_version.as_str(), windows.os_image.as_str()),
            None => ("5.10.0-20-amd64", "Debian GNU/Linux 12 (bookworm)"),
        };
        let minor = Version::minor_of(version).unwrap_or_default();
        let default_memory = default_memory_threshold(self.windows.is_some(), minor);
        let unset = KubeletConfiguration::default();
        json!({
            "capacity": self.capacity.resources(),
            "allocatable": allocatable(&self.capacity, configuration.unwrap_or(&unset), default_memory),
            "conditions": [
                condition("Ready", self.ready, if self.ready { "KubeletReady" } else { "KubeletNotReady" }),
                condition("MemoryPressure", false, "KubeletHasSufficientMemory"),
                condition("DiskPressure", false, "KubeletHasNoDiskPressure"),
                condition("PIDPressure", false, "KubeletHasSufficientPID"),
            ],
            "addresses": [
                { "type": "InternalIP", "address": self.address() },
                { "type": "Hostname", "address": self.name },
            ],
            "nodeInfo": {
                "machineID": self.name,
                "systemUUID": self.name,
                "bootID": self.name,
                "kernelVersion": kernel,
                "osImage": image,
                "containerRuntimeVersion": self.container_runtime,
                "kubeletVersion": version,
                "kubeProxyVersion": version,
                "operatingSystem": self.operating_system(),
                "architecture": "amd64",
            },
        })
    }

    /// An address without a server: derived from the name, in the block for benchmarks (RFC 2544).
    pub(crate) fn address(&self) -> String {
        let sum = self.name.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
        format!("198.18.{}.{}", sum / 254 % 256, sum % 254 + 1)
    }

    fn operating_system(&self) -> &'static str {
        if self.windows.is_some() { "windows" } else { "linux" }
    }
}

//! A healthy fleet as evidence, and what can be wrong with it.

use serde_json::{Value, json};
use winpool_check::doctor::EvidencePart;
use winpool_core::logs::LOG_SOURCES;

/// When the evidence was read.
pub const NOW: &str = "2026-11-26T03:00:00Z";
const LONG_AGO: &str = "2026-11-25T03:00:00Z";
const JUST_NOW: &str = "2026-11-26T02:59:55Z";

/// The DaemonSets that a node needs.
const COMPONENTS: [&str; 3] = ["kube-proxy-windows", "calico-node-windows", "csi-smb-node-win"];

pub struct Fleet {
    pub subject: Value,
    pub nodes: usize,
    /// The pods on each node.
    pub pods: usize,
    /// Which of the components are DaemonSets.
    pub components: Vec<bool>,
    /// The status of each pod, besides its address.
    pub pod_status: Value,
    pub pod_spec: Value,
    pub pod_metadata: Value,
    /// Conditions of each node, instead of those of a healthy one.
    pub conditions: Vec<Value>,
    pub events: Vec<(String, String)>,
    /// When the Leases were renewed.
    pub renewed: &'static str,
    /// Lines in the logs of each node: service, line.
    pub logs: Vec<(&'static str, String)>,
    /// Whether a diagnosis by the agents was requested, and is there.
    pub answered: bool,
    /// What differs in their answers from those of a healthy node.
    pub answer: Value,
}

impl Default for Fleet {
    fn default() -> Self {
        let running = json!({"running": {"startedAt": LONG_AGO}});
        Self {
            subject: json!({"kind": "pool", "name": "web"}),
            nodes: 1,
            pods: 1,
            components: vec![true; 3],
            pod_status: json!({
                "phase": "Running", "startTime": LONG_AGO, "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "app", "ready": true, "restartCount": 0, "image": "app:1", "imageID": "", "state": running}],
            }),
            pod_spec: json!({"dnsPolicy": "ClusterFirst", "containers": [{"name": "app", "image": "registry.example/app:1"}]}),
            pod_metadata: json!({}),
            conditions: Vec::new(),
            events: Vec::new(),
            renewed: JUST_NOW,
            logs: Vec::new(),
            answered: true,
            answer: json!({}),
        }
    }
}

pub fn merged(mut base: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        base[key] = value.clone();
    }
    base
}

impl Fleet {
    /// No container of the pods was started.
    pub fn pending(&mut self, reason: &str, message: &str) {
        self.pod_status = json!({
            "phase": "Pending", "startTime": "2026-11-26T02:55:00Z", "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [{"name": "app", "ready": false, "restartCount": 0, "image": "app:1", "imageID": "",
                                   "state": {"waiting": {"reason": reason, "message": message}}}],
        });
    }

    /// Each pod has events with these reasons and this text.
    pub fn events(&mut self, reasons: &[&str], text: &str) {
        self.events.extend(reasons.iter().map(|reason| ((*reason).to_owned(), text.to_owned())));
    }

    /// The sandboxes of the pods are not created.
    pub fn sandbox(&mut self, text: &str) {
        self.pending("ContainerCreating", "");
        self.events(&["FailedCreatePodSandBox"], text);
    }

    /// Each node has this condition.
    pub fn condition(&mut self, of: &str, status: &str, reason: &str, message: &str) {
        self.conditions.push(json!({"type": of, "status": status, "reason": reason, "message": message}));
    }

    fn node(&self, name: &str) -> Value {
        let healthy =
            [("Ready", "True"), ("MemoryPressure", "False"), ("DiskPressure", "False"), ("PIDPressure", "False")];
        let replaced = |of: &str| self.conditions.iter().any(|condition| condition["type"] == of);
        let healthy =
            healthy.iter().filter(|(of, _)| !replaced(of)).map(|(of, status)| json!({"type": of, "status": status}));
        let conditions: Vec<_> = healthy.chain(self.conditions.clone()).collect();
        let address = format!("192.168.0.{}", name.rsplit('-').next().unwrap());
        json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"),
                         "annotations": {"projectcalico.org/IPv4Address": format!("{address}/24")},
                         "labels": {"kubernetes.io/os": "windows", "winpool.dev/pool": "web", "kubernetes.io/hostname": name}},
            "status": {
                "conditions": conditions,
                "addresses": [{"type": "InternalIP", "address": address}],
                "nodeInfo": {"kernelVersion": "10.0.20348.4529", "kubeletVersion": "v1.34.1",
                             "containerRuntimeVersion": "containerd://2.3.7", "osImage": "Windows Server 2022 Datacenter",
                             "operatingSystem": "windows", "architecture": "amd64", "bootID": "1", "machineID": "",
                             "systemUUID": "", "kubeProxyVersion": ""},
            },
        })
    }

    fn pod(&self, node: usize, number: usize) -> Value {
        let name = format!("app-{node}-{number}");
        let address = json!({"podIP": format!("10.244.{node}.{number}")});
        json!({
            "metadata": merged(json!({"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "creationTimestamp": LONG_AGO}), &self.pod_metadata),
            "spec": merged(self.pod_spec.clone(), &json!({"nodeName": format!("win-{node}")})),
            "status": merged(address, &self.pod_status),
        })
    }

    /// The pod of a DaemonSet on a node, which is healthy and uses the network of the node.
    fn component(set: &str, node: usize) -> Value {
        let healthy = Self::default().pod_status;
        json!({
            "metadata": {"name": format!("{set}-{node}"), "namespace": "kube-system", "uid": format!("uid-{set}-{node}"),
                         "creationTimestamp": LONG_AGO,
                         "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": set, "uid": format!("uid-{set}"), "controller": true}]},
            "spec": {"nodeName": format!("win-{node}"), "hostNetwork": true, "containers": [{"name": "main", "image": format!("{set}:1")}]},
            "status": merged(json!({"podIP": format!("192.168.0.{node}")}), &healthy),
        })
    }

    /// The logs of a node, with lines of a healthy one.
    fn logs_of(&self, node: &str) -> Vec<Value> {
        let log = |service: &str| {
            let own = self.logs.iter().filter(|(of, _)| *of == service).map(|(_, line)| line.as_str());
            let lines: Vec<_> = ["I1126 02:00:00.000000 1 main.go:1] started"].into_iter().chain(own).collect();
            let place = format!(r"C:\var\log\{service}.log");
            json!({"node": node, "service": service, "content": {"read": {"place": place, "lines": lines, "cut": false}}})
        };
        LOG_SOURCES.iter().map(|source| log(source.service)).collect()
    }

    /// The WindowsNodeConfig of a node, in which its agent has answered.
    fn node_config(&self, node: usize) -> Value {
        let running = |name: &str| json!({"name": name, "state": "Running"});
        let healthy = json!({
            "requestedAt": "2026-11-26T02:58:00Z",
            "readAt": "2026-11-26T02:58:10Z",
            "networks": [{"name": "nat", "type": "nat"}, {"name": "flannel.4096", "type": "Overlay"}],
            "endpoints": (0..self.pods).map(|number| format!("10.244.{node}.{number}")).collect::<Vec<_>>(),
            "exceptions": [],
            "loadBalancers": 12,
            "routes": [{"destination": "0.0.0.0/0", "nextHop": "192.168.0.1", "adapter": "vEthernet (Ethernet)"}],
            "ports": [10250],
            "adapters": [{"name": "vEthernet (Ethernet)", "mtu": 1450}, {"name": "Ethernet 2", "mtu": 1500}],
            "services": [running("containerd"), running("kubelet"), running("hns"), running("vmcompute")],
            "largestLog": {"path": r"C:\var\log\pods\shop_app_1\app\0.log", "mebibytes": 9, "maximumMebibytes": 10},
            "logs": [],
        });
        let mut config = json!({
            "apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodeConfig", "metadata": {"name": format!("win-{node}")},
            "spec": {"pool": "web", "nodeUID": "u", "config": "web-1", "digest": "1", "confirmTimeout": "5m", "assignedAt": LONG_AGO},
            "status": {"phase": "Applied", "facts": {"network": {"endpoints": 5, "loadBalancers": 12}}},
        });
        if self.answered {
            config["spec"]["diagnose"] = healthy["requestedAt"].clone();
            config["status"]["diagnosis"] = merged(healthy, &self.answer);
        }
        config
    }

    /// What is read of this fleet.
    pub fn evidence(&self) -> Value {
        let sets: Vec<&str> =
            COMPONENTS.into_iter().zip(&self.components).filter(|(_, exists)| **exists).map(|(set, _)| set).collect();
        let mut pods = Vec::new();
        for node in 0..self.nodes {
            pods.extend(sets.iter().map(|set| Self::component(set, node)));
            pods.extend((0..self.pods).map(|number| self.pod(node, number)));
        }
        let of_shop = pods.iter().filter(|pod| pod["metadata"]["namespace"] == "shop");
        let events: Vec<_> = of_shop
            .clone()
            .flat_map(|pod| {
                let about = json!({"kind": "Pod", "namespace": "shop", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]});
                self.events.iter().map(move |(reason, text)| json!({"metadata": {"name": "e", "namespace": "shop"}, "involvedObject": about, "reason": reason, "message": text}))
            })
            .collect();
        let endpoints: Vec<_> = of_shop
            .map(|pod| {
                let target = json!({"kind": "Pod", "namespace": "shop", "name": pod["metadata"]["name"]});
                json!({"addresses": [pod["status"]["podIP"]], "targetRef": target})
            })
            .collect();
        let set = |name: &&str| {
            let selector = json!({"kubernetes.io/os": "windows"});
            let spec =
                json!({"nodeSelector": selector, "containers": [{"name": "main", "image": format!("{name}:1")}]});
            json!({"metadata": {"name": name, "namespace": "kube-system", "uid": format!("uid-{name}")},
                   "spec": {"selector": {}, "template": {"spec": spec}}})
        };
        let names = || (0..self.nodes).map(|node| format!("win-{node}"));
        let lease = |name: String| json!({"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": {"renewTime": self.renewed}});
        let ready = json!({"type": "Ready", "status": "True", "reason": "AsSpecified", "message": "", "lastTransitionTime": LONG_AGO});
        let pool = json!({
            "apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodePool", "metadata": {"name": "web"},
            "spec": {"windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": "web"}}},
            "status": {"conditions": [ready]},
        });
        let platform = json!({"os": "windows", "architecture": "amd64", "osVersion": "10.0.20348.4529"});
        let read = |items: Vec<Value>| json!({"read": {"items": items, "omitted": false}});
        json!({
            "at": NOW,
            "subject": self.subject,
            "pools": read(vec![pool]),
            "nodes": read(names().map(|name| self.node(&name)).collect()),
            "pods": read(pods),
            "events": read(events),
            "daemonSets": read(sets.iter().map(set).collect()),
            "leases": read(names().map(lease).collect()),
            "endpointSlices": read(vec![json!({"metadata": {"name": "app", "namespace": "shop"}, "addressType": "IPv4", "endpoints": endpoints})]),
            "claims": read(Vec::new()),
            "volumes": read(Vec::new()),
            "storageClasses": read(Vec::new()),
            "csiNodes": read((0..self.nodes).map(|node| json!({"metadata": {"name": format!("win-{node}")}, "spec": {"drivers": []}})).collect()),
            "machines": read(Vec::new()),
            "machineDeployments": read(Vec::new()),
            "machinePools": read(Vec::new()),
            "machineSets": read(Vec::new()),
            "nodeConfigs": read((0..self.nodes).map(|node| self.node_config(node)).collect()),
            "images": read(vec![json!({"image": "registry.example/app:1", "content": {"read": [platform]}})]),
            "credentialSpecs": read(Vec::new()),
            "mutatingWebhooks": read(Vec::new()),
            "accessReviews": read(Vec::new()),
            "nodeLogs": read(names().flat_map(|name| self.logs_of(&name)).collect()),
        })
    }
}

/// Evidence with another value for a part.
pub fn without(evidence: &Value, part: EvidencePart, missing: &Value) -> Value {
    let name = format!("{}{}", part.name()[..1].to_lowercase(), &part.name()[1..]);
    merged(evidence.clone(), &json!({ name: missing }))
}

//! The Jobs and Services of a verification.

use serde_json::{Value, json};
use winpool_api::names::label;

use super::{PODS, PORT, PROBES, Probe, Side, Target, Verification};

/// How long a finished Job stays, in seconds, if nothing removes it.
const TTL: u32 = 600;

impl Verification {
    /// The selector of all its objects.
    pub fn selector(&self) -> String {
        format!("{}={}", label::VERIFY, self.base())
    }

    /// All objects. They name the servers, so that they can be applied at once.
    pub fn objects(&self) -> Vec<Value> {
        let (first, others) = (self.server_job(), self.other_objects(&[], None));
        [first].into_iter().chain(others).collect()
    }

    /// The Job whose pods the others reach. It owns the other objects.
    pub fn server_job(&self) -> Value {
        let mut server = self.container("server", &["netexec", "--udp-port=-1"]);
        server["readinessProbe"] = json!({ "httpGet": { "path": "/hostname", "port": PORT }, "periodSeconds": 5 });
        let mut pod = self.pod(PODS, Side::Pods, vec![server]);
        pod["subdomain"] = json!(format!("{}-{PODS}", self.base()));
        self.job(PODS, self.server_count(), pod)
    }

    /// The Services and the Jobs that connect, with the addresses of the servers that are known. `owner` is the uid of the Job of
    /// the servers, with which they are removed.
    pub fn other_objects(&self, addresses: &[Option<String>], owner: Option<&str>) -> Vec<Value> {
        let (base, port) = (self.base(), json!({ "port": PORT, "targetPort": PORT }));
        let mut by_node = port.clone();
        by_node["nodePort"] = json!(self.node_port);
        let named = format!("{base}-{PODS}");
        let services = [
            self.service_object(&named, json!({ "clusterIP": "None", "ports": [port] })),
            self.service_object(&base, json!({ "type": "NodePort", "ports": [by_node] })),
        ];
        let mut objects: Vec<Value> =
            services.into_iter().chain(PROBES.iter().map(|probe| self.probe(probe, addresses))).collect();
        for object in objects.iter_mut().filter(|_| owner.is_some()) {
            object["metadata"]["ownerReferences"] =
                json!([{ "apiVersion": "batch/v1", "kind": "Job", "name": named, "uid": owner }]);
        }
        objects
    }

    fn metadata(&self, name: &str) -> Value {
        json!({ "name": name, "namespace": self.namespace, "labels": { (label::VERIFY): self.base() } })
    }

    /// Its endpoints do not depend on the probes of the servers: a failure of these is one of its own.
    fn service_object(&self, name: &str, more: Value) -> Value {
        let mut spec = more;
        spec["selector"] = json!({ (label::VERIFY): self.base(), (label::PROBE): PODS });
        spec["publishNotReadyAddresses"] = json!(true);
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": self.metadata(name), "spec": spec })
    }

    fn probe(&self, probe: &Probe, addresses: &[Option<String>]) -> Value {
        let targets = (probe.targets)(self, addresses);
        let connect = |(index, Target { address, .. }): (usize, &Target)| {
            self.container(&format!("to-{index}"), &["connect", address, "--timeout=5s"])
        };
        let mut containers: Vec<_> = targets.iter().enumerate().map(connect).collect();
        if targets.is_empty() {
            let mut server = self.container("server", &["netexec", "--udp-port=-1"]);
            // The file has no extension, but cmd.exe is in every image for Windows.
            server["readinessProbe"] =
                json!({ "exec": { "command": ["cmd", "/c", "ver"] }, "periodSeconds": 10, "timeoutSeconds": 10 });
            containers.push(server);
        }
        let count = if probe.side == Side::Pods { self.nodes.len() } else { 1 };
        self.job(probe.name, count, self.pod(probe.name, probe.side, containers))
    }

    /// A container that fails is started again in its pod, so on the same node, until the limit.
    fn job(&self, probe: &str, count: usize, pod: Value) -> Value {
        let labels = json!({ (label::VERIFY): self.base(), (label::PROBE): probe });
        let mut metadata = self.metadata(&format!("{}-{probe}", self.base()));
        metadata["labels"] = labels.clone();
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
            "spec": {
                "completionMode": "Indexed", "completions": count, "parallelism": count, "backoffLimit": 1000,
                "activeDeadlineSeconds": self.limit, "ttlSecondsAfterFinished": TTL,
                "template": { "metadata": { "labels": labels }, "spec": pod },
            },
        })
    }

    fn container(&self, name: &str, args: &[&str]) -> Value {
        json!({
            "name": name, "image": self.image, "args": args, "terminationMessagePolicy": "FallbackToLogsOnError",
            "resources": { "requests": { "cpu": "10m", "memory": "256Mi" }, "limits": { "memory": "256Mi" } },
        })
    }

    fn pod(&self, probe: &str, side: Side, containers: Vec<Value>) -> Value {
        let mut pod = match side {
            Side::Pods => self.windows_pod(probe),
            Side::LinuxNode => linux_pod(),
        };
        pod["containers"] = json!(containers);
        pod["restartPolicy"] = json!("OnFailure");
        pod["automountServiceAccountToken"] = json!(false);
        pod["terminationGracePeriodSeconds"] = json!(5);
        pod
    }

    /// Spread over the nodes, as many on each.
    fn windows_pod(&self, probe: &str) -> Value {
        let hostnames: Vec<_> = self.nodes.iter().map(|node| &node.hostname).collect();
        let tolerated =
            |taint: &winpool_api::Taint| json!({ "key": taint.key, "operator": "Exists", "effect": taint.effect });
        let mut pod = json!({
            "os": { "name": "windows" },
            "nodeSelector": { (label::OS): "windows" },
            "tolerations": self.taints.iter().map(tolerated).collect::<Vec<_>>(),
            "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                { "matchExpressions": [{ "key": label::HOSTNAME, "operator": "In", "values": hostnames }] },
            ] } } },
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": label::HOSTNAME, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": { "matchLabels": { (label::VERIFY): self.base(), (label::PROBE): probe } },
            }],
        });
        self.runtime_class.iter().for_each(|class| pod["runtimeClassName"] = json!(class));
        pod
    }
}

/// In the network of a node, also one of the control plane.
fn linux_pod() -> Value {
    json!({
        "os": { "name": "linux" },
        "nodeSelector": { (label::OS): "linux" },
        "tolerations": [{ "operator": "Exists" }],
        "hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet",
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": 65534, "seccompProfile": { "type": "RuntimeDefault" },
        },
    })
}

//! What people have reported, as evidence: one case for each symptom, most of them in `recorded.yaml`.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Value, json};

use super::fleet::Fleet;

type Case = (Vec<&'static str>, Value);

#[derive(Deserialize)]
struct Recorded {
    sandboxes: Vec<[String; 2]>,
    conditions: Vec<[String; 5]>,
    starts: Vec<[String; 4]>,
    logs: Vec<[String; 3]>,
    answers: Vec<(String, Value)>,
}

static RECORDED: LazyLock<Recorded> = LazyLock::new(|| serde_saphyr::from_str(include_str!("recorded.yaml")).unwrap());

fn fleet(change: impl FnOnce(&mut Fleet)) -> Value {
    let mut fleet = Fleet::default();
    change(&mut fleet);
    fleet.evidence()
}

fn changed(change: impl FnOnce(&mut Value)) -> Value {
    let mut evidence = Fleet::default().evidence();
    change(&mut evidence);
    evidence
}

/// The pods of the components, in the order of the fleet.
fn component_not_ready(index: usize) -> Value {
    changed(|evidence| {
        evidence["pods"]["read"]["items"][index]["status"]["conditions"] =
            json!([{"type": "Ready", "status": "False"}]);
    })
}

/// Containers of the pods that ended with a code, and were started again.
fn ended(code: i32) -> Value {
    fleet(|fleet| {
        fleet.pending("CrashLoopBackOff", "back-off");
        fleet.pod_status["phase"] = json!("Running");
        fleet.pod_status["containerStatuses"][0]["lastState"] =
            json!({"terminated": {"exitCode": code, "reason": "Error"}});
    })
}

/// The symptoms of each case.
pub fn recorded() -> Vec<Case> {
    let case = |symptom: &'static String, change: &dyn Fn(&mut Fleet)| (vec![symptom.as_str()], fleet(change));
    let sandboxes = RECORDED.sandboxes.iter().map(|[symptom, text]| case(symptom, &|fleet| fleet.sandbox(text)));
    let conditions = RECORDED.conditions.iter().map(|[symptom, of, status, reason, message]| {
        case(symptom, &|fleet| fleet.condition(of, status, reason, message))
    });
    let starts = RECORDED.starts.iter().map(|[symptom, waiting, reason, text]| {
        case(symptom, &|fleet| {
            fleet.pending(waiting, "");
            fleet.events(&[reason], text);
        })
    });
    let logs = RECORDED
        .logs
        .iter()
        .map(|[symptom, service, line]| case(symptom, &|fleet| fleet.logs.push((service, line.clone()))));
    let answers =
        RECORDED.answers.iter().map(|(symptom, answer)| case(symptom, &|fleet| fleet.answer = answer.clone()));
    let of_pods = of_pods().into_iter().chain(of_gmsas());
    sandboxes.chain(answers).chain(conditions).chain(starts).chain(logs).chain(of_nodes()).chain(of_pods).collect()
}

/// Pods with a gMSA: what the webhook of kubernetes-sigs/windows-gmsa at 993de21c refuses, and what happens without it.
fn of_gmsas() -> Vec<Case> {
    let mut complete = fleet(|fleet| {
        let options = json!({"gmsaCredentialSpecName": "web", "gmsaCredentialSpec": "***"});
        fleet.pod_spec["securityContext"] = json!({ "windowsOptions": options });
    });
    let items = json!({
        "credentialSpecs": {"metadata": {"name": "web"}, "credspec": {"CmsPlugins": ["ActiveDirectory"],
            "DomainJoinConfig": {"DnsName": "a.b", "DnsTreeName": "a.b", "NetBiosName": "A", "MachineAccountName": "w", "Sid": "S-1-5-21-1-2-3"},
            "ActiveDirectoryConfig": {"GroupManagedServiceAccounts": [{"Name": "w", "Scope": "A"}, {"Name": "w", "Scope": "a.b"}]}}},
        "mutatingWebhooks": {"metadata": {"name": "gmsa"}, "webhooks": [
            {"name": "admission-webhook.windows-gmsa.sigs.k8s.io", "failurePolicy": "Fail",
             "clientConfig": {"service": {"namespace": "gmsa", "name": "gmsa"}, "expires": "2027-11-26T03:00:00Z"}},
            {"name": "other.example.com", "failurePolicy": "Ignore", "clientConfig": {}}]},
        "endpointSlices": {"metadata": {"name": "a", "namespace": "gmsa", "labels": {"kubernetes.io/service-name": "gmsa"}},
            "addressType": "IPv4", "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": true}}]},
        "accessReviews": {"status": {"allowed": true}, "spec": {
            "user": "system:serviceaccount:shop:default", "groups": ["system:serviceaccounts", "system:serviceaccounts:shop"],
            "resourceAttributes": {"verb": "use", "group": "windows.k8s.io", "resource": "gmsacredentialspecs", "name": "web", "namespace": "shop"}}},
    });
    for (part, item) in items.as_object().unwrap() {
        complete[part]["read"]["items"].as_array_mut().unwrap().push(item.clone());
    }
    let webhook = "/mutatingWebhooks/read/items/0/webhooks/0";
    let table: [(&'static str, &str, Value); 8] = [
        ("gmsa-spec", "/pods/read/items/3/spec/securityContext/windowsOptions/gmsaCredentialSpec", Value::Null),
        ("gmsa-spec", "/credentialSpecs/read/items/0/metadata/name", json!("other")),
        ("gmsa-spec", "/credentialSpecs/read/items/0/credspec/CmsPlugins", json!([])),
        ("gmsa-not-allowed", "/accessReviews/read/items/0/status/allowed", json!(false)),
        ("gmsa-webhook", webhook, json!({"name": "other"})),
        ("gmsa-webhook", "/endpointSlices/read/items/1/endpoints/0/conditions/ready", json!(false)),
        ("gmsa-webhook", &format!("{webhook}/failurePolicy"), json!("Ignore")),
        ("gmsa-webhook", &format!("{webhook}/clientConfig/expires"), json!("2026-11-28T03:00:00Z")),
    ];
    let case = |(symptom, pointer, value)| {
        let mut case = complete.clone();
        *case.pointer_mut(pointer).unwrap() = value;
        (vec![symptom], case)
    };
    table.map(case).into()
}

fn of_nodes() -> Vec<Case> {
    let silent = fleet(|fleet| {
        fleet.condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.");
        fleet.condition("MemoryPressure", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.");
        fleet.renewed = "2026-11-26T02:50:00Z";
    });
    let unready_pool = changed(|evidence| {
        evidence["pools"]["read"]["items"][0]["status"]["conditions"][0] = json!({"type": "Ready", "status": "False", "reason": "NodesTainted", "message": "1 node is not tainted", "lastTransitionTime": "2026-11-25T03:00:00Z"});
    });
    // projectcalico/calico#4611
    let mut address = Fleet { nodes: 2, ..Fleet::default() }.evidence();
    address["nodes"]["read"]["items"][0]["metadata"]["annotations"] =
        json!({"projectcalico.org/IPv4Address": "192.168.0.1/16"});
    // kubernetes/kubernetes#119339
    let defect = changed(|evidence| {
        evidence["nodes"]["read"]["items"][0]["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.28.0");
    });
    let machine = changed(|evidence| {
        evidence["machines"]["read"]["items"] = json!([{
            "metadata": {"name": "web-x7k2p", "namespace": "clusters", "creationTimestamp": "2026-11-26T01:00:00Z"},
            "status": {"phase": "Provisioned"},
        }]);
    });
    let held = changed(|evidence| {
        evidence["pools"]["read"]["items"][0]["status"]["clusterAPI"] = json!({"namespace": "clusters", "machines": 1, "upToDate": 1, "groups": [{"name": "web", "machines": 1, "upToDate": 1}]});
        evidence["machineDeployments"]["read"]["items"] = json!([{
            "metadata": {"name": "web", "namespace": "clusters"},
            "status": {"conditions": [{"type": "Paused", "status": "True", "reason": "Paused", "message": "Cluster spec.paused is set to true"}]},
        }]);
    });
    // kubernetes/kubernetes#133779 removes the flag, which kubeadm wrote.
    let flag = changed(|evidence| {
        evidence["nodeConfigs"]["read"]["items"][0]["status"]["facts"] =
            json!({"kubeletFlags": ["pod-infra-container-image"]});
    });
    // Azure/AKS#5653
    let endpoints = changed(|evidence| {
        evidence["nodeConfigs"]["read"]["items"][0]["status"]["facts"]["network"] =
            json!({"endpoints": 5, "duplicates": ["10.244.5.23"], "loadBalancers": 12});
    });
    vec![
        (vec!["hns-problem"], endpoints),
        (vec!["ended-setting"], flag),
        (vec!["node-silent"], silent),
        (vec!["pool-not-ready"], unready_pool),
        (vec!["known-issue"], defect),
        (vec!["node-address"], address),
        (vec!["machine-not-joined"], machine),
        (vec!["machines-held"], held),
        (vec!["kube-proxy-not-ready"], component_not_ready(0)),
        (vec!["cni-not-ready"], component_not_ready(1)),
        (vec!["csi-not-ready"], component_not_ready(2)),
    ]
}

fn of_pods() -> Vec<Case> {
    let volume = fleet(|fleet| {
        fleet.pod_spec["volumes"] = json!([{"name": "share", "csi": {"driver": "smb.csi.k8s.io"}}]);
    });
    let waiting = fleet(|fleet| {
        fleet.pending("ContainerCreating", "");
        fleet.pod_status["startTime"] = json!("2026-11-26T02:30:00Z");
    });
    // tigera/operator#3193: the containers restart, the sandbox does not.
    let before_cni = changed(|evidence| {
        let pods = &mut evidence["pods"]["read"]["items"];
        pods[1]["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = json!("2026-11-26T02:00:00Z");
        pods[3]["status"]["startTime"] = json!("2026-11-26T01:59:00Z");
        pods[3]["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
        pods[3]["status"]["containerStatuses"][0]["restartCount"] = json!(7);
    });
    let terminating = |text: &str| {
        fleet(|fleet| {
            fleet.pod_metadata = json!({"deletionTimestamp": "2026-11-26T02:00:00Z"});
            fleet.events(&["FailedKillPod"], text);
        })
    };
    // kubelet.exe 1.37.2 with containerd.exe 2.4.2 under Wine; Windows has a text for the code (projectcalico/calico#6974)
    let hcn = "error killing pod: failed to \"KillPodSandbox\" for \"b3b8bc4d-c6d5-401d-904f-8b98c4988bad\" with KillPodSandboxError: \
               \"rpc error: code = Unknown desc = failed to remove network namespace for sandbox \
               \\\"df4459814fbe3d69f9c5b1726704368476f5aeea3760abdcff94ccc3b0927844\\\": hcnDeleteNamespace failed in Win32: winapi \
               error #2151350293 (0x803b0015)\"";
    // Azure/AKS#5653
    let duplicate = changed(|evidence| {
        evidence["endpointSlices"]["read"]["items"][0]["endpoints"][0]["targetRef"]["name"] = json!("former");
        let again = evidence["endpointSlices"]["read"]["items"][0].clone();
        evidence["endpointSlices"]["read"]["items"].as_array_mut().unwrap().push(again);
    });
    // nginx/nginx-gateway-fabric#3661, before the kubelet has tried
    let mut platform = fleet(|fleet| fleet.pending("ContainerCreating", ""));
    let linux = json!([{"os": "linux", "architecture": "amd64"}, {"os": "linux", "architecture": "arm64"}]);
    platform["images"]["read"]["items"][0]["content"] = json!({ "read": linux });
    let dns = fleet(|fleet| fleet.pod_spec["dnsPolicy"] = json!("ClusterFirstWithHostNet"));
    // kubernetes/ingress-nginx#7548
    let linux = fleet(|fleet| {
        fleet.pending("ContainerCreating", "");
        fleet.pod_spec = json!({"containers": [{"name": "create", "image": "registry.example/certgen:v1.0"}], "securityContext": {"runAsUser": 2000}});
        fleet.events(
            &["FailedMount"],
            "MountVolume.SetUp failed for volume \"t\" : chown c:\\var\\token: not supported by windows",
        );
    });
    vec![
        (vec!["container-creating"], waiting),
        (vec!["volume-not-mounted"], volume),
        (vec!["exit-code"], ended(-1_073_741_502)),
        (vec!["image-mismatch"], ended(-1_070_137_087)),
        (vec!["image-platform"], platform),
        (vec!["before-cni"], before_cni),
        (vec!["hcn-namespace", "stuck-terminating"], terminating(hcn)),
        (vec!["stuck-terminating"], terminating("")),
        (vec!["duplicate-address"], duplicate),
        (vec!["dns-policy"], dns),
        (vec!["linux-pod", "token-owner"], linux),
    ]
}

//! What a pool says about the facts that the agents of its nodes report.

use serde_json::{Value, json};

use winpool_model::{Model, NODE, NODE_CONFIG, POOL, PROFILE, node, profile, web};

const LIST: &str = ". List the nodes: kubectl get nodes -l winpool.dev/pool=web";

/// Reason and message of `NodeHygiene` of pool `web` with two nodes, whose agents report these facts.
fn reported(facts: [Value; 2]) -> Option<(String, String)> {
    let mut model = Model::new();
    model.put(PROFILE, "standard", profile(json!({})));
    let names = ["win-1", "win-2"];
    for name in names {
        model.put(NODE, name, node(20348, "containerd://2.3.7", &json!({"agentpool": "web"}), &json!([])));
    }
    let delivery = json!({"method": "Agent", "rollout": {"maxUnavailable": 2}});
    model.put(POOL, "web", web(json!({"profileRef": {"name": "standard"}, "delivery": delivery})));
    model.converge();
    for (name, facts) in names.into_iter().zip(facts) {
        if model.get(NODE_CONFIG, name).is_none() {
            // The second node waits for the first. What its agent reports is known already.
            let uid = model.get(NODE, name).unwrap()["metadata"]["uid"].clone();
            let mut config = model.get(NODE_CONFIG, "win-1").unwrap().clone();
            config["metadata"]["name"] = json!(name);
            config["spec"]["nodeUID"] = uid;
            model.put(NODE_CONFIG, name, config);
        }
        model.edit(NODE_CONFIG, name, |config| config["status"]["facts"] = facts);
    }
    model.converge();
    let (status, reason, message) = winpool_model::reported(&model, "web", "NodeHygiene")?;
    assert_eq!(status, "True");
    Some((reason, message))
}

#[test]
fn node_hygiene_names_secrets_that_others_read_then_volumes_then_services() {
    let directory = |readers: Value, encrypted: Value| json!({"path": r"C:\var\lib\kubelet", "readers": readers, "encrypted": encrypted});
    let facts = |directories: Value, services: Value| json!({"directories": directories, "services": services});
    let service = |restarts: Value| json!({"name": "kubelet", "start": "Automatic", "restarts": restarts});
    let readable = r"C:\var\lib\kubelet has Secrets of pods in clear text, and BUILTIN\Users, Everyone can read it. Give access to SYSTEM and Administrators only; if pods run as ContainerUser, which has the rights of BUILTIN\Users, let only administrators log on";
    let volume = r"BitLocker does not protect C:\var\lib\kubelet with Secrets of pods in clear text. Turn it on, unless the platform encrypts the disk";
    let restart = "the service kubelet is not started again when it fails. Run: sc.exe failure kubelet reset= 86400 actions= restart/15000";
    let users = json!([r"BUILTIN\Users", "Everyone"]);
    let flag = r"kubelet 1.35 does not start with the flag --pod-infra-container-image. Remove it from the command line of the kubelet. It is set by kubeadm up to 1.34, in C:\var\lib\kubelet\kubeadm-flags.env";
    let network = |network: Value| json!({"network": network});
    let clean = facts(json!([directory(json!([]), json!(true))]), json!([service(json!(true))]));
    let worst = facts(json!([directory(users.clone(), json!(false))]), json!([service(json!(false))]));
    // What could not be read is no finding.
    let unknown =
        json!({"directories": [{"path": r"C:\var\lib\kubelet"}], "services": [{"name": "kubelet", "start": "Manual"}]});
    let table = [
        ([Value::Null, Value::Null], None),
        ([clean.clone(), unknown.clone()], None),
        (
            [clean.clone(), facts(json!([directory(users, json!(true))]), json!([]))],
            Some(("SecretsReadable", format!("win-2: {readable}"))),
        ),
        (
            [facts(json!([directory(json!([]), json!(false))]), json!([])), clean.clone()],
            Some(("VolumeNotEncrypted", format!("win-1: {volume}"))),
        ),
        (
            [facts(json!([]), json!([service(json!(false))])), facts(json!([]), json!([service(json!(false))]))],
            Some(("ServiceNotRestarted", format!("win-1, win-2: {restart}"))),
        ),
        (
            [facts(json!([]), json!([])), json!({"kubeletFlags": ["pod-infra-container-image", "root-dir"]})],
            Some(("EndsWithUpgrade", format!("win-2: {flag}"))),
        ),
        (
            [network(json!({"endpoints": 2, "duplicates": ["10.244.5.23"], "lost": ["10.244.5.24"]})), clean.clone()],
            Some((
                "EndpointsDuplicate",
                "win-1: more than one endpoint of HNS has the address 10.244.5.23. Drain the node, so that its pods are created elsewhere. \
                 win-1: HNS has endpoints of no running pod with the address 10.244.5.24. Drain and restart the node when it suits: another pod \
                 may get such an address"
                    .to_owned(),
            )),
        ),
        (
            [network(json!({"endpoints": 2, "loadBalancers": 0, "loadBalancersLost": true})), clean.clone()],
            Some((
                "LoadBalancersLost",
                "win-1: HNS has lost its load balancers. Restart kube-proxy on the node, which writes them again".to_owned(),
            )),
        ),
        ([network(json!({"endpoints": 2, "loadBalancers": 7})), clean.clone()], None),
        ([worst, clean], Some(("SecretsReadable", format!("win-1: {readable}. win-1: {volume}. win-1: {restart}")))),
    ];
    for (facts, expected) in table {
        let expected = expected.map(|(reason, message)| (reason.to_owned(), format!("{message}{LIST}")));
        assert_eq!(reported(facts.clone()), expected, "{facts:?}");
    }
}

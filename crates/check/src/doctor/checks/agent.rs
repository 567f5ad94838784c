//! Symptoms that the agent of a node shows, on request.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use winpool_api::{MAX_PORTS, NodeDiagnosis, ServiceRun, ServiceRunState};
use winpool_core::{object_key, text::some_of};
use winpool_rules::pool::NodeConfigView;

use crate::doctor::case::{
    Case, Checked, Observation, Undetermined, containers, name, node_of, phase, unless_unknown, uses_host_network,
};

/// What the answer of the agent of a node shows: nothing if the symptom is excluded there, or why it is not determinable.
pub type AgentCheck = fn(&Case<'_>, &str, &NodeDiagnosis) -> Result<Vec<Observation>, String>;

/// The symptom on all nodes. It is excluded only if the agents of all nodes have answered.
pub fn answered(case: &Case<'_>, check: AgentCheck, command: &'static str) -> Checked {
    let undetermined = |because: String| Undetermined::NotShownByNode { because, command };
    let nodes = case.evidence.nodes()?;
    let configs = case.node_configs().map_err(|unavailable| undetermined(unavailable.to_string()))?;
    let (mut observed, mut missing) = (Vec::new(), Vec::new());
    for node in nodes.iter().map(|node| name(&node.metadata)) {
        match answer(case, configs.get(node), node).and_then(|answer| check(case, node, answer)) {
            Ok(on_node) => observed.extend(on_node),
            Err(because) => missing.push(because),
        }
    }
    unless_unknown(observed, missing, |what| undetermined(format!("agents do not show it ({what})")))
}

/// What the agent of a node has read, or why there is no answer.
fn answer<'c>(
    case: &Case<'_>,
    config: Option<&'c Arc<NodeConfigView>>,
    node: &str,
) -> Result<&'c NodeDiagnosis, String> {
    let config = config.ok_or_else(|| format!("{node} has no agent"))?;
    case.answer(config).ok_or_else(|| match config.diagnosis_request() {
        None => format!("no diagnosis of {node} is requested"),
        Some(at) => format!("a diagnosis of {node} is requested since {at}, and not there yet"),
    })
}

/// What was read, or that it was not.
fn read<'a, T>(part: &'a Option<T>, node: &str, what: &str) -> Result<&'a T, String> {
    part.as_ref().ok_or_else(|| format!("{node} has not read its {what}"))
}

/// Services that do not run.
pub fn stopped_service(_: &Case<'_>, node: &str, answer: &NodeDiagnosis) -> Result<Vec<Observation>, String> {
    let stopped = answer.services.iter().filter(|service| service.state != ServiceRunState::Running);
    let observed =
        stopped.map(|ServiceRun { name, state }| Observation::of_node(node, format!("service {name}"), state.name()));
    if answer.services.is_empty() { Err(format!("{node} has not read its services")) } else { Ok(observed.collect()) }
}

/// No network of HNS but the one of Docker and containerd.
pub fn no_network(_: &Case<'_>, node: &str, answer: &NodeDiagnosis) -> Result<Vec<Observation>, String> {
    let networks = read(&answer.networks, node, "networks")?;
    let is_of_cluster = networks.iter().any(|network| !network.type_.eq_ignore_ascii_case("nat"));
    let names = some_of(networks.iter().map(|network| format!("{} ({})", network.name, network.type_)));
    let text = if networks.is_empty() { "there is none".to_owned() } else { format!("there is only {names}") };
    Ok((!is_of_cluster).then(|| Observation::of_node(node, "networks of HNS", text)).into_iter().collect())
}

/// Addresses of more than one endpoint.
pub fn duplicate_endpoints(_: &Case<'_>, node: &str, answer: &NodeDiagnosis) -> Result<Vec<Observation>, String> {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    read(&answer.endpoints, node, "endpoints")?.iter().for_each(|one| *numbers.entry(one).or_default() += 1);
    let duplicates = numbers.into_iter().filter(|(_, number)| *number > 1);
    let text = |(address, number)| format!("{number} endpoints have the address {address}");
    Ok(duplicates.map(|one| Observation::of_node(node, "endpoints of HNS", text(one))).collect())
}

/// Running pods whose address no endpoint has.
pub fn missing_endpoints(case: &Case<'_>, node: &str, answer: &NodeDiagnosis) -> Result<Vec<Observation>, String> {
    let endpoints: BTreeSet<_> = read(&answer.endpoints, node, "endpoints")?.iter().map(String::as_str).collect();
    let pods = case.pods().map_err(|unavailable| unavailable.to_string())?;
    let lacks_endpoint = |pod: &&Pod| {
        let is_older = containers(pod).all(|one| started_before(one, answer));
        node_of(pod) == node && phase(pod) == "Running" && is_older && !uses_host_network(pod)
    };
    let observed = pods.into_iter().filter(lacks_endpoint).filter_map(|pod| {
        // Endpoints are listed with their IPv4 addresses.
        let address = pod.status.as_ref()?.pod_ip.as_ref().filter(|address| !address.contains(':'))?;
        let text = format!("no endpoint has the address {address}");
        (!endpoints.contains(address.as_str()))
            .then(|| Observation::of_pod(pod, format!("endpoints of HNS on {node}"), text))
    });
    Ok(observed.collect())
}

fn started_before(container: &ContainerStatus, answer: &NodeDiagnosis) -> bool {
    let started = container.state.as_ref().and_then(|state| state.running.as_ref()?.started_at.as_ref());
    started.is_none_or(|started| started.0 < answer.read_at.0)
}

/// No load balancer of a Service, although kube-proxy runs.
pub fn no_load_balancer(case: &Case<'_>, node: &str, answer: &NodeDiagnosis) -> Result<Vec<Observation>, String> {
    let number = *read(&answer.load_balancers, node, "load balancers")?;
    let is_kube_proxy =
        |service: &ServiceRun| service.name.contains("kube-proxy") && service.state == ServiceRunState::Running;
    let runs = answer.services.iter().any(is_kube_proxy) || runs_kube_proxy(case, node)?;
    let text = || "there is none, and kube-proxy runs: at least that of the Service kubernetes is missing";
    Ok((number == 0 && runs).then(|| Observation::of_node(node, "load balancers of HNS", text())).into_iter().collect())
}

fn runs_kube_proxy(case: &Case<'_>, node: &str) -> Result<bool, String> {
    let pods = case.evidence.pods().map_err(|unavailable| unavailable.to_string())?;
    let is_kube_proxy = |pod: &Pod| object_key(&pod.metadata).contains("kube-proxy") && phase(pod) == "Running";
    Ok(pods.iter().any(|pod| node_of(pod) == node && is_kube_proxy(pod)))
}

/// Virtual adapters that send larger packets than an adapter of the machine.
pub fn larger_mtu(_: &Case<'_>, node: &str, answer: &NodeDiagnosis) -> Result<Vec<Observation>, String> {
    let adapters = read(&answer.adapters, node, "adapters")?;
    let is_virtual = |name: &str| name.starts_with("vEthernet");
    let of_machine = adapters.iter().filter(|one| !is_virtual(&one.name) && !one.name.starts_with("Loopback"));
    let Some(smallest) = of_machine.min_by_key(|one| one.mtu) else {
        let sizes = some_of(adapters.iter().map(|one| format!("{} {}", one.name, one.mtu)));
        return Err(format!("the network of {node} may have a smaller MTU than its adapters: {sizes}"));
    };
    let larger = adapters.iter().filter(|one| is_virtual(&one.name) && one.mtu > smallest.mtu);
    let text = |mtu| format!("MTU {mtu}, and {} has {}", smallest.name, smallest.mtu);
    Ok(larger.map(|one| Observation::of_node(node, format!("adapter {}", one.name), text(one.mtu))).collect())
}

/// Networks of the internet whose addresses are not translated.
pub fn public_exception(_: &Case<'_>, node: &str, answer: &NodeDiagnosis) -> Result<Vec<Observation>, String> {
    let exceptions = read(&answer.exceptions, node, "endpoints")?;
    let public: Vec<_> = exceptions.iter().filter(|network| !is_private(network)).cloned().collect();
    let found = (!public.is_empty()).then(|| Observation::of_node(node, "ExceptionList", some_of(public)));
    match exceptions.is_empty() || found.is_some() {
        true => Ok(found.into_iter().collect()),
        false => Err(format!("compare the address with the ExceptionList of {node}: {}", some_of(exceptions))),
    }
}

/// Whether a network is within those of RFC 1918, RFC 6598, RFC 3927 or RFC 4193.
fn is_private(network: &str) -> bool {
    let (address, length) = network.split_once('/').unwrap_or((network, "128"));
    let length: u32 = length.parse().unwrap_or_default();
    match address.parse() {
        Ok(IpAddr::V4(address)) => {
            let is_shared = address.octets()[0] == 100 && address.octets()[1] & 0xC0 == 64;
            length >= 8 && (address.is_private() || address.is_link_local() || is_shared)
        }
        Ok(IpAddr::V6(address)) => length >= 7 && address.is_unique_local(),
        Err(_) => true,
    }
}

/// The port of a kubelet, unless its node reports another one.
const KUBELET_PORT: u32 = 10250;
/// The services that run a kubelet: its own, and that of RKE2.
const KUBELET_SERVICES: [&str; 2] = ["kubelet", "rke2"];

/// A kubelet that runs, and does not listen on its port.
pub fn kubelet_port(case: &Case<'_>, node: &str, answer: &NodeDiagnosis) -> Result<Vec<Observation>, String> {
    let ports = read(&answer.ports, node, "ports")?;
    let nodes = case.evidence.nodes().map_err(|unavailable| unavailable.to_string())?;
    let reported = nodes.iter().find(|one| name(&one.metadata) == node).and_then(|one| {
        let endpoints = one.status.as_ref()?.daemon_endpoints.as_ref()?;
        Some(endpoints.kubelet_endpoint.as_ref()?.port).filter(|port| *port > 0)
    });
    let port = reported.and_then(|port| u32::try_from(port).ok()).unwrap_or(KUBELET_PORT);
    if ports.contains(&port) {
        return Ok(Vec::new());
    }
    let is_of_kubelet = |one: &&ServiceRun| KUBELET_SERVICES.contains(&one.name.as_str());
    let runs = answer.services.iter().find(is_of_kubelet).is_some_and(|one| one.state == ServiceRunState::Running);
    let is_cut = ports.len() >= MAX_PORTS && ports.last().is_some_and(|last| *last < port);
    match (runs, is_cut) {
        (false, _) => Err(format!("the kubelet of {node} does not run")),
        (true, true) => Err(format!("{node} has more ports than an answer lists")),
        (true, false) => {
            let text = format!("no program listens on port {port}, and the kubelet runs");
            Ok(vec![Observation::of_node(node, "TCP ports", text)])
        }
    }
}

/// How many times its maximum a log is that is not rotated. The kubelet checks it every 10 seconds.
const NOT_ROTATED: u32 = 5;

/// The log of a container that is much larger than its maximum.
pub fn large_log(_: &Case<'_>, node: &str, answer: &NodeDiagnosis) -> Result<Vec<Observation>, String> {
    let log = read(&answer.largest_log, node, "logs of containers")?;
    let maximum = log.maximum_mebibytes.ok_or_else(|| format!("{node} has not read containerLogMaxSize"))?;
    let is_large = log.mebibytes > maximum.saturating_mul(NOT_ROTATED);
    let text = format!("{} MiB, and containerLogMaxSize is {maximum} MiB", log.mebibytes);
    Ok(is_large.then(|| Observation::of_node(node, &log.path, text)).into_iter().collect())
}

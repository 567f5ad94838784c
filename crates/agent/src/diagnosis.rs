//! What the agent reads when a diagnosis of its node is requested: what the API server and the facts do not have. Nothing is
//! changed. Two scripts of PowerShell print a line for each value, in a form that does not depend on the language of Windows.
//!
//! Sources, read in 2026-11: rancher/windows log collector (`Get-HnsNetwork`, `Get-HnsEndpoint`, their members), microsoft/SDN,
//! `Kubernetes/windows/hns.psm1`; kubernetes/kubernetes issues 135802 and 110849 (both forms of `hnsdiag list loadbalancers`);
//! MicrosoftDocs/windows-powershell-docs, `nettcpip` (`Get-NetRoute`, `Get-NetIPInterface`, `Get-NetTCPConnection`);
//! awslabs/amazon-eks-ami 069c0eb1, `eks-log-collector.ps1` (the event log EKS, with kubelet and kube-proxy as providers).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use winpool_api::{
    AdapterState, ContainerLog, HnsNetwork, LogEnd, MAX_PORTS, NodeDiagnosis, RouteState, ServiceRun, ServiceRunState,
    bounds::shortened,
};
use winpool_core::{
    kubernetes::quantity::Quantity,
    logs::{LOG_SOURCES, LogSource, masked_lines},
};
use winpool_render::powershell::quoted;

use super::{
    hns,
    host::{Host, ServiceState},
    layout::{self, Layout},
    script::{self, Lines},
};

const NETWORK: &str = include_str!("diagnosis/network.ps1");
const LOGS: &str = include_str!("diagnosis/logs.ps1");
/// How long the scripts may take, so that the answer is there within a minute.
const NETWORK_LIMIT: Duration = Duration::from_secs(30);
const LOG_LIMIT: Duration = Duration::from_secs(6);
/// The services of Windows for containers: the host network service, and the host compute service.
const OF_WINDOWS: [&str; 2] = ["hns", "vmcompute"];

/// The size of a whole diagnosis as JSON, in bytes.
const MAX_BYTES: usize = 16 * 1024;
/// The last lines of a log that are read, and the characters of one.
const MAX_LINES: usize = 40;
const MAX_LINE: usize = 400;
/// The addresses of endpoints, of which each pod has one, and the characters of a name.
const MAX_ENDPOINTS: usize = 160;
const MAX_NAME: usize = 48;
const MEBIBYTE: u64 = 1024 * 1024;
/// The directory of RKE2's agent, unless its data directory is set.
const RKE2: &str = "C:/var/lib/rancher/rke2/agent";

/// Reads a node. `kubelet` is the configuration that its kubelet uses.
pub fn read(host: &dyn Host, requested_at: Time, kubelet: Option<&Value>) -> NodeDiagnosis {
    let read_at = Time(host.now());
    let network = Network(Lines::parse(&script::output(host, NETWORK, NETWORK_LIMIT)));
    let mut diagnosis = NodeDiagnosis {
        requested_at,
        read_at,
        networks: network.list("network", 16, network_of),
        endpoints: network.endpoints(),
        exceptions: network.lists("endpoint", "exception").map(|all| {
            let exceptions = all.into_iter().map(|one| shortened(one, 64));
            sorted(exceptions, 32)
        }),
        load_balancers: hns::load_balancers(&network.0),
        routes: network.list("route", 16, route_of),
        ports: network.list("port", usize::MAX, |port| port.parse().ok()).map(|ports| sorted(ports, MAX_PORTS)),
        adapters: network.list("adapter", 16, adapter_of),
        services: services(host),
        largest_log: network.0.values("containerlog").next().and_then(|log| container_log(log, kubelet)),
        logs: LOG_SOURCES.iter().filter_map(|source| log_end(host, source)).collect(),
    };
    limit(&mut diagnosis);
    diagnosis
}

/// What the script printed.
struct Network(Lines);

impl Network {
    /// The lines of `name`, if the list `of` was read.
    fn lists(&self, of: &str, name: &str) -> Option<Vec<&str>> {
        self.0.is_read(of).then(|| self.0.values(name).collect())
    }

    fn list<T>(&self, name: &str, max: usize, value: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
        Some(self.lists(name, name)?.into_iter().filter_map(value).take(max).collect())
    }

    /// The addresses of local endpoints, and those that occur more than once.
    fn endpoints(&self) -> Option<Vec<String>> {
        let endpoints: Vec<_> = self.list("endpoint", usize::MAX, |line| {
            let (address, is_remote) = line.split_once('|')?;
            Some((address.to_owned(), is_remote.eq_ignore_ascii_case("true")))
        })?;
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        endpoints.iter().for_each(|(address, _)| *numbers.entry(address).or_default() += 1);
        let is_shown =
            |(address, is_remote): &&(String, bool)| !address.is_empty() && (!is_remote || numbers[&**address] > 1);
        let mut shown: Vec<_> = endpoints.iter().filter(is_shown).map(|(address, _)| address.clone()).collect();
        shown.sort_by_key(|address| (numbers[&**address] == 1, address.clone()));
        shown.truncate(MAX_ENDPOINTS);
        Some(shown)
    }
}

fn network_of(line: &str) -> Option<HnsNetwork> {
    let (name, type_) = line.rsplit_once('|')?;
    Some(HnsNetwork { name: shortened(name, MAX_NAME), type_: shortened(type_, 32) })
}

/// A route to a gateway.
fn route_of(line: &str) -> Option<RouteState> {
    let &[destination, next_hop, adapter] = &line.splitn(3, '|').collect::<Vec<_>>()[..] else { return None };
    let text = |text: &str| shortened(text, 64);
    let route =
        RouteState { destination: text(destination), next_hop: text(next_hop), adapter: shortened(adapter, MAX_NAME) };
    (next_hop != "0.0.0.0").then_some(route)
}

fn adapter_of(line: &str) -> Option<AdapterState> {
    let (name, mtu) = line.rsplit_once('|')?;
    Some(AdapterState { name: shortened(name, MAX_NAME), mtu: mtu.parse().ok()? })
}

/// The first different values.
fn sorted<T: Ord>(all: impl IntoIterator<Item = T>, max: usize) -> Vec<T> {
    all.into_iter().collect::<BTreeSet<_>>().into_iter().take(max).collect()
}

fn services(host: &dyn Host) -> Vec<ServiceRun> {
    let layout = layout::detect(host).ok();
    let mut names: Vec<&str> = layout.iter().flat_map(Layout::services).chain(OF_WINDOWS).collect();
    names.dedup();
    let run = |name: &str| {
        let state = match host.state(name).ok()?? {
            ServiceState::Stopped => ServiceRunState::Stopped,
            ServiceState::Pending => ServiceRunState::Pending,
            ServiceState::Running { .. } => ServiceRunState::Running,
        };
        Some(ServiceRun { name: name.to_owned(), state })
    };
    names.into_iter().filter_map(run).collect()
}

fn container_log(line: &str, kubelet: Option<&Value>) -> Option<ContainerLog> {
    let (bytes, path) = line.split_once('|')?;
    let mebibytes = |bytes: u64| u32::try_from(bytes / MEBIBYTE).ok();
    let maximum = kubelet.and_then(|kubelet| kubelet["containerLogMaxSize"].as_str()?.parse::<Quantity>().ok());
    let maximum = maximum.and_then(|quantity| u64::try_from(quantity.bytes()).ok());
    Some(ContainerLog {
        path: shortened(path, 512),
        mebibytes: mebibytes(bytes.parse().ok()?)?,
        maximum_mebibytes: maximum.and_then(mebibytes),
    })
}

/// Where a log may be, if it is a file.
pub(super) fn paths(source: &LogSource) -> Vec<String> {
    let files = source.files.iter().map(|file| format!("C:/var/log/{file}"));
    let of_rke2 = source.of_rke2.map(|file| format!("{RKE2}/{file}"));
    files.chain(of_rke2).map(|path| path.replace('/', r"\")).collect()
}

/// The end of a log, without credentials; `None` without lines.
fn log_end(host: &dyn Host, source: &LogSource) -> Option<LogEnd> {
    let (service, files) = (quoted(source.service), script::array(&paths(source)));
    let values = format!("$service = {service}\n$files = {files}\n$lines = {MAX_LINES}\n");
    let output = script::output(host, &format!("{values}{LOGS}"), LOG_LIMIT);
    let place = output.lines().find_map(|line| line.strip_prefix("place|"))?;
    let lines = output.lines().filter_map(|line| line.strip_prefix("line|")).map(str::to_owned);
    let lines: Vec<_> = masked_lines(lines).iter().map(|line| shortened(line.trim_end(), MAX_LINE)).collect();
    let end = LogEnd { service: source.service.to_owned(), place: shortened(place, 260), lines };
    (!end.lines.is_empty()).then_some(end)
}

/// Removes the oldest lines of the longest logs until the diagnosis has its size. Without lines it has: the lists are bounded.
fn limit(diagnosis: &mut NodeDiagnosis) {
    while json!(diagnosis).to_string().len() > MAX_BYTES {
        let with_lines = diagnosis.logs.iter_mut().filter(|log| !log.lines.is_empty());
        match with_lines.max_by_key(|log| log.lines.iter().map(String::len).sum::<usize>()) {
            Some(longest) => drop(longest.lines.remove(0)),
            None => break,
        }
    }
}

#[cfg(test)]
mod tests;

//! `winpool render`: what the operator would write for the resources in files, without a cluster.

mod files;
mod fit;
mod folder;
mod objects;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::PathBuf,
    sync::Arc,
};

use jiff::Timestamp;

use super::{
    Failure, input,
    output::{self, Format},
};
use crate::{
    api::names::DEFAULT_NAMESPACE,
    domain::{
        node::WindowsNode,
        pool::{Snapshot, configs::Newcomer},
        render::Bootstrap,
        tables,
    },
    facts::{ContainerdVersion, Minor, containerd, support},
    manifests::{self, Resources},
};

use files::Form;
pub use objects::{Rendered, render};

/// What was typed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files with WindowsNodePools and WindowsRuntimeProfiles, folders with such files (*.yaml, *.yml, *.json, with
    /// everything below), or - for standard input; may be repeated
    #[arg(short, long, value_name = "PATH", required = true)]
    filename: Vec<PathBuf>,
    /// The nodes to render for, as `kubectl get nodes -o yaml` or `-o json` prints them, or - for standard input. Their
    /// patches are printed too
    #[arg(long, value_name = "PATH")]
    nodes: Option<PathBuf>,
    /// The kubelets' minors, such as 1.36 or 1.36,1.35, in pools without nodes [default: the newest that was read]
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    kubernetes: Vec<String>,
    /// The containerd minors, such as 2.2 or 2.2,1.7, in pools without nodes [default: the newest that fits the kubelet]
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    containerd: Vec<String>,
    /// The operator's namespace, where the ConfigMaps go
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// How to print the objects
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Write a file for each object into this folder, and for each ConfigMap a folder with its files as they go onto a
    /// node, instead of printing them. A folder that an earlier render wrote is replaced, any other must be empty
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    out: Option<PathBuf>,
    /// Instead of objects, print the files of nodes in the form that a tool takes
    #[arg(long, value_enum, value_name = "TOOL", conflicts_with_all = ["output", "standalone"])]
    target: Option<Target>,
    /// Instead of objects, print whole files for machines that are built by hand. What a cluster's bootstrap would decide
    /// has to be typed, or be in spec.kubelet.extra of the profile
    #[arg(long, conflicts_with = "output")]
    standalone: bool,
    /// With --standalone: the addresses of the cluster's DNS, such as 10.96.0.10 [field: clusterDNS]
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',', requires = "standalone")]
    cluster_dns: Vec<IpAddr>,
    /// With --standalone: the domain of Services, such as cluster.local [field: clusterDomain]
    #[arg(long, value_name = "DOMAIN", requires = "standalone")]
    cluster_domain: Option<String>,
    /// With --standalone: where the authority of the kubelet's clients is on the node, such as
    /// C:\etc\kubernetes\pki\ca.crt [field: authentication.x509.clientCAFile]
    #[arg(long, value_name = "FILE", requires = "standalone")]
    client_ca_file: Option<String>,
    /// With --standalone and spec.kubeProxy: where the kubeconfig of kube-proxy is on the node
    #[arg(long, value_name = "FILE", requires = "standalone")]
    kube_proxy_kubeconfig: Option<String>,
}

/// A tool that takes files for nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Target {
    /// A folder of patches for kubeadm 1.25 and later, and the other files of the node
    Kubeadm,
}

impl Args {
    fn form(&self) -> Option<Form> {
        match self.target {
            Some(Target::Kubeadm) => Some(Form::Kubeadm),
            None => self.standalone.then(|| {
                Form::Standalone(Bootstrap {
                    cluster_dns: self.cluster_dns.iter().map(IpAddr::to_string).collect(),
                    cluster_domain: self.cluster_domain.clone(),
                    client_ca_file: self.client_ca_file.clone(),
                    kube_proxy_kubeconfig: self.kube_proxy_kubeconfig.clone(),
                })
            }),
        }
    }
}

/// What it means.
pub(super) struct Settings {
    files: Vec<PathBuf>,
    nodes: Option<PathBuf>,
    newcomers: Vec<Newcomer>,
    /// Whether the newcomers are of our choice, which a person should know of.
    chosen: bool,
    namespace: String,
    form: Option<Form>,
    to: To,
}

enum To {
    Stdout(Format),
    Folder(PathBuf),
}

impl TryFrom<Args> for Settings {
    type Error = Failure;

    fn try_from(args: Args) -> Result<Self, Failure> {
        let chosen = args.kubernetes.is_empty() || args.containerd.is_empty();
        let newcomers = newcomers(&args.kubernetes, &args.containerd)?;
        let form = args.form();
        let namespace = input::namespace(args.namespace)?;
        let stdin = |path: &PathBuf| path.as_os_str() == "-";
        if args.nodes.as_ref().is_some_and(stdin) && args.filename.iter().any(stdin) {
            return Err(Failure::Usage("standard input can be read once: write - only once".to_owned()));
        }
        let to = args.out.map_or(To::Stdout(args.output), To::Folder);
        Ok(Self { files: args.filename, nodes: args.nodes, newcomers, chosen, namespace, form, to })
    }
}

/// Every combination of the versions.
fn newcomers(kubernetes: &[String], containerd: &[String]) -> Result<Vec<Newcomer>, Failure> {
    let minors = kubernetes.iter().map(|text| minor(text)).collect::<Result<Vec<_>, _>>()?;
    let versions = containerd.iter().map(|text| containerd_version(text)).collect::<Result<Vec<_>, _>>()?;
    let minors = if minors.is_empty() { vec![support::NEWEST] } else { minors };
    let versions = if versions.is_empty() { vec![None] } else { versions.into_iter().map(Some).collect() };
    let with = |kubelet| versions.iter().map(move |containerd| Newcomer { kubelet, containerd: *containerd });
    Ok(minors.into_iter().flat_map(with).collect())
}

/// A minor of Kubernetes that the tables have.
pub(super) fn minor(text: &str) -> Result<Minor, Failure> {
    let minor = text.parse::<Minor>().map_err(|error| Failure::Usage(format!("--kubernetes: {error}")))?;
    if minor < support::OLDEST {
        let text = format!("--kubernetes: Windows nodes began with Kubernetes {}; {minor} had none", support::OLDEST);
        return Err(Failure::Usage(text));
    }
    Ok(minor)
}

fn containerd_version(text: &str) -> Result<ContainerdVersion, Failure> {
    let version =
        text.parse::<ContainerdVersion>().map_err(|error| Failure::Usage(format!("--containerd: {error}")))?;
    if containerd::generation(version).is_none() {
        let known: Vec<_> = containerd::GENERATIONS
            .iter()
            .map(|generation| format!("{}.{}", generation.first.major, generation.first.minor))
            .collect();
        let text = format!("--containerd: containerd {text} is not known; write one of {}", known.join(", "));
        return Err(Failure::Usage(text));
    }
    Ok(version)
}

/// Prints the objects or writes their files.
pub(super) fn run(settings: Settings) -> Result<(), Failure> {
    let resources = input::resources(&settings.files)?;
    let nodes = settings.nodes.as_ref().map(read_nodes).transpose()?;
    let snapshot = snapshot(&resources, nodes.unwrap_or_default(), settings.namespace);
    let rendered = render(&snapshot, &settings.newcomers, &resources).map_err(|mistakes| input::problems(&mistakes))?;
    if settings.chosen && rendered.for_newcomers {
        input::note(&format!(
            "rendered for {}; choose with --kubernetes and --containerd",
            in_words(&settings.newcomers)
        ));
    }
    let asked = settings.newcomers.iter().filter(|_| rendered.for_newcomers).map(|newcomer| newcomer.kubelet);
    let minors = asked.chain(snapshot.nodes.values().filter_map(|node| Some(node.kubelet.as_ref().ok()?.minor)));
    let minors: BTreeSet<_> = minors.collect();
    minors.into_iter().filter_map(tables::not_checked).for_each(|text| input::note(&text));
    rendered.notes.iter().for_each(|text| input::note(text));
    let Some(form) = settings.form else {
        return match settings.to {
            To::Stdout(format) => output::print_objects(rendered.objects(), format),
            To::Folder(folder) => folder::write(&folder, &rendered),
        };
    };
    let files = files::files(&snapshot, &settings.newcomers, &resources, &form);
    let files = files.map_err(|mistakes| input::problems(&mistakes))?;
    match settings.to {
        To::Stdout(_) => output::print(&in_one(&files)),
        To::Folder(folder) => folder::write_files(&folder, &files),
    }
}

/// Files in one text, each under its path.
fn in_one(files: &BTreeMap<String, String>) -> String {
    files.iter().map(|(path, text)| format!("==> {path} <==\n{text}\n")).collect()
}

fn read_nodes(file: &PathBuf) -> Result<BTreeMap<String, Arc<WindowsNode>>, Failure> {
    let nodes =
        manifests::nodes(input::read(std::slice::from_ref(file))?).map_err(|mistakes| input::problems(&mistakes))?;
    if nodes.is_empty() {
        let text = format!("{}: no node with the label kubernetes.io/os=windows is there", file.display());
        return Err(Failure::Problems(text));
    }
    Ok(nodes)
}

/// The world of which the files are all that there is.
pub fn snapshot(
    resources: &Resources,
    nodes: BTreeMap<String, Arc<WindowsNode>>,
    namespace: impl Into<String>,
) -> Snapshot {
    Snapshot {
        now: Timestamp::now(),
        namespace: namespace.into(),
        pools: resources.pools.iter().map(|(name, (pool, _))| (name.clone(), pool.clone())).collect(),
        profiles: resources.profiles.iter().map(|(name, (profile, _))| (name.clone(), profile.clone())).collect(),
        nodes: nodes.into(),
        ..Snapshot::default()
    }
}

fn in_words(newcomers: &[Newcomer]) -> String {
    let one = |newcomer: &Newcomer| match newcomer.containerd() {
        Some(version) => format!("kubelet {} with containerd {}.{}", newcomer.kubelet, version.major, version.minor),
        None => format!("kubelet {}, with which no known containerd goes", newcomer.kubelet),
    };
    newcomers.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn every_combination_of_the_versions_is_rendered() {
        let table: [(&[&str], &[&str], &str); 4] = [
            (&["1.36"], &["2.2"], "kubelet 1.36 with containerd 2.2"),
            (
                &["v1.34.2", "1.30"],
                &["1.7", "2.1"],
                "kubelet 1.34 with containerd 1.7, kubelet 1.34 with containerd 2.1, kubelet 1.30 with containerd 1.7, \
                 kubelet 1.30 with containerd 2.1",
            ),
            (&["1.20", "1.35"], &[], "kubelet 1.20 with containerd 1.7, kubelet 1.35 with containerd 2.4"),
            (&[], &[], "kubelet 1.36 with containerd 2.4"),
        ];
        for (kubernetes, containerd, expected) in table {
            assert_eq!(in_words(&newcomers(&texts(kubernetes), &texts(containerd)).unwrap()), expected);
        }
    }

    #[test]
    fn versions_that_there_are_not_are_wrong_usage() {
        let failure = |kubernetes: &[&str], containerd: &[&str]| {
            newcomers(&texts(kubernetes), &texts(containerd)).unwrap_err().to_string()
        };
        assert_eq!(failure(&["newest"], &[]), "--kubernetes: `newest` is not a Kubernetes version such as 1.34");
        assert_eq!(failure(&["1.9"], &[]), "--kubernetes: Windows nodes began with Kubernetes 1.14; 1.9 had none");
        let known = "write one of 1.4, 1.5, 1.6, 1.7, 2.0, 2.1, 2.2, 2.3, 2.4";
        assert_eq!(failure(&[], &["1.3"]), format!("--containerd: containerd 1.3 is not known; {known}"));
    }
}

//! `winpool render`: the objects that the operator would apply for the resources in files, without a cluster.

mod cluster_api;
mod directory;
mod documents;
mod files;
mod kube_proxy;
mod platform;
mod tool;

use std::{collections::BTreeSet, net::IpAddr, path::PathBuf};

use jiff::Timestamp;
use winpool_api::names::DEFAULT_NAMESPACE;
use winpool_check::{
    manifests,
    render::{Rendered, render, snapshot},
};
use winpool_core::{Objects, node::WindowsNode, tables};
use winpool_facts::{ContainerdVersion, Minor, containerd, support};
use winpool_render::Bootstrap;
use winpool_rules::pool::{Snapshot, configs::ExpectedNode};

use super::{
    CommandError, input,
    output::{OutputFormat, OutputTarget},
};

pub use cluster_api::{Input, autoscaler_hints, cluster_class_patches, machine_objects};
pub use directory::write_files;
pub use documents::Documents;
use files::NodeFileFormat;
pub use kube_proxy::kube_proxy_objects;
pub use platform::platform_files;
use tool::{NodeTool, Output, RenderClusterApi};

#[derive(Debug, clap::Args)]
#[command(mut_group("input", |group| group.required(true)))]
pub(super) struct Args {
    #[command(flatten)]
    paths: input::Paths,
    /// Render for the nodes in this file, the output of kubectl get nodes -o yaml or json, and print their patches; -
    /// reads standard input
    #[arg(long, value_name = "PATH")]
    nodes: Option<PathBuf>,
    /// The kubelet versions of pools without nodes, such as 1.36 or 1.36,1.35 [default: the newest known version]
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    kubernetes: Vec<String>,
    /// The containerd versions of pools without nodes, such as 2.2 or 2.2,1.7 [default: the newest for the kubelet]
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    containerd: Vec<String>,
    /// The namespace of the operator, which gets the ConfigMaps
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// The output format of objects [default: yaml]
    #[arg(short, long, value_enum)]
    output: Option<OutputFormat>,
    /// Write one file for each object into this directory instead of printing them, and for each ConfigMap a directory with
    /// the files for a node. The directory must be empty or written by winpool render, which replaces it
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    out: Option<PathBuf>,
    /// Print what this tool or platform needs instead of the objects of the operator. For a platform, a comment lists the
    /// settings that it does not take
    #[arg(long, value_enum, value_name = "TOOL", conflicts_with = "standalone")]
    target: Option<NodeTool>,
    /// With --target clusterclass-patch: the class of machines that the patches select [default: the name of the pool]
    #[arg(long, value_name = "NAME", requires = "target")]
    machine_deployment_class: Option<String>,
    /// Print complete files for nodes without another bootstrap tool instead of objects. Values that depend on the cluster
    /// are set by the options below, or by spec.kubelet.extra of the profile
    #[arg(long, conflicts_with = "output")]
    standalone: bool,
    /// With --standalone: the addresses of the cluster DNS, such as 10.96.0.10 (clusterDNS)
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',', requires = "standalone")]
    cluster_dns: Vec<IpAddr>,
    /// With --standalone: the domain of the cluster, such as cluster.local (clusterDomain)
    #[arg(long, value_name = "DOMAIN", requires = "standalone")]
    cluster_domain: Option<String>,
    /// With --standalone: the path of the client CA certificate on the node, such as C:\etc\kubernetes\pki\ca.crt
    /// (authentication.x509.clientCAFile)
    #[arg(long, value_name = "FILE", requires = "standalone")]
    client_ca_file: Option<String>,
    /// With --standalone and spec.kubeProxy: the path of the kubeconfig of kube-proxy on the node
    #[arg(long, value_name = "FILE", requires = "standalone")]
    kube_proxy_kubeconfig: Option<String>,
}

impl Args {
    /// Rejects options that have no effect on the target.
    fn check(&self) -> Result<(), CommandError> {
        let Some(target) = self.target else { return Ok(()) };
        let unused = [
            ("--nodes", self.nodes.is_some() && matches!(target.output(), Output::ClusterApi(_))),
            ("--output", self.output.is_some() && !target.prints_objects()),
            ("--machine-deployment-class", self.machine_deployment_class.is_some() && !target.has_class()),
        ];
        match unused.into_iter().find(|(_, is_unused)| *is_unused) {
            Some((option, _)) => {
                let target = clap::ValueEnum::to_possible_value(&target).map(|value| value.get_name().to_owned());
                let text = format!("{option} cannot be used with --target {}", target.unwrap_or_default());
                Err(CommandError::Usage(text))
            }
            None => Ok(()),
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        self.paths.clone().into()
    }

    fn rendered_output(&self) -> Output {
        match self.target {
            Some(target) => target.output(),
            None if self.standalone => Output::NodeFiles(NodeFileFormat::Standalone(Bootstrap {
                cluster_dns: self.cluster_dns.iter().map(IpAddr::to_string).collect(),
                cluster_domain: self.cluster_domain.clone(),
                client_ca_file: self.client_ca_file.clone(),
                kube_proxy_kubeconfig: self.kube_proxy_kubeconfig.clone(),
            })),
            None => Output::Objects,
        }
    }
}

/// All combinations of the versions.
fn expected_nodes(kubernetes: &[String], containerd: &[String]) -> Result<Vec<ExpectedNode>, CommandError> {
    let minors = kubernetes.iter().map(|text| minor(text)).collect::<Result<Vec<_>, _>>()?;
    let versions = containerd.iter().map(|text| containerd_version(text)).collect::<Result<Vec<_>, _>>()?;
    let minors = if minors.is_empty() { vec![support::NEWEST] } else { minors };
    let versions = if versions.is_empty() { vec![None] } else { versions.into_iter().map(Some).collect() };
    let with = |kubelet| versions.iter().map(move |containerd| ExpectedNode { kubelet, containerd: *containerd });
    Ok(minors.into_iter().flat_map(with).collect())
}

/// The value of `--kubernetes`.
pub(super) fn minor(text: &str) -> Result<Minor, CommandError> {
    minor_since(text, support::OLDEST)
}

/// The value of `--kubernetes` of a command that knows versions since this one.
pub(super) fn minor_since(text: &str, oldest: Minor) -> Result<Minor, CommandError> {
    let minor = text.parse::<Minor>().map_err(|error| CommandError::Usage(format!("--kubernetes: {error}")))?;
    if minor < oldest {
        let text = format!("--kubernetes: {minor} is not supported. Use {oldest} or later");
        return Err(CommandError::Usage(text));
    }
    Ok(minor)
}

fn containerd_version(text: &str) -> Result<ContainerdVersion, CommandError> {
    let version =
        text.parse::<ContainerdVersion>().map_err(|error| CommandError::Usage(format!("--containerd: {error}")))?;
    if containerd::release_line(version).is_none() {
        let known = containerd::RELEASE_LINES.iter().map(|line| format!("{}.{}", line.first.major, line.first.minor));
        let text =
            format!("--containerd: {text} is not supported. Use one of {}", known.collect::<Vec<_>>().join(", "));
        return Err(CommandError::Usage(text));
    }
    Ok(version)
}

/// Prints what the target needs, or writes its files.
pub(super) fn run(args: Args) -> Result<(), CommandError> {
    args.check()?;
    let expected_nodes = expected_nodes(&args.kubernetes, &args.containerd)?;
    input::namespace(args.namespace.clone())?;
    let stdin = |path: &PathBuf| path.as_os_str() == "-";
    if args.nodes.as_ref().is_some_and(stdin) && args.files().iter().any(stdin) {
        return Err(input::stdin_twice());
    }
    let documents = match args.rendered_output() {
        Output::ClusterApi(render) => for_cluster_api(&args, &expected_nodes, render),
        output => for_nodes(&args, &expected_nodes, &output),
    };
    let documents = documents?;
    let failure = documents.failure().filter(|_| args.target.is_some() || args.standalone);
    documents.write(OutputTarget::new(args.out, args.output.unwrap_or_default()))?;
    failure.map_or(Ok(()), Err)
}

fn for_nodes(args: &Args, expected_nodes: &[ExpectedNode], output: &Output) -> Result<Documents, CommandError> {
    let (resources, kube_proxy) = match output {
        Output::KubeProxy => input::resources_and_kube_proxy(&args.files())?,
        _ => (input::resources(&args.files())?, None),
    };
    let nodes = args.nodes.as_ref().map(read_nodes).transpose()?.unwrap_or_default();
    let snapshot = Snapshot { now: Timestamp::now(), ..snapshot(&resources, nodes, args.namespace.as_str()) };
    let rendered = render(&snapshot, expected_nodes, &resources);
    let rendered = rendered.map_err(|problems| input::failure(&problems))?;
    print_notes(args, expected_nodes, &snapshot, &rendered);
    let documents = match output {
        Output::Platform(target) => platform_files(&snapshot, expected_nodes, &resources, *target),
        Output::NodeFiles(format) => files::files(&snapshot, expected_nodes, &resources, format),
        Output::KubeProxy => {
            let documents = kube_proxy_objects(&snapshot, expected_nodes, kube_proxy.as_ref());
            return documents.map_err(CommandError::Problems);
        }
        Output::Objects | Output::ClusterApi(_) => Ok(rendered.into()),
    };
    documents.map_err(|problems| input::failure(&problems))
}

/// What machines of Cluster API need.
fn for_cluster_api(
    args: &Args,
    expected_nodes: &[ExpectedNode],
    render: RenderClusterApi,
) -> Result<Documents, CommandError> {
    let (resources, templates) = input::resources_and_templates(&args.files())?;
    let snapshot = snapshot(&resources, Objects::default(), args.namespace.as_str());
    let input = Input { snapshot: &snapshot, expected_nodes, resources: &resources, templates: &templates };
    let minors: BTreeSet<_> = expected_nodes.iter().map(|node| node.kubelet).collect();
    minors
        .into_iter()
        .filter_map(|minor| tables::not_checked(minor, super::today()))
        .for_each(|text| input::note(&text));
    render(&input, args.machine_deployment_class.as_deref()).map_err(|problems| input::failure(&problems))
}

fn print_notes(args: &Args, expected_nodes: &[ExpectedNode], snapshot: &Snapshot, rendered: &Rendered) {
    let expected_nodes = if rendered.uses_expected_nodes { expected_nodes } else { &[] };
    let has_default_versions = args.kubernetes.is_empty() || args.containerd.is_empty();
    if has_default_versions && rendered.uses_expected_nodes {
        let versions = description(expected_nodes);
        input::note(&format!("rendered for {versions}. Set other versions with --kubernetes and --containerd"));
    }
    let of_nodes = snapshot.nodes.values().filter_map(|node| node.kubelet_minor());
    let minors: BTreeSet<_> = expected_nodes.iter().map(|node| node.kubelet).chain(of_nodes).collect();
    minors
        .into_iter()
        .filter_map(|minor| tables::not_checked(minor, super::today()))
        .for_each(|text| input::note(&text));
    rendered.notes.iter().for_each(|text| input::note(text));
}

fn read_nodes(file: &PathBuf) -> Result<Objects<WindowsNode>, CommandError> {
    let manifests = input::read(std::slice::from_ref(file))?;
    let nodes = manifests::nodes(manifests).map_err(|problems| input::failure(&problems))?;
    if nodes.is_empty() {
        let text = format!("{}: no node with label kubernetes.io/os=windows found", file.display());
        return Err(CommandError::Problems(text));
    }
    Ok(nodes)
}

fn description(expected_nodes: &[ExpectedNode]) -> String {
    let text = |expected_node: &ExpectedNode| match expected_node.containerd() {
        Some(version) => {
            format!("kubelet {} with containerd {}.{}", expected_node.kubelet, version.major, version.minor)
        }
        None => format!("kubelet {} without a known containerd", expected_node.kubelet),
    };
    expected_nodes.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn all_combinations_of_the_versions_are_rendered() {
        let table: [(&[&str], &[&str], &str); 4] = [
            (&["1.36"], &["2.2"], "kubelet 1.36 with containerd 2.2"),
            (
                &["v1.34.2", "1.30"],
                &["1.7", "2.1"],
                "kubelet 1.34 with containerd 1.7, kubelet 1.34 with containerd 2.1, kubelet 1.30 with containerd 1.7, \
                 kubelet 1.30 with containerd 2.1",
            ),
            (&["1.30", "1.35"], &[], "kubelet 1.30 with containerd 2.4, kubelet 1.35 with containerd 2.4"),
            (&[], &[], "kubelet 1.37 with containerd 2.4"),
        ];
        for (kubernetes, containerd, expected) in table {
            assert_eq!(description(&expected_nodes(&texts(kubernetes), &texts(containerd)).unwrap()), expected);
        }
    }

    #[test]
    fn unknown_versions_are_usage_errors() {
        let failure = |kubernetes: &[&str], containerd: &[&str]| {
            expected_nodes(&texts(kubernetes), &texts(containerd)).unwrap_err().to_string()
        };
        assert_eq!(failure(&["newest"], &[]), "--kubernetes: `newest` is not a Kubernetes version such as 1.34");
        assert_eq!(failure(&["1.29"], &[]), "--kubernetes: 1.29 is not supported. Use 1.30 or later");
        let unknown = failure(&[], &["1.3"]);
        assert!(unknown.starts_with("--containerd: 1.3 is not supported. Use one of "), "{unknown}");
        assert!(unknown.ends_with("1.7, 2.0, 2.1, 2.2, 2.3, 2.4"), "{unknown}");
    }
}

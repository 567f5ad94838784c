//! `winpool adopt`: writes pools and profiles for the Windows nodes of a cluster that belong to no pool. Read-only.

mod read;
mod text;

use std::{collections::BTreeMap, path::PathBuf};

use winpool_api::names::DEFAULT_NAMESPACE;
use winpool_check::adopt::{self, Adoption};
use winpool_core::{kubernetes::syntax, tables, text::counted};

use super::{
    CommandError, connect, input,
    output::{self, OutputFormat, OutputTarget},
    render,
};

pub use read::snapshot_of;
pub use text::{Document, documents, text};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The exit status is 0 if each Windows node is in exactly one pool, and 1 if one is in none or in several. For \
                        --nodes: kubectl get nodes,runtimeclasses -o yaml > cluster.yaml"
)]
pub(super) struct Args {
    /// Read nodes, RuntimeClasses and existing pools from this file instead of the cluster, as kubectl get prints them with
    /// -o yaml or json; - reads standard input. May be repeated
    #[arg(long, value_name = "PATH")]
    nodes: Vec<PathBuf>,
    /// A label that names the pool of a node. It takes precedence over those of platforms, such as agentpool. May be repeated
    #[arg(long, value_name = "KEY")]
    pool_label: Vec<String>,
    /// Let the pools use the profiles: the operator then writes a configuration for each node, and its name into an annotation
    #[arg(long)]
    profiles: bool,
    /// Read the configuration of each kubelet too, for the profiles. It requires the permission to get nodes/proxy, which also
    /// permits to run commands in the pods of a node: use the credentials of an administrator
    #[arg(long, conflicts_with = "nodes")]
    configz: bool,
    /// Write one file for each pool and profile into this directory instead of printing them. The directory must be empty or
    /// written by winpool adopt, which replaces it
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    out: Option<PathBuf>,
    /// The output format. JSON has no comments [default: yaml]
    #[arg(short, long, value_enum)]
    output: Option<OutputFormat>,
    /// The namespace of the operator
    #[arg(long, env = "WINPOOL_NAMESPACE", value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    #[command(flatten)]
    cluster: connect::Args,
}

/// Prints the pools and profiles, or writes their files. Fails unless each Windows node is in exactly one pool.
pub(super) fn run(args: Args) -> Result<(), CommandError> {
    let Args { nodes: files, pool_label, profiles, configz, out, output, namespace, cluster } = args;
    pool_label.iter().try_for_each(|key| check_label(key))?;
    let namespace = input::namespace(namespace)?;
    let (snapshot, kubelets) = match files.as_slice() {
        [] => read::cluster(&cluster, &namespace, configz)?,
        files => (read::files(files, &namespace)?, BTreeMap::new()),
    };
    if snapshot.nodes.is_empty() {
        return Err(CommandError::Problems("there is no node with label kubernetes.io/os=windows".to_owned()));
    }
    let minors = snapshot.nodes.values().filter_map(|node| node.kubelet_minor());
    minors.max().and_then(|minor| tables::not_checked(minor, super::today())).iter().for_each(|text| input::note(text));
    let options = adopt::AdoptOptions { pool_labels: pool_label, use_profiles: profiles, kubelets };
    let adoption = adopt::adopt(&snapshot, &options);
    if adoption.pools.is_empty() && adoption.problems.is_empty() {
        input::note(&format!("nothing to write: {}", text::assigned(&adoption)));
    }
    write(&adoption, &OutputTarget::new(out, output.unwrap_or_default()))?;
    match adoption.problems.as_slice() {
        [] => Ok(()),
        problems => {
            let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
            let count = counted(problems.len(), "node");
            Err(CommandError::Problems(format!("{count} not in exactly one pool\n{}", lines.join("\n"))))
        }
    }
}

fn write(adoption: &Adoption, destination: &OutputTarget) -> Result<(), CommandError> {
    match destination {
        OutputTarget::Stdout(OutputFormat::Yaml) => output::print(&text(adoption)),
        OutputTarget::Stdout(OutputFormat::Json) => {
            let objects: Vec<_> = documents(adoption).into_iter().map(|document| document.object).collect();
            output::print_objects(&objects, OutputFormat::Json)
        }
        OutputTarget::Directory(directory) => {
            text::summary(adoption).iter().for_each(|line| input::note(line));
            let files = documents(adoption).iter().map(|document| (document.file.clone(), document.yaml())).collect();
            render::write_files(directory, &files)
        }
    }
}

fn check_label(key: &str) -> Result<(), CommandError> {
    if !syntax::is_qualified_name(key) {
        let remedy = "Write a name of at most 63 characters, with an optional DNS prefix: example.com/team";
        return Err(CommandError::Usage(format!("--pool-label: `{key}` is not the key of a label. {remedy}")));
    }
    if key.starts_with("winpool.dev/") {
        return Err(CommandError::Usage(format!("--pool-label: {key} is set by winpool. Use another label")));
    }
    Ok(())
}

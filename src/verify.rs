//! `winpool verify`: the checks of a first deployment, by Jobs on the nodes of a pool, which are removed at the end.

mod run;
mod text;

use clap::ValueEnum;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use serde::Serialize;
use winpool_api::names::{DEFAULT_NAMESPACE, label};
use winpool_check::verify::{CheckResult, Outcome, Verification, VerifiedNode, eligible};
use winpool_core::{image::Reference, node::WindowsNode, text::counted};
use winpool_facts::{builds, test_images::test_image};
use winpool_operator::cluster::{self, explain};
use winpool_rules::pool::Snapshot;

use self::run::Run;
use super::{
    CommandError, connect, doctor, input,
    output::{self, OutputFormat, ReportFormat},
    pools::check_names,
    progress::Progress,
};

/// The format of the results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum VerifyFormat {
    /// Plain text
    #[default]
    Text,
    /// One JSON object
    Json,
    /// A JUnit report
    Junit,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The exit status is 0 if every check has passed, and 1 if one has failed or could not be determined. What Windows does \
                        not do by design is named, and no failure. Everything that was created is removed at the end and after Ctrl-C."
)]
pub(super) struct Args {
    /// The pool whose nodes are verified
    #[arg(value_name = "POOL")]
    pool: String,
    /// The namespace of the Jobs. Pods in the network of a Linux node must be allowed in it
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Verify the first nodes by name, at most so many
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8))]
    nodes: u8,
    /// A copy of agnhost for Windows and Linux [default: that of Kubernetes, by its digest]
    #[arg(long)]
    image: Option<Reference>,
    /// The address outside of the cluster that pods connect to
    #[arg(long, value_name = "HOST:PORT", default_value = "registry.k8s.io:443")]
    outbound: String,
    /// The domain of the cluster in DNS names of Services
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    cluster_domain: String,
    /// The NodePort to use. The API server assigns those below 30086 to Services last
    #[arg(long, value_name = "PORT", default_value_t = 30080)]
    node_port: u16,
    /// How long the checks may take, such as 15m
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    timeout: String,
    /// Print the objects, and create none
    #[arg(long)]
    dry_run: bool,
    /// The output format; the objects of --dry-run are YAML, or JSON
    #[arg(short, long, value_enum, default_value_t)]
    output: VerifyFormat,
    #[command(flatten)]
    cluster: connect::Args,
}

/// What was verified, and the results.
#[derive(Debug, Serialize)]
struct Report {
    pool: String,
    image: String,
    nodes: Vec<VerifiedNode>,
    /// How many more nodes the pool has that are ready.
    omitted: usize,
    checks: Vec<CheckResult>,
}

impl Report {
    /// What is wrong, in one line; `None` if nothing.
    fn summary(&self) -> Option<String> {
        let count = |outcome| self.checks.iter().filter(|one| one.outcome == outcome).count();
        let parts = [(Outcome::Failed, "failed"), (Outcome::NotDetermined, "not determined")];
        let parts = parts.map(|(outcome, text)| (count(outcome), text)).into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<_> = parts.map(|(count, text)| format!("{} {text}", counted(count, "result"))).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// Runs the checks and prints their results, or prints the objects.
pub(super) fn run(args: Args) -> Result<(), CommandError> {
    connect::runtime()?.block_on(async {
        let client = args.cluster.client().await?;
        let progress = Progress::start("reading the cluster", "request");
        // Without the objects of Cluster API, which may be missing: nodes are verified, not machines.
        let (snapshot, _) = cluster::list_snapshot(&progress.counting(client.clone()), DEFAULT_NAMESPACE).await?;
        let (verification, omitted) = args.verification(&client, &snapshot).await?;
        drop(progress);
        if args.dry_run {
            let format = if args.output == VerifyFormat::Json { OutputFormat::Json } else { OutputFormat::Yaml };
            return output::print_objects(&verification.objects(), format);
        }
        let checks = Run::new(client, &verification).results().await?;
        let Verification { pool, image, nodes, .. } = verification;
        print(&Report { pool, image, nodes, omitted, checks }, args.output)
    })
}

fn print(report: &Report, format: VerifyFormat) -> Result<(), CommandError> {
    match format {
        VerifyFormat::Text => output::report(ReportFormat::Text, report, text::text, report.summary()),
        VerifyFormat::Json => output::report(ReportFormat::Json, report, text::text, report.summary()),
        VerifyFormat::Junit => {
            output::print(&text::junit(report))?;
            report.summary().map_or(Ok(()), |summary| Err(CommandError::Problems(summary)))
        }
    }
}

impl Args {
    /// What is verified, and how many nodes are left out.
    async fn verification(&self, client: &Client, snapshot: &Snapshot) -> Result<(Verification, usize), CommandError> {
        let namespace = input::namespace(self.namespace.clone())?;
        let limit = doctor::positive("--timeout", &self.timeout)?;
        check_names("", [self.pool.as_str()], snapshot.pools.names())?;
        let spec = snapshot.pools.get(&self.pool).and_then(|pool| pool.spec.as_ref().ok());
        let spec = spec.ok_or_else(|| {
            CommandError::Problems(format!(
                "WindowsNodePool {} has an invalid spec. See kubectl describe wnp",
                self.pool
            ))
        })?;
        let all = eligible(snapshot, &self.pool);
        let (chosen, others) = all.split_at(all.len().min(self.nodes.into()));
        if chosen.is_empty() {
            let text = format!("pool {} has no node that is ready and not cordoned. See winpool status {0}", self.pool);
            return Err(CommandError::Problems(text));
        }
        let image = match &self.image {
            Some(image) => image.to_string(),
            None => chosen.iter().map(image_for).collect::<Result<Vec<_>, _>>()?.swap_remove(0),
        };
        let mut nodes = Vec::new();
        for node in chosen {
            nodes.push(verified(client, node).await?);
        }
        let class = spec.runtime_classes.iter().find(|class| snapshot.runtime_classes.contains(&class.name));
        let verification = Verification {
            pool: self.pool.clone(),
            namespace,
            nodes,
            taints: spec.taints.clone(),
            runtime_class: class.map(|class| class.name.clone()),
            image,
            outbound: self.outbound.clone(),
            cluster_domain: self.cluster_domain.clone(),
            node_port: self.node_port,
            limit: limit.unsigned_abs().as_secs().max(1),
        };
        Ok((verification, others.len()))
    }
}

/// The image of the tables for a node.
fn image_for(node: &WindowsNode) -> Result<String, CommandError> {
    let image = node.os_version().and_then(|host| test_image(host, node.containerd()));
    image.map(str::to_owned).ok_or_else(|| {
        let build = node.build().map_or_else(|| "an unknown build".to_owned(), builds::described);
        CommandError::Usage(format!(
            "node {} runs {build}, for which the tables have no test image. Use --image with a build of agnhost for it",
            node.name
        ))
    })
}

/// A node with its InternalIP, or else its name.
async fn verified(client: &Client, node: &WindowsNode) -> Result<VerifiedNode, CommandError> {
    let read = Api::<Node>::all(client.clone()).get(&node.name).await;
    let object =
        read.map_err(|error| CommandError::Cluster(format!("cannot read node {}: {}", node.name, explain(&error))))?;
    let addresses = object.status.and_then(|status| status.addresses).unwrap_or_default();
    let internal = addresses.into_iter().find(|address| address.type_ == "InternalIP").map(|address| address.address);
    Ok(VerifiedNode {
        name: node.name.clone(),
        hostname: node.labels.get(label::HOSTNAME).unwrap_or(&node.name).clone(),
        address: internal.unwrap_or_else(|| node.name.clone()),
    })
}

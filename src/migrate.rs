//! `winpool migrate`: whether a pool's workloads would run on another Windows version or in another pool. Read-only.

use std::{collections::HashMap, fmt::Write as _};

use serde_json::{Value, json};
use winpool_api::names::DEFAULT_NAMESPACE;
use winpool_check::{
    add_ons::AddOnFit,
    migrate::{
        Migration, MigrationOutcome, MigrationPlanner, MigrationTarget, PoolCapacity, Step, WorkloadMigration, steps,
    },
};
use winpool_core::{foreign_text::escaped_lines, image::Reference, text::counted};
use winpool_facts::{OsVersion, add_ons::Fit, builds};
use winpool_operator::cluster;
use winpool_rules::pool::Snapshot;
use winpool_workload::{Storage, StorageState, WorkloadName};

use super::{
    CommandError, connect, input,
    output::{self, ReportFormat},
    pools::check_names,
    progress::Progress,
    registry, workloads,
};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The exit status is 0 if every workload would run, and 1 if one would not or is unknown, if an add-on does not \
                        fit, or if the other pool does not have enough capacity."
)]
pub(super) struct Args {
    /// The pool whose workloads are checked
    #[arg(value_name = "POOL")]
    pool: String,
    /// The new Windows version of the pool's nodes, such as ltsc2025 or 10.0.26100, or the pool to move the workloads to
    #[arg(long, value_name = "VERSION|POOL")]
    to: String,
    /// Also print the move as steps: the new pool, waves of workloads, what stays behind, and commands. Nothing is executed
    #[arg(long)]
    plan: bool,
    /// The namespace of the operator
    #[arg(long, env = "WINPOOL_NAMESPACE", value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    output: ReportFormat,
    /// Look up the platforms of images in their registries, anonymously. Without it they are derived from image names
    #[arg(long)]
    registry: bool,
    #[command(flatten)]
    registries: registry::Args,
    #[command(flatten)]
    cluster: connect::Args,
}

/// Prints the outcome for each workload. Fails if one would not run or is unknown, or the capacity is not sufficient.
pub(super) fn run(args: Args) -> Result<(), CommandError> {
    let Args { pool, to, plan, namespace, output: format, registry, registries, cluster } = args;
    let namespace = input::namespace(namespace)?;
    let runtime = connect::runtime()?;
    let (mut snapshot, (pods, controllers), storage) = runtime.block_on(async {
        let progress = Progress::start("reading the cluster", "request");
        let client = progress.counting(cluster.client().await?);
        let snapshot = workloads::snapshot(&client, &namespace).await?;
        let workloads = cluster::list_workloads(&client).await?;
        // Without volumes the permission to read them is not needed.
        let storage = match workloads.0.values().any(|pod| !pod.template.volumes.is_empty()) {
            true => cluster::list_storage(&client).await,
            false => Ok(Storage::default()),
        };
        Ok::<_, CommandError>((snapshot, workloads, storage))
    })?;
    match storage {
        Ok(storage) => snapshot.storage = StorageState::Known(storage),
        Err(error) => input::note(&format!("volumes are not checked: {error}")),
    }
    let target = target(&snapshot, &pool, &to)?;
    let planner = MigrationPlanner {
        snapshot: &snapshot,
        pods: pods.values().cloned().collect(),
        controllers: controllers.iter().cloned().collect(),
    };
    let registry = registry.then(|| registries.registry()).transpose()?;
    let lookups = registry.map_or_else(HashMap::new, |registry| {
        let destination = if let MigrationTarget::Pool(other) = &target { other } else { &pool };
        let mirrors = |image: &Reference| snapshot.mirrors(destination, image.registry());
        runtime.block_on(registry::look_up(&registry, planner.images(&pool), mirrors))
    });
    let migration = planner.plan(&pool, &target, &lookups).ok_or_else(|| {
        let other = if matches!(target, MigrationTarget::Pool(_)) { format!(" or {to}") } else { String::new() };
        CommandError::Problems(format!(
            "WindowsNodePool {pool}{other} has an invalid spec or is being deleted. See kubectl describe wnp"
        ))
    })?;
    let steps = plan.then(|| steps(&planner, &pool, &target, &lookups)).flatten();
    let mut json = as_json(&pool, &target, &migration);
    steps.iter().for_each(|steps| json["steps"] = json!(steps));
    let text = |_: &Value| text(&pool, &target, &migration) + &numbered(steps.as_deref().unwrap_or_default());
    output::report(format, &json, text, summary(&migration))
}

fn target(snapshot: &Snapshot, pool: &str, to: &str) -> Result<MigrationTarget, CommandError> {
    let pools = || snapshot.pools.names().collect::<Vec<_>>().join(", ");
    check_names("", [pool], snapshot.pools.names())?;
    if to == pool {
        return Err(CommandError::Usage(format!(
            "--to: {to} is the same pool. Use another pool, or a Windows version"
        )));
    }
    if snapshot.pools.contains(to) {
        return Ok(MigrationTarget::Pool(to.to_owned()));
    }
    let build = builds::named(to).or_else(|| to.parse::<OsVersion>().ok().map(|version| version.build));
    build.map(|build| MigrationTarget::Version { name: to.to_owned(), build }).ok_or_else(|| {
        let versions = builds::names().collect::<Vec<_>>().join(", ");
        CommandError::Usage(format!(
            "--to: {to:?} is neither a pool nor a Windows version. Pools: {}. Versions: {versions}, or 10.0.NNNNN",
            pools()
        ))
    })
}

fn title(target: &MigrationTarget) -> String {
    match target {
        MigrationTarget::Version { name, build } if *name == build.to_string() => name.clone(),
        MigrationTarget::Version { name, build } => format!("{name} ({build})"),
        MigrationTarget::Pool(pool) => format!("pool {pool}"),
    }
}

fn described(outcome: MigrationOutcome) -> &'static str {
    match outcome {
        MigrationOutcome::NoImage => "no matching image",
        MigrationOutcome::NotSchedulable => "not schedulable",
        MigrationOutcome::NoPods => "no pods created",
        MigrationOutcome::NotMounted => "not mounted",
        MigrationOutcome::Unknown => "unknown",
        MigrationOutcome::Runs => "runs",
    }
}

fn text(pool: &str, target: &MigrationTarget, migration: &Migration) -> String {
    let pods: usize = migration.workloads.iter().map(|one| one.pods).sum();
    let mut text = format!(
        "Pool {pool} to {}: {}, {}\n",
        title(target),
        counted(migration.workloads.len(), "workload"),
        counted(pods, "pod")
    );
    for WorkloadMigration { workload, pods, outcome, message } in &migration.workloads {
        let result = described(*outcome);
        let separator = if message.is_empty() { "" } else { ": " };
        let _ = writeln!(text, "  {result:<18} {workload} ({}){separator}{message}", counted(*pods, "pod"));
    }
    if !migration.add_ons.is_empty() {
        text.push_str("Add-ons on the new nodes:\n");
    }
    for add_on in &migration.add_ons {
        let _ = writeln!(text, "  {:<18} {}: {}", add_on.fit.text(), add_on.workload, add_on.message());
    }
    if let Some(capacity) = &migration.capacity {
        let _ = writeln!(text, "Capacity: {}", capacity.description());
    }
    text
}

/// The steps, of which a blank line precedes the first.
fn numbered(steps: &[Step]) -> String {
    let step = |(index, step): (usize, &Step)| {
        let blank = if index == 0 { "\n" } else { "" };
        format!("{blank}{}. {}", index + 1, escaped_lines(&step.to_string()))
    };
    steps.iter().enumerate().map(step).collect()
}

fn as_json(pool: &str, target: &MigrationTarget, migration: &Migration) -> Value {
    let workload = |WorkloadMigration { workload, pods, outcome, message }: &WorkloadMigration| {
        let WorkloadName { kind, namespace, name } = workload.as_ref();
        json!({
            "kind": kind, "namespace": namespace, "name": name, "pods": pods, "outcome": outcome, "message": message,
        })
    };
    let workloads: Vec<Value> = migration.workloads.iter().map(workload).collect();
    let room = |capacity: PoolCapacity| json!({ "enough": capacity.is_enough(), "free": capacity.free, "comes": capacity.required });
    json!({ "pool": pool, "to": title(target), "workloads": workloads, "addOns": migration.add_ons, "room": migration.capacity.map(room) })
}

/// How many add-ons do not fit; `None` if there are none.
pub(super) fn do_not_fit(add_ons: &[AddOnFit]) -> Option<String> {
    let count = add_ons.iter().filter(|one| one.fit == Fit::DoesNotFit).count();
    let fit = if count == 1 { "does" } else { "do" };
    (count > 0).then(|| format!("{} {fit} not fit", counted(count, "add-on")))
}

/// What prevents the migration, in one line; `None` if nothing.
fn summary(migration: &Migration) -> Option<String> {
    let count = |wanted| migration.workloads.iter().filter(|one| one.outcome == wanted).count();
    let (unknown, runs) = (count(MigrationOutcome::Unknown), count(MigrationOutcome::Runs));
    let blocked = migration.workloads.len() - unknown - runs;
    let lacks_capacity = migration.capacity.is_some_and(|capacity| !capacity.is_enough());
    let parts = [
        (blocked > 0).then(|| format!("{} would not run", counted(blocked, "workload"))),
        (unknown > 0).then(|| format!("{} with unknown outcome", counted(unknown, "workload"))),
        do_not_fit(&migration.add_ons),
        lacks_capacity.then(|| "not enough capacity".to_owned()),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

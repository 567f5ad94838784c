//! `winpool migrate`: what becomes of a pool's workloads on another Windows, or in another pool. Nothing is written.

use std::{collections::HashMap, fmt::Write as _};

use serde_json::{Value, json};

use super::{
    Failure, connect, input,
    output::{self, ReportFormat},
    registry,
};
use crate::{
    api::names::DEFAULT_NAMESPACE,
    cluster,
    domain::{
        conditions::counted,
        pool::Snapshot,
        workload::migrate::{Migration, Move, Outcome, Target, World},
    },
    facts::{OsVersion, builds},
};

/// What was typed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The exit status is 0 if every workload would run, and 1 if one would not or nobody knows, or if the \
                        other pool has no room."
)]
pub(super) struct Args {
    /// The pool whose workloads are to move
    #[arg(value_name = "POOL")]
    pool: String,
    /// The Windows version that the pool's nodes are to get, such as ltsc2025 or 10.0.26100, or the name of the pool that
    /// is to take the workloads
    #[arg(long, value_name = "VERSION|POOL")]
    to: String,
    /// The operator's namespace, where its ConfigMaps are
    #[arg(long, env = "WINPOOL_NAMESPACE", value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// How to print what was found
    #[arg(short, long, value_enum, default_value_t)]
    output: ReportFormat,
    /// Ask the registries of the images what these are for, anonymously. Without it only their names tell
    #[arg(long)]
    registry: bool,
    #[command(flatten)]
    registries: registry::Args,
}

/// What it means.
pub(super) struct Settings {
    pool: String,
    to: String,
    namespace: String,
    format: ReportFormat,
    registry: Option<registry::Args>,
}

impl TryFrom<Args> for Settings {
    type Error = Failure;

    fn try_from(args: Args) -> Result<Self, Failure> {
        let namespace = input::namespace(args.namespace)?;
        let registry = args.registry.then_some(args.registries);
        Ok(Self { pool: args.pool, to: args.to, namespace, format: args.output, registry })
    }
}

/// Prints what would become of the workloads; it is a problem if any would not run.
pub(super) fn run(settings: Settings) -> Result<(), Failure> {
    let Settings { pool, to, namespace, format, registry } = settings;
    let runtime = connect::runtime()?;
    let (snapshot, workloads) = runtime.block_on(async {
        let client = connect::client().await?;
        let cluster = |error: cluster::GatherError| Failure::Cluster(error.to_string());
        let snapshot = cluster::gather(&client, &namespace).await.map_err(cluster)?;
        let workloads = cluster::gather_workloads(&client).await.map_err(cluster)?;
        Ok::<_, Failure>((snapshot, workloads))
    })?;
    let target = target(&snapshot, &pool, &to)?;
    let world = World { snapshot: &snapshot, pods: workloads.pods, controllers: workloads.controllers };
    let registry = registry.map(registry::Args::registry).transpose()?;
    let answers = registry.map_or_else(HashMap::new, |registry| {
        let pulls = match &target {
            Target::Version { .. } => &pool,
            Target::Pool(other) => other,
        };
        runtime
            .block_on(registry::ask(&registry, world.images(&pool), |image| snapshot.mirrors(pulls, image.registry())))
    });
    let migration = world.migrate(&pool, &target, &answers).ok_or_else(|| {
        Failure::Problems(format!(
            "WindowsNodePool {pool}{} has mistakes in its spec, or is being deleted: kubectl describe wnp",
            if matches!(target, Target::Pool(_)) { format!(" or {to}") } else { String::new() }
        ))
    })?;
    output::print(&match format {
        ReportFormat::Text => text(&pool, &target, &migration),
        ReportFormat::Json => format!("{:#}\n", as_json(&pool, &target, &migration)),
    })?;
    verdict(&migration).map_or(Ok(()), |words| Err(Failure::Problems(words)))
}

/// What `--to` names.
fn target(snapshot: &Snapshot, pool: &str, to: &str) -> Result<Target, Failure> {
    let known = || snapshot.pools.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    if !snapshot.pools.contains_key(pool) {
        return Err(Failure::Problems(format!("there is no WindowsNodePool {pool}; there are: {}", known())));
    }
    if to == pool {
        return Err(Failure::Usage(format!("--to: {to} is the pool itself: name another, or a Windows version")));
    }
    if snapshot.pools.contains_key(to) {
        return Ok(Target::Pool(to.to_owned()));
    }
    let build = builds::named(to).or_else(|| to.parse::<OsVersion>().ok().map(|version| version.build));
    build.map(|build| Target::Version { name: to.to_owned(), build }).ok_or_else(|| {
        let versions = builds::names().collect::<Vec<_>>().join(", ");
        Failure::Usage(format!(
            "--to: {to:?} is neither a pool ({}) nor a Windows version: {versions}, or 10.0.NNNNN",
            known()
        ))
    })
}

fn title(target: &Target) -> String {
    match target {
        Target::Version { name, build } if *name == build.to_string() => name.clone(),
        Target::Version { name, build } => format!("{name} ({build})"),
        Target::Pool(pool) => format!("pool {pool}"),
    }
}

/// The word for an outcome, and its story.
fn told(outcome: &Outcome) -> (&'static str, &str) {
    match outcome {
        Outcome::NoImage(story) => ("has no image for it", story),
        Outcome::Pinned(story) => ("is kept from it", story),
        Outcome::WouldNotFollow(story) => ("would not follow", story),
        Outcome::Unknown(story) => ("unknown", story),
        Outcome::Runs => ("runs", ""),
    }
}

fn text(pool: &str, target: &Target, migration: &Migration) -> String {
    let pods: usize = migration.moves.iter().map(|one| one.pods).sum();
    let mut text = format!(
        "Pool {pool} to {}: {}, {}\n",
        title(target),
        counted(migration.moves.len(), "workload"),
        counted(pods, "pod")
    );
    for Move { workload, pods, outcome } in &migration.moves {
        let (word, story) = told(outcome);
        let story = if story.is_empty() { String::new() } else { format!(": {story}") };
        let _ = writeln!(text, "  {word:<20} {workload} ({}){story}", counted(*pods, "pod"));
    }
    if let Some(room) = &migration.room {
        let _ = writeln!(text, "Room: {}", room.words());
    }
    text
}

fn as_json(pool: &str, target: &Target, migration: &Migration) -> Value {
    let workloads: Vec<Value> = migration
        .moves
        .iter()
        .map(|Move { workload, pods, outcome }| {
            let (_, story) = told(outcome);
            json!({
                "kind": workload.kind,
                "namespace": workload.namespace,
                "name": workload.name,
                "pods": pods,
                "outcome": code(outcome),
                "message": story,
            })
        })
        .collect();
    let room = migration.room.map(|room| {
        json!({
            "enough": room.is_enough(),
            "free": { "memory": room.free.0, "pods": room.free.1 },
            "comes": { "memory": room.comes.0, "pods": room.comes.1 },
        })
    });
    json!({ "pool": pool, "to": title(target), "workloads": workloads, "room": room })
}

/// The stable word of an outcome, for programs.
fn code(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::NoImage(_) => "NoImage",
        Outcome::Pinned(_) => "Pinned",
        Outcome::WouldNotFollow(_) => "WouldNotFollow",
        Outcome::Unknown(_) => "Unknown",
        Outcome::Runs => "Runs",
    }
}

/// What is in the way, in one line; `None` if nothing.
fn verdict(migration: &Migration) -> Option<String> {
    let count = |wanted: fn(&Outcome) -> bool| migration.moves.iter().filter(|one| wanted(&one.outcome)).count();
    let unknown = count(|outcome| matches!(outcome, Outcome::Unknown(_)));
    let blocked = count(|outcome| !matches!(outcome, Outcome::Unknown(_) | Outcome::Runs));
    let mut words = Vec::new();
    if blocked > 0 {
        words.push(format!("{} would not run there", counted(blocked, "workload")));
    }
    if unknown > 0 {
        words.push(format!("of {} nobody knows", counted(unknown, "workload")));
    }
    if migration.room.is_some_and(|room| !room.is_enough()) {
        words.push("there is not enough room".to_owned());
    }
    (!words.is_empty()).then(|| words.join("; "))
}

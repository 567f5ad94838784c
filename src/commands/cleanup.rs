//! `winpool cleanup`: takes off by hand what pools have added, with the operator gone.

use std::{collections::BTreeSet, sync::Arc};

use kube::Client;

use super::{Failure, connect, input};
use crate::{
    admin::Metrics,
    api::names::{DEFAULT_NAMESPACE, OWNERSHIP_SECRET, label},
    cluster::{self, GatherError, Writer},
    domain::{
        conditions::{counted, some_of},
        node::WindowsNode,
        operation::{AfterFailure, Done, Operation, Outcome},
        ownership::{Origin, Ownership},
        pool::{
            Snapshot,
            plan::{Phase, Plan, clean_up},
        },
    },
};

/// How many times the cluster is looked at anew because somebody else wrote in between.
const ROUNDS: usize = 10;
/// How many writes are made between two words of progress.
const CHUNK: usize = 50;

/// What was typed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "With --dry-run the exit status is 1 if there is something to remove. What is removed is what a record on a \
                        node calls added, if the record was signed with the key in Secret winpool-ownership and the status of \
                        its WindowsNodePool has it too. Where Secret or pool are gone, the claims of the records are listed, and \
                        removed with --trust-records only: a kubelet can write the record of its own node."
)]
pub(super) struct Args {
    /// Only what this pool has added; may be repeated [default: all pools]
    #[arg(long, value_name = "NAME")]
    pool: Vec<String>,
    /// Say what would be taken off, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Go on though an operator runs, which would put everything back
    #[arg(long)]
    force: bool,
    /// Remove what the records on nodes claim, though nothing proves that the operator wrote them
    #[arg(long)]
    trust_records: bool,
    /// The operator's namespace, where its ConfigMaps are
    #[arg(long, env = "WINPOOL_NAMESPACE", value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
}

/// What it means.
pub(super) struct Settings {
    /// None for all.
    pools: BTreeSet<String>,
    dry_run: bool,
    force: bool,
    trust_records: bool,
    namespace: String,
}

impl TryFrom<Args> for Settings {
    type Error = Failure;

    fn try_from(args: Args) -> Result<Self, Failure> {
        let Args { pool, dry_run, force, trust_records, namespace } = args;
        let namespace = input::namespace(namespace)?;
        Ok(Self { pools: pool.into_iter().collect(), dry_run, force, trust_records, namespace })
    }
}

/// Takes off what the pools have added, or says what that would be.
pub(super) fn run(settings: Settings) -> Result<(), Failure> {
    connect::runtime()?.block_on(async {
        let client = connect::client().await?;
        let ownership = ownership(&client, &settings).await;
        let snapshot = cluster::gather(&client, &settings.namespace).await.map_err(unreachable)?;
        let snapshot = Snapshot { ownership, ..snapshot };
        let pools = chosen(&snapshot, &settings.pools)?;
        let claims = unproven_claims(&snapshot, &settings.pools);
        claims.iter().for_each(|claim| println!("not proven: {claim}"));
        if pools.is_empty() {
            input::note("there is no WindowsNodePool, so nothing proves what was added");
            return refuse_claims(&claims);
        }
        let plans = clean_up(&snapshot, &pools);
        if settings.dry_run {
            return dry_run(&plans).and(refuse_claims(&claims));
        }
        if !settings.force && cluster::operator_runs(&client, &settings.namespace).await.map_err(unreachable)? {
            refuse_with_operator(&snapshot, &pools, &settings.namespace)?;
        }
        take_off(&client, snapshot, &pools).await?;
        refuse_claims(&claims)
    })
}

/// How the records on nodes are verified. Without a key none is believed.
async fn ownership(client: &Client, settings: &Settings) -> Arc<Ownership> {
    if settings.trust_records {
        return Arc::new(Ownership::Trusting);
    }
    Arc::new(match cluster::read_key(client, &settings.namespace).await {
        Ok(key) => Ownership::signed(key),
        Err(error) => {
            input::note(&format!("no record on a node can be verified: {error}"));
            Ownership::Distrusting
        }
    })
}

/// What records claim that nothing proves: the signature is not valid, or the pool is gone.
fn unproven_claims(snapshot: &Snapshot, named: &BTreeSet<String>) -> Vec<String> {
    let believed = |node: &WindowsNode| {
        let pool = snapshot.ownership.pool_of(node);
        pool.is_some_and(|pool| *snapshot.ownership == Ownership::Trusting || snapshot.pools.contains_key(pool))
    };
    let claim = |node: &WindowsNode| {
        let record = snapshot.ownership.evidence(node).record()?;
        let taints = record.taints.iter().filter(|(_, origin)| **origin != Origin::Found);
        let labels = record.labels.iter().filter(|(_, origin)| **origin != Origin::Found);
        let claims: Vec<_> = taints
            .map(|(key, _)| format!("taint {key}"))
            .chain(labels.map(|(key, _)| format!("label {key}")))
            .chain([format!("label {}", label::POOL)])
            .collect();
        let asked_for = named.is_empty() || named.contains(&record.pool);
        asked_for.then(|| format!("Node {} (pool {}): {}", node.name, record.pool, claims.join(", ")))
    };
    snapshot.nodes.values().filter(|node| !believed(node)).filter_map(|node| claim(node)).collect()
}

fn refuse_claims(claims: &[String]) -> Result<(), Failure> {
    if claims.is_empty() {
        return Ok(());
    }
    Err(Failure::Problems(format!(
        "{} on which nothing proves what winpool added: restore Secret {OWNERSHIP_SECRET} and the pools, or look at the claims \
         above and remove them with --trust-records",
        counted(claims.len(), "node")
    )))
}

fn unreachable(error: GatherError) -> Failure {
    Failure::Cluster(error.to_string())
}

/// The pools that were named, or all.
fn chosen(snapshot: &Snapshot, named: &BTreeSet<String>) -> Result<BTreeSet<String>, Failure> {
    // Records that are trusted may be of pools that are gone.
    let of_records = snapshot.nodes.values().filter_map(|node| snapshot.ownership.pool_of(node));
    let of_records = of_records.filter(|_| *snapshot.ownership == Ownership::Trusting).map(str::to_owned);
    let known: BTreeSet<String> = snapshot.pools.keys().cloned().chain(of_records).collect();
    if named.is_empty() {
        return Ok(known);
    }
    let unknown: Vec<_> = named.iter().filter(|name| !known.contains(*name)).collect();
    if !unknown.is_empty() {
        let names: Vec<_> = unknown.iter().map(|name| name.as_str()).collect();
        let text = format!("--pool: there is no WindowsNodePool {}: see kubectl get wnp", some_of(names));
        return Err(Failure::Usage(text));
    }
    Ok(named.clone())
}

/// An operator would put back at once what is taken off a pool that it acts on.
fn refuse_with_operator(snapshot: &Snapshot, pools: &BTreeSet<String>, namespace: &str) -> Result<(), Failure> {
    let acted_on = |name: &&String| snapshot.pools.get(*name).is_some_and(|pool| pool.enforces() && !pool.deleting);
    let names: Vec<_> = pools.iter().filter(acted_on).map(String::as_str).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(Failure::Problems(format!(
        "an operator runs in namespace {namespace} and would put everything back for {}: stop it with \
         kubectl -n {namespace} scale deployment winpool --replicas=0, or set spec.paused: true on the pools, or go on \
         with --force",
        some_of(names)
    )))
}

/// Says what would be done.
fn dry_run(plans: &[Plan]) -> Result<(), Failure> {
    let mut count = 0;
    for plan in plans {
        for operation in plan.steps.iter().flatten() {
            println!("pool {}: {}", plan.pool.name, in_words(operation));
            count += 1;
        }
    }
    let waiting = handed_over(plans);
    if count == 0 && waiting.is_empty() {
        println!("nothing is there to take off");
        return Ok(());
    }
    waiting.iter().for_each(|text| input::note(text));
    Err(Failure::Problems(format!("{count} writes would be made; nothing is written with --dry-run")))
}

/// Runs the plans, looking at the cluster anew for as long as others write in between.
async fn take_off(client: &Client, mut snapshot: Snapshot, pools: &BTreeSet<String>) -> Result<(), Failure> {
    let namespace = snapshot.namespace.clone();
    let staying: Vec<String> =
        pools.iter().filter(|name| snapshot.pools.get(*name).is_some_and(|pool| !pool.deleting)).cloned().collect();
    let writer = Writer::new(client.clone(), namespace.clone(), Metrics::default());
    for _ in 0..ROUNDS {
        let plans = clean_up(&snapshot, pools);
        let mut raced = false;
        for plan in &plans {
            raced |= run_plan(&writer, plan).await? == Ended::Raced;
        }
        if !raced {
            return finish(&plans, &staying);
        }
        input::note("somebody else wrote in between: looking again");
        let ownership = snapshot.ownership;
        snapshot = Snapshot { ownership, ..cluster::gather(client, &namespace).await.map_err(unreachable)? };
    }
    Err(Failure::Cluster(format!("others wrote in between {ROUNDS} times: stop them, and run cleanup again")))
}

#[derive(PartialEq, Eq)]
enum Ended {
    Done,
    Raced,
}

async fn run_plan(writer: &Writer, plan: &Plan) -> Result<Ended, Failure> {
    for step in &plan.steps {
        let mut raced = false;
        for chunk in step.chunks(CHUNK) {
            let done = writer.run(&[chunk.to_vec()], AfterFailure::Stop).await;
            raced |= tell(plan, &done)?;
        }
        if raced {
            return Ok(Ended::Raced);
        }
    }
    Ok(Ended::Done)
}

/// Says what became of some writes; whether somebody wrote in between.
fn tell(plan: &Plan, done: &Done) -> Result<bool, Failure> {
    let mut failures = Vec::new();
    for (operation, outcome) in &done.results {
        match outcome {
            Outcome::Done => println!("pool {}: {}", plan.pool.name, in_words(operation)),
            Outcome::Gone => println!("pool {}: {} (already gone)", plan.pool.name, in_words(operation)),
            Outcome::Conflict => {}
            Outcome::Partly { .. } => {}
            Outcome::Refused(text) | Outcome::Failed(text) => {
                failures.push(format!("{}: {text}", in_words(operation)));
            }
        }
    }
    if !failures.is_empty() {
        let text = format!("not done: {}: remove the cause, and run cleanup again", some_of(failures));
        return Err(Failure::Cluster(text));
    }
    Ok(done.results.iter().any(|(_, outcome)| *outcome == Outcome::Conflict))
}

fn in_words(operation: &Operation) -> String {
    let book_keeping = || match operation {
        Operation::RemoveFinalizer { pool, .. } => format!("WindowsNodePool {pool}: remove the finalizer"),
        other => format!("{} {}", other.kind(), other.object()),
    };
    operation.words().unwrap_or_else(book_keeping)
}

/// The last word: what is left, and what to do about it.
fn finish(plans: &[Plan], staying: &[String]) -> Result<(), Failure> {
    let waiting = handed_over(plans);
    if !waiting.is_empty() {
        return Err(Failure::Problems(waiting.join("\n")));
    }
    println!("done");
    if !staying.is_empty() {
        let names = some_of(staying);
        input::note(&format!(
            "an operator that starts again puts everything back, unless these are deleted before: {names}"
        ));
    }
    Ok(())
}

/// Nodes that are left as they are, because another pool matches them too.
fn handed_over(plans: &[Plan]) -> Vec<String> {
    let waiting = plans.iter().filter_map(|plan| match &plan.phase {
        Phase::CleaningUp { handed_over, .. } if !handed_over.is_empty() => Some((&plan.pool.name, handed_over)),
        _ => None,
    });
    waiting
        .map(|(pool, nodes)| {
            format!(
                "pool {pool}: {} match another pool too, which takes them over as soon as an operator runs; until then they \
                 and the pool's RuntimeClasses and ConfigMaps stay as they are. To take everything off now, clean up all \
                 pools",
                some_of(nodes)
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::core::DynamicObject;
    use serde_json::json;

    use super::*;
    use crate::domain::pool::Pool;

    fn world(pools: &[(&str, serde_json::Value)]) -> Snapshot {
        let pool = |(name, spec): &(&str, serde_json::Value)| {
            let object = json!({"metadata": {"name": name, "resourceVersion": "1"}, "spec": spec});
            ((*name).to_owned(), Arc::new(Pool::from_object(serde_json::from_value::<DynamicObject>(object).unwrap())))
        };
        Snapshot { pools: pools.iter().map(pool).collect(), ..Snapshot::default() }
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn all_pools_are_meant_unless_some_are_named() {
        let world = world(&[("web", json!({})), ("batch", json!({}))]);
        assert_eq!(chosen(&world, &names(&[])), Ok(names(&["batch", "web"])));
        assert_eq!(chosen(&world, &names(&["web"])), Ok(names(&["web"])));
        let unknown = "--pool: there is no WindowsNodePool wbe: see kubectl get wnp";
        assert_eq!(chosen(&world, &names(&["wbe", "web"])), Err(Failure::Usage(unknown.to_owned())));
    }

    #[test]
    fn an_operator_stands_in_the_way_of_the_pools_that_it_acts_on() {
        let spec = |field: &str, value: serde_json::Value| {
            let mut spec = json!({"windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"a": "b"}}});
            spec[field] = value;
            spec
        };
        let world = world(&[
            ("acted-on", spec("mode", json!("Enforce"))),
            ("observed", spec("mode", json!("Observe"))),
            ("paused", spec("paused", json!(true))),
        ]);
        let refused = |pools: &[&str]| refuse_with_operator(&world, &names(pools), "ns").is_err();
        assert!(refused(&["acted-on", "paused"]));
        assert!(!refused(&["observed", "paused"]));
    }

    #[test]
    fn a_clean_up_that_finds_nothing_takes_nothing_off() {
        let world = world(&[("web", json!({"windowsVersion": "ltsc2022", "fallback": true}))]);
        let plans = clean_up(&world, &names(&["web"]));
        assert_eq!(plans.iter().flat_map(|plan| &plan.steps).count(), 0, "not even a finalizer that is not there");
        assert_eq!(dry_run(&plans), Ok(()));
    }
}

//! `winpool cleanup`: removes what winpool added to the cluster, after the operator was uninstalled.

use std::{
    collections::BTreeSet,
    io::{self, IsTerminal as _},
    sync::Arc,
};

use kube::Client;
use winpool_api::names::{DEFAULT_NAMESPACE, OWNERSHIP_SECRET, label};
use winpool_core::record::Origin;
use winpool_core::{
    node::WindowsNode,
    text::{agree, counted, some_messages, some_of},
};
use winpool_operator::{
    admin::Metrics,
    cluster::{self, UnwatchedNodes, Writer, WrittenVersion},
};
use winpool_rules::{
    operation::{Action, AfterFailure, Done, Outcome, Write},
    ownership::Ownership,
    pool::{
        Snapshot,
        classes::{self, Left},
        plan::{Phase, Plan, clean_up},
    },
};

use super::{CommandError, connect, input, output, pools::check_names, progress::Progress, workloads};

/// How many times the cleanup is attempted while other clients change the same objects.
const ATTEMPTS: usize = 10;
/// How many writes are made before their progress is printed.
const BATCH: usize = 50;
/// The refusal without a terminal to ask on.
const NO_TERMINAL: &str = "cleanup asks before it removes anything, and standard input is not a terminal. Use --dry-run to \
                           see what it would remove, and --yes to remove it";

/// What is printed if there is nothing to do.
const NOTHING: &str = "nothing to remove\n";
/// What follows if the workloads cannot be read.
const KEPT_LABELS: &str = "the labels of runs.winpool.dev/ are not removed, because pods may select them";

#[derive(Debug, clap::Args)]
#[command(
    after_help = "With --dry-run the exit status is 1 if there is something to remove. Labels and taints are removed from a \
                        node if its ownership record lists them as added, the record is signed with the key in Secret \
                        winpool-ownership, and the status of the WindowsNodePool lists them too, if the pool still exists. \
                        Without the Secret, the entries of the records are only listed: a kubelet can write the record of \
                        its own node. Use --trust-records to remove them. What pools left that were deleted with Retain is \
                        removed too."
)]
pub(super) struct Args {
    /// Clean up this pool only; may be repeated [default: all pools]
    #[arg(long, value_name = "POOL")]
    pool: Vec<String>,
    /// Print what would be removed, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Clean up even if an operator is running, which would apply everything again
    #[arg(long)]
    force: bool,
    /// Remove what the ownership records on nodes list, even if they cannot be verified
    #[arg(long)]
    trust_records: bool,
    /// The namespace of the operator
    #[arg(long, env = "WINPOOL_NAMESPACE", value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// Do not ask before removing anything
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    cluster: connect::Args,
}

/// Removes what the pools added, or prints what would be removed.
pub(super) fn run(args: Args) -> Result<(), CommandError> {
    let Args { pool, dry_run, force, trust_records, namespace, yes, cluster } = args;
    let namespace = input::namespace(namespace)?;
    let asks = !yes && !dry_run;
    if asks && !io::stdin().is_terminal() {
        return Err(CommandError::Usage(NO_TERMINAL.to_owned()));
    }
    let requested = pool.into_iter().collect();
    connect::runtime()?.block_on(async {
        let client = cluster.client().await?;
        let ownership = ownership(&client, &namespace, trust_records).await;
        let progress = Progress::start("reading the cluster", "request");
        let reader = progress.counting(client.clone());
        let snapshot = read(&reader, &namespace, ownership).await?;
        drop(progress);
        let pools = selected_pools(&snapshot, &requested)?;
        let unverified = unverified_records(&snapshot, &requested);
        unverified.iter().try_for_each(|record| output::print(&format!("not verified: {record}\n")))?;
        let plans = clean_up(&snapshot, &pools);
        left_classes(&snapshot, &pools, &plans).iter().for_each(|text| input::note(text));
        if pools.is_empty() {
            output::print(NOTHING)?;
            return fail_on_unverified(unverified.len());
        }
        if dry_run {
            return fail_on_writes(&plans, print_plans(&plans)?).and(fail_on_unverified(unverified.len()));
        }
        if !force && cluster::operator_pods(&client, &namespace).await?.is_some_and(|(ready, _)| ready > 0) {
            fail_on_enforced_pools(&snapshot, &pools, &namespace)?;
        }
        if asks {
            let writes = print_plans(&plans)?;
            if writes > 0 {
                confirm(writes, io::stdin().lock(), io::stderr())?;
            }
        }
        remove(&client, snapshot, &pools).await?;
        fail_on_unverified(unverified.len())
    })
}

/// The cluster, with the nodes that have lost the label of Windows nodes.
async fn read(client: &Client, namespace: &str, ownership: Arc<Ownership>) -> Result<Snapshot, CommandError> {
    let (snapshot, missing) = cluster::list_snapshot(client, namespace).await?;
    missing.map_or(Ok(()), Err)?;
    let unwatched = UnwatchedNodes::new(client.clone()).recorded().await;
    let unwatched = unwatched.map_err(|error| CommandError::Cluster(format!("cannot list all nodes: {error}")))?;
    let snapshot = Snapshot { ownership, unwatched: Some(unwatched), ..snapshot };
    Ok(workloads::added(client, snapshot, KEPT_LABELS).await)
}

/// How the ownership records on nodes are verified. Without a key none is valid.
async fn ownership(client: &Client, namespace: &str, trust_records: bool) -> Arc<Ownership> {
    if trust_records {
        return Arc::new(Ownership::TrustAll);
    }
    Arc::new(match cluster::read_key(client, namespace).await {
        Ok(key) => Ownership::signed(key),
        Err(error) => {
            input::note(&format!("no ownership record can be verified: {error}"));
            Ownership::TrustNone
        }
    })
}

/// The entries of records without a valid signature, as text.
fn unverified_records(snapshot: &Snapshot, requested: &BTreeSet<String>) -> Vec<String> {
    let is_verified = |node: &WindowsNode| snapshot.ownership.pool_of(node).is_some();
    let missing = match *snapshot.ownership {
        Ownership::Signed { .. } => {
            "the record does not have a signature of the key for this node: the Secret is another one, or the record was changed"
        }
        Ownership::TrustAll | Ownership::TrustNone => "the key is missing",
    };
    let description = |node: &WindowsNode| {
        let record = snapshot.ownership.record_state(node).record()?;
        let taints = record.taints.iter().filter(|(_, origin)| **origin != Origin::Found);
        let labels = record.labels.iter().filter(|(_, origin)| **origin != Origin::Found);
        let labels = labels.map(|(key, _)| key.as_str()).chain([label::POOL]).map(|key| format!("label {key}"));
        let entries: Vec<_> = taints.map(|(key, _)| format!("taint {key}")).chain(labels).collect();
        let is_requested = requested.is_empty() || requested.contains(&record.pool);
        is_requested.then(|| format!("Node {} (pool {}): {}: {missing}", node.name, record.pool, entries.join(", ")))
    };
    all_nodes(snapshot).filter(|node| !is_verified(node)).filter_map(description).collect()
}

/// The nodes of the snapshot, and those that no watch selects.
fn all_nodes(snapshot: &Snapshot) -> impl Iterator<Item = &WindowsNode> {
    snapshot.nodes.values().map(AsRef::as_ref).chain(snapshot.unwatched.iter().flatten())
}

fn fail_on_unverified(records: usize) -> Result<(), CommandError> {
    if records == 0 {
        return Ok(());
    }
    Err(CommandError::Problems(format!(
        "{} could not be verified. Restore Secret {OWNERSHIP_SECRET}, or review the entries above and remove them with \
         --trust-records",
        counted(records, "ownership record")
    )))
}

/// The requested pools, or all: also deleted pools, whose names are in records of nodes, RuntimeClasses and ConfigMaps.
fn selected_pools(snapshot: &Snapshot, requested: &BTreeSet<String>) -> Result<BTreeSet<String>, CommandError> {
    let of_records = all_nodes(snapshot).filter_map(|node| snapshot.ownership.pool_of(node));
    let managed = snapshot.runtime_classes.values().filter(|class| class.is_managed());
    let of_classes = managed.filter_map(|class| class.label(label::POOL));
    let of_config_maps = snapshot.config_maps.values().filter_map(|map| map.pool.as_deref());
    let of_objects = of_records.chain(of_classes).chain(of_config_maps);
    let known: BTreeSet<String> = snapshot.pools.names().chain(of_objects).map(str::to_owned).collect();
    if requested.is_empty() {
        return Ok(known);
    }
    check_names("--pool: ", requested.iter().map(String::as_str), known.iter().map(String::as_str))?;
    Ok(requested.clone())
}

/// A running operator would apply pools in mode Enforce again.
fn fail_on_enforced_pools(snapshot: &Snapshot, pools: &BTreeSet<String>, namespace: &str) -> Result<(), CommandError> {
    let is_enforced = |name: &&String| snapshot.pools.get(name).is_some_and(|pool| pool.enforces() && !pool.deleting);
    let names: Vec<_> = pools.iter().filter(is_enforced).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(CommandError::Problems(format!(
        "an operator is running in namespace {namespace} and would apply these pools again: {}. Stop it with \
         kubectl -n {namespace} scale deployment winpool --replicas=0, set spec.mode: Observe in the pools, or use --force",
        some_of(names)
    )))
}

/// Prints what would be done. Ok: the number of writes.
fn print_plans(plans: &[Plan]) -> Result<usize, CommandError> {
    let lines = |plan: &Plan| {
        let line = |write| format!("pool {}: {}\n", plan.pool.name, describe(write));
        plan.steps.iter().flatten().map(line).collect::<Vec<_>>()
    };
    let (lines, handed_over) = (plans.iter().flat_map(lines).collect::<Vec<_>>(), handed_over(plans));
    let nothing = lines.is_empty() && handed_over.is_empty();
    let text = lines.concat();
    output::print(if nothing { NOTHING } else { &text })?;
    handed_over.iter().for_each(|text| input::note(text));
    Ok(lines.len())
}

/// A message for each RuntimeClass of winpool that stays.
fn left_classes(snapshot: &Snapshot, pools: &BTreeSet<String>, plans: &[Plan]) -> Vec<String> {
    let writes: Vec<&Write> = plans.iter().flat_map(|plan| plan.steps.iter().flatten()).collect();
    let why = |left: Left| match left {
        Left::NamedBy(users) => {
            let (pools, name) = (agree(users.len(), "pool", "pools"), agree(users.len(), "names", "name"));
            format!("{pools} {} {name} it", some_of(users))
        }
        Left::Of(pool) if pools.contains(pool) => format!("the nodes of its pool {pool} are not all released"),
        Left::Of(pool) => format!("it was created for pool {pool}. Add --pool {pool} to delete it"),
        Left::OfNoPool => format!("it has no label {}. Delete it if no pod uses it", label::POOL),
    };
    let left = classes::left(snapshot, pools, &writes).into_iter();
    left.map(|(name, reason)| format!("RuntimeClass {name} stays: {}", why(reason))).collect()
}

fn fail_on_writes(plans: &[Plan], writes: usize) -> Result<(), CommandError> {
    if writes == 0 && handed_over(plans).is_empty() {
        return Ok(());
    }
    Err(CommandError::Problems(format!("{} would be made without --dry-run", counted(writes, "write"))))
}

/// Asks whether to make the listed writes. Only `y` and `yes` continue.
fn confirm(writes: usize, mut input: impl io::BufRead, mut out: impl io::Write) -> Result<(), CommandError> {
    let failure = |error: io::Error| CommandError::Usage(format!("cannot ask: {error}. Use --yes"));
    write!(out, "Make {}? [y/N] ", counted(writes, "write")).and_then(|()| out.flush()).map_err(failure)?;
    let mut answer = String::new();
    input.read_line(&mut answer).map_err(failure)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(CommandError::Problems("nothing is removed".to_owned())),
    }
}

/// Runs the plans, and plans again while other clients change the same objects.
async fn remove(client: &Client, mut snapshot: Snapshot, pools: &BTreeSet<String>) -> Result<(), CommandError> {
    let namespace = snapshot.namespace.clone();
    let is_left = |name: &&String| snapshot.pools.get(name).is_some_and(|pool| !pool.deleting);
    let remaining: Vec<String> = pools.iter().filter(is_left).cloned().collect();
    let writer = Writer::new(client.clone(), namespace.clone(), Metrics::default());
    for _ in 0..ATTEMPTS {
        let plans = clean_up(&snapshot, pools);
        let (mut has_conflict, mut written) = (false, Vec::new());
        for plan in &plans {
            has_conflict |= run_plan(&writer, plan, &mut written).await?;
        }
        if !has_conflict {
            return finish(&plans, &remaining);
        }
        input::note("other clients changed the same objects, retrying");
        snapshot = read(client, &namespace, snapshot.ownership).await?;
    }
    Err(CommandError::Cluster(format!(
        "other clients changed the same objects in {ATTEMPTS} attempts. Stop these clients, and run cleanup again"
    )))
}

/// Runs a plan up to the first step with a conflict. Returns whether there was one.
async fn run_plan(writer: &Writer, plan: &Plan, written: &mut Vec<WrittenVersion>) -> Result<bool, CommandError> {
    for step in plan.steps.iter() {
        let mut has_conflict = false;
        for batch in step.chunks(BATCH) {
            let done = writer.run([batch], AfterFailure::Stop, written).await;
            has_conflict |= print_outcomes(plan, &done)?;
        }
        if has_conflict {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Prints the outcomes of writes. Returns whether there was a conflict.
fn print_outcomes(plan: &Plan, done: &Done) -> Result<bool, CommandError> {
    let mut failures = Vec::new();
    for (operation, outcome) in &done.results {
        match outcome {
            Outcome::Done => output::print(&format!("pool {}: {}\n", plan.pool.name, describe(operation)))?,
            Outcome::NotFound => {
                output::print(&format!("pool {}: {} (already deleted)\n", plan.pool.name, describe(operation)))?;
            }
            Outcome::Conflict | Outcome::Waits(_) | Outcome::Delayed => {}
            Outcome::Denied(_, error) | Outcome::Refused(error) | Outcome::Failed(error) => {
                failures.push(format!("{}: {error}", describe(operation)));
            }
        }
    }
    if !failures.is_empty() {
        let text = format!("writes failed: {}. Correct the cause, and run cleanup again", some_messages(failures));
        return Err(CommandError::Cluster(text));
    }
    Ok(done.results.iter().any(|(_, outcome)| *outcome == Outcome::Conflict))
}

fn describe(write: &Write) -> String {
    write.summary().unwrap_or_else(|| match write.action {
        Action::RemoveFinalizer => format!("{}: remove the finalizer", write.object),
        other => format!("{} {}", other.name(), write.object.key()),
    })
}

/// Reports what was not removed, and what would be applied again.
fn finish(plans: &[Plan], remaining: &[String]) -> Result<(), CommandError> {
    let handed_over = handed_over(plans);
    if !handed_over.is_empty() {
        return Err(CommandError::Problems(handed_over.join("\n")));
    }
    output::print("done\n")?;
    if !remaining.is_empty() {
        let names = some_of(remaining);
        input::note(&format!(
            "if an operator starts again, it applies these pools again unless they are deleted: {names}"
        ));
    }
    Ok(())
}

/// A message for each pool with nodes that another pool takes over.
fn handed_over(plans: &[Plan]) -> Vec<String> {
    let message = |plan: &Plan| match &plan.phase {
        Phase::CleaningUp { handed_over, .. } if !handed_over.is_empty() => Some(format!(
            "pool {}: not removed from nodes that another pool also selects: {}. That pool takes the nodes over when an \
             operator runs, and until then the RuntimeClasses and ConfigMaps of pool {} stay. Clean up all pools to remove \
             everything now",
            plan.pool.name,
            some_of(handed_over),
            plan.pool.name
        )),
        _ => None,
    };
    plans.iter().filter_map(message).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::node::v1::RuntimeClass;
    use kube::core::DynamicObject;
    use serde_json::json;
    use winpool_rules::pool::{Pool, RuntimeClassView};

    use super::*;

    fn snapshot(pools: &[(&str, serde_json::Value)]) -> Snapshot {
        let pool = |(name, spec): &(&str, serde_json::Value)| {
            let object = json!({"metadata": {"name": name, "resourceVersion": "1"}, "spec": spec});
            Pool::from_object(serde_json::from_value::<DynamicObject>(object).unwrap())
        };
        Snapshot { pools: pools.iter().map(pool).collect(), ..Snapshot::default() }
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn all_pools_are_selected_unless_some_are_requested() {
        let snapshot = snapshot(&[("web", json!({})), ("batch", json!({}))]);
        assert_eq!(selected_pools(&snapshot, &names(&[])), Ok(names(&["batch", "web"])));
        assert_eq!(selected_pools(&snapshot, &names(&["web"])), Ok(names(&["web"])));
        let unknown = "--pool: there is no WindowsNodePool wbe. Did you mean web? See kubectl get wnp";
        assert_eq!(selected_pools(&snapshot, &names(&["wbe", "web"])), Err(CommandError::Usage(unknown.to_owned())));
    }

    #[test]
    fn cleanup_fails_while_an_operator_enforces_a_selected_pool() {
        let spec = |field: &str, value: serde_json::Value| {
            let mut spec = json!({"windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"a": "b"}}});
            spec[field] = value;
            spec
        };
        let snapshot = snapshot(&[
            ("enforced", spec("mode", json!("Enforce"))),
            ("observed", spec("mode", json!("Observe"))),
            ("paused", spec("paused", json!(true))),
        ]);
        let fails = |pools: &[&str]| fail_on_enforced_pools(&snapshot, &names(pools), "ns").is_err();
        assert!(fails(&["enforced", "paused"]));
        assert!(!fails(&["observed", "paused"]));
    }

    #[test]
    fn a_cleanup_without_anything_to_remove_writes_nothing() {
        let snapshot = snapshot(&[("web", json!({"windowsVersion": "ltsc2022", "fallback": true}))]);
        let plans = clean_up(&snapshot, &names(&["web"]));
        assert!(plans.iter().all(|plan| plan.steps.is_empty()), "not even a finalizer that does not exist");
        assert_eq!(print_plans(&plans), Ok(0));
        assert_eq!(fail_on_writes(&plans, 0), Ok(()));
    }

    #[test]
    fn every_class_that_stays_is_named_with_the_reason() {
        let class = |name: &str, pool: Option<&str>| {
            let mut labels = json!({"app.kubernetes.io/managed-by": "winpool"});
            pool.into_iter().for_each(|pool| labels["winpool.dev/pool"] = json!(pool));
            let class = json!({"metadata": {"name": name, "labels": labels}, "handler": "runhcs-wcow-process"});
            RuntimeClassView::from(serde_json::from_value::<RuntimeClass>(class).unwrap())
        };
        let spec = json!({"windowsVersion": "ltsc2022", "fallback": true});
        let classes = [class("windows-ltsc2022", Some("web")), class("former", Some("batch")), class("nobody", None)];
        let snapshot = Snapshot { runtime_classes: classes.into_iter().collect(), ..snapshot(&[("web", spec)]) };
        assert_eq!(selected_pools(&snapshot, &names(&[])), Ok(names(&["batch", "web"])), "batch was deleted");
        let of_web = "RuntimeClass windows-ltsc2022 stays: pool web names it";
        let of_none = "RuntimeClass nobody stays: it has no label winpool.dev/pool. Delete it if no pod uses it";
        let of_batch = "RuntimeClass former stays: it was created for pool batch. Add --pool batch to delete it";
        for (pools, expected) in [
            (names(&[]), vec![of_none]),
            (names(&["batch"]), vec![of_none, of_web]),
            (names(&["web"]), vec![of_batch, of_none]),
        ] {
            let pools = selected_pools(&snapshot, &pools).unwrap();
            assert_eq!(left_classes(&snapshot, &pools, &clean_up(&snapshot, &pools)), expected, "{pools:?}");
        }
    }

    #[test]
    fn a_node_that_another_pool_also_selects_is_left_to_that_pool() {
        let selects =
            |label: &str| json!({"windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {label: "yes"}}});
        let node = |name: &str, heir: &str| {
            let record = json!({"pool": "web", "taints": {"os:NoSchedule": "added"}}).to_string();
            let labels = json!({"kubernetes.io/os": "windows", "winpool.dev/pool": "web", "web": "yes", "heir": heir});
            let metadata =
                json!({"name": name, "uid": name, "labels": labels, "annotations": {"winpool.dev/owned": record}});
            let taints = json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]);
            let node = json!({"metadata": metadata, "spec": {"taints": taints}});
            WindowsNode::from(serde_json::from_value::<k8s_openapi::api::core::v1::Node>(node).unwrap())
        };
        let nodes = [node("web-1", "yes"), node("web-2", "no")].into_iter().collect();
        let pools = snapshot(&[("web", selects("web")), ("heir", selects("heir"))]);
        let snapshot = Snapshot { nodes, ownership: Arc::new(Ownership::TrustAll), ..pools };
        let plans = clean_up(&snapshot, &names(&["web"]));
        let [write] = &plans[0].steps.iter().flatten().map(describe).collect::<Vec<_>>()[..] else {
            panic!("{plans:?}")
        };
        assert!(write.starts_with("Node web-2: "), "{write}");
        let Err(CommandError::Problems(message)) = finish(&plans, &[]) else { panic!("{plans:?}") };
        assert!(
            message.starts_with("pool web: not removed from nodes that another pool also selects: web-1. "),
            "{message}"
        );
        assert!(fail_on_writes(&plans, 0).is_err());
        let both = clean_up(&snapshot, &names(&["heir", "web"]));
        assert_eq!((handed_over(&both), both[1].steps.iter().flatten().count()), (vec![], 2));
    }

    #[test]
    fn only_yes_confirms_the_writes() {
        let table = [("y\n", true), ("Yes\r\n", true), ("\n", false), ("n\n", false), ("yet\n", false), ("", false)];
        for (answer, expected) in table {
            let mut out = Vec::new();
            assert_eq!(confirm(2, answer.as_bytes(), &mut out).is_ok(), expected, "{answer:?}");
            assert_eq!(String::from_utf8(out).unwrap(), "Make 2 writes? [y/N] ");
        }
    }
}

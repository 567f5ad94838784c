//! `winpool check`: whether winpool is installed and works. Read-only.

use std::{collections::BTreeSet, fmt::Write as _, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use tokio::time::{Instant, sleep};
use winpool_api::names::{DEFAULT_NAMESPACE, reason};
use winpool_core::{Objects, foreign_text::escaped, text::counted};
use winpool_operator::cluster;
use winpool_rules::{
    pool::{NodeConfigView, Pool},
    status::overview::{ObservedCluster, Overview},
};

use super::{
    CommandError, connect,
    doctor::positive,
    input,
    output::{self, BOLD, RED, ReportFormat},
    status::read::Reader,
};

/// The time between two checks of `--wait`.
const INTERVAL: Duration = Duration::from_secs(2);
/// After which time without a renewal the Lease counts as lost: three times its duration, as clocks differ.
const RENEWAL: SignedDuration = SignedDuration::from_secs(60);

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The exit status is 0 if winpool works, and 1 if something is missing. Problems of pools do not count: winpool status \
                  has them."
)]
pub(super) struct Args {
    /// Check again until winpool works, for at most this time, such as 2m
    #[arg(long, value_name = "DURATION")]
    wait: Option<String>,
    /// The namespace of the operator
    #[arg(long, env = "WINPOOL_NAMESPACE", value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    output: ReportFormat,
    #[command(flatten)]
    cluster: connect::Args,
}

/// One thing that is checked.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Check {
    name: &'static str,
    works: bool,
    message: String,
}

/// Prints a line for each check. Fails if one fails.
pub(super) fn run(args: Args) -> Result<(), CommandError> {
    let Args { wait, namespace, output: format, cluster } = args;
    let namespace = input::namespace(namespace)?;
    let wait = wait.map_or(Ok(SignedDuration::ZERO), |typed| positive("--wait", &typed))?;
    let checks = connect::runtime()?.block_on(async {
        let reader = Reader { client: cluster.client().await?, namespace, names: BTreeSet::new(), capacity: false };
        let end = Instant::now() + wait.unsigned_abs();
        loop {
            let checks = read(&reader).await.map(|observed| observed.checks());
            let works = checks.as_ref().is_ok_and(|checks| checks.iter().all(|check| check.works));
            if works || Instant::now() >= end {
                return checks;
            }
            sleep(INTERVAL).await;
        }
    })?;
    let failed = checks.iter().filter(|check| !check.works).count();
    let problem = (failed > 0).then(|| format!("{} of {} failed", failed, counted(checks.len(), "check")));
    output::report(format, &checks, |checks| text(checks), problem)
}

/// What the checks are computed from.
struct Observed {
    namespace: String,
    now: Timestamp,
    /// What is wrong with the definitions; an error if that may not be read.
    definitions: Result<Option<String>, String>,
    /// The ready and the desired Pods of the operator.
    pods: Result<Option<(i32, i32)>, String>,
    leader: Result<Option<(String, Timestamp)>, String>,
    pools: Objects<Pool>,
    /// The WindowsNodeConfigs, if they may be read.
    node_configs: Option<Objects<NodeConfigView>>,
    /// What may not be read.
    notes: Vec<String>,
}

async fn read(reader: &Reader) -> Result<Observed, CommandError> {
    let Reader { client, namespace, .. } = reader;
    let pools = cluster::list_pools(client).await?;
    let mut notes = Vec::new();
    let snapshot = reader.snapshot(pools.clone(), &mut notes).await;
    Ok(Observed {
        namespace: namespace.clone(),
        now: Timestamp::now(),
        definitions: cluster::problem_of_definitions(client).await,
        pods: cluster::operator_pods(client, namespace).await.map_err(|error| error.to_string()),
        leader: cluster::leader(client, namespace).await.map_err(|error| error.to_string()),
        pools,
        node_configs: snapshot.and_then(|snapshot| snapshot.node_configs),
        notes,
    })
}

impl Observed {
    fn checks(self) -> [Check; 5] {
        let named = |name, result: Result<String, String>| Check {
            name,
            works: result.is_ok(),
            message: result.unwrap_or_else(|problem| problem),
        };
        [
            named("definitions", self.definitions()),
            named("operator", self.operator()),
            named("pools", self.pools()),
            named("agents", self.agents()),
            named("permissions", self.permissions()),
        ]
    }

    fn definitions(&self) -> Result<String, String> {
        match &self.definitions {
            Ok(None) => Ok("installed, and of this version".to_owned()),
            Ok(Some(problem)) => Err(format!("{problem}: {}", cluster::DEFINITIONS_REMEDY)),
            Err(why) => Err(format!("not known: {why}")),
        }
    }

    /// That all Pods are ready and one is the leader. Without leader election there is no Lease, and outside of the cluster no Pod.
    fn operator(&self) -> Result<String, String> {
        let Self { namespace, now, .. } = self;
        let (pods, leader) = (self.pods.clone()?, self.leader.clone()?);
        // With no Pods, a leader runs elsewhere.
        let lacks_pods = |(ready, desired): &(i32, i32)| ready < desired || (*desired == 0 && leader.is_none());
        if let Some((ready, desired)) = pods.filter(lacks_pods) {
            return Err(format!(
                "{ready} of {desired} Pods are ready: kubectl -n {namespace} get pods -l app.kubernetes.io/name=winpool"
            ));
        }
        let leader = match leader {
            Some((holder, renewed)) if now.duration_since(renewed) > RENEWAL => Err(format!(
                "{holder} has not renewed its Lease since {renewed:.0}: kubectl -n {namespace} logs deployment/winpool --tail=50"
            )),
            Some((holder, _)) => Ok(Some(format!("{holder} is the leader"))),
            None => Ok(None),
        }?;
        let pods =
            pods.filter(|(_, desired)| *desired > 0).map(|(ready, desired)| format!("{ready} of {desired} Pods ready"));
        let parts: Vec<_> = pods.into_iter().chain(leader).collect();
        let missing = || {
            format!(
                "not in namespace {namespace}. If it is in another, use --namespace; else kubectl apply -f install.yaml"
            )
        };
        (!parts.is_empty()).then(|| parts.join(", ")).ok_or_else(missing)
    }

    fn pools(&self) -> Result<String, String> {
        let observed = ObservedCluster { pools: self.pools.clone(), ..ObservedCluster::default() };
        let overview = Overview::new(&observed, &BTreeSet::new());
        let problems = || overview.pools.iter().flat_map(|pool| pool.problems.iter().map(move |one| (&pool.name, one)));
        if let Some((pool, problem)) = problems().find(|(_, problem)| problem.condition == "Operator") {
            return Err(format!("{pool}: {}", problem.message));
        }
        let reconciled = format!("{}, all reconciled", counted(overview.pools.len(), "pool"));
        Ok(overview.summary().map_or(reconciled.clone(), |summary| format!("{reconciled}; {summary}: winpool status")))
    }

    /// That each agent has reported, of those for which there is a configuration.
    fn agents(&self) -> Result<String, String> {
        let configs = self.node_configs.as_ref().into_iter().flat_map(Objects::values);
        let (reported, silent): (Vec<_>, Vec<_>) = configs.partition(|config| !config.status.agent_version.is_empty());
        let Some(first) = silent.first() else {
            let none = || "none is used".to_owned();
            let count = Some(reported.len()).filter(|count| *count > 0);
            return Ok(count.map_or_else(none, |count| format!("{} reported", counted(count, "agent"))));
        };
        let all = counted(reported.len() + silent.len(), "agent");
        Err(format!(
            "{} of {all} never reported, such as that of {}: kubectl get wnc -o wide",
            silent.len(),
            first.name
        ))
    }

    /// That the operator may list what it needs, and that this user may read what is checked.
    fn permissions(&self) -> Result<String, String> {
        let conditions = self.pools.values().flat_map(|pool| &pool.status.conditions);
        let refused = conditions.filter(|one| one.reason == reason::LIST_REFUSED).map(|one| one.message.clone());
        let problem = refused.chain(self.notes.clone()).next();
        problem.map_or_else(|| Ok("nothing is refused".to_owned()), Err)
    }
}

fn text(checks: &[Check]) -> String {
    let mut text = String::new();
    for Check { name, works, message } in checks {
        let (style, state) = if *works { (BOLD, "ok") } else { (RED, "failed") };
        let _ = writeln!(text, "{style}{state:<6}{style:#}  {name}: {}", escaped(message));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool(status: serde_json::Value) -> Pool {
        let object = json!({
            "metadata": { "name": "web", "generation": 2 },
            "spec": { "windowsVersion": "ltsc2022", "nodeSelector": { "matchLabels": { "pool": "web" } } },
            "status": status,
        });
        Pool::from_object(serde_json::from_value(object).unwrap())
    }

    fn config(agent: &str) -> NodeConfigView {
        let object = json!({ "metadata": { "name": "win-1" }, "status": { "agentVersion": agent } });
        NodeConfigView::from_object(serde_json::from_value(object).unwrap())
    }

    fn working() -> Observed {
        let now = Timestamp::UNIX_EPOCH;
        Observed {
            namespace: "system".into(),
            now,
            definitions: Ok(None),
            pods: Ok(Some((2, 2))),
            leader: Ok(Some(("winpool-1".into(), now))),
            pools: [pool(json!({ "observedGeneration": 2 }))].into_iter().collect(),
            node_configs: None,
            notes: Vec::new(),
        }
    }

    #[test]
    fn what_works_is_five_lines() {
        let text = anstream::adapter::strip_str(&text(&working().checks())).to_string();
        insta::assert_snapshot!(text, @r"
        ok      definitions: installed, and of this version
        ok      operator: 2 of 2 Pods ready, winpool-1 is the leader
        ok      pools: 1 pool, all reconciled
        ok      agents: none is used
        ok      permissions: nothing is refused
        ");
    }

    #[test]
    fn each_check_fails_by_what_it_is_about() {
        let later = |seconds| Timestamp::from_second(seconds).unwrap();
        let refused = json!({ "type": "NodesAssigned", "status": "False", "reason": "ListRefused", "message": "may not list nodes", "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let table: [(Observed, &str, &str); 9] = [
            (
                Observed { definitions: Ok(Some("not served".into())), ..working() },
                "definitions",
                "not served: install",
            ),
            (Observed { definitions: Err("forbidden".into()), ..working() }, "definitions", "not known: forbidden"),
            (
                Observed { pods: Ok(Some((1, 2))), ..working() },
                "operator",
                "1 of 2 Pods are ready: kubectl -n system get",
            ),
            (Observed { now: later(61), ..working() }, "operator", "winpool-1 has not renewed its Lease since 1970"),
            (Observed { pods: Ok(None), leader: Ok(None), ..working() }, "operator", "not in namespace system."),
            (Observed { pods: Err("forbidden".into()), ..working() }, "operator", "forbidden"),
            (
                Observed { pools: [pool(json!({ "observedGeneration": 1 }))].into_iter().collect(), ..working() },
                "pools",
                "web: the status is for generation 1",
            ),
            (
                Observed { node_configs: Some([config("")].into_iter().collect()), ..working() },
                "agents",
                "1 of 1 agent never reported, such as that of win-1",
            ),
            (
                Observed {
                    pools: [pool(json!({ "observedGeneration": 2, "conditions": [refused] }))].into_iter().collect(),
                    ..working()
                },
                "permissions",
                "may not list nodes",
            ),
        ];
        for (observed, name, message) in table {
            let checks = observed.checks();
            let failed: Vec<_> = checks.iter().filter(|check| !check.works).collect();
            assert_eq!(failed.iter().map(|check| check.name).collect::<Vec<_>>(), [name], "{failed:?}");
            assert!(failed[0].message.starts_with(message), "{failed:?}");
        }
    }

    #[test]
    fn without_leader_election_or_outside_of_the_cluster_one_of_pods_and_lease_is_enough() {
        let one = Observed { leader: Ok(None), ..working() }.checks();
        let other = Observed { pods: Ok(None), ..working() }.checks();
        assert_eq!([one[1].message.as_str(), &other[1].message], ["2 of 2 Pods ready", "winpool-1 is the leader"]);
        assert!(one[1].works && other[1].works);
    }
}

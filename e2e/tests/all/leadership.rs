//! Two replicas of the operator: one writes, and the other takes over when it ends, or is frozen.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, ensure};
use e2e::{
    cluster::{Cluster, NODE_LABEL, SOON, create},
    control_plane::OPERATOR_NAMESPACE,
    faults::checker::check_leaders,
    kubelet::{Kubelets, SimulatedNode},
    operator::Operator,
    wait::{eventually, size, until},
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::json;

const POOL: &str = "web";
const NODES: usize = 12;
/// The duration of the Lease, and the time for an election and the rest of the work.
const TAKE_OVER: Duration = Duration::from_secs(180);
/// A convergence is interrupted after each of these numbers of writes.
const POINTS: [usize; 5] = [1, 2, 4, 7, 10];
/// Those of `make test-long`.
const ALL_POINTS: [usize; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
/// Starts a replica on a host of this name, and waits until its caches are synced.
async fn replica(cluster: &Cluster, host: &str) -> Result<Operator> {
    let environment = [("HOSTNAME", host), ("WINPOOL_LEADER_ELECTION", "on")];
    let replica = Operator::spawn(&cluster.control_plane, &[], &environment)?;
    replica.wait_ready(TAKE_OVER).await?;
    Ok(replica)
}

/// Waits until a replica on this host holds the Lease.
async fn until_leader(cluster: &Cluster, host: &str) -> Result<()> {
    let leader = || cluster.leader();
    until(&format!("{host} holds the Lease"), TAKE_OVER, leader, |leader| leader == host).await.map(drop)
}

/// Two replicas, of which `a` is the leader, and nodes without a pool.
async fn replicas(cluster: &Cluster) -> Result<(Kubelets, Operator, Operator)> {
    let node = |number| SimulatedNode::windows(&format!("web-{number:02}"), "10.0.20348.2700").label(NODE_LABEL, POOL);
    let kubelets = cluster.start_kubelets((0..NODES).map(node).collect()).await?;
    let a = replica(cluster, "a").await?;
    until_leader(cluster, "a").await?;
    let b = replica(cluster, "b").await?;
    Ok((kubelets, a, b))
}

/// The number of writes apart from those of the Lease.
fn written(cluster: &Cluster) -> Result<usize> {
    Ok(cluster.writes()?.iter().filter(|write| write.resource != "leases").count())
}

/// Waits until the replicas have written this many objects.
async fn until_written(cluster: &Cluster, count: usize) -> Result<()> {
    let end = tokio::time::Instant::now() + SOON;
    while written(cluster)? < count {
        ensure!(tokio::time::Instant::now() < end, "fewer than {count} writes");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// Checks that only leaders wrote. Returns how many writes each process made.
fn check_writes(cluster: &Cluster) -> Result<BTreeMap<String, usize>> {
    check_leaders(cluster.requests()?, &cluster.control_plane.stored_objects()?)
}

/// Waits until the pool is ready with this value of its taint, and nothing remains to be written.
async fn until_converged(cluster: &Cluster, value: &str) -> Result<()> {
    cluster.until_tainted(POOL, ("os", value), NODES).await?;
    cluster.until_ready(POOL).await
}

/// A cluster with a leader and a standby. The cluster is the last field, so that it ends last.
struct Replicas {
    leader: Operator,
    standby: Operator,
    /// The host of the standby; each replica has one of its own.
    host: String,
    _kubelets: Kubelets,
    cluster: Cluster,
}

impl Replicas {
    async fn start() -> Result<Self> {
        let cluster = Cluster::start().await?;
        let (kubelets, leader, standby) = replicas(&cluster).await?;
        Ok(Self { leader, standby, host: "b".to_owned(), _kubelets: kubelets, cluster })
    }

    /// The standby has become the leader: starts another one, and returns the former leader.
    async fn replace_leader(&mut self, host: String) -> Result<Operator> {
        let next = replica(&self.cluster, &host).await?;
        self.host = host;
        Ok(std::mem::replace(&mut self.leader, std::mem::replace(&mut self.standby, next)))
    }
}

/// Interrupts a convergence after each number of writes: every pool gets another value of its taint, and when that many
/// objects are written, `interrupt` is called. All writes together follow the rule.
async fn at_each_point(interrupt: impl AsyncFn(&mut Replicas, &str, String) -> Result<()>) -> Replicas {
    let mut replicas = Replicas::start().await.unwrap();
    for point in size(&POINTS[..], &ALL_POINTS).iter().copied() {
        let interrupted = async {
            let value = format!("windows-{point}");
            let before = written(&replicas.cluster)?;
            replicas.cluster.apply_tainting_pool(POOL, "ltsc2022", ("os", &value)).await?;
            until_written(&replicas.cluster, before + point).await?;
            interrupt(&mut replicas, &value, format!("host-{point}")).await?;
            until_converged(&replicas.cluster, &value).await
        };
        interrupted.await.unwrap_or_else(|error| panic!("after {point} writes: {error:#}"));
    }
    check_writes(&replicas.cluster).unwrap();
    replicas
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_is_killed_is_replaced_at_any_point_of_a_convergence() {
    let replicas = at_each_point(async |replicas, _, next| {
        replicas.leader.kill()?;
        until_leader(&replicas.cluster, &replicas.host).await?;
        replicas.replace_leader(next).await.map(drop)
    })
    .await;
    replicas.cluster.nothing_was_forbidden().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_was_frozen_longer_than_the_lease_writes_nothing_and_ends() {
    let replicas = at_each_point(async |replicas, value, next| {
        replicas.leader.process().freeze();
        until_leader(&replicas.cluster, &replicas.host).await?;
        until_converged(&replicas.cluster, value).await?;
        let frozen = replicas.replace_leader(next).await?;
        frozen.process().thaw();
        eventually("the frozen replica ends", SOON, async || frozen.check_lost_lease()).await?;
        ensure!(frozen.log()?.contains("no longer the leader"), "{}", frozen.log()?);
        Ok(())
    })
    .await;
    replicas.cluster.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn a_standby_is_ready_writes_nothing_and_takes_over_at_once_after_a_clean_stop() {
    let cluster = Cluster::start().await.unwrap();
    let (_kubelets, a, b) = replicas(&cluster).await.unwrap();
    cluster.apply_tainting_pool(POOL, "ltsc2022", ("os", "windows")).await.unwrap();
    until_converged(&cluster, "windows").await.unwrap();
    for (replica, expected) in [(&a, 1.0), (&b, 0.0)] {
        assert_eq!(replica.metric("winpool_leader", &[]).await.unwrap(), expected);
    }
    let counts = check_writes(&cluster).unwrap();
    assert_eq!(counts.len(), 1, "{counts:?}");

    assert!(a.stop().await.unwrap().success(), "{}", a.log().unwrap());
    assert!(a.log().unwrap().contains("Lease released"), "{}", a.log().unwrap());
    until_leader(&cluster, "b").await.unwrap();
    cluster.apply_tainting_pool(POOL, "ltsc2022", ("os", "windows-2")).await.unwrap();
    cluster.until_tainted(POOL, ("os", "windows-2"), NODES).await.unwrap();
    assert_eq!(check_writes(&cluster).unwrap().len(), 2);
    assert!(b.stop().await.unwrap().success(), "{}", b.log().unwrap());
    cluster.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn a_lease_of_another_client_with_a_huge_duration_is_taken_over() {
    let cluster = Cluster::start().await.unwrap();
    let leases: Api<Lease> = cluster.namespaced(OPERATOR_NAMESPACE);
    let spec = json!({ "holderIdentity": "nobody", "leaseDurationSeconds": i32::MAX });
    create(&leases, json!({ "metadata": { "name": "winpool" }, "spec": spec })).await.unwrap();
    let operator = replica(&cluster, "a").await.unwrap();
    until_leader(&cluster, "a").await.unwrap();
    let log = operator.log().unwrap();
    assert!(log.contains("the duration in the Lease is not that of this operator, and is ignored"), "{log}");
    cluster.nothing_was_forbidden().unwrap();
}

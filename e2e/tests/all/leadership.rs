//! Two replicas of the operator: one writes, and the other takes over when it ends, is frozen, or loses the API server.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, bail, ensure};
use e2e::{
    audit::Request,
    cluster::{Cluster, NODE_LABEL, SOON},
    control_plane::User,
    kubelet::{Kubelets, SimulatedNode},
    operator::Operator,
    wait::eventually,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

const POOL: &str = "web";
const NODES: usize = 12;
const NAMESPACE: &str = "winpool-system";
/// The duration of the Lease, and the time for an election and the rest of the work.
const TAKE_OVER: Duration = Duration::from_secs(180);
/// The duration of the Lease.
const LEASE: Duration = Duration::from_secs(20);
/// A convergence is interrupted after this many writes.
const POINTS: std::ops::RangeInclusive<usize> = 1..=10;
/// How many clusters run at once.
const CONCURRENCY: usize = 3;
/// The exit status of a replica that is no longer the leader.
const NOT_LEADER: i32 = 4;

/// Starts a replica on a host of this name.
fn spawn(cluster: &Cluster, host: &str) -> Result<Operator> {
    let environment = [("HOSTNAME", host), ("WINPOOL_LEADER_ELECTION", "on")];
    Operator::spawn(&cluster.control_plane, &[], &environment)
}

/// Starts a replica, and waits until its caches are synced.
async fn replica(cluster: &Cluster, host: &str) -> Result<Operator> {
    let replica = spawn(cluster, host)?;
    replica.wait_ready(TAKE_OVER).await?;
    Ok(replica)
}

/// Waits until a replica on this host holds the Lease.
async fn until_leader(cluster: &Cluster, host: &str) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let held = || async {
        let holder = leases.get("winpool").await?.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        ensure!(holder.starts_with(&format!("{host}_")), "the holder is {holder:?}");
        Ok(())
    };
    eventually(&format!("{host} holds the Lease"), TAKE_OVER, held).await
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

/// The writes of all replicas, in the order in which the API server received them.
fn writes(cluster: &Cluster) -> Result<Vec<Request>> {
    let mut writes = cluster.control_plane.requests_of(User::Operator)?;
    writes.retain(Request::is_write);
    writes.sort_by_key(|write| write.received);
    Ok(writes)
}

fn is_of_lease(request: &Request) -> bool {
    request.resource == "leases"
}

/// Waits until the replicas have written this many objects.
async fn until_written(cluster: &Cluster, count: usize) -> Result<()> {
    let end = tokio::time::Instant::now() + SOON;
    while writes(cluster)?.iter().filter(|write| !is_of_lease(write)).count() < count {
        ensure!(tokio::time::Instant::now() < end, "fewer than {count} writes");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// The law: each write was received within the duration of the Lease after its process renewed it, and after no other process
/// had taken it. Returns how many writes each process made.
fn check_writes(cluster: &Cluster) -> Result<BTreeMap<String, usize>> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut holder: Option<(String, Timestamp)> = None;
    for write in writes(cluster)? {
        if is_of_lease(&write) {
            if (200..300).contains(&write.code) {
                holder = Some((write.agent.clone(), write.received));
            }
            continue;
        }
        let Some((leader, renewed)) = &holder else { bail!("{write:?} before an election") };
        ensure!(*leader == write.agent, "{write:?}, while the leader is {leader}");
        let age = Duration::try_from(write.received - *renewed)?;
        ensure!(age < LEASE, "{write:?}, {age:?} after the last renewal");
        *counts.entry(write.agent.clone()).or_default() += 1;
    }
    Ok(counts)
}

/// Waits until the pool is ready, and nothing remains to be written.
async fn until_converged(cluster: &Cluster) -> Result<()> {
    cluster.until_tainted(POOL, ("os", "windows"), NODES).await?;
    cluster.until_ready(POOL).await
}

/// Two replicas in the middle of a convergence; `a` is the leader. The cluster is the last field, so that it ends last.
struct Converging {
    a: Operator,
    b: Operator,
    _kubelets: Kubelets,
    cluster: Cluster,
}

impl Converging {
    /// Starts a convergence in a cluster of its own, and waits for this many writes.
    async fn after(writes: usize) -> Result<Self> {
        let cluster = Cluster::start().await?;
        let (kubelets, a, b) = replicas(&cluster).await?;
        cluster.apply_tainting_pool(POOL, "ltsc2022", ("os", "windows")).await?;
        until_written(&cluster, writes).await?;
        Ok(Self { a, b, _kubelets: kubelets, cluster })
    }
}

/// Interrupts a convergence at each point.
async fn at_each_point<F: Future<Output = Result<()>>>(interrupt: impl Fn(Converging) -> F) {
    let interrupt = &interrupt;
    let points = stream::iter(POINTS).map(|point| async move {
        let interrupted = async { interrupt(Converging::after(point).await?).await };
        interrupted.await.map_err(|error| error.context(format!("after {point} writes")))
    });
    points.buffer_unordered(CONCURRENCY).try_collect::<Vec<()>>().await.unwrap();
}

async fn kill(converging: Converging) -> Result<()> {
    let Converging { cluster, a, b, .. } = &converging;
    a.kill()?;
    until_leader(cluster, "b").await?;
    until_converged(cluster).await?;
    check_writes(cluster)?;
    ensure!(b.stop().await?.success(), "{}", b.log()?);
    cluster.nothing_was_forbidden()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_is_killed_is_replaced_at_any_point_of_a_convergence() {
    at_each_point(kill).await;
}

async fn freeze(converging: Converging) -> Result<()> {
    let Converging { cluster, a, .. } = &converging;
    a.process().freeze();
    until_leader(cluster, "b").await?;
    until_converged(cluster).await?;
    a.process().thaw();
    let ended = || async {
        let status = a.process().exit_status();
        ensure!(status.and_then(|status| status.code()) == Some(NOT_LEADER), "exit status {status:?}");
        Ok(())
    };
    eventually("the frozen replica ends", SOON, ended).await?;
    ensure!(a.log()?.contains("no longer the leader"), "{}", a.log()?);
    check_writes(cluster)?;
    cluster.nothing_was_forbidden()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_was_frozen_longer_than_the_lease_writes_nothing_and_ends() {
    at_each_point(freeze).await;
}

async fn restart_api_server(converging: Converging) -> Result<()> {
    let cluster = &converging.cluster;
    cluster.control_plane.restart_api_server().await?;
    until_converged(cluster).await?;
    check_writes(cluster).map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_api_server_at_any_point_of_a_convergence_is_survived() {
    at_each_point(restart_api_server).await;
}

#[tokio::test]
async fn a_standby_is_ready_writes_nothing_and_takes_over_at_once_after_a_clean_stop() {
    let cluster = Cluster::start().await.unwrap();
    let (_kubelets, a, b) = replicas(&cluster).await.unwrap();
    cluster.apply_tainting_pool(POOL, "ltsc2022", ("os", "windows")).await.unwrap();
    until_converged(&cluster).await.unwrap();
    for (replica, expected) in [(&a, 1.0), (&b, 0.0)] {
        assert_eq!(replica.metric("winpool_leader", &[]).await.unwrap(), expected);
    }
    let counts = check_writes(&cluster).unwrap();
    assert_eq!(counts.len(), 1, "{counts:?}");

    assert!(a.stop().await.unwrap().success(), "{}", a.log().unwrap());
    let stopped = Timestamp::now();
    until_leader(&cluster, "b").await.unwrap();
    let waited = Duration::try_from(Timestamp::now() - stopped).unwrap();
    assert!(waited < LEASE / 2, "the Lease was released, but taken only after {waited:?}");
    cluster.apply_tainting_pool(POOL, "ltsc2022", ("os", "windows-2")).await.unwrap();
    cluster.until_tainted(POOL, ("os", "windows-2"), NODES).await.unwrap();
    assert_eq!(check_writes(&cluster).unwrap().len(), 2);
    assert!(b.stop().await.unwrap().success(), "{}", b.log().unwrap());
    cluster.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn a_missing_permission_for_the_lease_is_logged_and_found_when_it_appears() {
    let cluster = Cluster::start().await.unwrap();
    let role = cluster.kubectl(&["get", "role", "winpool", "-n", NAMESPACE, "-o", "yaml"]).unwrap();
    cluster.kubectl(&["delete", "role", "winpool", "-n", NAMESPACE]).unwrap();
    let a = spawn(&cluster, "a").unwrap();
    let logged = || async {
        ensure!(a.log()?.contains("Lease of the leader not updated"), "{}", a.log()?);
        Ok(())
    };
    eventually("the missing permission is logged", SOON, logged).await.unwrap();
    let file = cluster.control_plane.directory().join("role.yaml");
    std::fs::write(&file, role).unwrap();
    cluster.kubectl(&["apply", "-f", file.to_str().unwrap()]).unwrap();
    until_leader(&cluster, "a").await.unwrap();
    assert!(a.stop().await.unwrap().success());
}

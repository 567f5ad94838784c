//! Faults while the pools of some hundred nodes converge and are edited. Each follows from a seed, and after each the audit log and the
//! objects prove that nothing is wrong, whatever winpool reports.

pub mod checker;
mod fault;
mod lab;
mod random;

use std::{
    fmt::{self, Display, Formatter},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use jiff::Timestamp;

use self::{
    checker::{check_foreign_fields, check_leaders, check_taints},
    fault::Fault,
    lab::Lab,
    random::Random,
};
use crate::control_plane::User;

/// How many faults there are: so many consecutive seeds have each of them once.
pub const FAULTS: u64 = fault::COUNT;
/// The time in which the operator taints a new node, while it is not away: half-open connections are replaced after 25 seconds,
/// failures are tried again with a back-off of up to 30, and the machine is busy.
const ALLOWANCE: Duration = Duration::from_secs(120);
/// The most resident memory of a replica, in bytes.
const MEMORY: u64 = 150_000_000;
/// The most that the logs of all replicas grow in a round, in bytes.
const LOG: u64 = 300_000;

/// How much takes part.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub pools: usize,
    /// Windows nodes of each pool.
    pub nodes: usize,
    /// The longest time of a fault that ends by itself.
    pub longest: Duration,
}

/// A fault, and what was proven after it.
#[derive(Debug)]
pub struct Round {
    seed: u64,
    fault: Fault,
    /// After how many writes to nodes the fault began.
    point: usize,
    /// From the first edit until everything is proven.
    took: Duration,
    /// From the end of the fault until every node was as specified.
    converged: Duration,
    proofs: Result<Proofs>,
}

/// What holds after a fault; all counts are since the start.
#[derive(Debug)]
struct Proofs {
    /// Writes within the time of the Lease.
    writes: usize,
    /// Writes to nodes that left all fields of other owners.
    nodes: usize,
    /// The longest time that a node was without its taint while the operator was not away.
    untainted: Duration,
    /// The most resident memory of a replica, in bytes.
    memory: u64,
    /// How much the logs grew, in bytes.
    log: u64,
}

impl Round {
    /// The first lines of a table of rounds.
    pub const HEADER: &str = "\
| seed | fault | after writes | seconds | converged after | writes with the Lease | writes without loss | longest without taint | memory | log |
|---|---|---|---|---|---|---|---|---|---|";

    pub fn is_proven(&self) -> bool {
        self.proofs.is_ok()
    }
}

impl Display for Round {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { seed, fault, point, took, converged, proofs } = self;
        write!(
            formatter,
            "| {seed} | {fault:?} | {point} | {:.1} | {:.1} s ",
            took.as_secs_f32(),
            converged.as_secs_f32()
        )?;
        match proofs {
            Ok(Proofs { writes, nodes, untainted, memory, log }) => write!(
                formatter,
                "| {writes} | {nodes} | {:.1} s | {} MB | {} kB |",
                untainted.as_secs_f32(),
                memory / 1_000_000,
                log / 1_000,
            ),
            Err(error) => write!(formatter, "| VIOLATION: {error:#} | | | | |"),
        }
    }
}

/// One fault for each seed, in one cluster. Fails after the last one if something was not proven.
pub async fn run(seeds: impl IntoIterator<Item = u64>, size: Size, report: impl Fn(&Round)) -> Result<()> {
    let mut lab = Lab::start(size).await?;
    let mut violations = 0;
    for seed in seeds {
        let round = lab.round(seed).await;
        report(&round);
        violations += usize::from(!round.is_proven());
    }
    ensure!(
        violations == 0,
        "{violations} faults with a violation; WINPOOL_KEEP=1 keeps the audit log and the other logs"
    );
    lab.end().await
}

impl Lab {
    async fn round(&mut self, seed: u64) -> Round {
        let mut random = Random::new(seed);
        let fault = Fault::of(seed, &mut random);
        let point = random.below(self.size.nodes * self.size.pools / 2);
        let begin = Instant::now();
        let (mut converged, log) = (Duration::ZERO, self.log_bytes());
        let proofs = async {
            self.edit().await?;
            self.until_written(point).await?;
            let since = Timestamp::now();
            fault.strike(self, &mut random).await?;
            self.until_led().await?;
            if fault.keeps_operator_away() {
                self.away.push((since, Timestamp::now()));
            }
            let ended = Instant::now();
            let nodes = self.until_converged().await?;
            converged = ended.elapsed();
            self.observe(nodes);
            self.prove(log?)
        }
        .await;
        Round { seed, fault, point, took: begin.elapsed(), converged, proofs }
    }

    fn prove(&self, log_before: u64) -> Result<Proofs> {
        let (now, stored) = (Timestamp::now(), self.history()?);
        let (memory, log) = (self.most_memory()?, self.log_bytes()? - log_before);
        ensure!(memory <= MEMORY, "a replica has {memory} bytes of memory");
        ensure!(log <= LOG, "the logs grew by {log} bytes");
        Ok(Proofs {
            writes: check_leaders(self.cluster.requests()?, &stored)?.values().sum(),
            nodes: check_foreign_fields(&stored, &User::Operator.name())?,
            untainted: check_taints(&stored, now, &self.away, ALLOWANCE)?,
            memory,
            log,
        })
    }
}

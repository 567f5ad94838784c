//! The verdicts on workloads: kept up with every change, and told to the pools at a measured pace.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::{
    task::{coop::consume_budget, spawn_blocking},
    time::{Instant, sleep, timeout_at},
};
use tracing::{debug, info_span};

use super::{
    cause::Cause,
    changes::{Changed, Changes},
    images::Images,
    queue::Asker,
    shell::Shell,
};
use crate::domain::{
    note::{About, Note},
    workload::{Ground, Ledger, PoolWorkloads, Trap, WorkloadName, Workloads},
};

/// The least time between two rounds: what happens in between is one round.
const PACE: Duration = Duration::from_secs(1);
/// The least time between two tellings to a pool whose counts changed and nothing else: pods come and go all the time.
const COUNTS: Duration = Duration::from_secs(30);

/// How soon to look for answers of registries though nothing happens: tags grow old, and failures are tried again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// How long to wait when nothing is to be done.
const IDLE: Duration = Duration::from_secs(3600);

/// Keeps the verdicts up to date with the changes and tells the pools.
pub async fn run(changes: Changes, shell: Shell, pools: Asker<Cause>, images: Images) {
    let mut keeper = Keeper {
        shell,
        pools,
        images,
        ledger: Ledger::default(),
        moved: true,
        told: HashMap::new(),
        later: BTreeSet::new(),
    };
    loop {
        keeper.take_in(changes.take()).await;
        keeper.round().await;
        sleep(PACE).await;
        // Without a change it is time that leads to a round.
        let _ = timeout_at(keeper.due(), changes.recorded()).await;
    }
}

struct Keeper {
    shell: Shell,
    pools: Asker<Cause>,
    images: Images,
    ledger: Ledger,
    /// Whether the ground changed since the last round.
    moved: bool,
    told: HashMap<String, Told>,
    /// Pools whose counts alone changed, which can wait.
    later: BTreeSet<String>,
}

/// What a pool was told.
struct Told {
    summary: Arc<PoolWorkloads>,
    at: Instant,
    /// The workloads that were told of what is wrong with them.
    named: HashSet<(Trap, Arc<WorkloadName>)>,
}

impl Keeper {
    /// Takes in what changed. There is very much at the start, and others have work to do.
    async fn take_in(&mut self, changed: Changed) {
        self.moved |= changed.ground;
        self.moved |= changed.labels.iter().any(|label| self.ledger.asks_for(label));
        for ((namespace, key), now) in changed.defaults {
            self.ledger.defaults(&namespace, &key, now);
            consume_budget().await;
        }
        for (name, now) in changed.controllers {
            self.ledger.controller(&name, now);
            consume_budget().await;
        }
        for ((pod, event), said) in changed.sandboxes {
            self.ledger.sandbox(&pod, &event, said);
            consume_budget().await;
        }
        for (key, now) in changed.pods {
            self.ledger.pod(&key, now);
            consume_budget().await;
        }
    }

    async fn round(&mut self) {
        if std::mem::take(&mut self.moved) || self.ledger.asks_for_more() {
            self.stand_on_the_ground().await;
        }
        self.images.look_up(&mut self.ledger, &self.shell.caches).await;
        let mut changed = self.ledger.take_changed();
        changed.append(&mut self.later);
        let first = *self.shell.caches.workloads.borrow() == Workloads::Waiting;
        if first {
            changed.extend(self.shell.caches.pools.all().keys().cloned());
        }
        let mut news = BTreeMap::new();
        let mut notes = Vec::new();
        for pool in changed {
            let summary = Arc::new(self.ledger.summary(&pool));
            if self.can_wait(&pool, &summary) {
                self.later.insert(pool);
            } else {
                notes.extend(self.tell(&pool, &summary));
                news.insert(pool, summary);
            }
        }
        if first || !news.is_empty() {
            self.publish(news);
            self.shell.events.publish(&notes).await;
        }
    }

    /// Takes the ground as it is now. Thousands of pods may have to be judged, which is no work for the threads that
    /// others wait for.
    async fn stand_on_the_ground(&mut self) {
        let (caches, mut ledger) = (self.shell.caches.clone(), std::mem::take(&mut self.ledger));
        let stand = move || {
            let ground = Ground::for_labels(&caches.snapshot(), ledger.asked_labels());
            info_span!("judge workloads").in_scope(|| ledger.stand_on(ground));
            ledger
        };
        match spawn_blocking(stand).await {
            Ok(ledger) => self.ledger = ledger,
            // Only a panic ends it otherwise, and then nothing is known any more.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Whether a pool need not hear of this yet: only its counts changed, and it heard of the last ones a moment ago.
    fn can_wait(&self, pool: &str, summary: &PoolWorkloads) -> bool {
        self.told.get(pool).is_some_and(|told| told.summary.traps == summary.traps && told.at.elapsed() < COUNTS)
    }

    /// Remembers what a pool is told, and gives the events on workloads that were not told before.
    fn tell(&mut self, pool: &str, summary: &Arc<PoolWorkloads>) -> Vec<Note> {
        let before = self.told.remove(pool).map(|told| told.named).unwrap_or_default();
        let all = || summary.traps.iter().flat_map(|(trap, trapped)| trapped.first.iter().map(move |one| (*trap, one)));
        let notes = all()
            .filter(|(trap, (workload, _))| !before.contains(&(*trap, workload.clone())))
            .filter_map(|(trap, (workload, story))| self.note(pool, trap, workload, story))
            .collect();
        let named = all().map(|(trap, (workload, _))| (trap, workload.clone())).collect();
        self.told.insert(pool.to_owned(), Told { summary: summary.clone(), at: Instant::now(), named });
        notes
    }

    /// The event on a workload; `None` if it is gone meanwhile.
    fn note(&self, pool: &str, trap: Trap, workload: &Arc<WorkloadName>, story: &str) -> Option<Note> {
        let about = match workload.kind.as_str() {
            "Node" => {
                let uid = self.shell.caches.nodes.get(&workload.name)?.uid.clone();
                About::Node { name: workload.name.clone(), uid }
            }
            _ => {
                let (workload, uid) = self.ledger.subject(workload)?;
                About::Workload { workload, uid: uid.to_owned() }
            }
        };
        let message = format!("WindowsNodePool {pool}: {story}");
        Some(Note { about, warning: true, reason: trap.reason().to_owned(), action: "Check", message })
    }

    fn publish(&self, news: BTreeMap<String, Arc<PoolWorkloads>>) {
        let pools: Vec<String> = news.keys().cloned().collect();
        let known = self.shell.caches.pools.all();
        self.shell.caches.workloads.send_modify(|workloads| {
            let mut all = match std::mem::take(workloads) {
                Workloads::Known(all) => all,
                Workloads::Off | Workloads::Waiting => BTreeMap::new(),
            };
            all.extend(news);
            all.retain(|pool, _| known.contains_key(pool));
            *workloads = Workloads::Known(all);
        });
        debug!(pods = self.ledger.len(), "the verdicts on the workloads of {} are known", pools.join(", "));
        for pool in pools {
            self.pools.ask(&pool, Cause::here("workloads changed".to_owned()));
        }
    }

    /// When there is something to do though nothing happens.
    fn due(&self) -> Instant {
        let told = self.later.iter().filter_map(|pool| self.told.get(pool)).map(|told| told.at + COUNTS);
        let idle = if self.images.are_wanted() { LOOK_AGAIN } else { IDLE };
        told.chain([Instant::now() + idle]).min().unwrap_or_else(Instant::now)
    }
}

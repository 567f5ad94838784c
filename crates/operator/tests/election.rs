//! Leader election, checked for every order of events: two processes, lost and late requests, lost answers, frozen and
//! restarted processes.

use std::time::Duration;

use stateright::{Checker, Model, Property};
use winpool_operator::election::{Attempt, Election, LeaseView};

/// The duration of the Lease, in seconds. A second is the shortest time here.
const DURATION: u64 = 2;
/// How long a write may take.
const WRITE: u64 = 1;
/// How far each history is followed.
const END: u64 = 4;
/// How many times the Lease is written.
const VERSIONS: u64 = 3;

/// A process, and what it has sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    identity: String,
    election: Election,
    /// What the process waits for.
    waiting: Option<Waiting>,
    /// A request that the API server has not received: the version that it replaces, and the identity that it names. It may
    /// arrive long after the process has given it up.
    on_the_way: Option<(Option<u64>, String)>,
    /// Until when a write that was begun may be received.
    writing: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Waiting {
    /// For the answer to a request that was sent at this time.
    Answer { sent: u64 },
    /// The API server accepted the request, and its answer is on the way.
    Accepted { sent: u64 },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Simulation {
    now: u64,
    /// The version and the holder of the Lease.
    lease: Option<(u64, String)>,
    versions: u64,
    processes: [Process; 2],
}

/// What happens. A process that does nothing is frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Second,
    /// A process reads the Lease, and sends what follows.
    Attempt(usize),
    /// The API server receives a request.
    Receive(usize),
    Lose(usize),
    Answer(usize),
    /// The process no longer waits for an answer.
    GiveUp(usize),
    Write(usize),
    /// A process ends, and another one starts.
    Restart(usize),
}

struct TwoReplicas;

impl Process {
    fn new(identity: &str) -> Self {
        let election = Election::new(identity.to_owned(), Duration::from_secs(DURATION));
        Self { identity: identity.to_owned(), election, waiting: None, on_the_way: None, writing: None }
    }

    fn may_write(&self, now: u64) -> bool {
        self.election.claimed_until().is_some_and(|end| Duration::from_secs(now + WRITE) <= end)
    }

    fn is_writing(&self, now: u64) -> bool {
        self.writing.is_some_and(|end| now < end)
    }
}

impl Model for TwoReplicas {
    type State = Simulation;
    type Action = Event;

    fn init_states(&self) -> Vec<Simulation> {
        vec![Simulation { now: 0, lease: None, versions: 0, processes: ["a", "b"].map(Process::new) }]
    }

    fn actions(&self, simulation: &Simulation, events: &mut Vec<Event>) {
        events.push(Event::Second);
        for (index, process) in simulation.processes.iter().enumerate() {
            match process.waiting {
                None => events.push(Event::Attempt(index)),
                Some(Waiting::Answer { .. }) => events.push(Event::GiveUp(index)),
                Some(Waiting::Accepted { .. }) => events.extend([Event::Answer(index), Event::GiveUp(index)]),
            }
            if process.on_the_way.is_some() {
                events.extend([Event::Receive(index), Event::Lose(index)]);
            }
            if process.may_write(simulation.now) && !process.is_writing(simulation.now) {
                events.push(Event::Write(index));
            }
            if process.identity == "a" {
                events.push(Event::Restart(index));
            }
        }
    }

    fn next_state(&self, simulation: &Simulation, event: Event) -> Option<Simulation> {
        let mut next = simulation.clone();
        let Simulation { now, lease, versions, processes } = &mut next;
        match event {
            Event::Second => *now += 1,
            Event::Attempt(index) => {
                let process = &mut processes[index];
                let view = lease
                    .as_ref()
                    .map(|(version, holder)| LeaseView { version: version.to_string(), holder: holder.clone() });
                let version = lease.as_ref().map(|(version, _)| *version);
                if process.election.attempt(view, Duration::from_secs(*now)) != Attempt::Wait {
                    process.on_the_way = Some((version, process.identity.clone()));
                    process.waiting = Some(Waiting::Answer { sent: *now });
                }
            }
            Event::Receive(index) => {
                let process = &mut processes[index];
                let (version, holder) = process.on_the_way.take()?;
                if lease.as_ref().map(|(current, _)| *current) == version {
                    *versions += 1;
                    let is_awaited = holder == process.identity;
                    *lease = Some((*versions, holder));
                    if let Some(Waiting::Answer { sent }) = process.waiting
                        && is_awaited
                    {
                        process.waiting = Some(Waiting::Accepted { sent });
                    }
                }
            }
            Event::Lose(index) => drop(processes[index].on_the_way.take()),
            Event::Answer(index) => {
                let Some(Waiting::Accepted { sent }) = processes[index].waiting.take() else { return None };
                processes[index].election.accepted(Duration::from_secs(sent));
            }
            Event::GiveUp(index) => processes[index].waiting = None,
            Event::Write(index) => processes[index].writing = Some(*now + WRITE),
            Event::Restart(index) => {
                let former = &processes[index];
                let identity = format!("{}2", former.identity);
                let (on_the_way, writing) = (former.on_the_way.clone(), former.writing);
                processes[index] = Process { on_the_way, writing, ..Process::new(&identity) };
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("only one process may write or is writing", |_, simulation: &Simulation| {
                let is_active =
                    |process: &&Process| process.may_write(simulation.now) || process.is_writing(simulation.now);
                simulation.processes.iter().filter(is_active).count() <= 1
            }),
            Property::sometimes("a restarted process writes again", |_, simulation: &Simulation| {
                simulation.processes[0].identity.len() == 2 && simulation.processes[0].may_write(simulation.now)
            }),
        ]
    }

    fn within_boundary(&self, simulation: &Simulation) -> bool {
        simulation.now <= END && simulation.versions <= VERSIONS
    }
}

#[test]
fn two_processes_never_write_at_the_same_time() {
    let checker = TwoReplicas.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

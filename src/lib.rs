//! winpool, a Kubernetes operator for Windows node pools: the map of the code.
//!
//! The rules are pure functions: a snapshot of the cluster goes in, a plan comes out. Everything that performs I/O is a
//! thin layer around them. The operator, the command line and the tests call the same functions.
//!
//! # Layers
//! A module imports only modules that are further down; `tests/all/layers.rs` checks it.
//!
//! | module | contents |
//! |---|---|
//! | [`commands`] | the command line: `run`, `plan`, `render`, `lint`, `migrate`, `cleanup`, `crds` |
//! | [`controllers`] | one controller per concern: snapshot, plan, write, status; work queue, event mapping, supervision |
//! | [`cluster`] | Kubernetes I/O: client, one watch per kind, stores, snapshot, writer, events |
//! | [`registry`] | the platforms of images, from container registries |
//! | [`admin`], [`telemetry`] | health and metrics; logs and traces |
//! | [`manifests`] | objects from YAML files, with file, line and path of each problem |
//! | [`domain`] | the rules: what to write, what to report |
//! | [`api`] | the custom resources: types, schemas, names of labels, annotations, conditions and reasons |
//! | [`facts`] | what Microsoft, Kubernetes and containerd decided, as tables with source and date |
//!
//! # The path of a change
//! ```text
//! API server --watch--> cluster::Store          one per kind, with only the fields that the rules read
//!                          `-- controllers: EventMapper --> work queue, one entry per object
//! reconcile:  cluster::Caches -> domain::pool::Snapshot -> plan (pure) -> cluster::Writer -> status and events
//! workloads:  pods and their controllers -> domain::workload::WorkloadIndex -> summary per pool -> its next reconcile
//! ```
//!
//! # Where a line belongs
//! - A decision, a message, or the text of a condition: [`domain`]. It never awaits, logs, or reads a clock or a file.
//! - A request to the API server: [`cluster`]. Only its writer writes objects; events and the key of the ownership records
//!   have their own files there.
//! - When to reconcile, and how often: [`controllers`]. They build no request and decide nothing about nodes.
//! - A version, build, limit or default that somebody else decided: [`facts`], with its source and date.
//! - A field of a custom resource, a label, an annotation, a reason: [`api`].
//! - Output of a command: [`commands`].
//!
//! # Rules for all modules
//! 1. A plan is total: what is not done is a value that status reports. The plan for an unchanged cluster is empty.
//! 2. Parse, don't validate: an error lists every problem, with path and remedy.
//! 3. Text is for people: nothing parses, compares or keys on it. `Display` is in one place per type.
//! 4. Every queue is bounded or has one entry per key. Every request has a time limit. Every shared task is supervised.
//! 5. The cost of a change is that of its nodes and pools, not that of the cluster.

pub mod admin;
pub mod api;
pub mod cluster;
pub mod commands;
pub mod controllers;
pub mod domain;
pub mod facts;
pub mod manifests;
pub mod registry;
pub mod telemetry;

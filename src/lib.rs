//! winpool, a Kubernetes operator for Windows node pools: layout of the code.
//!
//! The rules are pure functions that compute a plan from a snapshot of the cluster. All I/O is in a thin layer around
//! them. The operator, the command line and the tests call the same functions.
//!
//! # Layers
//! A crate uses only the crates below it, which Cargo checks, and a module only modules of lower layers, which
//! `tests/all/layers.rs` checks.
//!
//! | module or crate | contents |
//! |---|---|
//! | [`commands`] | the command line: `run`, `status`, `plan`, `render`, `lint`, `migrate`, `adopt`, `cleanup`, `crds`, `policies` |
//! | [`controllers`] | one controller per concern: snapshot, plan, write, status; work queue, event mapping, supervision |
//! | [`cluster`] | Kubernetes I/O: client, one watch per kind, stores, snapshot, writer, events |
//! | [`registry`] | the platforms of images, from container registries |
//! | [`admin`], [`telemetry`] | health and metrics; logs and traces |
//! | [`policies`] | the optional admission policies of `config/policies` |
//! | `winpool-agent` | the program on Windows nodes: layout, merge, preflight, and the cycle of a change, over the trait `Host` |
//! | [`winpool_log`] | the format and the filter of the logs of both programs |
//! | [`winpool_core`] | the rules: what to write, what to report; objects from YAML files, with file, line and path of each problem |
//! | [`winpool_api`] | the custom resources: types, schemas, names of labels, annotations, conditions and reasons |
//! | [`winpool_api::facts`] | versions, builds, limits and defaults of Windows, Kubernetes and containerd, with source and date |
//!
//! # Data flow
//! ```text
//! API server --watch--> cluster::Store          one per kind, with only the fields that the rules read
//!                          `-- controllers: EventMapper --> work queue, one entry per object
//! reconcile:  cluster::Caches -> winpool_core::pool::Snapshot -> plan (pure) -> cluster::Writer -> status and events
//! workloads:  pods and their controllers -> winpool_core::workload::WorkloadIndex -> summary per pool -> its next reconcile
//! ```
//!
//! # Where code belongs
//! - Rules, messages, and the text of conditions: [`winpool_core`]. It does not await, log, or read a clock or a file.
//! - Requests to the API server: [`cluster`]. Only its writer writes objects, except events and the key of the
//!   ownership records, which have their own files.
//! - When to reconcile, and how often: [`controllers`]. They build no requests and have no rules about nodes.
//! - Versions, builds, limits and defaults of other projects: [`winpool_api::facts`], with source and date.
//! - A field of a custom resource, a label, an annotation, a reason: [`winpool_api`].
//! - Output of a command: [`commands`].
//!
//! # Rules for all modules
//! 1. Planning does not fail: an operation that is not allowed is a value that status reports. The plan for an
//!    unchanged cluster is empty.
//! 2. Parse, don't validate: an error lists every problem, with path and remedy.
//! 3. Messages are for users: no code parses, compares or uses them as keys. Each type has one `Display`.
//! 4. Every queue is bounded or has one entry per key. Every request has a time limit. Every shared task is supervised.
//! 5. The cost of a change depends on the affected nodes and pools, not on the size of the cluster.

pub mod admin;
pub mod cluster;
pub mod commands;
pub mod controllers;
pub mod policies;
pub mod registry;
pub mod telemetry;

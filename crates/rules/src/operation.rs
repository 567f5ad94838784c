//! Writes: the operations of a plan, as values, and their outcomes.

mod dependency;
mod node_edit;
mod outcome;
mod step;
mod write;

pub use self::{
    dependency::{Dependency, Unwritten},
    node_edit::{Denial, DeniedPart, Edit, NodeEdit, Purpose, TaintEdit},
    outcome::{AfterFailure, Done, ErrorCause, Outcome, WriteError},
    step::{Step, Steps},
    write::{Action, Body, Verb, Write, WriteTarget},
};

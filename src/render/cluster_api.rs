//! The pools whose machines Cluster API creates, and the templates of their machines.

mod cluster_class;
mod hints;
mod input;
mod objects;

pub use self::{cluster_class::cluster_class_patches, hints::autoscaler_hints, input::Input, objects::machine_objects};

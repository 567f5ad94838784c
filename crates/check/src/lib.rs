//! What is computed on request, from manifests in files and what was read of a cluster. Each module is what one command finds.

pub mod add_ons;
pub mod adopt;
pub mod catalogue;
pub mod doctor;
pub mod gmsa;
pub mod lint;
pub mod manifests;
pub mod migrate;
pub mod recommend;
pub mod render;
pub mod upgrade;
pub mod verify;

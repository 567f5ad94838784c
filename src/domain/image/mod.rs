//! Whether an image runs on a host, by the strongest evidence there is: what the runtime said, what the registry says,
//! what the tag suggests.

pub mod content;
pub mod tag;
pub mod verdict;

pub use content::{Content, Platform};
pub use oci_spec::distribution::Reference;
pub use verdict::{Evidence, Host, Known, Lookup, Misfit, Said, Verdict, judge, newer_revision};

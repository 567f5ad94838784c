//! Whether an image runs on a host, by the most reliable evidence: the report of the container runtime, the registry,
//! or the name of the image.

pub mod compatibility;
pub mod content;
mod replaced;
pub mod tag;

pub use compatibility::{
    Compatibility, EvidenceSource, HostNode, ImageEvidence, Incompatibility, Lookup, RuntimeReport,
};
pub use content::{ImagePlatform, ImagePlatforms};
pub use oci_spec::distribution::Reference;
pub use replaced::ReplacedImages;

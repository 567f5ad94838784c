//! What is computed from hostile texts, the bounds of what is reported, and the checks of manifests.

// clippy.toml allows these in tests, but not in the helper functions of tests.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bounds;
mod doctor;
mod foreign_text;
mod lint;
mod recommend;

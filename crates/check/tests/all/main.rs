//! What is computed from hostile texts, and the bounds of what is reported.

// clippy.toml allows these in tests, but not in the helper functions of tests.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bounds;
mod foreign_text;

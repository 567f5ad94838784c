//! The command line of winpool.

fn main() {}

//! Faults with proofs, for `make faults`: as many as ROUNDS, from SEED on. Without SEED they begin at a random one, which is printed.

#![allow(clippy::print_stdout)] // a program for developers

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use anyhow::Result;
use e2e::faults::{FAULTS, Round, Size, run};

#[tokio::main]
async fn main() -> Result<()> {
    let number =
        |name| std::env::var(name).ok().filter(|text| !text.is_empty()).map(|text| text.parse::<u64>()).transpose();
    let seed = number("SEED")?.unwrap_or_else(|| RandomState::new().hash_one(()) % 1_000_000);
    let rounds = number("ROUNDS")?.unwrap_or(FAULTS);
    println!("SEED={seed} ROUNDS={rounds}\n\n{}", Round::HEADER);
    let size = Size { pools: 3, nodes: 100, longest: Duration::from_secs(10) };
    run(seed..seed + rounds, size, |round| println!("{round}")).await
}

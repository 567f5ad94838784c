//! How many cases a property is tried with.

use proptest::test_runner::Config;

/// This many cases, and sixteen times as many in `make test-long`. Each run has other ones.
pub fn cases(usual: u32) -> Config {
    let factor = if std::env::var_os("WINPOOL_TEST_LONG").is_some() { 16 } else { 1 };
    Config { cases: usual * factor, failure_persistence: None, ..Config::default() }
}

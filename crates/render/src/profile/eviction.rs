//! The check of eviction signals and thresholds.

use std::collections::BTreeMap;

use winpool_api::{QuantityText, pattern::THRESHOLD};
use winpool_core::kubernetes::quantity::{ParseThresholdError, Threshold};
use winpool_facts::eviction::Signal;

use super::problems::Problems;

pub(super) fn thresholds(
    path: &str,
    written: &BTreeMap<String, QuantityText>,
    problems: &mut Problems,
) -> BTreeMap<Signal, Threshold> {
    let mut thresholds = BTreeMap::new();
    for (name, QuantityText(text)) in written {
        let path = format!("{path}.{name}");
        let Some(signal) = signal(&path, name, problems) else { continue };
        match text.parse::<Threshold>() {
            Ok(threshold) => {
                if signal == Signal::MemoryAvailable && matches!(threshold, Threshold::Percent(_)) && text != "0%" {
                    let wrong = "kubelets from 1.31 on evict at this percentage of memory and page file, but subtract this \
                                 percentage of memory from allocatable";
                    problems.warning(path, wrong, "write a quantity such as 500Mi");
                }
                thresholds.insert(signal, threshold);
            }
            Err(error @ ParseThresholdError::NotPositive(_)) => {
                problems.error(path, error.to_string(), "write a larger quantity, or 0% for no threshold");
            }
            Err(error) => problems.error(path, error.to_string(), THRESHOLD.remedy),
        }
    }
    thresholds
}

/// The signal with this name. An unknown signal is an error.
pub(super) fn signal(path: &str, name: &str, problems: &mut Problems) -> Option<Signal> {
    let signal = Signal::named(name);
    if signal.is_none() {
        let wrong = match Signal::linux_only_reason(name) {
            Some(reason) => format!("a Windows kubelet does not support `{name}`, because {reason}"),
            None => format!("`{name}` is not an eviction signal"),
        };
        let known = Signal::ALL.map(Signal::name).join(", ");
        problems.error(path, wrong, format!("remove it, or write one of {known}"));
    }
    signal
}

//! The allocatable resources of a node, calculated as the kubelet does from capacity and configuration.
//!
//! Allocatable is capacity minus `systemReserved`, `kubeReserved` and the hard eviction thresholds, and never negative;
//! `pods` is `maxPods`, or less by `podsPerCore`. Independent of the operator's calculation, so that tests can compare
//! both.
//! Source: kubernetes/kubernetes, read 2026-11: `pkg/kubelet/cm/helpers.go` (`hardEvictionReservation`),
//! `pkg/kubelet/cm/container_manager_windows.go` (`GetNodeAllocatableReservation`), `pkg/kubelet/eviction/helpers.go`
//! (`parsePercentage`: a 32-bit float, so that 10% of 100 G is 10,000,000,149),
//! `pkg/kubelet/eviction/defaults_windows.go` (from 1.31; before, Windows had the defaults of Linux),
//! `pkg/kubelet/nodestatus/setters.go` (`MachineInfo`).

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Taint;
use serde::Deserialize;

/// The capacity of a machine, in Kubernetes quantities.
#[derive(Clone, Debug)]
pub struct Capacity {
    /// Cores.
    pub cpu: String,
    /// Bytes.
    pub memory: String,
    /// Bytes of the file system of the kubelet.
    pub ephemeral_storage: String,
    /// The number of Pods, unless a configuration sets it.
    pub pods: u32,
}

impl Default for Capacity {
    fn default() -> Self {
        Self { cpu: "8".into(), memory: "32Gi".into(), ephemeral_storage: "200Gi".into(), pods: 110 }
    }
}

impl Capacity {
    pub(crate) fn resources(&self) -> BTreeMap<&'static str, String> {
        [
            ("cpu", self.cpu.clone()),
            ("memory", self.memory.clone()),
            ("ephemeral-storage", self.ephemeral_storage.clone()),
            ("pods", self.pods.to_string()),
        ]
        .into()
    }

    /// The capacity that a kubelet reports under `configuration`, which decides `pods`.
    pub(crate) fn under(mut self, configuration: &KubeletConfiguration) -> Self {
        let cores = milli(&self.cpu).map_or(0, |cores| u32::try_from(cores / 1000).unwrap_or(u32::MAX));
        let per_core = configuration.pods_per_core.filter(|pods| *pods > 0).map(|pods| pods.saturating_mul(cores));
        let most = configuration.max_pods.unwrap_or(110);
        self.pods = per_core.map_or(most, |pods| pods.min(most));
        self
    }
}

/// The fields of a `KubeletConfiguration` (kubelet.config.k8s.io/v1beta1) that determine the allocatable resources and
/// the registration of the node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeletConfiguration {
    /// 110 if not set.
    pub max_pods: Option<u32>,
    /// No limit if not set or 0.
    pub pods_per_core: Option<u32>,
    /// Resource to quantity.
    pub kube_reserved: BTreeMap<String, String>,
    /// Resource to quantity.
    pub system_reserved: BTreeMap<String, String>,
    /// Signal to quantity or percentage. The kubelet's defaults apply only if no signal is set.
    pub eviction_hard: Option<BTreeMap<String, String>>,
    /// From 1.33: the defaults apply to the signals that are not set.
    pub merge_default_eviction_settings: bool,
    /// The taints that the kubelet registers its Node with.
    pub register_with_taints: Vec<Taint>,
}

impl KubeletConfiguration {
    /// Reads `kubelet.yaml`.
    pub fn parse(yaml: &str) -> Result<Self> {
        let configuration: Self = serde_saphyr::from_str(yaml).context("kubelet.yaml")?;
        for (resource, quantity) in configuration.kube_reserved.iter().chain(&configuration.system_reserved) {
            milli(quantity).with_context(|| format!("reserved {resource}"))?;
        }
        for (signal, threshold) in configuration.eviction_hard.iter().flatten() {
            Threshold::parse(threshold).with_context(|| format!("evictionHard {signal}"))?;
        }
        Ok(configuration)
    }

    fn threshold(&self, signal: &str, default_memory: &'static str) -> Option<Threshold> {
        let default = match signal {
            "memory.available" => Some(default_memory),
            "nodefs.available" => Some("10%"),
            _ => None,
        };
        let text = match &self.eviction_hard {
            None => default,
            Some(set) => {
                set.get(signal).map(String::as_str).or(default.filter(|_| self.merge_default_eviction_settings))
            }
        };
        text.and_then(|text| Threshold::parse(text).ok())
    }
}

/// The default threshold for `memory.available` of a kubelet of `minor`.
pub(crate) fn default_memory_threshold(windows: bool, minor: u32) -> &'static str {
    if windows && minor >= 31 { "500Mi" } else { "100Mi" }
}

/// The allocatable resources of a machine under `configuration`. A quantity that does not parse counts as 0.
pub(crate) fn allocatable(
    capacity: &Capacity,
    configuration: &KubeletConfiguration,
    default_memory: &'static str,
) -> BTreeMap<&'static str, String> {
    let left = |resource: &str, quantity: &str, signal: Option<&str>| {
        let capacity = milli(quantity).unwrap_or(0);
        let reserved =
            |map: &BTreeMap<String, String>| map.get(resource).and_then(|text| milli(text).ok()).unwrap_or(0);
        let threshold =
            signal.and_then(|signal| configuration.threshold(signal, default_memory)).map_or(0, |t| t.of(capacity));
        let all = reserved(&configuration.kube_reserved) + reserved(&configuration.system_reserved) + threshold;
        to_text((capacity - all).max(0))
    };
    [
        ("cpu", left("cpu", &capacity.cpu, None)),
        ("memory", left("memory", &capacity.memory, Some("memory.available"))),
        ("ephemeral-storage", left("ephemeral-storage", &capacity.ephemeral_storage, Some("nodefs.available"))),
        ("pods", capacity.pods.to_string()),
    ]
    .into()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Threshold {
    /// In thousandths.
    Quantity(i128),
    /// A fraction between 0 and 1, with the kubelet's precision.
    Part(f32),
}

impl Threshold {
    fn parse(text: &str) -> Result<Self> {
        match text.strip_suffix('%') {
            Some(percent) => Ok(Self::Part(percent.parse::<f32>().with_context(|| text.to_owned())? / 100.0)),
            None => Ok(Self::Quantity(milli(text)?)),
        }
    }

    /// The threshold for a capacity in thousandths. A percentage gives a whole number of units, as in the kubelet.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
    fn of(self, capacity: i128) -> i128 {
        match self {
            Self::Quantity(quantity) => quantity,
            Self::Part(part) => ((capacity / 1000) as f64 * f64::from(part)) as i128 * 1000,
        }
    }
}

/// A Kubernetes quantity in thousandths, rounded up.
fn milli(text: &str) -> Result<i128> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '+' && c != '-').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    ensure!(fraction.len() <= 18 && number.len() <= 36, "{text:?} has too many digits");
    let digits: i128 = format!("{whole}{fraction}").parse().with_context(|| format!("{text:?} is no quantity"))?;
    let (numerator, denominator) = factor(suffix).with_context(|| format!("{text:?} is no quantity"))?;
    let places = 10_i128.pow(u32::try_from(fraction.len())?);
    let (value, unit) = (digits * numerator * 1000, denominator * places);
    Ok(value.div_euclid(unit) + i128::from(value.rem_euclid(unit) != 0))
}

fn factor(suffix: &str) -> Result<(i128, i128)> {
    const POWERS: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const PARTS: [&str; 3] = ["m", "u", "n"];
    let power = |list: &[&str]| list.iter().position(|name| *name == suffix).map(|index| index as u32 + 1);
    if suffix.is_empty() {
        return Ok((1, 1));
    }
    if let Some(power) = power(&POWERS) {
        return Ok((1000_i128.pow(power), 1));
    }
    if let Some(power) = power(&BINARY) {
        return Ok((1024_i128.pow(power), 1));
    }
    if let Some(power) = power(&PARTS) {
        return Ok((1, 1000_i128.pow(power)));
    }
    match suffix.strip_prefix(['e', 'E']).and_then(|exponent| exponent.parse::<i32>().ok()) {
        Some(exponent @ 0..=18) => Ok((10_i128.pow(exponent.unsigned_abs()), 1)),
        Some(exponent @ -18..0) => Ok((1, 10_i128.pow(exponent.unsigned_abs()))),
        _ => bail!("unknown suffix {suffix:?}"),
    }
}

fn to_text(milli: i128) -> String {
    if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") }
}

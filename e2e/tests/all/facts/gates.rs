//! Feature gates: the specifications that every component of a kubelet registers, and their dependencies.

use std::collections::BTreeMap;

use anyhow::Result;
use winpool_facts::{
    Minor,
    feature_gates::{DEPENDENCIES, FeatureGate, GATES, GateStage, NEWEST_READ, feature_gate},
    support::OLDEST,
};

use super::{
    kubernetes::{KUBERNETES, kubernetes},
    source::{Upstream, differences},
};

/// The files with gates, of kubernetes/kubernetes and of the libraries that a kubelet is linked with.
const FILES: [(&str, &str); 7] = [
    (KUBERNETES, "pkg/features/kube_features.go"),
    ("k8s.io/apiserver", "pkg/features/kube_features.go"),
    ("k8s.io/apiextensions-apiserver", "pkg/features/kube_features.go"),
    ("k8s.io/client-go", "features/known_features.go"),
    ("k8s.io/component-base", "logs/api/v1/kube_features.go"),
    ("k8s.io/component-base", "metrics/features/kube_features.go"),
    ("k8s.io/component-base", "zpages/features/kube_features.go"),
];
/// A file with the names of gates of which a kubelet has those that kubernetes/kubernetes lists.
const NAMES: (&str, &str) = ("k8s.io/controller-manager", "pkg/features/kube_features.go");

/// Gates whose earlier specifications upstream has rewritten, with the first minor that is compared: the rows before it have what
/// the sources of the minor itself say.
const REWRITTEN: [(&str, Minor); 6] = [
    ("AllowServiceExternalIPs", Minor(36)),
    ("ImageVolumeWithDigest", Minor(36)),
    ("MutatingAdmissionPolicy", Minor(32)),
    ("StatefulSetSemanticRevisionComparison", Minor(34)),
    ("TopologyManagerPolicyOptions", Minor(36)),
    ("WindowsHostNetwork", Minor(33)),
];

/// Gates that set other gates, which no list has.
const SWITCHES: [&str; 2] = ["AllAlpha", "AllBeta"];

/// The gates by the names of their constants, as `AtomicFIFO` or `clientfeatures.AtomicFIFO`.
struct Constants(BTreeMap<String, String>);

impl Constants {
    fn read() -> Result<Self> {
        let mut all = BTreeMap::new();
        for (module, path) in FILES.into_iter().chain([NAMES]) {
            all.extend(kubernetes(module, path)?.constants()?);
        }
        Ok(Self(all))
    }

    fn gate(&self, constant: &str) -> Option<String> {
        self.0.get(constant.trim().trim_end_matches(')').rsplit('.').next()?).cloned()
    }
}

/// Compares the states of all gates in the supported minors.
pub fn specifications() -> Result<Vec<String>> {
    let constants = Constants::read()?;
    let mut upstream = Upstream::new();
    for (module, path) in FILES {
        let file = kubernetes(module, path)?;
        upstream.extend(file.rows(r"^\t+([\w.]+):\s+\{\n((?:\s*(?://.*|\{Version: .*)\n)+)", |captures| {
            let gate = constants.gate(&captures[1])?;
            let specs: Vec<_> = captures[2].lines().filter_map(spec).collect();
            // 1.0 is the state of a minor that does not know the gate.
            let known = specs.iter().filter(|(from, _)| specs.len() == 1 || *from > Minor(0)).cloned();
            Some((gate.clone(), history(&gate, known)))
        })?);
    }
    let current = GATES.iter().filter(|gate| gate.known_in(NEWEST_READ) && !SWITCHES.contains(&gate.name));
    let row = |gate: &FeatureGate| {
        let specs = gate.specs.iter().map(|spec| (spec.from, state(spec.default, spec.locked, spec.stage)));
        (gate.name.to_owned(), history(gate.name, specs))
    };
    Ok(differences(&upstream, &current.map(row).collect()))
}

/// The first minor and the state of `{Version: version.MustParse("1.8"), Default: false, PreRelease: featuregate.Alpha},`. With a
/// minimum of the compatibility version, which is one minor lower by default, it begins with the next minor.
fn spec(line: &str) -> Option<(Minor, String)> {
    let after = |field: &str| Some(line.split_once(field)?.1.split([',', '}', '"']).next()?.trim());
    let from: Minor = after("{Version: version.MustParse(\"")?.parse().ok()?;
    let compatible = after("MinCompatibilityVersion: version.MustParse(\"").and_then(|minor| minor.parse().ok());
    let from = compatible.map_or(from, |Minor(minor)| Minor(minor + 1));
    let stage = match after("PreRelease: ").and_then(|stage| stage.rsplit('.').next()) {
        Some("Alpha") => GateStage::Alpha,
        Some("Beta") => GateStage::Beta,
        _ => GateStage::Stable,
    };
    let state = state(after(" Default: ")? == "true", after("LockToDefault: ") == Some("true"), stage);
    (from <= NEWEST_READ).then_some((from, state))
}

fn state(default: bool, locked: bool, stage: GateStage) -> String {
    let stage = match stage {
        GateStage::Alpha => "alpha",
        GateStage::Beta => "beta",
        GateStage::Stable => "stable",
    };
    format!("{stage} {}{}", if default { "on" } else { "off" }, if locked { " locked" } else { "" })
}

/// The state in the first minor that is compared, and each change after it.
fn history(gate: &str, specs: impl Iterator<Item = (Minor, String)>) -> String {
    let first = REWRITTEN.iter().find(|(name, _)| *name == gate).map_or(OLDEST, |(_, first)| *first);
    let states: BTreeMap<_, _> = specs.map(|(from, state)| (from.max(first), state)).collect();
    states.into_iter().map(|(from, state)| format!("{from} {state}")).collect::<Vec<_>>().join(", ")
}

/// Compares the gates that each gate depends on, as far as the newest minor knows both.
pub fn dependencies() -> Result<Vec<String>> {
    let constants = Constants::read()?;
    let (module, path) = FILES[0];
    let map = kubernetes(module, path)?.part("var defaultKubernetesFeatureGateDependencies", "\n}\n")?;
    let upstream = map.rows(r"^\t([\w.]+):\s+\{([^}]+)\}", |captures| {
        let mut needed: Vec<_> = captures[2].split(',').filter_map(|constant| constants.gate(constant)).collect();
        needed.sort_unstable();
        Some((constants.gate(&captures[1])?, needed.join(", ")))
    })?;
    let is_known = |name: &str| feature_gate(name).is_some_and(|gate| gate.known_in(NEWEST_READ));
    let known = |needed: &[&'static str]| needed.iter().copied().filter(|name| is_known(name)).collect::<Vec<_>>();
    let rows = DEPENDENCIES.iter().filter(|(gate, _)| is_known(gate)).map(|(gate, needed)| (gate, known(needed)));
    let rows = rows.filter(|(_, needed)| !needed.is_empty());
    Ok(differences(&upstream, &rows.map(|(gate, needed)| ((*gate).to_owned(), needed.join(", "))).collect()))
}

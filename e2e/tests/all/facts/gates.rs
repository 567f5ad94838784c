//! Feature gates: the specifications that every component of a kubelet registers, and their dependencies.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use regex::Regex;
use winpool_api::facts::{
    Minor,
    feature_gates::{DEPENDENCIES, GATES, GateStage, NEWEST_READ},
};

use super::{
    kubernetes::{KUBERNETES, kubernetes},
    source::{Source, Table, Upstream, differences},
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

/// The oldest minor whose specifications are compared: upstream corrects those of earlier minors.
const OLDEST: Minor = Minor(30);

/// Gates that set other gates, which no list has.
const SWITCHES: [&str; 2] = ["AllAlpha", "AllBeta"];

/// Compares the states of all gates from the oldest minor on.
pub fn specifications() -> Result<Vec<String>> {
    let mut upstream = Upstream::new();
    for (module, path) in FILES {
        upstream.extend(states(&kubernetes(module, path)?)?);
    }
    let current = GATES.iter().filter(|gate| gate.known_in(NEWEST_READ) && !SWITCHES.contains(&gate.name));
    let table: Table = current
        .map(|gate| {
            let specs = gate.specs.iter().map(|spec| (spec.from, state(spec.default, spec.locked, spec.stage)));
            (gate.name.to_owned(), history(specs))
        })
        .collect();
    Ok(differences(&upstream, &table))
}

/// The histories of the gates in a file.
fn states(source: &Source) -> Result<Upstream> {
    let names = source.constants()?;
    let spec = Regex::new(
        r#"\{Version: version.MustParse\("([\d.]+)"\), Default: (\w+)(?:, LockToDefault: (\w+))?(?:, PreRelease: (?:featuregate\.)?(\w*))?"#,
    )?;
    source.rows(r"^\t+(?:\w+\.)?(\w+): \{\n((?:\s*(?://.*|\{Version: .*)\n)+)", |captures| {
        let specs = spec.captures_iter(&captures[2]).filter_map(|spec| {
            let stage = match spec.get(4).map(|stage| stage.as_str()) {
                Some("Alpha") => GateStage::Alpha,
                Some("Beta") => GateStage::Beta,
                _ => GateStage::Stable,
            };
            let is_locked = spec.get(3).is_some_and(|locked| locked.as_str() == "true");
            Some((spec[1].parse().ok()?, state(&spec[2] == "true", is_locked, stage)))
        });
        Some((names.get(&captures[1])?.clone(), history(specs)))
    })
}

fn state(default: bool, locked: bool, stage: GateStage) -> String {
    let stage = match stage {
        GateStage::Alpha => "alpha",
        GateStage::Beta => "beta",
        GateStage::Stable => "stable",
    };
    format!("{stage} {}{}", if default { "on" } else { "off" }, if locked { " locked" } else { "" })
}

/// The state in the oldest minor, and each change after it.
fn history(specs: impl Iterator<Item = (Minor, String)>) -> String {
    let mut states = BTreeMap::new();
    for (from, state) in specs {
        states.insert(from.max(OLDEST), state);
    }
    states.into_iter().map(|(from, state)| format!("{from} {state}")).collect::<Vec<_>>().join(", ")
}

/// Compares the gates that each gate depends on.
pub fn dependencies() -> Result<Vec<String>> {
    let mut names = BTreeMap::new();
    for (module, path) in FILES {
        names.extend(kubernetes(module, path)?.constants()?);
    }
    let name = |constant: &str| names.get(constant.rsplit('.').next()?).cloned();
    let (module, path) = FILES[0];
    let source = kubernetes(module, path)?;
    let map = source.part("var defaultKubernetesFeatureGateDependencies", "\n}\n")?;
    let upstream = map.rows(r"^\t([\w.]+): \{([^}]+)\}", |captures| {
        let mut needed: Vec<_> = captures[2].split(',').filter_map(|constant| name(constant.trim())).collect();
        needed.sort_unstable();
        Some((name(&captures[1])?, needed.join(", ")))
    })?;
    let table = DEPENDENCIES.iter().map(|(gate, needed)| ((*gate).to_owned(), needed.join(", "))).collect();
    Ok(differences(&upstream, &table))
}

/// The minor of a version of Kubernetes or of one of its libraries, such as 1.37 for v0.37.2.
pub fn minor_of(version: &str) -> Result<Minor> {
    let minor = version.split('.').nth(1).and_then(|minor| minor.parse().ok());
    minor.map(Minor).with_context(|| version.to_owned())
}

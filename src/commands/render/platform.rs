//! The documents for platforms that make nodes themselves, with what they lose of each profile.

use std::collections::{BTreeMap, BTreeSet};

use winpool_api::facts::support;
use winpool_core::{
    manifests::{LocatedProblem, Resources},
    pool::{
        Snapshot,
        configs::ExpectedNode,
        plan::{ActivePool, Phase, Planner},
    },
    profile::Profile,
    render::{
        KUBELET_YAML, Variant, pause,
        platform::{NodeGroup, Target, documents},
    },
};

use super::objects::locate;

/// The file with the report, beside the documents.
const REPORT: &str = "losses.txt";

/// The documents for a platform.
#[derive(Debug, Default)]
pub struct PlatformFiles {
    /// The documents by path: a directory for each configuration, or for each pool without a profile.
    pub documents: BTreeMap<String, String>,
    /// The reports, by the path of their file.
    pub reports: BTreeMap<String, String>,
    /// A note for each pool.
    pub notes: Vec<String>,
}

impl PlatformFiles {
    /// Documents and reports, by path.
    pub fn all(self) -> BTreeMap<String, String> {
        self.documents.into_iter().chain(self.reports).collect()
    }

    /// The documents as one text. Configurations that differ only in what the platform does not take have the same one.
    pub fn text(&self, target: Target) -> String {
        let mut seen = BTreeSet::new();
        let texts: Vec<_> = self.documents.values().map(String::as_str).filter(|text| seen.insert(*text)).collect();
        texts.join(target.separator())
    }
}

/// The documents for all pools.
///
/// # Errors
/// The problems of pause images.
pub fn platform_files(
    snapshot: &Snapshot,
    expected_nodes: &[ExpectedNode],
    resources: &Resources,
    target: Target,
) -> Result<PlatformFiles, Vec<LocatedProblem>> {
    let planner = Planner::new(snapshot).expecting(expected_nodes.to_vec());
    let (mut found, mut problems) = (PlatformFiles::default(), Vec::new());
    for name in snapshot.pools.names() {
        let (Some(plan), Some((_, location))) = (planner.plan(name), resources.pools.get(name)) else { continue };
        let (Phase::Active(active), Ok(spec)) = (&plan.phase, &plan.pool.spec) else { continue };
        let profile = spec.profile.as_ref().and_then(|profile| resources.profiles.get(profile));
        let empty = NodeGroup {
            pool: name,
            build: spec.build,
            taints: &spec.taints,
            labels: &spec.labels,
            profile: None,
            kubelet: expected_nodes.first().map_or(support::NEWEST, |node| node.kubelet),
            pause_image: "",
            kubelet_yaml: "",
        };
        match profile {
            None => found.add(name, &empty, target),
            Some((view, in_profile)) => {
                let Ok(profile) = &view.profile else { continue };
                for (config, variant, kubelet_yaml) in configurations(active) {
                    match pause::image(profile, &variant) {
                        Ok(image) => found.add(config, &with(&empty, profile, &variant, &image, kubelet_yaml), target),
                        Err(problem) => problems.push(locate(problem, location, in_profile)),
                    }
                }
            }
        }
    }
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

/// Each configuration of a pool with its first variant and its KubeletConfiguration.
fn configurations(active: &ActivePool) -> impl Iterator<Item = (&str, Variant, &str)> {
    let configs = &active.configs;
    configs.configs.iter().filter_map(|(name, rendered)| {
        let variant = configs.variants().into_iter().find(|variant| configs.name(variant) == Some(name))?;
        Some((name.as_str(), variant, rendered.configuration.files.get(KUBELET_YAML)?.as_str()))
    })
}

fn with<'a>(
    empty: &NodeGroup<'a>,
    profile: &'a Profile,
    variant: &Variant,
    pause_image: &'a str,
    kubelet_yaml: &'a str,
) -> NodeGroup<'a> {
    NodeGroup { profile: Some(profile), kubelet: variant.kubelet, pause_image, kubelet_yaml, ..*empty }
}

impl PlatformFiles {
    fn add(&mut self, directory: &str, nodes: &NodeGroup, target: Target) {
        let pool = nodes.pool;
        let note = match documents(target, nodes) {
            Ok(documents) => {
                let files = documents.files.into_iter();
                self.documents.extend(files.map(|(name, text)| (format!("{directory}/{name}"), text)));
                self.reports.insert(format!("{directory}/{REPORT}"), format!("Pool {pool}: {}\n", documents.report));
                format!("pool {pool}: {}", documents.report.summary())
            }
            Err(reason) => format!("pool {pool}: {reason}, and nothing is rendered for it"),
        };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

//! The documents for platforms that make nodes themselves, with what they lose of each profile.

use std::collections::{BTreeMap, BTreeSet};

use winpool_check::{
    manifests::{LocatedProblem, ManifestSet},
    render::locate,
};
use winpool_facts::{platforms::Platform, support};
use winpool_render::{
    KUBELET_YAML, Variant, pause,
    platform::{NodesToMake, documents, separator},
};
use winpool_rules::pool::{
    Snapshot,
    configs::ExpectedNode,
    plan::{ActivePool, Phase, Planner},
};

use super::Documents;

/// The file with the report, beside the documents.
const REPORT: &str = "losses.txt";

/// The documents for all pools.
pub fn platform_files(
    snapshot: &Snapshot,
    expected_nodes: &[ExpectedNode],
    resources: &ManifestSet,
    platform: Platform,
) -> Result<Documents, Vec<LocatedProblem>> {
    let planner = Planner::new(snapshot).expecting(expected_nodes.to_vec());
    let (mut found, mut problems) = (Documents::default(), Vec::new());
    for name in snapshot.pools.names() {
        let (Some(plan), Some((_, location))) = (planner.plan(name), resources.pools.get(name)) else { continue };
        let (Phase::Active(active), Ok(spec)) = (&plan.phase, &plan.pool.spec) else { continue };
        let profile = spec.profile.as_ref().and_then(|profile| resources.profiles.get(profile));
        let empty = NodesToMake {
            pool: name,
            build: spec.build,
            taints: &spec.taints,
            labels: &spec.labels,
            profile: None,
            kubelet: expected_nodes.first().map_or(support::NEWEST, |node| node.kubelet),
            pause_image: None,
            kubelet_yaml: "",
        };
        match profile {
            None => add(&mut found, name, &empty, platform),
            Some((view, in_profile)) => {
                let Ok(profile) = &view.profile else { continue };
                for (config, variant, kubelet_yaml) in configurations(active) {
                    match pause::image(profile, &variant) {
                        Ok(image) => {
                            let (kubelet, pause_image) = (variant.kubelet, image.as_deref());
                            let nodes =
                                NodesToMake { profile: Some(profile), kubelet, pause_image, kubelet_yaml, ..empty };
                            add(&mut found, config, &nodes, platform);
                        }
                        Err(problem) => problems.push(locate(problem, location, in_profile)),
                    }
                }
            }
        }
    }
    let printed = printed(&found.texts).join(separator(platform));
    Documents { printed: Some(printed), ..found }.without(problems)
}

/// The documents without the reports. Configurations that differ only in what the platform does not take have the same one.
fn printed(texts: &BTreeMap<String, String>) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let documents = texts.iter().filter(|(path, _)| !path.ends_with(REPORT));
    documents.map(|(_, text)| text.as_str()).filter(|text| seen.insert(*text)).collect()
}

/// Each configuration of a pool with its first variant and its KubeletConfiguration.
fn configurations(active: &ActivePool) -> impl Iterator<Item = (&str, Variant, &str)> {
    active.configs.configs.iter().filter_map(|(name, rendered)| {
        Some((name.as_str(), *rendered.variants.first()?, rendered.configuration.files.get(KUBELET_YAML)?.as_str()))
    })
}

/// Adds the documents of nodes: a directory for each configuration, or for each pool without a profile.
fn add(found: &mut Documents, directory: &str, nodes: &NodesToMake, platform: Platform) {
    let pool = nodes.pool;
    let (list, text) = match documents(platform, nodes) {
        Ok(documents) => {
            let report = (REPORT.to_owned(), format!("Pool {pool}: {}\n", documents.report));
            let files = documents.files.into_iter().chain([report]);
            found.texts.extend(files.map(|(name, text)| (format!("{directory}/{name}"), text)));
            (&mut found.notes, format!("pool {pool}: {}", documents.report.summary()))
        }
        Err(reason) => (&mut found.unrendered, format!("pool {pool}: {reason}, and nothing is rendered for it")),
    };
    if !list.contains(&text) {
        list.push(text);
    }
}

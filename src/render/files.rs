//! The files for nodes: for kubeadm, or complete files for nodes without a bootstrap tool.

use std::collections::{BTreeMap, BTreeSet};

use winpool_check::{
    manifests::{LocatedProblem, ManifestSet},
    render::locate,
};
use winpool_core::Problem;
use winpool_facts::ContainerRuntime;
use winpool_render::{Bootstrap, KUBELET_YAML, Variant, kubelet::kubeadm_patch, profile::Profile};
use winpool_rules::pool::{
    Pool, Snapshot, Spec,
    configs::{ExpectedNode, RenderedConfig},
    plan::{ActivePool, Phase, Planner},
};

use super::documents::{Documents, file_on_node};

/// The path of a KubeletConfiguration patch, below the parent of kubeadm's `patches.directory`.
const KUBEADM_PATCH: &str = "patches/kubeletconfiguration0+merge.yaml";

#[derive(Clone, Debug)]
pub enum NodeFileFormat {
    Kubeadm,
    Standalone(Bootstrap),
}

/// Files by path, and the problems of those that cannot be rendered.
type FilesAndProblems = (BTreeMap<String, String>, Vec<Problem>);

/// The files by path: a directory for each configuration, or, of complete files, for each variant of each pool.
pub fn files(
    snapshot: &Snapshot,
    expected_nodes: &[ExpectedNode],
    resources: &ManifestSet,
    format: &NodeFileFormat,
) -> Result<Documents, Vec<LocatedProblem>> {
    let planner = Planner::new(snapshot).expecting(expected_nodes.to_vec());
    let (mut files, mut problems, mut notes) = (BTreeMap::new(), Vec::new(), Vec::new());
    for name in snapshot.pools.names() {
        let (Some(plan), Some((_, location))) = (planner.plan(name), resources.pools.get(name)) else { continue };
        let (Phase::Active(active), Ok(spec)) = (&plan.phase, &plan.pool.spec) else { continue };
        let profile = spec.profile.as_ref().and_then(|profile| resources.profiles.get(profile));
        let Some((view, in_profile)) = profile else {
            notes.push(format!("pool {name} has no profile, and nothing is rendered for it"));
            continue;
        };
        let Ok(profile) = &view.profile else { continue };
        let (rendered, failed) = match format {
            NodeFileFormat::Kubeadm => (for_kubeadm(active), Vec::new()),
            NodeFileFormat::Standalone(bootstrap) => complete(&plan.pool, spec, active, profile, bootstrap),
        };
        files.extend(rendered);
        problems.extend(failed.into_iter().map(|problem| locate(problem, location, in_profile)));
    }
    let printed = Some(printed(&files));
    Documents { texts: files, printed, notes, ..Documents::default() }.without(problems)
}

/// All files as one text, each with its path as a heading.
fn printed(files: &BTreeMap<String, String>) -> String {
    files.iter().map(|(path, text)| format!("==> {path} <==\n{text}\n")).collect()
}

fn for_kubeadm(active: &ActivePool) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for (name, RenderedConfig { configuration, variants, .. }) in &active.configs.configs {
        let kubelets: BTreeSet<_> = variants.iter().map(|variant| variant.kubelet).collect();
        files.extend(configuration.files.iter().map(|(key, text)| {
            let (path, text) = match kubelets.last() {
                Some(newest) if key == KUBELET_YAML => (KUBEADM_PATCH.to_owned(), kubeadm_patch(text, *newest)),
                _ => (file_on_node(key), text.clone()),
            };
            (format!("{name}/{path}"), text)
        }));
    }
    files
}

fn complete(
    pool: &Pool,
    spec: &Spec,
    active: &ActivePool,
    profile: &Profile,
    bootstrap: &Bootstrap,
) -> FilesAndProblems {
    let (mut files, mut problems) = FilesAndProblems::default();
    for variant in active.configs.variants() {
        match winpool_render::standalone(&spec.taints, profile, &variant, bootstrap) {
            Ok(configuration) => {
                let directory = format!("{}/{}", pool.name, directory_name(&variant));
                let rendered = configuration.files.into_iter();
                files.extend(rendered.map(|(key, text)| (format!("{directory}/{}", file_on_node(&key)), text)));
            }
            Err(failed) => problems.extend(failed),
        }
    }
    (files, problems)
}

/// The directory of a variant, such as `kubelet-1.36-containerd-2.3-10.0.26100`.
fn directory_name(Variant { kubelet, runtime, host }: &Variant) -> String {
    let runtime = match runtime {
        ContainerRuntime::Containerd(line) => format!("containerd-{line}"),
        ContainerRuntime::CriDockerd => "cri-dockerd".to_owned(),
    };
    format!("kubelet-{kubelet}-{runtime}-{host}")
}

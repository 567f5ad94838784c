//! The files of nodes instead of the operator's objects: for kubeadm, or whole files for machines that are built by hand.

use std::collections::BTreeMap;

use crate::{
    domain::{
        Problem,
        pool::{
            Pool, Snapshot, Spec,
            configs::{Newcomer, RenderedConfig},
            plan::{Active, Phase, Planner},
        },
        profile::Profile,
        render::{self, Bootstrap, KUBELET_YAML, Runtime, Variant},
    },
    facts::layers::KUBEADM_PATCHES_SINCE,
    manifests::{Mistake, Resources},
};

/// Where kubeadm looks for a patch of KubeletConfiguration, in the folder of `patches.directory`.
const KUBEADM_PATCH: &str = "patches/kubeletconfiguration0+merge.yaml";

/// Which files are rendered.
#[derive(Clone, Debug)]
pub enum Form {
    /// Those of a configuration as kubeadm takes them.
    Kubeadm,
    /// Whole files.
    Standalone(Bootstrap),
}

/// The files by their paths: a folder for each configuration, or for whole files for each variant of each pool.
///
/// # Errors
/// What cannot be rendered in this form.
pub fn files(
    snapshot: &Snapshot,
    newcomers: &[Newcomer],
    resources: &Resources,
    form: &Form,
) -> Result<BTreeMap<String, String>, Vec<Mistake>> {
    let planner = Planner::new(snapshot).expecting(newcomers.to_vec());
    let (mut files, mut mistakes) = (BTreeMap::new(), Vec::new());
    for name in snapshot.pools.keys() {
        let (Some(plan), Some((_, place))) = (planner.plan(name), resources.pools.get(name)) else { continue };
        let (Phase::Active(active), Ok(spec)) = (&plan.phase, &plan.pool.spec) else { continue };
        let given = spec.profile.as_ref().and_then(|profile| resources.profiles.get(profile));
        let Some((Ok(profile), of_profile)) = given.map(|(view, place)| (view.profile.as_ref(), place)) else {
            continue;
        };
        let (found, problems) = match form {
            Form::Kubeadm => for_kubeadm(active),
            Form::Standalone(bootstrap) => whole(&plan.pool, spec, active, profile, bootstrap),
        };
        files.extend(found);
        let place_of = |problem: &Problem| if problem.path.starts_with("spec.") { of_profile } else { place };
        mistakes.extend(problems.into_iter().map(|problem| place_of(&problem).mistake(problem)));
    }
    mistakes.sort();
    mistakes.dedup();
    if mistakes.is_empty() { Ok(files) } else { Err(mistakes) }
}

/// The path of a file as it goes onto a node: containerd looks for the mirrors of each registry in a folder of its own.
pub fn file_on_node(key: &str) -> String {
    match key.strip_prefix("hosts.").and_then(|rest| rest.strip_suffix(".toml")) {
        Some(registry) => format!("certs.d/{registry}/hosts.toml"),
        None => key.to_owned(),
    }
}

type Found = (BTreeMap<String, String>, Vec<Problem>);

fn for_kubeadm(active: &Active) -> Found {
    let mut found = Found::default();
    for (name, RenderedConfig { configuration, kubelets, .. }) in &active.configs.configs {
        found.1.extend(kubelets.iter().filter(|kubelet| **kubelet < KUBEADM_PATCHES_SINCE).map(|kubelet| {
            let wrong = format!("kubeadm {kubelet} has no patches for KubeletConfiguration, which began with 1.25");
            let remedy =
                r"render without --target, and merge kubelet.yaml into C:\var\lib\kubelet\config.yaml after the join";
            Problem::new("status.nodeInfo.kubeletVersion", wrong, remedy)
        }));
        found.0.extend(configuration.files.iter().map(|(key, text)| {
            let path = if key == KUBELET_YAML { KUBEADM_PATCH.to_owned() } else { file_on_node(key) };
            (format!("{name}/{path}"), text.clone())
        }));
    }
    found
}

fn whole(pool: &Pool, spec: &Spec, active: &Active, profile: &Profile, bootstrap: &Bootstrap) -> Found {
    let mut found = Found::default();
    for variant in active.configs.variants() {
        match render::standalone(&spec.taints, profile, &variant, bootstrap) {
            Ok(configuration) => {
                let folder = format!("{}/{}", pool.name, folder_of(&variant));
                let files = configuration.files.into_iter();
                found.0.extend(files.map(|(key, text)| (format!("{folder}/{}", file_on_node(&key)), text)));
            }
            Err(problems) => found.1.extend(problems),
        }
    }
    found
}

/// The name of the folder for a variant: `kubelet-1.36-containerd-2.3-10.0.26100`.
fn folder_of(Variant { kubelet, runtime, host }: &Variant) -> String {
    let runtime = match runtime {
        Runtime::Containerd { major, minor } => format!("containerd-{major}.{minor}"),
        Runtime::Dockershim => "dockershim".to_owned(),
        Runtime::CriDockerd => "cri-dockerd".to_owned(),
    };
    format!("kubelet-{kubelet}-{runtime}-{host}")
}

//! `winpool plan`: what would change in the cluster, and what an upgrade would break. Nothing is written.

mod preview;
mod text;

use std::{path::PathBuf, sync::Arc};

use super::{
    Failure, connect, input,
    output::{self, ReportFormat},
    render,
};
use crate::{
    api::names::DEFAULT_NAMESPACE,
    cluster,
    domain::{
        ownership::Ownership,
        pool::{Pool, ProfileView, Snapshot},
    },
    facts::Minor,
    manifests::Resources,
};

use preview::Preview;

/// What was typed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The exit status is 0 if nothing would change, 1 if something would, if a pool asks for what it would not \
                        get, or if the upgrade would break something. What is only good to know does not count."
)]
pub(super) struct Args {
    /// Files with WindowsNodePools and WindowsRuntimeProfiles as they are meant to become, folders with such files, or -
    /// for standard input; may be repeated. Without it the cluster's own are taken
    #[arg(short, long, value_name = "PATH")]
    filename: Vec<PathBuf>,
    /// Say what an upgrade of the control plane and of the kubelets to this minor would break, such as 1.36
    #[arg(long, value_name = "VERSION")]
    kubernetes: Option<String>,
    /// The operator's namespace, where its ConfigMaps are
    #[arg(long, env = "WINPOOL_NAMESPACE", value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// How to print the plan
    #[arg(short, long, value_enum, default_value_t)]
    output: ReportFormat,
}

/// What it means.
pub(super) struct Settings {
    files: Vec<PathBuf>,
    upgrade: Option<Minor>,
    namespace: String,
    format: ReportFormat,
}

impl TryFrom<Args> for Settings {
    type Error = Failure;

    fn try_from(args: Args) -> Result<Self, Failure> {
        let upgrade = args.kubernetes.as_deref().map(render::minor).transpose()?;
        let namespace = input::namespace(args.namespace)?;
        Ok(Self { files: args.filename, upgrade, namespace, format: args.output })
    }
}

/// Prints the plan; it is a problem if anything would change or break.
pub(super) fn run(settings: Settings) -> Result<(), Failure> {
    let given = if settings.files.is_empty() { None } else { Some(input::resources(&settings.files)?) };
    let mut snapshot = connect::runtime()?.block_on(async {
        let client = connect::client().await?;
        let snapshot = cluster::gather(&client, &settings.namespace).await;
        let snapshot = snapshot.map_err(|error| Failure::Cluster(error.to_string()))?;
        match cluster::read_key(&client, &settings.namespace).await {
            Ok(key) => Ok(Snapshot { ownership: Arc::new(Ownership::signed(key)), ..snapshot }),
            Err(error) => {
                if snapshot.nodes.values().any(|node| node.owned.is_some()) {
                    input::note(&format!("the records on nodes are believed without verification: {error}"));
                }
                Ok(snapshot)
            }
        }
    })?;
    if let Some(given) = &given {
        apply(&mut snapshot, given);
    }
    let preview = Preview::of(&snapshot, settings.upgrade);
    output::print(&match settings.format {
        ReportFormat::Text => text::text(&preview),
        ReportFormat::Json => format!("{:#}\n", serde_json::json!(preview)),
    })?;
    preview.verdict().map_or(Ok(()), |words| Err(Failure::Problems(words)))
}

/// Puts the given resources in the place of those that are stored, as `kubectl apply` would.
fn apply(snapshot: &mut Snapshot, given: &Resources) {
    for (name, (pool, _)) in &given.pools {
        let applied = match snapshot.pools.get(name) {
            Some(stored) => applied_pool(stored, pool),
            None => Pool { generation: 1, created: Some(snapshot.now), ..pool.as_ref().clone() },
        };
        snapshot.pools.insert(name.clone(), Arc::new(applied));
    }
    for (name, (profile, _)) in &given.profiles {
        let applied = match snapshot.profiles.get(name) {
            Some(stored) => ProfileView { profile: profile.profile.clone(), ..stored.as_ref().clone() },
            None => ProfileView { generation: 1, ..profile.as_ref().clone() },
        };
        snapshot.profiles.insert(name.clone(), Arc::new(applied));
    }
}

fn applied_pool(stored: &Pool, given: &Pool) -> Pool {
    let or = |given: &Option<String>, stored: &Option<String>| given.clone().or_else(|| stored.clone());
    Pool {
        generation: stored.generation + i64::from(stored.spec != given.spec),
        spec: given.spec.clone(),
        allow_release: or(&given.allow_release, &stored.allow_release),
        allow_strand: or(&given.allow_strand, &stored.allow_strand),
        allow_evict: or(&given.allow_evict, &stored.allow_evict),
        ..stored.clone()
    }
}

#[cfg(test)]
mod tests {
    use kube::core::DynamicObject;
    use serde_json::json;

    use super::*;

    fn pool(version: &str, allow: Option<&str>) -> Pool {
        let object = json!({
            "metadata": {"name": "web", "annotations": allow.map(|text| json!({"winpool.dev/allow-strand": text}))},
            "spec": {"windowsVersion": version, "fallback": true},
        });
        Pool::from_object(serde_json::from_value::<DynamicObject>(object).unwrap())
    }

    #[test]
    fn a_given_pool_takes_the_place_of_the_stored_one_as_its_next_generation() {
        let stored = Pool { generation: 7, uid: "u".into(), ..pool("ltsc2019", Some("7")) };
        let same = applied_pool(&stored, &pool("ltsc2019", None));
        assert_eq!(same, stored);
        let other = applied_pool(&stored, &pool("ltsc2022", Some("8")));
        assert_eq!((other.generation, other.uid.as_str(), other.allow_strand.as_deref()), (8, "u", Some("8")));
        assert_eq!(other.spec, pool("ltsc2022", None).spec);
    }
}

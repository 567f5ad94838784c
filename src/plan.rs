//! `winpool plan`: what would change in the cluster, and what an upgrade would break. Read-only.

mod kube_proxy;
mod preview;
mod text;

use std::{collections::BTreeSet, sync::Arc};

use kube_proxy::PresentKubeProxy;
use preview::Preview;
use winpool_api::names::DEFAULT_NAMESPACE;
use winpool_check::manifests::ManifestSet;
use winpool_operator::cluster;
use winpool_rules::{
    ownership::Ownership,
    pool::{Pool, ProfileView, Snapshot},
};

use super::{
    CommandError, connect, input,
    output::{self, ReportFormat},
    pools::check_names,
    progress::Progress,
    render, workloads,
};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without PATH the plan is for the resources in the cluster, else as if those in the files were applied: then it has \
                        the pools in the files, those that the files change, and what was not there before. The \
                        exit status is 0 if nothing would change, and 1 if something would change, if a pool would not be as \
                        specified, or if the upgrade has breaking issues, such as an add-on that does not fit."
)]
pub(super) struct Args {
    #[command(flatten)]
    paths: input::Paths,
    /// Also report what an upgrade of the control plane and the kubelets to this version would break, such as 1.36
    #[arg(long, value_name = "VERSION")]
    kubernetes: Option<String>,
    /// Only plan this pool; may be repeated [default: all pools]
    #[arg(long, value_name = "POOL")]
    pool: Vec<String>,
    /// The namespace of the operator
    #[arg(long, env = "WINPOOL_NAMESPACE", value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    output: ReportFormat,
    #[command(flatten)]
    cluster: connect::Args,
}

/// Prints the plan. Fails if anything would change or break.
pub(super) fn run(args: Args) -> Result<(), CommandError> {
    let Args { paths, kubernetes, pool, namespace, output: format, cluster } = args;
    let files = Vec::from(paths);
    let upgrade = kubernetes.as_deref().map(render::minor).transpose()?;
    let namespace = input::namespace(namespace)?;
    let given = if files.is_empty() { None } else { Some(input::resources(&files)?) };
    let (mut snapshot, kube_proxy) = connect::runtime()?.block_on(read_cluster(&cluster, &namespace))?;
    let progress = Progress::start("computing the plan", "pool");
    let names: BTreeSet<String> = pool.into_iter().collect();
    let before = given.as_ref().map(|given| {
        let before = Preview::new(&snapshot, &names, None, &kube_proxy);
        apply(&mut snapshot, given);
        (given, before)
    });
    check_names("--pool: ", names.iter().map(String::as_str), snapshot.pools.names())?;
    let mut preview = Preview::new(&snapshot, &names, upgrade, &kube_proxy);
    if let Some((given, before)) = before {
        let has_given_profile = |pool: &Pool| {
            let profile = pool.spec.as_ref().ok().and_then(|spec| spec.profile.as_ref());
            profile.is_some_and(|profile| given.profiles.contains_key(profile))
        };
        preview.retain_changed(&before, |name| {
            given.pools.contains_key(name) || snapshot.pools.get(name).is_some_and(|pool| has_given_profile(pool))
        });
    }
    drop(progress);
    output::report(format, &preview, text::text, preview.summary())
}

/// The objects of a cluster, and the configuration of kube-proxy in the pods of its Windows nodes.
async fn read_cluster(cluster: &connect::Args, namespace: &str) -> Result<(Snapshot, PresentKubeProxy), CommandError> {
    let progress = Progress::start("reading the cluster", "request");
    let client = progress.counting(cluster.client().await?);
    if let Ok(Some(problem)) = cluster::problem_of_definitions(&client).await {
        input::note(&format!("{problem}: {}", cluster::DEFINITIONS_REMEDY));
    }
    let snapshot = workloads::snapshot(&client, namespace).await?;
    let snapshot =
        workloads::added(&client, snapshot, "new taints are planned without a check that pods tolerate them").await;
    let kube_proxy = cluster::read_kube_proxy(&client).await;
    drop(progress);
    let snapshot = match cluster::read_key(&client, namespace).await {
        Ok(key) => Snapshot { ownership: Arc::new(Ownership::signed(key)), ..snapshot },
        Err(error) => {
            if snapshot.nodes.values().any(|node| node.owned.is_some()) {
                input::note(&format!("the ownership records of nodes are not verified: {error}"));
            }
            snapshot
        }
    };
    Ok((snapshot, kube_proxy))
}

/// Replaces stored resources by those in the files, as `kubectl apply` would.
fn apply(snapshot: &mut Snapshot, given: &ManifestSet) {
    for (name, (pool, _)) in &given.pools {
        let applied = match snapshot.pools.get(name) {
            Some(stored) => applied_pool(stored, pool),
            None => Pool { generation: 1, created: Some(snapshot.now), ..pool.as_ref().clone() },
        };
        snapshot.pools.insert(applied);
    }
    for (name, (profile, _)) in &given.profiles {
        let applied = match snapshot.profiles.get(name) {
            Some(stored) => ProfileView {
                generation: stored.generation + i64::from(stored.profile != profile.profile),
                profile: profile.profile.clone(),
                ..stored.as_ref().clone()
            },
            None => ProfileView { generation: 1, ..profile.as_ref().clone() },
        };
        snapshot.profiles.insert(applied);
    }
}

fn applied_pool(stored: &Pool, given: &Pool) -> Pool {
    Pool {
        generation: stored.generation + i64::from(stored.spec != given.spec),
        spec: given.spec.clone(),
        consents: given.consents.or(&stored.consents),
        ..stored.clone()
    }
}

#[cfg(test)]
mod tests {
    use kube::core::DynamicObject;
    use serde_json::json;
    use winpool_rules::pool::Consent;

    use super::*;

    fn pool(version: &str, allow: Option<&str>) -> Pool {
        let object = json!({
            "metadata": {"name": "web", "annotations": allow.map(|text| json!({"winpool.dev/allow-strand": text}))},
            "spec": {"windowsVersion": version, "fallback": true},
        });
        Pool::from_object(serde_json::from_value::<DynamicObject>(object).unwrap())
    }

    #[test]
    fn an_applied_pool_replaces_the_stored_one_as_its_next_generation() {
        let stored = Pool { generation: 7, uid: "u".into(), ..pool("ltsc2019", Some("ltsc2019")) };
        let same = applied_pool(&stored, &pool("ltsc2019", None));
        assert_eq!(same, stored);
        let other = applied_pool(&stored, &pool("ltsc2022", Some("ltsc2022")));
        assert_eq!((other.generation, other.uid.as_str()), (8, "u"));
        assert!(
            other.consents.allow(Consent::Strand("ltsc2022")) && !other.consents.allow(Consent::Strand("ltsc2019"))
        );
        assert_eq!(other.spec, pool("ltsc2022", None).spec);
    }
}

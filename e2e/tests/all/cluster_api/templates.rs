//! Templates: what they are made from, and when they are removed.

use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{cluster::SOON, wait::until};
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::{BASE, DEPLOYMENT, Fixture, POOL};

/// The templates of the pool.
async fn templates(fixture: &Fixture) -> anyhow::Result<Vec<String>> {
    let names = fixture.machines.names("KubeadmConfigTemplate").await?;
    Ok(names.into_iter().filter(|name| name != BASE).collect())
}

#[tokio::test]
async fn a_changed_base_or_profile_results_in_a_new_template_and_old_ones_are_removed() {
    let fixture = Fixture::start().await;
    fixture.apply_pool(json!({})).await;
    fixture.until("True", "RotationPending").await;
    let first = fixture.group().await.template;
    fixture.machines.refer(DEPLOYMENT, &first).await.unwrap();
    fixture.machines.roll_out(DEPLOYMENT, ["a", "b"], "2.2.1").await.unwrap();

    let patch = json!({"spec": {"template": {"spec": {"preKubeadmCommands": ["echo changed"]}}}});
    fixture.machines.edit("KubeadmConfigTemplate", BASE, "team", &patch).await.unwrap();
    let changed = async || Ok(fixture.group().await.template);
    let second = until("another template", SOON, changed, |name| *name != first).await.unwrap();
    let stored = fixture.machines.api("KubeadmConfigTemplate").get(&second).await.unwrap();
    assert_eq!(stored.data["spec"]["template"]["spec"]["preKubeadmCommands"][0], "echo changed");

    let mut unused = vec![(stored.metadata.creation_timestamp, second)];
    for max_pods in [50, 51, 52, 53, 54, 55] {
        let before = fixture.group().await.template;
        fixture.apply_profile(max_pods).await;
        let name = until("another template", SOON, changed, |name| *name != before).await.unwrap();
        let stored = fixture.machines.api("KubeadmConfigTemplate").get(&name).await.unwrap();
        unused.push((stored.metadata.creation_timestamp, name));
    }
    // The one that machines need, the current one with that of the next minor, and three unused ones.
    let (_, current) = unused.pop().unwrap();
    let kept =
        until("old templates are removed", SOON, || templates(&fixture), |names| names.len() <= 6).await.unwrap();
    assert!(kept.contains(&first) && kept.contains(&current), "{kept:?}");
    // The time of a creation has no fractions of a second, so templates of one second have no order.
    let (kept, removed): (Vec<_>, Vec<_>) = unused.into_iter().partition(|(_, name)| kept.contains(name));
    assert!(!removed.is_empty());
    assert!(removed.iter().all(|(time, _)| kept.iter().all(|(other, _)| time <= other)), "{kept:?}");
    fixture.stop().await;
}

#[tokio::test]
async fn the_template_for_the_next_minor_exists_before_the_machines_are_upgraded() {
    let fixture = Fixture::start().await;
    // From 1.31 on the kubelet has other defaults for evictions.
    let patch = json!({"spec": {"template": {"spec": {"version": "v1.30.4"}}}});
    fixture.machines.edit("MachineDeployment", DEPLOYMENT, "gitops", &patch).await.unwrap();
    fixture.apply_pool(json!({})).await;
    fixture.until("True", "RotationPending").await;
    let group = fixture.group().await;
    let next = group.next.clone().unwrap();
    assert_eq!((group.kubernetes.as_str(), next.kubernetes.as_str()), ("1.30", "1.31"));
    assert!(templates(&fixture).await.unwrap().contains(&next.template));
    assert_ne!(group.template, next.template);

    // One change of both.
    let patch = json!({"spec": {"template": {"spec": {
        "version": "v1.31.1", "bootstrap": {"configRef": {"name": next.template}},
    }}}});
    fixture.machines.edit("MachineDeployment", DEPLOYMENT, "gitops", &patch).await.unwrap();
    fixture.until("True", "UpToDate").await;
    assert_eq!(fixture.group().await.template, next.template);
    fixture.stop().await;
}

/// The spec of a profile with a file of this letter that is longer than 10,240 characters, because content with a delimiter of
/// Jinja is encoded.
pub fn large_files(letter: &str) -> Value {
    let extra = format!("[timeouts]\n\"{{{{ x }}}}{}\" = \"5s\"\n", letter.repeat(7900));
    json!({"containerd": {"extraConfig": extra}})
}

#[tokio::test]
async fn large_files_are_in_a_secret_that_goes_with_its_template() {
    let fixture = Fixture::start().await;
    fixture.cluster.apply_profile("standard", large_files("x")).await.unwrap();
    fixture.apply_pool(json!({})).await;
    fixture.until("True", "RotationPending").await;
    let template = fixture.group().await.template;
    let (secrets, name) = (fixture.cluster.namespaced::<Secret>("default"), format!("{template}-files"));
    let data = secrets.get(&name).await.unwrap().data.unwrap();
    let content = STANDARD.decode(&data["Program-Files-containerd-conf.d-50-winpool.toml"].0).unwrap();
    assert!(String::from_utf8(content).unwrap().contains("\"{{ x }}xxx"));
    let stored = fixture.machines.api("KubeadmConfigTemplate").get(&template).await.unwrap();
    let files = stored.data["spec"]["template"]["spec"]["files"].as_array().unwrap().clone();
    let secret = json!({"name": name, "key": "Program-Files-containerd-conf.d-50-winpool.toml"});
    assert!(files.iter().any(|file| file["contentFrom"]["secret"] == secret), "{files:?}");

    let cleanup = json!({"deletionPolicy": "Cleanup"});
    fixture.cluster.edit_pool(POOL, json!({"spec": cleanup})).await.unwrap();
    fixture.cluster.pools().delete(POOL, &DeleteParams::default()).await.unwrap();
    fixture.cluster.until_pool_gone(POOL).await.unwrap();
    assert_eq!(templates(&fixture).await.unwrap(), [""; 0]);
    assert_eq!(secrets.get_opt(&name).await.unwrap(), None);
    fixture.stop().await;
}

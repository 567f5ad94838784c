//! Servers are used again by a later test, because it takes seconds to start them: the objects that a test has changed are restored
//! in etcd, from which the API server learns of it as of every other change.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{
    database::{Database, Revision, Stored},
    servers::Servers,
};
use crate::{progress::say, requests::Requests, users::User, wait::eventually};

/// How often what a test has left is restored, while a program that it started still ends.
const ATTEMPTS: u32 = 20;
const FRESH: Duration = Duration::from_secs(120);

/// The kinds that can be restored: etcd's name, and the path of the API. Whatever else a test changes (definitions, webhooks,
/// quotas) may be in effect for a while after it was restored.
const BUILT_IN: [(&str, &str); 22] = [
    ("configmaps", "/api/v1/configmaps"),
    ("controllerrevisions", "/apis/apps/v1/controllerrevisions"),
    ("daemonsets", "/apis/apps/v1/daemonsets"),
    ("deployments", "/apis/apps/v1/deployments"),
    ("endpointslices", "/apis/discovery.k8s.io/v1/endpointslices"),
    ("events", "/api/v1/events"),
    ("ipaddresses", "/apis/networking.k8s.io/v1/ipaddresses"),
    ("jobs", "/apis/batch/v1/jobs"),
    ("leases", "/apis/coordination.k8s.io/v1/leases"),
    ("limitranges", "/api/v1/limitranges"),
    ("minions", "/api/v1/nodes"),
    ("namespaces", "/api/v1/namespaces"),
    ("poddisruptionbudgets", "/apis/policy/v1/poddisruptionbudgets"),
    ("pods", "/api/v1/pods"),
    ("replicasets", "/apis/apps/v1/replicasets"),
    ("runtimeclasses", "/apis/node.k8s.io/v1/runtimeclasses"),
    ("secrets", "/api/v1/secrets"),
    ("serviceaccounts", "/api/v1/serviceaccounts"),
    ("servicecidrs", "/apis/networking.k8s.io/v1/servicecidrs"),
    ("services/endpoints", "/api/v1/endpoints"),
    ("services/specs", "/api/v1/services"),
    ("statefulsets", "/apis/apps/v1/statefulsets"),
];
/// Groups of CustomResourceDefinitions that the tests install.
const CUSTOM: [&str; 4] =
    ["bootstrap.cluster.x-k8s.io", "cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io", "winpool.dev"];
/// The kinds of permissions, by the names that etcd and the API have for them.
const PERMISSIONS: [&str; 4] = ["clusterrolebindings", "clusterroles", "rolebindings", "roles"];
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// The objects of servers before a test.
#[derive(Debug)]
pub(super) struct Baseline(BTreeMap<String, Stored>);

impl Baseline {
    pub(super) async fn read(servers: &Servers) -> Result<Self> {
        Ok(Self(Database::new(&servers.etcd_url())?.read().await?))
    }

    /// Restores the objects in servers that no test uses any more, and returns them; `None` if a test has changed more than
    /// objects.
    pub(super) async fn restore(mut self, servers: &Servers) -> Result<Option<Self>> {
        if !servers.is_running().await {
            return Ok(None);
        }
        let database = Database::new(&servers.etcd_url())?;
        let api = Requests::new(servers.client(User::Admin).await?);
        for _ in 0..ATTEMPTS {
            let changes = self.changes(&database.revisions().await?);
            if changes.is_empty() {
                servers.forget_requests();
                return Ok(Some(self));
            }
            let Some(kinds) = changes.keys().map(|key| kind_of(key)).collect::<Option<BTreeSet<_>>>() else {
                return Ok(None);
            };
            let revision = database.write(&changes).await?;
            let written: Vec<String> = changes.into_keys().collect();
            for key in written {
                self.0.entry(key).and_modify(|stored| stored.revision = revision);
            }
            if kinds.contains(&Kind::Permission) {
                until_in_effect(&api, revision).await?;
            }
            for kind in kinds {
                until_fresh(&api, &kind, revision).await?;
            }
        }
        say(format_args!("{}: objects are still being changed after the end of a test", servers.directory().display()));
        Ok(None)
    }

    /// What has to be written to restore the objects; `None` stands for an object that is new.
    fn changes(&self, now: &BTreeMap<String, Revision>) -> BTreeMap<String, Option<&Stored>> {
        let restored = self.0.iter().filter(|(key, stored)| now.get(*key) != Some(&stored.revision));
        let new = now.keys().filter(|key| !self.0.contains_key(*key));
        restored.map(|(key, stored)| (key.clone(), Some(stored))).chain(new.map(|key| (key.clone(), None))).collect()
    }
}

/// A kind of objects, as the API server serves it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Permission,
    /// The addresses and ports of Services that are taken, which servers before 1.33 keep without an API.
    Allocation,
    BuiltIn(&'static str),
    /// Group and resource.
    OfGroup(&'static str, String),
}

/// The kind of the object under a key, `/registry/<name>/…` or `/registry/<group>/<resource>/…`, if it can be restored.
fn kind_of(key: &str) -> Option<Kind> {
    let key = key.strip_prefix("/registry/")?;
    let below = |name: &str| key.strip_prefix(name)?.strip_prefix('/');
    if let Some((_, path)) = BUILT_IN.iter().find(|(name, _)| below(name).is_some()) {
        return Some(Kind::BuiltIn(path));
    }
    if PERMISSIONS.iter().any(|name| below(name).is_some()) {
        return Some(Kind::Permission);
    }
    if below("ranges").is_some() {
        return Some(Kind::Allocation);
    }
    let of_custom = |group| Some(Kind::OfGroup(group, below(group)?.split('/').next()?.to_owned()));
    CUSTOM.into_iter().find_map(of_custom)
}

/// Waits until what the API server answers from its cache is as new as this revision.
async fn until_fresh(api: &Requests, kind: &Kind, revision: Revision) -> Result<()> {
    let path = match kind {
        Kind::Permission | Kind::Allocation => return Ok(()),
        Kind::BuiltIn(path) => (*path).to_owned(),
        Kind::OfGroup(group, resource) => {
            let (_, body) = api.get(&format!("/apis/{group}")).await?;
            let version =
                body["preferredVersion"]["groupVersion"].as_str().with_context(|| format!("{group}: {body}"))?;
            format!("/apis/{version}/{resource}")
        }
    };
    let list = format!("{path}?resourceVersion={revision}");
    let fresh = || async {
        let (status, body) = api.get(&list).await?;
        ensure!(status == 200, "{list}: {status}: {}", body["message"]);
        Ok(())
    };
    eventually("the API server has the restored objects", FRESH, fresh).await
}

/// Waits until the API server decides by permissions that are as new as those that were restored: it reads each of the four kinds in
/// the order of its changes, so that later ones of a user that does not exist show it.
async fn until_in_effect(api: &Requests, revision: Revision) -> Result<()> {
    const NAMESPACED: &str = "/namespaces/default";
    let name = format!("restored-{revision}");
    let rules = json!([{"apiGroups": [""], "resources": [name], "verbs": ["get"]}]);
    for (place, role, namespace) in [("", "ClusterRole", Value::Null), (NAMESPACED, "Role", json!("default"))] {
        let path = format!("{RBAC}{place}/{}s", role.to_lowercase());
        let bindings = format!("{RBAC}{place}/{}bindings", role.to_lowercase());
        let user = format!("{name}-{role}");
        let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user});
        let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name});
        let metadata = json!({"name": name});
        let objects = [
            (&path, json!({"metadata": metadata, "rules": rules})),
            (&bindings, json!({"metadata": metadata, "subjects": [subject], "roleRef": reference})),
        ];
        for (path, object) in &objects {
            let (status, body) = api.create(path, object).await?;
            ensure!(status == 201, "{path}: {status}: {}", body["message"]);
        }
        let attributes = json!({"resource": name, "verb": "get", "namespace": namespace});
        let in_effect = || async {
            ensure!(api.allows(&user, &attributes).await?, "{user} has no permission");
            Ok(())
        };
        eventually("the restored permissions are in effect", FRESH, in_effect).await?;
        for (path, _) in &objects {
            let (status, body) = api.delete(&format!("{path}/{name}")).await?;
            ensure!(status == 200, "{path}: {status}: {}", body["message"]);
        }
    }
    Ok(())
}

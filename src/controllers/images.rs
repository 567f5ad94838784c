//! What registries say of the images that pods wait for.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::sync::mpsc::UnboundedSender;
use tracing::debug;

use super::workloads::News;
use crate::{
    domain::{
        image::Lookup,
        pool::Snapshot,
        workload::{Ledger, Want},
    },
    registry::{Credentials, Lookups, Registry, Wanted},
};

/// How many images are remembered.
const MOST: usize = 20_000;
/// Where a Secret has the logins of registries: the type of today, and the one before it.
const DOCKER_CONFIG: [&str; 2] = [".dockerconfigjson", ".dockercfg"];

/// Asks registries for the images that the ledger wants, if anybody may.
pub struct Images {
    lookups: Option<Lookups>,
    /// The way to pull secrets, if they are used.
    secrets: Option<Client>,
    /// What was asked for, by the image as pods write it.
    asked: BTreeMap<String, Wanted>,
}

impl Images {
    /// Asks through this client of registries; answers are news.
    pub fn new(registry: Option<Registry>, secrets: Option<Client>, news: UnboundedSender<News>) -> Self {
        let answered = move |_: &_| {
            // After the end nobody listens, and nothing is to be done.
            let _ = news.send(News::Answer);
        };
        let lookups = registry.map(|registry| Lookups::new(Arc::new(registry), MOST, answered));
        Self { lookups, secrets, asked: BTreeMap::new() }
    }

    /// Whether pods wait for what registries say.
    pub fn are_wanted(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Asks for what the ledger wants, and tells it what is known.
    pub async fn look_up(&mut self, ledger: &mut Ledger, snapshot: &Snapshot) {
        let Some(lookups) = &self.lookups else { return };
        let wants: Vec<Want> = ledger.wants().collect();
        self.asked.retain(|image, _| wants.iter().any(|want| want.image == *image));
        let mut answers: Vec<(String, Arc<Lookup>)> = Vec::new();
        for want in wants {
            if !self.asked.contains_key(&want.image)
                && let Some(wanted) = wanted(&want, snapshot, self.secrets.as_ref()).await
            {
                self.asked.insert(want.image.clone(), wanted);
            }
            let Some(wanted) = self.asked.get(&want.image) else { continue };
            lookups.want([wanted.clone()]);
            answers.extend(lookups.get(wanted).map(|lookup| (want.image, lookup)));
        }
        for (image, lookup) in answers {
            ledger.answer(&image, lookup);
        }
        ledger.forget_answers();
    }
}

/// What is asked for an image that a pod wants, with the logins that the pod has; `None` if that is no image.
async fn wanted(want: &Want, snapshot: &Snapshot, secrets: Option<&Client>) -> Option<Wanted> {
    let image: crate::domain::image::Reference = want.image.parse().ok()?;
    let mirrors = snapshot.mirrors(&want.pool, image.registry());
    let credentials = match secrets {
        Some(client) if !want.pull_secrets.is_empty() => read(client, &want.namespace, &want.pull_secrets).await,
        _ => None,
    };
    Some(Wanted::new(image, mirrors, credentials.map(Arc::new)))
}

/// The logins in these Secrets. One that cannot be read has none.
async fn read(client: &Client, namespace: &str, names: &[String]) -> Option<Credentials> {
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    let mut all: Option<Credentials> = None;
    for name in names {
        let secret = match secrets.get(name).await {
            Ok(secret) => secret,
            Err(error) => {
                debug!(namespace, name, %error, "a pull secret cannot be read");
                continue;
            }
        };
        let data = secret.data.unwrap_or_default();
        let files = DOCKER_CONFIG.into_iter().filter_map(|key| data.get(key));
        for credentials in files.filter_map(|file| Credentials::parse(&file.0).ok()) {
            match &mut all {
                Some(all) => all.extend(credentials),
                None => all = Some(credentials),
            }
        }
    }
    all
}

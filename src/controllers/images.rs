//! What registries say of the images that pods wait for.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::time::Instant;
use tracing::debug;

use super::changes::Changes;
use crate::{
    cluster::Caches,
    domain::{
        image::{Lookup, Reference},
        pool::Snapshot,
        workload::{Ledger, Want},
    },
    registry::{Credentials, Lookups, Registry, Wanted},
};

/// How many images are remembered.
const MOST: usize = 20_000;
/// How long a failure stands before the Secrets are read again: somebody may have mended them, or allowed it.
const MENDED: Duration = Duration::from_secs(60);
/// Where a Secret has the logins of registries: the type of today, and the one before it.
const DOCKER_CONFIG: [&str; 2] = [".dockerconfigjson", ".dockercfg"];

/// Asks registries for the images that the ledger wants, if anybody may.
pub struct Images {
    lookups: Option<Lookups>,
    /// The way to pull secrets, if they are used.
    secrets: Option<Client>,
    /// What was asked for, by the image as pods write it: the ways that were tried.
    asked: BTreeMap<String, Vec<Asked>>,
}

/// A way to ask for an image.
struct Asked {
    source: Source,
    wanted: Wanted,
    /// When the Secrets were read.
    read: Instant,
}

/// Where an image is asked for, and as whom.
#[derive(PartialEq, Eq)]
struct Source {
    mirrors: Arc<[String]>,
    /// The Secrets that are read, in this namespace.
    namespace: String,
    secrets: Vec<String>,
}

impl Images {
    /// Asks through this client of registries. An answer wakes who takes the changes: every round takes what is known.
    pub fn new(registry: Option<Arc<Registry>>, secrets: Option<Client>, changes: Changes) -> Self {
        let lookups = registry.map(|registry| Lookups::new(registry, MOST, move |_: &_| changes.wake()));
        Self { lookups, secrets, asked: BTreeMap::new() }
    }

    /// Whether pods wait for what registries say.
    pub fn are_wanted(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Asks for what the ledger wants, and tells it what is known.
    pub async fn look_up(&mut self, ledger: &mut Ledger, caches: &Caches) {
        let Some(lookups) = &self.lookups else { return };
        let wants: BTreeMap<String, Vec<Want>> =
            ledger.wants().map(|(image, wants)| (image.to_owned(), wants)).collect();
        self.asked.retain(|image, _| wants.contains_key(image));
        if wants.is_empty() {
            return ledger.forget_answers();
        }
        let snapshot = caches.snapshot();
        let mut secrets = Secrets { client: self.secrets.as_ref(), read: HashMap::new() };
        for (image, wants) in wants {
            let Ok(reference) = image.parse::<Reference>() else { continue };
            let mut sources: Vec<Source> = Vec::new();
            for want in wants {
                let source = Source::of(&want, &reference, &snapshot, secrets.client.is_some());
                if !sources.contains(&source) {
                    sources.push(source);
                }
            }
            let asked = self.asked.entry(image.clone()).or_default();
            asked.retain(|asked| sources.contains(&asked.source));
            if let Some(answer) = ask(lookups, asked, &reference, sources, &mut secrets).await {
                ledger.answer(&image, answer);
            }
        }
        ledger.forget_answers();
    }
}

/// Asks in one way after the other, until a registry shows the image to somebody; else what the first was told. `None` while
/// an answer is on its way.
async fn ask(
    lookups: &Lookups,
    asked: &mut Vec<Asked>,
    image: &Reference,
    sources: Vec<Source>,
    secrets: &mut Secrets<'_>,
) -> Option<Arc<Lookup>> {
    let mut answer = None;
    for source in sources {
        let known = asked.iter().position(|asked| asked.source == source);
        if known.is_none_or(|known| asked[known].is_due(lookups)) {
            let credentials = secrets.logins(&source).await.map(Arc::new);
            let wanted = Wanted::new(image.clone(), source.mirrors.clone(), credentials);
            let now = Asked { source, wanted, read: Instant::now() };
            match known {
                Some(known) => asked[known] = now,
                None => asked.push(now),
            }
        }
        let Asked { wanted, .. } = &asked[known.unwrap_or(asked.len() - 1)];
        lookups.want([wanted.clone()]);
        let lookup = lookups.get(wanted)?;
        if matches!(*lookup, Lookup::Found(_)) {
            return Some(lookup);
        }
        answer.get_or_insert(lookup);
    }
    answer
}

impl Source {
    fn of(want: &Want, image: &Reference, snapshot: &Snapshot, reads_secrets: bool) -> Self {
        let mirrors = want.pool.as_ref().map(|pool| snapshot.mirrors(pool, image.registry())).unwrap_or_default();
        match reads_secrets && !want.pull_secrets.is_empty() {
            true => Self { mirrors, namespace: want.namespace.clone(), secrets: want.pull_secrets.clone() },
            false => Self { mirrors, namespace: String::new(), secrets: Vec::new() },
        }
    }
}

impl Asked {
    /// Whether the Secrets should be read again.
    fn is_due(&self, lookups: &Lookups) -> bool {
        let failed = || matches!(lookups.get(&self.wanted).as_deref(), Some(Lookup::Failed(_)));
        !self.source.secrets.is_empty() && self.read.elapsed() >= MENDED && failed()
    }
}

/// Pull secrets, each read once in a round and by its name.
struct Secrets<'c> {
    client: Option<&'c Client>,
    read: HashMap<(String, String), Option<Credentials>>,
}

impl Secrets<'_> {
    /// The logins in the Secrets of a source. One that cannot be read has none.
    async fn logins(&mut self, source: &Source) -> Option<Credentials> {
        let mut all: Option<Credentials> = None;
        for name in &source.secrets {
            let Some(credentials) = self.secret(&source.namespace, name).await else { continue };
            match &mut all {
                Some(all) => all.extend(credentials),
                None => all = Some(credentials),
            }
        }
        all
    }

    async fn secret(&mut self, namespace: &str, name: &str) -> Option<Credentials> {
        let key = (namespace.to_owned(), name.to_owned());
        if let Some(known) = self.read.get(&key) {
            return known.clone();
        }
        let credentials = read(self.client?, namespace, name).await;
        self.read.insert(key, credentials.clone());
        credentials
    }
}

/// The logins in a Secret.
async fn read(client: &Client, namespace: &str, name: &str) -> Option<Credentials> {
    let found = Api::<Secret>::namespaced(client.clone(), namespace).get(name).await;
    let secret = found.inspect_err(|error| debug!(namespace, name, %error, "a pull secret cannot be read")).ok()?;
    let data = secret.data.unwrap_or_default();
    let files = DOCKER_CONFIG.into_iter().filter_map(|key| data.get(key));
    files.filter_map(|file| Credentials::parse(&file.0).ok()).reduce(|mut all, more| {
        all.extend(more);
        all
    })
}

//! Creates the objects of a verification, observes its pods, and removes the objects.

#![allow(clippy::disallowed_types)] // writes: only objects of its own, which it removes

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Pod, Service},
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, ListParams, LogParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use winpool_api::names::label;
use winpool_check::verify::{Check, CheckResult, LOGS_AND_EXEC, LogRead, Outcome, Verification, verdicts};
use winpool_operator::cluster::{explain, limited, status_code};

use crate::{CommandError, progress::Progress, signals::Signals};

/// The time between two reads of the pods.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long the API server may take to read a log from a kubelet.
const LOG_LIMIT: Duration = Duration::from_secs(5);
/// How long the garbage collector may take at the end.
const REMOVAL: Duration = Duration::from_secs(30);

pub struct Run<'v> {
    verification: &'v Verification,
    jobs: Api<Job>,
    services: Api<Service>,
    pods: Api<Pod>,
    listed: ListParams,
    deadline: Instant,
}

impl<'v> Run<'v> {
    pub fn new(client: Client, verification: &'v Verification) -> Self {
        let namespace = verification.namespace.as_str();
        Self {
            jobs: Api::namespaced(client.clone(), namespace),
            services: Api::namespaced(client.clone(), namespace),
            pods: Api::namespaced(client, namespace),
            listed: ListParams::default().labels(&verification.selector()),
            deadline: Instant::now() + Duration::from_secs(verification.limit),
            verification,
        }
    }

    /// The results, after everything that was created is removed.
    pub async fn results(&self) -> Result<Vec<CheckResult>, CommandError> {
        let mut signals = Signals::listen()?;
        let owner = create(&self.jobs, self.verification.server_job()).await.map_err(|error| self.failure(&error))?;
        let results = tokio::select! {
            results = self.checked(owner.metadata.uid.as_deref()) => results,
            signal = signals.next() => Err(CommandError::Problems(format!("received {signal}, so not all checks have ended"))),
        };
        let removed = self.remove(owner.metadata.name.as_deref().unwrap_or_default()).await;
        results.and_then(|results| removed.map(|()| results))
    }

    async fn checked(&self, owner: Option<&str>) -> Result<Vec<CheckResult>, CommandError> {
        let progress = Progress::start("running the checks", "look");
        let addresses = self.addresses(&progress).await?;
        if addresses.iter().all(Option::is_none) {
            let results = verdicts(self.verification, &self.list().await?, &BTreeMap::new());
            return Ok(results.into_iter().filter(|result| result.check == Check::PodsRun.name()).collect());
        }
        for object in self.verification.other_objects(&addresses, owner) {
            let created = match object["kind"].as_str() {
                Some("Service") => create(&self.services, object).await.map(drop),
                _ => create(&self.jobs, object).await.map(drop),
            };
            created.map_err(|error| self.failure(&error))?;
        }
        let mut logs = BTreeMap::new();
        loop {
            let pods = self.list().await?;
            self.read_logs(&pods, &mut logs).await;
            let results = verdicts(self.verification, &pods, &logs);
            let is_done = results.iter().all(|result| result.outcome != Outcome::NotDetermined);
            if is_done || Instant::now() >= self.deadline {
                return Ok(results);
            }
            progress.add_one();
            sleep(INTERVAL).await;
        }
    }

    /// The addresses of the servers, once all have one and run, or half of the time has passed.
    async fn addresses(&self, progress: &Progress) -> Result<Vec<Option<String>>, CommandError> {
        let until = Instant::now() + (self.deadline - Instant::now()) / 2;
        loop {
            let mut addresses = vec![None; self.verification.server_count()];
            for pod in self.list().await? {
                let annotations = pod.metadata.annotations.unwrap_or_default();
                let index =
                    annotations.get("batch.kubernetes.io/job-completion-index").and_then(|text| text.parse().ok());
                let status = pod.status.filter(|status| status.phase.as_deref() == Some("Running"));
                let slot = index.and_then(|index: usize| addresses.get_mut(index));
                if let (Some(slot), Some(status)) = (slot, status) {
                    *slot = status.pod_ip;
                }
            }
            if addresses.iter().all(Option::is_some) || Instant::now() >= until {
                return Ok(addresses);
            }
            progress.add_one();
            sleep(INTERVAL).await;
        }
    }

    async fn list(&self) -> Result<Vec<Pod>, CommandError> {
        let list = self.pods.list(&self.listed).await;
        Ok(list.map_err(|error| CommandError::Cluster(format!("cannot list pods: {}", explain(&error))))?.items)
    }

    /// Reads the end of the log of each pod whose log is checked, until it has been read.
    async fn read_logs(&self, pods: &[Pod], logs: &mut BTreeMap<String, LogRead>) {
        let params = LogParams { tail_lines: Some(5), limit_bytes: Some(4096), ..LogParams::default() };
        let names = pods.iter().filter(|pod| has_log(pod)).filter_map(|pod| pod.metadata.name.clone());
        let unread = names.filter(|name| !matches!(logs.get(name), Some(LogRead::Text(text)) if !text.is_empty()));
        let reads = unread.map(async |name| {
            let read = limited(LOG_LIMIT, self.pods.logs(&name, &params)).await;
            (name, read)
        });
        for (name, read) in join_all(reads.collect::<Vec<_>>()).await {
            let failures = if let Some(LogRead::Failed(times, _)) = logs.get(&name) { *times } else { 0 };
            logs.insert(name, read.map_or_else(|why| LogRead::Failed(failures + 1, why), LogRead::Text));
        }
    }

    /// Deletes the Job of the servers, and waits until the garbage collector has deleted what it owns.
    async fn remove(&self, owner: &str) -> Result<(), CommandError> {
        match self.jobs.delete(owner, &DeleteParams::background()).await {
            Err(error) if status_code(&error) != Some(404) => return Err(self.left(&explain(&error))),
            _ => {}
        }
        let until = Instant::now() + REMOVAL;
        loop {
            let left = (self.jobs.list_metadata(&self.listed).await, self.services.list_metadata(&self.listed).await);
            match left {
                (Ok(jobs), Ok(services)) if jobs.items.is_empty() && services.items.is_empty() => return Ok(()),
                _ if Instant::now() >= until => return Err(self.left("the garbage collector has not deleted them")),
                _ => sleep(INTERVAL).await,
            }
        }
    }

    fn left(&self, why: &str) -> CommandError {
        CommandError::Cluster(format!("not everything is removed: {why}. Run {}", self.removal()))
    }

    fn removal(&self) -> String {
        format!("kubectl -n {} delete jobs,services -l {}", self.verification.namespace, self.verification.selector())
    }

    fn failure(&self, error: &kube::Error) -> CommandError {
        let why = explain(error);
        match status_code(error) {
            Some(409) => CommandError::Problems(format!(
                "{why}: another verification runs, or one was killed. Remove its objects: {}",
                self.removal()
            )),
            Some(422) => CommandError::Usage(format!("{why}. Correct the option, such as --node-port")),
            _ => CommandError::Cluster(format!("cannot create what the checks need: {why}")),
        }
    }
}

/// Whether a pod runs whose log is checked.
fn has_log(pod: &Pod) -> bool {
    let is_checked = |(key, value): (&String, &String)| key == label::PROBE && value == LOGS_AND_EXEC;
    let runs = pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"));
    runs && pod.metadata.labels.iter().flatten().any(is_checked)
}

async fn create<K>(api: &Api<K>, object: Value) -> kube::Result<K>
where
    K: Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
    api.create(&PostParams::default(), &object).await
}

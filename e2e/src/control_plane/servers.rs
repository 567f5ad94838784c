//! The processes of a control plane, with their files.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, ensure};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use tokio::sync::Mutex;

use super::Options;
use crate::{
    assets::{Assets, Version},
    audit::{self, Request, Stored},
    certificates::Authority,
    directory::Directory,
    network::{self, free_port},
    process::{self, Process},
    progress::say,
    requests::Requests,
    shared::lock,
    users::User,
    wait::eventually,
};

const START_TIMEOUT: Duration = Duration::from_secs(300);
/// So long that the node lifecycle controller never marks a simulated node, which renews no Lease, as unknown. Taints
/// for conditions and evictions still work.
const NODE_GRACE: &str = "24h";

/// Whether the API server is ready, apart from what it creates when it starts for the first time: it waits for a second before it
/// looks whether that exists (`storage_rbac.go` and `storage_scheduling.go` in kubernetes, `pkg/registry`).
const READY: &str = "/readyz?exclude=poststarthook/rbac/bootstrap-roles\
                     &exclude=poststarthook/scheduling/bootstrap-system-priority-classes";
/// Whether it is ready, and has created everything.
const COMPLETE: &str = "/readyz";

/// The running servers. Dropping them ends their processes and removes their files. If their test fails or `WINPOOL_KEEP` is set,
/// the files are kept and their folder is printed to standard error.
#[derive(Debug)]
pub struct Servers {
    assets: &'static Assets,
    pub(super) options: Options,
    etcd_port: u16,
    port: u16,
    api_server: Mutex<Option<Process>>,
    /// When the API server was started, and when it was ready.
    starts: std::sync::Mutex<Vec<(Timestamp, Timestamp)>>,
    /// Requests that the API server received before are of a former test.
    since: std::sync::Mutex<Timestamp>,
    audit: std::sync::Mutex<audit::Reader>,
    etcd: Mutex<Option<Process>>,
    components: std::sync::Mutex<Vec<Process>>,
    /// With the option `bootstrap`: it signs the certificates of kubelets.
    pub clients: Option<Authority>,
    directory: Directory,
}

impl Servers {
    /// Starts them, with a copy of `database` if there is one, and waits until they answer.
    pub(super) async fn start(options: Options, database: Option<&Path>) -> Result<Self> {
        let assets = Assets::locate()?;
        let directory = Directory::new()?;
        let port = free_port()?;
        let clients = options.bootstrap.then(Authority::new).transpose()?;
        let mut servers = Self {
            assets,
            options,
            etcd_port: 0,
            port,
            api_server: Mutex::new(None),
            starts: std::sync::Mutex::default(),
            since: std::sync::Mutex::new(Timestamp::now()),
            audit: std::sync::Mutex::default(),
            etcd: Mutex::new(None),
            components: std::sync::Mutex::default(),
            clients,
            directory,
        };
        servers.write_files()?;
        if let Some(database) = database {
            // With the certificate of the server, which takes time to make.
            copy(database, servers.directory())?;
        }
        servers.start_first_etcd().await?;
        servers.start_api_server().await?;
        if database.is_none() {
            let client = servers.client(User::Admin).await?;
            eventually("the API server has created its objects", START_TIMEOUT, || get(&client, COMPLETE)).await?;
        }
        Ok(servers)
    }

    /// A new client for `user`. It belongs to the async runtime in which it is created.
    pub async fn client(&self, user: User) -> Result<Client> {
        Ok(Client::try_from(self.config(user).await?)?)
    }

    /// A new client that acts as any other user, by impersonation.
    pub async fn client_as(&self, user: &str, groups: &[&str]) -> Result<Client> {
        let mut config = self.config(User::Admin).await?;
        config.auth_info.impersonate = Some(user.to_owned());
        config.auth_info.impersonate_groups = Some(groups.iter().map(ToString::to_string).collect());
        Ok(Client::try_from(config)?)
    }

    pub async fn config(&self, user: User) -> Result<Config> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig(user))?;
        Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
    }

    pub fn kubeconfig(&self, user: User) -> PathBuf {
        self.path(&format!("{}.kubeconfig", user.short_name()))
    }

    /// The text of a kubeconfig that acts as the kubelet of a node, by impersonation.
    pub fn kubelet_kubeconfig(&self, node: &str) -> Result<String> {
        let text = fs::read_to_string(self.kubeconfig(User::Admin))?;
        let user = format!("user: {{ as: \"system:node:{node}\", as-groups: [system:nodes], ");
        Ok(text.replacen("user: { ", &user, 1))
    }

    pub fn version(&self) -> &Version {
        &self.assets.version
    }

    pub fn assets(&self) -> &'static Assets {
        self.assets
    }

    /// The URL of the API server: `https://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    pub fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_port)
    }

    /// The folder of its logs, kubeconfigs and data.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn log_of(&self, name: &str) -> PathBuf {
        self.path("logs").join(format!("{name}.log"))
    }

    /// The CPU time of API server and etcd since their last start.
    pub async fn cpu_time(&self) -> Result<Duration> {
        let (api_server, etcd) = (self.api_server.lock().await, self.etcd.lock().await);
        api_server.iter().chain(etcd.iter()).map(Process::cpu_time).sum()
    }

    /// The completed requests of `user` (any but `Admin`), in order of completion. A watch is included as soon as it
    /// has been answered; a request that a server forbids while it starts is not.
    pub fn requests_of(&self, user: User) -> Result<Vec<Request>> {
        let mut audit = lock(&self.audit);
        let mut requests = audit.requests_of(&self.path("audit.log"), &user.name())?.to_vec();
        drop(audit);
        let starts = lock(&self.starts).clone();
        // While a server starts, it forbids all requests until it has read the roles.
        let starting = |at: Timestamp| starts.iter().any(|(begin, ready)| *begin <= at && at <= *ready);
        let since = self.since();
        requests.retain(|request| request.received >= since);
        requests.retain(|request| !request.is_forbidden() || !starting(request.received));
        Ok(requests)
    }

    /// The objects that successful writes of all users but `Admin` have stored, in the order in which they were
    /// stored.
    pub fn stored_objects(&self) -> Result<Vec<Stored>> {
        let mut stored = audit::stored(&self.path("audit.log"))?;
        let since = self.since();
        stored.retain(|stored| stored.received >= since);
        Ok(stored)
    }

    fn since(&self) -> Timestamp {
        *lock(&self.since)
    }

    /// Forgets the requests that were answered until now.
    pub(super) fn forget_requests(&self) {
        *lock(&self.since) = Timestamp::now();
    }

    pub(super) async fn is_running(&self) -> bool {
        self.api_server.lock().await.is_some() && self.etcd.lock().await.is_some()
    }

    /// Kills the API server. Every write that it has answered is in etcd.
    pub async fn stop_api_server(&self) -> Result<()> {
        if let Some(process) = self.api_server.lock().await.take() {
            process.kill()?;
        }
        Ok(())
    }

    /// Starts the API server again, with the same port and etcd, and waits until it answers.
    pub async fn start_api_server(&self) -> Result<()> {
        let begin = Timestamp::now();
        audit::remove_incomplete(&self.path("audit.log"))?;
        let process = self.spawn("kube-apiserver", &self.assets.kube_apiserver, self.api_server_arguments())?;
        // The server has created its certificate, which the kubeconfigs contain, when it listens.
        process.ready(START_TIMEOUT, || network::accepts_connections(self.port)).await?;
        self.write_kubeconfigs()?;
        let mut config = self.config(User::Admin).await?;
        config.default_retry = false;
        let client = Client::try_from(config)?;
        process.ready(START_TIMEOUT, || answers(client.clone())).await?;
        lock(&self.starts).push((begin, Timestamp::now()));
        *self.api_server.lock().await = Some(process);
        Ok(())
    }

    pub async fn restart_api_server(&self) -> Result<()> {
        self.stop_api_server().await?;
        self.start_api_server().await
    }

    /// Waits until the kinds of all definitions are served, and the operator may read and write.
    pub(super) async fn serves_operator(&self) -> Result<()> {
        let client = self.client(User::Admin).await?;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let serves = || async {
            for CustomResourceDefinition { spec, .. } in definitions.list(&ListParams::default()).await? {
                for version in spec.versions.iter().filter(|version| version.served) {
                    let path = format!("/apis/{}/{}/{}?limit=1", spec.group, version.name, spec.names.plural);
                    client.request_text(http::Request::get(path).body(Vec::new())?).await?;
                }
            }
            let attributes = json!({"group": "winpool.dev", "resource": "windowsnodepools", "verb": "list"});
            let may = Requests::new(client.clone()).allows(&User::Operator.name(), &attributes).await?;
            ensure!(may, "the operator may not list pools");
            Ok(())
        };
        eventually("the installed resources are served", START_TIMEOUT, serves).await
    }

    /// Ends the servers, so that the database is complete, and copies it to a folder, with the certificate.
    pub(super) async fn copy_database(&self, folder: &Path) -> Result<()> {
        self.stop_api_server().await?;
        self.etcd.lock().await.take().context("etcd")?.stop(START_TIMEOUT).await?;
        for name in ["etcd", "certificates"] {
            copy(&self.path(name), &folder.join(name))?;
        }
        Ok(())
    }

    /// Starts etcd on free ports; on others if another program takes one of them first.
    async fn start_first_etcd(&mut self) -> Result<()> {
        const ATTEMPTS: u32 = 3;
        for attempt in 1..=ATTEMPTS {
            self.etcd_port = free_port()?;
            match self.start_etcd().await {
                Err(error) if attempt < ATTEMPTS && format!("{error:#}").contains("address already in use") => {
                    say(format_args!("etcd: port {} was taken, trying another one", self.etcd_port));
                }
                started => return started,
            }
        }
        Ok(())
    }

    /// Kills etcd. Every write that it has answered is in its files.
    pub async fn stop_etcd(&self) -> Result<()> {
        if let Some(process) = self.etcd.lock().await.take() {
            process.kill()?;
        }
        Ok(())
    }

    /// Starts etcd again, with the same port and files, and waits until it is healthy.
    pub async fn start_etcd(&self) -> Result<()> {
        let (clients, peers) = (self.etcd_url(), format!("http://127.0.0.1:{}", free_port()?));
        let arguments = [
            flag("data-dir", self.path("etcd").display()),
            flag("listen-client-urls", &clients),
            flag("advertise-client-urls", &clients),
            flag("listen-peer-urls", &peers),
            flag("initial-advertise-peer-urls", &peers),
            flag("initial-cluster", format!("default={peers}")),
            "--unsafe-no-fsync".to_owned(),
            // Objects are restored in one transaction.
            flag("max-txn-ops", 100_000),
        ];
        let process = self.spawn("etcd", &self.assets.etcd, arguments)?;
        let address = ([127, 0, 0, 1], self.etcd_port).into();
        let healthy = || async move {
            let (status, body) = network::http_get(address, "/health").await?;
            ensure!(status == 200 && body.contains("true"), "/health answers {status} {body}");
            Ok(())
        };
        process.ready(START_TIMEOUT, healthy).await?;
        *self.etcd.lock().await = Some(process);
        Ok(())
    }

    fn api_server_arguments(&self) -> Vec<String> {
        let file = |name: &str| self.path(name).display().to_string();
        let mut arguments = vec![
            flag("etcd-servers", self.etcd_url()),
            flag("bind-address", "127.0.0.1"),
            flag("advertise-address", "127.0.0.1"),
            flag("endpoint-reconciler-type", "none"),
            flag("secure-port", self.port),
            flag("cert-dir", file("certificates")),
            flag("service-cluster-ip-range", "10.96.0.0/16"),
            flag("service-account-issuer", "https://kubernetes.default.svc"),
            flag("service-account-key-file", file("service-account.pub")),
            flag("service-account-signing-key-file", file("service-account.key")),
            flag("authorization-mode", "Node,RBAC"),
            flag("token-auth-file", file("tokens.csv")),
            flag("enable-admission-plugins", "NodeRestriction"),
            flag("allow-privileged", true),
            flag("audit-policy-file", file("audit-policy.yaml")),
            flag("audit-log-path", file("audit.log")),
            // In megabytes; the log is read as one file.
            flag("audit-log-maxsize", 100_000),
        ];
        if self.options.pods {
            arguments.push(flag("kubelet-preferred-address-types", "Hostname"));
        } else {
            arguments.push(flag("disable-admission-plugins", "ServiceAccount"));
        }
        if self.options.bootstrap {
            arguments.push(flag("client-ca-file", file("clients.crt")));
            arguments.push(flag("enable-bootstrap-token-auth", true));
        }
        arguments.extend(self.options.api_server_arguments.iter().cloned());
        arguments
    }

    /// Starts scheduler and controller manager, if the options have them.
    pub(super) async fn start_components(&self, options: &Options) -> Result<()> {
        let mut started = Vec::new();
        if options.scheduler {
            let port = free_port()?;
            let arguments = self.component_arguments(port);
            started.push((port, self.spawn("kube-scheduler", &self.assets.kube_scheduler, arguments)?));
        }
        if options.controller_manager {
            let (program, port) = (&self.assets.kube_controller_manager, free_port()?);
            let arguments = self.controller_manager_arguments(port);
            started.push((port, self.spawn("kube-controller-manager", program, arguments)?));
        }
        for (port, process) in started {
            process.ready(START_TIMEOUT, || network::accepts_connections(port)).await?;
            lock(&self.components).push(process);
        }
        Ok(())
    }

    pub(super) fn stop_components(&self) {
        for process in lock(&self.components).drain(..) {
            let _ = process.kill();
        }
    }

    /// Freezes API server and etcd, which no test uses, until [`Self::thaw`].
    pub(super) fn freeze(&self) {
        self.for_each(Process::freeze);
    }

    pub(super) fn thaw(&self) {
        self.for_each(Process::thaw);
    }

    fn for_each(&self, act: impl Fn(&Process)) {
        // Without a test, nothing else has the lock.
        let servers = [self.etcd.try_lock(), self.api_server.try_lock()];
        servers.iter().flatten().flat_map(|process| process.iter()).for_each(act);
    }

    fn component_arguments(&self, port: u16) -> Vec<String> {
        let kubeconfig = self.kubeconfig(User::Admin);
        let mut arguments: Vec<String> = ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"]
            .iter()
            .map(|name| flag(name, kubeconfig.display()))
            .collect();
        arguments.extend([
            flag("bind-address", "127.0.0.1"),
            flag("secure-port", port),
            flag("cert-dir", self.path(&format!("certificates-{port}")).display()),
            flag("leader-elect", false),
        ]);
        arguments
    }

    fn controller_manager_arguments(&self, port: u16) -> Vec<String> {
        let mut arguments = self.component_arguments(port);
        arguments.extend([
            flag("service-account-private-key-file", self.path("service-account.key").display()),
            flag("node-monitor-grace-period", NODE_GRACE),
            flag("node-startup-grace-period", NODE_GRACE),
            flag("kube-api-qps", 500),
            flag("kube-api-burst", 1000),
        ]);
        if self.options.pods {
            arguments.push(flag("root-ca-file", self.path("ca.crt").display()));
        }
        if self.options.bootstrap {
            arguments.extend([
                flag("cluster-signing-cert-file", self.path("clients.crt").display()),
                flag("cluster-signing-key-file", self.path("clients.key").display()),
                // The second one signs what a node reads before it trusts the cluster; it is off by default.
                flag("controllers", "*,bootstrapsigner"),
            ]);
        }
        arguments
    }

    fn spawn(&self, name: &str, program: &Path, arguments: impl IntoIterator<Item = String>) -> Result<Process> {
        let mut command = Command::new(program);
        // The servers live shortly: memory is worth less than the time of the garbage collector.
        command.env("GOGC", "400").args(arguments).current_dir(self.directory());
        Process::spawn(name, command, &self.log_of(name))
    }

    fn write_files(&self) -> Result<()> {
        fs::create_dir(self.path("logs"))?;
        let key = rcgen::KeyPair::generate()?;
        self.write("service-account.key", &key.serialize_pem())?;
        self.write("service-account.pub", &key.public_key_pem())?;
        self.write("tokens.csv", &User::ALL.map(User::token_line).concat())?;
        let audited = [User::Operator, User::Agent, User::OtherA, User::OtherB].map(User::name);
        self.write("audit-policy.yaml", &audit::policy(&audited))?;
        if let Some(clients) = &self.clients {
            clients.own().write(self.directory(), "clients")?;
        }
        process::touch(&self.path("audit.log"))
    }

    /// Writes one file per user. The server has generated its certificate, and the same file ends with the authority
    /// that signed it.
    fn write_kubeconfigs(&self) -> Result<()> {
        if self.kubeconfig(User::Admin).exists() {
            return Ok(());
        }
        let path = self.path("certificates/apiserver.crt");
        let chain = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let start = chain.rfind("-----BEGIN").ok_or_else(|| anyhow!("{} holds no certificate", path.display()))?;
        self.write("ca.crt", &chain[start..])?;
        for user in User::ALL {
            let text = user.kubeconfig(&self.url(), &self.path("ca.crt"));
            self.write(&format!("{}.kubeconfig", user.short_name()), &text)?;
        }
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        fs::write(self.path(name), text).with_context(|| format!("writing {name}"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        // Their data is removed too, so no graceful shutdown is necessary. etcd ends last.
        self.stop_components();
        for process in self.api_server.get_mut().take().into_iter().chain(self.etcd.get_mut().take()) {
            let _ = process.kill();
        }
    }
}

/// Checks that the API server is ready and has created the system namespaces.
async fn answers(client: Client) -> Result<()> {
    get(&client, READY).await?;
    for name in ["default", "kube-system"] {
        Api::<Namespace>::all(client.clone()).get(name).await?;
    }
    Ok(())
}

async fn get(client: &Client, path: &str) -> Result<()> {
    let request = http::Request::get(path).body(Vec::new())?;
    client.request_text(request).await.map(drop).with_context(|| path.to_owned())
}

/// Copies the content of a folder. etcd allocates its files in advance, and their empty ends are not written.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp").args(["-rT", "--sparse=always"]).args([from, to]).status()?;
    ensure!(status.success(), "cp {} {}: {status}", from.display(), to.display());
    Ok(())
}

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}

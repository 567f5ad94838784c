//! Connections to the cluster.

use std::{env, error::Error as _, io, path::PathBuf};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use tokio::runtime::{Builder, Runtime};
use winpool_core::{
    foreign_text::escaped,
    text::{some_of, with_sources},
};
use winpool_operator::cluster::{self};

use super::{CommandError, typed_value};

/// Which cluster, as typed: the same options as those of kubectl.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(id = "cluster")]
pub(super) struct Args {
    /// The kubeconfig to use [default: the files in KUBECONFIG, else ~/.kube/config, else the ServiceAccount of the Pod]
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use [default: its current context]
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    context: Option<String>,
}

impl Args {
    /// The options among words that are typed, of which others are unknown.
    pub(super) fn among(words: &[String]) -> Self {
        let kubeconfig = typed_value(words, "--kubeconfig").map(PathBuf::from);
        Self { kubeconfig, context: typed_value(words, "--context") }
    }

    /// Context and server of the kubeconfig, for messages; `None` if it cannot be read.
    pub(super) fn place(&self) -> Option<String> {
        let kubeconfig = self.kubeconfig.as_ref().map_or_else(Kubeconfig::read, Kubeconfig::read_from).ok()?;
        let name = self.context.as_ref().or(kubeconfig.current_context.as_ref())?;
        let context = kubeconfig.contexts.iter().find(|context| context.name == *name)?.context.as_ref()?;
        let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster)?.cluster.as_ref()?;
        Some(escaped(&format!("context {name}, server {}", cluster.server.as_ref()?)).into_owned())
    }

    pub(super) async fn config(&self) -> Result<Config, CommandError> {
        if self.kubeconfig.is_none() && self.context.is_none() {
            return Config::infer().await.map_err(|error| {
                // Its source is the failure of the kubeconfig. Outside of a Pod the other half is no news.
                let kubeconfig = error.source().filter(|_| env::var_os("KUBERNETES_SERVICE_HOST").is_none());
                let error = first_line(&kubeconfig.map_or_else(|| with_sources(&error), with_sources));
                CommandError::Cluster(format!(
                    "no cluster: {error}. Use --kubeconfig or --context, or set KUBECONFIG to a kubeconfig with a current context"
                ))
            });
        }
        let invalid = |error: KubeconfigError| {
            let source = self.kubeconfig.as_ref().map_or("KUBECONFIG".to_owned(), |file| file.display().to_string());
            let error = first_line(&with_sources(&error));
            CommandError::Usage(format!("invalid kubeconfig: {source}: {error}. Correct --kubeconfig"))
        };
        let kubeconfig = self.kubeconfig.as_ref().map_or_else(Kubeconfig::read, Kubeconfig::read_from);
        let kubeconfig = kubeconfig.map_err(invalid)?;
        if let Some(context) = &self.context {
            check_context(&kubeconfig, context)?;
        }
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(invalid)
    }

    /// A client for a command that runs once.
    pub(super) async fn client(&self) -> Result<Client, CommandError> {
        client_of(self.config().await?)
    }

    /// The configuration of the client of the operator. An API server that cannot be reached now is no failure, because the
    /// operator waits for it.
    pub(super) async fn operator_config(&self) -> Result<Config, CommandError> {
        let config = self.config().await?;
        let checked = cluster::check_configuration(&client_of(config.clone())?).await;
        checked.map_err(|why| CommandError::Cluster(format!("cannot use {}: {why}", config.cluster_url)))?;
        Ok(config)
    }
}

fn client_of(config: Config) -> Result<Client, CommandError> {
    cluster::client(config).map_err(|error| {
        let error = first_line(&with_sources(&error));
        CommandError::Usage(format!("invalid kubeconfig: {error}. Correct it, or choose another --context"))
    })
}

/// The parser of YAML adds a picture of the lines.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn check_context(kubeconfig: &Kubeconfig, context: &str) -> Result<(), CommandError> {
    let known: Vec<_> = kubeconfig.contexts.iter().map(|known| known.name.as_str()).collect();
    if known.contains(&context) {
        return Ok(());
    }
    let known = if known.is_empty() { "none".to_owned() } else { some_of(known) };
    Err(CommandError::Usage(format!("--context: the kubeconfig has no context {context}. Existing contexts: {known}")))
}

/// The asynchronous runtime. Two threads are enough, because the work is I/O.
pub(super) fn runtime() -> Result<Runtime, CommandError> {
    let failure = |error: io::Error| CommandError::Usage(format!("cannot start threads: {error}"));
    Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(failure)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TWO_CLUSTERS: &str = "
apiVersion: v1
kind: Config
current-context: first
clusters:
- {name: a, cluster: {server: 'https://a.example'}}
- {name: b, cluster: {server: 'https://b.example'}}
contexts:
- {name: first, context: {cluster: a, user: me}}
- {name: second, context: {cluster: b, user: me}}
users:
- {name: me, user: {}}
";

    #[tokio::test]
    async fn the_options_select_file_and_context() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kubeconfig");
        fs::write(&file, TWO_CLUSTERS).unwrap();
        let server = async |context: Option<&str>| {
            let args = Args { kubeconfig: Some(file.clone()), context: context.map(str::to_owned) };
            args.config().await.map(|config| config.cluster_url.to_string())
        };
        assert_eq!(server(None).await, Ok("https://a.example/".to_owned()));
        assert_eq!(server(Some("second")).await, Ok("https://b.example/".to_owned()));
        let unknown = "--context: the kubeconfig has no context third. Existing contexts: first, second";
        assert_eq!(server(Some("third")).await, Err(CommandError::Usage(unknown.to_owned())));
    }

    #[tokio::test]
    async fn a_kubeconfig_that_cannot_be_read_is_a_usage_error() {
        let args = Args { kubeconfig: Some("missing/kubeconfig".into()), context: None };
        let failure = args.config().await.unwrap_err();
        assert!(matches!(&failure, CommandError::Usage(text) if text.contains("missing/kubeconfig")), "{failure}");
    }
}

//! Prometheus and promtool, and the alerts and the dashboard that winpool ships for them.

use std::{fs, net::SocketAddr, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use reqwest::Url;
use serde_json::{Value, json};

use crate::{
    assets,
    cluster::Cluster,
    control_plane::OPERATOR_NAMESPACE,
    directory::Directory,
    install::{apply, path},
    network::{free_port, http_get},
    operator::workspace,
    process::Process,
};

const READY_TIMEOUT: Duration = Duration::from_secs(180);

/// The rule file for Prometheus: the groups of the shipped PrometheusRule.
pub fn rules() -> Result<String> {
    let rule: Value = serde_saphyr::from_str(&fs::read_to_string(workspace().join("config/prometheus/rules.yaml"))?)?;
    Ok(json!({"groups": rule["spec"]["groups"]}).to_string())
}

/// Runs promtool in a folder with `rules.yaml` and the tests of the alerts. Returns its output.
pub fn promtool(arguments: &[&str], input: &str) -> Result<String> {
    let promtool = assets::program("promtool")?;
    let directory = Directory::new()?;
    fs::write(directory.path().join("rules.yaml"), rules()?)?;
    fs::copy(workspace().join("e2e/prometheus/alerts_test.yaml"), directory.path().join("alerts_test.yaml"))?;
    fs::write(directory.path().join("input"), input)?;
    let stdin = fs::File::open(directory.path().join("input"))?;
    let output = Command::new(promtool).args(arguments).current_dir(directory.path()).stdin(stdin).output()?;
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    ensure!(output.status.success(), "promtool {}: {}\n{text}", arguments.join(" "), output.status);
    Ok(text)
}

/// A running Prometheus, which scrapes one target every second and evaluates the shipped alerts. Dropping it ends it.
#[derive(Debug)]
pub struct Prometheus {
    process: Process,
    address: SocketAddr,
    _directory: Directory,
}

/// Applies the user who reads the metrics, and returns a token.
pub async fn metrics_reader(cluster: &Cluster) -> Result<String> {
    apply(&cluster.control_plane, &["-f", &path("config/prometheus/reader.yaml")])?;
    cluster.token(OPERATOR_NAMESPACE, "winpool-metrics-reader").await
}

impl Prometheus {
    /// Starts Prometheus for the port for metrics of an operator, as the shipped ServiceMonitor configures it.
    pub async fn start(cluster: &Cluster, target: SocketAddr) -> Result<Self> {
        let program = assets::program("prometheus")?;
        let directory = Directory::new()?;
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let token = metrics_reader(cluster).await?;
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{
                "job_name": "winpool",
                "scheme": "https",
                "tls_config": {"insecure_skip_verify": true},
                "authorization": {"credentials": token},
                "static_configs": [{"targets": [target.to_string()]}],
            }],
        });
        fs::write(directory.path().join("rules.yaml"), rules()?)?;
        fs::write(directory.path().join("prometheus.yaml"), config.to_string())?;
        let mut command = Command::new(program);
        command
            .arg("--config.file=prometheus.yaml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address={address}"))
            .arg("--enable-feature=exemplar-storage")
            .current_dir(directory.path());
        let process = Process::spawn("prometheus", command, &directory.path().join("prometheus.log"))?;
        let prometheus = Self { process, address, _directory: directory };
        let ready = || async {
            let (status, body) = http_get(address, "/-/ready").await?;
            ensure!(status == 200, "{status}: {body}");
            Ok(())
        };
        prometheus.process.ready(READY_TIMEOUT, ready).await?;
        Ok(prometheus)
    }

    /// The series of a query, each with its present sample.
    pub async fn query(&self, query: &str) -> Result<Vec<Value>> {
        let url = Url::parse_with_params("http://prometheus/api/v1/query", [("query", query)])?;
        let mut answer = self.get(&format!("{}?{}", url.path(), url.query().unwrap_or_default())).await?;
        Ok(serde_json::from_value(answer["result"].take())?)
    }

    /// A path of the HTTP API: the field `data` of the answer.
    pub async fn get(&self, path: &str) -> Result<Value> {
        let (status, body) = http_get(self.address, path).await?;
        ensure!(status == 200, "{path}: {status}: {body}");
        Ok(serde_json::from_str::<Value>(&body)?["data"].take())
    }
}

/// A panel of the shipped dashboard.
#[derive(Clone, Debug)]
pub struct Panel {
    pub title: String,
    /// The queries for all pools.
    pub queries: Vec<String>,
}

/// The panels of the shipped dashboard; rates are over `interval`, such as `10s`.
pub fn panels(interval: &str) -> Result<Vec<Panel>> {
    let dashboard = fs::read_to_string(workspace().join("config/grafana/winpool.json"))?;
    let dashboard: Value = serde_json::from_str(&dashboard)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let query = |target: &Value| text(&target["expr"]).replace("$pool", ".*").replace("$__rate_interval", interval);
    let panels = dashboard["panels"].as_array().context("panels")?.iter().filter(|panel| panel["type"] != "row");
    let panel = |panel: &Value| Panel {
        title: text(&panel["title"]),
        queries: panel["targets"].as_array().into_iter().flatten().map(query).collect(),
    };
    Ok(panels.map(panel).collect())
}

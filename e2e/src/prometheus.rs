//! Prometheus and promtool, and the alerts and the dashboard that winpool ships for them.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, ensure};
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
///
/// # Errors
/// When the PrometheusRule cannot be read.
pub fn rules() -> Result<String> {
    let rule: Value = serde_saphyr::from_str(&fs::read_to_string(workspace().join("config/prometheus/rules.yaml"))?)?;
    Ok(json!({"groups": rule["spec"]["groups"]}).to_string())
}

/// Runs promtool in a folder with `rules.yaml` and the tests of the alerts. Returns its output.
///
/// # Errors
/// When promtool fails; the message has its output.
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

/// The labels of a series, and its samples as seconds since 1970 and value.
#[derive(Clone, Debug)]
pub struct Series {
    pub labels: BTreeMap<String, String>,
    pub samples: Vec<(f64, f64)>,
}

/// Applies the user who reads the metrics, and returns a token.
///
/// # Errors
/// When the API server refuses.
pub async fn metrics_reader(cluster: &Cluster) -> Result<String> {
    apply(&cluster.control_plane, &["-f", &path("config/prometheus/reader.yaml")])?;
    cluster.token(OPERATOR_NAMESPACE, "winpool-metrics-reader").await
}

impl Prometheus {
    /// Starts Prometheus for the port for metrics of an operator, as the shipped ServiceMonitor configures it.
    ///
    /// # Errors
    /// When it cannot be started, or is not ready within three minutes.
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
        let process = Process::spawn("prometheus", command(&program, &directory, address), &log(&directory))?;
        let prometheus = Self { process, address, _directory: directory };
        let ready = || async {
            let (status, body) = http_get(address, "/-/ready").await?;
            ensure!(status == 200, "{status}: {body}");
            Ok(())
        };
        prometheus.process.ready(READY_TIMEOUT, ready).await?;
        Ok(prometheus)
    }

    /// The series of a query, each with one sample, the present one.
    ///
    /// # Errors
    /// When Prometheus rejects the query.
    pub async fn query(&self, query: &str) -> Result<Vec<Series>> {
        let result = self.get(&format!("/api/v1/query?query={}", encoded(query))).await?;
        series(&result["result"], |series| vec![series["value"].clone()])
    }

    /// The series of a query between two times, in seconds since 1970, with this step in seconds.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub async fn query_range(&self, query: &str, (start, end): (f64, f64), step: f64) -> Result<Vec<Series>> {
        let query = encoded(query);
        let path = format!("/api/v1/query_range?query={query}&start={start}&end={end}&step={step}");
        let samples = |series: &Value| series["values"].as_array().cloned().unwrap_or_default();
        series(&self.get(&path).await?["result"], samples)
    }

    /// A path of the HTTP API: the field `data` of the answer.
    ///
    /// # Errors
    /// When Prometheus rejects the request.
    pub async fn get(&self, path: &str) -> Result<Value> {
        let (status, body) = http_get(self.address, path).await?;
        ensure!(status == 200, "{path}: {status}: {body}");
        Ok(serde_json::from_str::<Value>(&body)?["data"].take())
    }
}

fn log(directory: &Directory) -> PathBuf {
    directory.path().join("prometheus.log")
}

fn command(program: &Path, directory: &Directory, address: SocketAddr) -> Command {
    let mut command = Command::new(program);
    command
        .arg(format!("--config.file={}", directory.path().join("prometheus.yaml").display()))
        .arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()))
        .arg(format!("--web.listen-address={address}"))
        .arg("--enable-feature=exemplar-storage")
        .current_dir(directory.path());
    command
}

/// Percent-encodes a value of a query.
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

fn series(result: &Value, samples: impl Fn(&Value) -> Vec<Value>) -> Result<Vec<Series>> {
    let sample = |sample: &Value| -> Result<(f64, f64)> {
        let value = sample[1].as_str().context("a value")?;
        Ok((sample[0].as_f64().context("a time")?, value.parse()?))
    };
    let all = result.as_array().ok_or_else(|| anyhow!("no series: {result}"))?;
    let read = all.iter().map(|series| {
        let labels = serde_json::from_value(series["metric"].clone())?;
        Ok(Series { labels, samples: samples(series).iter().map(sample).collect::<Result<_>>()? })
    });
    read.collect()
}

/// A panel of the shipped dashboard.
#[derive(Clone, Debug)]
pub struct Panel {
    pub title: String,
    /// The unit of its values, as in Grafana.
    pub unit: String,
    /// The queries for all pools, with the templates of the legend.
    pub queries: Vec<(String, String)>,
}

/// The panels of the shipped dashboard; rates are over `interval`, such as `10s`.
///
/// # Errors
/// When the dashboard cannot be read.
pub fn panels(interval: &str) -> Result<Vec<Panel>> {
    let dashboard = fs::read_to_string(workspace().join("config/grafana/winpool.json"))?;
    let dashboard: Value = serde_json::from_str(&dashboard)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let query = |target: &Value| {
        let query = text(&target["expr"]).replace("$pool", ".*").replace("$__rate_interval", interval);
        (query, text(&target["legendFormat"]))
    };
    let panels = dashboard["panels"].as_array().context("panels")?.iter().filter(|panel| panel["type"] != "row");
    let panel = |panel: &Value| Panel {
        title: text(&panel["title"]),
        unit: text(&panel["fieldConfig"]["defaults"]["unit"]),
        queries: panel["targets"].as_array().into_iter().flatten().map(query).collect(),
    };
    Ok(panels.map(panel).collect())
}

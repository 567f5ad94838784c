//! Reads the logs of nodes from their kubelets, to which the API server forwards requests.
//!
//! The log query (KEP-2258, `query` with `sinceTime` and `tailLines`) is beta and off in Kubernetes 1.30, and
//! stable in 1.36. On Windows it runs `Get-WinEvent` for the log Application with the service as provider. It rejects these options
//! for a service that has no provider: then the end of its file is read, by the server for `/var/log` that is older than the query.
//! Without the query, a kubelet answers it with the list of files, as HTML.
//!
//! Sources, read on 2026-11-26: in `pkg/kubelet` of kubernetes/kubernetes, `kubelet_server_journal_windows.go` at 9d2a8fb7, whose
//! query is that of 1.30.9, `kubelet.go` and `kubelet_server_journal.go`, and `server/server.go` for status 405;
//! <https://kubernetes.io/docs/concepts/cluster-administration/system-logs/#log-query>.

use std::{future::poll_fn, pin::Pin, time::Duration};

use futures::{StreamExt, stream};
use http::{Request, header};
use http_body::Body as _;
use jiff::{SignedDuration, Timestamp};
use kube::{Client, client::Body};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use winpool_check::doctor::{EvidenceLayer, LogContent, NodeLog};
use winpool_core::{
    logs::{LOG_SOURCES, LogSource, LogWindow, event_lines, file_lines},
    masking::masked,
};
use winpool_operator::cluster::explain;

/// The maximum number of nodes.
const MAX_NODES: usize = 10;
/// The maximum number of events of a log.
const MAX_EVENTS: usize = 1_000;
/// The maximum number of bytes of a log, and of an answer that is an error.
const MAX_BYTES: usize = 256 * 1024;
/// How long reading one log may take. A kubelet ends a query after 30 seconds.
const LIMIT: Duration = Duration::from_secs(20);
/// How many logs are read at once.
const CONCURRENCY: usize = 8;
/// How the answers begin if there are no events of a service.
const NO_EVENTS: [&str; 2] = ["options present and query resolved to log files", "log not found for"];

/// Reads logs until a deadline.
pub struct NodeLogReader {
    client: Client,
    deadline: Instant,
    window: LogWindow,
}

/// What was received of an answer.
struct LogAnswer {
    status: u16,
    text: String,
    is_html: bool,
    begin_is_cut: bool,
    end_is_cut: bool,
}

impl NodeLogReader {
    /// Reads logs of this time before now with this client. Requires the permission to get `nodes/proxy`.
    pub fn new(client: Client, deadline: Instant, time: SignedDuration) -> Self {
        let until = Timestamp::now();
        let since = until.saturating_sub(time).unwrap_or(until);
        Self { client, deadline, window: LogWindow { since, until } }
    }

    /// The logs of the first nodes. Each log that was not read is among them, with the reason.
    pub async fn logs(&self, nodes: &[String]) -> EvidenceLayer<NodeLog> {
        let (first, others) = nodes.split_at(nodes.len().min(MAX_NODES));
        let reads = pairs(first).map(|(node, source)| self.log(node, source));
        let mut logs: Vec<_> = stream::iter(reads).buffered(CONCURRENCY).collect().await;
        if let Some(reason) = common_reason(&logs) {
            return EvidenceLayer::Unavailable(reason);
        }
        let reason = format!("the logs of at most {MAX_NODES} nodes are read; ask for node/NAME");
        logs.extend(pairs(others).map(|(node, source)| node_log(node, source, LogContent::Unread(reason.clone()))));
        EvidenceLayer::of(logs)
    }

    async fn log(&self, node: &str, source: LogSource) -> NodeLog {
        let deadline = self.deadline.min(Instant::now() + LIMIT);
        let content = match timeout_at(deadline, self.content(node, source)).await {
            Ok(content) => content.unwrap_or_else(LogContent::Unread),
            Err(_) => LogContent::Unread("reading it took longer than the time limit".to_owned()),
        };
        node_log(node, source, content)
    }

    async fn content(&self, node: &str, source: LogSource) -> Result<LogContent, String> {
        let LogSource { service, files, .. } = source;
        let since = self.window.since;
        let query = format!("?query={service}&sinceTime={since:.0}&tailLines={MAX_EVENTS}");
        let answer = self.get(node, &query).await?;
        if answer.status != 200 {
            return Err(answer.problem());
        }
        let is_events = !answer.is_html && !NO_EVENTS.iter().any(|text| answer.text.trim_start().starts_with(text));
        if is_events {
            let lines = event_lines(&answer.text, answer.end_is_cut);
            let cut = answer.end_is_cut || lines.len() >= MAX_EVENTS;
            return Ok(LogContent::Read { place: "event log Application".to_owned(), lines, cut });
        }
        for file in files {
            let found = self.get(node, file).await?;
            let (begin, end) = (found.begin_is_cut, found.end_is_cut);
            match found.status {
                404 => {}
                200 | 206 => {
                    let place = format!(r"C:\var\log\{}", file.replace('/', r"\"));
                    let lines = file_lines(&found.text, self.window, begin, end);
                    return Ok(LogContent::Read { place, lines, cut: begin || end });
                }
                _ => return Err(found.problem()),
            }
        }
        Err(match answer.is_html {
            true => {
                "the kubelet has no log query: NodeLogQuery is not enabled, or enableSystemLogQuery is false".to_owned()
            }
            false => "the node has neither events nor a file of it".to_owned(),
        })
    }

    /// An answer of the kubelet: of a file the end, of anything else the beginning.
    async fn get(&self, node: &str, path: &str) -> Result<LogAnswer, String> {
        let request = Request::get(format!("/api/v1/nodes/{node}/proxy/logs/{path}"))
            .header(header::RANGE, format!("bytes=-{MAX_BYTES}"))
            .body(Body::empty())
            .map_err(|error| error.to_string())?;
        let response = self.client.send(request).await.map_err(|error| explain(&error))?;
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let status = response.status().as_u16();
        let is_html = header(header::CONTENT_TYPE).starts_with("text/html");
        let begin_is_cut = status == 206 && !header(header::CONTENT_RANGE).starts_with("bytes 0-");
        let (bytes, end_is_cut) =
            first_bytes(response.into_body(), MAX_BYTES).await.map_err(|error| explain(&error))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(LogAnswer { status, text, is_html, begin_is_cut, end_is_cut })
    }
}

impl LogAnswer {
    fn problem(&self) -> String {
        let status: Option<Value> = serde_json::from_str(&self.text).ok();
        let message = status.as_ref().and_then(|status| status["message"].as_str()).unwrap_or(&self.text);
        match self.status {
            403 if message.contains("\"nodes/proxy\"") => {
                "the permission to get nodes/proxy is missing, which the role winpool-doctor-node-logs in \
                 config/doctor/node-logs has"
                    .to_owned()
            }
            405 => "the kubelet serves no logs: enableSystemLogHandler or enableDebuggingHandlers is false in its configuration"
                .to_owned(),
            code => format!("status {code}: {}", masked(message.trim())),
        }
    }
}

fn pairs(nodes: &[String]) -> impl Iterator<Item = (&str, LogSource)> {
    nodes.iter().flat_map(|node| LOG_SOURCES.map(|source| (node.as_str(), source)))
}

fn node_log(node: &str, source: LogSource, content: LogContent) -> NodeLog {
    NodeLog { node: node.to_owned(), service: source.service.to_owned(), content }
}

/// Why no log was read, if the reason is the same for all.
fn common_reason(logs: &[NodeLog]) -> Option<String> {
    let LogContent::Unread(first) = &logs.first()?.content else { return None };
    let is_same = |log: &NodeLog| matches!(&log.content, LogContent::Unread(reason) if reason == first);
    logs.iter().all(is_same).then(|| first.clone())
}

/// The first bytes of a body, and whether it has more, which are not received.
pub async fn first_bytes(mut body: Body, most: usize) -> kube::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        bytes.extend(frame?.into_data().unwrap_or_default());
        if bytes.len() > most {
            bytes.truncate(most);
            return Ok((bytes, true));
        }
    }
    Ok((bytes, false))
}

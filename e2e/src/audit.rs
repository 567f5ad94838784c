//! The API server's audit log: user, request and response status, and the objects that writes have stored.

use std::{
    collections::{HashMap, HashSet},
    fs,
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
};

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// A request that the API server has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource, in the plural; empty for a path without a resource, such as `/version`.
    pub resource: String,
    /// `status`, for instance; empty for the object itself.
    pub subresource: String,
    /// Empty for a cluster-scoped resource.
    pub namespace: String,
    /// Empty for a list or a watch.
    pub name: String,
    /// The HTTP status code of the response.
    pub code: u16,
    /// The path with its query.
    pub uri: String,
    pub received: Timestamp,
    /// The header `User-Agent`.
    pub agent: String,
    /// The version that the object must have, if the request names one and its body is recorded.
    pub required_version: Option<u64>,
}

impl Request {
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }

    pub fn is_forbidden(&self) -> bool {
        self.code == 403
    }
}

/// An object as a write has stored it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    pub user: String,
    /// The resource, in the plural.
    pub resource: String,
    pub name: String,
    pub received: Timestamp,
    /// Its resource version: all objects in etcd have one order. That of a deletion is the version before it.
    pub version: u64,
    /// The object, `None` if it was deleted. A client that requests only the metadata gets no more, so that spec and status are
    /// those of its request, if it has them.
    pub object: Option<Value>,
}

/// A policy that records only the requests of `users`; without bodies, except those of writes to nodes, RuntimeClasses and
/// winpool's resources.
pub(crate) fn policy(users: &[String]) -> String {
    let users: Vec<String> = users.iter().map(|user| format!("{user:?}")).collect();
    let users = users.join(", ");
    let writes = format!(
        "- {{ level: RequestResponse, users: [{users}], verbs: [create, update, patch, delete], \
         resources: [{{ group: winpool.dev }}, {{ group: node.k8s.io }}, {{ group: \"\", resources: [nodes] }}] }}\n"
    );
    format!(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n\
         {writes}- {{ level: Metadata, users: [{users}] }}\n- {{ level: None }}\n"
    )
}

/// The objects that successful writes have stored, in that order.
pub(crate) fn stored(path: &Path) -> Result<Vec<Stored>> {
    let log = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let mut stored = Vec::new();
    let mut last = 0;
    for line in complete_lines(&log).filter(|line| line.contains("\"responseObject\":")) {
        let event: Event = serde_json::from_str(line).with_context(|| format!("an audit event: {line}"))?;
        if !(200..300).contains(&event.response_status.code) {
            continue;
        }
        let Objects { mut request_object, response_object: mut object } = serde_json::from_str(line)?;
        let version = object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        last = version.unwrap_or(0).max(last);
        if object["kind"] == "PartialObjectMetadata" {
            for part in ["spec", "status"] {
                object[part] = request_object[part].take();
            }
        }
        let deleted = event.verb == "delete";
        stored.push(Stored {
            user: event.user.username,
            resource: event.object_ref.resource,
            name: event.object_ref.name,
            received: event.received,
            version: version.filter(|_| !deleted).unwrap_or(last),
            object: (!deleted).then_some(object),
        });
    }
    stored.sort_by_key(|stored| stored.version);
    Ok(stored)
}

/// The server may still be writing the last line.
fn complete_lines(log: &str) -> impl Iterator<Item = &str> {
    log.split_inclusive('\n').filter(|line| line.ends_with('\n'))
}

/// The requests in the log of a server, which grows: each call reads only what is new.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// How much of the log was read, in bytes.
    offset: u64,
    /// A watch is recorded twice under one id: when it is answered and when it ends.
    seen: HashSet<String>,
    /// The requests by user, in order of their completion.
    requests: HashMap<String, Vec<Request>>,
}

impl Reader {
    /// The requests of `user` in the log at `path`.
    pub(crate) fn requests_of(&mut self, path: &Path, user: &str) -> Result<&[Request]> {
        let mut file = fs::File::open(path).with_context(|| format!("reading {}", path.display()))?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut new = Vec::new();
        file.read_to_end(&mut new)?;
        self.add(&new)?;
        Ok(self.requests.get(user).map_or(&[], Vec::as_slice))
    }

    /// Adds the complete lines of what is new.
    fn add(&mut self, new: &[u8]) -> Result<()> {
        let complete = new.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in complete_lines(std::str::from_utf8(&new[..complete])?) {
            let event: Event = serde_json::from_str(line).with_context(|| format!("an audit event: {line}"))?;
            if self.seen.insert(event.audit_id.clone()) {
                self.requests.entry(event.user.username.clone()).or_default().push(event.into());
            }
        }
        self.offset += complete as u64;
        Ok(())
    }
}

/// Removes an event that a killed server left incomplete at the end of the log at `path`: the next server appends to
/// the file.
pub(crate) fn remove_incomplete(path: &Path) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let complete = text.rfind('\n').map_or(0, |end| end + 1);
    if complete < text.len() {
        fs::write(path, &text[..complete]).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
    verb: String,
    #[serde(rename = "requestURI")]
    uri: String,
    #[serde(rename = "requestReceivedTimestamp")]
    received: Timestamp,
    #[serde(default, rename = "userAgent")]
    agent: String,
    user: Username,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
    #[serde(default)]
    request_object: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Objects {
    #[serde(default)]
    request_object: Value,
    #[serde(default)]
    response_object: Value,
}

#[derive(Deserialize)]
struct Username {
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

impl From<Event> for Request {
    fn from(event: Event) -> Self {
        let required_version = event.request_object["metadata"]["resourceVersion"].as_str();
        let required_version = required_version.and_then(|version| version.parse().ok());
        let object = event.object_ref;
        Self {
            verb: event.verb,
            group: object.api_group,
            resource: object.resource,
            subresource: object.subresource,
            namespace: object.namespace,
            name: object.name,
            code: event.response_status.code,
            uri: event.uri,
            received: event.received,
            agent: event.agent,
            required_version,
        }
    }
}

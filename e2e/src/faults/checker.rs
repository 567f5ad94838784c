//! What must hold under every fault, read from the audit log and the objects alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use serde_json::Value;

use crate::audit::{Request, Stored};

/// How long the Lease of the operator lasts after a renewal.
const LEASE: Duration = Duration::from_secs(20);
/// The taint of the pools.
pub const TAINT: &str = "taint os:NoSchedule";
/// The label of the pools.
pub const EDITION: &str = "label example.com/edition";

/// The HTTP status of a write with an old resource version.
const CONFLICT: u16 = 409;

/// What several clients write to a node: `label KEY`, `annotation KEY` and `taint KEY:EFFECT`, with their values.
pub type Fields = BTreeMap<String, String>;

/// The fields of a Node.
pub fn fields(node: &Value) -> Fields {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let taint =
        |taint: &Value| (format!("taint {}:{}", text(&taint["key"]), text(&taint["effect"])), text(&taint["value"]));
    let mut fields: Fields = node["spec"]["taints"].as_array().into_iter().flatten().map(taint).collect();
    for (kind, map) in [("label", "labels"), ("annotation", "annotations")] {
        let map = node["metadata"][map].as_object().into_iter().flatten();
        fields.extend(map.map(|(key, value)| (format!("{kind} {key}"), text(value))));
    }
    fields
}

/// Whether a field belongs to the operator.
fn is_own(field: &str) -> bool {
    let key = field.split_once(' ').map_or(field, |(_, key)| key);
    [TAINT, EDITION].contains(&field) || key.starts_with("winpool.dev/") || key.starts_with("runs.winpool.dev/")
}

/// The pool of a Windows node.
fn pool_of(fields: &Fields) -> Option<&String> {
    fields.get("label kubernetes.io/os").filter(|os| *os == "windows")?;
    fields.get("label agentpool")
}

/// The writes of nodes in order, each with the fields before and after it.
fn node_writes(stored: &[Stored]) -> impl Iterator<Item = (&Stored, Fields, Fields)> {
    let mut nodes = BTreeMap::<&str, Fields>::new();
    stored.iter().filter(|write| write.resource == "nodes").map(move |write| {
        let before = nodes.remove(write.name.as_str()).unwrap_or_default();
        let mut after = write.object.as_ref().map(fields).unwrap_or_default();
        // A client that requests only the metadata may write no taints.
        let has_taints = |object: &Value| object["kind"] == "Node" || object["spec"].get("taints").is_some();
        if write.object.as_ref().is_some_and(|object| !has_taints(object)) {
            after.extend(before.clone().into_iter().filter(|(field, _)| field.starts_with("taint ")));
        }
        nodes.insert(&write.name, after.clone());
        (write, before, after)
    })
}

/// Checks that no write of `user` to a node removed or changed a field of another owner. Returns the number of these writes.
pub fn check_foreign_fields(stored: &[Stored], user: &str) -> Result<usize> {
    let mut count = 0;
    for (write, before, after) in node_writes(stored).filter(|(write, ..)| write.user == user) {
        let lost = before.iter().find(|(field, value)| !is_own(field) && after.get(*field) != Some(value));
        ensure!(lost.is_none(), "version {} of node {} lost {lost:?}", write.version, write.name);
        count += 1;
    }
    Ok(count)
}

/// Checks that no Windows node of a pool was without its taint for longer than `allowance`, apart from the times at which the
/// operator was `away`. Returns the longest time.
pub fn check_taints(
    stored: &[Stored],
    now: Timestamp,
    away: &[(Timestamp, Timestamp)],
    allowance: Duration,
) -> Result<Duration> {
    let (mut since, mut longest) = (BTreeMap::<&str, Timestamp>::new(), Duration::ZERO);
    let mut check = |name: &str, since: Timestamp, until: Timestamp| {
        let without = present(since, until, away);
        ensure!(without <= allowance, "node {name} had no taint for {without:?}, from {since} to {until}");
        longest = longest.max(without);
        Ok(())
    };
    for (write, _, after) in node_writes(stored) {
        let lacks = pool_of(&after).is_some() && !after.contains_key(TAINT);
        if lacks {
            since.entry(&write.name).or_insert(write.received);
        } else if let Some(since) = since.remove(write.name.as_str()) {
            check(&write.name, since, write.received)?;
        }
    }
    since.into_iter().try_for_each(|(name, since)| check(name, since, now))?;
    Ok(longest)
}

/// The time between two moments, without those of `away`.
fn present(since: Timestamp, until: Timestamp, away: &[(Timestamp, Timestamp)]) -> Duration {
    let length = |since: Timestamp, until: Timestamp| Duration::try_from(until - since).unwrap_or_default();
    let absent = away.iter().map(|(begin, end)| length(since.max(*begin), until.min(*end))).sum();
    length(since, until).saturating_sub(absent)
}

/// Checks that these nodes exist with the fields that were planted in them, those of Windows with what their pool has now: the value
/// of taint and label, by pool.
pub fn check_converged(
    nodes: &[Value],
    planted: &BTreeMap<String, Fields>,
    editions: &BTreeMap<String, String>,
) -> Result<()> {
    let names =
        |nodes: &[Value]| nodes.iter().map(|node| node["metadata"]["name"].to_string()).collect::<BTreeSet<_>>();
    ensure!(nodes.len() == planted.len(), "{:?} instead of {} nodes", names(nodes), planted.len());
    for node in nodes {
        let (found, name) = (fields(node), node["metadata"]["name"].as_str().context("a name")?);
        let mut expected = planted.get(name).with_context(|| format!("node {name} was not created"))?.clone();
        if let Some(pool) = pool_of(&expected).cloned() {
            let edition = editions.get(&pool).with_context(|| format!("pool {pool}"))?;
            let own = [(TAINT, edition), (EDITION, edition), ("label winpool.dev/pool", &pool)];
            expected.extend(own.map(|(field, value)| (field.to_owned(), value.clone())));
        } else {
            ensure!(!found.keys().any(|field| is_own(field)), "node {name}, which is of no pool, has {found:?}");
        }
        let wrong = expected.iter().find(|(field, value)| found.get(*field) != Some(value));
        ensure!(wrong.is_none(), "node {name} has not {wrong:?}: {found:?}");
    }
    Ok(())
}

/// Checks that each write was received within the duration of the Lease after its process renewed it, and after no other process
/// had taken it. Returns how many writes each process made.
///
/// A process that was frozen while it sent a request continues with it. Such a late write has no effect: it requires a version of the
/// object that was replaced before it was received. Its answer does not show that. The API server answers 504 as soon as the
/// connection closes, because the process ends, and the handler may still store the object (`ServeHTTP` in
/// `pkg/server/filters/timeout.go` and `FinishRequest` in `pkg/endpoints/handlers/finisher/finisher.go`, kubernetes/apiserver).
pub fn check_leaders(mut requests: Vec<Request>, stored: &[Stored]) -> Result<BTreeMap<String, usize>> {
    requests.retain(Request::is_write);
    requests.sort_by_key(|write| write.received);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut holder: Option<(String, Timestamp)> = None;
    let is_replaced = |write: &Request, version: u64| {
        stored.iter().any(|stored| {
            (&stored.resource, &stored.name) == (&write.resource, &write.name)
                && stored.version > version
                && stored.received < write.received
        })
    };
    for write in requests {
        if write.resource == "leases" {
            if write.succeeded() {
                holder = Some((write.agent.clone(), write.received));
            }
            continue;
        }
        let Some((leader, renewed)) = &holder else { bail!("{write:?} before an election") };
        let age = Duration::try_from(write.received - *renewed)?;
        let is_late = *leader != write.agent || age >= LEASE;
        if write.succeeded() {
            ensure!(!is_late, "{write:?}, {age:?} after the last renewal, which was of {leader}");
            *counts.entry(write.agent.clone()).or_default() += 1;
        } else if is_late && write.resource != "events" {
            let is_void = write.required_version.map_or(write.code == CONFLICT, |version| is_replaced(&write, version));
            ensure!(is_void, "{write:?} may have an effect, {age:?} after the last renewal, which was of {leader}");
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OPERATOR: &str = "operator";

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_780_000_000 + second).unwrap()
    }

    /// A Node with labels, annotations and taints, as `fields` names them.
    fn node(name: &str, fields: &[(&str, &str)]) -> Value {
        let mut node = json!({ "kind": "Node", "metadata": { "name": name, "labels": {}, "annotations": {} }, "spec": { "taints": [] } });
        for (field, value) in fields {
            match field.split_once(' ').unwrap() {
                ("taint", taint) => {
                    let (key, effect) = taint.rsplit_once(':').unwrap();
                    let taint = json!({ "key": key, "value": value, "effect": effect });
                    node["spec"]["taints"].as_array_mut().unwrap().push(taint);
                }
                (kind, key) => node["metadata"][format!("{kind}s")][key] = json!(value),
            }
        }
        node
    }

    /// A write per second by these users, which stored this node; `None` if it was deleted.
    fn history(writes: &[(&str, Option<Value>)]) -> Vec<Stored> {
        let stored = |(second, (user, object)): (i64, &(&str, Option<Value>))| Stored {
            user: (*user).to_owned(),
            resource: "nodes".to_owned(),
            name: "a".to_owned(),
            received: at(second),
            version: second.unsigned_abs() + 1,
            object: object.clone(),
        };
        (0..).zip(writes).map(stored).collect()
    }

    const WINDOWS: [(&str, &str); 2] = [("label kubernetes.io/os", "windows"), ("label agentpool", "web")];
    const FOREIGN: [(&str, &str); 3] = [
        ("label example.com/rack", "r1"),
        ("annotation example.com/note", "n"),
        ("taint example.com/busy:NoExecute", "1"),
    ];

    #[test]
    fn a_write_of_the_operator_that_removes_or_changes_a_field_of_another_owner_is_found() {
        let created = || Some(node("a", &[&WINDOWS[..], &FOREIGN].concat()));
        let kept = |fields: &[(&str, &str)]| Some(node("a", &[&WINDOWS[..], &FOREIGN, fields].concat()));
        let without = |lost: usize| {
            let rest: Vec<_> =
                FOREIGN.into_iter().enumerate().filter(|(index, _)| *index != lost).map(|(_, field)| field).collect();
            Some(node("a", &[&WINDOWS[..], &rest].concat()))
        };
        let mut metadata = kept(&[]);
        for part in metadata.iter_mut() {
            part["kind"] = json!("PartialObjectMetadata");
            part["spec"] = Value::Null;
        }
        for (second, expected) in [
            ((OPERATOR, kept(&[(TAINT, "windows"), ("label winpool.dev/pool", "web")])), Ok(1)),
            ((OPERATOR, metadata), Ok(1)),
            (("other", without(0)), Ok(0)),
            ((OPERATOR, None), Err("annotation example.com/note")),
            ((OPERATOR, without(0)), Err("label example.com/rack")),
            ((OPERATOR, without(1)), Err("annotation example.com/note")),
            ((OPERATOR, without(2)), Err("taint example.com/busy:NoExecute")),
            ((OPERATOR, kept(&[("label example.com/rack", "r2")])), Err("label example.com/rack")),
        ] {
            let found = check_foreign_fields(&history(&[("kubelet", created()), second]), OPERATOR);
            match (&found, expected) {
                (Ok(count), Ok(expected)) => assert_eq!(*count, expected),
                (Err(error), Err(field)) => assert!(error.to_string().contains(field), "{error}"),
                _ => panic!("{found:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn a_windows_node_without_its_taint_for_longer_than_the_operator_was_away_is_found() {
        let bare = || ("kubelet", Some(node("a", &WINDOWS)));
        let tainted = || (OPERATOR, Some(node("a", &[&WINDOWS[..], &[(TAINT, "windows")]].concat())));
        let linux = || ("kubelet", Some(node("a", &[("label kubernetes.io/os", "linux"), ("label agentpool", "web")])));
        let deleted = || ("kubelet", None);
        // The longest time without a taint until second 10, in seconds; `None` if that is more than 3.
        for (writes, away, expected) in [
            (vec![bare(), tainted()], vec![], Some(1)),
            (vec![bare(), bare(), bare(), tainted()], vec![], Some(3)),
            (vec![bare(), bare(), bare(), bare(), tainted()], vec![], None),
            (vec![bare(), bare(), bare(), bare(), tainted()], vec![(1, 3)], Some(2)),
            (vec![bare(), tainted(), bare()], vec![], None),
            (vec![bare(), tainted(), bare()], vec![(4, 20)], Some(2)),
            (vec![bare(), deleted(), bare(), tainted()], vec![], Some(1)),
            (vec![bare(), deleted()], vec![], Some(1)),
            (vec![linux()], vec![], Some(0)),
            (vec![bare()], vec![], None),
        ] {
            let away: Vec<_> = away.into_iter().map(|(begin, end)| (at(begin), at(end))).collect();
            let found = check_taints(&history(&writes), at(10), &away, Duration::from_secs(3)).ok();
            assert_eq!(found, expected.map(Duration::from_secs), "{writes:?}");
        }
    }

    #[test]
    fn a_node_that_lacks_a_field_of_its_pool_or_a_planted_one_is_found() {
        let own = [(TAINT, "v2"), (EDITION, "v2"), ("label winpool.dev/pool", "web")];
        let planted: Fields = [&WINDOWS[..], &FOREIGN]
            .concat()
            .into_iter()
            .map(|(field, value)| (field.to_owned(), value.to_owned()))
            .collect();
        let all = [&WINDOWS[..], &FOREIGN, &own].concat();
        let check = |nodes: &[Value]| {
            let editions = BTreeMap::from([("web".to_owned(), "v2".to_owned())]);
            check_converged(nodes, &BTreeMap::from([("a".to_owned(), planted.clone())]), &editions)
        };
        check(&[node("a", &all)]).unwrap();
        assert!(check(&[]).is_err(), "the node is missing");
        assert!(check(&[node("b", &all)]).is_err(), "another node");
        for index in 0..all.len() {
            let mut fields = all.clone();
            let (field, _) = fields.remove(index);
            assert!(check(&[node("a", &fields)]).is_err(), "without {field}");
            fields.push((field, "v1"));
            assert!(check(&[node("a", &fields)]).is_err(), "another value of {field}");
        }
        let linux = |fields: &[(&str, &str)]| node("a", &[&[("label kubernetes.io/os", "linux")], fields].concat());
        let of_no_pool = BTreeMap::from([("a".to_owned(), fields(&linux(&[])))]);
        check_converged(&[linux(&[])], &of_no_pool, &BTreeMap::new()).unwrap();
        assert!(check_converged(&[linux(&own[..1])], &of_no_pool, &BTreeMap::new()).is_err(), "a node of no pool");
    }

    #[test]
    fn a_write_without_the_lease_is_found() {
        let write = |second: i64, agent: &str, resource: &str, code: u16, required_version: Option<u64>| Request {
            verb: "patch".to_owned(),
            group: String::new(),
            resource: resource.to_owned(),
            subresource: String::new(),
            namespace: String::new(),
            name: "a".to_owned(),
            code,
            uri: String::new(),
            received: at(second),
            agent: agent.to_owned(),
            required_version,
        };
        let renewal = |second, agent| write(second, agent, "leases", 200, None);
        let node = |second, agent| write(second, agent, "nodes", 200, Some(1));
        // Version 2 of the node is stored in second 1.
        let stored = history(&[("kubelet", None), ("kubelet", None)]);
        for (requests, is_right) in [
            (vec![renewal(0, "a"), node(1, "a"), node(19, "a")], true),
            (vec![node(1, "a"), renewal(0, "a")], true),
            (vec![renewal(0, "a"), renewal(5, "b"), node(6, "b")], true),
            (vec![renewal(0, "a"), write(30, "a", "nodes", 504, Some(1))], true),
            (vec![renewal(0, "a"), write(30, "a", "nodes", 409, None)], true),
            (vec![node(1, "a")], false),
            (vec![renewal(0, "a"), node(20, "a")], false),
            (vec![renewal(0, "a"), renewal(5, "b"), node(6, "a")], false),
            (vec![write(0, "a", "leases", 409, None), node(1, "a")], false),
            (vec![renewal(0, "a"), write(30, "a", "nodes", 504, Some(2))], false),
            (vec![renewal(0, "a"), write(30, "a", "nodes", 504, None)], false),
        ] {
            let found = check_leaders(requests.clone(), &stored);
            assert_eq!(found.is_ok(), is_right, "{requests:#?}: {found:?}");
        }
    }
}

//! A plan for a person to read.

use std::{collections::BTreeMap, fmt::Write as _};

use super::preview::{Change, Finding, PoolPreview, Preview, Told, Upgrade, Writes};
use crate::domain::conditions::some_of;

/// The widest that the first of two columns gets.
const WIDEST: usize = 48;

/// The plan as text.
pub fn text(preview: &Preview) -> String {
    let mut text = String::new();
    if preview.pools.is_empty() {
        text.push_str("There is no WindowsNodePool.\n");
    }
    preview.pools.iter().for_each(|pool| pool_text(pool, &mut text));
    if !preview.nodes_in_no_pool.is_empty() {
        let nodes = some_of(&preview.nodes_in_no_pool);
        let _ = writeln!(text, "\nIn no pool, so no pool keeps Linux pods off: {nodes}");
    }
    if let Some(upgrade) = &preview.upgrade {
        upgrade_text(upgrade, &mut text);
    }
    text
}

fn pool_text(pool: &PoolPreview, text: &mut String) {
    let count = |changes: &[Change], what: &str| match changes.len() {
        0 => "nothing changes".to_owned(),
        1 => format!("1 change{what}"),
        count => format!("{count} changes{what}"),
    };
    let summary = match pool.writes {
        Writes::Enforce => count(&pool.changes, ""),
        Writes::Observe => count(&pool.withheld, ", withheld because it only observes"),
        Writes::Paused => count(&pool.withheld, ", withheld because it is paused"),
        Writes::Deleting => format!("{}; it is being deleted", count(&pool.changes, "")),
    };
    let _ = writeln!(text, "Pool {}: {summary}", pool.name);
    let told = |word: &'static str, all: &[Told]| -> Vec<(String, String)> {
        all.iter().map(|told| (format!("{word} {}/{}", told.condition, told.reason), told.message.clone())).collect()
    };
    columns(&grouped(pool.changes.iter().chain(&pool.withheld)), text);
    columns(&[told("held back:", &pool.held), told("as it is:", &pool.flags)].concat(), text);
}

/// Changes that are the same for several objects of a kind become one line, where the first of them was.
fn grouped<'a>(changes: impl Iterator<Item = &'a Change>) -> Vec<(String, String)> {
    let mut places: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut groups: Vec<(&Change, Vec<&str>)> = Vec::new();
    for change in changes {
        let place = *places.entry((&change.kind, &change.words)).or_insert_with(|| {
            groups.push((change, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(&change.name);
    }
    groups
        .into_iter()
        .map(|(first, names)| (format!("{} {}", first.kind, some_of(names)), first.words.clone()))
        .collect()
}

fn upgrade_text(upgrade: &Upgrade, text: &mut String) {
    let from = upgrade.from.as_deref().unwrap_or("an unknown version");
    let _ = writeln!(text, "\nUpgrade from Kubernetes {from} to {}:", upgrade.kubernetes);
    if upgrade.findings.is_empty() {
        let _ = writeln!(text, "  Nothing that winpool knows of stands against it.");
    }
    let left = |finding: &Finding| {
        let word = if finding.breaks { "breaks" } else { "changes" };
        let pool = finding.pool.as_ref().map_or("no pool".to_owned(), |pool| format!("pool {pool}"));
        format!("{word} {} ({pool})", finding.concern)
    };
    let right = |finding: &Finding| match finding.nodes.as_slice() {
        [] => finding.message.clone(),
        nodes => format!("{}: {}", some_of(nodes), finding.message),
    };
    let rows: Vec<_> = upgrade.findings.iter().map(|finding| (left(finding), right(finding))).collect();
    columns(&rows, text);
}

/// Two columns, the second beginning at one place.
fn columns(rows: &[(String, String)], text: &mut String) {
    let width = rows.iter().map(|(left, _)| left.chars().count()).filter(|width| *width <= WIDEST).max().unwrap_or(0);
    for (left, right) in rows {
        let _ = writeln!(text, "  {left:<width$}  {right}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: &str, name: &str, words: &str) -> Change {
        Change { kind: kind.into(), name: name.into(), words: words.into() }
    }

    fn pool(name: &str, writes: Writes) -> PoolPreview {
        PoolPreview { name: name.into(), writes, changes: vec![], withheld: vec![], held: vec![], flags: vec![] }
    }

    #[test]
    fn a_plan_reads_calmly() {
        let told = |condition: &str, reason: &str, message: &str| Told {
            condition: condition.into(),
            reason: reason.into(),
            message: message.into(),
        };
        let guard = "label winpool.dev/pool=web, taint os=windows:NoSchedule";
        let web = PoolPreview {
            changes: vec![
                change("RuntimeClass", "windows-ltsc2022", "create"),
                change("Node", "win-1", guard),
                change("Node", "win-2", "taint os=windows:NoSchedule"),
                change("Node", "win-3", guard),
            ],
            held: vec![told("NodesAssigned", "ReleaseHeld", "win-9 no longer match")],
            flags: vec![told("VersionSkew", "KubeletTooOld", "win-2 is behind")],
            ..pool("web", Writes::Enforce)
        };
        let batch =
            PoolPreview { withheld: vec![change("Node", "win-4", "config batch-1")], ..pool("batch", Writes::Observe) };
        let finding = |breaks, concern, pool: Option<&str>, nodes: &[&str]| Finding {
            pool: pool.map(str::to_owned),
            concern,
            breaks,
            message: "this and that".into(),
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        };
        let preview = Preview {
            pools: vec![batch, pool("idle", Writes::Enforce), web],
            nodes_in_no_pool: vec!["win-8".into()],
            upgrade: Some(Upgrade {
                kubernetes: "1.36".into(),
                from: Some("1.34".into()),
                findings: vec![
                    finding(true, "VersionSkew", Some("web"), &["win-2"]),
                    finding(false, "PauseImage", None, &["1", "2", "3", "4", "5", "6"]),
                ],
            }),
        };
        insta::assert_snapshot!(text(&preview), @r"
        Pool batch: 1 change, withheld because it only observes
          Node win-4  config batch-1
        Pool idle: nothing changes
        Pool web: 4 changes
          RuntimeClass windows-ltsc2022  create
          Node win-1, win-3              label winpool.dev/pool=web, taint os=windows:NoSchedule
          Node win-2                     taint os=windows:NoSchedule
          held back: NodesAssigned/ReleaseHeld  win-9 no longer match
          as it is: VersionSkew/KubeletTooOld   win-2 is behind

        In no pool, so no pool keeps Linux pods off: win-8

        Upgrade from Kubernetes 1.34 to 1.36:
          breaks VersionSkew (pool web)  win-2: this and that
          changes PauseImage (no pool)   1, 2, 3, 4, 5 and 1 more: this and that
        ");
        let verdict = "1 pool would change; 1 pool would not get what is asked for; the upgrade would break 1 thing";
        assert_eq!(preview.verdict().as_deref(), Some(verdict));
    }

    #[test]
    fn nothing_is_said_of_nothing() {
        let preview = Preview { pools: vec![pool("web", Writes::Paused)], nodes_in_no_pool: vec![], upgrade: None };
        assert_eq!(text(&preview), "Pool web: nothing changes\n");
        assert_eq!(preview.verdict(), None);
    }
}

//! A plan as text.

use std::{collections::BTreeMap, fmt::Write as _};

use clap::builder::styling::Style;
use winpool_api::Disruption;
use winpool_check::add_ons::AddOnFit;
use winpool_core::{
    foreign_text::escaped,
    text::{agree, counted, some_of},
};
use winpool_facts::add_ons::Fit;
use winpool_rules::pool::delivery::PlannedRestart;

use super::preview::{
    ConditionPreview, PlannedChange, PoolPreview, Preview, UpgradeFinding, UpgradePreview, WriteMode,
};
use crate::output::{BOLD, EXPLAIN, RED, YELLOW};

/// The largest width of the first of two columns.
const MAX_WIDTH: usize = 48;

pub fn text(preview: &Preview) -> String {
    let mut text = String::new();
    if preview.pools.is_empty() {
        text.push_str("There is no WindowsNodePool.\n");
    }
    preview.pools.iter().for_each(|pool| add_pool(pool, &mut text));
    if !preview.nodes_in_no_pool.is_empty() {
        let nodes = some_of(&preview.nodes_in_no_pool);
        let _ = writeln!(text, "\nNodes in no pool, without taints of winpool: {nodes}");
    }
    if let Some(upgrade) = &preview.upgrade {
        add_upgrade(upgrade, &mut text);
    }
    if preview.pools.iter().any(|pool| !pool.held.is_empty() || !pool.flags.is_empty()) {
        let _ = writeln!(text, "\n{EXPLAIN}");
    }
    text
}

fn add_pool(pool: &PoolPreview, text: &mut String) {
    let count = |changes: &[PlannedChange], suffix: &str| match changes.len() {
        0 => "no changes".to_owned(),
        count => format!("{}{suffix}", counted(count, "change")),
    };
    let summary = match pool.writes {
        WriteMode::Enforce => count(&pool.changes, ""),
        WriteMode::Observe => count(&pool.withheld, ", withheld in mode Observe"),
        WriteMode::Deleting => format!("{}, being deleted", count(&pool.changes, "")),
    };
    let _ = writeln!(text, "{BOLD}Pool {}{BOLD:#}: {summary}", pool.name);
    let kept = pool.kept.iter().map(|change| ("kept by nodes and machines".to_owned(), change.clone()));
    let workloads = pool.workloads.iter().map(|one| (format!("write: {}", one.workload), one.change.clone()));
    let spent = pool.spent_consents.iter().map(|name| ((*name).to_owned(), "spent, can be removed".to_owned()));
    let unstyled = [
        grouped(pool.changes.iter().chain(&pool.withheld)),
        pool.restarts.iter().map(restart).collect(),
        pool.kube_proxy.rows(),
        kept.collect(),
        workloads.collect(),
        spent.collect(),
    ];
    for rows in unstyled {
        add_columns(rows.into_iter().map(|row| (Style::new(), row)).collect(), text);
    }
    let add_on = |one: &AddOnFit| {
        let style = if one.fit == Fit::DoesNotFit { RED } else { Style::new() };
        (style, (format!("add-on {}: {}", one.fit.text(), one.workload), one.message()))
    };
    add_columns(pool.add_ons.iter().map(add_on).collect(), text);
    let row = |style: Style, heading: &str, ConditionPreview { condition, reason, message }: &ConditionPreview| {
        (style, (format!("{heading}: {condition}/{reason}"), message.clone()))
    };
    let held = pool.held.iter().map(|condition| row(YELLOW, "held", condition));
    let problems = pool.flags.iter().map(|condition| row(RED, "problem", condition));
    add_columns(held.chain(problems).collect(), text);
}

fn restart(preview: &PlannedRestart) -> (String, String) {
    let services = match preview.restart {
        Disruption::None => "no restart",
        Disruption::KubeletRestart => "restart of the kubelet",
        Disruption::ContainerdRestart | Disruption::Drain => "restart of containerd and kubelet",
    };
    let drain = if preview.drain { ", after a drain" } else { "" };
    let cause = match &preview.files {
        Some(files) => format!("changed {}", some_of(files)),
        None => "the present files are not known".to_owned(),
    };
    let nodes = some_of(&preview.nodes);
    (format!("agents: {nodes}"), format!("{services}{drain}: {cause} (config {})", preview.config))
}

/// One line for objects of a kind with the same change, at the position of the first of them.
fn grouped<'a>(changes: impl Iterator<Item = &'a PlannedChange>) -> Vec<(String, String)> {
    let mut indices: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut groups: Vec<(&PlannedChange, Vec<&str>)> = Vec::new();
    for change in changes {
        let index = *indices.entry((&change.kind, &change.change)).or_insert_with(|| {
            groups.push((change, Vec::new()));
            groups.len() - 1
        });
        groups[index].1.push(&change.name);
    }
    groups
        .into_iter()
        .map(|(first, names)| (format!("{} {}", first.kind, some_of(names)), first.change.clone()))
        .collect()
}

fn add_upgrade(upgrade: &UpgradePreview, text: &mut String) {
    let from = upgrade.from.as_deref().unwrap_or("an unknown version");
    let _ = writeln!(text, "\nUpgrade from Kubernetes {from} to {}:", upgrade.kubernetes);
    if upgrade.findings.is_empty() {
        let _ = writeln!(text, "  No known issues");
    }
    let row = |same: Vec<&UpgradeFinding>| {
        let issue = &same[0].issue;
        let (style, effect) = if issue.breaks { (RED, "breaks") } else { (Style::new(), "changes") };
        let pools: Vec<&str> = same.iter().filter_map(|finding| finding.pool.as_deref()).collect();
        let pools = match pools.len() {
            0 => "no pool".to_owned(),
            count => format!("{} {}", agree(count, "pool", "pools"), some_of(pools)),
        };
        let nodes: Vec<&String> = same.iter().flat_map(|finding| &finding.issue.nodes).collect();
        let about = if nodes.is_empty() { String::new() } else { format!("{}: ", some_of(nodes)) };
        (style, (format!("{effect} {} ({pools})", issue.concern), about + &issue.message))
    };
    add_columns(equal(&upgrade.findings).into_iter().map(row).collect(), text);
}

/// The findings that are the same in several pools together, at the position of the first of them.
fn equal(findings: &[UpgradeFinding]) -> Vec<Vec<&UpgradeFinding>> {
    let mut groups: Vec<Vec<&UpgradeFinding>> = Vec::new();
    let what = |finding: &UpgradeFinding| (finding.issue.concern, finding.issue.breaks, finding.issue.message.clone());
    for finding in findings {
        match groups.iter_mut().find(|group| what(group[0]) == what(finding)) {
            Some(group) => group.push(finding),
            None => groups.push(vec![finding]),
        }
    }
    groups
}

/// Two columns, aligned, the first with a style.
fn add_columns(rows: Vec<(Style, (String, String))>, text: &mut String) {
    let rows: Vec<_> = rows.iter().map(|(style, (left, right))| (style, (escaped(left), escaped(right)))).collect();
    let widths = rows.iter().map(|(_, (left, _))| left.chars().count());
    let width = widths.filter(|width| *width <= MAX_WIDTH).max().unwrap_or(0);
    for (style, (left, right)) in rows {
        let _ = writeln!(text, "  {style}{left:<width$}{style:#}  {right}");
    }
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;
    use winpool_check::upgrade::AffectedNodes;
    use winpool_facts::add_ons::Finding;

    use super::{super::kube_proxy::KubeProxyPreview, *};

    fn change(kind: &str, name: &str, change: &str) -> PlannedChange {
        PlannedChange { kind: kind.into(), name: name.into(), change: change.into() }
    }

    fn pool(name: &str, writes: WriteMode) -> PoolPreview {
        let name = name.into();
        let (changes, withheld, restarts, workloads) = (vec![], vec![], vec![], vec![]);
        let (kept, held, flags, spent_consents) = (vec![], vec![], vec![], vec![]);
        let (add_ons, kube_proxy) = (vec![], KubeProxyPreview::default());
        PoolPreview {
            name,
            writes,
            changes,
            withheld,
            restarts,
            add_ons,
            kube_proxy,
            kept,
            spent_consents,
            workloads,
            held,
            flags,
        }
    }

    #[test]
    fn cells_are_printed_without_sequences_of_a_terminal() {
        let web = PoolPreview {
            changes: vec![change("Node", "win\u{202e}", "taint \u{1b}[31mred\nline")],
            ..pool("web", WriteMode::Enforce)
        };
        let preview = Preview { pools: vec![web], nodes_in_no_pool: vec![], upgrade: None };
        let text = strip_str(&text(&preview)).to_string();
        assert!(text.ends_with("  Node win\\u{202e}  taint \\u{1b}[31mred line\n"), "{text}");
    }

    #[test]
    fn a_plan_lists_changes_conditions_and_upgrade_findings_in_columns() {
        let condition = |condition: &str, reason: &str, message: &str| ConditionPreview {
            condition: condition.into(),
            reason: reason.into(),
            message: message.into(),
        };
        let taint_and_label = "label winpool.dev/pool=web, taint os=windows:NoSchedule";
        let web = PoolPreview {
            changes: vec![
                change("RuntimeClass", "windows-ltsc2022", "create"),
                change("Node", "win-1", taint_and_label),
                change("Node", "win-2", "taint os=windows:NoSchedule"),
                change("Node", "win-3", taint_and_label),
            ],
            held: vec![condition("NodesAssigned", "ReleaseHeld", "win-9 no longer matches")],
            flags: vec![condition("VersionSkew", "KubeletTooOld", "win-2 is behind")],
            spent_consents: vec!["winpool.dev/allow-strand"],
            ..pool("web", WriteMode::Enforce)
        };
        let restart = |files: Option<&[&str]>, restart, drain, nodes: &[&str]| PlannedRestart {
            config: "web-2".into(),
            files: files.map(|files| files.iter().map(|file| (*file).to_owned()).collect()),
            restart,
            drain,
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        };
        let web = PoolPreview {
            add_ons: vec![AddOnFit {
                fit: Fit::DoesNotFit,
                workload: "DaemonSet kube-system/cni".into(),
                image: "calico/node-windows:v3.31.2".into(),
                add_on: Some("Calico"),
                version: Some("3.31.2".into()),
                findings: vec![Finding {
                    fit: Fit::DoesNotFit,
                    reason: "it supports this, and not that".into(),
                    remedy: "use another".into(),
                    source: "tigera/docs",
                }],
            }],
            kept: vec!["ConfigMap web-1 → web-2: kubelet.yaml maxPods: 110 → 120".into()],
            restarts: vec![
                restart(Some(&["kubelet.yaml"]), Disruption::KubeletRestart, false, &["win-1", "win-2"]),
                restart(Some(&["containerd.toml", "kubelet.yaml"]), Disruption::ContainerdRestart, true, &["win-3"]),
                restart(Some(&["hosts.docker.io.toml"]), Disruption::None, false, &["win-4"]),
                restart(None, Disruption::ContainerdRestart, false, &["win-5"]),
            ],
            ..web
        };
        let batch = PoolPreview {
            withheld: vec![change("Node", "win-4", "config batch-1")],
            ..pool("batch", WriteMode::Observe)
        };
        let finding = |breaks, concern, pool: Option<&str>, nodes: &[&str]| UpgradeFinding {
            pool: pool.map(str::to_owned),
            issue: AffectedNodes {
                concern,
                breaks,
                message: "this and that".into(),
                nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
            },
        };
        let preview = Preview {
            pools: vec![batch, pool("idle", WriteMode::Enforce), web],
            nodes_in_no_pool: vec!["win-8".into()],
            upgrade: Some(UpgradePreview {
                kubernetes: "1.36".into(),
                from: Some("1.34".into()),
                findings: vec![
                    finding(true, "VersionSkew", Some("web"), &["win-2"]),
                    finding(true, "VersionSkew", Some("batch"), &["win-4"]),
                    finding(false, "PauseImage", None, &["1", "2", "3", "4", "5", "6"]),
                ],
            }),
        };
        let styled = text(&preview);
        assert!(styled.contains("\u{1b}["), "{styled:?}");
        insta::assert_snapshot!(strip_str(&styled), @r"
        Pool batch: 1 change, withheld in mode Observe
          Node win-4  config batch-1
        Pool idle: no changes
        Pool web: 4 changes
          RuntimeClass windows-ltsc2022  create
          Node win-1, win-3              label winpool.dev/pool=web, taint os=windows:NoSchedule
          Node win-2                     taint os=windows:NoSchedule
          agents: win-1, win-2  restart of the kubelet: changed kubelet.yaml (config web-2)
          agents: win-3         restart of containerd and kubelet, after a drain: changed containerd.toml, kubelet.yaml (config web-2)
          agents: win-4         no restart: changed hosts.docker.io.toml (config web-2)
          agents: win-5         restart of containerd and kubelet: the present files are not known (config web-2)
          kept by nodes and machines  ConfigMap web-1 → web-2: kubelet.yaml maxPods: 110 → 120
          winpool.dev/allow-strand  spent, can be removed
          add-on does not fit: DaemonSet kube-system/cni  calico/node-windows:v3.31.2 (Calico 3.31.2): it supports this, and not that. Use another (tigera/docs)
          held: NodesAssigned/ReleaseHeld     win-9 no longer matches
          problem: VersionSkew/KubeletTooOld  win-2 is behind

        Nodes in no pool, without taints of winpool: win-8

        Upgrade from Kubernetes 1.34 to 1.36:
          breaks VersionSkew (pools batch, web)  win-2, win-4: this and that
          changes PauseImage (no pool)           1, 2, 3, 4, 5 and 1 more: this and that

        Run winpool explain CODE for the meaning of a code.
        ");
        let summary = "1 pool would change, 1 pool would not be as specified, the upgrade has 2 breaking issues, 1 add-on does not fit";
        assert_eq!(preview.summary().as_deref(), Some(summary));
    }

    #[test]
    fn a_plan_without_changes_has_no_summary() {
        let preview = Preview { pools: vec![pool("web", WriteMode::Observe)], nodes_in_no_pool: vec![], upgrade: None };
        assert_eq!(strip_str(&text(&preview)).to_string(), "Pool web: no changes\n");
        assert_eq!(preview.summary(), None);
    }
}

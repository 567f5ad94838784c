//! The tables of facts and the page about them.

use winpool_facts::{
    Build, Compared, TABLES, Table,
    add_ons::{ADD_ONS, AddOn, Caveat, Release, version_text},
    builds,
    node_pools::{NODE_POOL_LABELS, NodePoolLabel},
    taints::{OS_TAINTS, OsTaint},
};

use crate::status_page::assert_blocks;

#[test]
fn the_page_about_facts_has_rows_minor_comparison_and_sources_of_every_table() {
    let row = |table: &Table| {
        let newest = table.newest().map(|minor| minor.to_string()).unwrap_or_default();
        let compared = match table.compared {
            Compared::Modules => "`make test`",
            Compared::ByHand => "by hand",
        };
        format!(
            "| `{}` | {} | {newest} | {} | {compared} | {} |\n",
            table.name,
            table.rows,
            table.good_until(),
            table.sources.join(", ")
        )
    };
    let head = "| table | rows | minor | known good until | compared | sources |\n|---|---|---|---|---|---|\n";
    let table = format!("{head}{}", TABLES.iter().map(row).collect::<String>());
    assert_blocks("docs/facts.md", [("tables", table)]);
}

#[test]
fn the_page_about_workloads_has_what_is_known_of_every_add_on() {
    let releases: String = ADD_ONS.iter().flat_map(release_rows).collect();
    let caveats: String =
        ADD_ONS.iter().flat_map(|one| one.caveats.iter().map(|caveat| caveat_row(one, caveat))).collect();
    let releases = format!(
        "| add-on | images | releases | Windows | Kubernetes | source |\n|---|---|---|---|---|---|\n{releases}"
    );
    let caveats =
        format!("| add-on | releases | Windows | what | action | source |\n|---|---|---|---|---|---|\n{caveats}");
    assert_blocks("docs/workloads.md", [("add-ons", releases), ("add-on-caveats", caveats)]);
}

#[test]
fn the_page_about_adoption_has_the_taints_and_the_labels_of_node_pools() {
    let taint =
        |OsTaint { key, value, used_by, source }: &OsTaint| format!("| `{key}={value}` | {used_by} | {source} |\n");
    let label =
        |NodePoolLabel { key, platform, source }: &NodePoolLabel| format!("| `{key}` | {platform} | {source} |\n");
    let taints: String = OS_TAINTS.iter().map(taint).collect();
    let labels: String = NODE_POOL_LABELS.iter().map(label).collect();
    let taints = format!("| taint | in use by | source |\n|---|---|---|\n{taints}");
    let labels = format!("| label | platform | source |\n|---|---|---|\n{labels}");
    assert_blocks("docs/adopting.md", [("taints", taints), ("node-pool-labels", labels)]);
}

/// A row for each release from which on an add-on supports something else.
fn release_rows(add_on: &AddOn) -> Vec<String> {
    let AddOn { name, repositories, releases, newest_read, source, .. } = add_on;
    let images = repositories.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ");
    let row = |(index, release): (usize, &Release)| {
        let since = version_text(release.since);
        let span = match releases.get(index + 1) {
            Some(next) => format!("{since} to before {}", version_text(next.since)),
            None => format!("{since} to {}", version_text(*newest_read)),
        };
        format!("| {name} | {images} | {span} | {} | {} | {source} |\n", release.builds, release.minors)
    };
    releases.iter().enumerate().map(row).collect()
}

fn caveat_row(add_on: &AddOn, caveat: &Caveat) -> String {
    let Caveat { until, on, breaks, reason, remedy, source, .. } = caveat;
    let releases = until.map_or("all".to_owned(), |until| format!("before {}", version_text(until)));
    let windows = match on {
        None => "all".to_owned(),
        Some((build, None)) => builds::described(Build(*build)),
        Some((build, Some(revision))) => format!("{} before revision {revision}", builds::described(Build(*build))),
    };
    let effect = if *breaks { "does not fit" } else { "needs care" };
    format!("| {} | {releases} | {windows} | {effect}: {reason} | {remedy} | {source} |\n", add_on.name)
}

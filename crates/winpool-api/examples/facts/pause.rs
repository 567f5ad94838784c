//! `build/pause/CHANGELOG.md` of kubernetes/kubernetes.

use std::collections::BTreeSet;

use winpool_api::facts::{
    Build, builds,
    pause::{UPSTREAM, builds_of, has_tag},
};

use super::Comparison;

/// The first tag with Windows according to the changelog.
const FIRST_WITH_WINDOWS: &str = "# 3.4";

/// Tags of the changelog without an image for Windows, and builds that a tag lists and does not have: kubernetes/kubernetes
/// issue 100708 examined the registry.
const WITHOUT_WINDOWS: [&str; 1] = ["3.4"];
const NOT_IN_TAG: [(&str, &str); 1] = [("3.4.1", "20H2")];

/// Compares the Windows builds of each tag: those that the changelog adds, without those that it removes.
pub fn changelog(text: &str) -> Comparison {
    let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("# "), sections.last_mut()) {
            (Some(tag), _) => sections.push((tag.trim(), Vec::new())),
            (None, Some((_, lines))) => lines.push(line),
            (None, None) => {}
        }
    }
    if sections.is_empty() {
        return Err("no heading such as # 3.10".to_owned());
    }
    let (mut differences, mut upstream, mut windows) = (Vec::new(), BTreeSet::new(), false);
    // The newest tag is first.
    for (tag, lines) in sections.into_iter().rev() {
        windows |= FIRST_WITH_WINDOWS.ends_with(&format!(" {tag}"));
        for line in lines {
            let named = named_builds(line, &mut differences, tag);
            if line.contains("removed") {
                upstream.retain(|build| !named.contains(build));
            } else {
                upstream.extend(named);
            }
        }
        match builds_of(UPSTREAM, tag) {
            // Tags before the first one with Windows are not required.
            None if WITHOUT_WINDOWS.contains(&tag) => {}
            None if windows && !has_tag(UPSTREAM, tag) => differences.push(format!("the tag {tag} is missing")),
            None => {}
            Some(own) => {
                let own: BTreeSet<Build> = own.collect();
                let absent: Vec<_> = NOT_IN_TAG.iter().filter(|(of, _)| *of == tag).collect();
                let is_absent = |build: &Build| absent.iter().any(|(_, name)| builds::named(name) == Some(*build));
                let upstream: BTreeSet<Build> = upstream.iter().copied().filter(|build| !is_absent(build)).collect();
                if own != upstream {
                    let (own, upstream) = (list(&own), list(&upstream));
                    differences.push(format!("{tag}: upstream has {upstream}, the table has {own}"));
                }
            }
        }
    }
    Ok(differences)
}

/// The builds in `(OS Versions: 1809, 2022)` or `(OS Versions removed: 1903)`.
fn named_builds(line: &str, differences: &mut Vec<String>, tag: &str) -> BTreeSet<Build> {
    let Some(start) = line.find("OS Version") else { return BTreeSet::new() };
    let list = line[start..].split(')').next().unwrap_or_default().split(':').nth(1).unwrap_or_default();
    let mut found = BTreeSet::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match builds::named(name).or_else(|| builds::named(&format!("ltsc{name}"))) {
            Some(build) => found.extend([build]),
            None => differences.push(format!("{tag}: unknown Windows version {name:?}")),
        }
    }
    found
}

fn list(builds: &BTreeSet<Build>) -> String {
    if builds.is_empty() {
        return "no Windows".to_owned();
    }
    builds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO_3_6: &str = "# 3.6\n* Windows (OS Versions: 2022) was added.\n# 3.5\n* non root (OS Versions: 20H2) was added\n\
                          # 3.4.1\n* (OS Versions: 1809, 1903, 1909, 2004) was added\n# 3.3\n* nothing for Windows\n";

    #[test]
    fn builds_accumulate_from_tag_to_tag() {
        assert_eq!(changelog(TO_3_6), Ok(Vec::new()));
        let removed = format!("# 3.7\n* images removed (OS Versions removed: 1903, 1909, 2004).\n{TO_3_6}");
        assert_eq!(changelog(&removed), Ok(Vec::new()));
    }

    #[test]
    fn what_the_changelog_says_and_the_registry_does_not_have_is_no_difference() {
        let text = "# 3.5\n* non root\n# 3.4.1\n* (OS Versions: 20H2) was added\n# 3.4\n* (OS Versions: 1809, 1903, 1909, 2004) was added\n";
        assert_eq!(changelog(text), Ok(Vec::new()));
    }

    #[test]
    fn other_builds_unknown_names_and_missing_tags_are_differences() {
        let with = format!("# 3.9\n* (OS Versions: 2025, Nano) was added\n{TO_3_6}");
        let found = changelog(&with).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0], "3.9: unknown Windows version \"Nano\"");
        assert!(
            found[1].starts_with("3.9: upstream has 10.0.17763, ")
                && found[1].ends_with("the table has 10.0.17763, 10.0.20348")
        );
        let missing = "# 9.0\n* fine\n# 3.4\n* (OS Versions: 1809) was added\n";
        assert_eq!(changelog(missing).unwrap(), ["the tag 9.0 is missing"]);
        assert!(changelog("nothing").is_err());
    }
}

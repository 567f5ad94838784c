//! `build/pause/CHANGELOG.md` of kubernetes/kubernetes.

use std::collections::BTreeSet;

use winpool::facts::{
    Build, builds,
    pause::{UPSTREAM, builds_of, has_tag},
};

use super::Compared;

/// The first tag with Windows in it, as the changelog has it.
const FIRST_WITH_WINDOWS: &str = "# 3.4";

/// Compares the builds of Windows that each tag has by the changelog: what it says was added, less what it says was removed.
pub fn changelog(text: &str) -> Compared {
    let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("# "), sections.last_mut()) {
            (Some(tag), _) => sections.push((tag.trim(), Vec::new())),
            (None, Some((_, lines))) => lines.push(line),
            (None, None) => {}
        }
    }
    if sections.is_empty() {
        return Err("it has no heading such as # 3.10".to_owned());
    }
    let (mut differences, mut there, mut windows) = (Vec::new(), BTreeSet::new(), false);
    // The newest is first.
    for (tag, lines) in sections.into_iter().rev() {
        windows |= FIRST_WITH_WINDOWS.ends_with(&format!(" {tag}"));
        for line in lines {
            let named = named_builds(line, &mut differences, tag);
            if line.contains("removed") {
                there.retain(|build| !named.contains(build));
            } else {
                there.extend(named);
            }
        }
        match builds_of(UPSTREAM, tag) {
            // Before Windows nobody asks for a tag that is missing.
            None if windows && !has_tag(UPSTREAM, tag) => differences.push(format!("the tag {tag} is missing")),
            None => {}
            Some(own) => {
                let own: BTreeSet<Build> = own.collect();
                if own != there {
                    differences.push(format!("{tag} has {}, the table has {}", in_words(&there), in_words(&own)));
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
            None => differences.push(format!("{tag} names a Windows {name:?} that no table has")),
        }
    }
    found
}

fn in_words(builds: &BTreeSet<Build>) -> String {
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
    fn builds_add_up_from_tag_to_tag() {
        assert_eq!(changelog(TO_3_6), Ok(Vec::new()));
        let removed = format!("# 3.7\n* images removed (OS Versions removed: 1903, 1909, 2004).\n{TO_3_6}");
        assert_eq!(changelog(&removed), Ok(Vec::new()));
    }

    #[test]
    fn a_tag_with_other_builds_or_unknown_names_is_a_difference() {
        let with = format!("# 3.9\n* (OS Versions: 2025, Nano) was added\n{TO_3_6}");
        let found = changelog(&with).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0], "3.9 names a Windows \"Nano\" that no table has");
        assert!(
            found[1].starts_with("3.9 has 10.0.17763, ") && found[1].ends_with("the table has 10.0.17763, 10.0.20348")
        );
        let missing = "# 9.0\n* fine\n# 3.4\n* (OS Versions: 1809) was added\n";
        assert_eq!(changelog(missing).unwrap(), ["the tag 3.4 is missing", "the tag 9.0 is missing"]);
        assert!(changelog("nothing").is_err());
    }
}

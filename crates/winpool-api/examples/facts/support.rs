//! `content/en/docs/concepts/windows/intro.md` of kubernetes/website, in the branch of a minor.

use std::collections::BTreeSet;

use winpool_api::facts::{Build, Minor, builds, support::builds_supported_by};

use super::Comparison;

/// The first and the last minor for which the table follows the project instead of the page, and the build in which they differ:
/// see the header of the table.
const NOT_AS_THE_PAGE: [(Minor, Minor, Build); 2] =
    [(Minor(26), Minor(31), Build(19042)), (Minor(32), Minor(34), Build(26100))];

/// Compares the releases of Windows in the section about the supported versions.
pub fn supported(minor: Minor, text: &str) -> Comparison {
    let section =
        text.split_once("{#windows-os-version-support}").and_then(|(_, rest)| rest.split_once("version-skew"));
    let (section, _) = section.ok_or("no section windows-os-version-support")?;
    let mut differences = Vec::new();
    let mut upstream = BTreeSet::new();
    for line in section.lines().filter_map(|line| line.trim().strip_prefix(':')) {
        for name in line.split(',') {
            let release = name.split_whitespace().next_back().unwrap_or_default();
            match builds::named(&format!("ltsc{release}")).or_else(|| builds::named(release)) {
                Some(build) => upstream.extend([build]),
                None => differences.push(format!("unknown release {:?}", name.trim())),
            }
        }
    }
    if upstream.is_empty() {
        return Err("no releases of Windows".to_owned());
    }
    let follows_page = |build: &&Build| {
        !NOT_AS_THE_PAGE.iter().any(|(first, last, other)| (*first..=*last).contains(&minor) && other == *build)
    };
    let own: BTreeSet<Build> = builds_supported_by(minor).unwrap_or_default().iter().copied().collect();
    let missing = upstream.difference(&own).filter(follows_page).map(|build| format!("{build} is supported upstream"));
    let removed = own.difference(&upstream).filter(follows_page);
    differences.extend(missing.chain(removed.map(|build| format!("{build} is not supported upstream"))));
    Ok(differences)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(releases: &str) -> String {
        format!(
            "## Windows OS version compatibility {{#windows-os-version-support}}\n\n{releases}\n\nThe [version-skew policy]\n"
        )
    }

    #[test]
    fn added_and_removed_releases_are_differences() {
        let with_20h2 = page(
            "Windows Server LTSC release\n: Windows Server 2019\n: Windows Server 2022\n\nWindows Server SAC release\n:  Windows Server version 20H2",
        );
        let of_1_22 = page(": Windows Server 2019\n\n: Windows Server version 2004, Windows Server version 20H2");
        let of_1_36 = page(": Windows Server 2022\n: Windows Server 2025");
        let table: [(u32, &str, &[&str]); 6] = [
            (22, &of_1_22, &[]),
            (25, &with_20h2, &[]),
            (31, &with_20h2, &[]),
            (33, &page(": Windows Server 2019\n: Windows Server 2022"), &[]),
            (36, &of_1_36, &[]),
            (
                37,
                &page(": Windows Server 2019\n: Windows Server 2022"),
                &["10.0.17763 is supported upstream", "10.0.26100 is not supported upstream"],
            ),
        ];
        for (minor, text, expected) in table {
            assert_eq!(supported(Minor(minor), text).unwrap(), expected, "1.{minor}");
        }
        assert_eq!(
            supported(Minor(36), &page(": Windows Server 2022, Windows Server 2025, Nano Server 2")).unwrap(),
            ["unknown release \"Nano Server 2\""]
        );
        assert!(supported(Minor(36), &page("")).is_err());
    }
}

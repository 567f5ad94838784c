//! Sections of pages on which tables depend that no program can read: a changed section is a difference, and somebody reads
//! it again.

use super::Comparison;

/// A section of a page, and the digest of the text that was read.
pub struct Section {
    /// The name of the page in the folder.
    pub file: &'static str,
    /// The text before the section.
    begin: &'static str,
    /// The text after it.
    end: &'static str,
    /// The [`digest`] of the section.
    digest: u64,
    /// The table that depends on it.
    table: &'static str,
}

/// Every section. The pages of kubernetes/website were read in 2026-11: windows-networking.md at 038a69be, and
/// taint-and-toleration.md at 0d163067, which may not be their newest commits. kubernetes-sigs/cluster-api and
/// MicrosoftDocs/azure-aks-docs were read in the state of 2026-08-21, and version-skew-policy.md of kubernetes/website in 2026-11
/// at 0637786b, which may not be its newest commit.
pub const SECTIONS: [Section; 6] = [
    Section {
        file: "version-skew-policy.md",
        begin: "### kubelet\n",
        end: "Example:",
        digest: 0x6088_1da8_19a9_855c,
        table: "skew",
    },
    Section {
        file: "version-skew-policy.md",
        begin: "### kube-proxy\n",
        end: "Example:",
        digest: 0xcd1b_373d_53d9_de91,
        table: "skew",
    },
    Section {
        file: "windows-networking.md",
        begin: "## Limitations",
        end: "Specifically, the Windows data plane",
        digest: 0x5f6d_7730_01bb_d00e,
        table: "service_limits",
    },
    Section {
        file: "taint-and-toleration.md",
        begin: "The following taints are built in:",
        end: "In case a node is to be drained",
        digest: 0xbd19_f617_bca5_5438,
        table: "taints",
    },
    Section {
        file: "bootstrap-config.md",
        begin: "### Taint Nodes at creation",
        end: "\n### ",
        digest: 0xeb4f_d1ed_4892_2a26,
        table: "taints",
    },
    Section {
        file: "custom-node-configuration.md",
        begin: "#### [Windows node pools](#tab/windows-node-pools)",
        end: "### OS configuration",
        digest: 0x0b6c_e214_d1d3_64d9,
        table: "platforms",
    },
];

impl Section {
    /// Compares the section in the text of its page.
    pub fn compare(&self, text: &str) -> Comparison {
        let after = text.split_once(self.begin).map(|(_, after)| after);
        let section = after.and_then(|after| after.split_once(self.end)).map(|(section, _)| section);
        let found = digest(section.ok_or_else(|| format!("no section after {:?}", self.begin))?);
        let changed = || {
            let digest = self.digest;
            format!(
                "the section {:?} changed: compare the table {}, and write the digest {found:#018x} instead of {digest:#018x}",
                self.begin, self.table
            )
        };
        Ok((found != self.digest).then(changed).into_iter().collect())
    }
}

/// The FNV-1a hash of the words, with 64 bits: other breaks of lines are no change. Nobody has an interest in a collision.
fn digest(text: &str) -> u64 {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use winpool_api::facts::{Compared, TABLES};

    use super::*;

    #[test]
    fn a_changed_section_is_a_difference_and_other_breaks_of_lines_are_none() {
        // The test vector of FNV-1a for "foobar".
        let section = |digest| Section { file: "page.md", begin: "# A", end: "# B", digest, table: "taints" };
        let known = section(0x8594_4171_f739_67e8);
        assert_eq!(known.compare("# A\nfoobar\n# B"), Ok(Vec::new()));
        assert_eq!(known.compare("# A\n\n foobar # B"), Ok(Vec::new()));
        assert_eq!(known.compare("# A\nfoobars\n# B").unwrap().len(), 1);
        assert!(known.compare("foobar").is_err());
    }

    #[test]
    fn a_table_is_compared_by_digest_only_if_it_has_a_section_and_none_with_a_section_by_hand() {
        let compared = |name: &str| TABLES.iter().find(|table| table.name == name).unwrap().compared;
        assert!(SECTIONS.iter().all(|section| compared(section.table) != Compared::Hand));
        let mut by_digest = TABLES.iter().filter(|table| table.compared == Compared::Digest);
        assert!(by_digest.all(|table| SECTIONS.iter().any(|section| section.table == table.name)));
    }
}

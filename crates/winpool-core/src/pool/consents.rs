//! The changes that an administrator allows by annotations on a pool.
//!
//! The value of an annotation names the allowed change, so that one manifest works in every cluster and does not allow
//! a later change of the spec.

use std::collections::BTreeMap;

use winpool_api::{Taint, names::annotation};

use super::Members;
use crate::kubernetes::shell_quoted;

/// The consents of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consents {
    /// The selector whose nodes may be released.
    release: Option<String>,
    /// The windowsVersion that may leave pods without a node.
    strand: Option<String>,
    /// The NoExecute taints that may evict pods, as `key=value` or `key`, separated by commas.
    evict: Option<String>,
    /// The taints that may leave pods Pending, in the same format.
    pending: Option<String>,
}

impl Consents {
    /// The consents in the annotations of a pool.
    pub fn read(annotations: &BTreeMap<String, String>) -> Self {
        let value = |name: &str| annotations.get(name).map(|value| value.trim().to_owned());
        Self {
            release: value(annotation::ALLOW_RELEASE),
            strand: value(annotation::ALLOW_STRAND),
            evict: value(annotation::ALLOW_EVICT),
            pending: value(annotation::ALLOW_PENDING),
        }
    }

    /// These consents, and those of `others` that these do not have.
    pub fn or(&self, others: &Self) -> Self {
        let either = |own: &Option<String>, other: &Option<String>| own.clone().or_else(|| other.clone());
        Self {
            release: either(&self.release, &others.release),
            strand: either(&self.strand, &others.strand),
            evict: either(&self.evict, &others.evict),
            pending: either(&self.pending, &others.pending),
        }
    }

    /// Whether nodes that this selector does not match may be released.
    pub fn allow_release(&self, members: &Members) -> bool {
        self.release.as_ref() == Some(&members.to_string())
    }

    /// Whether a change to this windowsVersion may leave pods without a node.
    pub fn allow_strand(&self, windows_version: &str) -> bool {
        self.strand.as_ref().is_some_and(|allowed| allowed.eq_ignore_ascii_case(windows_version))
    }

    /// Whether a taint may evict pods.
    pub fn allow_evict(&self, taint: &Taint) -> bool {
        names(self.evict.as_deref(), taint)
    }

    /// Whether a taint may leave pods Pending.
    pub fn allow_pending(&self, taint: &Taint) -> bool {
        names(self.pending.as_deref(), taint)
    }
}

/// The command that allows the release of the nodes that this selector does not match.
pub fn release_command(pool: &str, members: &Members) -> String {
    command(pool, annotation::ALLOW_RELEASE, &members.to_string())
}

/// The command that allows a change to this windowsVersion.
pub fn strand_command(pool: &str, windows_version: &str) -> String {
    command(pool, annotation::ALLOW_STRAND, windows_version)
}

/// The command that allows these taints to evict pods.
pub fn evict_command<'a>(pool: &str, taints: impl IntoIterator<Item = &'a Taint>) -> String {
    let taints: Vec<String> = taints.into_iter().map(value_of).collect();
    command(pool, annotation::ALLOW_EVICT, &taints.join(","))
}

/// The command that allows these taints to leave pods Pending.
pub fn pending_command<'a>(pool: &str, taints: impl IntoIterator<Item = &'a Taint>) -> String {
    let taints: Vec<String> = taints.into_iter().map(value_of).collect();
    command(pool, annotation::ALLOW_PENDING, &taints.join(","))
}

/// Whether a list of taints, as `key=value` or `key` and separated by commas, has this one.
fn names(list: Option<&str>, taint: &Taint) -> bool {
    let mut allowed = list.into_iter().flat_map(|list| list.split(',')).map(str::trim);
    allowed.any(|allowed| allowed == value_of(taint) || allowed == taint.key)
}

fn value_of(taint: &Taint) -> String {
    match taint.value.as_str() {
        "" => taint.key.clone(),
        value => format!("{}={value}", taint.key),
    }
}

fn command(pool: &str, annotation: &str, value: &str) -> String {
    format!("kubectl annotate wnp {pool} {} --overwrite", shell_quoted(&format!("{annotation}={value}")))
}

#[cfg(test)]
mod tests {
    use winpool_api::{LabelSelector, SelectorOperator, SelectorRequirement, TaintEffect};

    use super::*;

    fn consents(name: &str, value: &str) -> Consents {
        Consents::read(&BTreeMap::from([(name.to_owned(), value.to_owned())]))
    }

    fn selector() -> Members {
        Members::Selector(LabelSelector {
            match_labels: [("agentpool".to_owned(), "web".to_owned())].into(),
            match_expressions: vec![SelectorRequirement {
                key: "zone".into(),
                operator: SelectorOperator::NotIn,
                values: vec!["a".into(), "b".into()],
            }],
        })
    }

    #[test]
    fn a_release_is_allowed_for_the_selector_that_the_annotation_names() {
        let table = [
            ("agentpool=web,zone notin (a,b)", true),
            (" agentpool=web,zone notin (a,b) ", true),
            ("agentpool=web", false),
            ("2", false),
            ("", false),
        ];
        for (value, expected) in table {
            let consents = consents("winpool.dev/allow-release", value);
            assert_eq!(consents.allow_release(&selector()), expected, "{value}");
            assert!(!consents.allow_release(&Members::Fallback), "{value}");
        }
        assert!(consents("winpool.dev/allow-release", "fallback").allow_release(&Members::Fallback));
        assert_eq!(
            release_command("web", &selector()),
            "kubectl annotate wnp web 'winpool.dev/allow-release=agentpool=web,zone notin (a,b)' --overwrite"
        );
    }

    #[test]
    fn stranding_is_allowed_for_the_version_that_the_annotation_names() {
        for (value, expected) in [("ltsc2025", true), ("LTSC2025", true), ("ltsc2022", false), ("3", false)] {
            assert_eq!(consents("winpool.dev/allow-strand", value).allow_strand("ltsc2025"), expected, "{value}");
        }
        assert_eq!(
            strand_command("web", "ltsc2025"),
            "kubectl annotate wnp web winpool.dev/allow-strand=ltsc2025 --overwrite"
        );
    }

    #[test]
    fn an_eviction_is_allowed_for_the_taints_that_the_annotation_names() {
        let taint =
            |key: &str, value: &str| Taint { key: key.into(), value: value.into(), effect: TaintEffect::NoExecute };
        let table = [
            ("os=windows", true),
            ("os", true),
            ("gpu=a, os=windows", true),
            ("os=linux", false),
            ("o", false),
            ("", false),
        ];
        for (value, expected) in table {
            assert_eq!(
                consents("winpool.dev/allow-evict", value).allow_evict(&taint("os", "windows")),
                expected,
                "{value}"
            );
        }
        assert_eq!(
            evict_command("web", [&taint("os", "windows"), &taint("maintenance", "")]),
            "kubectl annotate wnp web winpool.dev/allow-evict=os=windows,maintenance --overwrite"
        );
    }

    #[test]
    fn consents_of_a_file_come_before_those_of_the_cluster() {
        let (file, cluster) = (consents("winpool.dev/allow-strand", "1809"), consents("winpool.dev/allow-evict", "os"));
        let both = file.or(&cluster);
        assert!(both.allow_strand("1809") && both.evict.is_some());
    }
}

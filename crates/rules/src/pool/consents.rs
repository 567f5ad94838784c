//! The changes that an administrator allows by annotations on a pool, and the known issues that are acknowledged.
//!
//! The value of an annotation names the allowed change, so that one manifest works in every cluster and does not allow
//! a later change of the spec.

use std::collections::BTreeMap;

use winpool_api::{Taint, TaintEffect, names::annotation};
use winpool_core::kubernetes::shell_quoted;

use super::{Members, Pool, Spec, plan::ActivePool, snapshot::digest_of_name};

/// A change that requires a consent.
#[derive(Clone, Copy, Debug)]
pub enum Consent<'a> {
    /// Nodes that this selector does not match are released.
    Release(&'a Members),
    /// This selector matches no node.
    Empty(&'a Members),
    /// A change to this windowsVersion leaves pods without a node.
    Strand(&'a str),
    /// These NoExecute taints evict pods.
    Evict(&'a [&'a Taint]),
    /// These taints leave pods Pending.
    Pending(&'a [&'a Taint]),
    /// Existing nodes and machines get the renderings with these digests, although only winpool changed.
    Rendering(&'a [&'a str]),
}

impl Consent<'_> {
    /// The annotation that allows the change, and its value.
    fn annotation(self) -> (&'static str, String) {
        let list = |taints: &[&Taint]| taints.iter().map(|taint| value_of(taint)).collect::<Vec<_>>().join(",");
        match self {
            Self::Release(members) => (annotation::ALLOW_RELEASE, members.to_string()),
            Self::Empty(members) => (annotation::ALLOW_EMPTY, members.to_string()),
            Self::Strand(windows_version) => (annotation::ALLOW_STRAND, windows_version.to_owned()),
            Self::Evict(taints) => (annotation::ALLOW_EVICT, list(taints)),
            Self::Pending(taints) => (annotation::ALLOW_PENDING, list(taints)),
            Self::Rendering(digests) => (annotation::ALLOW_RENDERING, digests.join(",")),
        }
    }

    /// The command that allows the change.
    pub fn command(self, pool: &str) -> String {
        let (name, value) = self.annotation();
        format!("kubectl annotate wnp {pool} {} --overwrite", shell_quoted(&format!("{name}={value}")))
    }
}

/// The consents of a pool, by the name of their annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consents(BTreeMap<&'static str, String>);

impl Consents {
    pub fn read(annotations: &BTreeMap<String, String>) -> Self {
        let names = [
            annotation::ALLOW_RELEASE,
            annotation::ALLOW_EMPTY,
            annotation::ALLOW_STRAND,
            annotation::ALLOW_EVICT,
            annotation::ALLOW_PENDING,
            annotation::ALLOW_RENDERING,
            annotation::ACKNOWLEDGE_ISSUES,
        ];
        Self(names.into_iter().filter_map(|name| Some((name, annotations.get(name)?.trim().to_owned()))).collect())
    }

    /// These consents, and those of `others` that these do not have.
    pub fn or(&self, others: &Self) -> Self {
        Self(others.0.iter().chain(&self.0).map(|(name, value)| (*name, value.clone())).collect())
    }

    /// The ids of the known issues that are acknowledged, as they are written.
    pub fn acknowledged(&self) -> impl Iterator<Item = &str> {
        let list = self.0.get(annotation::ACKNOWLEDGE_ISSUES).map_or("", String::as_str);
        entries(list).filter(|id| !id.is_empty())
    }

    pub fn acknowledges(&self, issue: &str) -> bool {
        self.acknowledged().any(|id| id.eq_ignore_ascii_case(issue))
    }

    /// The consents that allow nothing that the pool still needs, by the names of their annotations: they can be removed.
    pub fn spent(pool: &Pool, spec: &Spec, active: &ActivePool) -> Vec<&'static str> {
        let consents = &pool.consents;
        let nodes = || active.members.iter().map(|member| member.node.as_ref());
        let begun = |taint: &Taint| {
            let begun = pool.status.applied.taint_values.as_ref();
            begun.is_some_and(|begun| begun.contains(&taint.to_string()))
        };
        let is_everywhere =
            |taint: &&Taint| begun(taint) && nodes().all(|node| node.taints.iter().any(|on_node| **taint == *on_node));
        let allowed = |name: &str| consents.allow(Consent::Rendering(&[digest_of_name(name)]));
        let is_needed = |name: &str| match name {
            annotation::ALLOW_RELEASE => consents.allow(Consent::Release(&spec.members)) && active.releases,
            annotation::ALLOW_EMPTY => consents.allow(Consent::Empty(&spec.members)) && active.members.is_empty(),
            annotation::ALLOW_STRAND => {
                let has_build = nodes().any(|node| node.ready && node.build() == Some(spec.build));
                consents.allow(Consent::Strand(&spec.windows_version)) && !has_build
            }
            annotation::ALLOW_EVICT => {
                let evicting = spec.taints.iter().filter(|taint| taint.effect == TaintEffect::NoExecute);
                evicting.filter(|taint| consents.allow(Consent::Evict(&[*taint]))).any(|taint| !is_everywhere(&taint))
            }
            annotation::ALLOW_PENDING => {
                spec.taints.iter().any(|taint| consents.allow(Consent::Pending(&[taint])) && !begun(taint))
            }
            annotation::ALLOW_RENDERING => {
                let of_nodes = nodes().any(|node| {
                    let name = active.configs.name_for(node).filter(|name| node.config.as_deref() != Some(*name));
                    name.is_some_and(allowed)
                });
                of_nodes || active.cluster_api.switches_to(allowed)
            }
            _ => true,
        };
        consents.0.keys().copied().filter(|name| !is_needed(name)).collect()
    }

    /// Whether a change is allowed. Taints are listed as `key=value` or `key`, separated by commas, and so are digests.
    pub fn allow(&self, change: Consent) -> bool {
        let (name, value) = change.annotation();
        self.0.get(name).is_some_and(|allowed| match change {
            Consent::Release(_) | Consent::Empty(_) => *allowed == value,
            Consent::Strand(_) => allowed.eq_ignore_ascii_case(&value),
            Consent::Evict(taints) | Consent::Pending(taints) => taints.iter().all(|taint| names(allowed, taint)),
            Consent::Rendering(digests) => {
                digests.iter().all(|digest| entries(allowed).any(|allowed| allowed == *digest))
            }
        })
    }
}

fn names(list: &str, taint: &Taint) -> bool {
    entries(list).any(|allowed| allowed == value_of(taint) || allowed == taint.key)
}

/// The entries of a list that is separated by commas.
fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim)
}

fn value_of(taint: &Taint) -> String {
    match taint.value.as_str() {
        "" => taint.key.clone(),
        value => format!("{}={value}", taint.key),
    }
}

#[cfg(test)]
mod tests {
    use winpool_api::{LabelSelector, SelectorOperator, SelectorRequirement, TaintEffect};

    use super::*;

    fn consents(name: &str, value: &str) -> Consents {
        Consents::read(&BTreeMap::from([(name.to_owned(), value.to_owned())]))
    }

    fn taint(key: &str, value: &str) -> Taint {
        Taint { key: key.into(), value: value.into(), effect: TaintEffect::NoExecute }
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
    fn an_annotation_allows_the_change_that_it_names_and_the_command_names_it() {
        let (selector, os, maintenance) = (selector(), taint("os", "windows"), taint("maintenance", ""));
        let (one, both) = ([&os], [&os, &maintenance]);
        // The change, the values that allow it, those that do not, and the value in the command.
        let table: [(Consent, &[&str], &[&str], &str); 6] = [
            (
                Consent::Release(&selector),
                &["agentpool=web,zone notin (a,b)", " agentpool=web,zone notin (a,b) "],
                &["agentpool=web", "2", "", "fallback"],
                "'winpool.dev/allow-release=agentpool=web,zone notin (a,b)'",
            ),
            (
                Consent::Release(&Members::Fallback),
                &["fallback"],
                &["agentpool=web", ""],
                "winpool.dev/allow-release=fallback",
            ),
            (
                Consent::Strand("ltsc2025"),
                &["ltsc2025", "LTSC2025"],
                &["ltsc2022", "3"],
                "winpool.dev/allow-strand=ltsc2025",
            ),
            (
                Consent::Evict(&one),
                &["os=windows", "os", "gpu=a, os=windows"],
                &["os=linux", "o", ""],
                "winpool.dev/allow-evict=os=windows",
            ),
            (
                Consent::Pending(&both),
                &["os,maintenance"],
                &["os=windows", "maintenance"],
                "winpool.dev/allow-pending=os=windows,maintenance",
            ),
            (
                Consent::Rendering(&["3f9a1c0d2e"]),
                &["3f9a1c0d2e", "77ab02c4d1, 3f9a1c0d2e"],
                &["77ab02c4d1", "3f9a", ""],
                "winpool.dev/allow-rendering=3f9a1c0d2e",
            ),
        ];
        for (change, allowing, others, written) in table {
            let name = change.annotation().0;
            let allows = |value: &&str| consents(name, value).allow(change);
            assert!(allowing.iter().all(allows) && !others.iter().any(allows), "{change:?}");
            assert_eq!(change.command("web"), format!("kubectl annotate wnp web {written} --overwrite"));
        }
    }

    #[test]
    fn issues_are_acknowledged_by_their_ids() {
        let listed = consents("winpool.dev/acknowledge-issues", " CVE-2023-3676,kb5040437,, typo");
        assert_eq!(listed.acknowledged().collect::<Vec<_>>(), ["CVE-2023-3676", "kb5040437", "typo"]);
        for (issue, expected) in [("CVE-2023-3676", true), ("KB5040437", true), ("CVE-2023-3955", false), ("", false)] {
            assert_eq!(listed.acknowledges(issue), expected, "{issue}");
        }
        assert_eq!(Consents::default().acknowledged().count(), 0);
    }

    #[test]
    fn consents_of_a_file_come_before_those_of_the_cluster() {
        let (file, cluster) = (consents("winpool.dev/allow-strand", "1809"), consents("winpool.dev/allow-evict", "os"));
        let both = file.or(&cluster);
        assert!(both.allow(Consent::Strand("1809")) && both.allow(Consent::Evict(&[&taint("os", "windows")])));
    }
}

//! Whether an image is compatible with a host.

use derive_more::Display;
use winpool_facts::{
    Build, ContainerdVersion, OsVersion, builds, runtime_errors,
    version_compatibility::{self, Isolation, VersionCompatibility, revision_is_newer},
};

use super::{ImagePlatforms, Reference, tag};
use crate::{ForeignText, text::some_of};

/// The maximum length of a stored error of a container runtime, in characters.
const MAX_ERROR_LENGTH: usize = 160;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostNode {
    pub os: OsVersion,
    /// The processor architecture, such as `amd64`.
    pub architecture: String,
    /// The version of containerd; `None` for another runtime, whose image selection is not checked.
    pub containerd: Option<ContainerdVersion>,
}

#[derive(Clone, Copy, Debug)]
pub struct ImageEvidence<'a> {
    pub report: Option<&'a RuntimeReport>,
    /// The result of the registry lookup; `None` without a lookup.
    pub lookup: Option<&'a Lookup>,
    pub reference: &'a Reference,
}

/// What a container runtime reported about an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuntimeReport {
    Started,
    /// The image does not run on this host: the error of the runtime.
    Incompatible(ForeignText),
}

impl RuntimeReport {
    /// The report of an incompatible image, from a message of the container runtime. Only the part about the
    /// incompatibility is used, in one line, because the rest has identifiers that change with every attempt.
    pub fn incompatible(message: &str) -> Self {
        let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let part = line.split(": ").find(|part| runtime_errors::is_platform_mismatch(part)).unwrap_or(&line);
        let error = part.trim_end_matches(" extra info").trim_end_matches('.');
        let skipped = error.chars().count().saturating_sub(MAX_ERROR_LENGTH);
        // The cause comes last.
        let end: String = error.chars().skip(skipped).collect();
        Self::Incompatible(if skipped > 0 { format!("…{end}") } else { end }.into())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    Found(ImagePlatforms),
    Failed(ForeignText),
}

/// Where evidence comes from, the most reliable source first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EvidenceSource {
    Runtime,
    Registry,
    /// The name of the image, which is not proof.
    Name,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compatibility {
    Compatible(EvidenceSource),
    /// It does not run; with [`EvidenceSource::Name`] it probably does not.
    Incompatible(EvidenceSource, Incompatibility),
    /// There is no evidence. Has the error of the registry lookup, if it failed.
    Unknown(Option<ForeignText>),
}

/// Why an image does not run on a host. The text is the predicate of a sentence whose subject is the image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
pub enum Incompatibility {
    #[display("does not run: {_0}")]
    Reported(ForeignText),
    #[display("{}", only_for(_0))]
    OtherSystem(Vec<ForeignText>),
    /// It is for another build. Of several entries, this is the closest one.
    #[display("is for {}, and the node runs only images for {}", release(*image), release_range(*oldest, *newest))]
    Windows { image: OsVersion, oldest: Build, newest: Build },
    #[display("is for {image}, and Windows Server 2016 runs only images of its own revision, {host}")]
    Revision { image: OsVersion, host: OsVersion },
    /// Windows can run it, but the containerd of the host does not select it.
    #[display("is for {}, for which this node needs containerd {needs} or later", release(*image))]
    Containerd { image: OsVersion, needs: ContainerdVersion },
}

impl ImageEvidence<'_> {
    /// Whether the image runs on a host, by the most reliable evidence. A HostProcess container uses the files of the
    /// host, so its image can be for any version of Windows.
    pub fn compatibility(self, host: &HostNode, isolation: Isolation, host_process: bool) -> Compatibility {
        match self.report {
            Some(RuntimeReport::Started) => return Compatibility::Compatible(EvidenceSource::Runtime),
            Some(RuntimeReport::Incompatible(error)) => {
                let incompatibility = Incompatibility::Reported(error.clone());
                return Compatibility::Incompatible(EvidenceSource::Runtime, incompatibility);
            }
            None => {}
        }
        let error = match self.lookup {
            Some(Lookup::Found(content)) => {
                return match content_incompatibility(content, host, isolation, host_process) {
                    None => Compatibility::Compatible(EvidenceSource::Registry),
                    Some(incompatibility) => Compatibility::Incompatible(EvidenceSource::Registry, incompatibility),
                };
            }
            Some(Lookup::Failed(error)) => Some(error.clone()),
            None => None,
        };
        let suggested = tag::suggested(self.reference).and_then(|suggestion| suggestion.os).filter(|_| !host_process);
        match suggested.and_then(|image| version_incompatibility(image, host, isolation)) {
            Some(incompatibility) => Compatibility::Incompatible(EvidenceSource::Name, incompatibility),
            // A matching tag is not proof.
            None => Compatibility::Unknown(error),
        }
    }

    /// The Windows version of the entry that the host selects, if its revision is later than that of the host, so that
    /// the container may fail to start. `None` if the runtime reported anything.
    pub fn newer_revision(self, host: &HostNode, isolation: Isolation, host_process: bool) -> Option<OsVersion> {
        let selected = self.selected(host, isolation, host_process).filter(|_| self.report.is_none())?;
        revision_is_newer(host.os, selected, isolation).then_some(selected)
    }

    /// The Windows version of the entry that the host selects, according to the registry; `None` for a HostProcess container, which
    /// uses the files of the host.
    pub fn selected(self, host: &HostNode, isolation: Isolation, host_process: bool) -> Option<OsVersion> {
        let Some(Lookup::Found(content)) = self.lookup.filter(|_| !host_process) else { return None };
        let entries = content.windows().filter(|entry| entry.architecture == host.architecture);
        let versions = entries.filter_map(|entry| entry.os_version);
        // containerd selects the latest of several.
        versions.filter(|os| version_incompatibility(*os, host, isolation).is_none()).max()
    }
}

fn content_incompatibility(
    content: &ImagePlatforms,
    host: &HostNode,
    isolation: Isolation,
    host_process: bool,
) -> Option<Incompatibility> {
    let entries: Vec<_> = content.windows().filter(|entry| entry.architecture == host.architecture).collect();
    if entries.is_empty() {
        return Some(Incompatibility::OtherSystem(content.systems().into_iter().collect()));
    }
    if host_process {
        return None;
    }
    let incompatibilities: Option<Vec<Incompatibility>> =
        entries.iter().map(|entry| version_incompatibility(entry.os_version?, host, isolation)).collect();
    // The entry that is closest to the host is the most informative one.
    incompatibilities?
        .into_iter()
        .min_by_key(|incompatibility| incompatibility.image().map(|image| image.build.0.abs_diff(host.os.build.0)))
}

fn version_incompatibility(image: OsVersion, host: &HostNode, isolation: Isolation) -> Option<Incompatibility> {
    match version_compatibility::check(host.os, Some(image), isolation, host.containerd) {
        VersionCompatibility::Compatible => None,
        VersionCompatibility::BuildDiffers { oldest, newest } => {
            Some(Incompatibility::Windows { image, oldest, newest })
        }
        VersionCompatibility::RevisionDiffers { .. } => Some(Incompatibility::Revision { image, host: host.os }),
        VersionCompatibility::RuntimeTooOld { needs } => Some(Incompatibility::Containerd { image, needs }),
    }
}

impl Incompatibility {
    /// The Windows version of the image, if that is incompatible.
    pub fn image(&self) -> Option<OsVersion> {
        match self {
            Self::Reported(_) | Self::OtherSystem(_) => None,
            Self::Windows { image, .. } | Self::Revision { image, .. } | Self::Containerd { image, .. } => Some(*image),
        }
    }
}

/// `10.0.17763.5329 (ltsc2019)`
fn release(version: OsVersion) -> String {
    match builds::release(version.build) {
        Some(release) => format!("{version} ({})", release.names[0]),
        None => version.to_string(),
    }
}

fn release_range(oldest: Build, newest: Build) -> String {
    let [first, last] = [oldest, newest].map(|build| release(OsVersion { build, revision: None }));
    if first == last { last } else { format!("{first} to {last}") }
}

fn only_for(systems: &[ForeignText]) -> String {
    match systems {
        [] => "has no entry for any platform".to_owned(),
        systems => format!("is for {} only", some_of(systems.iter().map(ToString::to_string))),
    }
}

#[cfg(test)]
mod tests {
    use winpool_facts::version_compatibility::UtilityVm;

    use super::*;
    use crate::image::ImagePlatform;

    const CURRENT: ContainerdVersion = ContainerdVersion::new(2, 3, 4);
    const BEFORE_STABLE_ABI: ContainerdVersion = ContainerdVersion::new(1, 7, 5);

    fn host(os: &str, containerd: ContainerdVersion) -> HostNode {
        HostNode { os: os.parse().unwrap(), architecture: "amd64".into(), containerd: Some(containerd) }
    }

    fn platform(os: &str, os_version: &str) -> ImagePlatform {
        ImagePlatform { os: os.into(), architecture: "amd64".into(), os_version: os_version.parse().ok() }
    }

    fn found(platforms: &[(&str, &str)]) -> Lookup {
        Lookup::Found(ImagePlatforms {
            platforms: platforms.iter().map(|(os, version)| platform(os, version)).collect(),
        })
    }

    fn by_registry(
        platforms: &[(&str, &str)],
        host: &HostNode,
        isolation: Isolation,
        host_process: bool,
    ) -> Compatibility {
        let (lookup, reference) = (found(platforms), "example.com/app:1".parse().unwrap());
        let evidence = ImageEvidence { report: None, lookup: Some(&lookup), reference: &reference };
        evidence.compatibility(host, isolation, host_process)
    }

    #[test]
    fn builds_in_a_registry_and_builds_in_a_tag_are_checked_against_the_host() {
        const ANY_BUILD: Isolation = Isolation::HyperV(UtilityVm::OfAnyBuild);
        let table = [
            ("10.0.17763.7000", "ltsc2019", "10.0.17763.5329", Isolation::Process, CURRENT, true),
            ("10.0.17763.7000", "ltsc2022", "10.0.20348.5329", Isolation::Process, CURRENT, false),
            ("10.0.20348.7000", "ltsc2019", "10.0.17763.5329", ANY_BUILD, CURRENT, true),
            ("10.0.26100.7000", "ltsc2022", "10.0.20348.5329", Isolation::Process, BEFORE_STABLE_ABI, false),
            ("10.0.26100.7000", "ltsc2022", "10.0.20348.5329", ANY_BUILD, BEFORE_STABLE_ABI, true),
        ];
        let source = |compatibility| match compatibility {
            Compatibility::Compatible(source) => format!("compatible, {source:?}"),
            Compatibility::Incompatible(source, _) => format!("incompatible, {source:?}"),
            Compatibility::Unknown(error) => format!("unknown, {error:?}"),
        };
        for (os, tag, version, isolation, containerd, runs) in table {
            let (host, case) = (host(os, containerd), format!("{tag} on {os} with {containerd}, {isolation:?}"));
            let by_registry =
                |host_process| source(by_registry(&[("windows", version)], &host, isolation, host_process));
            let expected = if runs { "compatible, Registry" } else { "incompatible, Registry" };
            assert_eq!([by_registry(false), by_registry(true)], [expected, "compatible, Registry"], "{case}");

            // The tag alone does not prove that an image runs.
            let reference = format!("example.com/windows/app:{tag}").parse().unwrap();
            let evidence = ImageEvidence { report: None, lookup: None, reference: &reference };
            let by_name = |host_process| source(evidence.compatibility(&host, isolation, host_process));
            let expected = if runs { "unknown, None" } else { "incompatible, Name" };
            assert_eq!([by_name(false), by_name(true)], [expected, "unknown, None"], "{case}");
        }
    }

    #[test]
    fn one_matching_entry_is_enough_and_without_one_the_closest_is_reported() {
        let host = host("10.0.20348.4529", CURRENT);
        let compatibility = |platforms: &[(&str, &str)]| match by_registry(platforms, &host, Isolation::Process, false)
        {
            Compatibility::Incompatible(EvidenceSource::Registry, incompatibility) => incompatibility.to_string(),
            other => format!("{other:?}"),
        };
        let old = ("windows", "10.0.14393.6897");
        let table = [
            (vec![old, ("windows", "10.0.20348.1"), ("linux", "")], "Compatible(Registry)"),
            (
                vec![old, ("windows", "10.0.17763.5329")],
                "is for 10.0.17763.5329 (ltsc2019), and the node runs only images for 10.0.20348 (ltsc2022)",
            ),
            (vec![old, ("windows", "")], "Compatible(Registry)"),
            (vec![("linux", ""), ("linux", "")], "is for linux/amd64 only"),
            (vec![], "has no entry for any platform"),
        ];
        for (platforms, expected) in table {
            assert_eq!(compatibility(&platforms), expected, "{platforms:?}");
        }
    }

    #[test]
    fn messages_name_the_required_revision_and_containerd() {
        let message = |host: &HostNode, image| match by_registry(&[("windows", image)], host, Isolation::Process, false)
        {
            Compatibility::Incompatible(_, incompatibility) => incompatibility.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(
            message(&host("10.0.14393.7000", CURRENT), "10.0.14393.6999"),
            "is for 10.0.14393.6999, and Windows Server 2016 runs only images of its own revision, 10.0.14393.7000"
        );
        assert_eq!(
            message(&host("10.0.26100.1", BEFORE_STABLE_ABI), "10.0.20348.1"),
            "is for 10.0.20348.1 (ltsc2022), for which this node needs containerd 1.7.6 or later"
        );
    }
}

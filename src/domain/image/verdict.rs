//! The verdict on an image and a host.

use std::fmt;

use super::{Content, Reference, tag};
use crate::facts::{
    Build, ContainerdVersion, OsVersion, builds,
    compatibility::{Fit, Isolation, fit, revision_is_newer},
};

/// The host that is to run a container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    /// Its Windows.
    pub os: OsVersion,
    /// Its processor architecture, such as `amd64`.
    pub architecture: String,
    /// Its containerd; `None` for another runtime, whose own matching is not judged.
    pub containerd: Option<ContainerdVersion>,
}

/// What is known of an image.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// What the runtime of the host said of it.
    pub said: Option<&'a Said>,
    /// What its registry says; `None` if nobody asked.
    pub lookup: Option<&'a Lookup>,
    /// Its name.
    pub reference: &'a Reference,
}

/// What a runtime said of an image on its host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Said {
    /// The container was started.
    Started,
    /// The image is not for this host, in its words.
    Misfit(String),
}

/// What came of asking a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// What the image is for.
    Found(Content),
    /// Why the registry did not say.
    Failed(String),
}

/// The evidence of a verdict, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Evidence {
    /// What the runtime said.
    Runtime,
    /// What the registry says.
    Registry,
    /// What the name suggests: a suspicion.
    Name,
}

/// Whether an image runs on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It runs.
    Runs(Evidence),
    /// It does not; with [`Evidence::Name`] this is a suspicion.
    CannotRun(Evidence, Misfit),
    /// Nothing tells. If a registry was asked, why it did not say.
    Unknown(Option<String>),
}

/// Why an image does not run on a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Misfit {
    /// The runtime's words.
    Said(String),
    /// It has entries for these systems only.
    NotFor(Vec<String>),
    /// Its Windows is another; of several that of the closest entry.
    Windows {
        /// The Windows of the image.
        image: OsVersion,
        /// The oldest build that the host would run.
        oldest: Build,
        /// The newest build that the host would run.
        newest: Build,
    },
    /// Windows Server 2016 runs images of its own revision only.
    Revision {
        /// The Windows of the image.
        image: OsVersion,
        /// That of the host.
        host: OsVersion,
    },
    /// Windows would run it, and the host's containerd does not look for it.
    Containerd {
        /// The Windows of the image.
        image: OsVersion,
        /// The least containerd that does.
        needs: ContainerdVersion,
    },
}

/// Judges an image on a host. A HostProcess container runs on the host's own files: the version of its image does not
/// matter, only that it is for Windows.
pub fn judge(known: Known<'_>, host: &Host, isolation: Isolation, host_process: bool) -> Verdict {
    match known.said {
        Some(Said::Started) => return Verdict::Runs(Evidence::Runtime),
        Some(Said::Misfit(words)) => return Verdict::CannotRun(Evidence::Runtime, Misfit::Said(words.clone())),
        None => {}
    }
    let why = match known.lookup {
        Some(Lookup::Found(content)) => {
            return match of_content(content, host, isolation, host_process) {
                None => Verdict::Runs(Evidence::Registry),
                Some(misfit) => Verdict::CannotRun(Evidence::Registry, misfit),
            };
        }
        Some(Lookup::Failed(why)) => Some(why.clone()),
        None => None,
    };
    let suggested = tag::suggested(known.reference).and_then(|suggestion| suggestion.os);
    let misfit = suggested.filter(|_| !host_process).and_then(|image| of_version(image, host, isolation));
    match misfit {
        Some(misfit) => Verdict::CannotRun(Evidence::Name, misfit),
        // A tag that fits proves nothing.
        None => Verdict::Unknown(why),
    }
}

/// The Windows of the entry that the host would take, if the registry has its build and only with a later revision than the
/// host's: the container may fail to start. Nothing is said of what was started already.
pub fn newer_revision(known: Known<'_>, host: &Host, isolation: Isolation, host_process: bool) -> Option<OsVersion> {
    let (None, Some(Lookup::Found(content))) = (known.said, known.lookup) else { return None };
    let entries = content.windows().filter(|entry| entry.architecture == host.architecture);
    let versions = entries.filter_map(|entry| entry.os_version).filter(|os| os.build == host.os.build);
    // Of several containerd takes the last.
    let taken = versions.max().filter(|_| !host_process)?;
    revision_is_newer(host.os, taken, isolation).then_some(taken)
}

fn of_content(content: &Content, host: &Host, isolation: Isolation, host_process: bool) -> Option<Misfit> {
    let entries: Vec<_> = content.windows().filter(|entry| entry.architecture == host.architecture).collect();
    if entries.is_empty() {
        return Some(Misfit::NotFor(content.systems().into_iter().collect()));
    }
    if host_process {
        return None;
    }
    let misfits: Option<Vec<Misfit>> =
        entries.iter().map(|entry| of_version(entry.os_version?, host, isolation)).collect();
    // Of several the closest to the host tells most.
    misfits?.into_iter().min_by_key(|misfit| misfit.image().map(|image| image.build.0.abs_diff(host.os.build.0)))
}

fn of_version(image: OsVersion, host: &Host, isolation: Isolation) -> Option<Misfit> {
    match fit(host.os, Some(image), isolation, host.containerd) {
        Fit::Runs => None,
        Fit::BuildDiffers { oldest, newest } => Some(Misfit::Windows { image, oldest, newest }),
        Fit::RevisionDiffers { .. } => Some(Misfit::Revision { image, host: host.os }),
        Fit::RuntimeTooOld { needs } => Some(Misfit::Containerd { image, needs }),
    }
}

impl Misfit {
    /// The Windows of the image, if that is what does not fit.
    pub fn image(&self) -> Option<OsVersion> {
        match self {
            Self::Said(_) | Self::NotFor(_) => None,
            Self::Windows { image, .. } | Self::Revision { image, .. } | Self::Containerd { image, .. } => Some(*image),
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(words) => write!(f, "\"{words}\""),
            Self::NotFor(systems) if systems.is_empty() => f.write_str("has nothing that runs"),
            Self::NotFor(systems) => write!(f, "is for {} only", systems.join(", ")),
            Self::Windows { image, oldest, newest } if oldest == newest => {
                write!(f, "is for {}, the host runs images of {} only", named(*image), name(*newest))
            }
            Self::Windows { image, oldest, newest } => {
                write!(f, "is for {}, the host runs images from {} to {}", named(*image), name(*oldest), name(*newest))
            }
            Self::Revision { image, host } => {
                write!(
                    f,
                    "is for {image}, and Windows Server 2016 runs images of its own revision only, which is {host}"
                )
            }
            Self::Containerd { image, needs } => {
                write!(f, "is for {}, which containerd finds for this host from {needs} on", named(*image))
            }
        }
    }
}

/// `10.0.17763.5329 (ltsc2019)`
fn named(version: OsVersion) -> String {
    match builds::release(version.build) {
        Some(release) => format!("{version} ({})", release.names[0]),
        None => version.to_string(),
    }
}

fn name(build: Build) -> String {
    named(OsVersion { build, revision: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::image::Platform,
        facts::{builds::RELEASES, compatibility::UtilityVm},
    };

    const CURRENT: ContainerdVersion = ContainerdVersion::new(2, 3, 4);
    const BEFORE_STABLE_ABI: ContainerdVersion = ContainerdVersion::new(1, 7, 5);

    fn host(os: &str, containerd: ContainerdVersion) -> Host {
        Host { os: os.parse().unwrap(), architecture: "amd64".into(), containerd: Some(containerd) }
    }

    fn platform(os: &str, os_version: &str) -> Platform {
        Platform { os: os.into(), architecture: "amd64".into(), os_version: os_version.parse().ok() }
    }

    fn found(platforms: &[(&str, &str)]) -> Lookup {
        Lookup::Found(Content { platforms: platforms.iter().map(|(os, version)| platform(os, version)).collect() })
    }

    fn by_registry(platforms: &[(&str, &str)], host: &Host, isolation: Isolation, host_process: bool) -> Verdict {
        let (lookup, reference) = (found(platforms), "example.com/app:1".parse().unwrap());
        judge(Known { said: None, lookup: Some(&lookup), reference: &reference }, host, isolation, host_process)
    }

    #[test]
    fn what_the_registry_says_is_judged_as_the_matrix_of_hosts_and_images_has_it() {
        for host_release in RELEASES {
            for image_release in RELEASES {
                for (isolation, containerd) in [
                    (Isolation::Process, CURRENT),
                    (Isolation::Process, BEFORE_STABLE_ABI),
                    (Isolation::HyperV(UtilityVm::OfAnyBuild), CURRENT),
                    (Isolation::HyperV(UtilityVm::OfAnyBuild), BEFORE_STABLE_ABI),
                ] {
                    let host = host(&format!("{}.7000", host_release.build), containerd);
                    let image: OsVersion = format!("{}.7000", image_release.build).parse().unwrap();
                    let expected = fit(host.os, Some(image), isolation, Some(containerd)) == Fit::Runs;
                    let one = [("windows", image.to_string())];
                    let one: Vec<_> = one.iter().map(|(os, version)| (*os, version.as_str())).collect();
                    let verdict = by_registry(&one, &host, isolation, false);
                    let case = format!("{image} on {} with {containerd}, {isolation:?}", host.os);
                    assert_eq!(verdict == Verdict::Runs(Evidence::Registry), expected, "{case}: {verdict:?}");
                    assert_eq!(by_registry(&one, &host, isolation, true), Verdict::Runs(Evidence::Registry), "{case}");

                    // The name alone never proves that an image runs, and gives the same suspicion.
                    let reference = format!("example.com/windows/app:{}", image_release.names[0]).parse().unwrap();
                    let known = Known { said: None, lookup: None, reference: &reference };
                    let suspected =
                        matches!(judge(known, &host, isolation, false), Verdict::CannotRun(Evidence::Name, _));
                    assert_eq!(suspected, !expected, "{case}");
                    assert_eq!(judge(known, &host, isolation, true), Verdict::Unknown(None), "{case}");
                }
            }
        }
    }

    #[test]
    fn of_several_entries_one_that_fits_is_enough_and_else_the_closest_is_told() {
        let host = host("10.0.20348.4529", CURRENT);
        let judged = |platforms: &[(&str, &str)]| match by_registry(platforms, &host, Isolation::Process, false) {
            Verdict::CannotRun(Evidence::Registry, misfit) => misfit.to_string(),
            other => format!("{other:?}"),
        };
        let old = ("windows", "10.0.14393.6897");
        let table = [
            (vec![old, ("windows", "10.0.20348.1"), ("linux", "")], "Runs(Registry)"),
            (
                vec![old, ("windows", "10.0.17763.5329")],
                "is for 10.0.17763.5329 (ltsc2019), the host runs images of 10.0.20348 (ltsc2022) only",
            ),
            (vec![old, ("windows", "")], "Runs(Registry)"),
            (vec![("linux", ""), ("linux", "")], "is for linux/amd64 only"),
            (vec![], "has nothing that runs"),
        ];
        for (platforms, expected) in table {
            assert_eq!(judged(&platforms), expected, "{platforms:?}");
        }
    }

    #[test]
    fn the_strongest_evidence_wins() {
        let host = host("10.0.20348.4529", CURRENT);
        let (misfit, started) = (Said::Misfit("no match for platform in manifest".into()), Said::Started);
        let (fits, differs) = (found(&[("windows", "10.0.20348.1")]), found(&[("windows", "10.0.17763.1")]));
        let silent = Lookup::Failed("429 Too Many Requests".into());
        let reference: Reference = "example.com/app:ltsc2019".parse().unwrap();
        let words =
            |said, lookup| match judge(Known { said, lookup, reference: &reference }, &host, Isolation::Process, false)
            {
                Verdict::Runs(evidence) => format!("runs, {evidence:?}"),
                Verdict::CannotRun(evidence, misfit) => format!("cannot, {evidence:?}: {misfit}"),
                Verdict::Unknown(why) => format!("unknown: {why:?}"),
            };
        let table = [
            (Some(&started), Some(&differs), "runs, Runtime"),
            (Some(&misfit), Some(&fits), "cannot, Runtime: \"no match for platform in manifest\""),
            (None, Some(&fits), "runs, Registry"),
            (
                None,
                Some(&silent),
                "cannot, Name: is for 10.0.17763 (ltsc2019), the host runs images of 10.0.20348 (ltsc2022) only",
            ),
            (
                None,
                None,
                "cannot, Name: is for 10.0.17763 (ltsc2019), the host runs images of 10.0.20348 (ltsc2022) only",
            ),
        ];
        for (said, lookup, expected) in table {
            assert_eq!(words(said, lookup), expected);
        }
    }

    #[test]
    fn a_registry_that_does_not_answer_proves_nothing() {
        let (lookup, reference) = (Lookup::Failed("timed out".into()), "example.com/app:1".parse().unwrap());
        let known = Known { said: None, lookup: Some(&lookup), reference: &reference };
        let verdict = judge(known, &host("10.0.20348.1", CURRENT), Isolation::Process, false);
        assert_eq!(verdict, Verdict::Unknown(Some("timed out".into())));
    }

    #[test]
    fn revisions_and_old_containerd_are_told_with_what_is_needed() {
        let told = |host: &Host, image: &str| match by_registry(&[("windows", image)], host, Isolation::Process, false)
        {
            Verdict::CannotRun(_, misfit) => misfit.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(
            told(&host("10.0.14393.7000", CURRENT), "10.0.14393.6999"),
            "is for 10.0.14393.6999, and Windows Server 2016 runs images of its own revision only, which is 10.0.14393.7000"
        );
        assert_eq!(
            told(&host("10.0.26100.1", BEFORE_STABLE_ABI), "10.0.20348.1"),
            "is for 10.0.20348.1 (ltsc2022), which containerd finds for this host from 1.7.6 on"
        );
    }
}

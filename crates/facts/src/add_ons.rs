//! What releases of add-ons support: the Windows builds and the Kubernetes minors that their projects name or build images for.
//!
//! Every source was read on 2026-11-29, in the repository at its newest stored commit (2026-08-07 to 2026-08-22; issues up to
//! 2026-09-01). Only what a source says is a row: an image, a version, a build or a minor without one is not known, which is not
//! the same as supported. Releases after [`AddOn::newest_read`] were not read. Of the builds in Makefiles only those count that
//! run a Kubernetes of [`support::OLDEST`] or later. `From` quotes a project that names no end, such as "1.21+".

use std::fmt;

use serde::Serialize;

use super::{
    Build, ContainerdVersion, Minor, OsVersion, builds,
    known_issues::ComponentVersion,
    skew::{Skew, skew},
    support,
    version_compatibility::{self, Isolation, VersionCompatibility},
};

/// A program that a DaemonSet or Deployment runs on Windows nodes for their cluster.
#[derive(Debug)]
pub struct AddOn {
    pub name: &'static str,
    /// The ends of the repositories of its images, without the registry.
    pub repositories: &'static [&'static str],
    /// What its releases support, each from its version up to the next row.
    pub releases: &'static [Release],
    /// The newest release that was read.
    pub newest_read: ComponentVersion,
    pub caveats: &'static [Caveat],
    /// The repository and the files.
    pub source: &'static str,
}

#[derive(Debug)]
pub struct Release {
    pub since: ComponentVersion,
    pub builds: Builds,
    pub minors: Minors,
}

/// The Windows builds of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builds {
    /// Those that a page of the project names as supported.
    Named(&'static [u32]),
    /// This one and all later ones, as a page of the project says.
    From(u32),
    /// Those that the release has images for. Others may run one of these images, without support by the project.
    Images(&'static [u32]),
    /// Those that Kubernetes of the same minor supports.
    OfKubernetes,
    NotNamed,
}

/// The Kubernetes minors of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Minors {
    From(u32),
    /// The project tests with these, first and last. Others may work.
    Tested(u32, u32),
    /// The version skew policy applies.
    Skew,
    NotNamed,
}

/// Something about the releases of an add-on that is not a list of builds or minors.
#[derive(Debug)]
pub struct Caveat {
    /// The first release without it; `None` if it is about all.
    pub until: Option<ComponentVersion>,
    /// The only build that it is about, with the first revision without it.
    pub on: Option<(u32, Option<u32>)>,
    /// Whether it is not about HostProcess containers.
    pub without_host_process: bool,
    /// Whether the add-on does not work.
    pub breaks: bool,
    pub reason: &'static str,
    pub remedy: &'static str,
    pub source: &'static str,
}

const fn v(major: u32, minor: u32, patch: u32) -> ComponentVersion {
    ComponentVersion([major, minor, patch])
}

const fn release(since: ComponentVersion, builds: Builds, minors: Minors) -> Release {
    Release { since, builds, minors }
}

/// The driver calls csi-proxy, unless it runs in a HostProcess container.
const fn needs_csi_proxy(remedy: &'static str, source: &'static str) -> Caveat {
    Caveat {
        until: None,
        on: None,
        without_host_process: true,
        breaks: false,
        reason: "outside HostProcess containers it needs the service csi-proxy on each node",
        remedy,
        source,
    }
}

const TO_HOST_PROCESS: &str =
    "install csi-proxy on each new node, or set windows.useHostProcessContainers of its chart";
const INSTALL_CSI_PROXY: &str = "install csi-proxy on each new node";
const SERVER_2022_AND_BEFORE: Builds = Builds::Images(&[17763, 20348]);
const ALL_IMAGES: Builds = Builds::Images(&[17763, 20348, 26100]);

/// Every add-on with a source, by kind: network, storage, agents.
pub const ADD_ONS: &[AddOn] = &[
    AddOn {
        name: "kube-proxy",
        repositories: &["kube-proxy", "kube-proxy-windows"],
        releases: &[release(v(1, support::OLDEST.0, 0), Builds::OfKubernetes, Minors::Skew)],
        newest_read: v(1, support::NEWEST.0, u32::MAX),
        caveats: &[],
        source: "kubernetes/website, content/en/releases/version-skew-policy.md, and the table support",
    },
    AddOn {
        name: "Calico",
        repositories: &["calico/node-windows", "calico/cni-windows"],
        releases: &[
            release(v(3, 29, 0), Builds::Named(&[17763, 20348]), Minors::Tested(29, 32)),
            release(v(3, 30, 0), Builds::Named(&[17763, 20348]), Minors::Tested(31, 35)),
            release(v(3, 31, 0), Builds::Named(&[17763, 20348]), Minors::Tested(32, 35)),
            release(v(3, 32, 0), Builds::Named(&[17763, 20348]), Minors::Tested(34, 36)),
        ],
        newest_read: v(3, 32, 1),
        caveats: &[],
        source: "tigera/docs, calico_versioned_docs (windows-calico/requirements.mdx, _system-requirements.mdx); projectcalico/calico#11691",
    },
    AddOn {
        name: "Antrea",
        repositories: &["antrea/antrea-windows"],
        releases: &[release(v(2, 1, 0), Builds::From(17763), Minors::NotNamed)],
        newest_read: v(2, 7, 0),
        caveats: &[],
        source: "antrea-io/antrea, docs/windows.md, docs/versioning.md",
    },
    AddOn {
        name: "Flannel",
        repositories: &["sigwindowstools/flannel"],
        releases: &[],
        newest_read: v(0, 0, 0),
        caveats: &[Caveat {
            until: None,
            on: Some((26100, Some(6899))),
            without_host_process: false,
            breaks: false,
            reason: "with the backend vxlan: overlay networks of Windows Server 2025 had a defect, whose fix was announced for the update of 2025-10; that the update has it was not confirmed",
            remedy: "install the update of 2025-10 (10.0.26100.6899) or a later one, and test the network between nodes",
            source: "rancher/rancher#50915 (minutes of SIG Windows, 2025-09-03)",
        }],
        source: "kubernetes-sigs/sig-windows-tools",
    },
    AddOn {
        name: "csi-proxy",
        repositories: &["csi-proxy"],
        releases: &[release(v(1, 0, 0), Builds::NotNamed, Minors::From(18))],
        newest_read: v(1, 3, 0),
        caveats: &[Caveat {
            until: Some(v(2, 0, 0)),
            on: None,
            without_host_process: false,
            breaks: false,
            reason: "version 2 is a library, with which drivers in HostProcess containers need no csi-proxy",
            remedy: "run the CSI drivers as HostProcess containers, and remove csi-proxy when none needs it",
            source: "kubernetes-csi/csi-proxy v2.0.0-alpha.2, README.md; kubernetes/enhancements#3636",
        }],
        source: "kubernetes-csi/csi-proxy v1.3.0, README.md; kubernetes-csi.github.io/docs/csi-proxy.html",
    },
    AddOn {
        name: "Azure Disk CSI driver",
        repositories: &["azuredisk-csi"],
        releases: &[release(v(1, 24, 0), SERVER_2022_AND_BEFORE, Minors::From(21))],
        newest_read: v(1, 34, 5),
        caveats: &[needs_csi_proxy(TO_HOST_PROCESS, "kubernetes-sigs/azuredisk-csi-driver, charts")],
        source: "kubernetes-sigs/azuredisk-csi-driver, Makefile and README.md at each tag",
    },
    AddOn {
        name: "Azure File CSI driver",
        repositories: &["azurefile-csi"],
        releases: &[release(v(1, 24, 0), SERVER_2022_AND_BEFORE, Minors::From(21))],
        newest_read: v(1, 35, 7),
        caveats: &[needs_csi_proxy(TO_HOST_PROCESS, "kubernetes-sigs/azurefile-csi-driver, charts")],
        source: "kubernetes-sigs/azurefile-csi-driver, Makefile and README.md at each tag",
    },
    AddOn {
        name: "SMB CSI driver",
        repositories: &["smbplugin"],
        releases: &[release(v(1, 10, 0), SERVER_2022_AND_BEFORE, Minors::From(21))],
        newest_read: v(1, 20, 3),
        caveats: &[needs_csi_proxy(TO_HOST_PROCESS, "kubernetes-csi/csi-driver-smb, README.md and charts")],
        source: "kubernetes-csi/csi-driver-smb, Makefile and README.md at each tag",
    },
    AddOn {
        name: "EBS CSI driver",
        repositories: &["aws-ebs-csi-driver"],
        releases: &[
            release(v(1, 12, 0), SERVER_2022_AND_BEFORE, Minors::From(20)),
            release(v(1, 56, 0), ALL_IMAGES, Minors::From(20)),
        ],
        newest_read: v(1, 64, 0),
        caveats: &[needs_csi_proxy(INSTALL_CSI_PROXY, "kubernetes-sigs/aws-ebs-csi-driver, charts")],
        source: "kubernetes-sigs/aws-ebs-csi-driver, Makefile, CHANGELOG.md and docs/install.md",
    },
    AddOn {
        name: "Compute Engine persistent disk CSI driver",
        repositories: &["gcp-compute-persistent-disk-csi-driver"],
        releases: &[
            release(v(1, 8, 15), Builds::Images(&[17763]), Minors::From(19)),
            release(v(1, 18, 0), SERVER_2022_AND_BEFORE, Minors::From(19)),
        ],
        newest_read: v(1, 26, 4),
        caveats: &[needs_csi_proxy(
            INSTALL_CSI_PROXY,
            "kubernetes-sigs/gcp-compute-persistent-disk-csi-driver, README.md",
        )],
        source: "kubernetes-sigs/gcp-compute-persistent-disk-csi-driver, Makefile and README.md at each tag",
    },
    AddOn {
        name: "Secrets Store CSI driver",
        repositories: &["csi-secrets-store/driver"],
        releases: &[
            release(v(1, 0, 0), SERVER_2022_AND_BEFORE, Minors::NotNamed),
            release(v(1, 5, 0), ALL_IMAGES, Minors::NotNamed),
        ],
        newest_read: v(1, 6, 0),
        caveats: &[],
        source: "kubernetes-sigs/secrets-store-csi-driver, Makefile at each tag",
    },
    AddOn {
        name: "CSI node-driver-registrar",
        repositories: &["csi-node-driver-registrar"],
        // 1.23.10 and 1.24.4 as well.
        releases: &[release(v(2, 9, 0), SERVER_2022_AND_BEFORE, Minors::From(25))],
        newest_read: v(2, 17, 0),
        caveats: &[],
        source: "kubernetes-csi/node-driver-registrar, README.md and release-tools/prow.sh at each tag",
    },
    AddOn {
        name: "windows_exporter",
        repositories: &["windows-exporter"],
        releases: &[
            release(v(0, 25, 0), SERVER_2022_AND_BEFORE, Minors::From(22)),
            release(v(0, 30, 0), Builds::From(14393), Minors::From(22)),
        ],
        newest_read: v(0, 31, 8),
        caveats: &[],
        source: "prometheus-community/windows_exporter, Makefile, Dockerfile, README.md and kubernetes.md at each tag; pull request 1731",
    },
    AddOn {
        name: "Fluent Bit",
        repositories: &["fluent/fluent-bit"],
        releases: &[
            release(v(2, 0, 4), SERVER_2022_AND_BEFORE, Minors::NotNamed),
            release(v(4, 0, 4), Builds::Images(&[20348, 26100]), Minors::NotNamed),
        ],
        newest_read: v(5, 1, 1),
        caveats: &[],
        source: "fluent/fluent-bit, .github/workflows/call-build-images.yaml at each tag",
    },
    AddOn {
        name: "Grafana Alloy",
        repositories: &["grafana/alloy"],
        releases: &[
            release(v(1, 0, 0), Builds::Images(&[17763]), Minors::NotNamed),
            release(v(1, 8, 0), SERVER_2022_AND_BEFORE, Minors::NotNamed),
            release(v(1, 10, 0), Builds::Images(&[20348]), Minors::NotNamed),
        ],
        newest_read: v(1, 18, 1),
        caveats: &[],
        source: "grafana/alloy, docker-containers-windows and Dockerfile.windows at each tag",
    },
    AddOn {
        name: "Azure Monitor agent",
        repositories: &["azuremonitor/containerinsights/ciprod"],
        releases: &[],
        newest_read: v(0, 0, 0),
        caveats: &[Caveat {
            until: Some(v(3, 1, 17)),
            on: Some((26100, None)),
            without_host_process: false,
            breaks: true,
            reason: "nodes of AKS with Windows Server 2025 are always FIPS-enabled, which the agent supports since win-3.1.17",
            remedy: "use win-3.1.17 or later",
            source: "MicrosoftDocs/azure-aks-docs, articles/aks/enable-fips-nodes.md; microsoft/Docker-Provider, ReleaseNotes.md",
        }],
        source: "MicrosoftDocs/azure-aks-docs, articles/aks/enable-fips-nodes.md",
    },
];

pub(super) const COUNT: usize = {
    let (mut count, mut index) = (0, 0);
    while index < ADD_ONS.len() {
        count += ADD_ONS[index].releases.len() + ADD_ONS[index].caveats.len();
        index += 1;
    }
    count
};

/// A version, such as `1.34.5`; that of all patches as `1.37`.
pub fn version_text(ComponentVersion([major, minor, patch]): ComponentVersion) -> String {
    if patch == u32::MAX { format!("{major}.{minor}") } else { format!("{major}.{minor}.{patch}") }
}

/// Whether an add-on works on a node, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Fit {
    DoesNotFit,
    NeedsCare,
    /// No source says it.
    NotKnown,
    Fits,
}

impl Fit {
    pub const fn text(self) -> &'static str {
        match self {
            Self::DoesNotFit => "does not fit",
            Self::NeedsCare => "needs care",
            Self::NotKnown => "not known",
            Self::Fits => "fits",
        }
    }
}

/// What a source says about an add-on on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    pub fit: Fit,
    pub reason: String,
    /// What to do, without a period; empty if nothing.
    pub remedy: String,
    /// Empty if there is none.
    pub source: &'static str,
}

/// The findings about an image on a node, worst first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The name of the add-on; `None` for an image without a row.
    pub add_on: Option<&'static str>,
    /// The version in the tag.
    pub version: Option<ComponentVersion>,
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// The worst fit; without findings it is not known.
    pub fn fit(&self) -> Fit {
        self.findings.iter().map(|finding| finding.fit).min().unwrap_or(Fit::NotKnown)
    }
}

/// Whether an image fits a node with this Windows, in a cluster of this minor. The container is a HostProcess container or not.
pub fn verdict(image: &str, host_process: bool, os: OsVersion, minor: Option<Minor>) -> Verdict {
    let (repository, tag) = parts(image);
    let add_on = ADD_ONS.iter().find(|add_on| add_on.has(repository));
    let version = version_in(tag);
    let mut findings: Vec<Finding> =
        add_on.map(|one| one.caveats(version, host_process, os)).into_iter().flatten().collect();
    match (add_on, version) {
        (None, _) => findings.push(not_known("no table has this image".to_owned(), "")),
        (Some(add_on), None) => findings.push(not_known("its tag has no version".to_owned(), add_on.source)),
        (Some(add_on), Some(version)) => match add_on.release(version) {
            None => findings.push(not_known(add_on.not_read(), add_on.source)),
            Some(release) => {
                let image = Image { add_on, version, release, build: build_in(tag), host_process };
                findings.extend([image.on_build(os.build), image.with(minor)]);
            }
        },
    }
    findings.sort_by_key(|finding| finding.fit);
    Verdict { add_on: add_on.map(|one| one.name), version, findings }
}

fn not_known(reason: String, source: &'static str) -> Finding {
    let remedy = "ask its publisher, or test it on one node".to_owned();
    Finding { fit: Fit::NotKnown, reason, remedy, source }
}

/// The repository and the tag of an image.
fn parts(image: &str) -> (&str, &str) {
    let name = image.split('@').next().unwrap_or_default();
    name.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).unwrap_or((name, ""))
}

/// The first part of a tag that is a version, as in `v1.33.1-calico-hostprocess` and `windows-2022-5.1.1`.
fn version_in(tag: &str) -> Option<ComponentVersion> {
    let versions = tag.split('-').filter(|part| part.contains('.'));
    versions.filter_map(|part| part.parse::<ContainerdVersion>().ok()).next().map(Into::into)
}

/// The only build of an image whose tag names one, as in `v1.8.0-windowsservercore-ltsc2022` and `windows-2022-5.1.1`.
fn build_in(tag: &str) -> Option<Build> {
    tag.split('-').find_map(|part| builds::named(part).or_else(|| builds::named(&format!("ltsc{part}"))))
}

impl AddOn {
    fn has(&self, repository: &str) -> bool {
        let ends =
            |end: &&str| repository.strip_suffix(*end).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
        self.repositories.iter().any(ends)
    }

    /// The row of a version, if its release was read.
    fn release(&self, version: ComponentVersion) -> Option<&'static Release> {
        let known = version <= self.newest_read;
        self.releases.iter().rfind(|release| known && release.since <= version)
    }

    fn not_read(&self) -> String {
        match self.releases.first() {
            Some(first) => {
                format!(
                    "the releases from {} to {} were read",
                    version_text(first.since),
                    version_text(self.newest_read)
                )
            }
            None => "no source names what its releases support".to_owned(),
        }
    }

    fn caveats(&self, version: Option<ComponentVersion>, host_process: bool, os: OsVersion) -> Vec<Finding> {
        let applies = |caveat: &&Caveat| {
            let in_release = caveat.until.is_none_or(|until| version.is_some_and(|version| version < until));
            let on_build = caveat.on.is_none_or(|(build, revision)| {
                let fixed = matches!((os.revision, revision), (Some(own), Some(first)) if own >= first);
                os.build == Build(build) && !fixed
            });
            in_release && on_build && !(caveat.without_host_process && host_process)
        };
        let finding = |caveat: &Caveat| Finding {
            fit: if caveat.breaks { Fit::DoesNotFit } else { Fit::NeedsCare },
            reason: caveat.reason.to_owned(),
            remedy: caveat.remedy.to_owned(),
            source: caveat.source,
        };
        self.caveats.iter().filter(applies).map(finding).collect()
    }

    /// Which releases have what `has` names.
    fn instead(&self, version: ComponentVersion, has: impl Fn(&Release) -> bool) -> String {
        let later = self.releases.iter().find(|release| release.since > version && has(release));
        let earlier = self.releases.windows(2).rfind(|pair| pair[0].since <= version && has(&pair[0]));
        match (later, earlier) {
            (Some(release), _) => format!("use {} or later", version_text(release.since)),
            (None, Some([_, next])) => format!("use a version before {}", version_text(next.since)),
            _ => format!(
                "no release up to {} does: ask its publisher, or keep what fits",
                version_text(self.newest_read)
            ),
        }
    }
}

/// An image of an add-on, whose release was read.
struct Image {
    add_on: &'static AddOn,
    version: ComponentVersion,
    release: &'static Release,
    /// The only build in its tag.
    build: Option<Build>,
    host_process: bool,
}

impl Image {
    fn finding(&self, fit: Fit, reason: String, remedy: String) -> Finding {
        Finding { fit, reason, remedy, source: self.add_on.source }
    }

    fn fits(&self, reason: String) -> Finding {
        self.finding(Fit::Fits, reason, String::new())
    }

    fn on_build(&self, host: Build) -> Finding {
        let described = builds::described(host);
        let only = |builds: String| {
            let remedy = self.add_on.instead(self.version, |release| release.builds.names(host));
            self.finding(Fit::DoesNotFit, format!("it supports {builds}, and not {described}"), remedy)
        };
        match self.release.builds {
            Builds::Images(known) => self.by_images(known, host),
            Builds::NotNamed => {
                not_known("no source names the Windows builds that it supports".to_owned(), self.add_on.source)
            }
            Builds::OfKubernetes => {
                let own = support::builds_supported_by(Minor(self.version.0[1])).unwrap_or_default();
                let builds = own.iter().map(|build| builds::described(*build)).collect::<Vec<_>>().join(", ");
                if own.contains(&host) { self.fits(format!("it supports {described}")) } else { only(builds) }
            }
            builds if builds.names(host) => self.fits(format!("it supports {described}")),
            builds => only(builds.to_string()),
        }
    }

    /// By the builds that the release has images for, or the one in the tag.
    fn by_images(&self, of_release: &'static [u32], host: Build) -> Finding {
        let described = builds::described(host);
        let own: Vec<Build> =
            self.build.map_or_else(|| of_release.iter().map(|build| Build(*build)).collect(), |one| vec![one]);
        if own.contains(&host) {
            return self.fits(format!("it has an image for {described}"));
        }
        if self.host_process {
            let reason = format!("a HostProcess container runs on any build, and no source names {described} for it");
            return not_known(reason, self.add_on.source);
        }
        let remedy = if of_release.contains(&host.0) {
            format!("use its image for {described}")
        } else {
            self.add_on.instead(self.version, |release| release.builds.names(host))
        };
        let host = OsVersion { build: host, revision: None };
        let runs = |build: &Build| {
            let image = OsVersion { build: *build, revision: None };
            version_compatibility::check(host, Some(image), Isolation::Process, None)
                == VersionCompatibility::Compatible
        };
        match own.iter().rfind(|build| runs(build)) {
            Some(build) => {
                let reason =
                    format!("it has no image for {described}, which runs the one for {}", builds::described(*build));
                self.finding(Fit::NeedsCare, reason, remedy)
            }
            None => self.finding(Fit::DoesNotFit, format!("it has no image that {described} runs"), remedy),
        }
    }

    fn with(&self, minor: Option<Minor>) -> Finding {
        let source = self.add_on.source;
        let Some(minor) = minor else { return not_known("the version of Kubernetes is not known".to_owned(), source) };
        let supports = || self.fits(format!("it supports Kubernetes {minor}"));
        let instead = |has: &dyn Fn(Minors) -> bool| self.add_on.instead(self.version, |release| has(release.minors));
        match self.release.minors {
            Minors::NotNamed => {
                not_known("no source names the versions of Kubernetes that it supports".to_owned(), source)
            }
            Minors::From(first) if minor < Minor(first) => {
                let reason = format!("it needs Kubernetes {} or later", Minor(first));
                self.finding(Fit::DoesNotFit, reason, "upgrade Kubernetes first".to_owned())
            }
            Minors::From(_) => supports(),
            Minors::Tested(first, last) if (first..=last).contains(&minor.0) => supports(),
            Minors::Tested(first, last) => {
                let tested =
                    |minors| matches!(minors, Minors::Tested(first, last) if (first..=last).contains(&minor.0));
                let reason =
                    format!("it is tested with Kubernetes {} to {}, and not {minor}", Minor(first), Minor(last));
                self.finding(Fit::NeedsCare, reason, instead(&tested))
            }
            Minors::Skew => match skew(Minor(self.version.0[1]), minor) {
                Skew::Within => supports(),
                Skew::KubeletNewer => {
                    let reason = format!("it is newer than API server {minor}");
                    self.finding(Fit::DoesNotFit, reason, format!("use version {minor} or an earlier one"))
                }
                Skew::KubeletTooOld { oldest } => {
                    let reason = format!("it is too old for API server {minor}");
                    self.finding(Fit::DoesNotFit, reason, format!("upgrade it to {oldest} or later first"))
                }
            },
        }
    }
}

impl Builds {
    /// Whether a source names this build.
    fn names(self, build: Build) -> bool {
        match self {
            Self::Named(builds) | Self::Images(builds) => builds.contains(&build.0),
            Self::From(first) => build.0 >= first,
            Self::OfKubernetes | Self::NotNamed => false,
        }
    }
}

impl fmt::Display for Builds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let described =
            |builds: &[u32]| builds.iter().map(|build| builds::described(Build(*build))).collect::<Vec<_>>().join(", ");
        match self {
            Self::Named(builds) => f.write_str(&described(builds)),
            Self::Images(builds) => write!(f, "images for {}", described(builds)),
            Self::From(first) => write!(f, "{} and later", builds::described(Build(*first))),
            Self::OfKubernetes => f.write_str("those of its minor"),
            Self::NotNamed => f.write_str("not known"),
        }
    }
}

impl fmt::Display for Minors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::From(first) => write!(f, "{} and later", Minor(*first)),
            Self::Tested(first, last) => write!(f, "tested with {} to {}", Minor(*first), Minor(*last)),
            Self::Skew => f.write_str("its minor and up to three later ones"),
            Self::NotNamed => f.write_str("not known"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::windows_updates;

    const SERVER_2019: &str = "10.0.17763";
    const SERVER_2022: &str = "10.0.20348";
    const SERVER_2025: &str = "10.0.26100";

    /// The fit, and the reasons with remedies, worst first.
    fn judged(image: &str, host_process: bool, os: &str, minor: u32) -> (Fit, String) {
        let verdict = verdict(image, host_process, os.parse().unwrap(), Some(Minor(minor)));
        let worse = verdict.findings.iter().filter(|finding| finding.fit != Fit::Fits);
        let lines = worse.map(|Finding { reason, remedy, .. }| format!("{reason}: {remedy}"));
        (verdict.fit(), lines.collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn an_image_fits_only_if_a_source_names_its_version_its_build_and_its_minor() {
        use Fit::{DoesNotFit, Fits, NeedsCare, NotKnown};
        let ask = "ask its publisher, or test it on one node";
        #[rustfmt::skip]
        let table: [(&str, bool, &str, u32, Fit, String); 27] = [
            ("docker.io/calico/node-windows:v3.31.2", true, SERVER_2022, 35, Fits, String::new()),
            ("calico/node-windows:v3.31.2", true, SERVER_2025, 35, DoesNotFit,
                "it supports 10.0.17763 (ltsc2019), 10.0.20348 (ltsc2022), and not 10.0.26100 (ltsc2025): no release up to 3.32.1 does: ask its publisher, or keep what fits".into()),
            ("calico/node-windows:v3.31.2", true, SERVER_2022, 36, NeedsCare,
                "it is tested with Kubernetes 1.32 to 1.35, and not 1.36: use 3.32.0 or later".into()),
            ("calico/node-windows:v3.32.0", true, SERVER_2022, 33, NeedsCare,
                "it is tested with Kubernetes 1.34 to 1.36, and not 1.33: use a version before 3.32.0".into()),
            ("calico/node-windows:v3.99.0", true, SERVER_2022, 35, NotKnown, format!("the releases from 3.29.0 to 3.32.1 were read: {ask}")),
            ("calico/node-windows:v3.20.0", true, SERVER_2022, 35, NotKnown, format!("the releases from 3.29.0 to 3.32.1 were read: {ask}")),
            ("sigwindowstools/kube-proxy:v1.36.1-flannel-hostprocess", true, SERVER_2025, 37, Fits, String::new()),
            ("sigwindowstools/kube-proxy:v1.36.1-flannel-hostprocess", true, SERVER_2019, 37, DoesNotFit,
                "it supports 10.0.20348 (ltsc2022), 10.0.26100 (ltsc2025), and not 10.0.17763 (ltsc2019): no release up to 1.37 does: ask its publisher, or keep what fits".into()),
            ("kube-proxy-windows:v1.33.0", true, SERVER_2022, 37, DoesNotFit, "it is too old for API server 1.37: upgrade it to 1.34 or later first".into()),
            ("kube-proxy-windows:v1.36.0", true, SERVER_2022, 35, DoesNotFit, "it is newer than API server 1.35: use version 1.35 or an earlier one".into()),
            ("kube-proxy-windows:v1.38.0", true, SERVER_2022, 38, NotKnown, format!("the releases from 1.30.0 to 1.37 were read: {ask}")),
            ("public.ecr.aws/ebs-csi-driver/aws-ebs-csi-driver:v1.56.0", true, SERVER_2025, 35, Fits, String::new()),
            ("public.ecr.aws/ebs-csi-driver/aws-ebs-csi-driver:v1.55.0", false, SERVER_2025, 35, NeedsCare,
                "outside HostProcess containers it needs the service csi-proxy on each node: install csi-proxy on each new node; it has no image for 10.0.26100 (ltsc2025), which runs the one for 10.0.20348 (ltsc2022): use 1.56.0 or later".into()),
            ("mcr.microsoft.com/oss/v2/kubernetes-csi/azuredisk-csi:v1.34.5-windows-hp", true, SERVER_2022, 35, Fits, String::new()),
            ("mcr.microsoft.com/oss/v2/kubernetes-csi/azuredisk-csi:v1.34.5-windows-hp", true, SERVER_2025, 35, NotKnown,
                format!("a HostProcess container runs on any build, and no source names 10.0.26100 (ltsc2025) for it: {ask}")),
            ("registry.k8s.io/csi-secrets-store/driver:v1.4.8", false, SERVER_2025, 35, NeedsCare,
                format!("it has no image for 10.0.26100 (ltsc2025), which runs the one for 10.0.20348 (ltsc2022): use 1.5.0 or later; no source names the versions of Kubernetes that it supports: {ask}")),
            ("ghcr.io/prometheus-community/windows-exporter:0.31.3", true, SERVER_2025, 35, Fits, String::new()),
            ("ghcr.io/prometheus-community/windows-exporter:0.29.2", false, SERVER_2025, 35, NeedsCare,
                "it has no image for 10.0.26100 (ltsc2025), which runs the one for 10.0.20348 (ltsc2022): use 0.30.0 or later".into()),
            ("fluent/fluent-bit:windows-2022-5.1.1", false, SERVER_2019, 35, DoesNotFit,
                format!("it has no image that 10.0.17763 (ltsc2019) runs: use a version before 4.0.4; no source names the versions of Kubernetes that it supports: {ask}")),
            ("fluent/fluent-bit:windows-2025-5.1.1", false, SERVER_2022, 35, DoesNotFit,
                format!("it has no image that 10.0.20348 (ltsc2022) runs: use its image for 10.0.20348 (ltsc2022); no source names the versions of Kubernetes that it supports: {ask}")),
            ("fluent/fluent-bit:windows-2022-5.1.1", false, SERVER_2022, 35, NotKnown, format!("no source names the versions of Kubernetes that it supports: {ask}")),
            ("sigwindowstools/flannel:v0.22.0-hostprocess", true, "10.0.26100.4946", 35, NeedsCare,
                format!("{}; no source names what its releases support: {ask}", "with the backend vxlan: overlay networks of Windows Server 2025 had a defect, whose fix was announced for the update of 2025-10; that the update has it was not confirmed: install the update of 2025-10 (10.0.26100.6899) or a later one, and test the network between nodes")),
            ("sigwindowstools/flannel:v0.22.0-hostprocess", true, "10.0.26100.6899", 35, NotKnown, format!("no source names what its releases support: {ask}")),
            ("mcr.microsoft.com/azuremonitor/containerinsights/ciprod:win-3.1.15", false, SERVER_2025, 34, DoesNotFit,
                format!("nodes of AKS with Windows Server 2025 are always FIPS-enabled, which the agent supports since win-3.1.17: use win-3.1.17 or later; no source names what its releases support: {ask}")),
            ("mcr.microsoft.com/azuremonitor/containerinsights/ciprod:win-3.1.19", false, SERVER_2025, 34, NotKnown, format!("no source names what its releases support: {ask}")),
            ("ghcr.io/kubernetes-sigs/sig-windows/csi-proxy:v1.1.2", true, SERVER_2022, 35, NeedsCare,
                format!("version 2 is a library, with which drivers in HostProcess containers need no csi-proxy: run the CSI drivers as HostProcess containers, and remove csi-proxy when none needs it; no source names the Windows builds that it supports: {ask}")),
            ("registry.example/team/agent:1.0.0", true, SERVER_2022, 35, NotKnown, format!("no table has this image: {ask}")),
        ];
        for (image, host_process, os, minor, fit, lines) in table {
            assert_eq!(judged(image, host_process, os, minor), (fit, lines), "{image} on {os} with 1.{minor}");
        }
    }

    #[test]
    fn an_unknown_image_or_version_never_fits() {
        let unknown =
            ["", ":", "@", "a", "a:1.0.0", "example.com/windows/agent:ltsc2022", "host:5000/x", "node-windows:v3.31.2"];
        let versions = ["", ":latest", ":v1", ":99999999999.1.1", ":0.0.1", ":999.0.0", "@sha256:00", ":windows-2022"];
        let known = ADD_ONS.iter().flat_map(|add_on| add_on.repositories);
        let without_version =
            known.flat_map(|repository| versions.map(|version| format!("registry.example/{repository}{version}")));
        let images: Vec<String> = unknown.map(str::to_owned).into_iter().chain(without_version).collect();
        for build in builds::RELEASES.iter().map(|release| release.build.0).chain([0, 99_999, u32::MAX]) {
            for minor in (0..=50).map(|minor| Some(Minor(minor))).chain([None]) {
                for image in &images {
                    for host_process in [false, true] {
                        let os = OsVersion { build: Build(build), revision: None };
                        let fit = verdict(image, host_process, os, minor).fit();
                        assert_ne!(fit, Fit::Fits, "{image} on {build} with {minor:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_unknown_build_or_minor_never_fits() {
        for add_on in ADD_ONS {
            for release in add_on.releases {
                let image = format!("{}:{}", add_on.repositories[0], version_text(release.since));
                let of = |build, minor| {
                    let os = OsVersion { build: Build(build), revision: None };
                    verdict(&image, false, os, minor).fit()
                };
                let unknown = if matches!(release.builds, Builds::From(_)) { 0 } else { 99_999 };
                assert_ne!(of(unknown, Some(Minor(35))), Fit::Fits, "{image}");
                assert_ne!(of(20348, None), Fit::Fits, "{image}");
            }
        }
    }

    #[test]
    fn rows_are_in_order_and_have_sources() {
        for add_on in ADD_ONS {
            assert!(add_on.releases.is_sorted_by(|a, b| a.since < b.since), "{}", add_on.name);
            assert!(add_on.releases.last().is_none_or(|last| last.since <= add_on.newest_read), "{}", add_on.name);
            assert!(!add_on.source.is_empty(), "{}", add_on.name);
            assert!(!add_on.releases.is_empty() || !add_on.caveats.is_empty(), "{}", add_on.name);
            for caveat in add_on.caveats {
                assert!(!caveat.reason.is_empty() && !caveat.remedy.is_empty() && !caveat.source.is_empty());
                let revision = caveat.on.and_then(|(build, revision)| Some((Build(build), revision?)));
                let known = |(build, revision)| {
                    windows_updates::update(OsVersion { build, revision: Some(revision) }).is_some()
                };
                assert!(revision.is_none_or(known), "{}: an update in windows_updates", add_on.name);
            }
        }
        let repositories = ADD_ONS.iter().flat_map(|add_on| add_on.repositories);
        for repository in repositories {
            assert_eq!(ADD_ONS.iter().filter(|add_on| add_on.has(repository)).count(), 1, "{repository}");
        }
    }
}

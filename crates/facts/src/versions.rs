//! The versions that index the tables, and their formats.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct ParseVersionError {
    text: String,
    expected: &'static str,
}

impl ParseVersionError {
    fn new(text: &str, expected: &'static str) -> Self {
        Self { text: text.to_owned(), expected }
    }
}

/// The build of a Windows release, such as `10.0.20348`: major and minor are 10.0 for every Windows with containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Build(pub u32);

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "10.0.{}", self.0)
    }
}

impl FromStr for Build {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.strip_prefix("10.0.")
            .and_then(number)
            .map(Self)
            .ok_or_else(|| ParseVersionError::new(text, "a Windows build such as 10.0.20348"))
    }
}

/// A Windows version with an optional revision (the monthly update), as in `nodeInfo.kernelVersion` and in the
/// `os.version` of an image: `10.0.20348.4529`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OsVersion {
    pub build: Build,
    /// The update within the release.
    pub revision: Option<u32>,
}

impl fmt::Display for OsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.revision {
            Some(revision) => write!(f, "{}.{revision}", self.build),
            None => self.build.fmt(f),
        }
    }
}

impl FromStr for OsVersion {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || ParseVersionError::new(text, "a Windows version such as 10.0.20348.4529");
        let rest = text.strip_prefix("10.0.").ok_or_else(invalid)?;
        let (build, revision) = match rest.split_once('.') {
            Some((build, revision)) => (build, Some(number(revision).ok_or_else(invalid)?)),
            None => (rest, None),
        };
        Ok(Self { build: Build(number(build).ok_or_else(invalid)?), revision })
    }
}

impl TryFrom<String> for OsVersion {
    type Error = ParseVersionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<OsVersion> for String {
    fn from(version: OsVersion) -> Self {
        version.to_string()
    }
}

/// A minor version of Kubernetes 1.x: `Minor(34)` is 1.34.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minor(pub u32);

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

impl FromStr for Minor {
    type Err = ParseVersionError;

    /// Parses `1.34`. A leading `v` and the text after the minor (`v1.34.2`, `1.34+`) are ignored.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || ParseVersionError::new(text, "a Kubernetes version such as 1.34");
        let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
        let (major, minor) = (parts.next().and_then(number), parts.next().and_then(leading_number));
        match (major, minor) {
            (Some(1), Some(minor)) => Ok(Self(minor)),
            _ => Err(invalid()),
        }
    }
}

/// A kubelet version as in `nodeInfo.kubeletVersion`: `v1.34.2`, `v1.29.5-gke.1091002`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KubeletVersion {
    pub minor: Minor,
    pub patch: u32,
}

impl fmt::Display for KubeletVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}", self.minor, self.patch)
    }
}

impl FromStr for KubeletVersion {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || ParseVersionError::new(text, "a kubelet version such as v1.34.2");
        let minor = text.parse::<Minor>().map_err(|_| invalid())?;
        let patch = text.splitn(3, '.').nth(2).and_then(leading_number).ok_or_else(invalid)?;
        Ok(Self { minor, patch })
    }
}

/// A version of containerd: `1.7.27`, `2.1.0`. The text after the patch (`-rc.1`, `+azure`, `~ds1`) is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerdVersion {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

impl ContainerdVersion {
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    pub const fn line(self) -> ContainerdLine {
        ContainerdLine { major: self.major, minor: self.minor }
    }
}

/// A release line of containerd, such as 1.7: its patch releases have the same configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerdLine {
    pub major: u32,
    pub minor: u32,
}

impl ContainerdLine {
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    pub const fn release(self, patch: u32) -> ContainerdVersion {
        ContainerdVersion::new(self.major, self.minor, patch)
    }
}

impl fmt::Display for ContainerdLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl fmt::Display for ContainerdVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for ContainerdVersion {
    type Err = ParseVersionError;

    /// Parses `1.7.27` and `v1.7.27`. A missing patch is 0.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || ParseVersionError::new(text, "a containerd version such as 1.7.27");
        let mut parts = text.strip_prefix('v').unwrap_or(text).splitn(3, '.');
        let major = parts.next().and_then(number).ok_or_else(invalid)?;
        let minor = parts.next().and_then(leading_number).ok_or_else(invalid)?;
        let patch = parts.next().map_or(Some(0), leading_number).ok_or_else(invalid)?;
        Ok(Self { major, minor, patch })
    }
}

/// A number of digits only: `u32::from_str` also accepts `+1`.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn leading_number(text: &str) -> Option<u32> {
    number(text.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_kubelets_and_runtimes_are_parsed() {
        assert_eq!("10.0.20348".parse(), Ok(Build(20348)));
        assert_eq!("10.0.20348.4529".parse(), Ok(OsVersion { build: Build(20348), revision: Some(4529) }));
        assert_eq!("10.0.26100".parse(), Ok(OsVersion { build: Build(26100), revision: None }));
        assert_eq!("v1.29.5-gke.1091002".parse(), Ok(KubeletVersion { minor: Minor(29), patch: 5 }));
        assert_eq!("1.36".parse(), Ok(Minor(36)));
        assert_eq!("1.20+".parse(), Ok(Minor(20)));
        assert_eq!("1.6.20~ds1".parse(), Ok(ContainerdVersion::new(1, 6, 20)));
        assert_eq!("2.1".parse(), Ok(ContainerdVersion::new(2, 1, 0)));
        assert_eq!("1.7.0-rc.3".parse(), Ok(ContainerdVersion::new(1, 7, 0)));
    }

    #[test]
    fn an_invalid_version_is_an_error() {
        for text in ["", "10.0", "6.1.7601", "10.0.x", "10.0.+1", "10.0.20348.", "10.0.20348.1.2", "10.0.99999999999"] {
            assert!(text.parse::<OsVersion>().is_err(), "{text}");
        }
        for text in ["", "v", "v2.0.0", "1", "v1.", "v1.x.0", "v1.34"] {
            assert!(text.parse::<KubeletVersion>().is_err(), "{text}");
        }
        assert!("".parse::<ContainerdVersion>().is_err());
        assert_eq!(
            "banana".parse::<Build>().unwrap_err().to_string(),
            "`banana` is not a Windows build such as 10.0.20348"
        );
    }

    #[test]
    fn versions_are_displayed_in_the_format_that_they_are_parsed_from() {
        assert_eq!(Build(26100).to_string(), "10.0.26100");
        assert_eq!(OsVersion { build: Build(20348), revision: Some(1) }.to_string(), "10.0.20348.1");
        assert_eq!(KubeletVersion { minor: Minor(34), patch: 2 }.to_string(), "v1.34.2");
        assert_eq!(ContainerdVersion::new(1, 7, 27).to_string(), "1.7.27");
    }
}

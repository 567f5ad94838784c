//! The platforms of an image, according to its registry.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};
use winpool_facts::OsVersion;

use crate::ForeignText;

/// The platforms for which an image has an entry; a single manifest has one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ImagePlatforms {
    /// The entries, without attestations and other artifacts that are not images.
    pub platforms: Vec<ImagePlatform>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImagePlatform {
    pub os: String,
    pub architecture: String,
    /// The version of Windows; an entry without a valid version matches every host.
    pub os_version: Option<OsVersion>,
}

impl ImagePlatforms {
    pub fn windows(&self) -> impl Iterator<Item = &ImagePlatform> {
        self.platforms.iter().filter(|platform| platform.os == "windows")
    }

    /// The platforms, without versions.
    pub fn systems(&self) -> BTreeSet<ForeignText> {
        self.platforms.iter().map(ImagePlatform::system).collect()
    }
}

impl ImagePlatform {
    fn system(&self) -> ForeignText {
        format!("{}/{}", self.os, self.architecture).into()
    }
}

impl fmt::Display for ImagePlatform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.system())?;
        self.os_version.map_or(Ok(()), |version| write!(f, " {version}"))
    }
}

//! The test image of Kubernetes, agnhost, whose commands `netexec` and `connect` `winpool verify` runs: its digest, and its builds.
//!
//! Sources, read on 2026-11-29: kubernetes/k8s.io, `registry.k8s.io/images/k8s-staging-e2e-test-images/images.yaml` (e10ab5f9), for the
//! digest of the index with Linux and Windows; kubernetes/kubernetes pull request 136727 (2026-02-03) and kubernetes/k8s.io pull request
//! 9057, which added Windows Server 2025 with 2.62, and kubernetes/kubernetes v1.37.2, `test/images/agnhost/BASEIMAGE`, for the builds.
//! That 2.63.0 has the builds of both is inferred. Kubernetes 1.37.2 uses 2.66.1, whose digest no source that was read has.

use super::{
    Build, ContainerdVersion, OsVersion,
    version_compatibility::{Isolation, VersionCompatibility, check},
};

pub struct TestImage {
    /// With its digest.
    pub image: &'static str,
    /// The builds of Windows in its index. It also has Linux.
    pub builds: &'static [Build],
}

/// agnhost 2.63.0.
pub const TEST_IMAGES: &[TestImage] = &[TestImage {
    image: "registry.k8s.io/e2e-test-images/agnhost@sha256:a62f40481e05709988fe44e5035b2e0f553cd52bf0ae4e83614928255b00e8c1",
    builds: &[Build(17763), Build(20348), Build(26100)],
}];

/// The image that a host runs in process isolation; `None` if there is none.
pub fn test_image(host: OsVersion, containerd: Option<ContainerdVersion>) -> Option<&'static str> {
    let runs = |build: &Build| {
        let image = OsVersion { build: *build, revision: None };
        check(host, Some(image), Isolation::Process, containerd) == VersionCompatibility::Compatible
    };
    TEST_IMAGES.iter().find(|image| image.builds.iter().any(runs)).map(|image| image.image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supported_releases_run_the_test_image_and_older_builds_do_not() {
        let table = [(17763, true), (20348, true), (25398, true), (26100, true), (14393, false), (19042, false)];
        for (build, expected) in table {
            let host = OsVersion { build: Build(build), revision: None };
            assert_eq!(test_image(host, None).is_some(), expected, "{build}");
        }
    }
}

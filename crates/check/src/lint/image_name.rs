//! What the name of an image says about its operating system. Names are arbitrary, so this is no proof.

use winpool_core::image::{Reference, tag};

/// The names of Windows base images, which images for other operating systems do not have.
const BASE_IMAGES: [&str; 2] = ["nanoserver", "servercore"];
/// The beginnings of repositories that have only images for Windows, with their registry: those of Microsoft on
/// mcr.microsoft.com (microsoft/dotnet-framework-docker, 2026) and their former names on Docker Hub.
const WINDOWS_REPOSITORIES: [(&str, &str); 6] = [
    ("mcr.microsoft.com", "windows/"),
    ("mcr.microsoft.com", "windows"),
    ("mcr.microsoft.com", "dotnet/framework/"),
    ("docker.io", "microsoft/iis"),
    ("docker.io", "microsoft/aspnet"),
    ("docker.io", "microsoft/dotnet-framework"),
];
/// Parts that only occur in names of Linux images: distributions and their releases.
const LINUX_NAMES: [&str; 16] = [
    "alpine",
    "amazonlinux",
    "azurelinux",
    "bookworm",
    "bullseye",
    "buster",
    "centos",
    "debian",
    "distroless",
    "focal",
    "jammy",
    "linux",
    "noble",
    "trixie",
    "ubi",
    "ubuntu",
];

/// The repositories of the test images of Kubernetes, and their former organization on Docker Hub. They have entries for Windows
/// whatever their names, and there the programs of BusyBox (kubernetes/kubernetes, `test/images/*/BASEIMAGE`, 2025, and
/// `test/images/busybox/Dockerfile_windows`, 2021).
const TEST_IMAGES: [&str; 2] = ["e2e-test-images/", "e2eteam/"];

/// Whether an image is a test image of Kubernetes.
pub fn is_test_image(image: &Reference) -> bool {
    TEST_IMAGES.iter().any(|directory| image.repository().contains(directory))
}

/// The official image of BusyBox, which is only for Linux (docker-library/official-images, `library/busybox`).
const OFFICIAL_BUSYBOX: (&str, &str) = ("docker.io", "library/busybox");

/// Whether an image has the programs of BusyBox, on Windows too.
pub fn has_unix_programs(image: &Reference) -> bool {
    let is_busybox = image.repository().rsplit('/').next().is_some_and(|name| name.contains("busybox"));
    is_test_image(image) || is_busybox && (image.registry(), image.repository()) != OFFICIAL_BUSYBOX
}

/// Whether the name of an image has a Windows version or a Windows base image. The word Windows alone is not
/// sufficient, because some images that manage Windows are for Linux.
pub fn is_windows_image(image: &Reference) -> bool {
    let (tag, repository) = (image.tag().unwrap_or_default().to_lowercase(), image.repository());
    let has_base_image = |name: &str| BASE_IMAGES.iter().any(|base| name.contains(base));
    let is_in = |(registry, start): &(&str, &str)| {
        image.registry() == *registry && (repository == *start || start.ends_with('/') && repository.starts_with(start))
    };
    WINDOWS_REPOSITORIES.iter().any(is_in)
        || has_base_image(&tag)
        || has_base_image(repository)
        || tag::suggested(image).is_some_and(|suggestion| suggestion.os.is_some())
}

/// Whether a part of the tag, or of the last part of the repository, names a Linux distribution.
pub fn suggests_linux(image: &Reference) -> bool {
    let tag = image.tag().unwrap_or_default().to_lowercase();
    let name = image.repository().rsplit('/').next().unwrap_or_default();
    let mut parts = tag.split(['-', '_', '.', '+']).chain(name.split(['-', '_', '.']));
    // A version may follow, as in alpine3 and ubi9.
    parts.any(|part| LINUX_NAMES.contains(&part.trim_end_matches(|letter: char| letter.is_ascii_digit())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_distributions_suggest_linux() {
        let table = [
            ("nginx:1.27-alpine3.20", true),
            ("python:3.13-slim-bookworm", true),
            ("redhat/ubi9:9.4", true),
            ("example.com/app-linux:7", true),
            ("nginx:1.27", false),
            ("mcr.microsoft.com/windows/nanoserver:ltsc2022", false),
            ("example.com/linuxoid:1", false),
        ];
        for (image, expected) in table {
            assert_eq!(suggests_linux(&image.parse().unwrap()), expected, "{image}");
        }
    }
}

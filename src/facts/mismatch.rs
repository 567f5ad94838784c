//! What container runtimes say when an image is not for the host.
//!
//! Sources: the HCS error and its text in MicrosoftDocs/Virtualization-Documentation, `version-compatibility.md`
//! (2025-09-17) and issue 765 (2018-05); the wording before Windows Server 2019 in microsoft/service-fabric issue 1000
//! (2020-07); containerd's at the time of a pull in containerd/containerd issues 6989 and 7439 (2022-09); Docker's in
//! docker-archive-public/docker.kitematic issue 3115 (2017-10) and docker.labs issue 465 (2019-06), and moby/moby,
//! `daemon/containerd/image_windows.go` and its predecessor in `distribution` (2024).

use jiff::civil::{Date, date};

/// The day of the newest source.
pub const AS_OF: Date = date(2026, 8, 22);

/// Pieces of messages, in lower case, that only a misfit of image and host brings about.
pub const SAYINGS: [&str; 6] = [
    "0xc0370101",
    "operating system of the container does not match the operating system of the host",
    "container operating system does not match the host operating system",
    "no match for platform in manifest",
    "no matching manifest for",
    "-based image is incompatible with a",
];

/// Whether a message of a runtime says that an image is not for its host. Case does not matter.
pub fn says(message: &str) -> bool {
    let lower = message.to_lowercase();
    SAYINGS.iter().any(|saying| lower.contains(saying))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misfit_is_told_from_other_failures() {
        let table = [
            (
                "rpc error: code = NotFound desc = failed to pull and unpack image \"x\": no match for platform in manifest: not found",
                true,
            ),
            (
                "hcs::CreateComputeSystem x: The container operating system does not match the host operating system.",
                true,
            ),
            ("failure in a Windows system call: (0xC0370101)", true),
            ("no matching manifest for windows/amd64 10.0.17763 in the manifest list entries", true),
            ("a Windows version 10.0.20348-based image is incompatible with a 10.0.17763 host", true),
            ("failed to pull and unpack image \"x\": failed to resolve reference \"x\": not found", false),
            ("hcs::CreateComputeSystem x: The system cannot find the file specified. (0x2)", false),
            ("", false),
        ];
        for (message, expected) in table {
            assert_eq!(says(message), expected, "{message}");
        }
    }
}

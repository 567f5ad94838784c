//! Error messages of container runtimes for images that do not match the host's platform.
//!
//! Sources: the HCS error and its text in MicrosoftDocs/Virtualization-Documentation, `version-compatibility.md`
//! (2025-09-17), its HRESULT in `virtualization/api/hcs/Reference/HCSHResult.md`, and issue 765 (2018-05); the text before Windows Server 2019 in microsoft/service-fabric issue 1000
//! (2020-07); containerd's at the time of a pull in containerd/containerd, `core/images/image.go` (2026-08-22), with issues 6989
//! and 7439 (2022-09); Docker's in moby/moby, `daemon/internal/distribution/pull_v2.go` and `pull_v2_windows.go` (2026-08-23), with
//! docker-archive-public/docker.kitematic issue 3115 (2017-10) and docker.labs issue 465 (2019-06).

/// Substrings, in lower case, that occur only in errors about a platform mismatch.
pub const MISMATCH_ERRORS: [&str; 6] = [
    "0xc0370101",
    "operating system of the container does not match the operating system of the host",
    "container operating system does not match the host operating system",
    "no match for platform in manifest",
    "no matching manifest for",
    "-based image is incompatible with a",
];

/// Whether a runtime's error message reports an image that does not match the host's platform. The case is ignored.
pub fn is_platform_mismatch(message: &str) -> bool {
    let message = message.to_lowercase();
    MISMATCH_ERRORS.iter().any(|error| message.contains(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_mismatch_is_distinguished_from_other_errors() {
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
            assert_eq!(is_platform_mismatch(message), expected, "{message}");
        }
    }
}

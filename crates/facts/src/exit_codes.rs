//! Exit codes with which Windows, and not the program itself, ends a container.
//!
//! Sources: names and values of the constants in `crates/libs/sys` of microsoft/windows-rs, `Win32/Foundation`, which is
//! generated from the metadata of Windows (windows-sys 0.61.2, read on 2026-11-26). hcsshim and containerd report errors
//! of the host compute service with the first digit C instead of 8: microsoft/hcsshim, `internal/hcs/errors.go`
//! (2026-11-26). 0xC000013A (`STATUS_CONTROL_C_EXIT`) is how a container ends that is stopped, so it is not in the table:
//! microsoft/dotnet-framework-docker issue 431 (2019-10).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitCode {
    /// The code, without a sign.
    pub code: u32,
    pub name: &'static str,
    pub meaning: &'static str,
}

const fn row(code: u32, name: &'static str, meaning: &'static str) -> ExitCode {
    ExitCode { code, name, meaning }
}

/// The name of the code for an image that does not match the host.
pub const IMAGE_MISMATCH: &str = "HCS_E_IMAGE_MISMATCH";

/// The exit codes, by value.
#[rustfmt::skip]
pub const EXIT_CODES: &[ExitCode] = &[
    row(0x8037_0101, IMAGE_MISMATCH, "the Windows of the image does not match the Windows of the node"),
    row(0x8037_0106, "HCS_E_UNEXPECTED_EXIT", "the container ended while it was started"),
    row(0xC000_0005, "STATUS_ACCESS_VIOLATION", "the program used memory that it does not have"),
    row(0xC000_007B, "STATUS_INVALID_IMAGE_FORMAT", "a program or DLL is not for this architecture, or is damaged"),
    row(0xC000_012D, "STATUS_COMMITMENT_LIMIT", "no memory could be committed: the limit of the container or the paging file of the node is used up"),
    row(0xC000_0135, "STATUS_DLL_NOT_FOUND", "a DLL that the program needs is not in the image"),
    row(0xC000_0139, "STATUS_ENTRYPOINT_NOT_FOUND", "a DLL in the image is of another version than the program needs"),
    row(0xC000_0142, "STATUS_DLL_INIT_FAILED", "a DLL could not be initialized, so the program did not begin"),
    row(0xC000_0374, "STATUS_HEAP_CORRUPTION", "the program damaged its heap"),
    row(0xC037_0101, IMAGE_MISMATCH, "the Windows of the image does not match the Windows of the node"),
    row(0xC037_0106, "HCS_E_UNEXPECTED_EXIT", "the container ended while it was started"),
];

/// The row of an exit code as Kubernetes reports it, with a sign.
pub fn exit_code(reported: i32) -> Option<&'static ExitCode> {
    EXIT_CODES.iter().find(|row| row.code == reported.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_code_is_found_by_its_signed_value() {
        let table = [
            (-1_073_741_502, Some("STATUS_DLL_INIT_FAILED")),
            (-1_073_741_819, Some("STATUS_ACCESS_VIOLATION")),
            (-1_070_137_087, Some("HCS_E_IMAGE_MISMATCH")),
            (-1_073_741_510, None),
            (0, None),
            (1, None),
            (137, None),
        ];
        for (code, expected) in table {
            assert_eq!(exit_code(code).map(|row| row.name), expected, "{code}");
        }
        assert!(EXIT_CODES.is_sorted_by_key(|row| row.code));
    }
}

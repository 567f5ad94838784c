//! Codes of Windows in words: those with which Windows, and not the program itself, ends a container, and those in messages of the
//! container runtime and of HNS.
//!
//! Sources: names and values of the constants in `crates/libs/sys` of microsoft/windows-rs, `Win32/Foundation` and `Win32/System`, which are
//! generated from the metadata of Windows (windows-sys 0.61.2, read on 2026-11-26 and 2026-11-29); the meanings are in short what
//! Microsoft's tables of NTSTATUS, HRESULT and Win32 codes say ([MS-ERREF], sections 2.1 to 2.3). hcsshim and containerd report
//! errors of the host compute service with the first digit C instead of 8: microsoft/hcsshim, `internal/hcs/errors.go` (2026-11-26).
//! 0xC000013A (`STATUS_CONTROL_C_EXIT`) is how a container ends that is stopped, so it is not in the table:
//! microsoft/dotnet-framework-docker issue 431 (2019-10). The codes of .NET and C++ are those of exceptions that the program did not
//! handle: dotnet/runtime, `src/coreclr/inc/corexcep.h`, and the documentation of `GetExceptionCode` for Visual C++.
//!
//! [MS-ERREF]: https://learn.microsoft.com/openspecs/windows_protocols/ms-erref/

use std::collections::BTreeSet;

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

/// The codes that are no small numbers, so that a program does not return them by itself, by value.
#[rustfmt::skip]
pub const EXIT_CODES: &[ExitCode] = &[
    row(0x8000_0003, "STATUS_BREAKPOINT", "the program stopped itself at a breakpoint, as after a failed assertion"),
    row(0x8037_0100, "HCS_E_TERMINATED_DURING_START", "the container was ended while it was started"),
    row(0x8037_0101, IMAGE_MISMATCH, "the Windows of the image does not match the Windows of the node"),
    row(0x8037_0102, "HCS_E_HYPERV_NOT_INSTALLED", "Hyper-V is not installed on the node, which this isolation needs"),
    row(0x8037_0106, "HCS_E_UNEXPECTED_EXIT", "the container ended while it was started"),
    row(0x8037_0109, "HCS_E_CONNECTION_TIMEOUT", "the container did not answer the host compute service in time"),
    row(0x8037_010E, "HCS_E_SYSTEM_NOT_FOUND", "the host compute service does not know the container"),
    row(0x8037_010F, "HCS_E_SYSTEM_ALREADY_EXISTS", "the host compute service has a container with this name already"),
    row(0x8037_0110, "HCS_E_SYSTEM_ALREADY_STOPPED", "the container has ended already"),
    row(0x8037_0118, "HCS_E_OPERATION_TIMEOUT", "the host compute service did not finish in time"),
    row(0x8037_011E, "HCS_E_SERVICE_DISCONNECT", "the host compute service has ended or was restarted"),
    row(0x8037_011F, "HCS_E_PROCESS_ALREADY_STOPPED", "the process in the container has ended already"),
    row(0x803B_0001, "HCN_E_NETWORK_NOT_FOUND", "HNS has no such network"),
    row(0x803B_0002, "HCN_E_ENDPOINT_NOT_FOUND", "HNS has no such endpoint"),
    row(0x803B_0004, "HCN_E_SWITCH_NOT_FOUND", "HNS has no switch for the network"),
    row(0x803B_0005, "HCN_E_SUBNET_NOT_FOUND", "the network of HNS does not have the subnet"),
    row(0x803B_0006, "HCN_E_ADAPTER_NOT_FOUND", "HNS does not find the network adapter"),
    row(0x803B_0007, "HCN_E_PORT_NOT_FOUND", "HNS does not find the port of the endpoint at its switch"),
    row(0x803B_0008, "HCN_E_POLICY_NOT_FOUND", "HNS has no such policy or load balancer"),
    row(0x803B_0010, "HCN_E_NETWORK_ALREADY_EXISTS", "HNS has such a network already"),
    row(0x803B_0012, "HCN_E_POLICY_ALREADY_EXISTS", "HNS has such a policy already"),
    row(0x803B_0013, "HCN_E_PORT_ALREADY_EXISTS", "the port is in use or reserved on the node"),
    row(0x803B_0014, "HCN_E_ENDPOINT_ALREADY_ATTACHED", "the endpoint belongs to another container already"),
    row(0x803B_0015, "HCN_E_REQUEST_UNSUPPORTED", "HNS does not support the request, as when the object is gone"),
    row(0x803B_001B, "HCN_E_INVALID_JSON", "HNS does not accept the configuration"),
    row(0x803B_0020, "HCN_E_MANAGER_STOPPED", "HNS has stopped"),
    row(0x803B_002F, "HCN_E_ADDR_INVALID_OR_RESERVED", "the address is in use, reserved or not in the subnet of the network"),
    row(0xC000_0005, "STATUS_ACCESS_VIOLATION", "the program used memory that it does not have"),
    row(0xC000_0006, "STATUS_IN_PAGE_ERROR", "a page of the program could not be read from the disk or the share that it is on"),
    row(0xC000_0017, "STATUS_NO_MEMORY", "there was not enough memory or paging file"),
    row(0xC000_001D, "STATUS_ILLEGAL_INSTRUCTION", "the processor does not have an instruction that the program uses"),
    row(0xC000_0022, "STATUS_ACCESS_DENIED", "the user of the container may not access a file, key or object"),
    row(0xC000_0034, "STATUS_OBJECT_NAME_NOT_FOUND", "a file, key or object that the program needs does not exist"),
    row(0xC000_007B, "STATUS_INVALID_IMAGE_FORMAT", "a program or DLL is not for this architecture, or is damaged"),
    row(0xC000_007F, "STATUS_DISK_FULL", "the disk is full"),
    row(0xC000_0094, "STATUS_INTEGER_DIVIDE_BY_ZERO", "the program divided by zero"),
    row(0xC000_0096, "STATUS_PRIVILEGED_INSTRUCTION", "the program used an instruction that only the kernel may use"),
    row(0xC000_009A, "STATUS_INSUFFICIENT_RESOURCES", "a resource of the system, such as memory of the kernel, is used up"),
    row(0xC000_00FD, "STATUS_STACK_OVERFLOW", "the stack of a thread is used up, as after an endless recursion"),
    row(0xC000_012D, "STATUS_COMMITMENT_LIMIT", "no memory could be committed: the limit of the container or the paging file of the node is used up"),
    row(0xC000_0135, "STATUS_DLL_NOT_FOUND", "a DLL that the program needs is not in the image"),
    row(0xC000_0138, "STATUS_ORDINAL_NOT_FOUND", "a DLL in the image is of another version than the program needs"),
    row(0xC000_0139, "STATUS_ENTRYPOINT_NOT_FOUND", "a DLL in the image is of another version than the program needs"),
    row(0xC000_0142, "STATUS_DLL_INIT_FAILED", "a DLL could not be initialized, so the program did not begin"),
    row(0xC000_0145, "STATUS_APP_INIT_FAILURE", "the program could not be started correctly"),
    row(0xC000_026B, "STATUS_DLL_INIT_FAILED_LOGOFF", "a DLL could not be initialized, because Windows shuts down"),
    row(0xC000_0374, "STATUS_HEAP_CORRUPTION", "the program damaged its heap"),
    row(0xC000_0409, "STATUS_STACK_BUFFER_OVERRUN", "the program ended itself at once, as by abort() or __fastfail after an error that it cannot handle"),
    row(0xC000_0417, "STATUS_INVALID_CRUNTIME_PARAMETER", "the program passed an invalid argument to the C runtime"),
    row(0xC000_0420, "STATUS_ASSERTION_FAILURE", "an assertion of the program failed"),
    row(0xC000_0428, "STATUS_INVALID_IMAGE_HASH", "the signature of a program or DLL could not be verified"),
    row(0xC000_0602, "STATUS_FAIL_FAST_EXCEPTION", "the program ended itself at once after an error that it cannot handle"),
    row(0xC015_0002, "STATUS_SXS_CANT_GEN_ACTCTX", "a side-by-side assembly that the program needs, as the Visual C++ runtime, is not in the image"),
    row(0xC037_0101, IMAGE_MISMATCH, "the Windows of the image does not match the Windows of the node"),
    row(0xC037_0105, "HCS_E_INVALID_STATE", "the container is in a state that does not permit this"),
    row(0xC037_0106, "HCS_E_UNEXPECTED_EXIT", "the container ended while it was started"),
    row(0xC037_010D, "HCS_E_INVALID_JSON", "the host compute service does not accept the configuration of the container"),
    row(0xC037_010E, "HCS_E_SYSTEM_NOT_FOUND", "the host compute service does not know the container"),
    row(0xC037_0110, "HCS_E_SYSTEM_ALREADY_STOPPED", "the container has ended already"),
    row(0xE043_4352, "EXCEPTION_COMPLUS", "a program of .NET did not handle an exception: its output has it"),
    row(0xE06D_7363, "EXCEPTION_MSVC", "a program of C++ did not handle an exception"),
];

/// The codes of Win32 in messages, by value. As exit codes they would be those of programs.
#[rustfmt::skip]
pub const WIN32_CODES: &[ExitCode] = &[
    row(2, "ERROR_FILE_NOT_FOUND", "there is no such file"),
    row(3, "ERROR_PATH_NOT_FOUND", "there is no such directory"),
    row(5, "ERROR_ACCESS_DENIED", "the user may not do this"),
    row(6, "ERROR_INVALID_HANDLE", "the handle is not valid, as after the object was closed"),
    row(8, "ERROR_NOT_ENOUGH_MEMORY", "there is not enough memory"),
    row(13, "ERROR_INVALID_DATA", "the data is not valid"),
    row(14, "ERROR_OUTOFMEMORY", "there is not enough memory"),
    row(21, "ERROR_NOT_READY", "the device is not ready, as the disk of a container that was just attached"),
    row(23, "ERROR_CRC", "the disk has a damaged block"),
    row(31, "ERROR_GEN_FAILURE", "a device does not work"),
    row(32, "ERROR_SHARING_VIOLATION", "another process has the file open"),
    row(50, "ERROR_NOT_SUPPORTED", "this is not supported"),
    row(53, "ERROR_BAD_NETPATH", "the host of the share was not found"),
    row(65, "ERROR_NETWORK_ACCESS_DENIED", "the server refuses the access"),
    row(67, "ERROR_BAD_NET_NAME", "the server has no such share"),
    row(80, "ERROR_FILE_EXISTS", "the file exists already"),
    row(86, "ERROR_INVALID_PASSWORD", "the password is wrong"),
    row(87, "ERROR_INVALID_PARAMETER", "an argument is not valid"),
    row(109, "ERROR_BROKEN_PIPE", "the other end of the pipe was closed"),
    row(112, "ERROR_DISK_FULL", "the disk is full"),
    row(121, "ERROR_SEM_TIMEOUT", "the time for an answer is over"),
    row(123, "ERROR_INVALID_NAME", "the name of a file or directory has another syntax on Windows"),
    row(126, "ERROR_MOD_NOT_FOUND", "a DLL was not found"),
    row(127, "ERROR_PROC_NOT_FOUND", "a DLL does not have the function: it is of another version"),
    row(183, "ERROR_ALREADY_EXISTS", "it exists already"),
    row(193, "ERROR_BAD_EXE_FORMAT", "the file is no program for this Windows"),
    row(206, "ERROR_FILENAME_EXCED_RANGE", "the path is too long"),
    row(231, "ERROR_PIPE_BUSY", "all instances of the pipe are in use"),
    row(267, "ERROR_DIRECTORY", "this is no directory"),
    row(1053, "ERROR_SERVICE_REQUEST_TIMEOUT", "the service did not answer in time when it was started"),
    row(1062, "ERROR_SERVICE_NOT_ACTIVE", "the service does not run"),
    row(1168, "ERROR_NOT_FOUND", "there is no such element, as a network or endpoint of HNS"),
    row(1219, "ERROR_SESSION_CREDENTIAL_CONFLICT", "the node is connected to this server with another user already"),
    row(1225, "ERROR_CONNECTION_REFUSED", "the server refuses the connection"),
    row(1231, "ERROR_NETWORK_UNREACHABLE", "the network cannot be reached"),
    row(1232, "ERROR_HOST_UNREACHABLE", "the host cannot be reached"),
    row(1311, "ERROR_NO_LOGON_SERVERS", "no domain controller can be reached"),
    row(1326, "ERROR_LOGON_FAILURE", "the user or the password is wrong"),
    row(1355, "ERROR_NO_SUCH_DOMAIN", "the domain does not exist or cannot be reached"),
    row(1392, "ERROR_FILE_CORRUPT", "the file or directory is damaged"),
    row(1450, "ERROR_NO_SYSTEM_RESOURCES", "a resource of the system, such as memory of the kernel, is used up"),
    row(1453, "ERROR_WORKING_SET_QUOTA", "the limit of memory is used up"),
    row(1455, "ERROR_COMMITMENT_LIMIT", "the paging file is too small: memory of the node is used up"),
    row(1460, "ERROR_TIMEOUT", "the time for an answer is over"),
    row(1787, "ERROR_NO_TRUST_SAM_ACCOUNT", "the domain has no account of this computer with which it can be trusted"),
    row(1789, "ERROR_TRUSTED_RELATIONSHIP_FAILURE", "the trust between this computer and its domain failed"),
    row(1909, "ERROR_ACCOUNT_LOCKED_OUT", "the account is locked"),
];

/// The first code that is no value of a program: below it, 0x8 and 0xC begin the codes of Windows.
const FIRST_OF_WINDOWS: u32 = 0x8000_0000;
/// How a program ends that is stopped.
const CONTROL_C: u32 = 0xC000_013A;
/// How an HRESULT of a Win32 code begins.
const OF_WIN32: u32 = 0x8007_0000;

/// The row of an exit code as Kubernetes reports it, with a sign.
pub fn exit_code(reported: i32) -> Option<&'static ExitCode> {
    EXIT_CODES.iter().find(|row| row.code == reported.cast_unsigned())
}

/// Whether a code is one of Windows, also if no table has it. The small negative ones, such as -1, are of programs.
pub fn is_of_windows(reported: i32) -> bool {
    let code = reported.cast_unsigned();
    (FIRST_OF_WINDOWS..0xFFFF_0000).contains(&code) && code != CONTROL_C
}

/// The row of a code in a message: one of Windows, one of Win32, or an HRESULT of one.
pub fn code_in_words(code: u32) -> Option<&'static ExitCode> {
    let of_win32 = if code & 0xFFFF_0000 == OF_WIN32 { code & 0xFFFF } else { code };
    let is = |row: &&ExitCode| row.code == code;
    EXIT_CODES.iter().find(is).or_else(|| WIN32_CODES.iter().find(|row| row.code == of_win32))
}

/// The codes in a text: hexadecimal ones, as in `(0x15)`, decimal ones of 32 bits with or without a sign, and those after `System Error`.
pub fn codes_in(text: &str) -> Vec<&'static ExitCode> {
    let lower = text.to_lowercase();
    let words = lower.split(|char: char| !char.is_ascii_alphanumeric() && char != '-');
    let mut before = ["", ""];
    let mut codes = BTreeSet::new();
    for word in words {
        let decimal = || word.parse::<i64>().ok().filter(|_| before == ["system", "error"] || word.len() > 9);
        let code = match word.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => decimal()
                .and_then(|code| i32::try_from(code).map(i32::cast_unsigned).or_else(|_| u32::try_from(code)).ok()),
        };
        codes.extend(code);
        before = [before[1], word];
    }
    codes.into_iter().filter_map(code_in_words).collect()
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
            (-532_462_766, Some("EXCEPTION_COMPLUS")),
            (-1_073_741_510, None),
            (0, None),
            (1, None),
            (137, None),
        ];
        for (code, expected) in table {
            assert_eq!(exit_code(code).map(|row| row.name), expected, "{code}");
        }
        assert!(EXIT_CODES.is_sorted_by_key(|row| row.code) && WIN32_CODES.is_sorted_by_key(|row| row.code));
    }

    #[test]
    fn a_code_is_of_windows_also_if_no_table_has_it() {
        let table = [
            (-1_073_740_000, true),
            (-1_073_741_502, true),
            (-532_462_766, true),
            (-1_073_741_510, false),
            (-1, false),
            (0, false),
            (255, false),
        ];
        for (code, expected) in table {
            assert_eq!(is_of_windows(code), expected, "{code}");
        }
    }

    #[test]
    fn codes_of_a_text_are_described() {
        let table: [(&str, &[&str]); 9] = [
            ("hcsshim::PrepareLayer - failed failed in Win32: The device is not ready. (0x15)", &["ERROR_NOT_READY"]),
            ("exit code -1073741515", &["STATUS_DLL_NOT_FOUND"]),
            ("exit code 3221225781", &["STATUS_DLL_NOT_FOUND"]),
            ("0xC0000135 and 0XC0000005", &["STATUS_ACCESS_VIOLATION", "STATUS_DLL_NOT_FOUND"]),
            ("failed with 0x800705af", &["ERROR_COMMITMENT_LIMIT"]),
            ("FullyQualifiedErrorId : Windows System Error 53,New-SmbGlobalMapping", &["ERROR_BAD_NETPATH"]),
            ("pod 53 of 87 on port 1450", &[]),
            ("0x", &[]),
            ("", &[]),
        ];
        for (text, expected) in table {
            let names: Vec<_> = codes_in(text).into_iter().map(|row| row.name).collect();
            assert_eq!(names, expected, "{text}");
        }
    }
}

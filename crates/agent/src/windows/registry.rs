//! Keys of the registry.

use std::io;

use windows_registry::{LOCAL_MACHINE, Result, Type};

use super::super::host::RegistryKey;

/// <https://learn.microsoft.com/windows/win32/debug/system-error-codes>
pub(super) const FILE_NOT_FOUND: u32 = 2;

pub(super) fn key(path: &str) -> io::Result<Option<RegistryKey>> {
    let Some(key) = unless(LOCAL_MACHINE.open(path), &[FILE_NOT_FOUND])? else { return Ok(None) };
    let values = key.values()?.filter_map(|(name, value)| {
        let text = match value.ty() {
            Type::U32 => u32::try_from(value).ok()?.to_string(),
            _ => String::try_from(value).ok()?,
        };
        Some((name, text))
    });
    Ok(Some(RegistryKey { values: values.collect(), keys: key.keys()?.collect() }))
}

/// The result, or `None` for these system errors.
pub(super) fn unless<T>(result: Result<T>, errors: &[u32]) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if errors.iter().any(|code| result_code(*code) == error.code().0) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// `HRESULT_FROM_WIN32`, the form of a system error in the results of the registry.
const fn result_code(error: u32) -> i32 {
    (0x8007_0000 | error).cast_signed()
}

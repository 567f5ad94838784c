//! `SHA256SUMS`, for `sha256sum --check`.

use sha2::{Digest, Sha256};

/// The SHA-256 of `bytes`, in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A line for each file, in the order of their names.
pub fn sha256_sums(files: &[(String, Vec<u8>)]) -> String {
    let mut lines: Vec<_> = files.iter().map(|(name, bytes)| (name, sha256(bytes))).collect();
    lines.sort();
    lines.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect()
}

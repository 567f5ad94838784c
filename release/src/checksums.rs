//! `SHA256SUMS`, for `sha256sum --check`.

use sha2::{Digest, Sha256};

/// The SHA-256 of `bytes`, in hexadecimal digits.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A line for each file, in the order of their names.
#[must_use]
pub fn sha256_sums(files: &[(String, Vec<u8>)]) -> String {
    let mut lines: Vec<_> = files.iter().map(|(name, bytes)| (name, sha256(bytes))).collect();
    lines.sort();
    lines.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_sha256sum() {
        let files = [("b".to_owned(), b"abc".to_vec()), ("a".to_owned(), Vec::new())];
        let expected = "\
            e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n\
            ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  b\n";
        assert_eq!(sha256_sums(&files), expected);
    }
}

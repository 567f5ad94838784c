//! Limits for all files of a run together: untrusted files must not exhaust the memory.

use std::io::{self, Read};

use serde_saphyr::budget::BudgetReport;
use winpool_core::Problem;

/// 10,000 manifests of Deployments and Services take about 8 MB.
const BYTES: u64 = 32 << 20;
/// A value takes about a hundred bytes.
const VALUES: usize = 2_000_000;
/// The greatest depth: serde_json reads less than 128 levels.
const DEPTH: usize = 120;

/// Why the text of a file cannot be read.
#[derive(Debug)]
pub(super) enum TextProblem {
    /// It is larger than the budget.
    TooLarge(Problem),
    /// It is neither UTF-8 nor UTF-16.
    NotText(Problem),
}

#[derive(Clone, Debug)]
pub struct Budget {
    bytes: u64,
    /// The limits of serde-saphyr; repeated parts count each time.
    pub(super) yaml: serde_saphyr::Budget,
    /// Whether a file exceeded it, so that the rest is not read.
    pub(super) is_exceeded: bool,
}

impl Budget {
    /// The budget for trusted files: only depth and repeated parts are limited.
    pub fn unbounded() -> Self {
        let mut yaml = serde_saphyr::Budget::default();
        yaml.max_depth = DEPTH;
        yaml.max_events = usize::MAX;
        yaml.max_nodes = usize::MAX;
        yaml.max_documents = usize::MAX;
        yaml.max_total_scalar_bytes = usize::MAX;
        yaml.max_total_comment_bytes = usize::MAX;
        Self { bytes: u64::MAX, yaml, is_exceeded: false }
    }

    /// The budget for untrusted files: 32 MiB of text with two million values.
    pub fn bounded() -> Self {
        let Self { mut yaml, .. } = Self::unbounded();
        yaml.max_nodes = VALUES;
        // Twice the size, because strings may be repeated.
        yaml.max_total_scalar_bytes = 2 * BYTES as usize;
        Self { bytes: BYTES, yaml, is_exceeded: false }
    }

    /// Reads a text in UTF-8, or in UTF-16 with a byte order mark.
    pub(super) fn read(&mut self, reader: impl Read) -> io::Result<Result<String, TextProblem>> {
        let mut bytes = Vec::new();
        let read = reader.take(self.bytes.saturating_add(1)).read_to_end(&mut bytes)? as u64;
        if read > self.bytes {
            self.is_exceeded = true;
            let wrong = format!("the input is larger than {} MiB in total", BYTES >> 20);
            return Ok(Err(TextProblem::TooLarge(Problem::new("", wrong, "pass the files in several runs"))));
        }
        self.bytes -= read;
        Ok(decode(bytes).ok_or_else(|| {
            TextProblem::NotText(Problem::new("", "the file is not text in UTF-8 or UTF-16", "save it in UTF-8"))
        }))
    }

    /// Returns the bytes of a text that is not decoded.
    pub(super) fn refund(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// Whether a text is within the budget, for a JSON reader without limits: each value except the first follows one
    /// of three characters, or the colon of a key.
    pub(super) fn may_be_json(&self, text: &str) -> bool {
        text.bytes().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count() <= self.yaml.max_nodes / 2
    }

    /// Deducts what serde-saphyr has read, even if it failed.
    pub(super) fn spend(&mut self, used: &BudgetReport) {
        self.yaml.max_nodes = self.yaml.max_nodes.saturating_sub(used.nodes);
        self.yaml.max_total_scalar_bytes = self.yaml.max_total_scalar_bytes.saturating_sub(used.total_scalar_bytes);
    }
}

/// A text in UTF-8, or in UTF-16 with a byte order mark; `None` if it is neither.
fn decode(bytes: Vec<u8>) -> Option<String> {
    let utf_16 = |unit: fn([u8; 2]) -> u16| {
        let (units, rest) = bytes.as_chunks::<2>();
        let units: Vec<_> = units.iter().skip(1).map(|pair| unit(*pair)).collect();
        String::from_utf16(&units).ok().filter(|_| rest.is_empty())
    };
    match bytes.as_slice() {
        [0xff, 0xfe, ..] => utf_16(u16::from_le_bytes),
        [0xfe, 0xff, ..] => utf_16(u16::from_be_bytes),
        _ => String::from_utf8(bytes).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_share_the_bytes() {
        let mut budget = Budget { bytes: 10, ..Budget::bounded() };
        assert_eq!(budget.read(&b"123456"[..]).unwrap().unwrap(), "123456");
        assert_eq!(budget.read(&b"1234"[..]).unwrap().unwrap(), "1234");
        assert!(!budget.is_exceeded);
        let Err(TextProblem::TooLarge(problem)) = budget.read(&b"1"[..]).unwrap() else { panic!("it is too large") };
        assert_eq!(problem.wrong, "the input is larger than 32 MiB in total");
        assert!(budget.is_exceeded);
        assert_eq!(Budget::unbounded().read(&b"12345678901"[..]).unwrap().unwrap().len(), 11);
    }

    #[test]
    fn a_text_is_in_utf_8_or_in_utf_16_with_a_mark() {
        let utf_16 = |text: &str, bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
        let table = [
            ("kind: ü".as_bytes().to_vec(), Some("kind: ü")),
            (utf_16("\u{feff}kind: ü", u16::to_le_bytes), Some("kind: ü")),
            (utf_16("\u{feff}kind: ü", u16::to_be_bytes), Some("kind: ü")),
            (b"kind: \xe9".to_vec(), None),
            (vec![0xff, 0xfe, 0x61], None),
            (Vec::new(), Some("")),
        ];
        for (bytes, expected) in table {
            assert_eq!(decode(bytes.clone()).as_deref(), expected, "{bytes:?}");
        }
    }
}

//! Limits for all files of a run together: untrusted files must not exhaust the memory.

use std::io::{self, Read};

use serde_saphyr::budget::BudgetReport;

use crate::domain::Problem;

/// 10,000 manifests of Deployments and Services take about 8 MB.
const BYTES: u64 = 32 << 20;
/// A value takes about a hundred bytes.
const VALUES: usize = 2_000_000;
/// The greatest depth: serde_json reads less than 128 levels.
const DEPTH: usize = 120;

/// The remaining budget.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Bytes of text.
    bytes: u64,
    /// The limits of serde-saphyr; repeated parts count each time.
    yaml: serde_saphyr::Budget,
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
        Self { bytes: u64::MAX, yaml }
    }

    /// The budget for untrusted files: 32 MiB of text with two million values.
    pub fn bounded() -> Self {
        let Self { mut yaml, .. } = Self::unbounded();
        yaml.max_nodes = VALUES;
        // Twice the size, because strings may be repeated.
        yaml.max_total_scalar_bytes = 2 * BYTES as usize;
        Self { bytes: BYTES, yaml }
    }

    /// Reads a text; the inner error reports that it is too large.
    ///
    /// # Errors
    /// The text cannot be read, or is not UTF-8.
    pub(super) fn read(&mut self, reader: impl Read) -> io::Result<Result<String, Problem>> {
        let mut bytes = Vec::new();
        let read = reader.take(self.bytes.saturating_add(1)).read_to_end(&mut bytes)? as u64;
        if read > self.bytes {
            let wrong = format!("the input is larger than {} MiB in total", BYTES >> 20);
            return Ok(Err(Problem::new("", wrong, "pass the files in several runs")));
        }
        self.bytes -= read;
        String::from_utf8(bytes).map(Ok).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Whether a text is within the budget, for a JSON reader without limits: each value except the first follows one
    /// of three characters, or the colon of a key.
    pub(super) fn may_be_json(&self, text: &str) -> bool {
        text.bytes().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count() <= self.yaml.max_nodes / 2
    }

    /// The limits for serde-saphyr.
    pub(super) fn of_yaml(&self) -> serde_saphyr::Budget {
        self.yaml.clone()
    }

    /// Deducts what serde-saphyr has read, even if it failed.
    pub(super) fn spend(&mut self, used: &BudgetReport) {
        self.yaml.max_nodes = self.yaml.max_nodes.saturating_sub(used.nodes);
        self.yaml.max_total_scalar_bytes = self.yaml.max_total_scalar_bytes.saturating_sub(used.total_scalar_bytes);
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
        let wrong = budget.read(&b"1"[..]).unwrap().unwrap_err().wrong;
        assert_eq!(wrong, "the input is larger than 32 MiB in total");
        assert_eq!(Budget::unbounded().read(&b"12345678901"[..]).unwrap().unwrap().len(), 11);
    }
}

//! How much may be read: what strangers send must not take all the memory there is.

use std::io::{self, Read};

use super::object::Document;
use crate::domain::Problem;

/// What may still be read, of all files together.
#[derive(Debug)]
pub struct Budget(Option<Limits>);

#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Bytes of text.
    bytes: u64,
    /// Mappings, sequences and scalars.
    nodes: usize,
}

/// 10,000 manifests of Deployments and Services have about 8 MB; a value takes about a hundred bytes.
const BOUNDED: Limits = Limits { bytes: 32 << 20, nodes: 2_000_000 };
/// As deep as an object may be: serde_json reads less than 128 levels.
const DEPTH: usize = 120;

/// As many values as may be kept for repeating them.
const MOST_REPEATED: usize = 100_000;

impl Budget {
    /// Without a limit, for files of one's own.
    pub const fn unbounded() -> Self {
        Self(None)
    }

    /// For files from anybody: 32 MiB of text with two million values.
    pub const fn bounded() -> Self {
        Self(Some(BOUNDED))
    }

    /// Reads a text whole, or says that it is too large.
    ///
    /// # Errors
    /// It cannot be read, or is not UTF-8.
    pub(super) fn read(&mut self, reader: impl Read) -> io::Result<Result<String, Problem>> {
        let Some(limits) = &mut self.0 else { return io::read_to_string(reader).map(Ok) };
        let mut bytes = Vec::new();
        let read = reader.take(limits.bytes + 1).read_to_end(&mut bytes)? as u64;
        if read > limits.bytes {
            let wrong = format!("all input together is larger than {} MiB", BOUNDED.bytes >> 20);
            return Ok(Err(Problem::new("", wrong, "name the files and folders in several runs")));
        }
        limits.bytes -= read;
        let text = String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(Ok(text))
    }

    /// Whether a text may be read as JSON: each value but the first stands behind one of three characters. What may be
    /// too much is left to the reader of YAML, which counts exactly.
    pub(super) fn may_be_json(&self, text: &str) -> bool {
        let at_most = || text.bytes().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count() * 2;
        self.0.is_none_or(|limits| at_most() <= limits.nodes)
    }

    /// The limits for a reader of YAML. Depth and repeated parts are limited in any case.
    pub(super) fn of_yaml(&self) -> Option<serde_saphyr::Budget> {
        let most = self.0.map_or(usize::MAX, |limits| limits.nodes);
        serde_saphyr::budget! {
            max_events: most.saturating_mul(2),
            max_nodes: most,
            max_documents: most,
            max_total_scalar_bytes: usize::MAX,
            max_total_comment_bytes: usize::MAX,
            max_depth: DEPTH,
            max_recorded_anchor_events: MOST_REPEATED,
        }
    }

    /// Takes something off for a text that was read in vain. How much it took nobody knows; what repeats nothing takes no
    /// more than its length, and of the rest each try leaves less.
    pub(super) fn fail(&mut self, text: &str) {
        if let Some(limits) = &mut self.0
            && text.contains('&')
            && text.contains('*')
        {
            limits.nodes -= limits.nodes / 4;
        }
    }

    /// Takes off what was read.
    pub(super) fn spend(&mut self, documents: &[Document]) {
        if let Some(limits) = &mut self.0 {
            limits.nodes = limits.nodes.saturating_sub(documents.iter().map(|document| document.nodes).sum());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_files_share_the_budget() {
        let mut budget = Budget(Some(Limits { bytes: 10, nodes: 10 }));
        assert_eq!(budget.read(&b"123456"[..]).unwrap().unwrap(), "123456");
        assert_eq!(budget.read(&b"1234"[..]).unwrap().unwrap(), "1234");
        let wrong = budget.read(&b"1"[..]).unwrap().unwrap_err().wrong;
        assert_eq!(wrong, "all input together is larger than 32 MiB");
        assert!(budget.may_be_json("[1, 2, 3]"));
        budget.spend(&[json!({"a": [1, 2]}).into()]);
        assert!(!budget.may_be_json("[1, 2, 3]"), "five of ten are spent");
        assert_eq!(Budget::unbounded().read(&b"12345678901"[..]).unwrap().unwrap().len(), 11);
    }
}

//! The errors and warnings of a check.

use winpool_core::Problem;

#[derive(Default)]
pub(super) struct Problems {
    pub(super) errors: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

impl Problems {
    pub(super) fn error(&mut self, path: impl Into<String>, wrong: impl Into<String>, remedy: impl Into<String>) {
        self.errors.push(Problem::new(path, wrong, remedy));
    }

    pub(super) fn warning(&mut self, path: impl Into<String>, wrong: impl Into<String>, remedy: impl Into<String>) {
        self.warnings.push(Problem::new(path, wrong, remedy));
    }
}

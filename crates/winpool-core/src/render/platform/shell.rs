//! Commands for the POSIX shell.

use super::{super::kubelet::taint_flag, LossReport, NodesToMake, selection};
use crate::kubernetes::shell_quoted;

/// A command, with each further argument in a line of its own.
pub(super) fn command(first: &str, arguments: &[String]) -> String {
    let lines: String = arguments.iter().map(|argument| format!(" \\\n  {argument}")).collect();
    format!("{first}{lines}\n")
}

/// The argument with the taints of the nodes, if they have some.
pub(super) fn node_taints(report: &LossReport, nodes: &NodesToMake) -> Option<String> {
    let (taints, _) = selection::taints(report.platform, nodes);
    let list: Vec<_> = taints.into_iter().map(taint_flag).collect();
    (!list.is_empty()).then(|| format!("--node-taints {}", shell_quoted(&list.join(","))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_argument_of_a_command_has_its_line() {
        assert_eq!(command("az add", &["--a 1".to_owned(), "--b".to_owned()]), "az add \\\n  --a 1 \\\n  --b\n");
        assert_eq!(command("az", &[]), "az\n");
    }
}

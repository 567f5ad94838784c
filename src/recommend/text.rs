//! The recommendation as text.

use std::fmt::Write as _;

use jiff::Timestamp;
use winpool_check::recommend::{Amount, LEAK_SYMPTOM, Leak, MARGIN, Platform, Recommendation, SizeReport, mebibytes};
use winpool_core::{foreign_text::escaped, kubernetes::quantity::Quantity, text::counted};

use crate::output::{self, BOLD, YELLOW};

/// The heights of a chart, the least first.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The last line: working set and commit.
const MEMORY: &str = "Memory is commit, which Windows promises to programs, not the working set that kubectl top shows: that has neither \
                      file cache nor what is paged out (kubernetes/kubernetes#112111).";

/// `span` has the first and the last time of the samples.
pub fn text(found: &Recommendation, span: Option<(Timestamp, Timestamp)>) -> String {
    let samples: usize = found.sizes.iter().map(|size| size.samples).sum();
    let minutes = span.map_or(0, |(first, last)| last.duration_since(first).as_mins());
    let mut text = format!(
        "{BOLD}Pool {}{BOLD:#}: {} in {}\n",
        found.pool,
        counted(samples, "sample"),
        counted(usize::try_from(minutes).unwrap_or_default(), "minute")
    );
    found.sizes.iter().for_each(|size| add_size(size, &mut text));
    for missing in &found.missing {
        let _ = writeln!(text, "\n{YELLOW}Too little was measured{YELLOW:#} of nodes with {missing}");
    }
    let what = match &found.profile {
        Some(profile) => format!("Merge into WindowsRuntimeProfile {}", escaped(profile)),
        None => "The pool has no profile. Merge into one, and name it in spec.profileRef".to_owned(),
    };
    let _ = write!(text, "\n{MEMORY}\n\n{what}:\n\n{}", output::yaml(&found.patch));
    text
}

/// What the leaks are, in one line.
pub fn leaks(count: usize) -> String {
    format!(
        "leak suspected on {}: a larger reserve only delays it. See winpool explain {LEAK_SYMPTOM}",
        counted(count, "node")
    )
}

fn add_size(size: &SizeReport, text: &mut String) {
    let SizeReport { size: nodes, pods: [least, most], memory, cpu, .. } = size;
    let _ = writeln!(
        text,
        "\n{BOLD}{nodes}{BOLD:#}: {}, {}, {least} to {most} pods",
        counted(size.nodes, "node"),
        counted(size.samples, "sample")
    );
    let _ = writeln!(text, "  {}  {}", chart(&size.chart), extremes(&size.chart));
    let _ = writeln!(text, "  {:<22}{:>8}{:>11}", "", "CPU", "MEMORY");
    let amount = |of: fn(&Amount) -> i64| (cpu.as_ref().map(of), Some(of(memory)));
    let mut row = |name: &str, (cpu, memory): (Option<i64>, Option<i64>)| {
        let cpu = cpu.map_or("-".to_owned(), |milli| Quantity::of_milli(milli).to_string());
        let memory = memory.map_or("-".to_owned(), |bytes| mebibytes(bytes).to_string());
        let _ = writeln!(text, "  {name:<22}{cpu:>8}{memory:>11}");
    };
    row("system uses, median", amount(|one| one.median));
    row("system uses, p99", amount(|one| one.p99));
    row(&format!("reserve (p99 + {MARGIN} %)"), amount(|one| one.recommended));
    for Platform { platform, cpu, memory, .. } in size.platforms.iter().filter(|one| one.not_known.is_none()) {
        row(&format!("{platform} reserves"), (*cpu, *memory));
    }
    for Platform { platform, not_known, .. } in &size.platforms {
        let _ = not_known.map(|why| writeln!(text, "  {platform} reserves: not known, {why}"));
    }
    for basis in &size.memory_is {
        let _ = writeln!(text, "  Memory is {basis}.");
    }
    for Leak { node, from, to, seconds, pods } in &size.leaks {
        let (from, to, minutes) = (mebibytes(*from), mebibytes(*to), seconds / 60);
        let (node, pods) = (escaped(node), counted(*pods, "pod"));
        let _ = writeln!(
            text,
            "  {YELLOW}Leak suspected:{YELLOW:#} {node} rises from {from} to {to} in {minutes} minutes with the same {pods}. Run \
             winpool doctor node/{node}, and winpool explain {LEAK_SYMPTOM}"
        );
    }
    for warning in &size.warnings {
        let _ = writeln!(text, "  {YELLOW}Note:{YELLOW:#} {}", escaped(warning));
    }
}

/// The points between the least and the most; spaces without a sample.
fn chart(points: &[Option<i64>]) -> String {
    let known = || points.iter().flatten();
    let (least, most) = (known().min().copied().unwrap_or_default(), known().max().copied().unwrap_or_default());
    let bar = |point: i64| {
        let highest = i128::from(point - least) * (BARS.len() - 1) as i128 / i128::from((most - least).max(1));
        usize::try_from(highest).ok().and_then(|index| BARS.get(index)).copied().unwrap_or(' ')
    };
    points.iter().map(|point| point.map_or(' ', bar)).collect()
}

fn extremes(points: &[Option<i64>]) -> String {
    let known = || points.iter().flatten().copied();
    match known().min().zip(known().max()) {
        Some((least, most)) => format!("memory of the system, {} to {}", mebibytes(least), mebibytes(most)),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_between_the_least_and_the_most_value() {
        for (points, expected) in [
            (&[][..], ""),
            (&[None], " "),
            (&[Some(5), Some(5)], "▁▁"),
            (&[Some(0), None, Some(4), Some(7)], "▁ ▅█"),
            (&[Some(0), Some(i64::MAX)], "▁█"),
        ] {
            assert_eq!(chart(points), expected, "{points:?}");
        }
    }
}

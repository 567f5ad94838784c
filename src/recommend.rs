//! `winpool recommend`: what to reserve for the system on the nodes of a pool, from what they use. Read-only.
//!
//! Samples are one JSON object a line, after one of what they are measured against: see [`Measured`] and [`Sample`].

mod read;
mod text;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

use serde_json::json;
use winpool_check::recommend::{Measured, Sample, recommend, span};
use winpool_core::kubernetes::duration;

use super::{
    CommandError, connect,
    output::{self, ReportFormat},
};

/// The largest file of samples in bytes.
const MAX_FILE: u64 = 256 << 20;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The exit status is 0 if something was recommended, and 1 if too little was measured or a leak is suspected. The role \
                        winpool-recommend in config/recommend has every permission that is used."
)]
pub(super) struct Args {
    /// The pool whose nodes are measured
    #[arg(value_name = "POOL")]
    pool: String,
    /// How long to measure. Ctrl-C ends it with what there is
    #[arg(long = "for", value_name = "DURATION", default_value = "30m")]
    time: String,
    /// The time between two samples of a node. A kubelet measures every 10 seconds
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    interval: String,
    /// Read the samples of this file, which --save has written, instead of a cluster
    #[arg(long, value_name = "FILE", conflicts_with_all = ["save", "time", "interval"])]
    samples: Option<PathBuf>,
    /// Also write the samples into this file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    output: ReportFormat,
    #[command(flatten)]
    cluster: connect::Args,
}

/// Prints the recommendation. A leak, or too few samples, is an error.
pub(super) fn run(args: Args) -> Result<(), CommandError> {
    let (time, interval) = (seconds("--for", &args.time)?, seconds("--interval", &args.interval)?);
    let (measured, samples) = match &args.samples {
        Some(file) => saved(file, &args.pool)?,
        None => connect::runtime()?.block_on(read::measure(&args.cluster, &args.pool, time, interval))?,
    };
    if let Some(file) = &args.save {
        save(file, &measured, &samples)?;
    }
    let found = recommend(&measured, &samples).map_err(|refusal| CommandError::Problems(refusal.to_string()))?;
    let leaks: usize = found.sizes.iter().map(|size| size.leaks.len()).sum();
    let problem = (leaks > 0).then(|| text::leaks(leaks));
    output::report(args.output, &found, |found| text::text(found, span(&samples)), problem)
}

/// A duration of one second to a day, in seconds.
fn seconds(option: &str, typed: &str) -> Result<u32, CommandError> {
    let parsed = duration::parse(typed).and_then(|nanos| u32::try_from(nanos / 1_000_000_000).ok());
    let text = || format!("{option}: `{typed}` is no duration of 1s to 24h. Write for instance 30m");
    parsed.filter(|seconds| (1..=86_400).contains(seconds)).ok_or_else(|| CommandError::Usage(text()))
}

/// The samples in a file, which must be of this pool.
fn saved(file: &Path, pool: &str) -> Result<(Measured, Vec<Sample>), CommandError> {
    let unreadable = |why: String| CommandError::Usage(format!("cannot read {}: {why}", file.display()));
    let open = fs::File::open(file).map_err(|error| unreadable(error.to_string()))?;
    let mut lines = BufReader::new(open.take(MAX_FILE)).lines().enumerate().map(|(number, line)| {
        let number = number + 1;
        line.map(|line| (number, line)).map_err(|error| unreadable(format!("line {number}: {error}")))
    });
    let wrong = |number: usize, why: &str| {
        CommandError::Usage(format!("{}:{number}: {why}. Write the file with --save", file.display()))
    };
    let (_, first) = lines.next().ok_or_else(|| wrong(1, "it is empty"))??;
    let measured: Measured = serde_json::from_str(&first).map_err(|error| wrong(1, &error.to_string()))?;
    if measured.pool != pool {
        let text = format!("{}: its samples are of pool {}, not of {pool}", file.display(), measured.pool);
        return Err(CommandError::Usage(text));
    }
    let samples = lines.map(|line| {
        let (number, line) = line?;
        let sample: Sample = serde_json::from_str(&line).map_err(|error| wrong(number, &error.to_string()))?;
        if sample.is_possible() { Ok(sample) } else { Err(wrong(number, "no node has such amounts")) }
    });
    Ok((measured, samples.collect::<Result<_, _>>()?))
}

fn save(file: &Path, measured: &Measured, samples: &[Sample]) -> Result<(), CommandError> {
    let lines = [json!(measured)].into_iter().chain(samples.iter().map(|sample| json!(sample)));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    fs::write(file, text).map_err(|error| CommandError::Usage(format!("cannot write {}: {error}", file.display())))
}

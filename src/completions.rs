//! `winpool completions` and `winpool man`: what shells and `man` read, from the definition of the command line.

mod candidates;

use std::{fs, path::PathBuf, time::Duration};

use clap::Command;
use clap_complete::Shell;
use tokio::time::timeout;
use winpool_core::foreign_text::escaped;
use winpool_operator::cluster;

use super::{CommandError, connect, output, program};

/// How long a shell waits for the names of pools.
const LIMIT: Duration = Duration::from_secs(2);

/// The completion of `kubectl winpool`: kubectl runs it with the words after `winpool`, and reads a word per line. The last
/// line is a directive: if there is no word, the shell completes files.
const KUBECTL: &str = "\
#!/bin/sh
# Completes kubectl winpool, as kubectl_complete-winpool in the PATH.
kubectl-winpool __complete -- \"$@\" 2>/dev/null
echo :0
";

/// What bash adds to its script: the names of pools.
const BASH: &str = "
_NAME_and_pools() {
    _NAME \"$@\"
    local IFS=$'\\n'
    COMPREPLY+=($(NAME __complete --pools -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null))
}
complete -F _NAME_and_pools -o bashdefault -o default NAME
";

/// The same for zsh, whose arguments name this function.
const ZSH: &str = "
_NAME_pools() {
    local -a pools
    pools=(${(f)\"$(NAME __complete --pools -- status '' 2>/dev/null)\"})
    compadd -a pools
}
_NAME_subjects() {
    local -a subjects
    subjects=(${(f)\"$(NAME __complete --pools -- doctor '' 2>/dev/null)\"} node/ pod/)
    compadd -S '' -a subjects
}
";

/// The same for fish.
const FISH: &str = "\
complete -c NAME -n \"__fish_SEEN_using_subcommand status; or __fish_SEEN_using_subcommand migrate; or __fish_SEEN_using_subcommand verify\" -f -a \"(NAME __complete --pools -- status '' 2>/dev/null)\"
complete -c NAME -n \"__fish_SEEN_using_subcommand doctor\" -f -a \"(NAME __complete --pools -- doctor '' 2>/dev/null) node/ pod/\"
complete -c NAME -n \"__fish_SEEN_using_subcommand plan; or __fish_SEEN_using_subcommand cleanup\" -l pool -x -a \"(NAME __complete --pools -- status '' 2>/dev/null)\"
";

/// The options of `winpool completions`, as typed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell whose completion script is printed
    #[arg(value_enum, required_unless_present = "kubectl")]
    shell: Option<Shell>,
    /// Print the script with which kubectl completes kubectl winpool. Install it as kubectl_complete-winpool in the PATH
    #[arg(long, conflicts_with = "shell")]
    kubectl: bool,
}

/// Prints the completion script of a shell, or of kubectl.
pub(super) fn run(args: &Args) -> Result<(), CommandError> {
    output::print(&args.shell.map_or_else(|| KUBECTL.to_owned(), script))
}

fn script(shell: Shell) -> String {
    let (name, mut bytes) = (program::executable(), Vec::new());
    // Scripts would list hidden commands.
    let all = program::command();
    let commands = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let visible = Command::new(name).version(env!("CARGO_PKG_VERSION")).args(all.get_arguments().cloned());
    let mut visible = visible.subcommands(commands);
    clap_complete::generate(shell, &mut visible, name, &mut bytes);
    let script = String::from_utf8_lossy(&bytes).into_owned();
    let named = |text: &str| text.replace("SEEN", &name.replace('-', "_")).replace("NAME", name);
    match shell {
        Shell::Bash => script + &named(BASH),
        Shell::Fish => script + &named(FISH),
        Shell::Zsh => {
            let completed = |line: &str| match line.contains(":POOL:_default'") || line.starts_with("'*::pools -- ") {
                true => line.replace(":_default'", &named(":_NAME_pools'")),
                false if line.contains("KIND/NAME") || line.contains(":subject") => {
                    line.replace(":_default'", &named(":_NAME_subjects'"))
                }
                false => line.to_owned(),
            };
            let lines: Vec<_> = script.lines().map(completed).collect();
            // The first line names the completed command, and the last ones call the function.
            lines.join("\n").replacen("\n\n", &named(ZSH), 1) + "\n"
        }
        _ => script,
    }
}

/// The options of `winpool __complete`, as typed.
#[derive(Debug, clap::Args)]
pub(super) struct CompleteArgs {
    /// Print names of pools only
    #[arg(long)]
    pools: bool,
    /// The words after the name of the program; the last one is completed
    #[arg(last = true)]
    words: Vec<String>,
}

/// Prints the words that complete a command line: nothing if there is none, or the cluster does not answer.
pub(super) fn complete(args: &CompleteArgs) -> Result<(), CommandError> {
    let (before, typed) = args.words.split_last().map_or((&[][..], ""), |(last, before)| (before, last.as_str()));
    let candidates = candidates::of(&program::command(), before, typed);
    let pools = candidates.pools.and_then(|kind| Some((kind, names_of_pools(before)?)));
    let pools = pools.into_iter().flat_map(|(kind, pools)| pools.into_iter().map(move |pool| format!("{kind}{pool}")));
    let words = candidates.words.into_iter().filter(|_| !args.pools).chain(pools);
    let lines: String =
        words.filter(|word| word.starts_with(typed)).map(|word| format!("{}\n", escaped(&word))).collect();
    output::print(&lines)
}

/// The names of the pools in the cluster that these words select.
fn names_of_pools(words: &[String]) -> Option<Vec<String>> {
    let cluster = connect::Args::among(words);
    connect::runtime().ok()?.block_on(async {
        let pools = async { cluster::list_pools(&cluster.client().await.ok()?).await.ok() };
        let pools = timeout(LIMIT, pools).await.ok()??;
        Some(pools.names().map(str::to_owned).collect())
    })
}

/// The options of `winpool man`, as typed.
#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// Write winpool.1, and one page for each command, into this directory
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(super) fn write_manual(args: &ManArgs) -> Result<(), CommandError> {
    let pages = program::command().disable_help_subcommand(true);
    fs::create_dir_all(&args.out)
        .and_then(|()| clap_mangen::generate_to(pages, &args.out))
        .map_err(|error| CommandError::Usage(format!("cannot write manual pages to {}: {error}", args.out.display())))
}

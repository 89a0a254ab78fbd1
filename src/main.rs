//! The `tidegate` command: argument parsing and printing. Everything else is in the crates.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod codec_args;
mod commands;
mod device_args;
mod exit;
mod inputs;
mod networks;
mod output;
mod progress;
mod scatter;
mod signals;
mod subject;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context;
use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, ValueEnum};

use crate::commands::Command;
use crate::exit::{Exit, OrExit, Result};
use crate::output::{tell, unprinted};

/// Plans what leaves a GPU's memory during training, when, and when it comes back: for one
/// network, on one machine, under one memory budget. Predicts what that costs.
#[derive(Parser)]
#[command(name = "tidegate", version, about, after_help = AFTER_HELP)]
struct Cli {
    /// Show no progress: only what comes of it, and errors
    #[arg(long, short, global = true)]
    quiet: bool,

    /// When help and errors have colours
    #[arg(long, global = true, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,

    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 no feasible plan,
4 a proof or check did not hold, 130 interrupted (143 by SIGTERM, 129 by
SIGHUP).";

fn main() -> ExitCode {
    let ended = match parse() {
        Ok(cli) => {
            if cli.quiet {
                progress::be_quiet();
            }
            start().and_then(|()| cli.command.run())
        }
        // Help, the version, or what is wrong with the arguments.
        Err(said) => match (said.print(), said.use_stderr()) {
            (Err(error), false) => unprinted(error),
            _ => return ExitCode::from(said.exit_code() as u8),
        },
    };
    let Err(end) = ended else { return ExitCode::SUCCESS };
    tell(format_args!("error: {:#}\n", end.error));
    match end.exit {
        Exit::Interrupted => signals::exit_code().into(),
        exit => exit.into(),
    }
}

/// The arguments. What is wrong with them is said in colours or not, as far as they say.
fn parse() -> std::result::Result<Cli, clap::Error> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let is_color = |word: &OsString| word == "--color";
    let after = words.iter().position(is_color).and_then(|at| words.get(at + 1)?.to_str());
    let joined = words.iter().find_map(|word| word.to_str()?.strip_prefix("--color="));
    let color = after.or(joined).and_then(|when| ColorChoice::from_str(when, false).ok());
    let command = with_negative_numbers(Cli::command()).color(color.unwrap_or_default());
    let matches = command.try_get_matches_from(words)?;
    Cli::from_arg_matches(&matches)
}

/// A number below zero is a value that is wrong, and no option that is not known.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| match arg.get_action().takes_values() {
        true => arg.allow_negative_numbers(true),
        false => arg,
    });
    command.mut_subcommands(with_negative_numbers)
}

/// What every command needs: someone who listens for signals, and threads to work with.
fn start() -> Result {
    let threads = signals::listen().map_err(anyhow::Error::from);
    let pool = || rayon::ThreadPoolBuilder::new().build_global();
    // Its sentence holds its cause's already.
    let threads = threads.and_then(|()| pool().map_err(|error| anyhow::anyhow!("{error}")));
    threads
        .context("cannot start threads: see RAYON_NUM_THREADS, `ulimit -u`")
        .or_exit(Exit::Failed)
}

const _: () = assert!(Exit::Usage as u8 == 2, "clap ends with 2, too");

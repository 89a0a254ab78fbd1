//! The `tidegate` command: argument parsing and printing. Everything else is in the crates.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod codec_args;
mod commands;
mod device_args;
mod exit;
mod inputs;
mod networks;
mod output;
mod percent;
mod progress;
mod scatter;
mod signals;
mod subject;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use crate::commands::Command;
use crate::exit::{Exit, OrExit, Result};
use crate::output::{tell, unprinted};

/// Plans what leaves a GPU's memory during training, when, and when it comes back: for one
/// network, on one machine, under one memory budget. Predicts what that costs.
#[derive(Parser)]
#[command(name = "tidegate", version, about, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 no feasible plan,
4 a proof or check did not hold, 130 interrupted (143 by SIGTERM, 129 by
SIGHUP).";

fn main() -> ExitCode {
    let ended = match Cli::try_parse() {
        Ok(cli) => start().and_then(|()| cli.command.run()),
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

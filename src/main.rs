//! The `tidegate` command: argument parsing and printing. Everything else is in the crates.

mod codec_args;
mod codec_samples;
mod codec_timers;
mod commands;
mod device_args;
mod exit;
mod inputs;
mod measured;
mod networks;
mod output;
mod page;
mod plan_trace;
mod progress;
mod published;
mod rates;
mod scatter;
mod small_forms;
mod study;
mod training;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use crate::commands::Command;
use crate::exit::{Exit, OrExit, Result};

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
4 a proof or check did not hold, 130 interrupted.";

fn main() -> ExitCode {
    let cli = Cli::parse();
    match threads().and_then(|()| cli.command.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(end) if is_broken_pipe(&end.error) => ExitCode::SUCCESS,
        Err(end) => {
            eprintln!("error: {:#}", end.error);
            end.exit.into()
        }
    }
}

/// Asks for the threads that work is divided among: whoever divided it would panic without them.
fn threads() -> Result {
    let threads = rayon::ThreadPoolBuilder::new().build_global();
    threads
        .context("the system gives no threads: ask for fewer with RAYON_NUM_THREADS")
        .or_exit(Exit::Failed)
}

/// Whoever read the output has read enough.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.into_iter().any(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}

const _: () = assert!(Exit::Usage as u8 == 2, "clap ends with 2, too");

//! `tidegate man`

use std::path::PathBuf;

use anyhow::Context;
use clap::CommandFactory;

use crate::Cli;
use crate::exit::{Exit, OrExit, Result};

/// Write manual pages, one for each command
#[derive(clap::Args)]
pub struct Args {
    /// The folder for tidegate.1, tidegate-plan.1 and so on; it is made where there is none
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
}

pub fn run(args: &Args) -> Result {
    let written = std::fs::create_dir_all(&args.output)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &args.output));
    written
        .with_context(|| format!("cannot write manual pages to {}", args.output.display()))
        .or_exit(Exit::Failed)
}

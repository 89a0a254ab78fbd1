//! `tidegate completions`

use clap::CommandFactory;
use clap_complete::Shell;

use crate::Cli;
use crate::exit::{Exit, OrExit, Result};
use crate::output::print;

/// Print what has a shell complete commands, options and their values
#[derive(clap::Args)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub fn run(args: &Args) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tidegate", &mut script);
    print(String::from_utf8(script).or_exit(Exit::Failed)?)
}

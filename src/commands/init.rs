//! `tidegate init`

use std::path::PathBuf;

use experiments::machine_at_hand::machine_file;
use runtime::cuda::CudaOptions;
use schema::PendingFile;

use crate::exit::Result;
use crate::output::print;
use crate::progress::Bar;
use crate::signals::stop;

/// Write a machine's file for the machine at hand, to be changed where you know better
///
/// Of a CUDA device that is here it has name and memory as the driver says, and the link's bandwidth as
/// measured; all else is as of a machine that comes with tidegate, with a line for each figure.
#[derive(clap::Args)]
pub struct Args {
    /// The machine whose figures hold where the file states none (see `list machines`) [default: the one most
    /// like the CUDA device that is here]
    #[arg(long, value_name = "MACHINE")]
    like: Option<String>,

    /// Where to write the file (.toml); `-` is the standard output
    #[arg(long, short, value_name = "FILE", default_value = "machine.toml")]
    output: PathBuf,
}

pub fn run(args: &Args) -> Result {
    let output = PendingFile::create(&args.output)?;
    let how = CudaOptions { stop: stop(), ..CudaOptions::default() };
    let text = machine_file(args.like.as_deref(), &how, &Bar::new("init"))?;
    let to_stdout = output.is_stdout();
    output.finish(text.as_bytes())?;
    if to_stdout {
        return Ok(());
    }
    let file = args.output.display();
    print(format!("{file}: for `--machine {file}`; look through it before you rely on it\n"))
}

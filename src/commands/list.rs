//! `tidegate list`

use experiments::bundled;

use crate::device_args::LibraryArgs;
use crate::exit::Result;
use crate::output::Format;

/// List what comes with tidegate
#[derive(clap::Args)]
pub struct Args {
    /// What to list
    #[arg(value_enum)]
    what: What,

    /// How to print the list
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    #[command(flatten)]
    libraries: LibraryArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Machines, for `--machine`.
    Machines,
    /// Links, to be named with a machine as in `titan-v+pcie5`.
    Links,
    /// Methods, for `--method` and `--methods`.
    Methods,
    /// Bundled traces.
    Traces,
    /// Networks, whose traces are modelled for a batch and a machine.
    Networks,
    /// Made-up traces to plan for, to be named as in `family:u-shaped:seed=7,ops=2000`.
    Families,
    /// Bundled studies.
    Studies,
    /// Codecs and how their parameters are written.
    Codecs,
    /// CUDA devices that are here, and NVIDIA's libraries: which files are used, and where what is missing
    /// was looked for.
    Devices,
}

pub fn run(args: &Args) -> Result {
    let list = match args.what {
        What::Machines => bundled::machines(),
        What::Links => bundled::links(),
        What::Methods => bundled::methods(),
        What::Traces => bundled::traces()?,
        What::Networks => bundled::networks(),
        What::Families => bundled::families(),
        What::Studies => bundled::studies()?,
        What::Codecs => bundled::codecs(),
        What::Devices => {
            args.libraries.apply();
            let devices = experiments::devices();
            return args.format.show(&devices, || devices.to_string());
        }
    };
    args.format.show(&list, || bundled::text(&list))
}

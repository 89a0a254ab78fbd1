//! `tidegate schema`

use schema::{Machine, Plan, Timeline, Trace, json_schema};

use crate::exit::Result;
use crate::output::print_json;

/// Print the JSON Schema of a document
#[derive(clap::Args)]
pub struct Args {
    /// The document
    #[arg(value_enum)]
    document: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// What `import` writes.
    Trace,
    /// What `--machine` reads.
    Machine,
    /// What `plan` writes.
    Plan,
    /// What `simulate` writes.
    Timeline,
    /// What `compare --format json` prints.
    Comparison,
}

/// Prints the schema.
pub fn run(args: &Args) -> Result {
    print_json(&match args.document {
        Kind::Trace => json_schema::<Trace>(),
        Kind::Machine => json_schema::<Machine>(),
        Kind::Plan => json_schema::<Plan>(),
        Kind::Timeline => json_schema::<Timeline>(),
        Kind::Comparison => reports::comparison_schema(),
    })
}

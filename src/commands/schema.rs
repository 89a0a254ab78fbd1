//! `tidegate schema`

use schema::{CodecModels, Machine, Plan, PlanSeries, Timeline, Trace, json_schema};

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
    /// What codecs make of tensors, and how long that takes.
    CodecModels,
    /// What `plan` writes.
    Plan,
    /// What `epochs` writes.
    PlanSeries,
    /// What `simulate` writes.
    Timeline,
    /// What `compare --format json` prints.
    Comparison,
    /// What `frontier --format json` prints.
    Frontier,
    /// What `explain --format json` prints.
    Explanation,
}

pub fn run(args: &Args) -> Result {
    print_json(&match args.document {
        Kind::Trace => json_schema::<Trace>(),
        Kind::Machine => json_schema::<Machine>(),
        Kind::CodecModels => json_schema::<CodecModels>(),
        Kind::Plan => json_schema::<Plan>(),
        Kind::PlanSeries => json_schema::<PlanSeries>(),
        Kind::Timeline => json_schema::<Timeline>(),
        Kind::Comparison => reports::json_schema::<reports::Comparison>(),
        Kind::Explanation => reports::json_schema::<reports::Explanation>(),
        Kind::Frontier => reports::json_schema::<reports::Frontier>(),
    })
}

//! `tidegate table`

use std::path::PathBuf;

use experiments::lookups::{Sample, accessed, predict};
use experiments::sources::read_machine;
use planner::inference::{Access, Lookups};
use schema::{Bytes, BytesPerSec};

use crate::exit::Result;
use crate::output::Format;

/// Predict lookups in a table too large for the device, with and without packing its rows
#[derive(clap::Args)]
pub struct Args {
    /// A binary file of rows of one size, back to back: the table, or with --rows a part of it
    #[arg(value_name = "TABLE_FILE")]
    table: PathBuf,

    /// Bytes of a row: of a node's features, an embedding, a token's keys, a row of weights
    #[arg(long, value_name = "BYTES")]
    row_bytes: Bytes,

    /// A machine (see `list machines`), or a file (.toml or .json)
    #[arg(long, short, value_name = "MACHINE")]
    machine: String,

    /// Rows that one lookup reads: those of a batch, or of a layer
    #[arg(long, value_name = "COUNT")]
    rows_per_lookup: u64,

    /// Rows of the table [default: those of the file]
    #[arg(long, value_name = "COUNT")]
    rows: Option<u64>,

    /// Which rows are looked up: `uniform`, also for a table that is read from end to end, or `zipf:S`
    /// with its exponent
    #[arg(long, value_name = "ACCESS", default_value = "uniform")]
    access: Access,

    /// How often each row was looked up, instead of --access: a text file with a number a line
    #[arg(long, value_name = "FILE", conflicts_with = "access")]
    counts: Option<PathBuf>,

    /// Device memory for caching the rows that are looked up most
    #[arg(long, value_name = "BYTES", default_value = "0B")]
    cache: Bytes,

    /// Bytes of a chunk, of 1, 2, 4 and 8, to choose from [default: those that a row is a whole number
    /// of]
    #[arg(long, value_delimiter = ',', value_name = "BYTES")]
    chunks: Vec<usize>,

    /// Clusters of rows that have a Mask and Bitval of their own: 1, 2, 4 and so on up to this are
    /// tried
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    clusters: usize,

    /// Rows of the file that packing is learned from, and again as many on which it is measured
    #[arg(long, value_name = "COUNT", default_value_t = 2000)]
    sample: u64,

    /// How fast the host gathers rows for a bulk copy [default: 13.5GB/s, as published for another
    /// host]
    #[arg(long, value_name = "BANDWIDTH")]
    gather: Option<BytesPerSec>,

    /// How to print the prediction
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &Args) -> Result {
    let machine = read_machine(&args.machine)?;
    let (access, described) = accessed(args.counts.as_deref(), &args.access)?;
    let sample = Sample::read(&args.table, args.row_bytes, args.sample)?;
    let lookups = Lookups {
        rows: sample.rows_of_table(args.rows, &args.table)?,
        row_bytes: args.row_bytes.0,
        rows_per_lookup: args.rows_per_lookup,
        access,
        cache: args.cache,
        gather: args.gather,
        machine: &machine,
    };
    let table = args.table.display().to_string();
    let report = predict((table, described), &sample, &lookups, &args.chunks, args.clusters)?;
    args.format.show(&report, || report.text())
}

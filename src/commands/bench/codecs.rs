//! `tidegate bench codecs`

mod kernels;
mod lookups;

use codecs::bench::{Row, Settings, Speed};
use codecs::{CodecId, bench};
use runtime::memory::room_for;
use schema::{Bytes, Dtype};

use crate::device_args::{DeviceKind, OnDevice};
use crate::exit::{Exit, OrExit, Result};
use crate::output::{Format, columns, print, print_json};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    on: OnDevice,

    /// Codecs with their parameters, such as zvc or zfp:8 [default: each of `list codecs`, on CUDA each
    /// that has kernels]
    #[arg(value_name = "CODEC")]
    codecs: Vec<CodecId>,

    /// Element types of the tensors
    #[arg(
        long = "dtype",
        value_name = "DTYPE",
        value_delimiter = ',',
        default_value = "f32,f16,bf16"
    )]
    dtypes: Vec<Element>,

    /// Size of the tensors
    #[arg(long, value_name = "BYTES", default_value = "64MiB")]
    size: Bytes,

    /// Share of zeros, at random places
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = share)]
    sparsity: f64,

    /// Seed of the tensors
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// How often each is timed; the fastest counts
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,

    /// How to print the figures
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Element {
    F32,
    F16,
    Bf16,
}

impl From<Element> for Dtype {
    fn from(element: Element) -> Self {
        match element {
            Element::F32 => Self::F32,
            Element::F16 => Self::F16,
            Element::Bf16 => Self::Bf16,
        }
    }
}

/// One codec and element type, as JSON has it.
#[derive(serde::Serialize)]
struct Measured {
    codec: String,
    dtype: Dtype,
    /// Uncompressed over compressed bytes.
    ratio: f64,
    /// Null where what comes back is not finite.
    max_abs_error: f64,
    rms_error: f64,
    compress: MeasuredSpeed,
    decompress: MeasuredSpeed,
    copy: MeasuredCopying,
}

#[derive(serde::Serialize)]
struct MeasuredCopying {
    bytes_per_second: u64,
    two_threads: f64,
}

#[derive(serde::Serialize)]
struct MeasuredSpeed {
    bytes_per_second: u64,
    over_naive: f64,
    over_lz4: f64,
    two_threads: f64,
}

/// Times codecs.
pub fn run(args: &Args) -> Result {
    args.on.check()?;
    let all = || codecs::all().iter().map(|entry| entry.example.parse());
    let codecs = match args.codecs.as_slice() {
        [] => all().collect::<std::result::Result<_, _>>().or_exit(Exit::Failed)?,
        codecs => codecs.to_vec(),
    };
    let settings = Settings {
        codecs,
        dtypes: args.dtypes.iter().map(|element| (*element).into()).collect(),
        bytes: usize::try_from(args.size.0).or_exit(Exit::Usage)?,
        sparsity: args.sparsity,
        seed: args.seed,
        runs: args.runs as usize,
    };
    let smaller = "choose a smaller --size, or fewer codecs";
    room_for(format!("timing codecs on {}", args.size), settings.memory_needed(), smaller)?;
    if args.on.kind == DeviceKind::Cuda {
        return kernels::run(args);
    }
    let rows = bench::run(&settings).or_exit(Exit::Usage)?;
    if args.format == Format::Json {
        return print_json(&rows.iter().map(measured).collect::<Vec<_>>());
    }
    let head = [
        "codec",
        "type",
        "ratio",
        "max error",
        "compress",
        "/naive",
        "/lz4",
        "2 threads",
        "decompress",
        "/naive",
        "/lz4",
        "2 threads",
    ];
    let mut table = vec![head.map(String::from).to_vec()];
    table.extend(rows.iter().map(cells));
    print(columns(&table))?;
    print(
        "speeds in uncompressed bytes on one thread; /naive and /lz4: times the speed of a scalar \
         loop for zvc and of LZ4;\n2 threads: times the speed on one\n",
    )?;
    rows.chunk_by(|a, b| a.dtype == b.dtype).filter_map(<[Row]>::first).try_for_each(copying)
}

/// What memory allows, for each element type.
fn copying(row: &Row) -> Result {
    print(format!(
        "copying the {} tensor: {:.0} MB/s, {:.2} times that on 2 threads\n",
        name(row),
        row.copy.bytes_per_second / 1e6,
        row.copy.two_threads
    ))
}

fn name(row: &Row) -> String {
    format!("{:?}", row.dtype).to_lowercase()
}

fn cells(row: &Row) -> Vec<String> {
    let error = match row.difference.max_abs {
        0.0 => "0".into(),
        error => format!("{error:.1e}"),
    };
    let mut cells = vec![row.codec.to_string(), name(row), format!("{:.2}", row.ratio), error];
    for speed in [row.compress, row.decompress] {
        cells.push(format!("{:.0} MB/s", speed.bytes_per_second / 1e6));
        let factors = [speed.over_naive, speed.over_lz4, speed.two_threads];
        cells.extend(factors.map(|factor| format!("{factor:.2}")));
    }
    cells
}

fn measured(row: &Row) -> Measured {
    let speed = |speed: Speed| MeasuredSpeed {
        bytes_per_second: speed.bytes_per_second as u64,
        over_naive: speed.over_naive,
        over_lz4: speed.over_lz4,
        two_threads: speed.two_threads,
    };
    Measured {
        codec: row.codec.to_string(),
        dtype: row.dtype,
        ratio: row.ratio,
        max_abs_error: row.difference.max_abs,
        rms_error: row.difference.rms,
        compress: speed(row.compress),
        decompress: speed(row.decompress),
        copy: MeasuredCopying {
            bytes_per_second: row.copy.bytes_per_second as u64,
            two_threads: row.copy.two_threads,
        },
    }
}

/// `50%` or `0.5`.
fn share(text: &str) -> std::result::Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    match number {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("write a share as 50% or 0.5".into()),
    }
}

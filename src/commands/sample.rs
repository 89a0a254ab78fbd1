//! `tidegate sample`

use std::path::PathBuf;

use codecs::CodecId;
use experiments::Error;
use experiments::tables::{read_parquet, write_parquet};
use profiler::codec_samples::{Sampling, usual_codecs};
use profiler::codec_timers::codec_timer;
use schema::{Bytes, PendingFile};

use crate::device_args::{DeviceKind, OnDevice};
use crate::exit::{Exit, OrExit, Result, unless, usage};
use crate::output::print;
use crate::progress::Bar;

/// Take samples on a device, from which `fit` makes models
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Time codecs on synthetic tensors of many sizes and ratios
    Codecs(CodecsArgs),
}

#[derive(clap::Args)]
struct CodecsArgs {
    /// Where to write the samples (.parquet); those that it holds are not taken again
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    #[command(flatten)]
    on: OnDevice,

    /// The codecs, such as zvc,zfp:8 [default: zvc,rle,csr,lz4,zfp:8,sz:1e-3; on CUDA all of these but
    /// lz4, which compresses on the host alone]
    #[arg(long, value_delimiter = ',', value_name = "CODECS")]
    codecs: Vec<CodecId>,

    /// Sizes of the tensors; CSWAP+ takes 20MB to 2000MB
    #[arg(long, value_delimiter = ',', value_name = "SIZES", default_value = "2MB,4MB,8MB,16MB")]
    sizes: Vec<Bytes>,

    /// Shares of zeros from 20% to 90%, so many
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=1000))]
    shares: u32,

    /// Runs of which the fastest counts, at most: what else the machine does only adds to times. Fewer, but
    /// at least five, where the two fastest are within 1% of each other
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,

    /// Threads that a codec works with on the host
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,

    /// Seed of the tensors
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u32,
}

pub fn run(args: &Args) -> Result {
    let What::Codecs(args) = &args.what;
    if args.output.extension().is_none_or(|extension| extension != "parquet") {
        return Err(usage("samples are written as Parquet: name the --output so"));
    }
    let CodecsArgs { output, on, sizes, shares, runs, threads, seed, .. } = args;
    let done = if output.exists() { read_parquet(output).map_err(Error::StudyTable)? } else { Vec::new() };
    let file = PendingFile::create(output)?;
    let usual = || usual_codecs(on.kind == DeviceKind::Host);
    let codecs = if args.codecs.is_empty() { usual() } else { args.codecs.clone() };
    let mut timer = codec_timer(&on.target()?, &codecs, *threads)?;
    let bar = Bar::new("sample");
    let (shares, runs, seed) = (*shares, *runs, *seed);
    let sampling = Sampling { codecs: &codecs, sizes, shares, runs, seed, done: &done };
    let (samples, all) = sampling.take_while(timer.as_mut(), &bar)?;
    drop(bar);
    unless(samples.is_empty(), "interrupted before there was a sample")?;
    write_parquet(&samples, file).or_exit(Exit::Failed)?;
    let device = timer.device();
    print(format!("{} samples of {} codecs on {device}\n", samples.len(), codecs.len()))?;
    unless(!all, "interrupted; what was sampled by then is written")
}

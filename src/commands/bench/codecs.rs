//! `tidegate bench codecs`

use codecs::CodecId;
use codecs::bench::Settings;
use experiments::bench::{all_codecs, host_codecs, kernels};
use runtime::memory::room_for;
use schema::{Bytes, Dtype};

use super::show;
use crate::device_args::OnDevice;
use crate::exit::{Exit, OrExit, Result};
use crate::output::Format;
use experiments::option_text::float;
use experiments::percent::share;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    on: OnDevice,

    /// Codecs with their parameters, such as zvc or zfp:8 [default: each of `list codecs`, on CUDA each
    /// that has kernels]
    #[arg(value_name = "CODEC")]
    codecs: Vec<CodecId>,

    /// Element types of the tensors: f32, f16 or bf16
    #[arg(
        long = "dtype",
        value_name = "DTYPE",
        value_delimiter = ',',
        value_parser = float(),
        default_value = "f32,f16,bf16"
    )]
    dtypes: Vec<Dtype>,

    /// Size of the tensors
    #[arg(long, value_name = "BYTES", default_value = "64MiB")]
    size: Bytes,

    /// Share of zeros, at random places
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = sparsity)]
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

pub fn run(args: &Args) -> Result {
    let target = args.on.target()?;
    let codecs = match args.codecs.as_slice() {
        [] => all_codecs(target.is_host())?,
        codecs => codecs.to_vec(),
    };
    let settings = Settings {
        codecs,
        dtypes: args.dtypes.clone(),
        bytes: usize::try_from(args.size.0).or_exit(Exit::Usage)?,
        sparsity: args.sparsity,
        seed: args.seed,
        runs: args.runs as usize,
    };
    let smaller = "choose a smaller --size, or fewer codecs";
    room_for(format!("timing codecs on {}", args.size), settings.memory_needed(), smaller)
        .or_exit(Exit::Failed)?;
    if target.is_host() {
        return show(&host_codecs(&settings)?, args.format);
    }
    let measured = kernels(&settings, args.on.codec_sms.unwrap_or(100))?;
    args.format.show(&measured, || measured.to_string())
}

/// `50%` or `0.5`.
fn sparsity(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(number @ 0.0..=1.0) => Ok(number),
        _ => share(0.0..=100.0)(text),
    }
}

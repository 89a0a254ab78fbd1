//! A device that runs things, as it is chosen on the command line.

use clap::Args;
use codecs::CodecId;
use runtime::cuda::CudaOptions;
use schema::{Bandwidth, Bytes, BytesPerSec, Link, Nanos};

use crate::exit::usage;

/// What measures and runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum DeviceKind {
    /// This machine's processor: one thread computes, memory of a fixed size stands for the
    /// device's, and copies are as slow as the link that is stated.
    #[default]
    Host,
    /// The first CUDA device. (It has never run on a GPU: see ARCHITECTURE.md.)
    Cuda,
}

/// The device that measures or runs.
#[derive(Debug, Clone, Copy, Args)]
pub struct OnDevice {
    /// What measures and runs
    #[arg(long = "device", value_enum, default_value_t)]
    pub kind: DeviceKind,

    /// Blocks of threads that codecs' kernels may have on CUDA, as a share of those that fill the
    /// device's multiprocessors: the rest is left to the layers beside them [default: 25%, and 100%
    /// where nothing runs beside them]
    #[arg(long, value_name = "SHARE", value_parser = percent)]
    pub codec_sms: Option<u8>,
}

impl OnDevice {
    /// Refuses what the host device has not.
    pub fn check(&self) -> crate::exit::Result {
        match (self.kind, self.codec_sms) {
            (DeviceKind::Host, Some(_)) => Err(usage(
                "--codec-sms is for `--device cuda`: the host device has no multiprocessors",
            )),
            _ => Ok(()),
        }
    }

    /// The share of the multiprocessors that codecs may fill beside layers, in percent.
    pub fn codec_percent(&self) -> u8 {
        self.codec_sms.unwrap_or(CudaOptions::default().codec_percent)
    }
}

/// How a device is measured.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of measuring")]
pub struct DeviceArgs {
    #[command(flatten)]
    pub on: OnDevice,

    /// Bandwidth of the host device's link, each way, such as 400MB/s
    #[arg(long, value_name = "BYTES/S", value_parser = bandwidth, default_value = "250MB/s")]
    pub bandwidth: BytesPerSec,

    /// What each copy of the host device costs on top of its bytes
    #[arg(long, value_name = "TIME", default_value = "100us")]
    pub latency: Nanos,

    /// Iterations before the first that counts
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    pub warmup: usize,

    /// Iterations that count; of their times the median
    #[arg(long, value_name = "COUNT", default_value_t = 9, value_parser = at_least_one)]
    pub repeats: usize,

    /// Seed of weights, samples and labels
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// Codecs to take samples of and fit models to, such as zvc,zfp:8
    #[arg(long = "sample", value_delimiter = ',', value_name = "CODECS")]
    pub sampled: Vec<CodecId>,
}

impl DeviceArgs {
    /// The link that the host device's copies are to be as slow as.
    pub fn link(&self) -> Link {
        Link {
            name: format!("emulated, {}/s each way", Bytes(self.bandwidth.0)),
            d2h: Bandwidth::constant(self.bandwidth),
            h2d: Bandwidth::constant(self.bandwidth),
            latency: self.latency,
            both_directions: 1.0,
            beside_copy: 1.0,
        }
    }
}

fn percent(text: &str) -> Result<u8, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.parse().ok());
    percent
        .filter(|percent| (1..=100).contains(percent))
        .ok_or_else(|| "write a share in whole percent, from 1% to 100%".into())
}

fn bandwidth(text: &str) -> Result<BytesPerSec, String> {
    let amount = text.strip_suffix("/s").and_then(|amount| amount.parse::<Bytes>().ok());
    let amount = amount.filter(|amount| (1_000..=1_000_000_000_000).contains(&amount.0));
    amount.map(|amount| BytesPerSec(amount.0)).ok_or_else(|| {
        "write a bandwidth with its unit, such as 400MB/s, from 1kB/s to 1TB/s".into()
    })
}

/// How often something is done: once or more.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("write a whole number from 1".into()),
        Ok(count) => Ok(count),
    }
}

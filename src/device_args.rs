//! A device that runs things, as it is chosen on the command line.

use std::path::PathBuf;

use clap::Args;
use codecs::CodecId;
use experiments::fits::sample_and_fit;
use profiler::codec_samples::{CodecSample, Sampling};
use profiler::device::Target;
use profiler::profile::Measuring;
use runtime::cuda::CudaOptions;
use schema::{Bytes, BytesPerSec, CodecModels, Link, Nanos};

use crate::exit::usage;
use crate::progress::Bar;
use crate::signals::stop;
use experiments::option_text::{at_least_one, bandwidth, whole};

/// What measures and runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum DeviceKind {
    /// This machine's processor: one thread computes, memory of a fixed size stands for the
    /// device's, and copies are as slow as the link that is stated.
    #[default]
    Host,
    /// The first CUDA device.
    Cuda,
}

/// The device that measures or runs.
#[derive(Debug, Clone, Args)]
pub struct OnDevice {
    /// What measures and runs
    #[arg(long = "device", value_enum, default_value_t)]
    pub kind: DeviceKind,

    /// Blocks of threads that codecs' kernels may have on CUDA, as a share of those that fill the
    /// device's multiprocessors: the rest is left to the layers beside them [default: 25%, and 100%
    /// where nothing runs beside them]
    #[arg(long, value_name = "SHARE", value_parser = whole)]
    pub codec_sms: Option<u8>,

    #[command(flatten)]
    pub libraries: LibraryArgs,

    /// Libraries that are not to compute on CUDA, such as cudnn,cublas: our own kernels do
    #[arg(long, value_delimiter = ',', value_name = "LIBRARIES", hide_possible_values = true)]
    pub without: Vec<Without>,
}

/// Where NVIDIA's libraries are.
#[derive(Debug, Clone, Args)]
pub struct LibraryArgs {
    /// Look for NVIDIA's libraries in this folder alone (a toolkit, Python's packages, or one with the
    /// files); also in TIDEGATE_CUDA_LIBRARIES, as a list like PATH [default: where the linker finds them,
    /// CUDA_HOME, /usr/local/cuda*, conda's and Python's packages]
    #[arg(long, value_name = "FOLDER", value_parser = folder)]
    pub cuda_libraries: Option<PathBuf>,
}

impl LibraryArgs {
    /// From now on, libraries are looked for as this says.
    pub fn apply(&self) {
        if let Some(folder) = &self.cuda_libraries {
            runtime::cuda::look_in(std::slice::from_ref(folder));
        }
    }
}

/// What is not to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Without {
    Cudnn,
    Cublas,
}

impl OnDevice {
    /// The device, after what it has not is refused and it is said where libraries are looked for.
    pub fn target(&self) -> crate::exit::Result<Target> {
        self.libraries.apply();
        if self.kind == DeviceKind::Host {
            let cuda = "is for `--device cuda`: the host device has no";
            return match (self.codec_sms, self.without.as_slice()) {
                (Some(_), _) => Err(usage(format!("--codec-sms {cuda} multiprocessors"))),
                (None, [_, ..]) => Err(usage(format!("--without {cuda} libraries"))),
                _ => Ok(Target::Host(stop())),
            };
        }
        let defaults = CudaOptions::default();
        Ok(Target::Cuda(CudaOptions {
            codec_percent: self.codec_sms.unwrap_or(defaults.codec_percent),
            blas: !self.without.contains(&Without::Cublas),
            dnn: !self.without.contains(&Without::Cudnn),
            stop: stop(),
            ..defaults
        }))
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
    /// How they have a device measured, everything kept and without graphs.
    pub fn measuring(&self) -> crate::exit::Result<Measuring> {
        let Self { warmup, repeats, seed, .. } = *self;
        let (target, link) = (self.on.target()?, self.link());
        Ok(Measuring { target, link, warmup, repeats, seed, graph: false, budget: None })
    }

    /// Samples of the codecs that are named, on tensors of these sizes, and models fitted to them.
    pub fn sample(
        &self,
        target: &Target,
        sizes: &[Bytes],
        bar: &Bar,
    ) -> crate::exit::Result<Option<(Vec<CodecSample>, CodecModels)>> {
        let sampling = Sampling::quick(&self.sampled, sizes);
        let wanted = (!self.sampled.is_empty()).then(|| sample_and_fit(&sampling, target, bar));
        Ok(wanted.transpose()?)
    }

    /// The link that the host device's copies are to be as slow as.
    pub fn link(&self) -> Link {
        let name = format!("emulated, {}/s each way", Bytes(self.bandwidth.0));
        Link { latency: self.latency, ..Link::constant(&name, self.bandwidth) }
    }
}

fn folder(text: &str) -> Result<PathBuf, String> {
    let folder = Some(PathBuf::from(text)).filter(|folder| folder.is_dir());
    folder.ok_or_else(|| "there is no such folder: name one with NVIDIA's libraries".into())
}

//! What times codecs: this machine's processor, or a CUDA device.

use std::time::{Duration, Instant};

use codecs::{Codec, CodecId, TensorView};
use rayon::ThreadPool;
use runtime::cuda::{CodecRunError, CudaCodecs};
use runtime::profile::processor_name;
use schema::Nanos;

use crate::device_args::{DeviceKind, OnDevice};
use crate::exit::{Exit, OrExit, Result, WithExit, usage};

/// Times codecs on tensors.
pub trait CodecTimer {
    /// What codecs run on.
    fn device(&self) -> String;

    /// Threads that a codec works with; on a GPU blocks of them, at most.
    fn threads(&self) -> u32;

    /// Both ways of a codec on a tensor: the fastest of so many runs, after one that does not count.
    fn time(&mut self, codec: &dyn Codec, tensor: TensorView<'_>, runs: u32) -> Result<CodecTimes>;
}

/// What a codec made of a tensor, and how long it took.
pub struct CodecTimes {
    /// Bytes of the small form.
    pub length: usize,
    /// Making it.
    pub compress: Nanos,
    /// Bringing the tensor back.
    pub decompress: Nanos,
}

/// What times these codecs on a device, the host's with so many threads.
pub fn codec_timer(on: OnDevice, codecs: &[CodecId], threads: u32) -> Result<Box<dyn CodecTimer>> {
    on.check()?;
    match on.kind {
        DeviceKind::Host => {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads as usize).build();
            Ok(Box::new(HostTimer { pool: pool.or_exit(Exit::Failed)?, threads }))
        }
        DeviceKind::Cuda => {
            let device = CudaCodecs::open(0, codecs, on.codec_percent()).or_exit(Exit::Failed)?;
            Ok(Box::new(device))
        }
    }
}

struct HostTimer {
    pool: ThreadPool,
    threads: u32,
}

impl CodecTimer for HostTimer {
    fn device(&self) -> String {
        processor_name()
    }

    fn threads(&self) -> u32 {
        self.threads
    }

    fn time(&mut self, codec: &dyn Codec, tensor: TensorView<'_>, runs: u32) -> Result<CodecTimes> {
        // Pages that nobody has touched yet would cost the first run.
        let mut payload = vec![0xff; codec.worst_case(tensor.layout())];
        let mut restored = vec![0xff; tensor.bytes().len()];
        let (mut length, mut compress, mut decompress) = (0, Vec::new(), Vec::new());
        self.pool.install(|| {
            for run in 0..=runs {
                let begin = Instant::now();
                length = codec.compress(tensor, &mut payload).or_exit(Exit::Failed)?;
                let compressing = begin.elapsed();
                let begin = Instant::now();
                codec
                    .decompress(&payload[..length], tensor.layout(), &mut restored)
                    .or_exit(Exit::Failed)?;
                let decompressing = begin.elapsed();
                if run > 0 {
                    compress.push(nanos(compressing));
                    decompress.push(nanos(decompressing));
                }
            }
            Ok(CodecTimes {
                length,
                compress: fastest(&compress),
                decompress: fastest(&decompress),
            })
        })
    }
}

impl CodecTimer for CudaCodecs {
    fn device(&self) -> String {
        self.name().into()
    }

    fn threads(&self) -> u32 {
        self.blocks()
    }

    fn time(&mut self, codec: &dyn Codec, tensor: TensorView<'_>, runs: u32) -> Result<CodecTimes> {
        let times = Self::time(self, codec, tensor, runs).map_err(not_run)?;
        let compress = times.compress.ok_or_else(|| {
            usage(format!("{} compresses on the host alone: leave it away", codec.id()))
        })?;
        let [compress, decompress] = [&compress, &times.decompress].map(|times| fastest(times));
        Ok(CodecTimes { length: times.length, compress, decompress })
    }
}

/// Kernels that make other bytes than the codec have failed a check.
pub fn not_run(error: CodecRunError) -> WithExit {
    let exit = match error {
        CodecRunError::Cuda(_) => Exit::Failed,
        CodecRunError::Codec(_) => Exit::Usage,
        CodecRunError::OtherBytes { .. } | CodecRunError::Refused { .. } => Exit::NotProven,
    };
    WithExit { exit, error: error.into() }
}

fn nanos(time: Duration) -> Nanos {
    Nanos(time.as_nanos() as u64)
}

/// The fastest: what else the machine does only adds to times.
pub fn fastest(times: &[Nanos]) -> Nanos {
    times.iter().min().copied().unwrap_or_default().max(Nanos(1))
}

//! What times codecs: this machine's processor, or a CUDA device.

mod stopwatch;

use std::hint::black_box;

use codecs::{Codec, CodecId, TensorView};
use rayon::ThreadPool;
use runtime::cuda::CudaCodecs;
use runtime::profile::processor_name;
use schema::Nanos;

use crate::device::Target;
use crate::error::{MeasureError, Result};

/// Times codecs on tensors.
pub trait CodecTimer {
    /// What codecs run on.
    fn device(&self) -> String;

    /// Threads that a codec works with; on a GPU blocks of them, at most.
    fn threads(&self) -> u32;

    /// Whether runs of different tensors take turns, one at a time.
    fn takes_turns(&self) -> bool;

    /// Both ways of a codec on a tensor: the fastest of so many runs.
    ///
    /// # Errors
    /// If the codec fails, or makes other bytes than it should.
    fn time(&mut self, codec: &dyn Codec, tensor: TensorView<'_>, runs: u32) -> Result<CodecTimes>;
}

/// What a codec made of a tensor, and how long it took.
pub struct CodecTimes {
    /// Bytes of the compressed form.
    pub length: usize,
    /// Making it.
    pub compress: Nanos,
    /// Bringing the tensor back.
    pub decompress: Nanos,
}

/// What times these codecs on a device, the host's with so many threads.
///
/// # Errors
/// If the device is not there.
pub fn codec_timer(on: &Target, codecs: &[CodecId], threads: u32) -> Result<Box<dyn CodecTimer>> {
    Ok(match on {
        Target::Host(_) => {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads as usize).build();
            let pool = pool.map_err(|error| MeasureError::Threads(error.into()))?;
            Box::new(HostTimer::new(pool, threads))
        }
        Target::Cuda(options) => Box::new(CudaCodecs::open(0, codecs, options.codec_percent)?),
    })
}

/// Half of what is read to fill caches with something else: together twice what most hold.
const OTHER_BYTES: usize = 32 << 20;

/// Caches hold something else when a codec begins, as they do in an iteration: what a codec finds there
/// would depend on who was there before.
struct HostTimer {
    pool: ThreadPool,
    threads: u32,
    /// Buffers whose pages have been touched: those that nobody has touched yet would cost the first run.
    payload: Vec<u8>,
    restored: Vec<u8>,
    /// Twice the same, to fill caches with by comparing.
    other: [Vec<u8>; 2],
}

impl HostTimer {
    fn new(pool: ThreadPool, threads: u32) -> Self {
        let other = [vec![1; OTHER_BYTES], vec![1; OTHER_BYTES]];
        Self { pool, threads, payload: Vec::new(), restored: Vec::new(), other }
    }
}

/// The buffer, of at least so many bytes.
fn touched(buffer: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0xff);
    }
    &mut buffer[..bytes]
}

impl CodecTimer for HostTimer {
    fn device(&self) -> String {
        processor_name()
    }

    fn threads(&self) -> u32 {
        self.threads
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn time(&mut self, codec: &dyn Codec, tensor: TensorView<'_>, runs: u32) -> Result<CodecTimes> {
        let Self { pool, threads, payload, restored, other: [left, right] } = self;
        let layout = tensor.layout();
        let payload = touched(payload, codec.worst_case(layout));
        let restored = touched(restored, tensor.bytes().len());
        let alone = *threads == 1;
        let forget = || black_box(left == right);
        let (mut length, mut compress, mut decompress) = (0, Vec::new(), Vec::new());
        pool.install(|| {
            for _ in 0..runs {
                forget();
                let (done, time) = stopwatch::time(alone, || codec.compress(tensor, payload));
                length = done?;
                compress.push(Nanos(time));
                forget();
                let back = || codec.decompress(&payload[..length], layout, restored);
                let (done, time) = stopwatch::time(alone, back);
                done?;
                decompress.push(Nanos(time));
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

    fn takes_turns(&self) -> bool {
        false
    }

    fn time(&mut self, codec: &dyn Codec, tensor: TensorView<'_>, runs: u32) -> Result<CodecTimes> {
        let times = Self::time(self, codec, tensor, runs)?;
        let compress = times.compress.ok_or_else(|| MeasureError::HostAlone(codec.id()))?;
        let [compress, decompress] = [&compress, &times.decompress].map(|times| fastest(times));
        Ok(CodecTimes { length: times.length, compress, decompress })
    }
}

/// The fastest: what else the machine does only adds to times.
pub fn fastest(times: &[Nanos]) -> Nanos {
    times.iter().min().copied().unwrap_or_default().max(Nanos(1))
}

//! How fast codecs are, as ratios within one run.
//!
//! A codec is timed on one thread and on two, beside two references on one thread, a naive scalar
//! loop of zero-value compression (`naive`) and LZ4, and beside [copying](Copying), whose two
//! threads say how far the memory itself can follow. All take turns, so that whatever else the
//! machine does disturbs each alike, and of each the least disturbed run counts.

mod naive;

use std::time::{Duration, Instant};

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use schema::Dtype;
use serde::Serialize;

use crate::layout::width;
use crate::quality::difference;
use crate::synthetic::Recipe;
use crate::{Codec, CodecId, Error, Layout, TensorView};

/// What to time.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The codecs.
    pub codecs: Vec<CodecId>,
    /// f32, f16 or bf16, each for every codec.
    pub dtypes: Vec<Dtype>,
    /// Bytes of the tensor, about: large against the machine's caches.
    pub bytes: usize,
    /// Share of zeros, 0 to 1, at random places.
    pub sparsity: f64,
    /// Seed of the tensor.
    pub seed: u64,
    /// How often each is timed.
    pub runs: usize,
}

impl Settings {
    /// Bytes of memory that [`run`] takes, rather more than less: the tensor, a copy of it, and a
    /// payload and what comes back of each codec and of both references. A payload can be a little
    /// larger than the tensor, that of the naive loop twice as large.
    pub fn memory_needed(&self) -> u64 {
        let tensors = 8 + 2 * self.codecs.len() as u64;
        (self.bytes as u64).saturating_add(self.bytes as u64 / 16).saturating_mul(tensors)
    }
}

/// What was measured of one codec and element type. Speeds count uncompressed bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the fields' names say what they hold")]
pub struct Row {
    pub codec: String,
    /// The element type.
    pub dtype: Dtype,
    /// Uncompressed over compressed bytes.
    pub ratio: f64,
    /// How far off what comes back is at most; infinite, in JSON null, where it is not finite.
    pub max_abs_error: f64,
    /// The root of the mean of the squares of that.
    pub rms_error: f64,
    pub compress: Speed,
    pub decompress: Speed,
    /// Copying the same tensor.
    pub copy: Copying,
}

/// A speed and what it is in proportion to others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Speed {
    /// Bytes per second on one thread.
    pub bytes_per_second: u64,
    /// Times the speed of the naive loop for zero-value compression, on one thread.
    pub over_naive: f64,
    /// Times the speed of LZ4, on one thread.
    pub over_lz4: f64,
    /// Speed on two threads over that on one.
    pub two_threads: f64,
}

/// How fast a tensor is copied: as fast as anything that reads and writes memory can be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Copying {
    /// Bytes per second on one thread; each is read and written.
    pub bytes_per_second: u64,
    /// Speed on two threads over that on one: what a codec that waits for memory can reach.
    pub two_threads: f64,
}

/// Times codecs on synthetic tensors.
///
/// # Errors
/// [`Error::BadRecipe`] with settings of which no tensor can be made; [`Error::NoThreads`]; those of
/// [`crate::codec`], [`Codec::compress`] and [`Codec::decompress`].
pub fn run(settings: &Settings) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for dtype in &settings.dtypes {
        rows.extend(run_dtype(settings, *dtype)?);
    }
    Ok(rows)
}

fn run_dtype(settings: &Settings, dtype: Dtype) -> Result<Vec<Row>, Error> {
    // Rows as in a feature map, for codecs that look at more than one dimension.
    let rows = (settings.bytes / width(dtype) / 64).max(1);
    let layout = Layout::new(dtype, &[rows, 64])?;
    let (sparsity, smoothness, seed) = (settings.sparsity, 0.0, settings.seed);
    let input = Recipe { layout: layout.clone(), sparsity, smoothness, seed }.bytes()?;
    let input = TensorView::new(&layout, &input)?;
    let (one, two) = (pool(1)?, pool(2)?);

    let mut copy = Timed::new(Work::Copying, input);
    let mut naive = Timed::new(Work::Naive, input);
    let mut lz4 = Timed::new(Work::Codec(crate::codec(CodecId::Lz4)?), input);
    let codecs = settings.codecs.iter();
    let codecs = codecs.map(|id| Ok(Timed::new(Work::Codec(crate::codec(*id)?), input)));
    let mut codecs = codecs.collect::<Result<Vec<_>, Error>>()?;
    for _ in 0..settings.runs.max(1) {
        for reference in [&mut naive, &mut lz4] {
            reference.run(input, &one, 0)?;
        }
        for timed in std::iter::once(&mut copy).chain(&mut codecs) {
            timed.run(input, &one, 0)?;
            timed.run(input, &two, 1)?;
        }
    }
    let [[copied, _], [copied_by_two, _]] = copy.best;
    let per_second = |time: Duration| (layout.bytes() as f64 / time.as_secs_f64().max(1e-9)) as u64;
    let copy = Copying {
        bytes_per_second: per_second(copied),
        two_threads: quotient(copied, copied_by_two),
    };
    let row = |(codec, timed): (CodecId, &Timed)| {
        let speed = |index: usize| Speed {
            bytes_per_second: per_second(timed.best[0][index]),
            over_naive: quotient(naive.best[0][index], timed.best[0][index]),
            over_lz4: quotient(lz4.best[0][index], timed.best[0][index]),
            two_threads: quotient(timed.best[0][index], timed.best[1][index]),
        };
        let difference = difference(&layout, input.bytes(), &timed.restored).unwrap_or_default();
        Row {
            codec: codec.to_string(),
            dtype,
            ratio: layout.bytes() as f64 / timed.len.max(1) as f64,
            max_abs_error: difference.max_abs,
            rms_error: difference.rms,
            compress: speed(0),
            decompress: speed(1),
            copy,
        }
    };
    Ok(settings.codecs.iter().copied().zip(&codecs).map(row).collect())
}

fn quotient(left: Duration, right: Duration) -> f64 {
    left.as_secs_f64() / right.as_secs_f64().max(1e-9)
}

fn pool(threads: usize) -> Result<ThreadPool, Error> {
    ThreadPoolBuilder::new().num_threads(threads).build().map_err(|_| Error::NoThreads { threads })
}

enum Work {
    Codec(Box<dyn Codec>),
    /// The loop of [`naive`], on one thread.
    Naive,
    /// Copying, all of it in place of compressing.
    Copying,
}

impl Work {
    /// The most bytes that compressing makes.
    fn worst_case(&self, layout: &Layout) -> usize {
        match self {
            Self::Codec(codec) => codec.worst_case(layout),
            Self::Naive => 2 * layout.bytes() + 4,
            Self::Copying => layout.bytes(),
        }
    }

    fn compress(&self, input: TensorView<'_>, out: &mut [u8]) -> Result<usize, Error> {
        let (layout, input_bytes) = (input.layout(), input.bytes());
        Ok(match self {
            Self::Codec(codec) => codec.compress(input, out)?,
            Self::Naive => naive::compress(width(layout.dtype()), input_bytes, out),
            Self::Copying => {
                let part = out.len().div_ceil(rayon::current_num_threads()).max(1);
                let parts = out.par_chunks_mut(part).zip(input_bytes.par_chunks(part));
                parts.for_each(|(out, part)| out.copy_from_slice(part));
                out.len()
            }
        })
    }

    fn decompress(&self, payload: &[u8], layout: &Layout, out: &mut [u8]) -> Result<(), Error> {
        match self {
            Self::Codec(codec) => codec.decompress(payload, layout, out)?,
            Self::Naive => naive::decompress(width(layout.dtype()), payload, out),
            Self::Copying => {}
        }
        Ok(())
    }
}

/// Work, its buffers, and its best times on one and on two threads: compress, decompress.
struct Timed {
    work: Work,
    payload: Vec<u8>,
    len: usize,
    restored: Vec<u8>,
    best: [[Duration; 2]; 2],
}

impl Timed {
    /// Has buffers whose pages have been touched, so that no first time is like no other.
    fn new(work: Work, input: TensorView<'_>) -> Self {
        let payload = vec![0xff; work.worst_case(input.layout())];
        let restored = vec![0xff; input.bytes().len()];
        Self { work, payload, len: 0, restored, best: [[Duration::MAX; 2]; 2] }
    }

    /// Runs twice: the first time finds in the caches what another has left there, the second what it
    /// has left itself.
    fn run(&mut self, input: TensorView<'_>, pool: &ThreadPool, index: usize) -> Result<(), Error> {
        let Self { work, payload, len, restored, best } = self;
        let [best_compress, best_decompress] = &mut best[index];
        for _ in 0..2 {
            let (made, compress) = timed(|| pool.install(|| work.compress(input, payload)));
            *len = made?;
            let payload = &payload[..*len];
            let decompress = || pool.install(|| work.decompress(payload, input.layout(), restored));
            let (done, decompress) = timed(decompress);
            done?;
            *best_compress = compress.min(*best_compress);
            *best_decompress = decompress.min(*best_decompress);
        }
        Ok(())
    }
}

fn timed<R>(work: impl FnOnce() -> R) -> (R, Duration) {
    let begin = Instant::now();
    let result = work();
    (result, begin.elapsed())
}

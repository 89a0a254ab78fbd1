//! How fast codecs are, as ratios within one run.
//!
//! A codec is timed on one thread and on two, beside two references on one thread, a naive scalar
//! loop of zero-value compression ([`naive`]) and LZ4, and beside [copying](Copying), whose two threads
//! say how far the memory itself can follow. All take turns, so that whatever else the
//! machine does disturbs each alike, and of each the least disturbed run counts.

mod copying;
pub mod naive;

use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};
use schema::Dtype;

pub use copying::Copying;

use crate::layout::width;
use crate::quality::{Difference, difference};
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
    /// Bytes of memory that [`run`] takes, rather more than less: the tensor, a copy of it, and a payload
    /// and what comes back of each codec and of both references. A payload can be a little larger than the
    /// tensor, that of the naive loop twice as large.
    pub fn memory_needed(&self) -> u64 {
        let tensors = 7 + 2 * self.codecs.len() as u64;
        (self.bytes as u64).saturating_add(self.bytes as u64 / 16).saturating_mul(tensors)
    }
}

/// What was measured of one codec and element type. Speeds count uncompressed bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The codec.
    pub codec: CodecId,
    /// The element type.
    pub dtype: Dtype,
    /// Uncompressed over compressed bytes.
    pub ratio: f64,
    /// How far off what comes back is.
    pub difference: Difference,
    /// Compressing.
    pub compress: Speed,
    /// Decompressing.
    pub decompress: Speed,
    /// Copying the same tensor.
    pub copy: Copying,
}

/// A speed and what it is in proportion to others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// Bytes per second on one thread.
    pub bytes_per_second: f64,
    /// Times the speed of the naive loop for zero-value compression, on one thread.
    pub over_naive: f64,
    /// Times the speed of LZ4, on one thread.
    pub over_lz4: f64,
    /// Speed on two threads over that on one.
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

    let mut copy = copying::Timed::new(input.bytes().len());
    let mut naive = naive::Timed::new(input);
    let mut lz4 = Timed::new(crate::codec(CodecId::Lz4)?, input)?;
    let codecs = settings.codecs.iter().map(|id| Timed::new(crate::codec(*id)?, input));
    let mut codecs = codecs.collect::<Result<Vec<_>, Error>>()?;
    for _ in 0..settings.runs.max(1) {
        // Each twice: the first finds in the caches what another has left there, the second what it
        // has left itself.
        for (index, pool) in [(0, &one), (0, &one), (1, &two), (1, &two)] {
            copy.run(input.bytes(), pool, index);
        }
        for _ in 0..2 {
            naive.run(input);
        }
        for _ in 0..2 {
            lz4.run(input, &one, 0)?;
        }
        for codec in &mut codecs {
            for (index, pool) in [(0, &one), (0, &one), (1, &two), (1, &two)] {
                codec.run(input, pool, index)?;
            }
        }
    }
    let row = |timed: &Timed| {
        let speed = |index: usize, naive: Duration| Speed {
            bytes_per_second: layout.bytes() as f64 / timed.best[0][index].as_secs_f64(),
            over_naive: quotient(naive, timed.best[0][index]),
            over_lz4: quotient(lz4.best[0][index], timed.best[0][index]),
            two_threads: quotient(timed.best[0][index], timed.best[1][index]),
        };
        let difference = difference(&layout, input.bytes(), &timed.restored).unwrap_or_default();
        Row {
            codec: timed.codec.id(),
            dtype,
            ratio: layout.bytes() as f64 / timed.len.max(1) as f64,
            difference,
            compress: speed(0, naive.best[0]),
            decompress: speed(1, naive.best[1]),
            copy: copy.result(),
        }
    };
    Ok(codecs.iter().map(row).collect())
}

fn quotient(left: Duration, right: Duration) -> f64 {
    left.as_secs_f64() / right.as_secs_f64().max(1e-9)
}

fn pool(threads: usize) -> Result<ThreadPool, Error> {
    ThreadPoolBuilder::new().num_threads(threads).build().map_err(|_| Error::NoThreads { threads })
}

/// A codec, its buffers, and its best times on one and on two threads: compress, decompress.
struct Timed {
    codec: Box<dyn Codec>,
    payload: Vec<u8>,
    len: usize,
    restored: Vec<u8>,
    best: [[Duration; 2]; 2],
}

impl Timed {
    /// Has buffers whose pages have been touched, so that no first time is like no other.
    fn new(codec: Box<dyn Codec>, input: TensorView<'_>) -> Result<Self, Error> {
        let payload = vec![0xff; codec.worst_case(input.layout())];
        let restored = vec![0xff; input.bytes().len()];
        Ok(Self { codec, payload, len: 0, restored, best: [[Duration::MAX; 2]; 2] })
    }

    fn run(&mut self, input: TensorView<'_>, pool: &ThreadPool, index: usize) -> Result<(), Error> {
        let (codec, payload) = (&self.codec, &mut self.payload);
        let (len, compress) = timed(|| pool.install(|| codec.compress(input, payload)));
        self.len = len?;
        let (payload, restored) = (&payload[..self.len], &mut self.restored);
        let decompress = || pool.install(|| codec.decompress(payload, input.layout(), restored));
        let (done, decompress) = timed(decompress);
        done?;
        let [best_compress, best_decompress] = &mut self.best[index];
        *best_compress = compress.min(*best_compress);
        *best_decompress = decompress.min(*best_decompress);
        Ok(())
    }
}

/// A result and how long it took.
fn timed<R>(work: impl FnOnce() -> R) -> (R, Duration) {
    let begin = Instant::now();
    let result = work();
    (result, begin.elapsed())
}

//! Samples of codecs at work.
//!
//! On the host all take turns, run after run: what the machine does besides, and at what pace, is then not
//! mistaken for an effect of the size or the share of zeros.

use codecs::synthetic::Recipe;
use codecs::{Codec, CodecId, Layout, TensorView};
use planner::{Monitor, Progress};
use runtime::memory::room_for;
use schema::{Bytes, Dtype, Fidelity, Nanos};

use crate::codec_timers::{CodecTimer, CodecTimes};
use crate::error::{MeasureError, Result};

/// Shares of zeros that CSWAP+ (section 6.4) takes samples of.
const SPARSITY: [f64; 2] = [0.2, 0.9];
/// Runs before a time may count as settled, and how much the second fastest is slower at most then.
const LEAST_RUNS: u32 = 5;
const SETTLED: f64 = 1.01;

/// One codec at work on one tensor: what it made of it, and the fastest times.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CodecSample {
    /// What it ran on.
    pub device: String,
    /// The codec's name without its parameter.
    pub codec: String,
    /// Its parameter, where it has one.
    pub parameter: Option<f64>,
    /// What comes back: `lossless`, `fixed_rate` or `error_bounded`.
    pub fidelity: String,
    /// The element type.
    pub dtype: String,
    /// Threads that worked on it; on a GPU blocks of threads, at most.
    pub threads: u32,
    /// Runs of which these are the fastest.
    pub runs: u32,
    /// Share of the tensor's values that are zero.
    pub sparsity: f64,
    /// Size of the raw tensor.
    pub bytes: Bytes,
    /// Size of its compressed form.
    pub compressed: Bytes,
    /// Fastest time of making the compressed form.
    pub compress: Nanos,
    /// Fastest time of bringing the tensor back.
    pub decompress: Nanos,
}

/// The codecs that are sampled where none are named: those that compress on the device.
pub fn usual_codecs(on_host: bool) -> Vec<CodecId> {
    // SZ's bound is a thousandth, and eight bits are a common rate of ZFP's.
    let names = ["zvc", "rle", "csr", "lz4", "zfp:8", "sz:1e-3"];
    let names = names.into_iter().filter(|name| on_host || *name != "lz4");
    names.filter_map(|name| name.parse().ok()).collect()
}

/// Which samples are taken.
pub struct Sampling<'a> {
    /// The codecs.
    pub codecs: &'a [CodecId],
    /// Sizes of the tensors.
    pub sizes: &'a [Bytes],
    /// How many shares of zeros, from 20 % to 90 %; at least two.
    pub shares: u32,
    /// Runs of which the fastest counts, at most: fewer where the fastest time came twice.
    pub runs: u32,
    /// From which the tensors are made: others give other places of zeros.
    pub seed: u32,
    /// Samples that are there already: one of enough runs is not taken again, others go on.
    pub done: &'a [CodecSample],
}

impl<'a> Sampling<'a> {
    /// Those that are taken beside other measurements: eleven shares, and few runs.
    pub fn quick(codecs: &'a [CodecId], sizes: &'a [Bytes]) -> Self {
        Self { codecs, sizes, shares: 11, runs: 5, seed: 0, done: &[] }
    }

    /// Takes the samples.
    ///
    /// # Errors
    /// If sizes are out of range, there is no room, a codec fails, or it is interrupted.
    pub fn take(
        &self,
        timer: &mut dyn CodecTimer,
        monitor: &dyn Monitor,
    ) -> Result<Vec<CodecSample>> {
        match self.take_while(timer, monitor)? {
            (samples, true) => Ok(samples),
            _ => Err(MeasureError::Interrupted),
        }
    }

    /// Takes the samples, and says whether these are all: interrupted, it has some of them, or of fewer runs.
    ///
    /// # Errors
    /// If sizes are out of range, there is no room, or a codec fails.
    pub fn take_while(
        &self,
        timer: &mut dyn CodecTimer,
        monitor: &dyn Monitor,
    ) -> Result<(Vec<CodecSample>, bool)> {
        if self.sizes.iter().any(|size| !(4096..=1 << 32).contains(&size.0)) {
            return Err(MeasureError::Sizes);
        }
        let codecs = self.codecs.iter().map(|id| codecs::codec(*id));
        let codecs = codecs.collect::<std::result::Result<Vec<_>, _>>()?;
        let any_fixed = codecs.iter().any(|codec| is_fixed(codec.as_ref()));
        let largest = self.sizes.iter().max().copied().unwrap_or_default();
        // A sparse tensor and a dense one, a payload, and what comes back of it; two more while a tensor
        // is made. A payload can be a little larger than its tensor.
        let needed = 6 * (largest.0 + largest.0 / 16);
        room_for(format!("sampling codecs on {largest}"), needed, "choose smaller --sizes")?;
        let (turns, runs) = if timer.takes_turns() { (self.runs, 1) } else { (1, self.runs) };
        let (device, threads) = (timer.device(), timer.threads());
        let mut timed: Vec<Vec<Timed>> = (0..self.shares).map(|_| Vec::new()).collect();
        let mut all = true;
        'turns: for turn in 0..turns {
            for (share, timed) in (0..self.shares).zip(&mut timed) {
                let (done, of) = (turn * self.shares + share, turns * self.shares);
                let progress = Progress { phase: "codecs", done: done.into(), of: of.into() };
                if turn >= LEAST_RUNS && timed.iter().all(Timed::is_settled) {
                    continue;
                }
                let part = f64::from(share) / f64::from(self.shares - 1);
                let sparsity = SPARSITY[0] + part * (SPARSITY[1] - SPARSITY[0]);
                // A codec of fixed rate is one for dense tensors. Blocks of zeros take it less time,
                // which the ratio does not tell.
                let seed = u64::from(self.seed) << 32 | u64::from(share);
                let sparse = tensor(largest, sparsity, seed)?;
                let dense = if any_fixed { tensor(largest, 0.0, seed)? } else { Vec::new() };
                let of_each =
                    self.sizes.iter().flat_map(|size| codecs.iter().map(move |c| (size, c)));
                for (index, (size, codec)) in of_each.enumerate() {
                    if !monitor.proceed(progress) {
                        all = false;
                        break 'turns;
                    }
                    let bytes = if is_fixed(codec.as_ref()) { &dense } else { &sparse };
                    if turn == 0 {
                        let mut new = Timed::new(*size, bytes)?;
                        new.resume(self.done, codec.as_ref(), &device, threads);
                        timed.push(new);
                    }
                    let timed = &mut timed[index];
                    if timed.is_settled() || timed.runs >= (turn + 1) * runs {
                        continue;
                    }
                    let bytes = &bytes[..timed.layout.bytes()];
                    let input = TensorView::new(&timed.layout, bytes)?;
                    let times = timer.time(codec.as_ref(), input, runs)?;
                    timed.add(&times, runs);
                }
            }
        }
        let codecs = codecs.iter().cycle();
        let samples = timed.iter().flatten().zip(codecs).filter(|(timed, _)| timed.runs > 0);
        let samples = samples.map(|(timed, codec)| timed.sample(codec.as_ref(), &device, threads));
        Ok((samples.collect(), all))
    }
}

fn is_fixed(codec: &dyn Codec) -> bool {
    matches!(codec.fidelity(), codecs::Fidelity::FixedRate { .. })
}

/// Rows as in a feature map, for codecs that look at more than one dimension.
fn layout(size: Bytes) -> Result<Layout> {
    Ok(Layout::new(Dtype::F32, &[(size.0 / 256).max(1) as usize, 64])?)
}

/// The bytes of a synthetic tensor, with which smaller ones begin.
fn tensor(size: Bytes, sparsity: f64, seed: u64) -> Result<Vec<u8>> {
    let recipe = Recipe { layout: layout(size)?, sparsity, smoothness: 0.0, seed };
    Ok(recipe.bytes()?)
}

/// One codec at work on one tensor, in all runs so far.
struct Timed {
    layout: Layout,
    sparsity: f64,
    compressed: usize,
    runs: u32,
    compress: Fastest,
    decompress: Fastest,
}

impl Timed {
    /// Of the tensor of this size that `bytes` begin with.
    fn new(size: Bytes, bytes: &[u8]) -> Result<Self> {
        let layout = layout(size)?;
        let words = bytes[..layout.bytes()].as_chunks::<4>().0;
        let zeros = words.iter().filter(|word| **word == [0; 4]).count();
        Ok(Self {
            sparsity: zeros as f64 / words.len() as f64,
            layout,
            compressed: 0,
            runs: 0,
            compress: Fastest::default(),
            decompress: Fastest::default(),
        })
    }

    /// Takes over what a sample of the same codec, tensor and device says. Which of its times came twice it
    /// does not say: it is settled if it has runs enough for that.
    fn resume(&mut self, done: &[CodecSample], codec: &dyn Codec, device: &str, threads: u32) {
        let own = self.sample(codec, device, threads);
        let same = |done: &&CodecSample| {
            CodecSample {
                runs: 0,
                compressed: own.compressed,
                compress: own.compress,
                decompress: own.decompress,
                ..(*done).clone()
            } == own
        };
        let Some(done) = done.iter().find(same) else { return };
        (self.runs, self.compressed) = (done.runs, done.compressed.0 as usize);
        for (fastest, time) in
            [(&mut self.compress, done.compress), (&mut self.decompress, done.decompress)]
        {
            fastest.add(time.0);
            if done.runs >= LEAST_RUNS {
                fastest.add(time.0);
            }
        }
    }

    fn add(&mut self, times: &CodecTimes, runs: u32) {
        self.compressed = times.length;
        self.runs += runs;
        self.compress.add(times.compress.0);
        self.decompress.add(times.decompress.0);
    }

    fn sample(&self, codec: &dyn Codec, device: &str, threads: u32) -> CodecSample {
        let (parameter, fidelity) = match codec.fidelity() {
            codecs::Fidelity::Lossless => (None, Fidelity::Lossless),
            codecs::Fidelity::Bounded { max_abs_error } => {
                (Some(max_abs_error), Fidelity::ErrorBounded)
            }
            codecs::Fidelity::Relative { .. } => (None, Fidelity::ErrorBounded),
            codecs::Fidelity::FixedRate { bits_per_value } => {
                (Some(bits_per_value), Fidelity::FixedRate)
            }
        };
        CodecSample {
            device: device.into(),
            codec: codec.id().name().into(),
            parameter,
            fidelity: name(fidelity).into(),
            dtype: "f32".into(),
            threads,
            runs: self.runs,
            sparsity: self.sparsity,
            bytes: Bytes(self.layout.bytes() as u64),
            compressed: Bytes(self.compressed as u64),
            compress: self.compress.fastest(),
            decompress: self.decompress.fastest(),
        }
    }

    fn is_settled(&self) -> bool {
        self.runs >= LEAST_RUNS && self.compress.is_settled() && self.decompress.is_settled()
    }
}

/// The two fastest of some times, in nanoseconds.
struct Fastest([u64; 2]);

impl Default for Fastest {
    fn default() -> Self {
        Self([u64::MAX; 2])
    }
}

impl Fastest {
    fn add(&mut self, time: u64) {
        let [first, second] = self.0;
        self.0 = if time < first { [time, first] } else { [first, second.min(time)] };
    }

    fn is_settled(&self) -> bool {
        self.0[1] as f64 <= SETTLED * self.0[0] as f64
    }

    fn fastest(&self) -> Nanos {
        Nanos(self.0[0].max(1))
    }
}

/// As it stands in samples and documents.
pub fn name(fidelity: Fidelity) -> &'static str {
    match fidelity {
        Fidelity::Lossless => "lossless",
        Fidelity::FixedRate => "fixed_rate",
        Fidelity::ErrorBounded => "error_bounded",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_settled_when_it_came_twice() {
        let mut times = Fastest::default();
        for (time, fastest, is_settled) in [
            (1000, 1000, false),
            (1500, 1000, false),
            (1011, 1000, false),
            (1009, 1000, true),
            (900, 900, false),
            (909, 900, true),
            (5000, 900, true),
        ] {
            times.add(time);
            assert_eq!(
                (times.fastest(), times.is_settled()),
                (Nanos(fastest), is_settled),
                "{time}"
            );
        }
    }

    #[test]
    fn smaller_tensors_begin_the_largest_and_state_their_own_zeros() {
        let bytes = tensor(Bytes(64 << 10), 0.5, 3).expect("a recipe");
        let timed = Timed::new(Bytes(4 << 10), &bytes).expect("a layout");
        let zeros = bytes[..4 << 10].as_chunks::<4>().0.iter().filter(|word| **word == [0; 4]);
        assert_eq!(timed.sparsity, zeros.count() as f64 / 1024.0);
        assert!((0.4..0.6).contains(&timed.sparsity), "{}", timed.sparsity);
        assert_eq!(timed.layout.bytes(), 4 << 10);
    }
}

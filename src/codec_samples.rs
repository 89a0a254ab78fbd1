//! Samples of codecs at work on this machine's processor.

use std::time::{Duration, Instant};

use codecs::synthetic::Recipe;
use codecs::{Codec, CodecId, Layout, TensorView};
use planner::{Progress, Watch};
use results::CodecSample;
use runtime::profile::processor_name;
use schema::{Bytes, Dtype, Fidelity, Nanos};

use crate::exit::{Exit, OrExit, Result, WithExit, usage};

/// Shares of zeros that CSWAP+ (section 6.4) takes samples of.
const SPARSITY: [f64; 2] = [0.2, 0.9];

/// Which samples are taken.
pub struct Sampling<'a> {
    /// The codecs.
    pub codecs: &'a [CodecId],
    /// Sizes of the tensors.
    pub sizes: &'a [Bytes],
    /// How many shares of zeros, from 20 % to 90 %; at least two.
    pub shares: u32,
    /// Runs of which the fastest counts.
    pub runs: u32,
    /// Threads that a codec works with.
    pub threads: u32,
}

impl Sampling<'_> {
    /// Takes the samples.
    pub fn take(&self, watch: &dyn Watch) -> Result<Vec<CodecSample>> {
        if self.sizes.iter().any(|size| !(4096..=1 << 32).contains(&size.0)) {
            return Err(usage("--sizes: a tensor has 4096 bytes to 4 GiB"));
        }
        let codecs = self.codecs.iter().map(|id| codecs::codec(*id));
        let codecs = codecs.collect::<std::result::Result<Vec<_>, _>>().or_exit(Exit::Usage)?;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads as usize).build();
        let pool = pool.or_exit(Exit::Failed)?;
        let is_fixed =
            |codec: &dyn Codec| matches!(codec.fidelity(), codecs::Fidelity::FixedRate { .. });
        let any_fixed = codecs.iter().any(|codec| is_fixed(codec.as_ref()));
        let tensors = self.sizes.len() as u64 * u64::from(self.shares);
        let mut samples = Vec::new();
        for (index, (size, share)) in (self.sizes.iter())
            .flat_map(|size| (0..self.shares).map(move |share| (*size, share)))
            .enumerate()
        {
            let part = f64::from(share) / f64::from(self.shares - 1);
            let sparsity = SPARSITY[0] + part * (SPARSITY[1] - SPARSITY[0]);
            let tensor = Tensor::new(size, sparsity, index as u64)?;
            // A codec of fixed rate is one for dense tensors. Blocks of zeros take it less time,
            // which the ratio does not tell.
            let dense = if any_fixed { Some(Tensor::new(size, 0.0, index as u64)?) } else { None };
            for codec in &codecs {
                let progress = Progress { phase: "codecs", done: index as u64, of: tensors };
                if !watch.go_on(progress) {
                    let error = anyhow::anyhow!("interrupted: nothing was written");
                    return Err(WithExit { exit: Exit::Interrupted, error });
                }
                let dense = dense.as_ref().filter(|_| is_fixed(codec.as_ref()));
                let tensor = dense.unwrap_or(&tensor);
                samples.push(pool.install(|| tensor.sample(codec.as_ref(), self))?);
            }
        }
        Ok(samples)
    }
}

/// A synthetic tensor.
struct Tensor {
    layout: Layout,
    sparsity: f64,
    bytes: Vec<u8>,
}

impl Tensor {
    fn new(size: Bytes, sparsity: f64, seed: u64) -> Result<Self> {
        // Rows as in a feature map, for codecs that look at more than one dimension.
        let shape = [(size.0 / 256).max(1) as usize, 64];
        let layout = Layout::new(Dtype::F32, &shape).or_exit(Exit::Usage)?;
        let recipe = Recipe { layout: layout.clone(), sparsity, smoothness: 0.0, seed };
        Ok(Self { bytes: recipe.bytes().or_exit(Exit::Usage)?, layout, sparsity })
    }

    fn sample(&self, codec: &dyn Codec, sampling: &Sampling) -> Result<CodecSample> {
        let input = TensorView::new(&self.layout, &self.bytes).or_exit(Exit::Failed)?;
        // Pages that nobody has touched yet would cost the first run.
        let mut payload = vec![0xff; codec.worst_case(&self.layout)];
        let mut restored = vec![0xff; self.bytes.len()];
        let (mut length, mut compress, mut decompress) = (0, Vec::new(), Vec::new());
        // One more, whose times do not count.
        for run in 0..=sampling.runs {
            let begin = Instant::now();
            length = codec.compress(input, &mut payload).or_exit(Exit::Failed)?;
            let compressing = begin.elapsed();
            let begin = Instant::now();
            codec
                .decompress(&payload[..length], &self.layout, &mut restored)
                .or_exit(Exit::Failed)?;
            let decompressing = begin.elapsed();
            if run > 0 {
                compress.push(compressing);
                decompress.push(decompressing);
            }
        }
        let (parameter, fidelity) = match (codec.id(), codec.fidelity()) {
            (_, codecs::Fidelity::Lossless) => (None, Fidelity::Lossless),
            (_, codecs::Fidelity::Bounded { max_abs_error }) => {
                (Some(max_abs_error), Fidelity::ErrorBounded)
            }
            (_, codecs::Fidelity::FixedRate { bits_per_value }) => {
                (Some(bits_per_value), Fidelity::FixedRate)
            }
        };
        Ok(CodecSample {
            device: processor_name(),
            codec: codec.id().name().into(),
            parameter,
            fidelity: name(fidelity).into(),
            dtype: "f32".into(),
            threads: sampling.threads,
            runs: sampling.runs,
            sparsity: self.sparsity,
            bytes: Bytes(self.bytes.len() as u64),
            compressed: Bytes(length as u64),
            compress: fastest(&compress),
            decompress: fastest(&decompress),
        })
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

fn fastest(times: &[Duration]) -> Nanos {
    Nanos(times.iter().min().map_or(0, |time| time.as_nanos() as u64).max(1))
}

//! Samples of codecs at work.

use codecs::synthetic::Recipe;
use codecs::{Codec, CodecId, Layout, TensorView};
use planner::{Progress, Watch};
use results::CodecSample;
use schema::{Bytes, Dtype, Fidelity};

use crate::codec_timers::CodecTimer;
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
}

impl Sampling<'_> {
    /// Takes the samples.
    pub fn take(&self, timer: &mut dyn CodecTimer, watch: &dyn Watch) -> Result<Vec<CodecSample>> {
        if self.sizes.iter().any(|size| !(4096..=1 << 32).contains(&size.0)) {
            return Err(usage("--sizes: a tensor has 4096 bytes to 4 GiB"));
        }
        let codecs = self.codecs.iter().map(|id| codecs::codec(*id));
        let codecs = codecs.collect::<std::result::Result<Vec<_>, _>>().or_exit(Exit::Usage)?;
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
                samples.push(tensor.sample(codec.as_ref(), self.runs, timer)?);
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

    fn sample(
        &self,
        codec: &dyn Codec,
        runs: u32,
        timer: &mut dyn CodecTimer,
    ) -> Result<CodecSample> {
        let input = TensorView::new(&self.layout, &self.bytes).or_exit(Exit::Failed)?;
        let times = timer.time(codec, input, runs)?;
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
            device: timer.device(),
            codec: codec.id().name().into(),
            parameter,
            fidelity: name(fidelity).into(),
            dtype: "f32".into(),
            threads: timer.threads(),
            runs,
            sparsity: self.sparsity,
            bytes: Bytes(self.bytes.len() as u64),
            compressed: Bytes(times.length as u64),
            compress: times.compress,
            decompress: times.decompress,
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

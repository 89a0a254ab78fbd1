//! SC, CSWAP and CSWAP+: what is swapped may be compressed on the way.

mod cost;
mod slide;

use schema::{Bytes, CodecCost, Fidelity};
use simulator::{GapId, Treatment};

use crate::method::{About, Method, needs_codec, needs_swap};
use crate::methods::vdnn::{POLICY, Vdnn, convolution_inputs};
use crate::{Allowed, Decided, Monitor, Problem, Result};

pub use cost::SwapCost;
pub use slide::{ParameterRange, Swapped};

/// Static compression (CSWAP+ section 3.2): cDMA (Rhu et al., HPCA 2018) with its zero-value
/// compression in software. What vDNN swaps, the inputs of convolutions, is compressed whether that
/// pays or not; only what would not become smaller goes as it is. Dense tensors are compressed by
/// the lossy codec of fixed rate instead, if there is one (section 6.2), and all tensors where that
/// is the only codec.
#[derive(Default)]
pub struct StaticCompression {
    /// `P` of the epoch that is planned, as [`Cswap::Plus`] has it.
    pub parameter: Option<u32>,
}

impl Method for StaticCompression {
    fn about(&self) -> About {
        About {
            name: "sc",
            summary: "offload the inputs of convolutions, each compressed by zero-value compression",
            source: "CSWAP+ (Chen et al.), section 3.2; cDMA (Rhu et al., HPCA 2018)",
        }
    }

    fn with_parameter(&self, parameter: u32) -> Option<Box<dyn Method>> {
        Some(Box::new(Self { parameter: Some(parameter) }))
    }

    fn needs_codecs(&self) -> bool {
        true
    }

    fn decide(&self, problem: &Problem, target: Bytes, _: &dyn Monitor) -> Result<Decided> {
        needs_swap(problem)?;
        let zvc = problem.codecs.codecs.iter().position(|codec| codec.codec == "zvc");
        let lossy = rate_of(problem, &fixed_rates(problem), self.parameter);
        needs_codec(
            problem,
            "zero-value compression",
            "zvc",
            zvc.or(lossy.map(usize::from)).is_some(),
        )?;
        let compressed = |gap| {
            let by = |codec| problem.may_compress(gap).map(|(c, _)| c).find(|c| Some(*c) == codec);
            by(zvc.map(|codec| codec as u8)).or_else(|| by(lossy))
        };
        Ok(swap_what_fits(problem, target, |gap| match compressed(gap) {
            Some(codec) => Treatment::SwapCompressed(codec),
            None => Treatment::Swap,
        }))
    }

    fn uses(&self) -> Allowed {
        Allowed { recompute: false, ..Allowed::ALL }
    }
}

/// CSWAP (Chen et al., CLUSTER 2021) and CSWAP+ (the same, extended): what vDNN swaps, the inputs
/// of convolutions, is compressed where the cost of swapping falls by it: `T < T'` (equations 3 to
/// 7, [`SwapCost`]), with the codec whose `T` is the least. `Cswap` has lossless codecs for sparse
/// tensors. `Plus` also has a lossy one of fixed rate for tensors that no lossless codec makes
/// smaller (section 5.2.2): sparse tensors gain more from lossless ones, as the paper finds.
///
/// Where the inputs of convolutions are not enough to leave, all feature maps do, as in vDNN_all;
/// the paper has no such case. If vDNN's plan is faster, it is this method's: equation 3 takes
/// each tensor by itself, while a whole iteration shares one link.
pub enum Cswap {
    /// CSWAP: lossless codecs.
    Lossless,
    /// CSWAP+: also lossy codecs.
    Plus {
        /// `P` of the epoch that is planned, of those that [codecs of fixed rate](fixed_rates) make; of
        /// one that none makes, the next below. Absent: that of the first epoch, which is `Top` of
        /// [`parameter_range`], or what there is where there is one.
        parameter: Option<u32>,
    },
}

impl Method for Cswap {
    fn about(&self) -> About {
        let name = match self {
            Self::Lossless => "cswap",
            Self::Plus { .. } => "cswap+",
        };
        let summary = match self {
            Self::Lossless => "offload the inputs of convolutions, compressed where that pays",
            Self::Plus { .. } => "as cswap, and dense tensors by a lossy codec of fixed rate",
        };
        let source = match self {
            Self::Lossless => "CSWAP (Chen et al., CLUSTER 2021); CSWAP+, section 5.3",
            Self::Plus { .. } => "CSWAP+ (Chen et al.), sections 5.2 and 5.3",
        };
        About { name, summary, source }
    }

    fn needs_codecs(&self) -> bool {
        true
    }

    fn decide(&self, problem: &Problem, target: Bytes, _: &dyn Monitor) -> Result<Decided> {
        needs_swap(problem)?;
        let is_lossless =
            |codec: u8| problem.codecs.codecs[usize::from(codec)].fidelity == Fidelity::Lossless;
        let codecs = 0..problem.codecs.codecs.len() as u8;
        let (lossy, any) = match self {
            Self::Lossless => (None, codecs.into_iter().any(is_lossless)),
            Self::Plus { parameter } => {
                let rates = fixed_rates(problem);
                let any = codecs.into_iter().any(is_lossless) || !rates.is_empty();
                (rate_of(problem, &rates, *parameter), any)
            }
        };
        let what = match self {
            Self::Lossless => "a lossless codec",
            Self::Plus { .. } => "a lossless codec or one of fixed rate",
        };
        needs_codec(problem, what, "zvc", any)?;
        Ok(swap_what_fits(problem, target, |gap| {
            let costs: Vec<_> = problem.may_compress(gap).collect();
            let lossless = costs.iter().copied().filter(|(codec, _)| is_lossless(*codec));
            let dense = costs.iter().copied().filter(|(codec, _)| Some(*codec) == lossy);
            let candidates: Vec<_> = match lossless.clone().next() {
                Some(_) => lossless.collect(),
                None => dense.collect(),
            };
            cheapest(problem, gap, &candidates)
        }))
    }

    fn uses(&self) -> Allowed {
        Allowed { recompute: false, ..Allowed::ALL }
    }

    fn with_parameter(&self, parameter: u32) -> Option<Box<dyn Method>> {
        let slides = matches!(self, Self::Plus { .. });
        slides.then(|| Box::new(Self::Plus { parameter: Some(parameter) }) as Box<dyn Method>)
    }

    fn includes(&self) -> Vec<Box<dyn Method>> {
        vec![Box::new(Vdnn::Conv), Box::new(Vdnn::All)]
    }
}

/// Section 5.3: with the codec of the least `T`, if that is less than `T'`.
fn cheapest(problem: &Problem, gap: GapId, candidates: &[(u8, CodecCost)]) -> Treatment {
    let total = |cost: &CodecCost| SwapCost::compressed(problem, gap, cost).total();
    let best = candidates.iter().map(|(codec, cost)| (total(cost), *codec)).min();
    match best {
        Some((time, codec)) if time < SwapCost::raw(problem, gap).total() => {
            Treatment::SwapCompressed(codec)
        }
        _ => Treatment::Swap,
    }
}

/// The inputs of convolutions leave; where that does not fit, all feature maps.
pub(super) fn swap_what_fits(
    problem: &Problem,
    target: Bytes,
    treatment: impl Fn(GapId) -> Treatment,
) -> Decided {
    let swap = |gaps: &[GapId]| {
        let mut treatments = problem.keep_all();
        gaps.iter().for_each(|gap| treatments[*gap] = treatment(*gap));
        treatments
    };
    let inputs = swap(&convolution_inputs(problem));
    let treatments = match problem.evaluator(POLICY, target).evaluate(&inputs) {
        Ok(_) => inputs,
        Err(_) => swap(&problem.feature_maps),
    };
    Decided::about_feature_maps(problem, treatments, POLICY)
}

/// The problem's codecs of fixed rate by ascending `P`: the bits of a block of four values, which is
/// the smallest block of ZFP.
pub fn fixed_rates(problem: &Problem) -> Vec<(u32, u8)> {
    let codecs = problem.codecs.codecs.iter().zip(0..);
    let fixed = codecs.filter(|(codec, _)| codec.fidelity == Fidelity::FixedRate);
    let bits = |parameter: Option<f64>| (BLOCK * parameter.unwrap_or(f64::from(f32::MAX))) as u32;
    let mut rates: Vec<_> = fixed.map(|(codec, number)| (bits(codec.parameter), number)).collect();
    rates.sort_unstable();
    rates
}

/// Values of the smallest block.
const BLOCK: f64 = 4.0;

/// Algorithm 1 over the inputs of a problem's convolutions that no lossless codec makes smaller.
pub fn parameter_range(problem: &Problem) -> ParameterRange {
    let rates = fixed_rates(problem);
    let lossless = |gap: &GapId| {
        let mut costs = problem.may_compress(*gap);
        costs.any(|(codec, _)| {
            problem.codecs.codecs[usize::from(codec)].fidelity == Fidelity::Lossless
        })
    };
    let dense: Vec<GapId> =
        convolution_inputs(problem).into_iter().filter(|gap| !lossless(gap)).collect();
    let (Some((least, _)), Some((max, _))) = (rates.first(), rates.last()) else {
        return ParameterRange { top: 0, bottom: 0 };
    };
    let (least, max) = (*least, *max);
    ParameterRange::search(&Dense { problem, gaps: dense, rates }, least, max)
}

fn rate_of(problem: &Problem, rates: &[(u32, u8)], parameter: Option<u32>) -> Option<u8> {
    let parameter = match (parameter, rates) {
        (Some(parameter), _) => parameter,
        (None, [(only, _)]) => *only,
        (None, _) => Some(parameter_range(problem)).filter(ParameterRange::pays)?.top,
    };
    codec_of(rates, parameter)
}

/// The codec of a `P`, or of the next below.
fn codec_of(rates: &[(u32, u8)], parameter: u32) -> Option<u8> {
    let count = rates.partition_point(|(rate, _)| *rate <= parameter);
    Some(rates[count.checked_sub(1)?].1)
}

/// Dense tensors, as Algorithm 1 asks about them.
struct Dense<'a> {
    problem: &'a Problem<'a>,
    gaps: Vec<GapId>,
    rates: Vec<(u32, u8)>,
}

impl Dense<'_> {
    /// None where the codec does not make the tensor smaller.
    fn compressed(&self, tensor: usize, parameter: u32) -> Option<SwapCost> {
        let (gap, codec) = (self.gaps[tensor], codec_of(&self.rates, parameter)?);
        let id = self.problem.model.gaps()[gap].tensor;
        let cost = self.problem.codecs.costs.cost(codec, id)?;
        Some(SwapCost::compressed(self.problem, gap, cost))
    }

    fn raw(&self, tensor: usize) -> SwapCost {
        SwapCost::raw(self.problem, self.gaps[tensor])
    }
}

impl Swapped for Dense<'_> {
    fn tensors(&self) -> usize {
        self.gaps.len()
    }

    fn benefit(&self, tensor: usize, parameter: u32) -> u64 {
        let exposed = self.compressed(tensor, parameter).map(|cost| cost.exposed());
        exposed.map_or(0, |exposed| self.raw(tensor).exposed().saturating_sub(exposed).0)
    }

    fn cost(&self, tensor: usize, parameter: u32) -> u64 {
        // What does not become smaller costs more than it brings.
        self.compressed(tensor, parameter).map_or(u64::MAX, |cost| cost.codec.0)
    }

    fn is_hidden(&self, tensor: usize, parameter: u32) -> bool {
        let swapped = self.compressed(tensor, parameter).unwrap_or_else(|| self.raw(tensor));
        swapped.exposed().0 == 0
    }
}

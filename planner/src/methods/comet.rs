//! COMET: activations are compressed where they are, within an error bound.

mod error;
mod refresh;

use schema::{Bytes, Choice, Fidelity, OpKind, TensorId};
use simulator::{GapId, Policy, Treatment};

use crate::method::{About, Method, needs_codec, needs_recompute};
use crate::methods::vdnn::convolution_inputs;
use crate::{Decided, Monitor, PlanError, Problem, Result};

pub use error::{ACCEPTABLE, COEFFICIENT, LayerStatistics, UNIFORM, gradient_sigma, loss_weight};
pub use refresh::{INTERVAL, Refresh};

/// COMET (Jin et al., VLDB 2021): the inputs of convolutions are compressed right after the forward
/// op and stay on the device; what pooling, normalisation and activation layers make is recomputed;
/// the rest stays as it is (section 3.4). 5 % of the memory stays free.
///
/// The paper recomputes each such layer "based on their prior layers" and does not say what becomes
/// of a convolution's output that only they read, such as the input of a batch norm. To run the
/// convolution again is what it avoids, so here such an output is compressed as well, by the same
/// codec.
///
/// A layer's error bound follows from its [`LayerStatistics`]. Of the problem's error-bounded
/// codecs the one with the loosest bound that does not exceed the layer's is used, or the tightest
/// where there is none such or the statistics are unknown, as they are for a trace alone.
#[derive(Debug, Clone, Default)]
pub struct Comet {
    /// Statistics of the convolution that reads a tensor, by tensor; empty: unknown.
    pub statistics: Vec<Option<LayerStatistics>>,
}

/// COMET compresses between the layers; to overlap that with convolutions is what it leaves to
/// future work in its conclusion.
const POLICY: Policy = Policy { codecs_beside: false, ..Policy::EARLY };

/// Memory that stays free, in thousandths (section 3.4).
const FREE_PERMILLE: u64 = 50;

impl Method for Comet {
    fn about(&self) -> About {
        About {
            name: "comet",
            summary: "compress the inputs of convolutions on the device, recompute the cheap rest",
            source: "COMET (Jin et al., VLDB 2021), sections 3.3 and 3.4",
        }
    }

    fn decide(&self, problem: &Problem, target: Bytes, _: &dyn Monitor) -> Result<Decided> {
        let codecs = error_bounded(problem);
        needs_codec(problem, "an error-bounded codec", "sz", !codecs.is_empty())?;
        needs_recompute(problem)?;
        let treatments = self.treatments(problem, &codecs);
        let whole = problem.budget.0;
        let kept = Bytes(whole - (u128::from(whole) * u128::from(FREE_PERMILLE) / 1000) as u64);
        let mut evaluator = problem.evaluator(POLICY, target.min(kept));
        match evaluator.evaluate(&treatments) {
            Ok(_) => Ok(Decided::about_feature_maps(problem, treatments, POLICY)),
            Err(cause) => Err(PlanError::from_infeasible(cause, kept)),
        }
    }

    fn needs_codecs(&self) -> bool {
        true
    }

    fn batches_are_powers_of_two(&self) -> bool {
        true
    }
}

impl Comet {
    fn treatments(&self, problem: &Problem, codecs: &[u8]) -> Vec<Treatment> {
        let inputs = convolution_inputs(problem);
        let origins = Origins::of(problem);
        let mut treatments = problem.keep_all();
        for gap in problem.feature_maps.iter().copied() {
            let tensor = problem.model.gaps()[gap].tensor;
            let is_input = inputs.binary_search(&gap).is_ok();
            let can_recompute = problem.model.allows(gap, Choice::Recompute);
            treatments[gap] = if !is_input && can_recompute && origins.is_cheap[tensor.index()] {
                Treatment::Recompute
            } else if is_input || origins.is_convolution[tensor.index()] {
                self.compress(problem, gap, codecs)
            } else {
                Treatment::Keep
            };
        }
        treatments
    }

    fn compress(&self, problem: &Problem, gap: GapId, codecs: &[u8]) -> Treatment {
        let tensor = problem.model.gaps()[gap].tensor;
        let usable = |codec: &&u8| problem.codecs.costs.cost(**codec, tensor).is_some();
        let statistics = self.statistics.get(tensor.index()).copied().flatten();
        let wanted = statistics.and_then(|layer| layer.error_bound()).unwrap_or(0.0);
        // By ascending bound.
        let usable: Vec<u8> = codecs.iter().filter(usable).copied().collect();
        let within = usable.iter().rfind(|codec| bound(problem, **codec) <= wanted);
        match within.or(usable.first()) {
            Some(codec) => Treatment::Compress(*codec),
            None => Treatment::Keep,
        }
    }
}

fn bound(problem: &Problem, codec: u8) -> f64 {
    problem.codecs.codecs[usize::from(codec)].parameter.unwrap_or(0.0)
}

/// The problem's error-bounded codecs, by ascending bound.
fn error_bounded(problem: &Problem) -> Vec<u8> {
    let codecs = &problem.codecs.codecs;
    let mut bounded: Vec<u8> = (0..codecs.len() as u8)
        .filter(|codec| codecs[usize::from(*codec)].fidelity == Fidelity::ErrorBounded)
        .collect();
    bounded.sort_by(|a, b| bound(problem, *a).total_cmp(&bound(problem, *b)));
    bounded
}

/// What it takes to make each tensor again.
struct Origins {
    /// A pooling, normalisation or activation layer makes it, from what is decided about, from what
    /// is there anyway, or from what is made likewise.
    is_cheap: Vec<bool>,
    /// A convolution makes it, perhaps with such layers after it.
    is_convolution: Vec<bool>,
}

impl Origins {
    fn of(problem: &Problem) -> Self {
        let tensors = problem.trace.tensors.len();
        let mut is_there = vec![false; tensors];
        let gaps = problem.model.gaps();
        problem.feature_maps.iter().for_each(|gap| is_there[gaps[*gap].tensor.index()] = true);
        for (tensor, there) in is_there.iter_mut().enumerate() {
            *there |= problem.model.producer(TensorId::from_index(tensor)).is_none();
        }
        let mut origins =
            Self { is_cheap: vec![false; tensors], is_convolution: vec![false; tensors] };
        for op in &problem.trace.ops {
            let cheap =
                matches!(op.kind, OpKind::Pooling | OpKind::Normalisation | OpKind::Activation);
            let reads = || op.reads.iter().map(|t| t.index());
            let from_cheap = cheap && reads().all(|t| is_there[t] || origins.is_cheap[t]);
            let from_convolution = op.kind == OpKind::Convolution
                || cheap && reads().any(|t| origins.is_convolution[t]);
            for t in op.writes.iter().map(|t| t.index()) {
                origins.is_cheap[t] = from_cheap;
                origins.is_convolution[t] = from_convolution;
            }
        }
        origins
    }
}

//! COMET: activations are compressed where they are, within an error bound.

mod error;
mod refresh;

use schema::{Bytes, Fidelity, Op, OpKind, Phase, TensorId, Trace};
use simulator::{Policy, Treatment};

use crate::method::{About, Method, needs_codec, needs_recompute};
use crate::{Allowed, Decided, Monitor, PlanError, Problem, Result};

pub use error::{ACCEPTABLE, LayerStatistics, UNIFORM, gradient_sigma, loss_weight};
pub use refresh::{INTERVAL, Refresh};

/// COMET (Jin et al., VLDB 2021): one tensor of each convolution is compressed right after the
/// forward op and stays on the device; what pooling, normalisation and activation layers make of it
/// is recomputed; the rest stays as it is, sums of residual networks among it (section 3.4). 5 % of
/// the memory stays free.
///
/// That tensor is what a convolution makes (or a layer in place on it), as the input of the next one
/// follows from it: "the activation data of convolutional layer can be quickly recomputed through the
/// activation function instead of being saved" (section 4.2). Nothing makes a convolution's output
/// again but the convolution, so that inputs could not stand in for outputs that a batch norm or a
/// pooling needs.
///
/// A layer's error bound follows from its [`LayerStatistics`]; a tensor has the tightest one of the
/// convolutions that read what is made of it. The paper does not say what a normalisation between
/// does to it, and here nothing does. Of the problem's error-bounded codecs the one with the loosest bound
/// that does not exceed it is used (that very bound, where the problem has a codec for each layer), or the tightest
/// where there is none such or the statistics are unknown, as they are for a trace alone.
#[derive(Debug, Clone)]
pub struct Comet {
    /// Statistics of the convolution that reads a tensor itself, by tensor; empty: unknown.
    pub statistics: Vec<Option<LayerStatistics>>,
    /// The share of the average of a gradient that its error may reach: [`ACCEPTABLE`] in the paper.
    pub acceptable: f64,
}

impl Default for Comet {
    fn default() -> Self {
        Self { statistics: Vec::new(), acceptable: ACCEPTABLE }
    }
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
            summary: "compress a tensor of each convolution on the device, recompute the cheap rest",
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

    fn uses(&self) -> Allowed {
        Allowed { swap: false, ..Allowed::ALL }
    }

    fn needs_codecs(&self) -> bool {
        true
    }

    fn batches_are_powers_of_two(&self) -> bool {
        true
    }
}

impl Comet {
    /// The error bound of each tensor that a convolution reads, or reads what is made of it, as
    /// far as it is known.
    pub fn bounds(&self, trace: &Trace) -> Vec<Option<f64>> {
        let of = |layer: Option<LayerStatistics>| layer?.error_bound(self.acceptable);
        let mut bounds: Vec<Option<f64>> = self.statistics.iter().map(|layer| of(*layer)).collect();
        bounds.resize(trace.tensors.len(), None);
        for op in trace.ops.iter().rev().filter(|op| op.phase == Phase::Forward && is_cheap(op)) {
            let made = op.writes.iter().filter_map(|t| bounds[t.index()]).reduce(f64::min);
            for read in op.reads.iter().map(|t| t.index()) {
                bounds[read] = bounds[read].into_iter().chain(made).reduce(f64::min);
            }
        }
        bounds
    }

    fn treatments(&self, problem: &Problem, codecs: &[u8]) -> Vec<Treatment> {
        let origins = Origins::of(problem);
        let bounds = self.bounds(problem.trace);
        let mut treatments = problem.keep_all();
        for gap in problem.feature_maps.iter().copied() {
            let tensor = problem.model.gaps()[gap].tensor;
            let index = tensor.index();
            treatments[gap] = if problem.may_recompute(gap) && origins.is_cheap[index] {
                Treatment::Recompute
            } else if origins.is_convolution[index] {
                compress(problem, tensor, codecs, bounds[index])
            } else {
                Treatment::Keep
            };
        }
        treatments
    }
}

fn compress(problem: &Problem, tensor: TensorId, codecs: &[u8], wanted: Option<f64>) -> Treatment {
    // By ascending bound.
    let usable = |codec: &&u8| problem.codecs.costs.cost(**codec, tensor).is_some();
    let usable: Vec<u8> = codecs.iter().filter(usable).copied().collect();
    let wanted = wanted.unwrap_or(0.0);
    let within = usable.iter().rfind(|codec| bound(problem, **codec) <= wanted);
    match within.or(usable.first()) {
        Some(codec) => Treatment::Compress(*codec),
        None => Treatment::Keep,
    }
}

/// Whether it is of a layer that the paper recomputes.
fn is_cheap(op: &Op) -> bool {
    matches!(op.kind, OpKind::Pooling | OpKind::Normalisation | OpKind::Activation)
}

fn bound(problem: &Problem, codec: u8) -> f64 {
    problem.codecs.codecs[usize::from(codec)].parameter.unwrap_or(f64::INFINITY)
}

/// The problem's error-bounded codecs, by ascending bound, those last that state none.
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
            let cheap = is_cheap(op);
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

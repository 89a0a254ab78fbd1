//! SuperNeurons' rule, by layer type.

use schema::{Bytes, OpKind};
use simulator::{Policy, PrefetchGate, Treatment};

use crate::method::{About, Method, needs_recompute, needs_swap};
use crate::{Allowed, Decided, Monitor, PlanError, Problem, Result};

/// SuperNeurons' classification as PooCH section 5.2 states it: feature maps are kept from the
/// output layer as long as they fit; of the others, those of convolutions are swapped and the
/// rest is recomputed; each comes back with the immediately preceding convolution, without regard
/// to memory, and too little room then is a failure.
///
/// A feature map that cannot be recomputed (its op cannot be run again) is swapped.
pub struct SuperNeurons;

impl Method for SuperNeurons {
    fn about(&self) -> About {
        About {
            name: "superneurons",
            summary: "keep from the output, swap convolutions, recompute the rest",
            source: "PooCH, section 5.2; SuperNeurons (Wang et al., PPoPP 2018)",
        }
    }

    fn decide(&self, problem: &Problem, target: Bytes, _: &dyn Monitor) -> Result<Decided> {
        needs_swap(problem)?;
        needs_recompute(problem)?;
        let policy = Policy { prefetch: PrefetchGate::WithPrecedingConvolution, ..Policy::EARLY };
        let maps = problem.feature_maps.len();
        let mut evaluator = problem.evaluator(policy, target);
        let mut cause = |leaving| evaluator.evaluate(&without(problem, leaving)).err();
        // From the input on, feature maps leave until the rest fits: one by one, or of a long trace
        // more at once, and then as many less as bisection finds.
        let step = maps.div_ceil(problem.evaluations() as usize).max(1);
        let (mut too_few, mut enough) = (0, 0);
        while let Some(cause) = cause(enough) {
            if enough == maps {
                return Err(PlanError::from_infeasible(cause, problem.budget));
            }
            (too_few, enough) = (enough, (enough + step).min(maps));
        }
        while enough - too_few > 1 {
            let middle = too_few + (enough - too_few) / 2;
            match cause(middle) {
                None => enough = middle,
                Some(_) => too_few = middle,
            }
        }
        Ok(Decided::about_feature_maps(problem, without(problem, enough), policy))
    }

    fn uses(&self) -> Allowed {
        Allowed::WITHOUT_CODECS
    }
}

/// Everything kept but the first feature maps, so many.
fn without(problem: &Problem, leaving: usize) -> Vec<Treatment> {
    let mut treatments = problem.keep_all();
    for gap in &problem.feature_maps[..leaving] {
        treatments[*gap] = by_layer_type(problem, *gap);
    }
    treatments
}

fn by_layer_type(problem: &Problem, gap: usize) -> Treatment {
    let tensor = problem.model.gaps()[gap].tensor;
    let producer = problem.model.producer(tensor).map(|op| problem.trace.ops[op.index()].kind);
    if producer == Some(OpKind::Convolution) || !problem.may_recompute(gap) {
        Treatment::Swap
    } else {
        Treatment::Recompute
    }
}

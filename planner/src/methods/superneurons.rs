//! SuperNeurons' rule, by layer type.

use schema::{Bytes, OpKind};
use simulator::{Policy, PrefetchGate, Treatment};

use crate::methods::{Method, about_feature_maps, all_feature_maps, needs_recompute, needs_swap};
use crate::{Decided, PlanError, Problem, Watch};

/// SuperNeurons' classification as PooCH section 5.2 states it: feature maps are kept from the
/// output layer as long as they fit; of the others, those of convolutions are swapped and the
/// rest is recomputed; each comes back with the immediately preceding convolution, without regard
/// to memory, and too little room then is a failure.
///
/// A feature map that cannot be recomputed (its op cannot be run again) is swapped.
pub struct SuperNeurons;

impl Method for SuperNeurons {
    fn name(&self) -> &'static str {
        "superneurons"
    }

    fn summary(&self) -> &'static str {
        "keep from the output, swap convolutions, recompute the rest"
    }

    fn source(&self) -> &'static str {
        "PooCH, section 5.2; SuperNeurons (Wang et al., PPoPP 2018)"
    }

    fn decide(
        &self,
        problem: &Problem,
        target: Bytes,
        _: &dyn Watch,
    ) -> Result<Decided, PlanError> {
        needs_swap(problem)?;
        needs_recompute(problem)?;
        let policy = Policy { prefetch: PrefetchGate::WithPrecedingConvolution, ..Policy::EARLY };
        let mut treatments = all_feature_maps(problem, Treatment::Keep);
        let mut evaluator = problem.evaluator(policy, target);
        // From the input on, feature maps leave one by one until the rest fits.
        let mut leaving = problem.feature_maps.iter();
        loop {
            match (evaluator.evaluate(&treatments), leaving.next()) {
                (Ok(_), _) => return Ok(about_feature_maps(problem, treatments, policy)),
                (Err(cause), None) => {
                    return Err(PlanError::from_infeasible(cause, problem.budget));
                }
                (Err(_), Some(gap)) => treatments[*gap] = by_layer_type(problem, *gap),
            }
        }
    }
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

//! Square-root checkpointing.

use schema::Bytes;
use simulator::{GapId, Policy, Treatment};

use crate::method::{About, Fastest, Method, needs_recompute, needs_swap};
use crate::{Allowed, Decided, Monitor, Problem, Result};

/// Sublinear memory checkpointing (Chen et al., arXiv:1604.06174): Algorithm 3 walks the forward
/// pass and adds up the feature maps that it gives up; whenever they exceed a segment's budget
/// `b`, the current one is kept as a checkpoint and a new segment begins. `b` is searched around
/// `sqrt(x y)` as section 4.2 says, `x` being what the checkpoints and `y` what the largest
/// segment takes; of the plans that fit, the fastest counts.
///
/// Feature maps whose op cannot be run again are checkpoints, too.
///
/// [`SqrtN::OFFLOADED`] is block-wise offloading with recomputation, as frameworks offer it to be set by
/// hand (`cpu_checkpointing` of DeepSpeed's activation checkpointing, `offload_wrapper` around
/// `checkpoint_wrapper` of PyTorch): checkpoints leave for the host as they are made, and come back early for
/// backward. There, people name the blocks; here, segments are those of Algorithm 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqrtN {
    /// What becomes of checkpoints.
    checkpoints: Treatment,
}

impl SqrtN {
    /// Checkpoints stay on the device.
    pub const KEPT: Self = Self { checkpoints: Treatment::Keep };
    /// Checkpoints are on the host until backward.
    pub const OFFLOADED: Self = Self { checkpoints: Treatment::Swap };
}

/// Segment budgets tried: the square root of x y times these, in percent. Section 4.2 tries six
/// between 1/sqrt(2) and sqrt(2); the two beyond serve budgets that need it a little tighter.
const GRID_PERCENT: [u64; 8] = [50, 71, 82, 94, 108, 124, 141, 200];

impl Method for SqrtN {
    fn about(&self) -> About {
        if *self == Self::OFFLOADED {
            return About {
                name: "checkpoint-offload",
                summary: "swap a checkpoint per segment, recompute the rest of each segment",
                source: "activation checkpointing of DeepSpeed and PyTorch, checkpoints in host memory",
            };
        }
        About {
            name: "sqrt-n",
            summary: "keep a checkpoint per segment, recompute the rest of each segment",
            source: "Training Deep Nets with Sublinear Memory Cost (Chen et al., 2016), Algorithm 3",
        }
    }

    fn decide(&self, problem: &Problem, target: Bytes, _: &dyn Monitor) -> Result<Decided> {
        needs_recompute(problem)?;
        if *self == Self::OFFLOADED {
            needs_swap(problem)?;
        }
        let mut evaluator = problem.evaluator(Policy::EARLY, target);
        let mut fastest = Fastest::new();
        for segment in segment_budgets(problem) {
            let treatments = checkpoints(problem, segment, self.checkpoints).treatments;
            fastest.tried(evaluator.evaluate(&treatments), treatments);
        }
        let treatments = fastest.found(problem)?;
        Ok(Decided::about_feature_maps(problem, treatments, Policy::EARLY))
    }

    fn uses(&self) -> Allowed {
        if *self == Self::OFFLOADED { Allowed::WITHOUT_CODECS } else { Allowed::RERUNS }
    }

    fn only_on_request(&self) -> bool {
        *self == Self::OFFLOADED
    }
}

struct Checkpoints {
    treatments: Vec<Treatment>,
    /// Bytes of the checkpoints: Chen's x.
    kept: u64,
    /// Bytes of the largest segment: Chen's y.
    largest_segment: u64,
}

/// Algorithm 3 for one segment budget.
fn checkpoints(problem: &Problem, segment_budget: u64, treatment: Treatment) -> Checkpoints {
    let mut result = Checkpoints { treatments: problem.keep_all(), kept: 0, largest_segment: 0 };
    let mut segment = 0;
    for gap in in_order_of_production(problem) {
        let bytes = problem.model.gaps()[gap].bytes.0;
        segment += bytes;
        result.largest_segment = result.largest_segment.max(segment);
        if segment > segment_budget || !problem.may_recompute(gap) {
            result.kept += bytes;
            result.treatments[gap] = treatment;
            segment = 0;
        } else {
            result.treatments[gap] = Treatment::Recompute;
        }
    }
    result
}

fn segment_budgets(problem: &Problem) -> Vec<u64> {
    let sizes = problem.feature_maps.iter().map(|gap| problem.model.gaps()[*gap].bytes.0);
    let (total, largest) = sizes.fold((0, 0), |(sum, most), b| (sum + b, b.max(most)));
    // With n maps of equal size, segments of sqrt(n) maps; x and y of that come next.
    let maps = (total / largest.max(1)).max(1);
    let first = checkpoints(problem, total / maps.isqrt().max(1), Treatment::Keep);
    let product = u128::from(first.kept.max(largest)) * u128::from(first.largest_segment);
    let root = product.isqrt() as u64;
    GRID_PERCENT.iter().map(|percent| root / 100 * percent).collect()
}

fn in_order_of_production(problem: &Problem) -> Vec<GapId> {
    let mut gaps = problem.feature_maps.clone();
    let producer = |gap: &GapId| problem.model.producer(problem.model.gaps()[*gap].tensor);
    gaps.sort_by_key(|gap| (producer(gap), *gap));
    gaps
}

//! What a method decides.

use schema::{Bytes, Nanos};
use simulator::{GapId, Infeasible, Policy, Step, Treatment};

use crate::Problem;

/// Decisions, and when copies start under them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// One for each gap of the problem's model.
    pub treatments: Vec<Treatment>,
    /// When copies start.
    pub policy: Policy,
    /// The gaps that the method considered.
    pub considered: Vec<GapId>,
    /// The order of computation, where the method states it: then this is what is carried out, and
    /// the treatments only tell what becomes of each tensor.
    pub steps: Option<Vec<Step>>,
    /// Memory is given back when the framework did so, not after the last use.
    pub as_recorded: bool,
    /// Where a method that has its decisions from several places has these from.
    pub from: Option<&'static str>,
    /// The room in which they were lowered to what the budget has addresses for, where that is known.
    pub(crate) lowered_in: Option<Bytes>,
}

/// What the settings of a plan have where its method says where its decisions are from.
pub const FROM: &str = "from";

impl Decided {
    /// Decisions about some gaps, which leave the order of computation to the trace.
    pub fn new(treatments: Vec<Treatment>, policy: Policy, considered: Vec<GapId>) -> Self {
        let (steps, from, lowered_in) = (None, None, None);
        Self { treatments, policy, considered, steps, as_recorded: false, from, lowered_in }
    }

    /// The same decisions, of which a plan's settings say where they are from.
    pub(crate) fn taken_from(self, from: &'static str) -> Self {
        Self { from: Some(from), ..self }
    }

    pub(crate) fn about_feature_maps(
        problem: &Problem,
        treatments: Vec<Treatment>,
        policy: Policy,
    ) -> Self {
        Self::new(treatments, policy, problem.feature_maps.clone())
    }

    /// Whether a codec runs on the device.
    pub(crate) fn compresses(&self) -> bool {
        match &self.steps {
            Some(steps) => steps.iter().any(|step| matches!(step, Step::Compress { .. })),
            None => (self.treatments.iter())
                .any(|t| matches!(t, Treatment::SwapCompressed(_) | Treatment::Compress(_))),
        }
    }

    /// What they take in so much memory, if they fit byte for byte.
    pub(crate) fn evaluated(&self, problem: &Problem, room: Bytes) -> Result<Nanos, Infeasible> {
        let mut evaluator = problem.evaluator(self.policy, room);
        let outcome = match &self.steps {
            Some(steps) => evaluator.evaluate_steps(steps),
            None => evaluator.evaluate(&self.treatments),
        };
        outcome.map(|outcome| outcome.iteration)
    }

    /// Decisions that an explicit schedule carries out. What becomes of a tensor in a gap is read
    /// off the steps: swapped if it is copied out there, recomputed if it is dropped there, compressed
    /// if a codec makes it smaller there, kept if nothing of these.
    pub fn from_steps(problem: &Problem, steps: Vec<Step>, policy: Policy) -> Self {
        let treatments = treatments(problem, &steps);
        let decided = Self::about_feature_maps(problem, treatments, policy);
        Self { steps: Some(steps), ..decided }
    }
}

fn treatments(problem: &Problem, steps: &[Step]) -> Vec<Treatment> {
    let gaps = problem.model.gaps();
    let mut treatments = problem.keep_all();
    // The gap in which each tensor is, if any.
    let mut inside: Vec<Option<usize>> = vec![None; problem.model.tensors()];
    let mut opened = gaps.iter().enumerate().peekable();
    for step in steps {
        match *step {
            Step::Run(op) => {
                let trace_op = &problem.trace.ops[op.index()];
                for tensor in trace_op.reads.iter().chain(&trace_op.writes) {
                    inside[tensor.index()] = None;
                }
                while let Some((id, gap)) = opened.next_if(|(_, gap)| gap.after == op) {
                    inside[gap.tensor.index()] = Some(id);
                }
            }
            Step::Again(_) => {}
            Step::Drop(tensor) => {
                if let Some(gap) = inside[tensor.index()] {
                    treatments[gap] = Treatment::Recompute;
                }
            }
            Step::SwapOut(tensor) => {
                if let Some(gap) = inside[tensor.index()] {
                    treatments[gap] = Treatment::Swap;
                }
            }
            Step::Compress { tensor, codec, swapped } => {
                if let Some(gap) = inside[tensor.index()] {
                    treatments[gap] = match swapped {
                        true => Treatment::SwapCompressed(codec),
                        false => Treatment::Compress(codec),
                    };
                }
            }
        }
    }
    treatments
}

pub(crate) fn all_feature_maps(problem: &Problem, treatment: Treatment) -> Vec<Treatment> {
    with(problem.keep_all(), &problem.feature_maps, treatment)
}

/// Some gaps treated alike, the others as they were.
pub(crate) fn with(
    mut treatments: Vec<Treatment>,
    gaps: &[GapId],
    treatment: Treatment,
) -> Vec<Treatment> {
    gaps.iter().for_each(|gap| treatments[*gap] = treatment);
    treatments
}

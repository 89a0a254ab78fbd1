//! Decisions that are an explicit schedule.

use simulator::{Policy, Step, Treatment};

use crate::{Decided, Problem};

impl Decided {
    /// Decisions that an explicit schedule carries out. What becomes of a tensor in a gap is read
    /// off the steps: swapped if it is copied out there, recomputed if it is dropped there, kept
    /// if neither.
    pub fn from_steps(problem: &Problem, steps: Vec<Step>, policy: Policy) -> Self {
        Self {
            treatments: treatments(problem, &steps),
            policy,
            considered: problem.feature_maps.clone(),
            steps: Some(steps),
            as_recorded: false,
        }
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
        }
    }
    treatments
}

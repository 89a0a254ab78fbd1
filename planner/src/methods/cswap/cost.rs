//! What swapping a tensor costs, with a codec and without: equations 3 to 6 of CSWAP+.

use schema::{CodecCost, Direction, Nanos, OpId, OpKind, Phase};
use simulator::GapId;

use crate::Problem;

/// What swapping one tensor costs beyond what computation hides (CSWAP+ section 5.3, table 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwapCost {
    /// `Size / BW_d2h`: time of the copy out.
    pub out: Nanos,
    /// `Size / BW_h2d`: time of the copy in.
    pub back: Nanos,
    /// `Hidden_f`: computation that hides the copy out.
    pub hidden_forward: Nanos,
    /// `Hidden_b`: computation that hides the copy in.
    pub hidden_backward: Nanos,
    /// `Time_c + Time_dc`: time of the codec, nothing without one.
    pub codec: Nanos,
}

impl SwapCost {
    /// `T'` (equation 3) without a codec, `T` (equation 4) with one.
    pub fn total(&self) -> Nanos {
        self.codec + self.exposed()
    }

    /// `O_f + O_b` (equations 5 and 6): what of the copies is not hidden.
    pub fn exposed(&self) -> Nanos {
        self.out.saturating_sub(self.hidden_forward)
            + self.back.saturating_sub(self.hidden_backward)
    }

    /// Swapping a gap's tensor as it is.
    ///
    /// The copy out runs beside the last forward op that uses the tensor, or follows it where that
    /// makes the tensor; the copy in runs beside the layer from which vDNN prefetches: all of `B_{n+1}`,
    /// the backward ops of the last convolution before the layer that needs the tensor. For the input of
    /// the topmost convolution, `B_{n+1}` is all backward computation above that.
    pub fn raw(problem: &Problem, id: GapId) -> Self {
        let gap = &problem.model.gaps()[id];
        let link = &problem.machine.link;
        Self {
            out: link.copy_time(Direction::D2h, gap.bytes),
            back: link.copy_time(Direction::H2d, gap.bytes),
            hidden_forward: offloading_op(problem, id),
            hidden_backward: prefetching_op(problem, gap.before.map(|op| op.index())),
            codec: Nanos::ZERO,
        }
    }

    /// Swapping what a codec makes of a gap's tensor.
    ///
    /// The compressed form is made right before the tensor's last use in the forward phase, so that
    /// its copy runs beside that use as the tensor's own does (figure 1(b)). Where that use makes
    /// the tensor, both follow it, and the copy runs beside the op that comes next.
    ///
    /// We depart in one point: `Size_comp` (equation 7) is what the plan reserves for the small
    /// form, with the mask or index and a margin, rather than `Size (1 - Sparsity)`.
    pub fn compressed(problem: &Problem, gap: GapId, cost: &CodecCost) -> Self {
        let link = &problem.machine.link;
        Self {
            out: link.copy_time(Direction::D2h, cost.reserved),
            back: link.copy_time(Direction::H2d, cost.reserved),
            codec: cost.compress + cost.decompress,
            ..Self::raw(problem, gap)
        }
    }
}

/// Time of the op beside which a gap's tensor leaves.
fn offloading_op(problem: &Problem, gap: GapId) -> Nanos {
    let gap = &problem.model.gaps()[gap];
    let made_there = problem.model.producer(gap.tensor) == Some(gap.after);
    let op = gap.after.index() + usize::from(made_there);
    problem.trace.ops.get(op).map_or(Nanos::ZERO, |op| op.duration)
}

/// Time of the layer from which what an op needs is prefetched.
fn prefetching_op(problem: &Problem, before: Option<usize>) -> Nanos {
    let (ops, model) = (&problem.trace.ops, &problem.model);
    let layer = |op: usize| model.layer(OpId(op as u32));
    let is_backward = |op: &usize| ops[*op].phase == Phase::Backward;
    let begin = before.map_or(ops.len(), |op| layer(op).index());
    let convolution = (0..begin)
        .rev()
        .find(|op| is_backward(op) && ops[*op].kind == OpKind::Convolution)
        .or_else(|| (0..begin).find(is_backward));
    let Some(hiding) = convolution.map(layer) else { return Nanos::ZERO };
    (hiding.index()..begin).filter(|op| layer(*op) == hiding).map(|op| ops[op].duration).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_computation_hides_costs_nothing() {
        let raw = SwapCost {
            out: Nanos(100),
            back: Nanos(120),
            hidden_forward: Nanos(30),
            hidden_backward: Nanos(200),
            codec: Nanos::ZERO,
        };
        assert_eq!(raw.total(), Nanos(70), "equation 3");
        let halved = SwapCost { out: Nanos(50), back: Nanos(60), codec: Nanos(15), ..raw };
        assert_eq!(halved.exposed(), Nanos(20), "equations 5 and 6");
        assert_eq!(halved.total(), Nanos(35), "equation 4");
        let hidden = SwapCost { hidden_forward: Nanos(100), ..raw };
        assert_eq!(hidden.total(), Nanos::ZERO);
    }
}

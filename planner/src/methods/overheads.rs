//! Which swaps are not hidden behind computation.

use schema::Nanos;
use simulator::{GapId, Record};

use crate::Problem;

/// Feature maps whose swapping is not hidden (PooCH 4.4.2): `L_O` those whose copy out, `L_I`
/// those whose copy in overlaps a moment at which compute stands idle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exposed {
    /// `L_O`, by the op after which the tensor leaves.
    pub outs: Vec<GapId>,
    /// `L_I`, by the op after which the tensor leaves.
    pub backs: Vec<GapId>,
}

impl Exposed {
    /// Reads the two sets off the timeline of swapping all `gaps`.
    pub fn of(problem: &Problem, gaps: &[GapId], record: &Record) -> Self {
        let idle = idle_spans(record);
        let overlaps_idle = |(start, end): (Nanos, Nanos)| {
            let first = idle.partition_point(|(_, idle_end)| *idle_end <= start);
            idle.get(first).is_some_and(|(idle_start, _)| *idle_start < end)
        };
        let exposed = |copies: &[simulator::RecordedCopy]| {
            let mut tensors: Vec<_> =
                copies.iter().filter(|c| overlaps_idle(c.span)).map(|c| c.tensor).collect();
            tensors.sort_unstable();
            let is_exposed =
                |gap: &GapId| tensors.binary_search(&problem.model.gaps()[*gap].tensor).is_ok();
            gaps.iter().copied().filter(is_exposed).collect()
        };
        Self { outs: exposed(&record.outs), backs: exposed(&record.backs) }
    }
}

fn idle_spans(record: &Record) -> Vec<(Nanos, Nanos)> {
    let mut free = Nanos::ZERO;
    let mut idle = Vec::new();
    for (start, end) in &record.runs {
        if *start > free {
            idle.push((free, *start));
        }
        free = *end;
    }
    idle
}

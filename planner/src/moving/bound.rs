//! A time that no plan can beat, wherever what outlives the iteration begins and ends it.
//!
//! Cut the ops into stretches. What is on the device when a stretch begins is no more than the budget,
//! what comes in included. So of the constants that its ops read, all but so many bytes come in by copies
//! that begin and end while the stretch runs; and of those that it changes, all but so many go out. These
//! copies run one after the other on their lane, and stretches one after the other on compute, so that an
//! iteration takes at least the sum over the stretches of the longest of the three: ops, copies in, copies
//! out. Any way to cut gives a bound; the best is found among some places.
//!
//! Where constants may be compressed, fewer bytes than theirs may be on the way, and only ops count.

use schema::{Bytes, Link, Nanos, OpId, TensorId};

use crate::bound::fastest;
use crate::cut::needed_at_least;
use crate::{Bound, Problem};

/// Stretches begin and end at so many places at most.
const PLACES: usize = 64;

/// What no plan beats that may have constants on the host between iterations.
pub(crate) fn bound(problem: &Problem) -> Bound {
    let (needed, op) = needed_at_least(problem, true);
    if needed > problem.budget {
        return Bound::Infeasible { needed, op };
    }
    let trace = problem.trace;
    let tensors = || (0..trace.tensors.len()).map(TensorId::from_index);
    let outlives = tensors().filter(|id| problem.model.last_use(*id).is_none());
    let all: Bytes = outlives.map(|id| trace.tensors[id.index()].bytes).sum();
    let needed = all.saturating_sub(problem.host_budget);
    if needed > problem.budget {
        let op = OpId::from_index(trace.ops.len().saturating_sub(1));
        return Bound::Infeasible { needed, op };
    }
    let total = trace.total_time().0;
    if problem.allowed.compress || !problem.allowed.swap {
        return Bound::Time(Nanos(total));
    }
    Bound::Time(Nanos(stretches(problem).max(total)))
}

/// The least time of the best stretches.
fn stretches(problem: &Problem) -> u64 {
    let trace = problem.trace;
    let ops = trace.ops.len();
    let every = ops.div_ceil(PLACES).max(1);
    let is_place = |op: &usize| {
        let turns = *op > 0 && *op < ops && trace.ops[*op].phase != trace.ops[*op - 1].phase;
        op.is_multiple_of(every) || *op == ops || turns
    };
    let places: Vec<usize> = (0..=ops).filter(is_place).collect();
    let mut least = vec![0u64; places.len()];
    let mut seen = vec![(usize::MAX, usize::MAX); trace.tensors.len()];
    for (from, begin) in places.iter().enumerate() {
        let (mut time, mut to) = (0, from + 1);
        let (mut read, mut changed) = ((0u64, 0), (0u64, 0));
        for op in *begin..ops {
            time += trace.ops[op].duration.0;
            for id in &trace.ops[op].reads {
                let (seen_read, seen_changed) = &mut seen[id.index()];
                let bytes = trace.tensors[id.index()].bytes.0;
                if problem.model.producer(*id).is_some() {
                    continue;
                }
                if std::mem::replace(seen_read, from) != from {
                    read = (read.0 + bytes, read.1 + 1);
                }
                let changes = problem.model.changes(OpId::from_index(op), *id);
                if changes && std::mem::replace(seen_changed, from) != from {
                    changed = (changed.0 + bytes, changed.1 + 1);
                }
            }
            if places.get(to) == Some(&(op + 1)) {
                let [out, back] = copies(&problem.machine.link, problem.budget.0, changed, read);
                least[to] = least[to].max(least[from] + time.max(out).max(back));
                to += 1;
            }
        }
    }
    least.last().copied().unwrap_or(0)
}

/// The least time of copies out and in of what exceeds the budget, of so many bytes in so many tensors.
fn copies(link: &Link, budget: u64, out: (u64, u64), back: (u64, u64)) -> [u64; 2] {
    [(&link.d2h, out), (&link.h2d, back)].map(|(bandwidth, (bytes, count))| {
        let nanos = bytes.saturating_sub(budget) as f64 * 1e9 / fastest(bandwidth);
        // A copy's time is rounded to the nearest nanosecond.
        ((nanos * (1.0 - 1e-9)) as u64).saturating_sub(count)
    })
}

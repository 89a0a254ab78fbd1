//! Ways to decide about activations that need no search: what is dearest to make again for its bytes is copied, as much
//! of it as the link may have time for, and the rest is made again.
//!
//! A search over the rest rests on room and time that copies of what moves may need. These rest on neither: all that is
//! there when most is there leaves, and what needs not have left is found when all copies are there
//! ([refill](super::refill)).

use std::cmp::Reverse;

use schema::{Direction, OpId};
use simulator::{GapId, Policy, Treatment};

use super::order::{ORDERS, alike};
use crate::bound::time_again;
use crate::kept_load::{fullest, kept_load};
use crate::{Decided, Problem};

/// How much is copied, in thousandths of what the link carries out until most is there.
const AMOUNTS: [u64; 5] = [550, 700, 850, 950, 1050];

/// Decisions about what has been made by the op during which most is there, and is used later.
pub(super) fn dearest(problem: &Problem) -> Vec<Decided> {
    let Problem { trace, model, machine, .. } = problem;
    if !problem.allowed.swap || !problem.allowed.recompute {
        return Vec::new();
    }
    let gaps = model.gaps();
    // Where nothing leaves before it is used for the last time.
    let fullest = OpId::from_index(fullest(&kept_load(problem)));
    let is_open = |gap: &GapId| {
        let of = &gaps[*gap];
        of.after < fullest && of.before.is_some_and(|next| next > fullest)
    };
    let open: Vec<GapId> = (0..gaps.len())
        .filter(|gap| is_open(gap) && model.producer(gaps[*gap].tensor).is_some())
        .collect();
    let mut is_saved = vec![false; trace.tensors.len()];
    open.iter().for_each(|gap| is_saved[gaps[*gap].tensor.index()] = true);
    let times = times(problem, fullest, &is_saved);
    let dear = |gap: &GapId| match times[gaps[*gap].tensor.index()] {
        Some(time) if problem.may_recompute(*gap) => alike(time, gaps[*gap].bytes.0),
        _ => u128::MAX,
    };
    let before: u64 = trace.ops[..fullest.index()].iter().map(|op| op.device_time().0).sum();
    let all: u64 = trace.tensors.iter().map(|tensor| tensor.bytes.0).sum();
    let policy = if all <= problem.host_budget.0 { Policy::ONCE_MADE } else { Policy::EARLY };
    let mut ways: Vec<Decided> = Vec::new();
    for order in ORDERS {
        let mut copied = open.clone();
        copied.sort_by_cached_key(|gap| {
            let after = gaps[*gap].after.index();
            (Reverse(dear(gap)), order.place(after, fullest.index()), *gap)
        });
        for amount in AMOUNTS {
            let mut left = u128::from(before) * u128::from(amount) / 1000;
            let mut treatments = problem.keep_all();
            open.iter().for_each(|gap| treatments[*gap] = Treatment::Recompute);
            for gap in &copied {
                let copy = u128::from(machine.link.copy_time(Direction::D2h, gaps[*gap].bytes).0);
                let must = dear(gap) == u128::MAX;
                if must || copy <= left {
                    treatments[*gap] = Treatment::Swap;
                    left = left.saturating_sub(copy);
                } else {
                    left = 0;
                }
            }
            if ways.iter().all(|way| way.treatments != treatments) {
                let way = Decided::new(treatments, policy, open.clone());
                ways.push(way.taken_from("the dearest to make again"));
            }
        }
    }
    ways
}

/// For each tensor made before an op, the time to make it again from what is saved; none where that cannot be.
fn times(problem: &Problem, until: OpId, is_saved: &[bool]) -> Vec<Option<u64>> {
    let Problem { trace, model, .. } = problem;
    let mut times: Vec<Option<u64>> = vec![Some(0); trace.tensors.len()];
    for op in (0..until.index()).map(OpId::from_index) {
        let of = &trace.ops[op.index()];
        let read = of.reads_again().iter().filter(|id| model.producer(**id).is_some());
        let read = read.filter(|id| !is_saved[id.index()]);
        let mut time = problem.may_run_again(op).then(|| time_again(problem, op));
        for id in read {
            time = time.zip(times[id.index()]).map(|(one, other)| one.saturating_add(other));
        }
        for id in &of.writes {
            times[id.index()] = time.filter(|_| model.remade_by(*id) == Some(op));
        }
    }
    times
}

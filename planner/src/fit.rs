//! Decisions that fit byte for byte and not address for address, lowered with less memory.

use schema::{Bytes, Nanos, Plan};

use crate::{Decided, PlanError, Problem, Result, lower};

/// How often a decision is lowered with ever less memory until its buffers can be packed into the
/// whole budget: what fits byte for byte need not fit address for address, and copies in that
/// start a little later leave room.
const LOWERINGS: usize = 8;

/// How often the middle between two of these is tried.
const MIDDLES: usize = 2;

/// Lowers decisions for `target` bytes, or for as much less as it takes to pack them; then for the
/// middle between what could be packed and what could not, as long as that is faster.
pub(crate) fn lower_where_it_fits(
    problem: &Problem,
    target: Bytes,
    decided: &Decided,
) -> Result<Plan> {
    match decided.lowered_in {
        Some(room) => lower(problem, room, decided),
        None => Ok(lowered_in(problem, target, decided, Nanos(u64::MAX))?.0),
    }
}

/// The same, and the room in which that is. Where they take no less with less memory than what is `known`, they are not
/// lowered.
pub(crate) fn lowered_in(
    problem: &Problem,
    target: Bytes,
    decided: &Decided,
    known: Nanos,
) -> Result<(Plan, Bytes)> {
    let (mut room, mut too_much) = (target, target);
    let mut failure = None;
    let mut packed = None;
    for _ in 0..LOWERINGS {
        match lower(problem, room, decided) {
            Ok(plan) => {
                packed = Some((plan, room));
                break;
            }
            Err(error @ PlanError::Fragmented { short_by, budget, peak, .. }) => {
                failure.get_or_insert(error);
                too_much = room;
                // With any room that has its peak, the plan would be the same.
                room = share(shrunk(room, budget, short_by).min(peak), 998);
                if decided.evaluated(problem, room).is_ok_and(|time| time >= known) {
                    break;
                }
            }
            // What does not fit this target fits no smaller one.
            Err(error) => return Err(failure.unwrap_or(error)),
        }
    }
    let Some((mut plan, mut room)) = packed else {
        return Err(failure.expect("one was lowered"));
    };
    let mut enough = room;
    for _ in 0..MIDDLES {
        let middle = enough + Bytes((too_much - enough).0 / 2);
        if middle - enough <= share(target, 1) {
            break;
        }
        match lower(problem, middle, decided) {
            Ok(other) => {
                enough = middle;
                if other.predicted.iteration < plan.predicted.iteration {
                    (plan, room) = (other, middle);
                }
            }
            Err(_) => too_much = middle,
        }
    }
    Ok((plan, room))
}

/// As much less memory as if the arena, which is too large by some bytes, shrank with it.
pub(crate) fn shrunk(target: Bytes, budget: Bytes, short_by: Bytes) -> Bytes {
    let wanted = u128::from(target.0) * u128::from(budget.0);
    Bytes((wanted / u128::from((budget + short_by).0)) as u64)
}

pub(crate) fn share(budget: Bytes, permille: u64) -> Bytes {
    Bytes((u128::from(budget.0) * u128::from(permille) / 1000) as u64)
}

/// The least number that serves, where more serve as well; one more than there are where none does.
pub(crate) fn fewest(most: usize, mut serves: impl FnMut(usize) -> bool) -> usize {
    let (mut none, mut enough) = (0, most + 1);
    while none < enough {
        let middle = none + (enough - none) / 2;
        if serves(middle) { enough = middle } else { none = middle + 1 }
    }
    enough
}

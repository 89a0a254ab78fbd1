//! Several places of one iteration, where nothing is compressed.
//!
//! One place charges each op that is run again once. What cannot be held until then at a second
//! place is made twice, and what is made again between two places needs what it is made from. The
//! places are ops `q_0 < q_1 < ...`, and the end of the iteration comes after them. Every plan
//! decides, 0/1:
//!
//! - *held*: `S(k, t)`, a buffer of tensor `t`, made before `q_k`, is on the device when `q_k`
//!   starts;
//! - *again*: `W(k, l, i)`, op `i`, which comes before `q_k`, is run again at least once after `q_k`
//!   has started and ends before `q_l` starts.
//!
//! What `q_k` reads, what has no size, what no op makes and what the caller holds counts as held. With `p` the op that makes
//! `t`, every plan keeps:
//!
//! 1. the bytes of all held at `q_k` fit, beside what `q_k` uses;
//! 2. `t` is read by an op after `q_k` and up to `q_l` (or there at the end):
//!    `1 <= S(k, t) + W(k, l, p)`;
//! 3. `S(l, t) <= S(k, t) + W(k, l, p)`;
//! 4. `i` reads `t`: `W(k, l, i) <= S(k, t) + W(k, l, p)`;
//! 5. `W(k, l, i) <= W(k, m, i) + W(m, l, i)`, for `m` between `k` and `l`;
//!
//! and takes at least the time of each `W(k, k + 1, i)` beyond that of its ops.
//!
//! *Why.* A buffer that is there at a moment after `q_k` has started was there then, or a run has
//! written it since: not the first run of its op, which was before, so it was run again. If that
//! moment is before `q_l` ends, that run had ended before `q_l` started, as compute runs one op
//! after the other; this is 2, 3 and, as a rerun reads buffers, 4. One of two stretches of time
//! holds what both together hold, which is 5. Two reruns of an op in different stretches are two.
//! No place has to be there: any choice of them gives a bound, and so does leaving rows out.
//!
//! # Copies
//!
//! Where tensors may be copied out and in, what no op makes may be away, too, but for what the caller
//! holds. Of a copy that is under way when a place starts a *part* is done, between 0 and 1. Held is
//! then the largest part of a buffer of `t` that is there: all of one that has been filled, and of
//! one that is being copied in what is done of it. Every plan decides besides, between 0 and 1:
//!
//! - *out*: `O(k, t)`, the largest part that is done of a copy out of `t` when `q_k` starts; 0 where
//!   `t` has not been made by then;
//! - *back*: `B(k, l, t)`, the parts together, or one where they are more, that are done between the
//!   starts of `q_k` and `q_l` of copies in of `t`: of those that bring what a copy out had taken that
//!   had ended before `q_k` started;
//! - *lost*: `L(k)`, the time between the starts of `q_k` and the next place, or before the first, in
//!   which compute does not do what would be its ops' and, once, the reruns' of that stretch if
//!   nothing were beside them.
//!
//! In 2, 3 and 4, `W(k, l, p) + B(k, l, t)` takes the place of `W(k, l, p)`, and
//!
//! 6. `B(k, l, t) <= O(k, t)`, and `O(k, t) <= O(l, t)`;
//! 7. `B(k, l, t) <= B(k, m, t) + B(m, l, t)`, for `m` between `k` and `l`;
//! 8. the times for copying in of each `B(k, k + 1, t)` are together at most the time from `q_k` to the
//!    next place, which is that of the ops from `q_k` on, of each `W(k, k + 1, i)`, and `L(k)`;
//! 9. the times for copying out of each `O(k + 1, t) - O(k, t)` are so, too, and before the first place
//!    those of each `O(0, t)`.
//!
//! All `L(k)` are time beyond that of the ops.
//!
//! *Why.* Take a whole buffer of `t` at a moment after `q_k` has started and before `q_l` ends, and go
//! back to what filled it. It was whole when `q_k` started: `S(k, t)` is 1. Or a rerun of `p` filled
//! it since. Or a copy in, which ended since. What that brought had been copied out, and if this had
//! ended before `q_k` started, one part of the copy in was done by then, which is in `S(k, t)`, and
//! the rest since, which is in `B(k, l, t)`. Else the copy out ended after `q_k` had started, and the
//! buffer that it read was whole then: go back from that, which is earlier. So the three together are
//! at least 1; this is 2 and 4. Of a buffer that is being copied in when `q_l` starts, the part that
//! is done was done before `q_k` started or since, or else what it brings was copied out since, from a
//! whole buffer, from which to go back; this is 3. An update changes a buffer and does not fill it, so
//! that all of this holds of buffers of `t` whichever its version; but copies may have kept one for
//! an op to run again that could not otherwise. What has begun to come back from before `q_k` was out
//! before; what is done stays done; what was out before `q_k` was so before `q_m`, and what is done
//! between `k` and `l` is done before or after `q_m`: 6 and 7. A lane does one thing after the other
//! and nothing faster than alone, and compute has nothing to do between the starts of two places but
//! the ops from the one to the other and reruns: 8 and 9. Nothing begins on the host in the plans that
//! this is for, and what no op makes is there when they end.
//!
//! `L(k)` is bounded by a time that plans are not to be shown to take: those that lose more are slower
//! than that.
//!
//! # The programme
//!
//! All rows but those of 1, 8 and 9 have one form: what is wanted is at most the sum of two that give
//! it. (`W(k, l, p) + B(k, l, t)` gives its sum to one share, which is wanted of it in turn.) The
//! others are stores of bytes and of time. Shares of all these are a linear programme, whose rows have
//! prices that are not negative; at
//! *any* such prices, what each share costs at its best between 0 and 1 is a bound, which is
//! summed up in whole numbers. Good prices are found by a first-order method (`climb.rs`), so that
//! ending early costs tightness alone. They carry over to more places, and with them most of the
//! bound (`carry_over.rs`). These are put where a plan that takes these decisions and does all else as
//! late as can be has most on the device (`places.rs`). Where nothing is copied, what is held is 0 or 1 in every plan, and cases of
//! that raise the bound once more (`branched.rs`).

mod branched;
mod carry_over;
mod climb;
mod copies;
mod facts;
mod places;
mod programme;

use schema::TensorId;

use super::Several;
use super::carried::Had;
use super::lazy::{loads, reruns};
use crate::Problem;
use crate::kept_load::certain_load;
use crate::runs::Rerun;
use branched::branched;
use climb::Climb;
use facts::Facts;
pub(super) use places::Reached;
use programme::Programme;

/// How many rows and shares all iterations may look at, per evaluation that the limits allow: for places, at first and in
/// each round of more, and for cases.
const WORK: u64 = 1000;
const CASES_WORK: u64 = 2000;

/// So many rounds of more places there are, as long as each raises the bound by this part of it.
const ROUNDS: usize = 8;
const RAISED: f64 = 5e-3;

/// So many places are tried at once, of as many as there are: at first one.
const ONE_BY_ONE: f64 = 0.0;
const AT_ONCE: f64 = 0.3;

/// What is held in the schedules that are made of shares: what has more than this.
const HELD_FROM: [f64; 3] = [0.5, 0.2, 0.8];

/// What is copied out by then that is not held, if it may be made again, too: what has more than this.
const OUT_FROM: f64 = 0.5;

impl Programme<'_> {
    /// The schedule in which what has at least such a share is held, and all else happens as late as
    /// can be. Items that copy in are numbered after the ops, by their tensors.
    fn schedule(&self, found: &Climb, share: f64) -> Vec<Rerun> {
        let facts = self.facts;
        let has = |id: Option<u32>, more_than: f64| {
            id.is_some_and(|id| found.shares[id as usize] > more_than)
        };
        let had = |at: usize, tensor: TensorId| {
            let index = tensor.index();
            if has(self.is_held(at, index), share) {
                return Had::Held;
            }
            let may_be_back = facts.copies && facts.is_made(index, self.places[at]);
            let is_out = || !facts.is_remade(index) || has(self.is_out(at, index), OUT_FROM);
            match may_be_back && is_out() {
                true => Had::Back((facts.problem.trace.ops.len() + index) as u32),
                false => Had::Not,
            }
        };
        reruns(facts.problem, &self.places, &had)
    }

    /// What is on the device then, by op.
    fn load(&self, found: &Climb) -> Vec<u64> {
        loads(self.facts.problem, &self.schedule(found, 0.5))
    }
}

/// What several places show, from a first one on, if that is more than what is known.
pub(super) fn several(
    problem: &Problem,
    first: usize,
    known: u64,
    proceed: &dyn Fn(u64, u64) -> bool,
) -> Several {
    let facts = facts(problem, known);
    let (mut work, proceed) = limited(problem, WORK, proceed);
    let mut programme = Programme::new(&facts, &[first]);
    let mut reached = Reached::at_first(&programme, (&mut work, &proceed));
    reached.look_on(&mut programme, known, ONE_BY_ONE, (&mut work, &proceed));
    // A search makes sequences of its own where anything is copied.
    let sequences = match facts.copies {
        true => Vec::new(),
        false => HELD_FROM.map(|share| programme.schedule(&reached.best, share)).to_vec(),
    };
    Several { extra: reached.extra.max(known), sequences, reached: Some(reached) }
}

/// The same with more time: cases of what is held at the places, more places for as long as these raise it, and cases of what
/// is held at all of them. Returns what no plan can beat.
pub(super) fn tightened(
    problem: &Problem,
    (mut reached, known): (Reached, u64),
    proceed: &dyn Fn(u64, u64) -> bool,
) -> u64 {
    let facts = facts(problem, known);
    let mut programme = Programme::new(&facts, &reached.places);
    let cases = |programme: &mut Programme, reached: &Reached| {
        let (mut work, may_go_on) = limited(problem, CASES_WORK, proceed);
        match facts.copies {
            true => reached.extra,
            false => branched(programme, &reached.best, reached.extra, (&mut work, &may_go_on)),
        }
    };
    let first = cases(&mut programme, &reached);
    let few = reached.extra;
    for _ in 0..ROUNDS {
        let before = reached.extra;
        let (mut work, may_go_on) = limited(problem, WORK, proceed);
        reached.look_on(&mut programme, known, AT_ONCE, (&mut work, &may_go_on));
        if !is_raised(before, reached.extra) {
            break;
        }
    }
    let more = match is_raised(few, reached.extra) {
        true => cases(&mut programme, &reached),
        false => reached.extra,
    };
    known.max(first).max(more)
}

/// Whether a bound is raised by as much as is worth the time.
fn is_raised(before: u64, after: u64) -> bool {
    after.saturating_sub(before) as f64 > RAISED * before as f64
}

fn facts<'a>(problem: &'a Problem<'a>, known: u64) -> Facts<'a> {
    let most = certain_load(problem).into_iter().max().unwrap_or(0);
    let price = known as f64 / most.saturating_sub(problem.budget.0).max(1) as f64;
    Facts::new(problem, known, price)
}

/// So much work, and whether to go on where so much is left of it.
fn limited<'a>(
    problem: &Problem,
    work: u64,
    proceed: &'a dyn Fn(u64, u64) -> bool,
) -> (usize, impl Fn(usize) -> bool + 'a) {
    let limit = problem.limits.evaluations.saturating_mul(work);
    let work = usize::try_from(limit).unwrap_or(usize::MAX);
    (work, move |left: usize| left > 0 && proceed(limit.saturating_sub(left as u64), limit))
}

//! A time that no plan can beat, from one place of the iteration: a minimum cut.
//!
//! The *place* is the moment at which some op `q` starts for the first time. Compute has run the
//! ops before `q` by then, which took at least their time `before`, and has `q` and the others to
//! run, of the time `after`. Call what a plan takes beyond these two, until the place and from it
//! on, `X` and `Y`: the iteration takes `before + after + X + Y`.
//!
//! What `q` reads and writes is on the device, and what is held. Of every other tensor `t` that was made before `q`,
//! constants included, a plan decides at least this much:
//!
//! - *have* `t`, in one of its ways (`ways.rs`): a buffer of it is there (its bytes of
//!   [`ways::MEMORY`]); or it was copied out before and comes back ([`ways::OUT`], [`ways::IN`]);
//!   or its compressed form by a codec is there, or goes that way, and a compression before and a
//!   decompression after take their time;
//! - run the op `i` that makes it *again*, at least once, after the place ([`ways::SPENT`]).
//!
//! Every plan then keeps these conditions. 0/1: `have(t)`, `again(i)`.
//!
//! 1. What is had by [`ways::MEMORY`] fits, beside what `q` uses: buffers that are there at one
//!    moment share no address, but for the in-place pairs of `q`, of which the smaller tensor is
//!    not counted.
//! 2. `t` is used by an op after `q`, or there at the end: `have(t) + again(maker of t) >= 1`.
//! 3. `i` reads `t`: `again(i) <= have(t) + again(maker of t)`.
//! 4. `X` is at least the time of copies out less `before`, and at least what compute loses before;
//!    `Y` is at least the time of copies in less `after`, and at least what reruns and codecs take
//!    of compute after the place. The same for a lane of codecs, if there is one.
//!
//! *Why.* Take a buffer from which `t` is read after the place, and go back to what filled it.
//! Either it is there at the place; or `i` made it in a rerun; or a copy in, which began after the
//! place, as a buffer is there from the start of what fills it. What that brought had been copied
//! out from a buffer of `t`: one that is there at the place, or one that was filled later, from
//! which we go back once more; or the copy had ended before the place. A decompression in the same
//! way reads a compressed form that is there at the place, or came from the host, and so was
//! compressed before it, or was compressed later from a buffer from which we go back. Each step
//! leads to something earlier, so this ends with `have(t)` or `again(i)`; this is 2, and, for what
//! a rerun reads, 3. A lane runs one action after the other and nothing is faster beside others
//! than alone, which is 4. Ops after `q` have not run, so what they make is not looked at, nor are
//! their reruns. An op that cannot be run again after the place has no `again`; nor a constant.
//!
//! *Prices.* Give each row (memory, and each condition of 4) a price, those of `X` at most one
//! together, and those of `Y`. Then `X + Y` is at least the least cost of all choices under 2 and 3
//! at these prices, less what there is of each row times its price: *every* prices give a bound,
//! and which is a question of tightness alone. At given prices a choice costs a sum over tensors
//! and ops, and 2 and 3 say what must not be on the source's side without being paid for, so that
//! the least is a cut: the source leads to every `t` of 2 without limit; `t` to its maker with what
//! its cheapest way costs; `i` to what it reads without limit, and to the sink with what its rerun
//! costs. Prices and costs are whole numbers, and so is the cut; prices are found by cutting planes
//! (`prices.rs`), each cut being a plane.

mod carried;
mod flow;
mod late;
mod lazy;
mod place;
mod prices;
mod several;
mod ways;

use schema::{Bytes, OpId, TensorId};

use crate::Problem;
use crate::kept_load::{certain_load, used_bytes};
use crate::points::Points;
use crate::runs::Rerun;
pub(crate) use carried::{Carried, carried};
pub(crate) use lazy::lazy;
use place::{Place, Taken};
use prices::Prices;
use several::Reached;
use ways::{MEMORY, ROWS, Rows, Ways};

/// Places at which cuts are made, the fullest of as many stretches of the iteration; where nothing
/// is copied or compressed, the fullest are the best.
const PLACES: usize = 32;
const PLACES_WITHOUT_COPIES: usize = 4;

/// Where something is, as many ops around the best of these are looked at, too.
const MORE_PLACES: usize = 200;

/// Prices that are tried at one place.
const ROUNDS: usize = 40;

/// How often all cuts together may look at a node or an arc.
const WORK: usize = 15_000_000;

/// Prices are good enough when they leave this share, in millionths, of the bound to be gained.
const CLOSE: f64 = 50.0;

/// What cuts say of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cuts {
    /// The iteration takes at least this much, in nanoseconds, beyond the time of its ops.
    Extra(u64),
    /// This much is on the device when an op starts, or at the end, whatever the plan.
    Needs(Bytes, OpId),
}

/// Bytes that an op, or else the end of the iteration, has on the device at once, whatever the
/// plan, random states included; and which. No smaller budget can do.
pub fn least_budget(problem: &Problem) -> (Bytes, OpId) {
    let (needed, op) = needed_at_least(problem, problem.allowed.swap);
    (needed + problem.trace.random_bytes(), op)
}

/// The same without random states, as a problem's budget is. What outlives the iteration and no op
/// makes may end it on the host, where it may move.
pub(crate) fn needed_at_least(problem: &Problem, moves: bool) -> (Bytes, OpId) {
    let trace = problem.trace;
    let ops = trace.ops.len();
    let bytes = |tensor: usize| trace.tensors[tensor].bytes.0;
    // What no op makes never leaves where nothing is copied or compressed. What is held counts in
    // any case.
    let stays = !problem.allowed.swap && !problem.allowed.compress;
    let constants: Vec<bool> = (0..trace.tensors.len())
        .map(TensorId::from_index)
        .map(|t| stays && problem.model.producer(t).is_none() && !problem.model.is_held(t))
        .collect();
    let all: u64 = (0..trace.tensors.len()).filter(|t| constants[*t]).map(bytes).sum();
    let ends_there = |tensor: &usize| {
        let id = TensorId::from_index(*tensor);
        let may_be_away =
            moves && problem.model.producer(id).is_none() && !problem.model.is_held(id);
        problem.model.last_use(id).is_none() && !may_be_away
    };
    let end: u64 = (0..trace.tensors.len()).filter(ends_there).map(bytes).sum();
    let mut most = (end, ops.saturating_sub(1));
    for (index, op) in trace.ops.iter().enumerate() {
        if moves && problem.update_time_there(OpId::from_index(index)).is_some() {
            continue;
        }
        let used = op.reads.iter().map(|tensor| tensor.index()).filter(|t| constants[*t]);
        let needed = used_bytes(problem, index) + all - used.map(bytes).sum::<u64>();
        if needed > most.0 {
            most = (needed, index);
        }
    }
    (Bytes(most.0), OpId::from_index(most.1))
}

/// The best bound of a few places, and the place.
pub(crate) fn cuts(problem: &Problem) -> (Cuts, usize) {
    let (needed, op) = needed_at_least(problem, false);
    if needed > problem.budget {
        return (Cuts::Needs(needed, op), op.index());
    }
    let mut search = Search::new(problem);
    (search.look_around().unwrap_or(Cuts::Extra(search.extra)), search.best_at)
}

/// Whether a cut at one of these places says that an iteration takes at least this much, in nanoseconds, beyond the
/// time of its ops, or that nothing fits there.
pub(crate) fn takes_at_least(problem: &Problem, places: &[usize], extra: u64) -> bool {
    let mut search = Search::new(problem);
    search.extra = extra.saturating_sub(1);
    places.iter().any(|place| search.look_at(*place).is_some() || search.extra >= extra)
}

/// What several places together say, where nothing is compressed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Several {
    /// The iteration takes at least this much, in nanoseconds, beyond the time of its ops.
    pub extra: u64,
    /// What they hold, carried out as late as can be, where nothing is copied. Nothing says that it fits.
    pub sequences: Vec<Vec<Rerun>>,
    /// How far that came.
    reached: Option<Reached>,
}

impl Several {
    /// What they say with more time. Told not to proceed, what it has.
    pub fn tightened(&self, problem: &Problem, proceed: &dyn Fn(u64, u64) -> bool) -> u64 {
        match &self.reached {
            Some(reached) => several::tightened(problem, (reached.clone(), self.extra), proceed),
            None => self.extra,
        }
    }
}

/// What several places say. Told not to proceed, it says what it has.
pub(crate) fn more_places(problem: &Problem, proceed: &dyn Fn(u64, u64) -> bool) -> Several {
    match problem.cuts() {
        (Cuts::Extra(extra), at) if extra > 0 && !problem.allowed.compress => {
            several::several(problem, at, extra, proceed)
        }
        _ => Several::default(),
    }
}

/// What has been found so far.
struct Search<'a> {
    problem: &'a Problem<'a>,
    ways: Ways,
    /// The time of the ops before each.
    start: Vec<u64>,
    extra: u64,
    best_at: usize,
    /// Nodes and arcs that may still be gone through.
    work: usize,
}

impl<'a> Search<'a> {
    fn new(problem: &'a Problem<'a>) -> Self {
        let mut start = vec![0];
        for op in &problem.trace.ops {
            start.push(start[start.len() - 1] + op.device_time().0);
        }
        Self { problem, ways: Ways::new(problem), start, extra: 0, best_at: 0, work: WORK }
    }

    /// Looks at the fullest places, and at more around the best. Returns what one needs where that
    /// is more than there is.
    fn look_around(&mut self) -> Option<Cuts> {
        let load = certain_load(self.problem);
        let (may, budget) = (self.problem.allowed, self.problem.budget.0);
        let is_full = |op: &usize| load[*op] > budget;
        let points = Points::new(self.problem, &load, PLACES);
        let alone = !may.swap && !may.compress;
        let mut ops: Vec<usize> = points.ops.iter().copied().filter(is_full).collect();
        ops.sort_by_key(|op| (std::cmp::Reverse(load[*op]), *op));
        ops.truncate(if alone { PLACES_WITHOUT_COPIES } else { PLACES });
        for op in ops {
            if let Some(needed) = self.look_at(op) {
                return Some(needed);
            }
        }
        if !alone && self.extra > 0 {
            let mut near: Vec<usize> = (0..load.len()).filter(|op| is_full(op)).collect();
            near.sort_by_key(|op| (op.abs_diff(self.best_at), *op));
            for op in near.into_iter().skip(1).take(MORE_PLACES) {
                if let Some(needed) = self.look_at(op) {
                    return Some(needed);
                }
            }
        }
        None
    }

    /// The time of the ops before one, and that of the others.
    fn times(&self, op: usize) -> [u64; 2] {
        [self.start[op], self.start[self.start.len() - 1] - self.start[op]]
    }

    /// Looks at one place. Returns what it needs where that is more than there is.
    fn look_at(&mut self, op: usize) -> Option<Cuts> {
        if self.work < self.problem.model.tensors() {
            return None;
        }
        let times = self.times(op);
        let mut place = Place::new(self.problem, &self.ways, op, times);
        // Finding what there is at a place goes through all tensors.
        self.work = self.work.saturating_sub(self.problem.model.tensors() + place.size());
        let short_by = place.short_by(&mut self.work);
        if short_by > 0 {
            let needed = i128::from(self.problem.budget.0) + short_by;
            let needed = Bytes(u64::try_from(needed).unwrap_or(u64::MAX));
            return Some(Cuts::Needs(needed, OpId::from_index(op)));
        }
        let known = self.extra;
        let extra = extra_at(self.problem, &mut place, known, &mut self.work, |_, _, _| {});
        if extra > self.extra {
            (self.extra, self.best_at) = (extra, op);
        }
        None
    }
}

/// The most that prices at one place show, if that is more than what is known already. Tells of
/// each choice that is the best at some prices.
fn extra_at(
    problem: &Problem,
    place: &mut Place,
    known: u64,
    work: &mut usize,
    mut tell: impl FnMut(&Place, &Rows, &Taken),
) -> u64 {
    let again = |op: &schema::Op| op.device_time_again().0;
    let time = problem.trace.device_time().0 + problem.trace.ops.iter().map(again).sum::<u64>();
    let mut prices = Prices::new(time, problem.budget.0);
    // All is there, all away, all made again.
    let mut memory = [0; ROWS];
    memory[MEMORY] = 1;
    let mut times = [1; ROWS];
    times[MEMORY] = 0;
    for (all_again, ways) in [(false, times), (false, memory), (true, memory)] {
        prices.learn(place.all_or_none(all_again, &ways));
    }
    let mut extra = 0;
    for _ in 0..ROUNDS {
        let Some((tried, most)) = prices.best() else { break };
        let close = extra as f64 * (1.0 + CLOSE / 1e6);
        if most <= known as f64 || most <= close || *work < place.size() {
            break;
        }
        *work -= place.size();
        let taken = place.least(&tried, work);
        let least = taken.least.max(0) as u128;
        extra = extra.max(u64::try_from(least.div_ceil(prices.one.into())).unwrap_or(u64::MAX));
        tell(place, &tried, &taken);
        prices.learn(taken.beyond);
    }
    extra
}

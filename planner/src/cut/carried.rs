//! A cut with copies and codecs as a schedule: what it holds at the place is held, what it copies or
//! compresses has left by then and comes back when it is needed, and the rest is made again when it
//! is needed, each op once.

use schema::TensorId;

use super::ways::{CODE, DECODE, IN, LOST, MEMORY, OUT, SPENT};
use super::{Place, Search, extra_at};
use crate::Problem;
use crate::runs::{Parts, Prices, Rerun, Reruns, Way};

/// So many of the best choices that fit are carried out, and of those that do not.
const CHOICES: usize = 3;

/// A lane's price against compute's is no less and no more than this.
const PRICES: (f64, f64) = (0.02, 20.0);

/// What a cut says of schedules.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    /// A few of the best choices, those first that fit at the place. Nothing says that they fit
    /// elsewhere.
    pub sequences: Vec<Vec<Rerun>>,
    /// What a nanosecond of each lane is worth against one of compute, at the prices that show most.
    pub lanes: Option<Prices>,
}

/// What a choice does with a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Had {
    Not,
    Held,
    Back(u32),
}

/// The choices of cuts at the place where an op starts; none where nothing has to leave.
pub(crate) fn carried(problem: &Problem, parts: &Parts, place: usize) -> Carried {
    let mut search = Search::new(problem);
    let times = search.times(place);
    let mut choices: Vec<(bool, i128, Vec<Had>)> = Vec::new();
    let mut carried = Carried::default();
    let mut most = 0;
    let mut at = Place::new(problem, &search.ways, place, times);
    extra_at(problem, &mut at, 0, &mut search.work, |at, prices, taken| {
        if taken.least > most {
            let price = |row: usize| prices[row] as f64 / prices[SPENT].max(1) as f64;
            most = taken.least;
            let lanes = [OUT, IN, CODE, DECODE];
            carried.lanes = Some(lanes.map(|row| price(row).clamp(PRICES.0, PRICES.1)));
        }
        let mut had = vec![Had::Not; problem.model.tensors()];
        at.had(prices, |tensor, way| {
            let way: Option<Way> = search.ways.kind(tensor, way);
            let item = way.and_then(|way| parts.item_of(tensor, way));
            had[tensor as usize] = item.map_or(Had::Held, Had::Back);
        });
        let most =
            |rows: [usize; 3]| rows.into_iter().map(|row| taken.beyond[row]).fold(0, i128::max);
        let time = most([OUT, LOST, CODE]) + most([IN, SPENT, DECODE]);
        let over = taken.beyond[MEMORY].max(0);
        // What does not fit has more to leave, at the price of memory.
        let more = over * i128::from(prices[MEMORY]) / i128::from(prices[SPENT].max(1));
        choices.push((over > 0, time + more, had));
    });
    choices.sort();
    choices.dedup();
    let beyond = choices.partition_point(|(over, _, _)| !over);
    let (fitting, over) = choices.split_at(beyond);
    let chosen = fitting.iter().take(CHOICES).chain(over.iter().take(CHOICES));
    carried.sequences = chosen.filter_map(|(_, _, had)| sequence(problem, place, had)).collect();
    carried
}

/// The schedule in which all comes back as late as it can; none where something cannot by then.
fn sequence(problem: &Problem, place: usize, had: &[Had]) -> Option<Vec<Rerun>> {
    let trace = problem.trace;
    let mut reruns = Reruns::default();
    // Before the place all that has been made is there until its last use.
    let mut is_there = vec![true; had.len()];
    for (index, op) in trace.ops.iter().enumerate() {
        if index == place {
            for tensor in trace.tensors.iter().enumerate().map(|(t, _)| TensorId::from_index(t)) {
                let maker = problem.model.producer(tensor);
                let had = had[tensor.index()];
                let empty = trace.tensors[tensor.index()].bytes.0 == 0;
                let stays =
                    maker.is_none() && had == Had::Not || problem.model.holds(tensor, index);
                is_there[tensor.index()] =
                    had == Had::Held || stays || empty || op.reads.contains(&tensor);
            }
        }
        for tensor in &op.reads {
            bring_back(problem, *tensor, index, had, &mut is_there, &mut reruns)?;
        }
        op.writes.iter().for_each(|tensor| is_there[tensor.index()] = true);
    }
    for tensor in (0..had.len()).map(TensorId::from_index) {
        if problem.model.last_use(tensor).is_none() {
            bring_back(problem, tensor, trace.ops.len(), had, &mut is_there, &mut reruns)?;
        }
    }
    Some(reruns.all)
}

/// Runs again what is needed to have a tensor before an op, inputs first.
fn bring_back(
    problem: &Problem,
    tensor: TensorId,
    before: usize,
    had: &[Had],
    is_there: &mut [bool],
    reruns: &mut Reruns,
) -> Option<()> {
    let mut stack = vec![tensor];
    while let Some(wanted) = stack.last().copied() {
        if is_there[wanted.index()] {
            stack.pop();
            continue;
        }
        if let Had::Back(item) = had[wanted.index()] {
            is_there[wanted.index()] = true;
            reruns.push(before, item);
            continue;
        }
        let maker = problem.model.remade_by(wanted)?;
        if problem.model.rerunnable_until(maker) < before {
            return None;
        }
        let op = &problem.trace.ops[maker.index()];
        match op.reads_again().iter().find(|input| !is_there[input.index()]) {
            Some(input) => stack.push(*input),
            None => {
                op.writes_again().iter().for_each(|tensor| is_there[tensor.index()] = true);
                reruns.push(before, maker.0);
            }
        }
    }
    Some(())
}

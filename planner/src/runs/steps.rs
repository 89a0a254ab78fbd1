//! Sequences of runs as steps of an explicit schedule, and back.

use schema::{OpId, TensorId};
use simulator::{NO_OP, Step, Work};

use super::{Item, LABEL_BITS, Parts, Rerun, SPACING, Way, stage};
use crate::{Decided, Problem};

/// How a tensor leaves after a stay.
#[derive(Clone, Copy, PartialEq)]
enum Leaves {
    /// It does not: something reads it, or it has to be there at the end.
    Not,
    Dropped,
    By(Way),
}

/// The steps of a schedule with these reruns and items, in their order. Whatever is not read again
/// before it is made again is dropped, and what an item brings back leaves by the item's way.
pub(crate) fn steps_of(problem: &Problem, parts: &Parts, reruns: &[Rerun]) -> Vec<Step> {
    let ops = problem.trace.ops.len();
    let stays = |tensor: usize| {
        let tensor = TensorId::from_index(tensor);
        problem.model.producer(tensor).is_none() || problem.model.last_use(tensor).is_none()
    };
    let mut leaves: Vec<Leaves> = (0..problem.trace.tensors.len())
        .map(|tensor| if stays(tensor) { Leaves::Not } else { Leaves::Dropped })
        .collect();
    let mut steps = Vec::with_capacity(2 * (ops + reruns.len()));
    let mut earlier = reruns.iter().rev().peekable();
    // From the end, since only what comes later says how a tensor leaves.
    for op in (0..=ops).rev() {
        if op < ops {
            leave(problem, OpId::from_index(op), op, &mut leaves, &mut steps);
            steps.push(Step::Run(OpId::from_index(op)));
        }
        while let Some((_, again)) = earlier.next_if(|(key, _)| stage(*key) == op) {
            match parts.item(*again) {
                Some(Item { holds: true, .. }) => {}
                Some(item) => {
                    // What nothing reads need not come back.
                    let tensor = &mut leaves[item.tensor as usize];
                    if *tensor == Leaves::Not {
                        *tensor = Leaves::By(item.way);
                    }
                }
                None => {
                    leave(problem, OpId(*again), op, &mut leaves, &mut steps);
                    steps.push(Step::Again(OpId(*again)));
                }
            }
        }
    }
    steps.reverse();
    steps
}

/// What leaves after a run before the first run of the op `at`, or that run, in reverse: codecs run
/// when all else has left.
fn leave(problem: &Problem, op: OpId, at: usize, leaves: &mut [Leaves], steps: &mut Vec<Step>) {
    let is_first = op.index() == at;
    let op = &problem.trace.ops[op.index()];
    let (reads, writes) = match is_first {
        true => (&op.reads[..], &op.writes[..]),
        false => (op.reads_again(), op.writes_again()),
    };
    let begin = steps.len();
    for tensor in reads.iter().chain(writes) {
        let compress = |codec, swapped| Step::Compress { tensor: *tensor, codec, swapped };
        match std::mem::replace(&mut leaves[tensor.index()], Leaves::Not) {
            Leaves::Not => {}
            Leaves::Dropped => steps.push(Step::Drop(*tensor)),
            Leaves::By(Way::Copy) => steps.push(Step::SwapOut(*tensor)),
            Leaves::By(Way::Codec(codec)) => steps.push(compress(codec, false)),
            Leaves::By(Way::CodecAndCopy(codec)) => steps.push(compress(codec, true)),
        }
    }
    steps[begin..].sort_by_key(|step| !matches!(step, Step::Compress { .. }));
    let made = writes.iter().filter(|tensor| !problem.model.holds(**tensor, at));
    made.for_each(|tensor| leaves[tensor.index()] = Leaves::Dropped);
}

/// Reruns and items that are listed one after the other.
#[derive(Default)]
pub(crate) struct Reruns {
    pub all: Vec<Rerun>,
}

impl Reruns {
    /// One more rerun of an op before another, after all that were put there until now.
    pub fn push(&mut self, before: usize, op: u32) {
        let begin = (before as u64) << LABEL_BITS;
        let last = self.all.last().map_or(begin, |(key, _)| begin.max(*key));
        self.all.push((last + SPACING, op));
    }
}

/// The reruns of an explicit schedule.
pub(crate) fn reruns_of(steps: &[Step]) -> Vec<Rerun> {
    let (mut reruns, mut due) = (Reruns::default(), 0);
    for step in steps {
        match step {
            Step::Run(_) => due += 1,
            Step::Again(op) => reruns.push(due, op.0),
            Step::Drop(_) | Step::SwapOut(_) | Step::Compress { .. } => {}
        }
    }
    reruns.all
}

/// The reruns and items that carry out what a method decides. None where it does not fit the problem's
/// budget, where a tensor comes back in a way that is none of the parts', or where state begins on the host.
pub(crate) fn reruns_under(
    problem: &Problem,
    parts: &Parts,
    decided: &Decided,
) -> Option<Vec<Rerun>> {
    let mut evaluator = problem.evaluator(decided.policy, problem.budget);
    let record = match &decided.steps {
        Some(steps) => evaluator.record_steps(steps),
        None => evaluator.record(&decided.treatments),
    };
    let record = record.ok()?;
    let mut copies: Vec<_> = record.backs.iter().filter(|back| back.codec.is_none()).collect();
    copies.sort_by_key(|back| back.position);
    let mut copies = copies.into_iter().peekable();
    let (mut reruns, mut due) = (Reruns::default(), 0);
    for (at, position) in record.positions.iter().enumerate() {
        while let Some(back) = copies.next_if(|back| back.position as usize == at) {
            if back.home.is_some() {
                return None;
            }
            reruns.push(due, parts.item_of(back.tensor.0, Way::Copy)?);
        }
        match position.work {
            Work::Run => due += usize::from(position.op != NO_OP),
            Work::Again => reruns.push(due, position.op),
            Work::Compress(_) => {}
            Work::Decompress(packing) => {
                let packing = &record.packings[packing as usize];
                let way = match packing.swap {
                    Some(_) => Way::CodecAndCopy(packing.codec),
                    None => Way::Codec(packing.codec),
                };
                reruns.push(due, parts.item_of(packing.tensor, way)?);
            }
        }
    }
    Some(reruns.all)
}

#[cfg(test)]
mod tests {
    use schema::Bytes;

    use super::*;
    use crate::methods::by_name;
    use crate::runs::Parts;
    use crate::{Monitor, NoMonitor};

    /// What copies and computes again as a method decided fits as that does, and takes no longer to compute.
    #[test]
    fn what_methods_decide_is_carried_out_by_sequences_too() {
        let machine = scenarios::machine("p100").expect("it is bundled");
        let mut carried_out = 0;
        for family in crate::families::all() {
            let name = format!("{}:seed=3,ops=150", family.name);
            let trace = crate::families::family(&name).expect("a family");
            let peak = simulator::in_core(&trace).peak;
            let problem = Problem::new(&trace, &machine, Bytes(peak.0 * 3 / 5));
            for method in ["swap-opt", "pooch", "dtr", "capuchin"] {
                let method = by_name(method).expect("a method");
                let monitor: &dyn Monitor = &NoMonitor;
                let Ok(decided) = method.decide(&problem, problem.budget, monitor) else {
                    continue;
                };
                let parts = Parts::new(&problem, decided.policy);
                let Some(reruns) = reruns_under(&problem, &parts, &decided) else { continue };
                let steps = steps_of(&problem, &parts, &reruns);
                let mut evaluator = problem.evaluator(decided.policy, problem.budget);
                let of_method = match &decided.steps {
                    Some(steps) => evaluator.evaluate_steps(steps),
                    None => evaluator.evaluate(&decided.treatments),
                };
                let of_method = of_method.expect("it was recorded");
                let outcome = evaluator.evaluate_steps(&steps);
                let outcome = outcome.unwrap_or_else(|e| panic!("{name} {}: {e}", method.name()));
                assert!(outcome.recompute <= of_method.recompute, "{name} {}", method.name());
                carried_out += 1;
            }
        }
        assert!(carried_out > 20, "{carried_out}");
    }
}

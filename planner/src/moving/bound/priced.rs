//! Stretches of an iteration whose lanes and whose memory have prices.

use schema::{Bytes, Direction, OpId, TensorId};

use super::courses::{Also, Course};
use super::linear::{BACK, COMPUTE, Cost, HOST, Prices, lane, lower, memory};
use super::{is_here, made_by, tensors};
use crate::Problem;
use crate::bound::time_again;

/// The units of times and bytes: what all ops take, in nanoseconds, and the budget.
#[derive(Debug, Clone, Copy)]
struct Units {
    time: f64,
    memory: f64,
}

impl Units {
    fn of(problem: &Problem) -> Self {
        let time = problem.trace.total_time().0.max(1) as f64;
        Self { time, memory: problem.budget.0.max(1) as f64 }
    }

    fn time(self, nanos: u64) -> f64 {
        nanos as f64 / self.time
    }

    fn bytes(self, bytes: u64) -> f64 {
        bytes as f64 / self.memory
    }
}

/// Stretches, and what each tensor and each update is asked for there.
pub(super) struct Priced<'a> {
    problem: &'a Problem<'a>,
    units: Units,
    /// Where stretches begin; the first at the first op.
    begins: Vec<usize>,
    /// What ops of the device cost that it runs in every plan, less the memory that there is.
    fixed: Vec<(usize, f64)>,
    courses: Vec<Course>,
    updates: Vec<Update>,
    /// By stretch: what may be run again in it.
    reruns: Vec<Vec<Rerun>>,
}

/// An update that the host's processor may run.
struct Update {
    stretch: usize,
    here: f64,
    there: f64,
    /// What it alone of these reads: the course, and whether it changes it.
    reads: Vec<(usize, bool)>,
}

/// An op that may run again in a stretch, because of what later ops read.
struct Rerun {
    time: f64,
    /// What it reads that nothing else wants then, each with its share of what that costs.
    reads: Vec<(usize, f64)>,
    /// What it makes that is of any use, each with its share of the cost.
    makes: Vec<(usize, f64)>,
    /// Of that, what nothing but reruns reads: its bytes and the time of a copy in.
    dead: Vec<(usize, f64, f64)>,
}

impl<'a> Priced<'a> {
    pub fn new(problem: &'a Problem<'a>, begins: Vec<usize>) -> Self {
        let trace = problem.trace;
        let stretches = begins.len();
        let stretch_of = |op: usize| begins.partition_point(|begin| *begin <= op) - 1;
        let mut fixed = vec![0.0; super::linear::PRICES];
        let units = Units::of(problem);
        let none = vec![false; stretches];
        let course = |id: TensorId| {
            let bytes = trace.tensors[id.index()].bytes;
            let copy = |way| units.time(problem.machine.link.copy_time(way, bytes).0);
            Course {
                id: id.index(),
                bytes: units.bytes(bytes.0),
                out: copy(Direction::D2h),
                back: copy(Direction::H2d),
                made: problem.model.producer(id).map(|op| stretch_of(op.index())),
                read: none.clone(),
                changed: none.clone(),
                there: none.clone(),
                outlives: problem.model.last_use(id).is_none(),
            }
        };
        let mut courses: Vec<Course> = tensors(trace).map(course).collect();
        let mut updates = Vec::new();
        let mut updated = vec![0u32; trace.tensors.len()];
        for (index, op) in trace.ops.iter().enumerate() {
            let (id, stretch) = (OpId::from_index(index), stretch_of(index));
            if let Some(there) = problem.update_time_there(id) {
                op.reads.iter().for_each(|read| updated[read.index()] += 1);
                let (here, there) = (units.time(op.device_time().0), units.time(there.0));
                updates.push((id, Update { stretch, here, there, reads: Vec::new() }));
            } else if is_here(problem, index) {
                fixed[lane(stretch, COMPUTE)] += units.time(op.device_time().0);
                for read in &op.reads {
                    let course = &mut courses[read.index()];
                    course.read[stretch] = true;
                    course.there[stretch] |= begins[stretch] == index;
                    course.changed[stretch] |= problem.model.changes(id, *read);
                }
            }
        }
        for (stretch, begin) in begins.iter().enumerate().skip(1) {
            let room = problem.budget.0.saturating_sub(made_by(problem, *begin));
            fixed[memory(stretch - 1)] -= units.bytes(room);
        }
        fixed[memory(stretches - 1)] -= units.bytes(problem.budget.0);
        // What another processor makes may be made at any time.
        let is_known = |id: TensorId| {
            problem.model.producer(id).is_none_or(|made| is_here(problem, made.index()))
        };
        let updates: Vec<Update> = (updates.into_iter())
            .map(|(id, mut update)| {
                let alone = trace.ops[id.index()].reads.iter();
                let alone = alone.filter(|read| updated[read.index()] == 1 && is_known(**read));
                update.reads = alone.map(|r| (r.index(), problem.model.changes(id, *r))).collect();
                update
            })
            .collect();
        for course in &mut courses {
            if !is_known(TensorId::from_index(course.id)) {
                (course.read, course.changed) = (none.clone(), none.clone());
                course.there = none.clone();
                course.outlives = false;
            }
        }
        // In how many stretches something else than a rerun may have each on the device.
        let mut wanted = vec![0; trace.tensors.len()];
        for (index, op) in trace.ops.iter().enumerate() {
            let is_update = problem.update_time_there(OpId::from_index(index)).is_some();
            let at_any_time = !is_update && !is_here(problem, index);
            let until = if at_any_time { usize::MAX } else { stretch_of(index) + 1 };
            op.reads.iter().for_each(|id| wanted[id.index()] = until.max(wanted[id.index()]));
        }
        courses.iter().filter(|of| of.outlives).for_each(|of| wanted[of.id] = usize::MAX);
        let reruns = (0..stretches)
            .map(|stretch| reruns(problem, units, begins[stretch], &|id| wanted[id] > stretch))
            .collect();
        let fixed = fixed.into_iter().enumerate().filter(|(_, amount)| *amount != 0.0).collect();
        Self { problem, units, begins, fixed, courses, updates, reruns }
    }

    /// The unit of times, in nanoseconds.
    pub fn time(&self) -> f64 {
        self.units.time
    }

    /// What copying as much as the budget takes: a price of memory.
    pub fn copied(&self) -> f64 {
        let copy = self.problem.machine.link.copy_time(Direction::H2d, self.problem.budget);
        self.units.time(copy.0)
    }

    pub fn stretches(&self) -> usize {
        self.begins.len()
    }

    pub fn tensors(&self) -> usize {
        self.courses.len()
    }

    /// What the memory that there is comes to.
    pub fn paid_for_memory(&self, prices: &Prices) -> f64 {
        self.fixed.iter().map(|(index, amount)| (amount * prices[*index]).abs()).sum()
    }

    /// What every plan takes at least, in the unit of times, as long as the prices of each stretch's lanes add up to no more
    /// than 1; and how much of what each price is for that is.
    pub fn least(&self, prices: &Prices) -> Cost {
        let again = self.again(prices);
        let mut all = Cost::NOTHING;
        for (index, amount) in &self.fixed {
            all = all.and(prices, *index, *amount);
        }
        let cost = |course: &Course, also| course.cost(prices, &again, also);
        let costs: Vec<Option<Cost>> =
            self.courses.iter().map(|course| cost(course, Also::Nothing)).collect();
        costs.iter().flatten().for_each(|cost| all += *cost);
        for update in &self.updates {
            let mut here = Cost::one(prices, lane(update.stretch, COMPUTE), update.here);
            let there = |stretch| Cost::one(prices, lane(stretch, HOST), update.there);
            let mut there = (update.stretch..self.stretches())
                .map(there)
                .reduce(Cost::least)
                .expect("it is in one of them");
            for (id, changed) in &update.reads {
                let course = &self.courses[*id];
                let Some(base) = costs[*id] else { continue };
                let beyond = |more: Option<Cost>| more.map(|more| more.plus(&base.times(-1.0)));
                if let Some(more) = beyond(cost(course, Also::Read(update.stretch, *changed))) {
                    here += more;
                }
                if course.made.is_some()
                    && let Some(more) = beyond(cost(course, Also::OnHost))
                {
                    there += more;
                }
            }
            all += here.least(there);
        }
        all
    }

    /// By stretch and tensor: what it costs to make it again there.
    fn again(&self, prices: &Prices) -> Vec<Vec<Option<Cost>>> {
        let none: Vec<Option<Cost>> = vec![None; self.problem.trace.tensors.len()];
        let of = |(stretch, reruns): (usize, &Vec<Rerun>)| {
            let mut again = none.clone();
            // What it costs that a tensor is there for reruns alone.
            let mut there = none.clone();
            for rerun in reruns {
                let mut cost = Cost::one(prices, lane(stretch, COMPUTE), rerun.time);
                for (read, share) in &rerun.reads {
                    if let Some(there) = &there[*read] {
                        cost += there.times(*share);
                    }
                }
                for (made, share) in &rerun.makes {
                    again[*made] = Some(cost.times(*share));
                }
                for (made, bytes, back) in &rerun.dead {
                    let mut least = again[*made];
                    lower(&mut least, Cost::one(prices, lane(stretch, BACK), *back));
                    if stretch > 0 {
                        lower(&mut least, Cost::one(prices, memory(stretch - 1), *bytes));
                    }
                    there[*made] = least;
                }
            }
            again
        };
        self.reruns.iter().enumerate().map(of).collect()
    }
}

/// What may run again from an op on, in the order of the trace: what makes what is wanted, and what makes what that reads.
fn reruns(
    problem: &Problem,
    units: Units,
    begin: usize,
    is_wanted: &dyn Fn(usize) -> bool,
) -> Vec<Rerun> {
    let Problem { trace, model, machine, .. } = problem;
    let bytes = |id: &TensorId| trace.tensors[id.index()].bytes;
    let is_dead = |id: &TensorId| {
        let made = model.producer(*id);
        made.is_some_and(|made| is_here(problem, made.index())) && !is_wanted(id.index())
    };
    // Of what nothing wants: the reruns that read it, those that make what is wanted and the others.
    let mut readers = vec![(0u64, 0u64); trace.tensors.len()];
    let mut all = Vec::new();
    for op in (0..begin).rev().map(OpId::from_index) {
        if !problem.may_run_again(op) || !is_here(problem, op.index()) {
            continue;
        }
        let of = &trace.ops[op.index()];
        let made = of.writes_again().iter().filter(|id| model.remade_by(**id) == Some(op));
        let (wanted, rest): (Vec<TensorId>, Vec<TensorId>) =
            made.copied().partition(|id| is_wanted(id.index()));
        let is_read = |id: &TensorId| is_dead(id) && readers[id.index()] != (0, 0);
        let more: Vec<TensorId> = rest.into_iter().filter(is_read).collect();
        if wanted.is_empty() && more.is_empty() {
            continue;
        }
        for id in of.reads_again() {
            let (makers, others) = &mut readers[id.index()];
            *if wanted.is_empty() { others } else { makers } += 1;
        }
        all.push((op, wanted, more));
    }
    let rerun = |(op, wanted, more): (OpId, Vec<TensorId>, Vec<TensorId>)| {
        let share = |id: &TensorId| match readers[id.index()] {
            (0, others) => 1.0 / others.max(1) as f64,
            (makers, _) if !wanted.is_empty() => 1.0 / makers as f64,
            _ => 0.0,
        };
        let reads = trace.ops[op.index()].reads_again().iter().filter(|id| is_dead(id));
        let made: Bytes = wanted.iter().chain(&more).map(bytes).sum();
        let part = |id: &TensorId| bytes(id).0 as f64 / made.0.max(1) as f64;
        let copy = |id: &TensorId| units.time(machine.link.copy_time(Direction::H2d, bytes(id)).0);
        Rerun {
            time: units.time(time_again(problem, op)),
            reads: reads.map(|id| (id.index(), share(id))).collect(),
            makes: wanted.iter().chain(&more).map(|id| (id.index(), part(id))).collect(),
            dead: (more.iter())
                .map(|id| (id.index(), units.bytes(bytes(id).0), copy(id)))
                .collect(),
        }
    };
    all.into_iter().rev().map(rerun).collect()
}

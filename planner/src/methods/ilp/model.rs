//! The programme of a problem.

use std::collections::BTreeMap;

use schema::{Bytes, Direction, Nanos, OpId, TensorId};
use simulator::Treatment;

use crate::Problem;
use crate::kept_load::kept_load;
use crate::methods::ilp::gaps::{Item, items};
use crate::methods::ilp::programme::{Programme, Row, Solution, Variable};
use crate::points::Points;

/// With at most so many ops, memory is looked at whenever one starts; else at so many points.
const EVERY_OP: usize = 32;
const POINTS: usize = if cfg!(feature = "highs") { 32 } else { 16 };

/// With at most so many pairs of a gap and a point within it, copies are of whole tensors.
const WHOLE: usize = 400;

/// Delays beyond this many hundredths of the iteration are not distinguished.
const MOST: f64 = 1000.0;

pub(super) struct Model<'a> {
    problem: &'a Problem<'a>,
    pub programme: Programme,
    pub items: Vec<Item>,
    points: Points,
    chosen: Vec<Chosen>,
    /// By tensor, the items that are its gaps.
    gaps_of: BTreeMap<TensorId, Vec<usize>>,
    /// Copies are of whole tensors.
    whole: bool,
    every_op: bool,
    /// Nanoseconds in a unit of time, and bytes in a unit of memory.
    unit: f64,
    memory_unit: f64,
    /// How late each point is, and the end.
    delays: Vec<Variable>,
    delay: Vec<Row>,
    /// What else is absent grows by, from the point before to a point.
    relief: Vec<Row>,
    made: Vec<Row>,
    /// As `made`; what an op uses counts when it has ended.
    ready: Vec<Row>,
    needed: Vec<Row>,
    /// Time of the copies of whole tensors that have left, and of those that have begun to return.
    left: Vec<Row>,
    begun: Vec<Row>,
    /// Runs of an op again between the point before and a point.
    runs: BTreeMap<(OpId, usize), Variable>,
    /// Those whose inputs have not been looked at.
    pending: Vec<(OpId, usize)>,
}

/// The variables of an item.
#[derive(Debug, Clone, Default)]
struct Chosen {
    treatments: Vec<(Treatment, Variable)>,
    /// Run again before this point: from the point after the item's first on.
    reruns: Vec<(usize, Variable)>,
    /// Of whole tensors that swap: on the way back between the point before and this one.
    returns: Vec<(usize, Variable)>,
}

impl<'a> Model<'a> {
    /// The programme that fits a problem into `target` bytes.
    pub fn new(problem: &'a Problem<'a>, target: Bytes) -> Self {
        let load = kept_load(problem);
        let every_op = load.len() <= EVERY_OP;
        let points = match every_op {
            true => Points::all(problem, &load),
            false => Points::new(problem, &load, POINTS),
        };
        let items = items(problem, &points, target);
        let mut gaps_of: BTreeMap<TensorId, Vec<usize>> = BTreeMap::new();
        for (index, item) in items.iter().enumerate() {
            let tensor = problem.model.gaps()[item.gap].tensor;
            gaps_of.entry(tensor).or_default().push(index);
        }
        let pairs = |item: &Item| (item.end - item.first) * item.options.len();
        let whole = items.iter().map(pairs).sum::<usize>() <= WHOLE;
        let count = points.ops.len();
        let mut model = Self {
            problem,
            programme: Programme::default(),
            chosen: vec![Chosen::default(); items.len()],
            items,
            gaps_of,
            whole,
            every_op,
            unit: (points.start[count] / 100.0).max(1.0),
            memory_unit: (load.iter().copied().max().unwrap_or(0) as f64 / 100.0).max(1.0),
            points,
            delays: Vec::new(),
            delay: Vec::new(),
            relief: Vec::new(),
            made: Vec::new(),
            ready: Vec::new(),
            needed: Vec::new(),
            left: Vec::new(),
            begun: Vec::new(),
            runs: BTreeMap::new(),
            pending: Vec::new(),
        };
        model.time_and_memory(target);
        for index in 0..model.items.len() {
            model.item(index);
        }
        while let Some((op, point)) = model.pending.pop() {
            model.inputs(op, point);
        }
        model
    }

    /// Only solutions count that take less than a plan that is known.
    pub fn less_than(&mut self, known: Nanos) {
        let extra = known.saturating_sub(self.problem.trace.total_time());
        if let Some(end) = self.delays.last() {
            let limit = self.time(extra.0);
            self.programme.at_most(limit, &[(*end, 1.0)]);
        }
    }

    /// What becomes of each gap; none where the solver finds nothing.
    pub fn solve(&self) -> Option<Vec<Treatment>> {
        let solution = self.programme.minimise(*self.delays.last()?)?;
        Some(self.treatments(&solution))
    }

    fn treatments(&self, solution: &Solution) -> Vec<Treatment> {
        let mut treatments = self.problem.keep_all();
        for (item, chosen) in self.items.iter().zip(&self.chosen) {
            let one = chosen.treatments.iter().find(|(_, variable)| solution.is_one(*variable));
            treatments[item.gap] = one.map_or(Treatment::Keep, |(treatment, _)| *treatment);
        }
        treatments
    }

    fn count(&self) -> usize {
        self.points.ops.len()
    }

    /// Delays, what the link carries, and memory at each point.
    fn time_and_memory(&mut self, target: Bytes) {
        let count = self.count();
        let programme = &mut self.programme;
        let mut list =
            || -> Vec<Variable> { (0..=count).map(|_| programme.variable(MOST)).collect() };
        let (delays, outs, backs, relief) = (list(), list(), list(), list());
        let (made, ready, needed) = (list(), list(), list());
        let (left, begun) = (list(), list());
        let previous = |list: &[Variable], at: usize| at.checked_sub(1).map(|before| list[before]);
        // A quantity that is its value before and what is added, or on the given side of it.
        let grows = |programme: &mut Programme, list: &[Variable], sign: f64| -> Vec<Row> {
            let row = |at: usize| {
                let row = programme.at_most(0.0, &[(list[at], sign)]);
                previous(list, at).iter().for_each(|v| programme.add(row, *v, -sign));
                row
            };
            (0..list.len()).map(row).collect()
        };
        self.delay = grows(programme, &delays, -1.0);
        self.made = grows(programme, &made, 1.0);
        self.ready = grows(programme, &ready, 1.0);
        self.needed = grows(programme, &needed, -1.0);
        self.left = grows(programme, &left, -1.0);
        self.begun = grows(programme, &begun, 1.0);
        self.relief = grows(programme, &relief, 1.0);
        let link = &self.problem.machine.link;
        let fastest = |b: &schema::Bandwidth| {
            b.pinned.iter().map(|point| point.bytes_per_sec.0).max().unwrap_or(1) as f64
        };
        let units = self.unit / 1e9 / self.memory_unit;
        let (out, back) = (fastest(&link.d2h) * units, fastest(&link.h2d) * units);
        for at in 0..=count {
            let begin = at.checked_sub(1).map_or(0.0, |before| self.points.start[before]);
            let time = (self.points.start[at] - begin) / self.unit;
            for flow in [&outs, &backs] {
                // No more copying between two points than there is time.
                let busy = programme.at_most(time, &[(flow[at], 1.0), (delays[at], -1.0)]);
                previous(flow, at).iter().for_each(|v| programme.add(busy, *v, -1.0));
                previous(&delays, at).iter().for_each(|v| programme.add(busy, *v, 1.0));
                let before = previous(flow, at);
                before.map(|v| programme.at_most(0.0, &[(v, 1.0), (flow[at], -1.0)]));
            }
            programme.at_most(0.0, &[(outs[at], 1.0), (made[at], -1.0)]);
            programme.at_most(0.0, &[(needed[at], 1.0), (backs[at], -1.0)]);
            if at == count {
                break;
            }
            // Where each op is a point: what the op before uses, and what comes back into memory
            // that is only free when it has ended, is copied while nothing but reruns goes on.
            if self.every_op {
                let mut stalled =
                    vec![programme.at_most(0.0, &[(outs[at], 1.0), (ready[at], -1.0)])];
                if let Some(begun) = previous(&begun, at).filter(|_| self.whole) {
                    stalled.push(programme.at_most(0.0, &[(backs[at], 1.0), (begun, -1.0)]));
                }
                for row in stalled {
                    programme.add(row, delays[at], -1.0);
                    previous(&delays, at).iter().for_each(|v| programme.add(row, *v, 1.0));
                }
            }
            if at == count {
                break;
            }
            let room = (target.0 as f64 - self.points.load[at] as f64) / self.memory_unit;
            let memory = programme.at_most(room, &[(relief[at], -1.0)]);
            if self.whole {
                programme.at_most(0.0, &[(left[at], 1.0), (outs[at], -1.0)]);
                programme.at_most(0.0, &[(backs[at], 1.0), (begun[at], -1.0)]);
            } else {
                programme.add(memory, outs[at], -out);
                programme.add(memory, backs[at], back);
                programme.at_most(0.0, &[(backs[at], back), (outs[at], -out)]);
            }
        }
        self.delays = delays;
    }

    fn time(&self, nanos: u64) -> f64 {
        nanos as f64 / self.unit
    }

    fn memory(&self, bytes: Bytes) -> f64 {
        bytes.0 as f64 / self.memory_unit
    }

    /// Variables and rows of a gap.
    fn item(&mut self, index: usize) {
        let item = self.items[index].clone();
        let whole = self.programme.at_most(1.0, &[]);
        for treatment in &item.options {
            let chosen = if item.settled { self.programme.one() } else { self.programme.binary() };
            self.programme.add(whole, chosen, 1.0);
            self.chosen[index].treatments.push((*treatment, chosen));
            let bytes = self.problem.model.gaps()[item.gap].bytes;
            let codec = match treatment {
                Treatment::Compress(codec) | Treatment::SwapCompressed(codec) => Some(*codec),
                _ => None,
            };
            let cost = codec.and_then(|codec| {
                self.problem.may_compress(item.gap).find(|(c, _)| *c == codec).map(|(_, cost)| cost)
            });
            let small = cost.map_or(bytes, |cost| cost.reserved);
            if let Some(cost) = cost {
                // It is made smaller after the last use, and itself again before the next.
                // On a lane of its own it takes what it slows compute by; that it may take longer
                // than there is time beside compute is left out.
                let taken = self.problem.codecs.costs.lane().map_or(1.0, |lane| lane.taken());
                let (pack, unpack) = (self.time(cost.compress.0), self.time(cost.decompress.0));
                let (pack, unpack) = (taken * pack, taken * unpack);
                self.programme.add(self.delay[item.first], chosen, pack);
                self.programme.add(self.delay[item.end], chosen, unpack);
                let spared = self.memory(bytes.saturating_sub(small));
                self.programme.add(self.relief[item.first], chosen, -spared);
                self.programme.add(self.relief[item.end], chosen, spared);
            }
            match treatment {
                Treatment::Recompute => self.reruns(index, chosen),
                Treatment::Swap | Treatment::SwapCompressed(_) => self.swap(index, chosen, small),
                _ => {}
            }
        }
    }

    /// A tensor is given up until its op is run again, somewhere before its next use.
    fn reruns(&mut self, index: usize, chosen: Variable) {
        let Item { gap, first, end, settled, .. } = self.items[index];
        let gap = self.problem.model.gaps()[gap];
        let Some(op) = self.problem.model.producer(gap.tensor) else { return };
        let bytes = self.memory(gap.bytes);
        self.programme.add(self.relief[first], chosen, -bytes);
        let all = self.programme.at_most(0.0, &[(chosen, 1.0)]);
        // What is settled comes back where it is needed, and does not serve others before.
        let begin = if settled { end } else { first + 1 };
        for at in begin..=end {
            let rerun = self.programme.binary();
            self.programme.add(all, rerun, -1.0);
            self.programme.add(self.relief[at], rerun, bytes);
            self.chosen[index].reruns.push((at, rerun));
            let run = self.run(op, at);
            self.programme.at_most(0.0, &[(rerun, 1.0), (run, -1.0)]);
        }
    }

    /// `bytes` go over the link and come back.
    fn swap(&mut self, index: usize, chosen: Variable, bytes: Bytes) {
        let Item { first, end, .. } = self.items[index];
        let link = &self.problem.machine.link;
        let out = self.time(link.copy_time(Direction::D2h, bytes).0);
        let back = self.time(link.copy_time(Direction::H2d, bytes).0);
        self.programme.add(self.made[first], chosen, -out);
        self.programme.add(self.ready[first + 1], chosen, -out);
        self.programme.add(self.needed[end], chosen, back);
        if !self.whole {
            return;
        }
        let memory = self.memory(bytes);
        let all_left = self.programme.at_most(0.0, &[(chosen, -1.0)]);
        let all_back = self.programme.at_most(0.0, &[(chosen, 1.0)]);
        let mut departures = Vec::new();
        let mut returns = Vec::new();
        for at in first..=end {
            if at > first {
                let returning = self.programme.binary();
                self.programme.add(all_back, returning, -1.0);
                self.programme.add(self.relief[at], returning, memory);
                self.programme.add(self.begun[at], returning, -back);
                returns.push((at, returning));
                self.chosen[index].returns.push((at, returning));
            }
            if at < end {
                let departing = self.programme.binary();
                self.programme.add(all_left, departing, 1.0);
                self.programme.add(self.relief[at], departing, -memory);
                self.programme.add(self.left[at], departing, out);
                departures.push((at, departing));
            }
            // What returns has left before.
            let order = self.programme.at_most(0.0, &[]);
            returns.iter().for_each(|(_, v)| self.programme.add(order, *v, 1.0));
            departures.iter().for_each(|(_, v)| self.programme.add(order, *v, -1.0));
        }
    }

    /// An op is run again between the point before and a point.
    fn run(&mut self, op: OpId, at: usize) -> Variable {
        if let Some(run) = self.runs.get(&(op, at)) {
            return *run;
        }
        let run = self.programme.variable(1.0);
        let timed = &self.problem.trace.ops[op.index()];
        let time = self.time(timed.recompute.unwrap_or(timed.duration).0);
        self.programme.add(self.delay[at], run, time);
        self.runs.insert((op, at), run);
        self.pending.push((op, at));
        run
    }

    /// What a rerun reads must be there by then, or is made as well.
    fn inputs(&mut self, op: OpId, at: usize) {
        let run = self.runs[&(op, at)];
        let Some(before) = at.checked_sub(1).map(|before| self.points.ops[before]) else { return };
        let inputs: Vec<TensorId> = self.problem.model.reads_again(op).collect();
        for tensor in inputs {
            let Some(maker) = self.problem.model.producer(tensor) else { continue };
            let items = self.gaps_of.get(&tensor).cloned().unwrap_or_default();
            let last = self.problem.model.last_use(tensor);
            let dead = last.is_some_and(|last| last.index() <= before);
            let open = |index: &usize| {
                let item = &self.items[*index];
                // The gap that opens at the point before is open when the rerun begins.
                let opens = self.problem.model.gaps()[item.gap].after.index();
                opens <= before && at < item.end
            };
            let gap = items.into_iter().find(open);
            let again = gap.is_some_and(|index| {
                self.items[index].settled && self.items[index].options == [Treatment::Recompute]
            });
            if dead || again {
                let needed = self.run(maker, at);
                self.programme.at_most(0.0, &[(run, 1.0), (needed, -1.0)]);
            } else if let Some(index) = gap.filter(|index| !self.items[*index].settled) {
                self.present(run, index, at);
            }
        }
    }

    /// A run needs a tensor that has a gap then: it is kept, or back by that point. What is made
    /// smaller in place stays so until the gap ends.
    fn present(&mut self, run: Variable, index: usize, at: usize) {
        let row = self.programme.at_most(1.0, &[(run, 1.0)]);
        let chosen = self.chosen[index].clone();
        for (treatment, variable) in &chosen.treatments {
            // Where copies are not of whole tensors, what swaps may be back at any time.
            if self.whole || !matches!(treatment, Treatment::Swap | Treatment::SwapCompressed(_)) {
                self.programme.add(row, *variable, 1.0);
            }
        }
        let back = chosen.reruns.iter().chain(&chosen.returns);
        back.filter(|(by, _)| *by <= at).for_each(|(_, v)| self.programme.add(row, *v, -1.0));
    }
}

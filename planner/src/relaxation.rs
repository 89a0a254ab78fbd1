//! Planning as a linear programme: what a plan with fractions of tensors would do, and what memory
//! is worth when.
//!
//! Memory is looked at when certain ops, the *points*, start. Between two points, a tensor that is
//! not on the device spends time in one of the ways that a plan has, and fractions of tensors are
//! allowed (the relaxation):
//!
//! - *recomputed*: absent until its last rerun before its next use, somewhere between two points,
//!   which takes compute time then. Inputs that are dead by then take their makers' time, too;
//! - *swapped*: copies out and in are flows. Not more is out than was made, what is needed is
//!   back, and between two points no more flows than the link carries in the time between them.
//!   A tensor may be copied before its last use, and what is on the host since an earlier gap is
//!   not copied there again;
//! - *compressed* by a codec, in place or on its way to the host: less memory, less to copy, and
//!   time of two codec runs, the first of them once for all gaps. Where codecs may have a lane of
//!   their own, what they slow compute by is
//!   all that compute loses, and up to each point that lane has done what must be done by then.
//!
//! The variables are the delay of each point (compute stands idle or does what it would not do
//! with more memory), the reruns of each tensor between each two points, the share of each tensor
//! that goes each of the other ways, and the bytes that are out and back at each point. Delays
//! only grow, and between two points by at least the reruns there. The delay of the end is what is
//! minimised.
//!
//! Plans give feasible points: a rerun before the last counts for nothing, a tensor that is held
//! beyond its last use, or copied then, counts as those that it serves to make (see `items`), time
//! whose place is uncertain may be used by the link anywhere. Not all plans do: one that holds a
//! dead tensor spares the reruns of all that this was made from, too, which `items` charges one by
//! one. So the optimum, of which the weak-duality value at the solver's prices is stated, guides
//! the search and is no bound; [cuts](crate::cut) are.
//!
//! The programme has the shape of those of Checkmate (Jain et al., 2020) and POET (Patil et al.,
//! 2022), but on a coarse time axis, with flows in place of copies, and with durations that are
//! not equal, so that it is solved in tenths of a second.

mod items;
mod linear;
pub(crate) mod points;

use std::collections::BTreeMap;

use schema::{CodecCost, Nanos, TensorId};
use simulator::CodecLane;

use crate::Problem;
use crate::kept_load::certain_load;
use items::{Item, items};
pub(crate) use items::{largest_gaps, last_uses};
use linear::{Programme, Row, Variable};
use points::Points;

/// Points at which memory is looked at.
const POINTS: usize = 32;

/// Cost, in hundredths of the iteration per gigabyte, by which the solver prefers to swap less.
const PREFERENCE: f64 = 0.001;

/// Delays beyond this many iterations are not distinguished.
const MOST: f64 = 10.0;

const GB: f64 = 1e9;

/// What the relaxation says of a problem.
#[derive(Debug, Clone)]
pub struct Relaxation {
    /// What the iteration takes at least, if dead tensors are treated as `items` says.
    pub time: Nanos,
    /// What the optimum does with each gap of the problem's model.
    pub gaps: Vec<Shares>,
    /// Nanoseconds by which the iteration would be shorter per byte of memory more.
    pub price: f64,
}

/// How much of a tensor spends a gap in which way; what is left is kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shares {
    /// The gap is decided about; if not, the relaxation lets it come and go for free.
    pub decided: bool,
    /// Recomputed.
    pub recompute: f64,
    /// Swapped.
    pub swap: f64,
    /// By codec: copied to the host in its compressed form.
    pub swap_compressed: Vec<(u8, f64)>,
    /// By codec: kept in its compressed form.
    pub compress: Vec<(u8, f64)>,
}

impl Shares {
    /// The part that is not kept.
    pub fn gone(&self) -> f64 {
        let sum = |list: &[(u8, f64)]| list.iter().map(|(_, share)| share).sum::<f64>();
        self.recompute + self.swap + sum(&self.swap_compressed) + sum(&self.compress)
    }
}

/// Solves the relaxation of a problem.
pub fn relax(problem: &Problem) -> Relaxation {
    let points = Points::new(problem, &certain_load(problem), POINTS);
    let (items, free) = items(problem, &points);
    let mut build = Build::new(problem, &points, &free);
    let chosen: Vec<Chosen> = items.iter().map(|item| build.item(item)).collect();
    build.reruns_of_the_dead(&items, &chosen);
    let Build { programme, memory, unit, .. } = build;
    let solution = programme.solve();
    let mut gaps = vec![Shares::default(); problem.model.gaps().len()];
    for (item, chosen) in items.iter().zip(&chosen) {
        let share = |(codec, variable): &(u8, Variable)| (*codec, solution.value(*variable));
        gaps[item.gap] = Shares {
            decided: true,
            recompute: chosen.reruns.iter().map(|v| solution.value(*v)).sum(),
            swap: chosen.swap.iter().map(|v| solution.value(*v)).sum(),
            swap_compressed: chosen.swap_compressed.iter().map(share).collect(),
            compress: chosen.compress.iter().map(share).collect(),
        };
    }
    let extra = (solution.bound.clamp(0.0, 100.0 * MOST) * unit).floor() as u64;
    let price: f64 = memory.iter().map(|row| solution.price(*row)).sum();
    Relaxation {
        time: problem.trace.total_time() + Nanos(extra.saturating_sub(1)),
        gaps,
        price: price * unit / GB,
    }
}

struct Chosen {
    /// The last rerun, by the point that it comes before; from the point after the first on.
    reruns: Vec<Variable>,
    swap: Vec<Variable>,
    swap_compressed: Vec<(u8, Variable)>,
    compress: Vec<(u8, Variable)>,
}

/// The programme as it is built. Time is in hundredths of the iteration, memory in gigabytes.
struct Build<'a> {
    problem: &'a Problem<'a>,
    programme: Programme,
    /// Nanoseconds in a unit of time.
    unit: f64,
    points: usize,
    /// The growth of the delay before each point, and before the end.
    delay: Vec<Row>,
    /// Time whose place is uncertain.
    anywhere: Row,
    /// The lane that codecs may have, and its time that must have been spent before each point.
    codec_lane: Option<CodecLane>,
    decoded: Vec<Row>,
    /// Bytes that have left otherwise than over the link, at each point.
    relief: Vec<Row>,
    memory: Vec<Row>,
    /// What has been made that is to go out, before each point.
    made: Vec<Row>,
    /// What is on the host and need not be on the device from some point on: what was not on the
    /// host before, and what was.
    departs: Vec<Row>,
    departs_again: Vec<Row>,
    /// What of each tensor, or of its compressed form by a codec, goes to the host, by gap.
    copies: BTreeMap<(TensorId, Option<u8>), Vec<Variable>>,
    /// What of each tensor is made smaller by a codec.
    packed: BTreeMap<(TensorId, u8), Variable>,
    /// What must be back before each point, and before the end.
    needed: Vec<Row>,
}

impl<'a> Build<'a> {
    fn new(problem: &'a Problem<'a>, points: &Points, free: &[u64]) -> Self {
        let mut programme = Programme::default();
        let unit = (points.start[points.ops.len()] / 100.0).max(1.0);
        let count = points.ops.len();
        let most_bytes: f64 = problem.model.gaps().iter().map(|g| g.bytes.0 as f64).sum();
        let most_bytes = 2.0 * most_bytes / GB + 1.0;
        let mut variables = |count: usize, limit: f64| -> Vec<Variable> {
            (0..count).map(|_| programme.variable(limit)).collect()
        };
        let delays = variables(count + 1, 100.0 * MOST);
        let reliefs = variables(count, most_bytes);
        let outs = variables(count, most_bytes);
        let away = variables(count, most_bytes);
        let departures = variables(count, most_bytes);
        let away_again = variables(count, most_bytes);
        let backs = variables(count + 1, most_bytes);
        let sources = variables(count, most_bytes);
        let sinks = variables(count + 1, most_bytes);
        // Parts of the time whose place is uncertain, where the link may use it.
        let parts = variables(count + 1, 100.0 * MOST);
        let uncertain = variables(1, 100.0 * MOST)[0];
        programme.set_cost(delays[count], 1.0);
        programme.set_cost(uncertain, 1.0);
        let previous = |list: &[Variable], at: usize| at.checked_sub(1).map(|before| list[before]);
        // A quantity that is at most its value before plus what the caller adds.
        let grows = |programme: &mut Programme, list: &[Variable], sign: f64| -> Vec<Row> {
            let row = |at: usize| {
                let row = programme.at_most(0.0, &[(list[at], sign)]);
                previous(list, at).iter().for_each(|v| programme.add(row, *v, -sign));
                row
            };
            (0..list.len()).map(row).collect()
        };
        let delay = grows(&mut programme, &delays, -1.0);
        let relief = grows(&mut programme, &reliefs, 1.0);
        let made = grows(&mut programme, &sources, 1.0);
        let departs = grows(&mut programme, &departures, 1.0);
        let departs_again = grows(&mut programme, &away_again, 1.0);
        let needed = grows(&mut programme, &sinks, -1.0);
        let anywhere = programme.at_most(0.0, &[(uncertain, -1.0)]);
        let all_parts = programme.at_most(0.0, &[(uncertain, -1.0)]);
        parts.iter().for_each(|part| programme.add(all_parts, *part, 1.0));
        let codec_lane = problem.codecs.costs.lane().filter(|_| problem.allowed.compress);
        let mut decoded = Vec::new();
        if codec_lane.is_some() {
            let busy: Vec<Variable> =
                (0..=count).map(|_| programme.variable(100.0 * MOST)).collect();
            decoded = grows(&mut programme, &busy, -1.0);
            for (at, busy) in busy.iter().enumerate() {
                let terms = [(*busy, 1.0), (delays[at], -1.0), (uncertain, -1.0)];
                programme.at_most(points.start[at] / unit, &terms);
            }
        }
        let link = &problem.machine.link;
        let speed = |b: &schema::Bandwidth| {
            let fastest = b.pinned.iter().map(|point| point.bytes_per_sec.0).max().unwrap_or(1);
            // Times of copies are rounded to nanoseconds.
            fastest as f64 * (1.0 + 1e-6) / 1e9 * unit / GB
        };
        let (out_speed, back_speed) = (speed(&link.d2h), speed(&link.h2d));
        let mut memory = Vec::new();
        for at in 0..=count {
            let begin = at.checked_sub(1).map_or(0.0, |before| points.start[before]);
            let time = (points.start[at] - begin) / unit;
            let mut carries = |flow: &[Variable], speed: f64| {
                let terms = [(flow[at], 1.0), (delays[at], -speed), (parts[at], -speed)];
                let row = programme.at_most(speed * time, &terms);
                previous(flow, at).iter().for_each(|v| programme.add(row, *v, -1.0));
                previous(&delays, at).iter().for_each(|v| programme.add(row, *v, speed));
            };
            carries(&backs, back_speed);
            programme.at_most(0.0, &[(sinks[at], 1.0), (backs[at], -1.0)]);
            if at == count {
                // What is back at the end was out at the last point, or went out since; the latter
                // is of no use to memory at any point.
                break;
            }
            let mut carries = |flow: &[Variable], speed: f64| {
                let terms = [(flow[at], 1.0), (delays[at], -speed), (parts[at], -speed)];
                let row = programme.at_most(speed * time, &terms);
                previous(flow, at).iter().for_each(|v| programme.add(row, *v, -1.0));
                previous(&delays, at).iter().for_each(|v| programme.add(row, *v, speed));
            };
            carries(&outs, out_speed);
            if let Some(before) = previous(&outs, at) {
                programme.at_most(0.0, &[(before, 1.0), (outs[at], -1.0)]);
            }
            programme.at_most(0.0, &[(outs[at], 1.0), (sources[at], -1.0)]);
            programme.at_most(0.0, &[(away[at], 1.0), (outs[at], -1.0)]);
            programme.at_most(0.0, &[(away[at], 1.0), (departures[at], -1.0)]);
            let terms = [(backs[at], 1.0), (away[at], -1.0), (away_again[at], -1.0)];
            programme.at_most(0.0, &terms);
            let room = problem.budget.0 as f64 + free[at] as f64 - points.load[at] as f64;
            let terms =
                [(reliefs[at], -1.0), (away[at], -1.0), (away_again[at], -1.0), (backs[at], 1.0)];
            memory.push(programme.at_most(room / GB, &terms));
        }
        Self {
            problem,
            programme,
            unit,
            points: count,
            delay,
            anywhere,
            codec_lane,
            decoded,
            relief,
            memory,
            made,
            departs,
            departs_again,
            copies: BTreeMap::new(),
            packed: BTreeMap::new(),
            needed,
        }
    }

    fn time(&self, time: Nanos) -> f64 {
        time.0 as f64 / self.unit
    }

    fn rerun_time(&self, op: schema::OpId) -> f64 {
        let op = &self.problem.trace.ops[op.index()];
        self.time(op.recompute.unwrap_or(op.duration))
    }

    /// Variables and rows of one gap.
    fn item(&mut self, item: &Item) -> Chosen {
        let gap = self.problem.model.gaps()[item.gap];
        let bytes = gap.bytes.0 as f64 / GB;
        let whole = self.programme.row(1.0);
        let mut reruns = Vec::new();
        if let Some(op) = item.rerun {
            let time = item.share * self.rerun_time(op);
            for before in item.first + 1..=item.end {
                let variable = self.programme.variable(1.0);
                self.programme.add(whole, variable, 1.0);
                self.programme.add(self.delay[before], variable, time);
                self.leaves(variable, item.first, before, bytes);
                reruns.push(variable);
            }
        }
        let swap = self.swap(item, gap.tensor, None, whole, bytes);
        let (mut compress, mut swap_compressed) = (Vec::new(), Vec::new());
        let costs: Vec<_> = self.problem.may_compress(item.gap).collect();
        for (codec, cost) in costs {
            let small = cost.reserved.0 as f64 / GB;
            let in_place = self.programme.variable(1.0);
            self.programme.add(whole, in_place, 1.0);
            let swapped = self.swap(item, gap.tensor, Some(codec), whole, small);
            for variable in swapped.iter().copied().chain([in_place]) {
                self.leaves(variable, item.first, item.end, bytes - small);
                self.decompression(item, variable, cost);
            }
            self.compression(gap.tensor, codec, cost, swapped.iter().copied().chain([in_place]));
            compress.push((codec, in_place));
            swap_compressed.extend(swapped.into_iter().map(|variable| (codec, variable)));
        }
        Chosen { reruns, swap, swap_compressed, compress }
    }

    /// The time of the codec run that makes a compressed form. One is enough for all gaps of a
    /// tensor, and it may come at any time.
    fn compression(
        &mut self,
        tensor: TensorId,
        codec: u8,
        cost: CodecCost,
        uses: impl Iterator<Item = Variable>,
    ) {
        let time = self.time(cost.compress);
        let made = *self.packed.entry((tensor, codec)).or_insert_with(|| {
            let made = self.programme.variable(1.0);
            let taken = self.codec_lane.map_or(1.0, CodecLane::taken);
            self.programme.add(self.anywhere, made, taken * time);
            if let Some(end) = self.decoded.last() {
                self.programme.add(*end, made, time);
            }
            made
        });
        let row = self.programme.at_most(0.0, &[(made, -1.0)]);
        uses.for_each(|variable| self.programme.add(row, variable, 1.0));
    }

    /// The time of the codec run that makes a tensor from its compressed form. When it comes is not
    /// certain.
    fn decompression(&mut self, item: &Item, variable: Variable, cost: CodecCost) {
        let time = self.time(cost.decompress);
        let taken = self.codec_lane.map_or(1.0, CodecLane::taken);
        self.programme.add(self.anywhere, variable, taken * time);
        if let Some(row) = self.decoded.get(item.end) {
            self.programme.add(*row, variable, time);
        }
    }

    /// Memory is free of `bytes` from one point until another.
    fn leaves(&mut self, variable: Variable, from: usize, until: usize, bytes: f64) {
        self.programme.add(self.relief[from], variable, -bytes);
        if until < self.points {
            self.programme.add(self.relief[until], variable, bytes);
        }
    }

    /// `bytes`, a tensor or its compressed form, go over the link and come back, or come back once
    /// more from where they went in an earlier gap.
    fn swap(
        &mut self,
        item: &Item,
        tensor: TensorId,
        codec: Option<u8>,
        whole: Row,
        bytes: f64,
    ) -> Vec<Variable> {
        if !self.problem.allowed.swap {
            return Vec::new();
        }
        let variable = self.programme.variable(1.0);
        // Of tensors that are as good to swap, one rather than a bit of each.
        let rank = item.gap.wrapping_mul(2_654_435_761) % 1000;
        self.programme.prefer_less(variable, PREFERENCE * bytes * (1.0 + rank as f64 / 3000.0));
        self.programme.add(whole, variable, 1.0);
        self.programme.add(self.made[item.made], variable, -bytes);
        self.programme.add(self.departs[item.first], variable, -bytes);
        self.programme.add(self.needed[item.end], variable, bytes);
        let copies = self.copies.entry((tensor, codec)).or_default();
        let mut ways = vec![variable];
        if !copies.is_empty() {
            let again = self.programme.variable(1.0);
            self.programme.add(whole, again, 1.0);
            self.programme.add(self.departs_again[item.first], again, -bytes);
            self.programme.add(self.needed[item.end], again, bytes);
            let row = self.programme.at_most(0.0, &[(again, 1.0)]);
            copies.iter().for_each(|copy| self.programme.add(row, *copy, -1.0));
            ways.push(again);
        }
        copies.push(variable);
        ways
    }

    /// Ops whose outputs are dead when a rerun needs them: each is run again at least as often as
    /// any tensor that it counts for.
    fn reruns_of_the_dead(&mut self, items: &[Item], chosen: &[Chosen]) {
        let mut runs = BTreeMap::new();
        for (item, chosen) in items.iter().zip(chosen) {
            for (op, beyond) in &item.with {
                let time = self.rerun_time(*op);
                // What takes no time needs no row.
                if time < 1e-3 {
                    continue;
                }
                let run = *runs.entry(*op).or_insert_with(|| {
                    let run = self.programme.variable(1.0);
                    self.programme.add(self.anywhere, run, time);
                    run
                });
                let row = self.programme.at_most(*beyond, &[(run, -1.0)]);
                chosen.reruns.iter().for_each(|rerun| self.programme.add(row, *rerun, 1.0));
            }
        }
    }
}

//! A time that no plan can beat.
//!
//! Compute is serial: an iteration takes at least all its ops, plus the time in which ops are run
//! again or compute stands idle. Call that extra time `E`. Look at the moment when some op `q`
//! starts. What `q` uses is on the device then; of all tensors that were used before and will be
//! used after, at least `D` bytes are not, where `D` is what all of these have beyond the budget.
//! Each of the absent ones comes back in one of three ways:
//!
//! - over the link, as itself or as a compressed form. It left before `q` started and returns after
//!   `q` has ended, so the bytes that go that way are at most what the link carries out in `A + E`
//!   and in in `B + E`, `A` and `B` being the time of the ops before and after `q`;
//! - by running its op again, which takes its share of `E`. One run brings back all outputs of
//!   an op; the cheapest per byte come first, and fractions of a run are allowed (the relaxation);
//! - by a codec, whose two runs take their share of `E`. Of a tensor of `b` bytes whose compressed
//!   form has `r`, `b - r` are absent for that; the other `r` are still there, or are among the
//!   bytes that go over the link. Fractions are allowed here, too. Where codecs may have a lane of
//!   their own, only what they slow compute by is of `E`, and all codecs together take no more than
//!   the iteration. (While a codec runs, compute either stands idle or is slowed.)
//!
//! The smallest `E` under which these ways together carry `D` is a bound for that op; the largest
//! of these is the bound. Latencies, the order of copies and what a recomputation itself needs are
//! left out, which only lowers it.

use schema::{Bytes, Nanos, OpId};
use simulator::{CodecLane, Gap, GapId};

use crate::cut::{self, Cuts};
use crate::kept_load::certain_load;
use crate::{Monitor, Problem, Progress, moving};

/// Bounds are computed at this many ops, those with the most bytes too many. Any choice of ops
/// gives a bound.
const OPS: usize = 256;

/// What no plan can beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// No plan takes less time.
    Time(Nanos),
    /// No plan fits at all.
    Infeasible {
        /// What some op needs on the device at once, whatever the plan.
        needed: Bytes,
        /// The op; the last, where it is the end of the iteration that needs it.
        op: OpId,
    },
}

impl Bound {
    /// The time, where there is one.
    pub fn time(self) -> Option<Nanos> {
        match self {
            Self::Time(time) => Some(time),
            Self::Infeasible { .. } => None,
        }
    }
}

/// The bound for a problem: for its budget, its link, and what is allowed. Where what outlives the
/// iteration may begin and end it on the device, that is where it does in all plans that this is for;
/// where there is no room for that, in none.
pub fn bound(problem: &Problem) -> Bound {
    or_moving(problem, problem.resident())
}

/// The bound for plans in which what outlives the iteration moves, where there are no others.
fn or_moving(problem: &Problem, resident: Bound) -> Bound {
    match resident {
        Bound::Infeasible { .. } if problem.allowed.swap => moving::bound::bound(problem),
        resident => resident,
    }
}

/// The bound for plans in which what outlives the iteration begins and ends it on the device: the larger
/// of the above and of what cuts (`cut`, with the proof) say. A problem has it ready ([`Problem::resident`]).
pub(crate) fn resident(problem: &Problem) -> Bound {
    match problem.cuts().0 {
        Cuts::Needs(needed, op) => Bound::Infeasible { needed, op },
        Cuts::Extra(extra) => match by_bytes(problem) {
            Bound::Time(time) => {
                let trace = problem.trace;
                Bound::Time(time.max(trace.device_time() + Nanos(extra)).max(trace.net_time()))
            }
            infeasible => infeasible,
        },
    }
}

/// Whether cuts at some places say that no plan of the above takes less than this. That is found sooner than the bound.
pub(crate) fn takes_at_least(problem: &Problem, places: &[usize], time: Nanos) -> bool {
    let extra = time.saturating_sub(problem.trace.device_time());
    cut::takes_at_least(problem, places, extra.0)
}

/// The same with more time: several places of the iteration together, where nothing is
/// compressed. Told to stop, it is what is known by then. It is found once for a problem.
pub fn tightened(problem: &Problem, monitor: &dyn Monitor) -> Bound {
    let proceed = |done, of| monitor.proceed(Progress { phase: "bound", done, of });
    tightened_while(problem, &proceed)
}

/// The same, as long as it may go on, which is told how far it is.
pub(crate) fn tightened_while(problem: &Problem, proceed: &dyn Fn(u64, u64) -> bool) -> Bound {
    match problem.resident() {
        Bound::Time(time) => {
            let more = problem.trace.device_time() + Nanos(problem.tightened(proceed));
            Bound::Time(time.max(more))
        }
        infeasible => or_moving(problem, infeasible),
    }
}

/// The bound of which the head of this file speaks.
fn by_bytes(problem: &Problem) -> Bound {
    let compute = problem.trace.device_time().0;
    let mut excess = excess_by_op(problem);
    excess.retain(|excess| excess.bytes > 0);
    excess.sort_by_key(|excess| (std::cmp::Reverse(excess.bytes), excess.op));
    let mut extra = 0;
    let reruns = Reruns::new(problem);
    for excess in excess.iter().take(OPS) {
        if reruns.suffice(problem, excess, extra) {
            continue;
        }
        match extra_time(problem, excess) {
            Some(time) => extra = time.max(extra),
            None => {
                let needed = problem.budget + Bytes(excess.bytes);
                return Bound::Infeasible { needed, op: OpId(excess.op as u32) };
            }
        }
    }
    Bound::Time(Nanos(compute + extra))
}

/// How much is too much at one op if nothing leaves.
struct Excess {
    op: usize,
    bytes: u64,
    /// Time of the ops before and after.
    before: u64,
    after: u64,
}

impl Excess {
    /// Whether the op is within a gap.
    fn is_within(&self, gap: &Gap) -> bool {
        gap.after.index() < self.op && gap.before.is_none_or(|op| op.index() > self.op)
    }
}

fn excess_by_op(problem: &Problem) -> Vec<Excess> {
    let total = problem.trace.device_time().0;
    let mut before = 0;
    let loads = certain_load(problem).into_iter().zip(&problem.trace.ops).enumerate();
    let excess = loads.map(|(index, (load, op))| {
        let after = total - before - op.device_time().0;
        let bytes = load.saturating_sub(problem.budget.0);
        let excess = Excess { op: index, bytes, before, after };
        before += op.device_time().0;
        excess
    });
    excess.collect()
}

/// The smallest extra time with which enough can be absent at one op; none if nothing suffices.
fn extra_time(problem: &Problem, excess: &Excess) -> Option<u64> {
    let gaps = problem.model.gaps();
    let open: Vec<GapId> = (0..gaps.len()).filter(|gap| excess.is_within(&gaps[*gap])).collect();
    let reruns = reruns(problem, &open);
    let codecs = codec_runs(problem, &open);
    let ways = Ways::new(reruns, codecs, problem.codecs.costs.lane());
    let ops = problem.trace.device_time().0;
    let bytes = open.iter().map(|gap| problem.model.gaps()[*gap].bytes.0).sum();
    let absent = |extra: u64| -> f64 {
        over_link(problem, excess, (open.len(), bytes), extra) + ways.brought_back(ops, extra)
    };
    let wanted = excess.bytes as f64;
    let most = 1u64 << 60;
    if absent(most) < wanted {
        return None;
    }
    let (mut too_little, mut enough) = (0, most);
    if absent(0) >= wanted {
        return Some(0);
    }
    while enough - too_little > 1 {
        let middle = too_little + (enough - too_little) / 2;
        if absent(middle) >= wanted { enough = middle } else { too_little = middle }
    }
    Some(too_little)
}

/// Bytes that the link may have taken at one op, and brings back, of so many open gaps with so many
/// bytes.
fn over_link(problem: &Problem, excess: &Excess, (open, bytes): (usize, u64), extra: u64) -> f64 {
    let link = &problem.machine.link;
    let carried = |speed: f64, time: u64| speed * time as f64 / 1e9;
    // Rounded in the plan's favour: a copy's time is rounded to the nearest nanosecond.
    let slack = 1.0 + open as f64;
    let swappable = if problem.allowed.swap { bytes } else { 0 };
    let out = carried(fastest(&link.d2h), excess.before + extra);
    let back = carried(fastest(&link.h2d), excess.after + extra);
    (out.min(back) * (1.0 + 1e-9) + slack * fastest(&link.d2h) / 1e9).min(swappable as f64)
}

fn fastest(bandwidth: &schema::Bandwidth) -> f64 {
    let speeds = bandwidth.pinned.iter().map(|point| point.bytes_per_sec.0);
    speeds.max().unwrap_or(1) as f64
}

/// All gaps, in an order that is good at most ops: those that a rerun brings back first, by what it
/// takes per byte of all the gaps of its op.
struct Reruns {
    /// Gaps, each with the op that brings it back and that op's time.
    gaps: Vec<(GapId, Option<(OpId, u64)>)>,
}

impl Reruns {
    fn new(problem: &Problem) -> Self {
        let all: Vec<GapId> = (0..problem.model.gaps().len()).collect();
        let mut of_op = vec![(0, 0); problem.trace.ops.len()];
        rerun_gaps(problem, &all).for_each(|(op, bytes)| of_op[op.index()].1 += bytes);
        for (of_op, index) in of_op.iter_mut().zip(0..) {
            of_op.0 = time_again(problem, OpId(index));
        }
        let maker = |gap: &GapId| rerun_gaps(problem, &[*gap]).next().map(|(op, _)| op);
        let mut gaps: Vec<(GapId, Option<(OpId, u64)>)> = (all.iter())
            .map(|gap| (*gap, maker(gap).map(|op| (op, of_op[op.index()].0))))
            .collect();
        gaps.sort_by(|(_, one), (_, other)| match (one, other) {
            (Some((one, _)), Some((other, _))) => {
                by_time_per_byte(&of_op[one.index()], &of_op[other.index()]).then(one.cmp(other))
            }
            _ => one.is_none().cmp(&other.is_none()),
        });
        Self { gaps }
    }

    /// Whether enough can be absent at an op with `extra` time for the link and for running ops
    /// again in this order. If so, that op's extra time is no more; if not, it may still be.
    fn suffice(&self, problem: &Problem, excess: &Excess, extra: u64) -> bool {
        let (mut open, mut bytes) = (0, 0);
        let (mut left, mut whole) = (extra, 0);
        // The op that was run last, its time, and the bytes that it brings back: not more fit after
        // it.
        let mut last: Option<(OpId, u64, u64)> = None;
        for (gap, rerun) in &self.gaps {
            let gap = &problem.model.gaps()[*gap];
            if !excess.is_within(gap) {
                continue;
            }
            open += 1;
            bytes += gap.bytes.0;
            let Some((op, time)) = *rerun else { continue };
            match &mut last {
                Some((running, _, sum)) if *running == op => *sum += gap.bytes.0,
                Some((_, cost, _)) if *cost > left => {}
                _ => {
                    let (_, cost, sum) = last.unwrap_or((op, 0, 0));
                    (left, whole) = (left - cost, whole + sum);
                    last = Some((op, time, gap.bytes.0));
                }
            }
        }
        let (_, cost, sum) = last.unwrap_or((OpId(0), 0, 0));
        let share = if cost > left { left as f64 / cost as f64 } else { 1.0 };
        over_link(problem, excess, (open, bytes), extra) + (whole as f64 + sum as f64 * share)
            >= excess.bytes as f64
    }
}

/// The gaps among these that a rerun brings back: the op and the gap's bytes.
fn rerun_gaps<'a>(
    problem: &'a Problem,
    gaps: &'a [GapId],
) -> impl Iterator<Item = (OpId, u64)> + 'a {
    gaps.iter().filter_map(|gap| {
        let gap = &problem.model.gaps()[*gap];
        let maker = problem.model.remade_by(gap.tensor);
        Some((maker.filter(|op| problem.may_run_again(*op))?, gap.bytes.0))
    })
}

pub(crate) fn time_again(problem: &Problem, op: OpId) -> u64 {
    let op = &problem.trace.ops[op.index()];
    op.device_time_again().0
}

/// Ops whose outputs are among the open gaps: time to run each again and bytes that come back by
/// it.
fn reruns(problem: &Problem, open: &[GapId]) -> Vec<(u64, u64)> {
    let mut by_op: Vec<(OpId, u64)> = rerun_gaps(problem, open).collect();
    by_op.sort_unstable();
    by_op.dedup_by(|(op, bytes), (first, sum)| {
        *sum += if op == first { *bytes } else { 0 };
        op == first
    });
    by_op.into_iter().map(|(op, bytes)| (time_again(problem, op), bytes)).collect()
}

/// For each open gap, the time that its tensor spends in a codec and the bytes that this spares.
/// Of several codecs, as if one spared as much as the best does in as little time per byte.
fn codec_runs(problem: &Problem, open: &[GapId]) -> Vec<(u64, u64)> {
    let run = |gap: &GapId| {
        let bytes = problem.model.gaps()[*gap].bytes;
        let runs = problem.may_compress(*gap).map(|(_, cost)| {
            let time = cost.compress + cost.decompress;
            (time.0, bytes.saturating_sub(cost.reserved).0)
        });
        let runs: Vec<(u64, u64)> = runs.collect();
        let most = runs.iter().map(|(_, spared)| *spared).max()?;
        let (time, spared) = runs.into_iter().min_by(by_time_per_byte)?;
        let time = u128::from(time) * u128::from(most) / u128::from(spared.max(1));
        Some((u64::try_from(time).unwrap_or(u64::MAX), most))
    };
    open.iter().filter_map(run).collect()
}

fn by_time_per_byte((t, b): &(u64, u64), (u, c): &(u64, u64)) -> std::cmp::Ordering {
    (u128::from(*t) * u128::from(*c)).cmp(&(u128::from(*u) * u128::from(*b)))
}

/// The ways back that take compute's time.
struct Ways {
    /// Time of compute and bytes, of reruns and codecs.
    on_compute: Runs,
    /// Of reruns alone, and of codecs alone with their own time, where they have their own lane.
    apart: Option<[Runs; 2]>,
}

impl Ways {
    fn new(reruns: Vec<(u64, u64)>, codecs: Vec<(u64, u64)>, lane: Option<CodecLane>) -> Self {
        let taken = 1000 - lane.map_or(0, |lane| u64::from(lane.beside_codec_permille));
        let slowed = |(time, bytes): &(u64, u64)| {
            ((u128::from(*time) * u128::from(taken) / 1000) as u64, *bytes)
        };
        let on_compute = codecs.iter().map(slowed).chain(reruns.iter().copied()).collect();
        Self {
            on_compute: Runs::new(on_compute),
            apart: lane.map(|_| [Runs::new(reruns), Runs::new(codecs)]),
        }
    }

    /// Bytes that come back with `extra` time of compute, in an iteration whose ops take `ops`.
    fn brought_back(&self, ops: u64, extra: u64) -> f64 {
        let all = self.on_compute.brought_back(extra);
        let Some([reruns, codecs]) = &self.apart else { return all };
        all.min(reruns.brought_back(extra) + codecs.brought_back(ops + extra))
    }
}

/// Runs of ops or codecs, the cheapest per byte first.
pub(crate) struct Runs {
    /// Time and bytes of each.
    runs: Vec<(u64, u64)>,
    /// Time and bytes of all before each, and of all.
    before: Vec<(u64, u64)>,
}

impl Runs {
    pub fn none() -> Self {
        Self::new(Vec::new())
    }

    pub fn new(mut runs: Vec<(u64, u64)>) -> Self {
        runs.sort_by(by_time_per_byte);
        let mut before = vec![(0, 0)];
        before.extend(runs.iter().scan((0u64, 0u64), |sum, (time, bytes)| {
            *sum = (sum.0.saturating_add(*time), sum.1.saturating_add(*bytes));
            Some(*sum)
        }));
        Self { runs, before }
    }

    /// Bytes that running them for `time` brings back, a last run in part.
    pub fn brought_back(&self, time: u64) -> f64 {
        let whole = self.before.partition_point(|(before, _)| *before <= time) - 1;
        let (before, result) = self.before[whole];
        let part = self
            .runs
            .get(whole)
            .map_or(0.0, |(cost, bytes)| *bytes as f64 * ((time - before) as f64 / *cost as f64));
        result as f64 + part
    }
}

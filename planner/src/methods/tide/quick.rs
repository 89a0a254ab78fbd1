//! A first plan's decisions.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Range;

use schema::{Bytes, Direction, OpId};
use simulator::{Evaluator, Infeasible, Profile, Treatment};

use super::options::{Options, policy};
use crate::Problem;
use crate::kept_load::kept_load;

/// Attempts, each for less memory than the one before exceeded.
const ATTEMPTS: u64 = 20;

/// Ops that are counted at most where one rerun takes others.
const CHAIN: usize = 24;

/// What a byte over the link costs against one of compute, while the link has time.
const HIDDEN: f64 = 0.05;

/// Decisions that fit, or why the last that were tried do not.
///
/// Where the most is on the device, the gap is given up that is the cheapest per byte, in compute's
/// time or the link's, until nothing is too much anywhere. What recomputation itself needs is found
/// out by evaluating: then the same is done for less memory.
pub(in crate::methods) fn start(
    problem: &Problem,
    target: Bytes,
    options: &Options,
) -> Result<Vec<Treatment>, Infeasible> {
    let mut evaluator = problem.evaluator(policy(problem), target);
    let load = kept_load(problem);
    let (mut room, mut attempt) = (target, 0);
    loop {
        let treatments = Greedy::new(problem, &evaluator, options, &load, room).run();
        match evaluator.evaluate(&treatments) {
            Ok(_) => return Ok(treatments),
            Err(Infeasible::Memory { needed, .. }) if attempt + 1 < ATTEMPTS => {
                let excess = needed.saturating_sub(target);
                // Half of it often is enough, because other reruns follow; each time a little more.
                let part = Bytes(excess.0 / 2 + excess.0 * attempt / ATTEMPTS);
                let less = part.max(Bytes(target.0 / 100));
                room = room.saturating_sub(less);
                attempt += 1;
            }
            Err(cause) => return Err(cause),
        }
    }
}

/// A gap that may be given up.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Offer {
    /// Nanoseconds per byte.
    cost: f64,
    /// Its place among the options.
    index: usize,
    treatment: Treatment,
}

impl Eq for Offer {}

impl Ord for Offer {
    /// The greatest is the cheapest, and of equals the first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.cost.total_cmp(&self.cost).then(other.index.cmp(&self.index))
    }
}

impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The choice of what to give up next.
struct Greedy<'a> {
    problem: &'a Problem<'a>,
    evaluator: &'a Evaluator<'a>,
    options: &'a Options,
    treatments: Vec<Treatment>,
    /// Bytes at each op, under the treatments so far.
    load: Profile,
    ops: usize,
    room: i64,
    /// Time that the link has left, out and in alike.
    link: f64,
    /// Whether some gap of a tensor is recomputed.
    recomputed: Vec<bool>,
    /// Whether each of the options is given up, or cannot be.
    gone: Vec<bool>,
    offers: Offers,
}

/// Offers by the ops that their gaps leave out: each is at those nodes of a tree over ops that are its
/// gap together.
struct Offers {
    leaves: usize,
    /// By node, the cheapest first.
    nodes: Vec<BinaryHeap<Offer>>,
}

impl Offers {
    fn push(&mut self, ops: Range<usize>, offer: Offer) {
        let (mut begin, mut end) = (ops.start + self.leaves, ops.end + self.leaves);
        while begin < end {
            if begin % 2 == 1 {
                self.nodes[begin].push(offer);
                begin += 1;
            }
            if end % 2 == 1 {
                end -= 1;
                self.nodes[end].push(offer);
            }
            (begin, end) = (begin / 2, end / 2);
        }
    }

    /// The node that has the cheapest offer whose gap an op lies in.
    fn cheapest(&self, op: usize) -> Option<usize> {
        let path = std::iter::successors(Some(op + self.leaves), |node| Some(node / 2));
        let offers = path.take_while(|node| *node > 0);
        offers.filter(|node| !self.nodes[*node].is_empty()).max_by_key(|n| self.nodes[*n].peek())
    }
}

impl<'a> Greedy<'a> {
    fn new(
        problem: &'a Problem<'a>,
        evaluator: &'a Evaluator<'a>,
        options: &'a Options,
        load: &[u64],
        room: Bytes,
    ) -> Self {
        let mut greedy = Self {
            problem,
            evaluator,
            options,
            treatments: problem.keep_all(),
            load: Profile::default(),
            ops: load.len(),
            room: i64::try_from(room.0).unwrap_or(i64::MAX),
            link: problem.trace.total_time().0 as f64 / 2.0,
            recomputed: vec![false; problem.trace.tensors.len()],
            gone: vec![false; options.all().len()],
            offers: Offers { leaves: load.len(), nodes: vec![BinaryHeap::new(); 2 * load.len()] },
        };
        greedy.load.reset(load);
        for index in 0..options.all().len() {
            let offer = greedy.offer(index);
            greedy.offers.push(greedy.ops_of(index), offer);
        }
        greedy
    }

    fn run(mut self) -> Vec<Treatment> {
        // The last of the fullest ops, while any is too full.
        while let Some(op) = (self.load.most() > self.room)
            .then(|| self.load.last_above(0..self.ops, self.load.most() - 1))
            .flatten()
        {
            match self.next(op) {
                Some(offer) => self.give_up(offer),
                // Nothing serves here; elsewhere it may.
                None => self.load.add(op..op + 1, -self.load.at(op)),
            }
        }
        self.treatments
    }

    /// The ops that a gap leaves out.
    fn ops_of(&self, index: usize) -> Range<usize> {
        let gap = &self.problem.model.gaps()[self.options.all()[index].0];
        gap.after.index() + 1..gap.before.map_or(self.ops, |op| op.index())
    }

    /// The cheapest offer whose gap an op lies in. Costs only grow: what was cheapest when it was
    /// last looked at, and still is, is the cheapest.
    fn next(&mut self, op: usize) -> Option<Offer> {
        while let Some(node) = self.offers.cheapest(op) {
            let Some(offer) = self.offers.nodes[node].pop() else { continue };
            if self.gone[offer.index] {
                continue;
            }
            let now = self.offer(offer.index);
            if now.cost <= offer.cost * 1.001 {
                self.gone[offer.index] = true;
                return now.cost.is_finite().then_some(now);
            }
            self.offers.nodes[node].push(now);
        }
        None
    }

    fn give_up(&mut self, offer: Offer) {
        let Offer { index, treatment, .. } = offer;
        let (id, _) = &self.options.all()[index];
        let gap = &self.problem.model.gaps()[*id];
        self.treatments[*id] = treatment;
        if matches!(treatment, Treatment::Recompute | Treatment::RecomputeEachTime) {
            self.recomputed[gap.tensor.index()] = true;
        }
        self.link -= self.over_link(index, treatment);
        let relief = self.relief(index, treatment) as i64;
        self.load.add(self.ops_of(index), -relief);
    }

    /// The cheapest way to give up a gap.
    fn offer(&self, index: usize) -> Offer {
        let ways = self.options.all()[index].1.iter().copied();
        let offers = ways.map(|treatment| {
            let cost = self.cost_per_byte(index, treatment);
            Offer { cost, index, treatment }
        });
        let keep = Offer { cost: f64::INFINITY, index, treatment: Treatment::Keep };
        offers.max().unwrap_or(keep)
    }

    fn relief(&self, index: usize, treatment: Treatment) -> f64 {
        let gap = self.options.all()[index].0;
        let bytes = self.problem.model.gaps()[gap].bytes.0;
        let small = match treatment {
            Treatment::Compress(codec) => self.small(gap, codec).map_or(bytes, |(size, _)| size),
            _ => 0,
        };
        bytes.saturating_sub(small) as f64
    }

    /// What a codec makes of a gap's tensor: its size, and the time of both runs.
    fn small(&self, gap: usize, codec: u8) -> Option<(u64, u64)> {
        let cost = self.problem.may_compress(gap).find(|(of, _)| *of == codec)?.1;
        Some((cost.reserved.0, cost.compress.0 + cost.decompress.0))
    }

    /// Time of the longer of the two copies.
    fn over_link(&self, index: usize, treatment: Treatment) -> f64 {
        let tensor = self.problem.model.gaps()[self.options.all()[index].0].tensor;
        let copy = |direction| match treatment {
            Treatment::Swap => self.evaluator.copy_time(direction, tensor).0,
            Treatment::SwapCompressed(codec) => {
                self.evaluator.small_copy_time(direction, codec, tensor).0
            }
            _ => 0,
        };
        copy(Direction::D2h).max(copy(Direction::H2d)) as f64
    }

    fn cost_per_byte(&self, index: usize, treatment: Treatment) -> f64 {
        let id = self.options.all()[index].0;
        let gap = &self.problem.model.gaps()[id];
        let copy = self.over_link(index, treatment);
        let exposed = if copy <= self.link { HIDDEN * copy } else { copy };
        let time = match treatment {
            Treatment::Keep => return f64::INFINITY,
            // Whether to bring a tensor back for good or not is left to the search.
            Treatment::RecomputeEachTime | Treatment::SwapEachTime => return f64::INFINITY,
            Treatment::Recompute => self.rerun_time(id) as f64,
            Treatment::Compress(codec) | Treatment::SwapCompressed(codec) => {
                exposed + self.small(id, codec).map_or(f64::INFINITY, |(_, time)| time as f64)
            }
            _ => exposed,
        };
        let relief = self.relief(index, treatment);
        if relief <= 0.0 {
            return f64::INFINITY;
        }
        // Of two that cost alike, the one that is away for longer.
        let end = gap.before.map_or(self.ops, |op| op.index());
        let ops = (end - gap.after.index()) as f64;
        (time + 1.0) / relief * (1.0 + 0.01 / ops)
    }

    /// Time to run the op again that makes a gap's tensor, and what must be run again for it.
    fn rerun_time(&self, id: usize) -> u64 {
        let model = &self.problem.model;
        let gap = &model.gaps()[id];
        let end = self.problem.trace.ops.len() as u32;
        let at = gap.before.map_or(end, |op| op.0);
        let Some(maker) = model.remade_by(gap.tensor) else { return u64::MAX };
        let mut ops = vec![maker];
        let mut next = 0;
        while next < ops.len() && ops.len() < CHAIN {
            for input in model.reads_again(ops[next]) {
                let Some(maker) = model.remade_by(input) else { continue };
                let is_dead = model.last_use(input).is_some_and(|last| last.0 < at);
                if (is_dead || self.recomputed[input.index()]) && !ops.contains(&maker) {
                    ops.push(maker);
                }
                if ops.len() == CHAIN {
                    break;
                }
            }
            next += 1;
        }
        let time = |op: &OpId| {
            let op = &self.problem.trace.ops[op.index()];
            op.recompute.unwrap_or(op.duration).0
        };
        ops.iter().map(time).sum()
    }
}

//! Where places are put: a first one, and then where a plan that decides as the shares do, and does all else as late as can be,
//! has most on the device.

use super::climb::{Climb, How, climb};
use super::programme::Programme;

/// For how long prices need not get better at places that are tried: the first time, and once more.
const PATIENCE: [usize; 2] = [12, 50];

const MOST_PLACES: usize = 24;

/// Of so few ops, all are places.
const FEW_OPS: usize = 16;

/// Where something may be copied, it is given up if so many places say no more than one of them alone does.
const IN_VAIN: usize = 6;

/// Places that raise the bound by less than this part of it, in millionths, are given up, and so
/// are the ops around them: this part of all, in each direction.
const WORTH: f64 = 200.0;
const AROUND: [usize; 2] = [128, 32];

/// Places that are tried at once are further apart than so many times what is around one.
const APART: usize = 4;

/// How far the search for places has come.
#[derive(Debug, Clone)]
pub(crate) struct Reached {
    pub places: Vec<usize>,
    pub(super) best: Climb,
    /// What no plan can beat, in nanoseconds beyond the time of its ops.
    pub extra: u64,
    /// Ops that are no place to try, and how many tries there were.
    tried: Vec<bool>,
    count: usize,
    /// Whether no other place is worth trying.
    is_done: bool,
}

impl Reached {
    /// With the places of a programme alone.
    pub(super) fn at_first(
        programme: &Programme,
        (work, proceed): (&mut usize, &dyn Fn(usize) -> bool),
    ) -> Self {
        let mut best = Climb::new(programme);
        climb(programme, &mut best, How::patiently(PATIENCE[0]), (work, proceed));
        let extra = programme.bound(&best.rows, &best.stores);
        let places = programme.places.clone();
        let tried = only(&places, programme.facts.problem.trace.ops.len());
        Self { places, best, extra, tried, count: 0, is_done: false }
    }

    /// Looks for more places, for as long as it may go on with the work that is left and some are worth it. Such a part of
    /// as many as there are is tried at once, but at least one.
    pub(super) fn look_on<'a>(
        &mut self,
        programme: &mut Programme<'a>,
        known: u64,
        at_once: f64,
        (work, proceed): (&mut usize, &dyn Fn(usize) -> bool),
    ) {
        let copies = programme.facts.copies;
        let ops = self.tried.len();
        let around = ops / AROUND[usize::from(copies)];
        let mut how = How::patiently(PATIENCE[0]);
        let mut load = programme.load(&self.best);
        while !self.is_done && proceed(*work) {
            if copies && self.count >= IN_VAIN && self.extra <= known && ops > FEW_OPS {
                break;
            }
            self.count += 1;
            let many = (at_once * self.places.len() as f64).ceil() as usize;
            let next = self.next(programme, &load, many.max(1), APART * around);
            if next.is_empty() {
                if how.patience == PATIENCE[1] {
                    self.is_done = true;
                    break;
                }
                how = How::patiently(PATIENCE[1]);
                climb(programme, &mut self.best, how, (&mut *work, proceed));
                let raised = programme.bound(&self.best.rows, &self.best.stores);
                self.extra = raised.max(self.extra);
                load = programme.load(&self.best);
                self.tried = only(&self.places, ops);
                continue;
            }
            let (more, mut found) = programme.with(&self.best, &next);
            climb(&more, &mut found, how, (&mut *work, proceed));
            let raised = more.bound(&found.rows, &found.stores);
            if raised as f64 > self.extra as f64 * (1.0 + WORTH / 1e6) || ops <= FEW_OPS {
                load = more.load(&found);
                self.places.clone_from(&more.places);
                self.best = found;
                *programme = more;
                next.iter().for_each(|op| self.tried[*op] = true);
            } else {
                next.iter().for_each(|op| near(*op, around, &mut self.tried));
            }
            self.extra = raised.max(self.extra);
        }
    }

    /// The ops to try next: where most is on the device, beyond the budget, and not near one another.
    fn next(&self, programme: &Programme, load: &[u64], many: usize, apart: usize) -> Vec<usize> {
        let (ops, budget) = (self.tried.len(), programme.facts.problem.budget.0);
        let many = many.min(MOST_PLACES.saturating_sub(self.places.len()));
        let mut tried = self.tried.clone();
        let mut next = Vec::new();
        while next.len() < many {
            let may_be = |op: &usize| !tried[*op] && (load[*op] > budget || ops <= FEW_OPS);
            let most = (0..ops).filter(may_be).max_by_key(|op| (load[*op], ops - op));
            let Some(op) = most else { break };
            near(op, apart, &mut tried);
            next.push(op);
        }
        next
    }
}

/// Says of ops whether they are among those.
fn only(those: &[usize], ops: usize) -> Vec<bool> {
    (0..ops).map(|op| those.contains(&op)).collect()
}

/// Says of an op and of so many to each side of it that they were tried.
fn near(op: usize, around: usize, tried: &mut [bool]) {
    let end = (op + around + 1).min(tried.len());
    tried[op.saturating_sub(around)..end].fill(true);
}

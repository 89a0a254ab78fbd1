//! Memory saved per second of recomputation, as choices change it.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

use schema::TensorId;
use simulator::GapId;

use crate::Problem;

/// A tensor that may be recomputed, in the names of Algorithm 2.
#[derive(Debug, Clone)]
struct Candidate {
    gap: GapId,
    tensor: TensorId,
    bytes: u64,
    /// `srcs`: the candidates and chosen tensors from which it is recomputed.
    sources: BTreeSet<TensorId>,
    /// `rp_time`: nanoseconds from its sources.
    time: u64,
    /// `ext_time`: nanoseconds that its recomputation adds to those of others.
    extra: u64,
}

/// What becomes of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Left,
    Swapped,
    Chosen,
}

/// How much memory a candidate saves for its time: the greatest is the best, the earliest among equals.
#[derive(Debug, Clone, Copy)]
struct Saving {
    bytes: u64,
    time: u64,
    gap: GapId,
}

impl Ord for Saving {
    fn cmp(&self, other: &Self) -> Ordering {
        // bytes / time, compared without a fraction; what has no bytes saves nothing in no time, too.
        let by_msps = match (self.bytes, other.bytes) {
            (0, _) | (_, 0) => self.bytes.cmp(&other.bytes),
            (a, b) => (u128::from(a) * u128::from(other.time))
                .cmp(&(u128::from(b) * u128::from(self.time))),
        };
        by_msps.then(other.gap.cmp(&self.gap))
    }
}

impl PartialOrd for Saving {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Saving {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Saving {}

/// The candidates, by gap, and what becomes of each.
pub(super) struct Candidates {
    all: Vec<(Candidate, State)>,
    /// By tensor, the candidates for it, and those that have it among their sources.
    of: HashMap<TensorId, Vec<usize>>,
    from: HashMap<TensorId, BTreeSet<usize>>,
    /// Of those that are left.
    savings: BTreeSet<Saving>,
}

impl Candidates {
    /// Feature maps that can be recomputed, each from the nearest feature maps that lead to it
    /// (Algorithm 2's `InitMSPS`); everything between them is recomputed along.
    pub fn of(problem: &Problem) -> Self {
        let gaps = problem.model.gaps();
        let mut is_map = vec![false; problem.model.tensors()];
        problem.feature_maps.iter().for_each(|gap| is_map[gaps[*gap].tensor.index()] = true);
        let maps = problem.feature_maps.iter().filter(|gap| problem.may_recompute(**gap));
        Self::new(maps.map(|gap| {
            let tensor = gaps[*gap].tensor;
            let (sources, time) = lineage(problem, &is_map, tensor);
            let bytes = gaps[*gap].bytes.0;
            Candidate { gap: *gap, tensor, bytes, sources, time, extra: 0 }
        }))
    }

    /// All are left, in the order of their gaps.
    fn new(all: impl Iterator<Item = Candidate>) -> Self {
        let all: Vec<_> = all.map(|candidate| (candidate, State::Left)).collect();
        let (mut of, mut from) = (HashMap::new(), HashMap::new());
        for (index, (candidate, _)) in all.iter().enumerate() {
            of.entry(candidate.tensor).or_insert_with(Vec::new).push(index);
            for source in &candidate.sources {
                from.entry(*source).or_insert_with(BTreeSet::new).insert(index);
            }
        }
        let mut candidates = Self { all, of, from, savings: BTreeSet::new() };
        candidates.savings = (0..candidates.all.len()).map(|i| candidates.saving(i)).collect();
        candidates
    }

    fn saving(&self, index: usize) -> Saving {
        let Candidate { bytes, time, extra, gap, .. } = self.all[index].0;
        Saving { bytes, time: time + extra, gap }
    }

    /// The candidate with the largest MSPS, the earliest among equals, and its time.
    pub fn best(&self) -> Option<(GapId, u64)> {
        self.savings.last().map(|saving| (saving.gap, saving.time))
    }

    /// A candidate is swapped, and no candidate any more.
    pub fn leave(&mut self, gap: GapId) {
        self.take(gap, State::Swapped);
    }

    /// A candidate is no longer left.
    fn take(&mut self, gap: GapId, becomes: State) -> Option<usize> {
        let index = self.all.binary_search_by_key(&gap, |(candidate, _)| candidate.gap).ok()?;
        if self.all[index].1 != State::Left {
            return None;
        }
        self.savings.remove(&self.saving(index));
        self.all[index].1 = becomes;
        Some(index)
    }

    /// A candidate that is left takes another time.
    fn change(&mut self, index: usize, time: u64, extra: u64) {
        self.savings.remove(&self.saving(index));
        (self.all[index].0.time, self.all[index].0.extra) = (time, extra);
        self.savings.insert(self.saving(index));
    }

    /// A candidate is recomputed: Algorithm 2 from the choice on.
    pub fn recompute(&mut self, gap: GapId) {
        let Some(index) = self.take(gap, State::Chosen) else { return };
        let target = self.all[index].0.clone();
        let mut led_to = self.from.remove(&target.tensor).unwrap_or_default();
        led_to.remove(&index);
        // How often the target will be recomputed: for itself and for each that it leads to.
        let is_chosen = |all: &[(Candidate, State)], of: usize| all[of].1 == State::Chosen;
        let count = 1 + led_to.iter().filter(|of| is_chosen(&self.all, **of)).count() as u64;
        for of in &led_to {
            let sources = &mut self.all[*of].0.sources;
            sources.remove(&target.tensor);
            sources.extend(&target.sources);
        }
        for source in &target.sources {
            self.from.entry(*source).or_default().extend(&led_to);
        }
        for of in led_to {
            if self.all[of].1 == State::Left {
                let Candidate { tensor, time, .. } = self.all[of].0;
                let time = time + target.time;
                let others = self.from.get(&tensor).into_iter().flatten();
                let others = others.filter(|of| **of != index && is_chosen(&self.all, **of));
                let others = others.count() as u64;
                self.change(of, time, others * time);
            }
        }
        for source in &target.sources {
            for of in self.of.get(source).cloned().unwrap_or_default() {
                if self.all[of].1 == State::Left {
                    let time = self.all[of].0.time;
                    self.change(of, time, count * time);
                }
            }
        }
    }
}

/// The feature maps from which a tensor is recomputed, and the time of all ops on the way.
fn lineage(problem: &Problem, is_map: &[bool], tensor: TensorId) -> (BTreeSet<TensorId>, u64) {
    let mut sources = BTreeSet::new();
    let mut ops = BTreeSet::new();
    let mut wanted = vec![tensor];
    while let Some(tensor) = wanted.pop() {
        let Some(op) = problem.model.producer(tensor).filter(|op| ops.insert(*op)) else {
            continue;
        };
        for input in problem.trace.ops[op.index()].reads_again() {
            if is_map[input.index()] {
                sources.insert(*input);
            } else {
                wanted.push(*input);
            }
        }
    }
    let time = |op: &schema::OpId| {
        let op = &problem.trace.ops[op.index()];
        op.recompute.unwrap_or(op.duration).0
    };
    (sources, ops.iter().map(time).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of three candidates, each recomputed from the one before.
    fn chain() -> Candidates {
        let candidate = |i: usize, bytes, time| Candidate {
            gap: i,
            tensor: TensorId(i as u32),
            bytes,
            sources: i.checked_sub(1).map(|i| TensorId(i as u32)).into_iter().collect(),
            time,
            extra: 0,
        };
        let all = [candidate(0, 100, 10), candidate(1, 100, 5), candidate(2, 100, 20)];
        Candidates::new(all.into_iter())
    }

    #[test]
    fn what_a_choice_needs_or_leads_to_costs_more_from_then_on() {
        let mut candidates = chain();
        assert_eq!(candidates.best(), Some((1, 5)));
        candidates.recompute(1);
        // Tensor 0 would be recomputed for tensor 1 as well; tensor 2 comes from tensor 0 now.
        let times = [0, 2].map(|index| candidates.saving(index).time);
        assert_eq!(times, [20, 25]);
        assert_eq!(candidates.all[2].0.sources, BTreeSet::from([TensorId(0)]));
        assert_eq!(candidates.best(), Some((0, 20)));
        candidates.leave(0);
        assert_eq!(candidates.best(), Some((2, 25)));
    }
}

//! Memory saved per second of recomputation, as choices change it.

use std::collections::BTreeSet;

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

/// The candidates that are left, and those chosen.
pub(super) struct Candidates {
    left: Vec<Candidate>,
    chosen: Vec<Candidate>,
}

impl Candidates {
    /// Feature maps that can be recomputed, each from the nearest feature maps that lead to it
    /// (Algorithm 2's `InitMSPS`); everything between them is recomputed along.
    pub fn of(problem: &Problem) -> Self {
        let gaps = problem.model.gaps();
        let mut is_map = vec![false; problem.model.tensors()];
        problem.feature_maps.iter().for_each(|gap| is_map[gaps[*gap].tensor.index()] = true);
        let maps = problem.feature_maps.iter().filter(|gap| problem.may_recompute(**gap));
        let left = maps.map(|gap| {
            let tensor = gaps[*gap].tensor;
            let (sources, time) = lineage(problem, &is_map, tensor);
            let bytes = gaps[*gap].bytes.0;
            Candidate { gap: *gap, tensor, bytes, sources, time, extra: 0 }
        });
        Self { left: left.collect(), chosen: Vec::new() }
    }

    /// The candidate with the largest MSPS, the earliest among equals, and its time.
    pub fn best(&self) -> Option<(GapId, u64)> {
        let better = |a: &&Candidate, b: &&Candidate| {
            // bytes / time, compared without a fraction
            let (x, y) = (u128::from(a.bytes), u128::from(b.bytes));
            let (t, u) = (u128::from(a.time + a.extra), u128::from(b.time + b.extra));
            (x * u).cmp(&(y * t)).then(b.gap.cmp(&a.gap))
        };
        self.left.iter().max_by(better).map(|c| (c.gap, c.time + c.extra))
    }

    /// A candidate is swapped, and no candidate any more.
    pub fn leave(&mut self, gap: GapId) {
        self.left.retain(|candidate| candidate.gap != gap);
    }

    /// A candidate is recomputed: Algorithm 2 from the choice on.
    pub fn recompute(&mut self, gap: GapId) {
        let Some(index) = self.left.iter().position(|candidate| candidate.gap == gap) else {
            return;
        };
        let target = self.left.remove(index);
        // How often the target will be recomputed: for itself and for each that it leads to.
        let mut count = 1;
        for chosen in &mut self.chosen {
            if chosen.sources.remove(&target.tensor) {
                chosen.sources.extend(&target.sources);
                count += 1;
            }
        }
        for candidate in &mut self.left {
            if candidate.sources.remove(&target.tensor) {
                candidate.sources.extend(&target.sources);
                candidate.time += target.time;
                let leads_to = |chosen: &&Candidate| chosen.sources.contains(&candidate.tensor);
                let others = self.chosen.iter().filter(leads_to).count() as u64;
                candidate.extra = others * candidate.time;
            }
            if target.sources.contains(&candidate.tensor) {
                candidate.extra = count * candidate.time;
            }
        }
        self.chosen.push(target);
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
        let left = vec![candidate(0, 100, 10), candidate(1, 100, 5), candidate(2, 100, 20)];
        Candidates { left, chosen: Vec::new() }
    }

    #[test]
    fn what_a_choice_needs_or_leads_to_costs_more_from_then_on() {
        let mut candidates = chain();
        assert_eq!(candidates.best(), Some((1, 5)));
        candidates.recompute(1);
        // Tensor 0 would be recomputed for tensor 1 as well; tensor 2 comes from tensor 0 now.
        let times: Vec<u64> = candidates.left.iter().map(|c| c.time + c.extra).collect();
        assert_eq!(times, [20, 25]);
        assert_eq!(candidates.left[1].sources, BTreeSet::from([TensorId(0)]));
        assert_eq!(candidates.best(), Some((0, 20)));
        candidates.leave(0);
        assert_eq!(candidates.best(), Some((2, 25)));
    }
}

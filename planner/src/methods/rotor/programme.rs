//! The dynamic programme over the stages of a chain.

use crate::methods::chain::{ChainOp, Costs, Keep};
use crate::{Monitor, PlanError, Progress, Result};

/// Units in which the programme counts memory.
pub(in crate::methods) const SLOTS: usize = 500;

const NEVER: u64 = u64::MAX;

/// In place of the stage before which a checkpoint is set: the first stage saves all.
const SAVE_ALL: u8 = 0;

/// The solved programme, for every number of slots.
pub(in crate::methods) struct Programme {
    stages: usize,
    /// The paper's sizes in slots.
    sizes: Sizes,
    /// `C_BP` by s, t and slots: nanoseconds, or [`NEVER`].
    time: Vec<u64>,
    /// What attains it: the s' of the paper, or [`SAVE_ALL`].
    choice: Vec<u8>,
}

/// [`Costs`] in slots, rounded up.
struct Sizes {
    output: Vec<usize>,
    all: Vec<usize>,
    gradient: Vec<usize>,
    forward_peak: Vec<usize>,
    forward_all_peak: Vec<usize>,
    backward_peak: Vec<usize>,
}

impl Sizes {
    fn of(costs: &Costs, memory: u64) -> Self {
        let slot = memory.div_ceil(SLOTS as u64).max(1);
        let in_slots = |sizes: &[u64]| -> Vec<usize> {
            sizes.iter().map(|bytes| bytes.div_ceil(slot) as usize).collect()
        };
        Self {
            output: in_slots(&costs.output),
            all: in_slots(&costs.all),
            gradient: in_slots(&costs.gradient),
            forward_peak: in_slots(&costs.forward_peak),
            forward_all_peak: in_slots(&costs.forward_all_peak),
            backward_peak: in_slots(&costs.backward_peak),
        }
    }

    /// `m_all` of the paper.
    fn to_save_all(&self, s: usize, t: usize) -> usize {
        (self.gradient[t] + self.forward_all_peak[s]).max(self.backward_peak[s])
    }

    /// `m_empty` of the paper.
    fn to_save_none(&self, s: usize, t: usize) -> usize {
        let later = (s + 1..t).map(|j| self.output[j - 1] + self.forward_peak[j]);
        self.gradient[t] + later.fold(self.forward_peak[s], usize::max)
    }
}

impl Programme {
    /// Solves the programme for all numbers of slots up to [`SLOTS`], with which nothing need be
    /// recomputed.
    pub fn solve(costs: &Costs, monitor: &dyn Monitor) -> Result<Self> {
        // Each size is rounded up to slots, so that keeping all may take a slot more for each.
        let rounding = costs.to_keep_all() / SLOTS as u64 * (costs.len() as u64 + 2);
        Self::solve_within(costs, costs.to_keep_all() + rounding, monitor)
    }

    /// Solves the programme for slots that are `memory` bytes together.
    fn solve_within(costs: &Costs, memory: u64, monitor: &dyn Monitor) -> Result<Self> {
        let stages = costs.len();
        let entries = stages * stages * (SLOTS + 1);
        let mut programme = Self {
            stages,
            sizes: Sizes::of(costs, memory),
            time: vec![NEVER; entries],
            choice: vec![SAVE_ALL; entries],
        };
        for length in 1..=stages {
            let (done, of) = (length as u64, stages as u64);
            if !monitor.proceed(Progress { phase: "checkpoints", done, of }) {
                return Err(PlanError::Interrupted);
            }
            for s in 0..=stages - length {
                programme.solve_for(costs, s, s + length - 1);
            }
        }
        Ok(programme)
    }

    fn solve_for(&mut self, costs: &Costs, s: usize, t: usize) {
        let to_save_all = self.sizes.to_save_all(s, t);
        let to_save_none = self.sizes.to_save_none(s, t);
        for slots in 0..=SLOTS {
            let mut best = (NEVER, SAVE_ALL);
            if slots >= to_save_all {
                let left = slots.checked_sub(self.sizes.all[s]);
                let rest = match left {
                    _ if s == t => 0,
                    Some(left) => self.at(s + 1, t, left),
                    None => NEVER,
                };
                best.0 = rest.saturating_add(costs.forward[s] + costs.backward[s]);
            }
            if slots >= to_save_none {
                let mut ahead = 0;
                for next in s + 1..=t {
                    ahead += costs.forward[next - 1];
                    let Some(left) = slots.checked_sub(self.sizes.output[next - 1]) else {
                        continue;
                    };
                    let behind = self.at(next, t, left);
                    let time = behind.saturating_add(self.at(s, next - 1, slots));
                    let time = time.saturating_add(ahead);
                    if time < best.0 {
                        best = (time, next as u8);
                    }
                }
            }
            let index = self.index(s, t, slots);
            (self.time[index], self.choice[index]) = best;
        }
    }

    fn index(&self, s: usize, t: usize, slots: usize) -> usize {
        (s * self.stages + t) * (SLOTS + 1) + slots
    }

    fn at(&self, s: usize, t: usize, slots: usize) -> u64 {
        self.time[self.index(s, t, slots)]
    }

    /// Time of the optimal schedule with so many slots; none where there is none.
    pub fn time(&self, slots: usize) -> Option<u64> {
        Some(self.at(0, self.stages - 1, slots)).filter(|time| *time != NEVER)
    }

    /// The fewest slots with which there is a schedule.
    pub fn fewest_slots(&self) -> Option<usize> {
        (0..=SLOTS).find(|slots| self.time(*slots).is_some())
    }

    /// The optimal schedule for a number of slots with which there is one.
    pub fn schedule(&self, slots: usize) -> Vec<ChainOp> {
        let mut operations = Vec::new();
        self.append(0, self.stages - 1, slots, &mut operations);
        operations
    }

    /// Not deeper than the chain is long.
    fn append(&self, s: usize, t: usize, slots: usize, operations: &mut Vec<ChainOp>) {
        match self.choice[self.index(s, t, slots)] {
            SAVE_ALL => {
                operations.push(ChainOp::Forward { stage: s, keep: Keep::All });
                if s < t {
                    self.append(s + 1, t, slots - self.sizes.all[s], operations);
                }
                operations.push(ChainOp::Backward { stage: s });
            }
            next => {
                let next = usize::from(next);
                operations.push(ChainOp::Forward { stage: s, keep: Keep::InputAndOutput });
                for stage in s + 1..next {
                    operations.push(ChainOp::Forward { stage, keep: Keep::Output });
                }
                self.append(next, t, slots - self.sizes.output[next - 1], operations);
                self.append(s, next - 1, slots, operations);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoMonitor;

    /// Stages that take no memory beside what they save.
    fn uniform(stages: usize, output: u64, all: u64) -> Costs {
        Costs {
            forward: vec![1; stages],
            backward: vec![1; stages],
            output: vec![output; stages],
            all: vec![all; stages],
            gradient: vec![0; stages],
            forward_peak: vec![output; stages],
            forward_all_peak: vec![all; stages],
            backward_peak: vec![all; stages],
        }
    }

    /// Where saving all takes no more than an output and everything counts one, the optimum is
    /// known: with a slot for each stage nothing runs twice.
    #[test]
    fn with_room_for_all_nothing_runs_twice() {
        let programme = Programme::solve_within(&uniform(10, 1, 1), SLOTS as u64, &NoMonitor);
        let programme = programme.expect("nobody interrupts");
        assert_eq!(programme.time(10), Some(20));
        assert_eq!(programme.fewest_slots(), Some(2));
        assert!(programme.time(9) > Some(20));
    }

    /// Uniform chains whose stages save nothing but their output are what `revolve` solves: the
    /// input aside, a schedule with c checkpoints has c - 1 outputs, one stage that saves all, and
    /// the two outputs of a step forward.
    #[test]
    fn of_uniform_chains_it_finds_what_binomial_checkpointing_finds() {
        for stages in 2..=20 {
            let costs = uniform(stages, 10, 10);
            let programme = Programme::solve_within(&costs, SLOTS as u64, &NoMonitor);
            let programme = programme.expect("nobody interrupts");
            for checkpoints in 1..stages {
                let forward_runs = crate::methods::revolve::schedule(stages, checkpoints)
                    .iter()
                    .filter(|op| matches!(op, ChainOp::Forward { .. }))
                    .count() as u64;
                let time = programme.time(10 * (checkpoints + 1)).expect("there is room");
                assert!(
                    time <= forward_runs + stages as u64,
                    "{stages} stages, {checkpoints} checkpoints: {time}, {forward_runs}"
                );
            }
        }
    }

    #[test]
    fn a_dear_stage_is_saved_and_cheap_ones_run_again() {
        let mut costs = uniform(3, 1, 1);
        costs.forward = vec![1, 100, 1];
        for sizes in [&mut costs.all, &mut costs.forward_all_peak, &mut costs.backward_peak] {
            *sizes = vec![2, 2, 2];
        }
        let programme = Programme::solve_within(&costs, SLOTS as u64, &NoMonitor);
        let programme = programme.expect("nobody interrupts");
        // Six slots hold all. Five hold what the last two stages save and the first one's output.
        // With four, what the dear stage saves goes, too.
        let times: Vec<_> = (4..=6).map(|slots| programme.time(slots)).collect();
        assert_eq!(times, [Some(206), Some(106), Some(105)]);
    }
}

//! The memory that each run of a sequence takes.

use super::{Key, LABEL_BITS, first_run, stage};

/// So many stages have one maximum.
const BLOCK: usize = 32;

/// Loads of all runs: those of a stage, whole stages and blocks of stages, each with what all below
/// it have in common, so that a change of a long stretch touches few.
pub(super) struct Load {
    /// By stage: key and load of each run, in order.
    runs: Vec<Vec<(Key, i64)>>,
    stages: Vec<Sum>,
    blocks: Vec<Sum>,
}

/// What is to be added to all below, and the largest with that.
#[derive(Clone, Copy, Default)]
struct Sum {
    add: i64,
    most: i64,
}

impl Load {
    /// Each stage has its op's first run, and all have the same load.
    pub fn new(stages: usize, load: i64) -> Self {
        let blocks = stages.div_ceil(BLOCK);
        Self {
            runs: (0..stages).map(|stage| vec![(first_run(stage), load)]).collect(),
            stages: vec![Sum { add: 0, most: load }; stages],
            blocks: vec![Sum { add: 0, most: load }; blocks],
        }
    }

    pub fn peak(&self) -> i64 {
        self.blocks.iter().map(|block| block.most).max().unwrap_or(0)
    }

    /// A run with the largest load.
    pub fn fullest(&self) -> Key {
        let fullest = |sums: &[Sum]| {
            let most = sums.iter().map(|sum| sum.most).max();
            sums.iter().position(|sum| Some(sum.most) == most).unwrap_or(0)
        };
        let block = fullest(&self.blocks);
        let end = self.stages.len().min((block + 1) * BLOCK);
        let stage = block * BLOCK + fullest(&self.stages[block * BLOCK..end]);
        let runs = &self.runs[stage];
        let most = runs.iter().map(|(_, load)| *load).max();
        runs.iter().find(|(_, load)| Some(*load) == most).map_or(first_run(stage), |(key, _)| *key)
    }

    /// The load of a run.
    pub fn at(&self, key: Key) -> i64 {
        let stage = stage(key);
        let runs = &self.runs[stage];
        let at = runs.partition_point(|(run, _)| *run < key);
        runs[at].1 + self.stages[stage].add + self.blocks[stage / BLOCK].add
    }

    /// The largest load of the stages from one to before another.
    pub fn most_within(&self, begin: usize, end: usize) -> i64 {
        let mut most = i64::MIN;
        let mut stage = begin;
        while stage < end {
            if stage.is_multiple_of(BLOCK) && stage + BLOCK <= end {
                most = most.max(self.blocks[stage / BLOCK].most);
                stage += BLOCK;
            } else {
                most = most.max(self.stages[stage].most + self.blocks[stage / BLOCK].add);
                stage += 1;
            }
        }
        most
    }

    /// By stage, how many up to and with it have a larger load.
    pub fn count_above(&self, budget: i64, counts: &mut Vec<u32>) {
        counts.clear();
        let mut count = 0;
        for (index, stage) in self.stages.iter().enumerate() {
            count += u32::from(stage.most + self.blocks[index / BLOCK].add > budget);
            counts.push(count);
        }
    }

    /// One more run.
    pub fn insert(&mut self, key: Key, load: i64) {
        let stage = stage(key);
        let load = load - self.stages[stage].add - self.blocks[stage / BLOCK].add;
        let runs = &mut self.runs[stage];
        runs.insert(runs.partition_point(|(run, _)| *run < key), (key, load));
        self.look_at_stage(stage);
        self.look_at_block(stage / BLOCK);
    }

    pub fn remove(&mut self, key: Key) {
        let stage = stage(key);
        let runs = &mut self.runs[stage];
        runs.remove(runs.partition_point(|(run, _)| *run < key));
        self.look_at_stage(stage);
        self.look_at_block(stage / BLOCK);
    }

    /// Adds to all runs from one moment to another, both included.
    pub fn change(&mut self, from: Key, to: Key, bytes: i64) {
        if from > to || bytes == 0 {
            return;
        }
        let (first, last) = (stage(from), stage(to).min(self.stages.len() - 1));
        if first == last {
            self.change_runs(first, from, to, bytes);
            self.look_at_block(first / BLOCK);
            return;
        }
        self.change_runs(first, from, first_run(first), bytes);
        self.change_runs(last, (last as u64) << LABEL_BITS, to, bytes);
        let mut stage = first + 1;
        while stage < last {
            if stage.is_multiple_of(BLOCK) && stage + BLOCK <= last {
                let block = &mut self.blocks[stage / BLOCK];
                block.add += bytes;
                block.most += bytes;
                stage += BLOCK;
            } else {
                let sum = &mut self.stages[stage];
                sum.add += bytes;
                sum.most += bytes;
                stage += 1;
            }
        }
        // Blocks between these two, if not taken whole, end with one of them.
        self.look_at_block(first / BLOCK);
        self.look_at_block(last / BLOCK);
    }

    fn change_runs(&mut self, stage: usize, from: Key, to: Key, bytes: i64) {
        for (key, load) in &mut self.runs[stage] {
            if (from..=to).contains(key) {
                *load += bytes;
            }
        }
        self.look_at_stage(stage);
    }

    fn look_at_stage(&mut self, stage: usize) {
        let most = self.runs[stage].iter().map(|(_, load)| *load).max().unwrap_or(0);
        self.stages[stage].most = most + self.stages[stage].add;
    }

    fn look_at_block(&mut self, block: usize) {
        let end = self.stages.len().min((block + 1) * BLOCK);
        let most =
            self.stages[block * BLOCK..end].iter().map(|stage| stage.most).max().unwrap_or(0);
        self.blocks[block].most = most + self.blocks[block].add;
    }
}

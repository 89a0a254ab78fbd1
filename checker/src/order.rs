//! Which actions have ended before which start, under every timing.

use schema::{Lane, Plan};

/// For each action all those that have ended before it starts: as bits, by walking every edge.
#[derive(Debug)]
pub(crate) struct Order {
    words: usize,
    ended: Vec<u64>,
}

impl Order {
    /// The order that lanes and `after` make.
    pub(crate) fn of(plan: &Plan) -> Self {
        let words = plan.actions.len().div_ceil(64);
        let mut ended = vec![0u64; words * plan.actions.len()];
        let mut last_of_lane = [None; Lane::COUNT];
        for (id, action) in plan.actions.iter().enumerate() {
            let lane = &mut last_of_lane[plan.lane(action).index()];
            let edges = action.after.iter().map(|on| on.index()).chain(*lane);
            let (known, own) = ended.split_at_mut(id * words);
            for on in edges {
                for (own, known) in own.iter_mut().zip(&known[on * words..(on + 1) * words]) {
                    *own |= known;
                }
                own[on / 64] |= 1 << (on % 64);
            }
            *lane = Some(id);
        }
        Self { words, ended }
    }

    /// Whether `first` has ended before `second` starts, whatever the timing.
    pub(crate) fn is_before(&self, first: usize, second: usize) -> bool {
        self.ended[second * self.words + first / 64] >> (first % 64) & 1 == 1
    }
}

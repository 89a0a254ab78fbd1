//! Memory over time, with quick answers.

use std::ops::Range;

/// Bytes at each of a row of moments. Adding to a range of moments, the fullest moment, and the
/// first and last one of a range that is too full take time in the logarithm of their number.
///
/// A tree of blocks: each node knows the most in its part, and what is to be added to all of it.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// Without what their blocks' nodes add.
    bytes: Vec<i64>,
    most: Vec<i64>,
    adds: Vec<i64>,
    /// The leaves of the tree, of which the last may be beyond the end.
    blocks: usize,
}

const BLOCK: usize = 16;

/// A node: its number, its first block and how many it has.
#[derive(Clone, Copy)]
struct Node {
    id: usize,
    first: usize,
    blocks: usize,
}

impl Node {
    fn moments(self) -> Range<usize> {
        self.first * BLOCK..(self.first + self.blocks) * BLOCK
    }

    fn halves(self) -> [Self; 2] {
        let half = self.blocks / 2;
        let part =
            |side| Self { id: 2 * self.id + side, first: self.first + side * half, blocks: half };
        [part(0), part(1)]
    }
}

impl Profile {
    /// Takes on these bytes, and allocates nothing if it had as many before.
    pub fn reset(&mut self, bytes: &[u64]) {
        self.bytes.clear();
        self.bytes.extend(bytes.iter().map(|bytes| i64::try_from(*bytes).unwrap_or(i64::MAX)));
        self.blocks = self.bytes.len().div_ceil(BLOCK).next_power_of_two();
        self.most.clear();
        self.most.resize(2 * self.blocks, i64::MIN);
        self.adds.clear();
        self.adds.resize(2 * self.blocks, 0);
        for (leaf, block) in self.bytes.chunks(BLOCK).enumerate() {
            self.most[self.blocks + leaf] = block.iter().copied().max().unwrap_or(i64::MIN);
        }
        for node in (1..self.blocks).rev() {
            self.most[node] = self.most[2 * node].max(self.most[2 * node + 1]);
        }
    }

    fn root(&self) -> Node {
        Node { id: 1, first: 0, blocks: self.blocks }
    }

    /// Adds to each moment of a range.
    pub fn add(&mut self, range: Range<usize>, bytes: i64) {
        if range.start < range.end {
            self.add_in(self.root(), &range, bytes);
        }
    }

    fn add_in(&mut self, node: Node, range: &Range<usize>, bytes: i64) {
        let moments = node.moments();
        let end = moments.end.min(self.bytes.len());
        if range.start <= moments.start && end <= range.end {
            self.most[node.id] = self.most[node.id].saturating_add(bytes);
            self.adds[node.id] = self.adds[node.id].saturating_add(bytes);
            return;
        }
        let most = if node.blocks == 1 {
            let (from, to) = (range.start.max(moments.start), range.end.min(end));
            let mut most = i64::MIN;
            for at in &mut self.bytes[from..to] {
                *at = at.saturating_add(bytes);
                most = most.max(*at);
            }
            // What only grew is the most, or what was the most still is.
            match bytes >= 0 {
                true => Some(most.max(self.most[node.id].saturating_sub(self.adds[node.id]))),
                false => self.bytes[moments.start..end].iter().copied().max(),
            }
        } else {
            let halves = node.halves();
            let middle = halves[1].moments().start;
            if range.start < middle {
                self.add_in(halves[0], range, bytes);
            }
            if range.end > middle && middle < self.bytes.len() {
                self.add_in(halves[1], range, bytes);
            }
            halves.iter().map(|half| self.most[half.id]).max()
        };
        self.most[node.id] = most.unwrap_or(i64::MIN).saturating_add(self.adds[node.id]);
    }

    /// The bytes at a moment.
    pub fn at(&self, moment: usize) -> i64 {
        let mut node = self.blocks + moment / BLOCK;
        let mut bytes = self.bytes[moment];
        while node > 0 {
            bytes = bytes.saturating_add(self.adds[node]);
            node /= 2;
        }
        bytes
    }

    /// The most at any moment.
    pub fn most(&self) -> i64 {
        self.most.get(1).copied().unwrap_or(i64::MIN)
    }

    /// The last moment of a range with more than this.
    pub fn last_above(&self, range: Range<usize>, bytes: i64) -> Option<usize> {
        self.find_in::<true>(self.root(), &range, bytes)
    }

    /// The first moment of a range with more than this.
    pub fn first_above(&self, range: Range<usize>, bytes: i64) -> Option<usize> {
        self.find_in::<false>(self.root(), &range, bytes)
    }

    fn find_in<const LAST: bool>(
        &self,
        node: Node,
        range: &Range<usize>,
        bytes: i64,
    ) -> Option<usize> {
        let moments = node.moments();
        let (from, to) = (range.start.max(moments.start), range.end.min(moments.end));
        if from >= to || self.most[node.id] <= bytes {
            return None;
        }
        let bytes = bytes.saturating_sub(self.adds[node.id]);
        if node.blocks > 1 {
            let [left, right] = node.halves();
            let (one, other) = if LAST { (right, left) } else { (left, right) };
            let found = self.find_in::<LAST>(one, range, bytes);
            return found.or_else(|| self.find_in::<LAST>(other, range, bytes));
        }
        let mut moments = self.bytes[from..to.min(self.bytes.len())].iter();
        let above = |at: &i64| *at > bytes;
        let found = if LAST { moments.rposition(above) } else { moments.position(above) };
        found.map(|at| from + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any row of ranges, against a plain list.
    #[test]
    fn it_is_a_list_to_whoever_asks() {
        let mut seed = 7u64;
        let mut draw = |end: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize % end.max(1)
        };
        for moments in [1, 2, 15, 16, 17, 32, 33, 300, 1000] {
            let mut list: Vec<u64> = (0..moments).map(|_| 5000 + draw(1000) as u64).collect();
            let mut profile = Profile::default();
            profile.reset(&list);
            for _ in 0..200 {
                let (a, b) = (draw(moments + 1), draw(moments + 1));
                let range = a.min(b)..a.max(b);
                let change = draw(200) as i64 - 100;
                list[range.clone()]
                    .iter_mut()
                    .for_each(|at| *at = at.saturating_add_signed(change));
                profile.add(range, change);
                let (a, b) = (draw(moments + 1), draw(moments + 1));
                let (range, limit) = (a.min(b)..a.max(b), 4500 + draw(2000) as u64);
                let last = list[range.clone()].iter().rposition(|at| *at > limit);
                let last = last.map(|at| range.start + at);
                assert_eq!(profile.last_above(range.clone(), limit as i64), last);
                let first = list[range.clone()].iter().position(|at| *at > limit);
                let first = first.map(|at| range.start + at);
                assert_eq!(profile.first_above(range, limit as i64), first);
                let moment = draw(moments);
                assert_eq!(profile.at(moment), list[moment] as i64);
                assert_eq!(Some(profile.most()), list.iter().max().map(|most| *most as i64));
            }
        }
    }
}

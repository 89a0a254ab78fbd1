//! The items that have no place yet.

use std::ops::Range;

use super::item::Item;

/// A range of at most so many items is gone through.
const FEW: usize = 64;

/// Items by their first section, those without a place: which of them has the highest priority in a
/// range and ends in time is answered without looking at each. A tree of which each node knows the
/// best of its part, and when the first and the last of it end.
///
/// Of few, looking at each takes less time.
pub(super) struct Unplaced {
    ends: Vec<u32>,
    /// By item; zero where it has its place.
    priorities: Vec<f64>,
    leaves: usize,
    nodes: Vec<Node>,
    /// Nodes looked at.
    #[cfg(test)]
    pub looks: std::cell::Cell<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    /// The highest priority, and the first item that has it.
    priority: f64,
    item: u32,
    first_end: u32,
    last_end: u32,
}

const NOTHING: Node = Node { priority: 0.0, item: u32::MAX, first_end: u32::MAX, last_end: 0 };

impl Unplaced {
    pub fn new(items: &[Item]) -> Self {
        Self {
            ends: items.iter().map(|item| item.end).collect(),
            priorities: Vec::new(),
            leaves: items.len().next_power_of_two(),
            nodes: Vec::new(),
            #[cfg(test)]
            looks: Default::default(),
        }
    }

    /// No item has a place.
    pub fn begin(&mut self, priorities: &[f64]) {
        self.priorities.clear();
        self.priorities.extend_from_slice(priorities);
        self.nodes.clear();
        self.nodes.resize(2 * self.leaves, NOTHING);
        for (item, (priority, end)) in priorities.iter().zip(&self.ends).enumerate() {
            self.nodes[self.leaves + item] =
                Node { priority: *priority, item: item as u32, first_end: *end, last_end: *end };
        }
        for node in (1..self.leaves).rev() {
            self.join(node);
        }
    }

    /// An item has its place.
    pub fn remove(&mut self, item: usize) {
        self.priorities[item] = 0.0;
        let mut node = self.leaves + item;
        self.nodes[node] = NOTHING;
        while node > 1 {
            node /= 2;
            self.join(node);
        }
    }

    /// The item of highest priority in a range that ends by a section, the first of equals.
    pub fn highest(&self, range: Range<usize>, end: u32) -> Option<usize> {
        if range.len() <= FEW {
            return self.highest_of_few(range, end);
        }
        let mut found = NOTHING;
        self.search(1, 0..self.leaves, &range, end, &mut found);
        (found.priority > 0.0).then_some(found.item as usize)
    }

    fn highest_of_few(&self, range: Range<usize>, end: u32) -> Option<usize> {
        #[cfg(test)]
        self.looks.set(self.looks.get() + range.len() as u64);
        let (mut most, mut found) = (0.0, None);
        let items = self.priorities[range.clone()].iter().zip(&self.ends[range.clone()]);
        for ((priority, ends), item) in items.zip(range) {
            if *priority > most && *ends <= end {
                (most, found) = (*priority, Some(item));
            }
        }
        found
    }

    fn search(
        &self,
        node: usize,
        of: Range<usize>,
        range: &Range<usize>,
        end: u32,
        found: &mut Node,
    ) {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        let here = self.nodes[node];
        if here.first_end > end || of.end <= range.start || range.end <= of.start {
            return;
        }
        let is_no_better = here.priority < found.priority
            || here.priority == found.priority && of.start > found.item as usize;
        if is_no_better {
            return;
        }
        if here.last_end <= end && range.start <= of.start && of.end <= range.end {
            if here.priority > found.priority || here.item < found.item {
                *found = here;
            }
            return;
        }
        let (left, right) = (2 * node, 2 * node + 1);
        let middle = of.start + (of.end - of.start) / 2;
        if self.nodes[left].priority >= self.nodes[right].priority {
            self.search(left, of.start..middle, range, end, found);
            self.search(right, middle..of.end, range, end, found);
        } else {
            self.search(right, middle..of.end, range, end, found);
            self.search(left, of.start..middle, range, end, found);
        }
    }

    fn join(&mut self, node: usize) {
        let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
        let best = if left.priority >= right.priority { left } else { right };
        self.nodes[node] = Node {
            first_end: left.first_end.min(right.first_end),
            last_end: left.last_end.max(right.last_end),
            ..best
        };
    }
}

//! Which addresses are taken when.

use super::ALIGNMENT;

/// Addresses that are taken, over time in sections: a tree over time (a segment tree, de Berg et
/// al., *Computational Geometry*, section 10.3) whose nodes know the union of what is taken all of
/// their time, and of what is taken at any time of it. What lies side by side is one range, so that
/// a question looks at few ranges of each of a few nodes, however many blocks have their places.
pub(super) struct Taken {
    /// One for each section, and more up to a power of two.
    leaves: usize,
    /// By node, from the root at 1 on: taken all its time, but not all its parent's.
    all: Vec<Ranges>,
    /// By node: taken at some time of it, but not all its parent's.
    some: Vec<Ranges>,
    /// Nodes of the question in progress.
    asked: Vec<Asked>,
    /// Lists of ranges looked at, and how many sixteens of ranges were passed in them: what the
    /// questions since everything was last given back have cost.
    pub work: u64,
}

/// Addresses from a begin to before an end, both aligned.
type Range = (u64, u64);

/// Ascending and apart from each other.
#[derive(Debug, Clone, Default)]
struct Ranges(Vec<Range>);

/// A node that is asked for an address.
#[derive(Debug)]
struct Asked {
    node: usize,
    /// For what is taken all of its time; else at any.
    all: bool,
    /// So many bytes are to be free.
    bytes: u64,
    /// How many of its ranges end below the address.
    passed: usize,
}

impl Taken {
    /// Nothing is taken in this many sections.
    pub fn new(sections: usize) -> Self {
        let leaves = sections.next_power_of_two();
        Self {
            leaves,
            all: vec![Ranges::default(); 2 * leaves],
            some: vec![Ranges::default(); 2 * leaves],
            asked: Vec::new(),
            work: 0,
        }
    }

    /// Gives everything back.
    pub fn clear(&mut self) {
        self.work = 0;
        self.all.iter_mut().chain(&mut self.some).for_each(|ranges| ranges.0.clear());
    }

    /// Takes `bytes` from an address on in some sections, of which there is at least one.
    pub fn take(&mut self, (first, end): (u32, u32), address: u64, bytes: u64) {
        let range = (address, (address + bytes).next_multiple_of(ALIGNMENT));
        for leaf in [first, end - 1] {
            let mut node = self.leaves + leaf as usize;
            // What one node has, those above it have.
            while node > 0 && self.some[node].add(range) {
                node /= 2;
            }
        }
        for node in nodes(self.leaves, first, end) {
            self.all[node].add(range);
            self.some[node].add(range);
        }
    }

    /// The lowest aligned address from `bottom` on at which all of these are free: sections and
    /// bytes, neither empty.
    pub fn lowest(&mut self, bottom: u64, wanted: impl Iterator<Item = ((u32, u32), u64)>) -> u64 {
        self.asked.clear();
        for (sections, bytes) in wanted {
            self.ask(sections, bytes);
        }
        let mut address = bottom;
        // Where the address is free in all others since it was last raised, it is free.
        let mut free_in = 0;
        for asked in (0..self.asked.len()).cycle() {
            if free_in == self.asked.len() {
                break;
            }
            let Asked { node, all, bytes, passed } = &mut self.asked[asked];
            let ranges = if *all { &self.all[*node] } else { &self.some[*node] };
            let before = *passed;
            let free = ranges.free_from(address, *bytes, passed);
            self.work += 1 + (*passed - before) as u64 / 16;
            free_in = if free > address { 1 } else { free_in + 1 };
            address = free;
        }
        address
    }

    /// Notes what is to be looked at for so many bytes in some sections.
    fn ask(&mut self, (first, end): (u32, u32), bytes: u64) {
        let mut ask = |node: usize, all: bool, ranges: &Ranges| {
            if !ranges.0.is_empty() {
                self.asked.push(Asked { node, all, bytes, passed: 0 });
            }
        };
        for node in nodes(self.leaves, first, end) {
            ask(node, false, &self.some[node]);
        }
        // Whatever is above a node that was asked is above the first section or the last.
        let mut ends = [first, end - 1].map(|leaf| self.leaves + leaf as usize);
        while ends[0] > 0 {
            ask(ends[0], true, &self.all[ends[0]]);
            if ends[1] != ends[0] {
                ask(ends[1], true, &self.all[ends[1]]);
            }
            ends = ends.map(|node| node / 2);
        }
    }
}

/// The fewest nodes that make up the sections from one to before another.
fn nodes(leaves: usize, first: u32, end: u32) -> impl Iterator<Item = usize> {
    let (mut from, mut to) = (leaves + first as usize, leaves + end as usize);
    let mut both = [None; 2].into_iter();
    std::iter::from_fn(move || {
        loop {
            if let Some(node) = both.by_ref().flatten().next() {
                return Some(node);
            }
            if from >= to {
                return None;
            }
            let left = (from % 2 == 1).then_some(from);
            let right = (to % 2 == 1).then(|| to - 1);
            both = [left, right].into_iter();
            (from, to) = (from.div_ceil(2), to / 2);
        }
    })
}

impl Ranges {
    /// Adds a range, and returns whether any of it was not there.
    fn add(&mut self, (begin, end): Range) -> bool {
        let ranges = &mut self.0;
        let from = ranges.partition_point(|range| range.1 < begin);
        let Some(&(first, last)) = ranges.get(from).filter(|range| range.0 <= end) else {
            ranges.insert(from, (begin, end));
            return true;
        };
        if first <= begin && end <= last {
            return false;
        }
        let to = from + ranges[from..].partition_point(|range| range.0 <= end);
        ranges[from] = (first.min(begin), ranges[to - 1].1.max(end));
        ranges.drain(from + 1..to);
        true
    }

    /// The lowest address from one on with so many bytes that are in no range, and how many ranges
    /// end by then, of which `passed` are known to.
    fn free_from(&self, address: u64, bytes: u64, passed: &mut usize) -> u64 {
        let mut address = address;
        let ahead = &self.0[*passed..];
        if ahead.last().is_none_or(|last| last.1 <= address) {
            *passed = self.0.len();
            return address;
        }
        // The next is seldom far.
        let mut far = 1;
        while ahead.get(far).is_some_and(|range| range.1 <= address) {
            far *= 2;
        }
        let near = &ahead[..ahead.len().min(far + 1)];
        *passed += near.partition_point(|range| range.1 <= address);
        while let Some((begin, end)) = self.0.get(*passed) {
            if *begin >= address + bytes {
                break;
            }
            address = *end;
            *passed += 1;
        }
        address
    }
}

//! Packing in one sweep over time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::{ALIGNMENT, Block};

/// Blocks that lie at one address, as what is wanted there from the first of them on: never more than
/// before, for what they share begins as the largest that is still to come.
pub(super) struct Lives {
    group: usize,
    /// From which section on how many bytes are wanted, ever fewer, in whole steps of alignment.
    sizes: Vec<(u32, u64)>,
    /// The section after the last.
    end: u32,
}

impl Lives {
    /// Those of a group, unless it has no bytes, given the sections of blocks.
    pub fn new(
        blocks: &[Block],
        group: &[usize],
        id: usize,
        sections: &[(u32, u32)],
    ) -> Option<Self> {
        let of = group.iter().filter(|block| blocks[**block].bytes > 0);
        let first = of.clone().map(|block| sections[*block].0).min()?;
        let mut ends: Vec<(u32, u64)> =
            of.map(|block| (sections[*block].1, aligned(blocks[*block].bytes))).collect();
        ends.sort_unstable();
        let end = ends.last()?.0;
        // From the last on: what is larger than all that ends later.
        let (mut sizes, mut most) = (Vec::with_capacity(ends.len()), 0);
        for (end, bytes) in ends.into_iter().rev() {
            if bytes > most && most > 0 {
                sizes.push((end, most));
            }
            most = most.max(bytes);
        }
        sizes.push((first, most));
        sizes.reverse();
        Some(Self { group: id, sizes, end })
    }

    /// What is given back when: a section, and from where to where in it.
    fn given_back(&self) -> impl Iterator<Item = (u32, u64, u64)> + '_ {
        let ends = self.sizes[1..].iter().copied().chain([(self.end, 0)]);
        self.sizes.iter().zip(ends).map(|((_, before), (at, after))| (at, after, *before))
    }
}

fn aligned(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGNMENT)
}

/// Gives each group an address, in the order in which they come to be, of equals the largest first: the
/// shortest hole that is long enough. Takes time in proportion to their number and its logarithm, as what
/// lives at a moment of the sweep is all that they meet.
pub(super) fn sweep(lives: &[Lives]) -> Vec<(usize, u64)> {
    let mut order: Vec<usize> = (0..lives.len()).collect();
    order.sort_by_key(|item| {
        let (first, bytes) = lives[*item].sizes[0];
        (first, Reverse(bytes), *item)
    });
    let gone = lives.iter().enumerate();
    let mut gone: Vec<(u32, usize, u64, u64)> = gone
        .flat_map(|(item, of)| of.given_back().map(move |(at, from, to)| (at, item, from, to)))
        .collect();
    gone.sort_unstable();
    let mut gone = gone.into_iter().peekable();
    let mut addresses = vec![0; lives.len()];
    let mut free = Free::default();
    for item in &order {
        let (first, bytes) = lives[*item].sizes[0];
        while let Some((_, item, from, to)) = gone.next_if(|(at, ..)| *at <= first) {
            free.give_back(addresses[item] + from, addresses[item] + to);
        }
        addresses[*item] = free.take(bytes);
    }
    order.into_iter().map(|item| (lives[item].group, addresses[item])).collect()
}

/// Addresses that are free at a moment.
#[derive(Default)]
struct Free {
    /// Where each hole below what is taken begins and ends.
    holes: BTreeMap<u64, u64>,
    /// Length and begin of each.
    by_length: BTreeSet<(u64, u64)>,
    /// From here on all is free.
    above: u64,
}

impl Free {
    /// Takes the shortest hole that is long enough, the lowest of equals, or what is above all.
    fn take(&mut self, bytes: u64) -> u64 {
        let Some(&(length, begin)) = self.by_length.range((bytes, 0)..).next() else {
            let begin = self.above;
            self.above += bytes;
            return begin;
        };
        self.remove(begin, begin + length);
        if length > bytes {
            self.add(begin + bytes, begin + length);
        }
        begin
    }

    fn give_back(&mut self, mut begin: u64, mut end: u64) {
        let before = self.holes.range(..begin).next_back();
        if let Some((before, _)) = before.filter(|(_, end)| **end == begin) {
            let before = *before;
            self.remove(before, begin);
            begin = before;
        }
        if let Some(&after) = self.holes.get(&end) {
            self.remove(end, after);
            end = after;
        }
        if end == self.above {
            self.above = begin;
        } else {
            self.add(begin, end);
        }
    }

    fn add(&mut self, begin: u64, end: u64) {
        self.holes.insert(begin, end);
        self.by_length.insert((end - begin, begin));
    }

    fn remove(&mut self, begin: u64, end: u64) {
        self.holes.remove(&begin);
        self.by_length.remove(&(end - begin, begin));
    }
}

//! How high blocks have been stacked, by section of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Stretches of sections, each of one height and no two neighbours of the same.
#[derive(Debug, Default)]
pub(super) struct Heights {
    /// By the section with which a stretch begins: its height, and where the stretches before and
    /// after it begin.
    height: Vec<u64>,
    next: Vec<u32>,
    previous: Vec<u32>,
    /// The lowest stretch comes first, and of equals the first; also those that are no more.
    order: BinaryHeap<Reverse<(u64, u32)>>,
}

/// A stretch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Valley {
    pub begin: u32,
    pub end: u32,
    pub height: u64,
}

const NONE: u32 = u32::MAX;

impl Heights {
    /// One stretch, on the ground.
    pub fn begin(&mut self, sections: u32) {
        let end = sections as usize;
        self.height.clear();
        self.height.resize(end + 1, 0);
        self.height[end] = u64::MAX;
        for list in [&mut self.next, &mut self.previous] {
            list.clear();
            list.resize(end + 1, NONE);
        }
        self.next[0] = sections;
        self.previous[end] = 0;
        self.order.clear();
        self.order.push(Reverse((0, 0)));
    }

    /// The lowest stretch, the first of equals.
    pub fn lowest(&mut self) -> Valley {
        loop {
            let Reverse((height, begin)) = *self.order.peek().expect("there is a stretch");
            let end = self.next[begin as usize];
            if end != NONE && self.height[begin as usize] == height {
                return Valley { begin, end, height };
            }
            self.order.pop();
        }
    }

    /// Raises parts of the stretch that begins with `valley`: where each part begins and how high
    /// it gets, in order, and where the last ends.
    pub fn put(&mut self, valley: u32, parts: impl Iterator<Item = (u32, u64)>, end: u32) {
        let ground = self.height[valley as usize];
        let valley_end = self.next[valley as usize];
        let mut last = valley;
        for (section, height) in parts {
            if section > valley {
                self.link(last, section);
            }
            self.raise(section, height);
            last = section;
        }
        if end < valley_end {
            self.link(last, end);
            self.raise(end, ground);
            last = end;
        }
        self.link(last, valley_end);
        let mut stretch = valley;
        while stretch != valley_end {
            let next = self.next[stretch as usize];
            self.merge(stretch);
            stretch = next;
        }
        self.merge(valley_end);
    }

    /// Raises a stretch to the lower of its neighbours, and returns that height.
    pub fn fill(&mut self, valley: u32) -> u64 {
        let (previous, next) = (self.previous[valley as usize], self.next[valley as usize]);
        let before = if previous == NONE { u64::MAX } else { self.height[previous as usize] };
        let bank = before.min(self.height[next as usize]);
        self.raise(valley, bank);
        self.merge(next);
        self.merge(valley);
        bank
    }

    fn raise(&mut self, stretch: u32, height: u64) {
        self.height[stretch as usize] = height;
        self.order.push(Reverse((height, stretch)));
    }

    fn link(&mut self, one: u32, next: u32) {
        self.next[one as usize] = next;
        self.previous[next as usize] = one;
    }

    /// Joins a stretch to the one before it if that is as high.
    fn merge(&mut self, stretch: u32) {
        let (previous, next) = (self.previous[stretch as usize], self.next[stretch as usize]);
        // What is beyond the last section is no stretch.
        if previous == NONE
            || next == NONE
            || self.height[previous as usize] != self.height[stretch as usize]
        {
            return;
        }
        self.link(previous, next);
        self.next[stretch as usize] = NONE;
        self.previous[stretch as usize] = NONE;
    }
}

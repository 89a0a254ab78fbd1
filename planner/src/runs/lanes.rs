//! When copies and codecs have time, in the time of compute.

/// The lanes of copies out and in, and of codecs.
#[derive(Default)]
pub(super) struct Lanes {
    pub out: Lane,
    pub back: Lane,
    pub codec: Lane,
}

/// Times that are taken of a lane, from a start to an end, in their order.
#[derive(Default)]
pub(super) struct Lane {
    taken: Vec<(u64, u64)>,
}

impl Lane {
    /// A time is taken, or no longer is.
    pub fn change(&mut self, start: u64, end: u64, is_taken: bool) {
        let at = self.taken.partition_point(|other| *other < (start, end));
        match is_taken {
            true => self.taken.insert(at, (start, end)),
            false => _ = self.taken.remove(at),
        }
    }

    /// The latest start of a time of some length that is free, within limits.
    pub fn latest(&self, length: u64, (from, until): (u64, u64)) -> Option<u64> {
        let mut end = until;
        let before = self.taken.partition_point(|(start, _)| *start < until);
        for (start, taken_until) in self.taken[..before].iter().rev() {
            if *taken_until + length <= end {
                break;
            }
            end = end.min(*start);
            if end < from + length {
                return None;
            }
        }
        (end >= from + length).then(|| end - length)
    }

    /// The earliest end of a time of some length that is free, within limits.
    pub fn earliest(&self, length: u64, (from, until): (u64, u64)) -> Option<u64> {
        let mut start = from;
        // What began earlier may still go on; of that, the latest matter.
        let first = self.taken.partition_point(|(start, _)| *start < from);
        for (taken_from, end) in &self.taken[first.saturating_sub(LOOK_BACK)..] {
            if *taken_from >= start + length {
                break;
            }
            start = start.max(*end);
            if start + length > until {
                return None;
            }
        }
        (start + length <= until).then_some(start + length)
    }
}

/// So many times that began before a moment are looked at for whether they go on then.
const LOOK_BACK: usize = 4;

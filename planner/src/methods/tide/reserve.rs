//! What legs of a search leave free of memory, so that what they find has addresses.

use schema::Bytes;

use crate::Beyond;
use crate::fit::share;
use crate::runs::Rerun;

/// Of what reaches beyond the budget, so much more is left free in the next leg, while the ops run during which it does:
/// a half of it, or all up to so many thousandths of the memory. So often, at most.
const GROWN: (u64, u64) = (2, 5);
const GROWS: u32 = 8;

/// So often, the middle is then tried between too little and enough, where the overheads that were found with them
/// differ by more than this part.
const HALVINGS: u32 = 2;
const NEAR: u64 = 50;

/// How much is left free: nothing at first. Where what is found has no addresses then, ever more when that lacked some,
/// until it has; then the middle between what was too little and what was enough; and last the least that
/// was enough. The same everywhere would cost more: mostly little lacks, and not always.
#[derive(Default)]
pub(super) struct Reserve {
    stage: Stage,
    low: Left,
    high: Left,
}

/// How far that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    #[default]
    Free,
    /// So often, it may still grow.
    Grown(u32),
    /// So often, it may still be halved.
    Halved(u32),
    Last,
}

/// What was left free by op, and what was found with that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Left {
    pub bytes: Vec<i64>,
    pub found: Vec<Vec<Rerun>>,
    /// What the fastest of that costs.
    pub cost: u64,
}

impl Reserve {
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// What the next leg leaves free and begins from, where what was found has no addresses; none where that is of no
    /// use. Of what was found, that which lacked least reached so far beyond the budget.
    pub fn was_too_little(&mut self, left: Left, beyond: &[Beyond], target: Bytes) -> Option<Left> {
        let grows = match self.stage {
            Stage::Free => GROWS,
            Stage::Grown(left) => left,
            Stage::Halved(_) => {
                self.low = left;
                return Some(self.halved());
            }
            Stage::Last => 0,
        };
        if grows == 0 || beyond.is_empty() {
            return None;
        }
        self.stage = Stage::Grown(grows - 1);
        let next = Left { bytes: grown(&left.bytes, beyond, target), ..left.clone() };
        self.low = left;
        Some(next)
    }

    /// The same where something that was found has some, after it had none.
    pub fn was_enough(&mut self, left: Left) -> Left {
        if let Stage::Grown(_) = self.stage {
            self.stage = Stage::Halved(HALVINGS);
        }
        self.high = left;
        self.halved()
    }

    fn halved(&mut self) -> Left {
        let (low, high) = (&self.low, &self.high);
        let is_near = high.cost.saturating_sub(low.cost) <= high.cost / NEAR;
        match self.stage {
            Stage::Halved(left) if left > 0 && !is_near => {
                self.stage = Stage::Halved(left - 1);
                let found = [&low.found[..], &high.found[..]].concat();
                Left { bytes: between(&low.bytes, &high.bytes), found, cost: high.cost }
            }
            _ => {
                self.stage = Stage::Last;
                high.clone()
            }
        }
    }
}

/// What is left free, and more where something reaches beyond: of several at an op, as much as for that which does
/// most.
fn grown(left: &[i64], beyond: &[Beyond], target: Bytes) -> Vec<i64> {
    let ops = beyond.iter().map(|beyond| beyond.last.index() + 1).max().unwrap_or(0);
    let mut more = vec![0; ops.max(left.len())];
    for Beyond { first, last, bytes } in beyond {
        let all = bytes.0.min(share(target, GROWN.1).0);
        let bytes = (bytes.0 / GROWN.0).max(all) as i64;
        more[first.index()..=last.index()].iter_mut().for_each(|op| *op = bytes.max(*op));
    }
    more.iter_mut().zip(left).for_each(|(more, left)| *more += left);
    more
}

/// The middle between less and more.
fn between(low: &[i64], high: &[i64]) -> Vec<i64> {
    let low = low.iter().copied().chain(std::iter::repeat(0));
    high.iter().zip(low).map(|(high, low)| low + (high - low) / 2).collect()
}

#[cfg(test)]
mod tests {
    use schema::OpId;

    use super::*;

    fn beyond(first: u32, last: u32, bytes: u64) -> Beyond {
        Beyond { first: OpId(first), last: OpId(last), bytes: Bytes(bytes) }
    }

    fn left(bytes: &[i64], cost: u64) -> Left {
        Left { bytes: bytes.to_vec(), found: Vec::new(), cost }
    }

    /// Of much, a half is left free, and of little all; where both reach beyond, what is more.
    #[test]
    fn it_grows_where_something_reaches_beyond() {
        let all = [beyond(1, 3, 100), beyond(3, 4, 4)];
        assert_eq!(grown(&[], &all, Bytes(1000)), [0, 50, 50, 50, 4]);
        assert_eq!(grown(&[7; 6], &all, Bytes(1000)), [7, 57, 57, 57, 11, 7]);
    }

    /// It grows until that is enough, is halved twice towards too little, and ends with the least that was enough.
    #[test]
    fn it_ends_with_the_least_that_was_enough() {
        let (mut reserve, all) = (Reserve::default(), [beyond(0, 1, 200)]);
        let next = reserve.was_too_little(left(&[], 100), &all, Bytes(1000)).expect("it grows");
        assert_eq!(next.bytes, [100, 100]);
        let next = reserve.was_too_little(left(&next.bytes, 150), &all, Bytes(1000));
        let next = next.expect("it grows more");
        assert_eq!(next.bytes, [200, 200]);
        let next = reserve.was_enough(left(&next.bytes, 200));
        assert_eq!(next.bytes, [150, 150]);
        let next = reserve.was_too_little(left(&next.bytes, 170), &all, Bytes(1000));
        let next = next.expect("there is another halving");
        assert_eq!((next.bytes.as_slice(), reserve.stage()), (&[175, 175][..], Stage::Halved(0)));
        let next = reserve.was_enough(left(&next.bytes, 180));
        assert_eq!((next.bytes.as_slice(), reserve.stage()), (&[175, 175][..], Stage::Last));
        assert_eq!(reserve.was_too_little(next, &all, Bytes(1000)), None);
    }

    /// What costs hardly less is not tried for, and growing has an end.
    #[test]
    fn it_stops_where_there_is_little_to_gain() {
        let (mut reserve, all) = (Reserve::default(), [beyond(0, 1, 200)]);
        let next = reserve.was_too_little(left(&[], 100), &all, Bytes(1000)).expect("it grows");
        assert_eq!(reserve.was_enough(left(&next.bytes, 101)), left(&next.bytes, 101));
        assert_eq!(reserve.stage(), Stage::Last);
        let mut reserve = Reserve::default();
        let grow = |_: &u32| reserve.was_too_little(left(&[], 1), &all, Bytes(1000)).is_some();
        assert_eq!((0..100).take_while(grow).count(), GROWS as usize);
    }
}

//! What is drawn in a lane: boxes of a kind, with those thinner than a pixel taken together.

use schema::{Interval, Nanos, OpId, Phase, StallCause, Task};

/// What a box shows; the order is the legend's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Forward,
    Backward,
    Update,
    Op,
    Recompute,
    Compress,
    Decompress,
    D2h,
    H2d,
    StallData,
    StallMemory,
    StallTurn,
    StallEnd,
    Idle,
}

impl Kind {
    pub const COUNT: usize = Self::TABLE.len();

    /// Each kind with its class in the style sheet and its name.
    const TABLE: [(Self, &str, &str); 14] = [
        (Self::Forward, "f", "forward"),
        (Self::Backward, "b", "backward"),
        (Self::Update, "u", "update"),
        (Self::Op, "f", "op"),
        (Self::Recompute, "r", "recompute"),
        (Self::Compress, "z", "compress"),
        (Self::Decompress, "y", "decompress"),
        (Self::D2h, "o", "copy out"),
        (Self::H2d, "i", "copy in"),
        (Self::StallData, "sd", "waits for data"),
        (Self::StallMemory, "sm", "waits for memory"),
        (Self::StallTurn, "st", "waits for its turn"),
        (Self::StallEnd, "se", "waits for the last copies"),
        (Self::Idle, "si", "idle between ops"),
    ];

    pub fn all() -> impl Iterator<Item = Self> {
        Self::TABLE.into_iter().map(|(kind, ..)| kind)
    }

    pub fn of_task(task: Task, phase_of: &dyn Fn(OpId) -> Option<Phase>) -> Self {
        match task {
            Task::Run(op) => match phase_of(op) {
                Some(Phase::Forward) => Self::Forward,
                Some(Phase::Backward) => Self::Backward,
                Some(Phase::Update) => Self::Update,
                None => Self::Op,
            },
            Task::Recompute(_) => Self::Recompute,
            Task::D2h(_) => Self::D2h,
            Task::H2d(_) => Self::H2d,
            Task::Compress(_) => Self::Compress,
            Task::Decompress(_) => Self::Decompress,
        }
    }

    pub fn of_stall(cause: StallCause) -> Self {
        match cause {
            StallCause::Data => Self::StallData,
            StallCause::Memory => Self::StallMemory,
            StallCause::Turn => Self::StallTurn,
        }
    }

    pub fn is_stall(self) -> bool {
        self as usize >= Self::StallData as usize
    }

    pub fn class(self) -> &'static str {
        Self::TABLE[self as usize].1
    }

    pub fn name(self) -> &'static str {
        Self::TABLE[self as usize].2
    }

    /// The class of text that is readable on a box of this kind.
    pub fn text_class(self) -> &'static str {
        match self {
            Self::Backward | Self::D2h | Self::H2d => "w",
            _ => "n",
        }
    }
}

/// One box: an interval, a stall, or several thin ones of either.
#[derive(Debug, Clone)]
pub(super) struct Bar<'a> {
    pub start: Nanos,
    pub end: Nanos,
    pub first: &'a Interval,
    pub count: usize,
    busy: [Nanos; Kind::COUNT],
}

impl<'a> Bar<'a> {
    pub fn new(interval: &'a Interval, kind: Kind, start: Nanos, end: Nanos) -> Self {
        let mut busy = [Nanos::ZERO; Kind::COUNT];
        busy[kind as usize] = end.saturating_sub(start);
        Self { start, end, first: interval, count: 1, busy }
    }

    /// The kind that takes most of its time; of equals, the last.
    pub fn kind(&self) -> Kind {
        let longest = Kind::all().max_by_key(|kind| self.busy[*kind as usize]);
        longest.expect("there are kinds")
    }

    /// The share of its time that each kind takes; what is missing to one is idle time.
    pub fn shares(&self) -> impl Iterator<Item = (Kind, f64)> {
        let length = self.length().0.max(1) as f64;
        let busy = Kind::all().map(|kind| (kind, self.busy[kind as usize]));
        busy.filter(|(_, time)| *time > Nanos::ZERO)
            .map(move |(kind, t)| (kind, t.0 as f64 / length))
    }

    pub fn length(&self) -> Nanos {
        self.end.saturating_sub(self.start)
    }

    fn absorb(&mut self, other: &Self) {
        self.end = self.end.max(other.end);
        self.count += other.count;
        for (mine, theirs) in self.busy.iter_mut().zip(other.busy) {
            *mine += theirs;
        }
    }
}

/// Takes together neighbours that are thinner than `pixel` where they lie within two pixels.
pub(super) fn merged<'a>(bars: impl Iterator<Item = Bar<'a>>, pixel: Nanos) -> Vec<Bar<'a>> {
    let mut result: Vec<Bar<'a>> = Vec::new();
    for bar in bars {
        match result.last_mut() {
            Some(last)
                if bar.length() < pixel
                    && (last.count > 1 || last.length() < pixel)
                    && bar.end.saturating_sub(last.start).0 <= pixel.0.saturating_mul(2) =>
            {
                last.absorb(&bar);
            }
            _ => result.push(bar),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;
    use proptest::prelude::*;

    #[test]
    fn thin_neighbours_become_one_and_wide_ones_stay() {
        let interval = &examples::timeline().intervals[0];
        let bar = |kind, start, end| Bar::new(interval, kind, Nanos(start), Nanos(end));
        let bars = [
            bar(Kind::Forward, 0, 30),
            bar(Kind::StallData, 30, 80),
            bar(Kind::Recompute, 90, 100),
            bar(Kind::Forward, 100, 300),
            bar(Kind::Forward, 300, 310),
        ];
        let merged = merged(bars.into_iter(), Nanos(100));
        assert_eq!(merged.iter().map(|bar| bar.count).collect::<Vec<_>>(), [3, 1, 1]);
        assert_eq!(merged[0].kind(), Kind::StallData);
        let shares: Vec<_> = merged[0].shares().collect();
        let expected = [(Kind::Forward, 0.3), (Kind::Recompute, 0.1), (Kind::StallData, 0.5)];
        assert_eq!(shares, expected, "and a tenth is idle");
    }

    proptest! {
        #[test]
        fn no_time_is_lost_and_few_boxes_remain(
            bars in prop::collection::vec((0usize..Kind::COUNT, 0u64..50, 0u64..300), 0..300),
            pixel in 1u64..200,
        ) {
            let interval = &examples::timeline().intervals[0];
            let mut at = 0;
            let bars: Vec<_> = bars
                .into_iter()
                .map(|(kind, idle, time)| {
                    let start = at + idle;
                    at = start + time;
                    Bar::new(interval, Kind::TABLE[kind].0, Nanos(start), Nanos(at))
                })
                .collect();
            let merged = merged(bars.clone().into_iter(), Nanos(pixel));
            for kind in Kind::all() {
                let total = |bars: &[Bar<'_>]| -> Nanos {
                    bars.iter().map(|bar| bar.busy[kind as usize]).sum()
                };
                prop_assert_eq!(total(&merged), total(&bars));
            }
            prop_assert_eq!(merged.iter().map(|bar| bar.count).sum::<usize>(), bars.len());
            // Any two neighbours cover more than a pixel: a picture holds twice its pixels.
            prop_assert!(merged.len() as u64 <= 2 * at / pixel + 2);
        }
    }
}

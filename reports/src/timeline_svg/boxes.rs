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
    CopyOut,
    CopyIn,
    StallData,
    StallMemory,
    StallTurn,
}

impl Kind {
    pub const COUNT: usize = 10;

    pub const ALL: [Self; Self::COUNT] = [
        Self::Forward,
        Self::Backward,
        Self::Update,
        Self::Op,
        Self::Recompute,
        Self::CopyOut,
        Self::CopyIn,
        Self::StallData,
        Self::StallMemory,
        Self::StallTurn,
    ];

    pub fn of_task(task: Task, phase_of: &dyn Fn(OpId) -> Option<Phase>) -> Self {
        match task {
            Task::Run(op) => match phase_of(op) {
                Some(Phase::Forward) => Self::Forward,
                Some(Phase::Backward) => Self::Backward,
                Some(Phase::Update) => Self::Update,
                None => Self::Op,
            },
            Task::Recompute(_) => Self::Recompute,
            Task::CopyOut(_) => Self::CopyOut,
            Task::CopyIn(_) => Self::CopyIn,
        }
    }

    pub fn of_stall(cause: StallCause) -> Self {
        match cause {
            StallCause::Data => Self::StallData,
            StallCause::Memory => Self::StallMemory,
            StallCause::Turn => Self::StallTurn,
        }
    }

    pub fn class(self) -> &'static str {
        ["f", "b", "u", "f", "r", "o", "i", "sd", "sm", "st"][self as usize]
    }

    pub fn name(self) -> &'static str {
        [
            "forward",
            "backward",
            "update",
            "op",
            "recompute",
            "copy out",
            "copy in",
            "stall: data",
            "stall: memory",
            "stall: turn",
        ][self as usize]
    }

    /// The class of text that is readable on a box of this kind.
    pub fn text_class(self) -> &'static str {
        match self {
            Self::Backward | Self::CopyOut | Self::CopyIn => "w",
            _ => "n",
        }
    }
}

/// One box, for one interval or for several thin ones.
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
        let longest = Kind::ALL.into_iter().max_by_key(|kind| self.busy[*kind as usize]);
        longest.expect("there are kinds")
    }

    fn length(&self) -> Nanos {
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

//! How long actions take, drawn so that lanes meet in every order.

use schema::Lane;

use crate::random::Random;

/// A way to draw how long actions take, and how long they wait though they could start.
#[derive(Debug, Clone)]
pub struct Timing {
    style: Style,
    /// Each lane's durations are this many times as long.
    factors: [u64; Lane::COUNT],
    /// One in so many starts is late; 0: none.
    late: u64,
}

#[derive(Debug, Clone, Copy)]
enum Style {
    /// Alike: all that is ready at the same time may go in any order.
    Alike,
    Even,
    /// From 1 to 2^20, as many of each magnitude.
    Scattered,
    /// Most take no time.
    MostlyNone,
    /// A few take longer than all others together.
    Stragglers,
    /// As predicted, but for a factor from a tenth to ten.
    AsPredicted,
}

impl Timing {
    /// A way that is drawn.
    pub fn drawn(random: &mut Random) -> Self {
        let styles = [
            Style::Alike,
            Style::Even,
            Style::Scattered,
            Style::MostlyNone,
            Style::Stragglers,
            Style::AsPredicted,
        ];
        let style = random.of(&styles);
        let factor = |random: &mut Random| random.of(&[1, 1, 30, 1000, 1_000_000]);
        let mut factors = [1; Lane::COUNT];
        if random.one_in(2) {
            factors = std::array::from_fn(|_| factor(random));
        }
        Self { style, factors, late: random.of(&[0, 0, 2, 10]) }
    }

    pub(crate) fn duration(&self, lane: usize, predicted: u64, random: &mut Random) -> u64 {
        let drawn = match self.style {
            Style::Alike => 1,
            Style::Even => random.below(1000),
            Style::Scattered => magnitude(random),
            Style::MostlyNone if random.one_in(4) => random.below(100),
            Style::MostlyNone => 0,
            Style::Stragglers if random.one_in(16) => 1 << 30,
            Style::Stragglers => random.below(100),
            // Documents' times add up to less than 2^60.
            Style::AsPredicted => predicted.min(1 << 40) * (1 + random.below(100)) / 10,
        };
        drawn * self.factors[lane]
    }

    pub(crate) fn delay(&self, lane: usize, random: &mut Random) -> u64 {
        match self.late > 0 && random.one_in(self.late) {
            true => self.duration(lane, 1 << 10, random) + magnitude(random),
            false => 0,
        }
    }
}

fn magnitude(random: &mut Random) -> u64 {
    let magnitude = random.below(21);
    random.below((1 << magnitude) + 1)
}

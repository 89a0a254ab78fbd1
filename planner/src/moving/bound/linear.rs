//! Sums of prices.

use std::ops::AddAssign;

/// Stretches at most.
pub(super) const STRETCHES: usize = 3;
/// Compute, copies out and in, and the host's processor.
pub(super) const LANES: usize = 4;
pub(super) const COMPUTE: usize = 0;
pub(super) const OUT: usize = 1;
pub(super) const BACK: usize = 2;
pub(super) const HOST: usize = 3;
/// A price for each lane in each stretch, and one for memory as each stretch ends.
pub(super) const PRICES: usize = STRETCHES * (LANES + 1);

pub(super) type Prices = [f64; PRICES];

/// The place of a lane's price in a stretch.
pub(super) fn lane(stretch: usize, lane: usize) -> usize {
    stretch * (LANES + 1) + lane
}

/// The place of the price of memory as a stretch ends.
pub(super) fn memory(stretch: usize) -> usize {
    stretch * (LANES + 1) + LANES
}

/// A cost: so much of what each price is for, and what that comes to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    pub of: Prices,
    pub sum: f64,
}

impl Cost {
    pub const NOTHING: Self = Self { of: [0.0; PRICES], sum: 0.0 };

    /// So much of one price.
    pub fn one(prices: &Prices, index: usize, amount: f64) -> Self {
        Self::NOTHING.and(prices, index, amount)
    }

    pub fn and(mut self, prices: &Prices, index: usize, amount: f64) -> Self {
        self.of[index] += amount;
        self.sum += amount * prices[index];
        self
    }

    /// A part of it.
    pub fn times(mut self, part: f64) -> Self {
        self.of.iter_mut().for_each(|of| *of *= part);
        self.sum *= part;
        self
    }

    pub fn plus(mut self, other: &Self) -> Self {
        self += *other;
        self
    }

    pub fn least(self, other: Self) -> Self {
        if other.sum < self.sum { other } else { self }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        for (of, more) in self.of.iter_mut().zip(&other.of) {
            *of += more;
        }
        self.sum += other.sum;
    }
}

/// The lower of two costs, where there are two.
pub(super) fn lower(known: &mut Option<Cost>, other: Cost) {
    *known = Some(known.map_or(other, |known| known.least(other)));
}

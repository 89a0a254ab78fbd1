//! What comes first of what is to be copied.

use super::place_in;

/// Among what is as dear, which comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    First,
    Last,
    Spread,
}

pub(super) const ORDERS: [Order; 3] = [Order::First, Order::Last, Order::Spread];

impl Order {
    pub fn place(self, at: usize, of: usize) -> usize {
        match self {
            Self::First => at,
            Self::Last => of - at,
            Self::Spread => usize::from(place_in((0, of as u64), at as u64)),
        }
    }
}

/// A time for some bytes, rounded down to so many bits: what is alike is as dear.
pub(super) fn alike(time: u64, bytes: u64) -> u128 {
    let per_byte = per_byte(time, bytes);
    let shift = (u128::BITS - per_byte.leading_zeros()).saturating_sub(ALIKE);
    per_byte >> shift << shift
}

const ALIKE: u32 = 5;

/// A time for some bytes, in parts of a nanosecond.
fn per_byte(time: u64, bytes: u64) -> u128 {
    (u128::from(time) << 40) / u128::from(bytes.max(1))
}

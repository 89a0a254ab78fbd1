//! From bitmaps to the numbers of the elements that are set, and back: with vectors, and without a
//! loop over bits, whose length no processor foresees.

use super::{BLOCK, Bitmaps, bitmaps, gather};

/// The number of each element of a block, as words of two bytes.
static NUMBERS: [u8; 2 * BLOCK] = {
    let mut numbers = [0; 2 * BLOCK];
    let mut element = 0;
    while element < BLOCK {
        [numbers[2 * element], numbers[2 * element + 1]] = (element as u16).to_le_bytes();
        element += 1;
    }
    numbers
};

pub(crate) const NUMBERS_BYTES: usize = 2 * BLOCK + 64;

/// Writes the numbers of the elements whose bit is set to the front of `out`, ascending, two bytes
/// each, and returns how many there are. What lies behind may be overwritten.
pub(crate) fn numbers(bitmaps: &Bitmaps, out: &mut [u8; NUMBERS_BYTES]) -> usize {
    gather::<u16>(&NUMBERS, bitmaps, out) / 2
}

/// Elements of a block, to be set one by one. Each has bytes of its own: a bit in a bitmap could
/// only be set once the one before it is written, and read again.
pub(crate) struct Marks([u8; 2 * BLOCK]);

impl Marks {
    pub(crate) fn new() -> Self {
        Self([0; 2 * BLOCK])
    }

    /// Sets an element; the numbers of a block begin anew behind its end.
    #[inline(always)]
    pub(crate) fn set(&mut self, element: usize) {
        self.0[2 * (element % BLOCK)] = 1;
    }

    pub(crate) fn bitmaps(&self) -> Bitmaps {
        bitmaps::<u16>(&self.0)
    }
}

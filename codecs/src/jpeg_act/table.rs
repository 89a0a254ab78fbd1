//! The tables by which coefficients are divided.

/// Which of its authors' tables JPEG-ACT divides coefficients by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// `optL`, for the first five epochs, in which errors do the most harm.
    Low,
    /// `optH`, for all epochs after them.
    High,
}

impl Table {
    /// Binary logarithms of what each coefficient is divided by, rows of vertical frequency.
    ///
    /// They are the authors' `optsL` and `optsH`. Rounding the logarithms of `optL` would make 4 of its fives; the
    /// authors' have 8 there as well, without which such coefficients could outgrow 8 bits.
    pub(super) const fn shifts(self) -> &'static [u8; 64] {
        match self {
            Self::Low => &[3; 64],
            Self::High => &HIGH,
        }
    }
}

#[rustfmt::skip]
const HIGH: [u8; 64] = [
    3, 5, 5, 5, 5, 5, 5, 4,
    5, 5, 5, 5, 4, 4, 4, 4,
    5, 5, 5, 5, 4, 4, 4, 4,
    5, 5, 5, 4, 4, 4, 4, 4,
    5, 5, 4, 4, 4, 4, 4, 4,
    5, 4, 4, 4, 4, 4, 4, 4,
    5, 4, 4, 4, 4, 4, 4, 4,
    4, 4, 4, 4, 4, 4, 4, 4,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// `optL` and `optH` as their authors published them.
    #[rustfmt::skip]
    const PUBLISHED: [[u8; 64]; 2] = [
        [
            8, 7, 7, 7, 7, 6, 6, 6,  8, 7, 7, 7, 6, 6, 6, 6,  7, 7, 6, 6, 6, 6, 6, 6,  7, 6, 6, 6, 6, 6, 5, 5,
            7, 6, 6, 6, 6, 6, 5, 5,  7, 6, 6, 6, 6, 6, 5, 5,  7, 6, 6, 6, 6, 5, 5, 5,  6, 6, 6, 6, 5, 5, 5, 5,
        ],
        [
            8, 26, 25, 25, 24, 24, 23, 22,  26, 24, 24, 23, 22, 22, 21, 20,
            26, 24, 24, 23, 22, 21, 20, 20,  25, 23, 23, 22, 21, 21, 20, 19,
            25, 23, 22, 21, 21, 20, 19, 19,  24, 22, 21, 20, 20, 20, 19, 19,
            23, 21, 20, 20, 19, 19, 19, 19,  22, 20, 20, 19, 19, 19, 19, 19,
        ],
    ];

    #[test]
    fn shifts_are_logarithms_of_what_was_published_and_at_least_three() {
        for (table, published) in [Table::Low, Table::High].into_iter().zip(PUBLISHED) {
            let rounded = published.map(|entry| f64::from(entry).log2().round().max(3.0) as u8);
            assert_eq!(*table.shifts(), rounded, "{table:?}");
        }
    }
}

//! Eight rows of eight values, and their cosine transform.

use super::Table;

/// Values or coefficients, row by row.
pub(super) type Tile = [i8; 64];

/// `cos(k pi / 16) / 2` for k of 0 to 8.
const COSINES: [f32; 9] = [
    0.5,
    0.490_392_64,
    0.461_939_77,
    0.415_734_8,
    0.353_553_4,
    0.277_785_12,
    0.191_341_72,
    0.097_545_16,
    0.0,
];

/// The orthonormal DCT-II of eight values: `BASIS[u][x]` is `a(u) cos((2x + 1) u pi / 16)`, where a(0) is the root of
/// an eighth and a(u) a half.
pub(super) const BASIS: [[f32; 8]; 8] = {
    let mut basis = [[COSINES[4]; 8]; 8];
    let mut u = 1;
    while u < 8 {
        let mut x = 0;
        while x < 8 {
            let angle = (2 * x + 1) * u % 32;
            basis[u][x] = match angle {
                0..=8 => COSINES[angle],
                9..=16 => -COSINES[16 - angle],
                17..=24 => -COSINES[angle - 16],
                _ => COSINES[32 - angle],
            };
            x += 1;
        }
        u += 1;
    }
    basis
};

/// What is left of a tile's coefficients: each is rounded, divided and cut to a whole number towards zero.
pub(super) fn forward(tile: &Tile, table: Table) -> Tile {
    let coefficients = along_both(&tile.map(f32::from), |k, x| BASIS[k][x]);
    let mut kept = [0; 64];
    for ((kept, coefficient), shift) in kept.iter_mut().zip(coefficients).zip(table.shifts()) {
        let whole = coefficient.round_ties_even() as i32 / (1 << shift);
        *kept = whole.clamp(-128, 127) as i8;
    }
    kept
}

/// The values that are nearest to those of such coefficients.
pub(super) fn backward(kept: &Tile, table: Table) -> Tile {
    let mut coefficients = [0.0; 64];
    for ((coefficient, kept), shift) in coefficients.iter_mut().zip(kept).zip(table.shifts()) {
        *coefficient = f32::from(i16::from(*kept) << shift);
    }
    let values = along_both(&coefficients, |k, x| BASIS[x][k]);
    values.map(|value| value.round_ties_even().clamp(-128.0, 127.0) as i8)
}

/// `M T M'`, where `of(k, x)` is M's element at row k and column x.
fn along_both(tile: &[f32; 64], of: impl Fn(usize, usize) -> f32) -> [f32; 64] {
    let mut rows = [0.0f32; 64];
    for y in 0..8 {
        for x in 0..8 {
            let value = tile[8 * y + x];
            for k in 0..8 {
                rows[8 * y + k] += value * of(k, x);
            }
        }
    }
    let mut both = [0.0f32; 64];
    for k in 0..8 {
        for y in 0..8 {
            let factor = of(k, y);
            for x in 0..8 {
                both[8 * k + x] += factor * rows[8 * y + x];
            }
        }
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::next;

    #[test]
    fn the_basis_is_orthonormal_and_made_of_cosines() {
        for (u, row) in BASIS.iter().enumerate() {
            for (v, other) in BASIS.iter().enumerate() {
                let product: f32 = row.iter().zip(other).map(|(a, b)| a * b).sum();
                assert!((product - if u == v { 1.0 } else { 0.0 }).abs() < 1e-6, "{u} {v}");
            }
            for (x, value) in row.iter().enumerate() {
                let a = if u == 0 { 0.125f64.sqrt() } else { 0.5 };
                let cosine = a * (((2 * x + 1) * u) as f64 * std::f64::consts::PI / 16.0).cos();
                assert!((f64::from(*value) - cosine).abs() < 1e-7, "{u} {x}");
            }
        }
    }

    #[test]
    fn an_even_tile_is_its_first_coefficient() {
        // Eight times the value, over eight.
        for value in [-128, -7, 0, 1, 127] {
            let mut kept = [0; 64];
            kept[0] = value;
            for table in [Table::Low, Table::High] {
                assert_eq!(forward(&[value; 64], table), kept);
                assert_eq!(backward(&kept, table), [value; 64]);
            }
        }
    }

    #[test]
    fn no_coefficient_outgrows_eight_bits() {
        // The tiles that make each coefficient as large as it can be: the ends of the range, by the sign of its basis.
        for k in 0..64 {
            let basis = |at: usize| BASIS[k / 8][at / 8] * BASIS[k % 8][at % 8];
            for sign in [1.0, -1.0] {
                let tile =
                    std::array::from_fn(|at| if sign * basis(at) > 0.0 { 127i8 } else { -128 });
                let whole = along_both(&tile.map(f32::from), |k, x| BASIS[k][x])[k];
                assert!((-1024.0..1024.0).contains(&whole.round_ties_even()), "{k}: {whole}");
            }
        }
    }

    #[test]
    fn squares_of_errors_are_those_of_the_coefficients() {
        // A coefficient is off by less than what it is divided by; what is orthonormal keeps sums of squares. Rounding
        // values takes another half each.
        let mut state = 9;
        for table in [Table::Low, Table::High] {
            let most: f64 = table.shifts().map(|s| (f64::from(1 << s) - 0.5).powi(2)).iter().sum();
            for _ in 0..1000 {
                let range = next(&mut state) % 128 + 1;
                let tile =
                    std::array::from_fn(|_| (next(&mut state) % (2 * range)) as i64 - range as i64)
                        .map(|value: i64| value as i8);
                let back = backward(&forward(&tile, table), table);
                let off = |(a, b): (&i8, &i8)| (f64::from(*a) - f64::from(*b)).powi(2);
                let squares: f64 = tile.iter().zip(&back).map(off).sum();
                assert!(squares.sqrt() <= most.sqrt() + 4.0 + 0.01, "{table:?}: {squares}");
            }
        }
    }
}

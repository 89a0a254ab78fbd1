//! What an entropy code makes of what a predictor leaves, as SZ does: by zeros and smoothness.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a tensor's values lie along its last dimension, in the unit of the values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Texture {
    /// Geometric mean of the magnitudes of values that are not zero.
    pub value: f64,
    /// Geometric mean of the differences of neighbours that differ: the smoother, the smaller beside `value`.
    pub step: f64,
    /// Runs of zeros, as a share of all values.
    pub runs: f64,
}

impl Texture {
    /// Whether these are magnitudes and a share.
    pub(crate) fn is_one(&self) -> bool {
        let magnitude = |x: f64| x.is_finite() && x >= 0.0;
        magnitude(self.value) && magnitude(self.step) && (0.0..=1.0).contains(&self.runs)
    }
}

/// Octaves that a [`CodedSize`] knows the cost of, and which is the first.
const OCTAVES: usize = 12;
const FIRST: f64 = -3.0;

/// A size by what is left of each value once it is predicted, or not: whichever is less.
///
/// What is left is zero, of which only runs cost something, or it costs what its magnitude asks for, which
/// is told by the geometric mean of the magnitudes over the width of a quantisation step, twice the error bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodedSize {
    /// Cost of a run of zeros, in thousandths of 32 bits.
    pub run_permille: u32,
    /// Cost of what is not zero, in thousandths of 32 bits: where its mean magnitude is an eighth of a
    /// quantisation step, a quarter, and so on; in between by straight lines over the octave, beyond the last a
    /// bit for each.
    pub value_permille: [u32; OCTAVES],
    /// Of a tensor of unit variance of which nobody states more than its zeros, in thousandths: magnitude and
    /// step, as in [`Texture`], and runs for each zero.
    pub typical_permille: [u32; 3],
    /// What a plan reserves on top, in thousandths of the expected size.
    pub margin_permille: u32,
}

/// What a size is made of under one predictor: the size is the cost of a run times `runs`, and that of a value
/// times `values`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CodedParts {
    /// Runs of zeros, as a share of all values.
    pub runs: f64,
    /// What is not zero, as a share of all values.
    pub values: f64,
    /// Of [`CodedSize::value_permille`], the place of the octave.
    pub octave: f64,
}

impl CodedParts {
    /// Of a tensor whose values stay as they are, and of one where each is predicted by the one before.
    pub fn of(bound: f64, zeros: f64, texture: &Texture) -> [Self; 2] {
        let octave = |magnitude: f64| log2(magnitude / (2.0 * bound)) - FIRST;
        let runs = texture.runs.min(zeros);
        // Neighbours are alike within runs of zeros.
        let unlike = (1.0 - zeros + runs).clamp(0.0, 1.0);
        [
            Self { runs, values: 1.0 - zeros, octave: octave(texture.value) },
            Self { runs, values: unlike, octave: octave(texture.step) },
        ]
    }

    /// The costs between which the octave lies, and how near the second is.
    pub fn between(&self) -> (usize, f64) {
        let octave = self.octave.clamp(0.0, (OCTAVES - 1) as f64);
        let below = (octave as usize).min(OCTAVES - 2);
        (below, octave - below as f64)
    }

    /// Octaves beyond the last.
    pub fn beyond(&self) -> f64 {
        (self.octave - (OCTAVES - 1) as f64).max(0.0)
    }
}

/// Thousandths of 32 bits in a bit.
const BIT: f64 = 1000.0 / 32.0;

impl CodedSize {
    /// How many octaves a model has costs for.
    pub const OCTAVES: usize = OCTAVES;

    /// The expected size, in thousandths of 32 bits for each value.
    pub fn permille(&self, bound: f64, zeros: f64, texture: Option<Texture>) -> f64 {
        let [value, step, runs] = self.typical_permille.map(|permille| f64::from(permille) / 1e3);
        let texture =
            texture.unwrap_or(Texture { value, step, runs: runs * zeros * (1.0 - zeros) });
        let size = |parts: CodedParts| {
            let (below, near) = parts.between();
            let [low, high] = [below, below + 1].map(|at| f64::from(self.value_permille[at]));
            let each = low + near * (high - low) + BIT * parts.beyond();
            f64::from(self.run_permille) * parts.runs + each * parts.values
        };
        let [plain, predicted] = CodedParts::of(bound, zeros, &texture).map(size);
        plain.min(predicted)
    }
}

/// The binary logarithm, of straight lines between powers of two: less than a tenth too small in between, and the
/// same on every machine. Of nothing it is that of the smallest number.
fn log2(x: f64) -> f64 {
    let bits = (x.max(f64::MIN_POSITIVE)).to_bits();
    (bits as f64 - 1f64.to_bits() as f64) / (1u64 << 52) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: CodedSize = CodedSize {
        run_permille: 100,
        value_permille: [10, 20, 40, 60, 90, 120, 150, 180, 210, 240, 270, 300],
        typical_permille: [500, 250, 500],
        margin_permille: 0,
    };

    #[test]
    fn the_better_predictor_counts() {
        let texture = Texture { value: 1.0, step: 0.25, runs: 0.0 };
        // A step of 2^-1: one is an octave above it, a quarter an octave below.
        assert_eq!(SIZE.permille(0.25, 0.0, Some(texture)), 40.0);
        let rough = Texture { step: 2.0, ..texture };
        assert_eq!(SIZE.permille(0.25, 0.0, Some(rough)), 90.0);
        assert_eq!(SIZE.permille(0.25, 0.0, None), 40.0, "typical: a half, a quarter");
    }

    #[test]
    fn zeros_cost_what_their_runs_do() {
        let texture = Texture { value: 1.0, step: 4.0, runs: 0.125 };
        assert_eq!(SIZE.permille(0.25, 0.5, Some(texture)), 12.5 + 45.0);
        assert_eq!(SIZE.permille(0.25, 1.0, Some(Texture { runs: 0.0, ..texture })), 0.0);
        assert_eq!(SIZE.permille(0.25, 0.5, None), 0.125 * 100.0 + (0.5 + 0.125) * 40.0);
    }

    #[test]
    fn beyond_the_last_octave_each_costs_a_bit() {
        let texture = Texture { value: 1.0, step: 9.0, runs: 0.0 };
        let at = |octaves: i32| SIZE.permille(0.5 * 0.5f64.powi(octaves), 0.0, Some(texture));
        assert_eq!((at(8), at(10), at(-9)), (300.0, 362.5, 10.0));
        assert_eq!((log2(8.0), log2(0.25), log2(3.0)), (3.0, -2.0, 1.5));
    }
}

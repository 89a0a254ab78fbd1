//! What an entropy code costs, by tensors of which size, zeros and texture are known.

use schema::{CodedParts, CodedSize, Texture};

/// What a codec within an error bound made of a tensor of 32-bit values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CodedSample {
    /// The error bound.
    pub bound: f64,
    /// Share of values that are zero.
    pub zeros: f64,
    /// How the others lie.
    pub texture: Texture,
    /// Standard deviation of the values.
    pub deviation: f64,
    /// Compressed over raw.
    pub ratio: f64,
}

impl CodedSample {
    /// The expected ratio under a model.
    pub fn expected(&self, model: &CodedSize) -> f64 {
        model.permille(self.bound, self.zeros, Some(self.texture)) / 1000.0
    }
}

/// A run of zeros and each octave.
const COSTS: usize = 1 + CodedSize::OCTAVES;
/// How much costs that lie off a line count against what is not explained.
const SMOOTH: f64 = 1e-3;
/// How often the better predictor of each sample is chosen anew.
const ROUNDS: usize = 4;

/// Least squares of what is left unexplained, as a share of each sample's size; costs of octaves of which there are few
/// samples lie on a line with their neighbours. Nothing without samples.
pub fn fit_coded(samples: &[CodedSample], margin_permille: u32) -> Option<CodedSize> {
    let samples = || samples.iter().filter(|sample| sample.ratio > 0.0);
    samples().next()?;
    let middle = |of: fn(&CodedSample) -> f64| {
        let mut all: Vec<f64> = samples().map(of).filter(|x| x.is_finite()).collect();
        all.sort_by(f64::total_cmp);
        (1000.0 * all.get(all.len() / 2).copied().unwrap_or(0.0)).round() as u32
    };
    let mut model = CodedSize {
        run_permille: 100,
        value_permille: std::array::from_fn(|octave| 31 * octave as u32 + 10),
        typical_permille: [
            middle(|s| s.texture.value / s.deviation),
            middle(|s| s.texture.step / s.deviation),
            middle(|s| s.texture.runs / (s.zeros * (1.0 - s.zeros))),
        ],
        margin_permille,
    };
    for _ in 0..ROUNDS {
        let mut sums = Sums::default();
        for sample in samples() {
            let [plain, predicted] = CodedParts::of(sample.bound, sample.zeros, &sample.texture);
            let size = |parts: CodedParts| row(parts, &model).1;
            let parts = if size(plain) <= size(predicted) { plain } else { predicted };
            let (row, _) = row(parts, &model);
            let beyond = 1000.0 / 32.0 * parts.beyond() * parts.values;
            sums.add(&row, 1000.0 * sample.ratio - beyond, 1.0 / sample.ratio);
        }
        let costs = sums.solved()?;
        model.run_permille = costs[0].max(0.0).round() as u32;
        // What is larger costs no less.
        let mut least = 0.0;
        for (cost, found) in model.value_permille.iter_mut().zip(&costs[1..]) {
            least = found.max(least);
            *cost = least.round() as u32;
        }
    }
    Some(model)
}

/// How often each cost is paid for a value, and what a model makes of that.
fn row(parts: CodedParts, model: &CodedSize) -> ([f64; COSTS], f64) {
    let mut row = [0.0; COSTS];
    let (below, near) = parts.between();
    row[0] = parts.runs;
    row[1 + below] = parts.values * (1.0 - near);
    row[2 + below] = parts.values * near;
    let values = model.value_permille.iter().map(|cost| f64::from(*cost));
    let costs = std::iter::once(f64::from(model.run_permille)).chain(values);
    (row, row.iter().zip(costs).map(|(times, cost)| times * cost).sum::<f64>() + parts.beyond())
}

/// Sums of squares and products.
#[derive(Default)]
struct Sums {
    squares: [[f64; COSTS]; COSTS],
    products: [f64; COSTS],
    weights: f64,
}

impl Sums {
    fn add(&mut self, row: &[f64; COSTS], wanted: f64, weight: f64) {
        for (i, x) in row.iter().enumerate() {
            for (j, y) in row.iter().enumerate() {
                self.squares[i][j] += weight * weight * x * y;
            }
            self.products[i] += weight * weight * x * wanted;
        }
        self.weights += weight * weight;
    }

    /// The costs, by Gaussian elimination; none where they are not determined.
    fn solved(mut self) -> Option<[f64; COSTS]> {
        for at in 1..COSTS - 2 {
            let bend = [(at, 1.0), (at + 1, -2.0), (at + 2, 1.0)];
            for (i, x) in bend {
                for (j, y) in bend {
                    self.squares[i][j] += SMOOTH * self.weights * x * y;
                }
            }
        }
        for at in 0..COSTS {
            self.squares[at][at] += 1e-9 * self.weights;
        }
        for at in 0..COSTS {
            let pivot = (at..COSTS)
                .max_by(|a, b| self.squares[*a][at].abs().total_cmp(&self.squares[*b][at].abs()))?;
            self.squares.swap(at, pivot);
            self.products.swap(at, pivot);
            let (own, wanted) = (self.squares[at], self.products[at]);
            if own[at].abs() < 1e-30 {
                return None;
            }
            for other in (0..COSTS).filter(|other| *other != at) {
                let factor = self.squares[other][at] / own[at];
                for (cell, own) in self.squares[other].iter_mut().zip(own) {
                    *cell -= factor * own;
                }
                self.products[other] -= factor * wanted;
            }
        }
        Some(std::array::from_fn(|at| self.products[at] / self.squares[at][at]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_costs_come_back_that_sizes_were_made_of() {
        let truth = CodedSize {
            run_permille: 90,
            value_permille: [5, 15, 30, 55, 85, 115, 145, 176, 207, 238, 270, 301],
            typical_permille: [500, 250, 500],
            margin_permille: 0,
        };
        let sample = |i: u32| {
            let of = |step: f64| (f64::from(i) * step).fract();
            let texture = Texture {
                value: 10.0 * of(0.618) + 0.01,
                step: 10.0 * of(0.414) + 0.01,
                runs: 0.25 * of(0.732),
            };
            let sample =
                CodedSample { bound: 0.02, zeros: 0.5, texture, deviation: 1.0, ratio: 1.0 };
            CodedSample { ratio: sample.expected(&truth), ..sample }
        };
        let samples: Vec<CodedSample> = (1..400).map(sample).collect();
        let model = fit_coded(&samples, 0).expect("there are samples");
        let off = samples.iter().map(|s| (s.expected(&model) / s.ratio - 1.0).abs());
        assert!(off.fold(0.0, f64::max) < 0.05, "{model:?}");
        assert_eq!(fit_coded(&[], 0), None);
    }
}

//! Rotary position embedding.

use super::ShapeError;

/// Base of the angles, as in the paper.
pub(crate) const BASE: f32 = 10_000.0;

/// Rotary position embedding (Su et al. 2021, "RoFormer", equation 34): each pair of neighbours
/// in a head's features is turned by an angle that grows with the token's position. The gradient
/// of the input is turned back by the same angles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotary {
    pub(crate) tokens: usize,
    pub(crate) features: usize,
    pub(crate) width: usize,
}

impl Rotary {
    /// For samples of so many tokens of so many features, in heads of `width` each.
    pub fn new(tokens: usize, features: usize, width: usize) -> Result<Self, ShapeError> {
        if width == 0 || !width.is_multiple_of(2) || !features.is_multiple_of(width) {
            let remedy = "an even number that divides the features is needed";
            return Err(ShapeError::Figure { what: "the width of a head", value: width, remedy });
        }
        Ok(Self { tokens, features, width })
    }

    /// The features, turned. Where `x` is `None`, in place.
    pub fn forward(&self, x: Option<&[f32]>, y: &mut [f32]) {
        self.turn(x, y, 1.0);
    }

    /// The gradient of the input. Where `dy` is `None`, in place.
    pub fn backward(&self, dy: Option<&[f32]>, dx: &mut [f32]) {
        self.turn(dy, dx, -1.0);
    }

    fn turn(&self, from: Option<&[f32]>, to: &mut [f32], direction: f32) {
        if let Some(from) = from {
            to.copy_from_slice(from);
        }
        let sample = self.tokens * self.features;
        for token in 0..self.tokens {
            for pair in 0..self.width / 2 {
                let frequency = BASE.powf(-2.0 * pair as f32 / self.width as f32);
                let (sine, cosine) = (direction * token as f32 * frequency).sin_cos();
                for row in to.chunks_exact_mut(sample) {
                    let row = &mut row[token * self.features..][..self.features];
                    for head in row.chunks_exact_mut(self.width) {
                        let (a, b) = (head[2 * pair], head[2 * pair + 1]);
                        head[2 * pair] = a * cosine - b * sine;
                        head[2 * pair + 1] = a * sine + b * cosine;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::gradient_check::{check_gradient, inner, made, random};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gradients_are_the_derivatives(
            batch in 1usize..3, tokens in 1usize..5, heads in 1usize..3, half in 1usize..4,
            seed: u64,
        ) {
            let rotary = Rotary::new(tokens, heads * 2 * half, 2 * half).unwrap();
            let count = batch * tokens * heads * 2 * half;
            let (x, dy) = (random(seed, count), random(seed ^ 1, count));
            let forward = |x: &[f32]| {
                made(count, |y| rotary.forward(Some(x), y))
            };
            let dx = made(count, |dx| rotary.backward(Some(&dy), dx));
            check_gradient(&x, &dx, 0.5, |x| inner(&forward(x), &dy))?;
            let mut back = forward(&x);
            rotary.backward(None, &mut back);
            for (back, x) in back.iter().zip(&x) {
                prop_assert!((back - x).abs() < 1e-5, "turned back: {back} {x}");
            }
        }

        #[test]
        fn products_depend_on_the_distance_alone(seed: u64, distance in 0usize..4) {
            let rotary = Rotary::new(8, 4, 4).unwrap();
            let (one, other) = (random(seed, 4), random(seed ^ 1, 4));
            let (mut q, mut k) = (one.repeat(8), other.repeat(8));
            rotary.forward(None, &mut q);
            rotary.forward(None, &mut k);
            let product = |at: usize| {
                inner(&q[4 * at..][..4], &k[4 * (at + distance)..][..4])
            };
            for at in 1..4 {
                prop_assert!((product(at) - product(0)).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn heads_of_an_odd_width_are_refused() {
        assert!(Rotary::new(4, 6, 3).is_err());
        assert!(Rotary::new(4, 6, 4).is_err());
    }
}

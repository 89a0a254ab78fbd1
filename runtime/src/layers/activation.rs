//! Functions applied to each element.

use std::f32::consts::{FRAC_2_PI, PI};

pub use networks::Activation;

/// Slope of the leaky ReLU below zero, as frameworks have it by default.
const LEAK: f32 = 0.01;

/// A function applied to each element. A NaN stays NaN, as in frameworks, so that a broken
/// training run shows.
///
/// Each function works on one slice of inputs and one of outputs, or, where the former is `None`,
/// in place over the latter.
pub trait Function {
    /// The function of each element.
    fn forward(self, x: Option<&[f32]>, y: &mut [f32]);

    /// The gradient of the input, from the gradient of the output and what was saved: the output
    /// where [`Activation::backward_reads_output`], else the input.
    fn backward(self, saved: &[f32], dy: Option<&[f32]>, dx: &mut [f32]);
}

impl Function for Activation {
    fn forward(self, x: Option<&[f32]>, y: &mut [f32]) {
        match self {
            Self::Relu => map(x, y, |x| if x <= 0.0 { 0.0 } else { x }),
            Self::LeakyRelu => map(x, y, |x| if x <= 0.0 { LEAK * x } else { x }),
            Self::Elu => map(x, y, |x| if x <= 0.0 { x.exp_m1() } else { x }),
            Self::Relu6 => map(x, y, |x| if x <= 0.0 { 0.0 } else { at_most(x, 6.0) }),
            Self::Gelu => map(x, y, |x| 0.5 * x * (1.0 + gelu_argument(x).tanh())),
            Self::Silu => map(x, y, |x| x * sigmoid(x)),
            Self::Sigmoid => map(x, y, sigmoid),
            Self::Tanh => map(x, y, f32::tanh),
        }
    }

    fn backward(self, saved: &[f32], dy: Option<&[f32]>, dx: &mut [f32]) {
        match self {
            Self::Relu => join(saved, dy, dx, |y, dy| if y <= 0.0 { 0.0 } else { dy }),
            Self::LeakyRelu => join(saved, dy, dx, |y, dy| if y <= 0.0 { LEAK * dy } else { dy }),
            Self::Elu => join(saved, dy, dx, |y, dy| if y <= 0.0 { (y + 1.0) * dy } else { dy }),
            Self::Relu6 => {
                join(saved, dy, dx, |y, dy| if y <= 0.0 || y >= 6.0 { 0.0 } else { dy });
            }
            Self::Gelu => join(saved, dy, dx, |x, dy| {
                let tanh = gelu_argument(x).tanh();
                let slope = (2.0 / PI).sqrt() * (1.0 + 3.0 * GELU_CUBE * x * x);
                dy * (0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * slope)
            }),
            Self::Silu => join(saved, dy, dx, |x, dy| {
                let s = sigmoid(x);
                dy * s * (1.0 + x * (1.0 - s))
            }),
            Self::Sigmoid => join(saved, dy, dx, |y, dy| dy * y * (1.0 - y)),
            Self::Tanh => join(saved, dy, dx, |y, dy| dy * (1.0 - y * y)),
        }
    }
}

const GELU_CUBE: f32 = 0.044_715;

fn gelu_argument(x: f32) -> f32 {
    FRAC_2_PI.sqrt() * (x + GELU_CUBE * x * x * x)
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// The smaller of both; `f32::min` would make a number of a NaN.
fn at_most(x: f32, bound: f32) -> f32 {
    if x > bound { bound } else { x }
}

fn map(x: Option<&[f32]>, y: &mut [f32], f: impl Fn(f32) -> f32) {
    match x {
        None => y.iter_mut().for_each(|value| *value = f(*value)),
        Some(x) => {
            assert_eq!(x.len(), y.len());
            y.iter_mut().zip(x).for_each(|(y, x)| *y = f(*x));
        }
    }
}

fn join(saved: &[f32], dy: Option<&[f32]>, dx: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    assert_eq!(saved.len(), dx.len());
    match dy {
        None => dx.iter_mut().zip(saved).for_each(|(dx, saved)| *dx = f(*saved, *dx)),
        Some(dy) => {
            assert_eq!(dy.len(), dx.len());
            let pairs = saved.iter().zip(dy);
            dx.iter_mut().zip(pairs).for_each(|(dx, (saved, dy))| *dx = f(*saved, *dy));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::gradient_check::{check_gradient, inner, made, random};
    use super::*;
    use proptest::prelude::*;

    fn forward(activation: Activation, x: &[f32]) -> Vec<f32> {
        made(x.len(), |y| activation.forward(Some(x), y))
    }

    proptest! {
        #[test]
        fn gradients_are_the_derivatives(
            seed: u64, count in 1usize..60, which in 0..Activation::ALL.len(),
        ) {
            let activation = Activation::ALL[which];
            let smooth = matches!(
                activation,
                Activation::Gelu | Activation::Silu | Activation::Sigmoid | Activation::Tanh
            );
            let step = if smooth { 0.02f32 } else { 0.015_625 };
            // No input within a step of a bend, at 0 or 6; some beyond 6.
            let x: Vec<f32> = random(seed, count).iter().map(|x| {
                let x = x * 8.0;
                let x = x + (2.0 * step).copysign(x);
                if (x - 6.0).abs() < 2.0 * step { 6.5 } else { x }
            }).collect();
            let dy = random(seed ^ 1, count);
            let y = forward(activation, &x);
            let saved = if activation.backward_reads_output() { &y } else { &x };
            let dx = made(count, |dx| activation.backward(saved, Some(&dy), dx));
            check_gradient(&x, &dx, step, |x| inner(&forward(activation, x), &dy))?;

            let (mut in_place, mut gradient) = (x.clone(), dy.clone());
            activation.forward(None, &mut in_place);
            activation.backward(saved, None, &mut gradient);
            prop_assert_eq!(in_place, y);
            prop_assert_eq!(gradient, dx);
        }
    }

    #[test]
    fn known_values() {
        let x = [-2.0, 0.0, 1.0, 8.0];
        let expected = [
            (Activation::Relu, [0.0, 0.0, 1.0, 8.0]),
            (Activation::LeakyRelu, [-0.02, 0.0, 1.0, 8.0]),
            (Activation::Elu, [-0.864_664_7, 0.0, 1.0, 8.0]),
            (Activation::Relu6, [0.0, 0.0, 1.0, 6.0]),
            (Activation::Gelu, [-0.045_402_3, 0.0, 0.841_192, 8.0]),
            (Activation::Silu, [-0.238_405_8, 0.0, 0.731_058_6, 7.997_317]),
            (Activation::Sigmoid, [0.119_202_9, 0.5, 0.731_058_6, 0.999_664_65]),
            (Activation::Tanh, [-0.964_027_6, 0.0, 0.761_594_2, 0.999_999_8]),
        ];
        for (activation, expected) in expected {
            for (found, expected) in forward(activation, &x).iter().zip(expected) {
                assert!((found - expected).abs() < 1e-6, "{activation:?}: {found} {expected}");
            }
        }
    }

    #[test]
    fn nan_stays_and_zero_has_no_gradient() {
        for &activation in Activation::ALL {
            assert!(forward(activation, &[f32::NAN])[0].is_nan(), "{activation:?}");
        }
        let mut gradient = [1.0; 3];
        Activation::Relu.backward(&[0.0, -0.0, 2.0], None, &mut gradient);
        assert_eq!(gradient, [0.0, 0.0, 1.0]);
    }
}

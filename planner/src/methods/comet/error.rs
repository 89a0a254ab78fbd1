//! COMET's model of what an error in a convolution's input does to its weights' gradient, and the
//! error bound that follows from it.

/// The share of the average of the gradient that its error may reach (equation 1, section 5.2).
pub const ACCEPTABLE: f64 = 0.01;

/// What COMET collects of a convolution (section 3.1), by which its error bound is set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerStatistics {
    /// `M_Average`: mean magnitude of the weights' gradient. The paper's momentum is an average of
    /// gradients (equation 2; "1 % of the average of gradient", section 5.2). What an optimizer keeps
    /// as momentum is their sum, `1 / (1 - 0.9)` times as large.
    pub gradient: f64,
    /// `L̄`: magnitude of the gradient of the loss at the layer's output. Section 4.2 speaks of the
    /// average over samples of what each weighs its errors with; [`loss_weight`] says what that is
    /// for a convolution.
    pub loss_gradient: f64,
    /// `N`: samples in the batch.
    pub batch: u32,
    /// `R`: share of the input's values that are not zero. The paper calls R the sparsity ratio in
    /// equation 3 and the share of nonzero values in equation 11; only the latter makes both say
    /// the same. It counts all values alike, which takes for granted that zeros do not keep to where the
    /// gradient of the loss is small, or large, and that no window reaches over the edge. In a network that
    /// learns neither holds, so that a value counts here as often as it is read, and with the square of the gradient
    /// that it meets.
    pub nonzero: f64,
}

impl LayerStatistics {
    /// Equations 1 and 3: the error bound under which the gradient's error stays within an acceptable share of it,
    ///
    /// > eb = sigma / (a L̄ sqrt(N R)), sigma = 0.01 M_Average
    ///
    /// with [`ACCEPTABLE`] for the paper's 0.01; it tries 0.001 to 0.05 (figure 9).
    ///
    /// None where no finite bound over 0 comes out: without a gradient there is nothing to go by, and
    /// what is all zeros or gets no loss bears any error.
    pub fn error_bound(&self, acceptable: f64) -> Option<f64> {
        let sigma = acceptable * self.gradient;
        let per_bound = gradient_sigma(self.loss_gradient, self.batch, self.nonzero, 1.0);
        Some(sigma / per_bound).filter(|bound| bound.is_finite() && *bound > 0.0)
    }
}

/// Equations 10 and 11: standard deviation of the error of a weight's gradient, where errors drawn
/// evenly from `[-bound, bound]` were added to those of the layer's input values that are not zero,
///
/// > sigma = a L̄ sqrt(N R) eb
///
/// with `a` = [`UNIFORM`], which goes with [`loss_weight`] as `L̄`. The paper's 0.32 goes with an `L̄` of largest
/// values.
pub fn gradient_sigma(loss_gradient: f64, batch: u32, nonzero: f64, bound: f64) -> f64 {
    UNIFORM * loss_gradient * (f64::from(batch) * nonzero).sqrt() * bound
}

/// `L̄` of a convolution, from the gradient of the loss at its output, sample after sample: the
/// root of the mean over samples and output channels of the sum of squares over positions.
///
/// The error of one weight's gradient is the sum of `e L` over the samples and positions of its
/// output channel (equation 7). The errors `e` are independent, each of variance `eb² / 3`, so that
/// its variance is `N R eb² / 3` times the mean over samples of the sum of `L²`. The paper
/// simplifies that sum to a sample's largest `L` (equation 9), which outweighs the others there,
/// and then to an average; its `a` makes up for both. Taken whole, no weight of the sum is lost,
/// and `a` is `1 / sqrt(3)`, [`UNIFORM`], whatever the layer.
///
/// `gradient` holds samples, of channels, of `positions` values each.
pub fn loss_weight(gradient: &[f32], positions: usize) -> f64 {
    let squares: f64 = gradient.iter().map(|l| f64::from(*l) * f64::from(*l)).sum();
    let sums = gradient.len().checked_div(positions).unwrap_or(0).max(1);
    (squares / sums as f64).sqrt()
}

/// Standard deviation of what is drawn evenly from `[-1, 1]`: the coefficient that goes with
/// [`loss_weight`].
pub const UNIFORM: f64 = 0.577_350_269_189_625_8;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LAYER: LayerStatistics =
        LayerStatistics { gradient: 2e-3, loss_gradient: 1e-4, batch: 256, nonzero: 0.25 };

    #[test]
    fn the_bound_is_equation_3() {
        // 0.01 · 2e-3 / (1e-4 · sqrt(256 · 0.25 / 3)) = 2e-5 / 4.6188e-4
        let bound = LAYER.error_bound(ACCEPTABLE).expect("there is one");
        assert!((bound - 0.025 * 3f64.sqrt()).abs() < 1e-12, "{bound}");
    }

    #[test]
    fn without_gradients_or_values_there_is_no_bound() {
        for layer in [
            LayerStatistics { gradient: 0.0, ..LAYER },
            LayerStatistics { loss_gradient: 0.0, ..LAYER },
            LayerStatistics { nonzero: 0.0, ..LAYER },
            LayerStatistics { gradient: f64::NAN, ..LAYER },
        ] {
            assert_eq!(layer.error_bound(ACCEPTABLE), None, "{layer:?}");
        }
    }

    #[test]
    fn the_weight_of_a_gradient_sums_over_positions() {
        // Two samples of one channel: sums of squares 25 and 0.
        assert_eq!(loss_weight(&[3.0, 4.0, 0.0, 0.0], 2), 12.5f64.sqrt());
        assert_eq!(loss_weight(&[], 2), 0.0);
        assert!((UNIFORM - 1.0 / 3f64.sqrt()).abs() < 1e-15);
    }

    proptest! {
        #[test]
        fn the_bound_uses_up_what_is_acceptable(
            gradient in 1e-6f64..1.0, loss_gradient in 1e-8f64..1.0,
            batch in 1u32..4096, nonzero in 0.01f64..1.0,
        ) {
            let layer = LayerStatistics { gradient, loss_gradient, batch, nonzero };
            let bound = layer.error_bound(ACCEPTABLE).expect("there is one");
            let sigma = gradient_sigma(loss_gradient, batch, nonzero, bound);
            prop_assert!((sigma / (ACCEPTABLE * gradient) - 1.0).abs() < 1e-9);
        }
    }
}

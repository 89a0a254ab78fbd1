//! COMET's model of a gradient's error, against errors put into a real convolution's input.

use planner::methods::{UNIFORM, gradient_sigma, loss_weight};
use runtime::layers::{Convolution, Shape, Window};
use runtime::network::Random;

/// About normal.
fn normal(random: &mut Random) -> f32 {
    (0..12).map(|_| random.uniform(1.0)).sum::<f32>() / 2.0
}

/// One convolution, how many of its input's values are not zero, and how unequal the gradient of
/// the loss is.
struct Case {
    convolution: Convolution,
    input: Shape,
    nonzero: f32,
    /// Gradients are this power of normal values: the higher, the more a few outweigh the rest.
    power: i32,
}

fn case(input: [usize; 4], out: usize, window: [usize; 3], nonzero: f32, power: i32) -> Case {
    let [n, c, h, w] = input;
    let input = Shape::image(n, c, h, w);
    let window = Window::square(window[0], window[1], window[2]);
    let convolution = Convolution::new(input, out, window, 1).expect("the window fits");
    Case { convolution, input, nonzero, power }
}

impl Case {
    fn gradient(&self, x: &[f32], dy: &[f32]) -> Vec<f64> {
        let mut dw = vec![0.0; self.convolution.weights()];
        let mut workspace = vec![0.0; self.convolution.workspace_floats()];
        self.convolution.backward_weights((x, dy), &mut dw, None, &mut workspace);
        dw.into_iter().map(f64::from).collect()
    }

    /// Standard deviation of the gradient's error, predicted and measured, for an error bound.
    fn sigma(&self, bound: f32, random: &mut Random) -> (f64, f64) {
        let output = self.convolution.output();
        let sparse = |random: &mut Random| match random.uniform(1.0) < 2.0 * self.nonzero - 1.0 {
            true => normal(random).abs() + bound,
            false => 0.0,
        };
        let x: Vec<f32> = (0..self.input.elements()).map(|_| sparse(random)).collect();
        let dy: Vec<f32> =
            (0..output.elements()).map(|_| normal(random).powi(self.power)).collect();
        let nonzero = x.iter().filter(|x| **x != 0.0).count() as f64 / x.len() as f64;
        let weight = loss_weight(&dy, output.plane());
        let batch = self.input.n as u32;
        let predicted = gradient_sigma(UNIFORM, weight, batch, nonzero, f64::from(bound));

        let exact = self.gradient(&x, &dy);
        let (mut squares, mut count) = (0.0, 0.0);
        for _ in 0..4 {
            // Zeros stay zeros, as COMET's codec has it.
            let inject = |x: &f32| if *x == 0.0 { 0.0 } else { x + bound * random.uniform(1.0) };
            let altered: Vec<f32> = x.iter().map(inject).collect();
            for (exact, altered) in exact.iter().zip(self.gradient(&altered, &dy)) {
                squares += (altered - exact).powi(2);
                count += 1.0;
            }
        }
        (predicted, (squares / count).sqrt())
    }
}

#[test]
fn the_predicted_error_of_a_gradient_is_that_of_errors_put_in() {
    let cases = [
        ("dense", case([16, 8, 24, 24], 16, [3, 1, 1], 1.0, 1)),
        ("half zeros", case([16, 8, 24, 24], 16, [3, 1, 1], 0.5, 1)),
        ("mostly zeros", case([32, 8, 16, 16], 8, [3, 1, 0], 0.1, 1)),
        ("a few gradients outweigh", case([32, 8, 16, 16], 8, [3, 1, 0], 0.5, 5)),
        ("strided", case([16, 4, 31, 31], 16, [5, 2, 0], 0.5, 3)),
        ("pointwise", case([16, 32, 14, 14], 32, [1, 1, 0], 0.5, 1)),
        ("one sample", case([1, 16, 24, 24], 16, [3, 1, 1], 0.5, 1)),
    ];
    let mut random = Random::new(1);
    for (name, case) in &cases {
        for bound in [1e-1, 1e-2] {
            let (predicted, measured) = case.sigma(bound, &mut random);
            let off = predicted / measured - 1.0;
            println!(
                "{name}, bound {bound}: {predicted:.4e} predicted, {measured:.4e}, {:+.1} %",
                100.0 * off
            );
            assert!(off.abs() < 0.1, "{name}, bound {bound}: {predicted} against {measured}");
        }
    }
}

//! Convolution of one to three dimensions.

use super::matrix::{Output, matrix, multiply};
use super::reduce::sum;
use super::slide::Slide;
use super::tile::Tile;
use super::{Shape, ShapeError, Window, depthwise};

/// A convolution, with a bias or without, as matrix products per group (im2col): of one image
/// each, or, where an image's output is small, of several at once, so that weights are not read
/// for a few columns each time. Where each channel has a window of its own, sums along the rows
/// take the place of products with one row.
///
/// Weights are `(out channels, in channels / groups, kernel)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convolution {
    input: Shape,
    output: Shape,
    slide: Slide,
    groups: usize,
}

/// Columns that make a product worth its while.
const COLUMNS: usize = 256;

impl Convolution {
    /// Images, channels, groups, extents of input, output and window, its steps and the padding,
    /// for a kernel.
    pub(crate) fn numbers(&self) -> [u64; 19] {
        let Slide { input, output, window } = self.slide;
        let counts = [self.input.n, self.input.c, self.output.c, self.groups];
        let sides = [input, output, window.kernel, window.stride, window.padding].into_iter();
        let mut all = counts.into_iter().chain(sides.flatten());
        std::array::from_fn(|_| all.next().unwrap_or(0) as u64)
    }

    /// A convolution of `input` to `out_channels` channels.
    pub fn new(
        input: Shape,
        out_channels: usize,
        window: Window,
        groups: usize,
    ) -> Result<Self, ShapeError> {
        for channels in [input.c, out_channels] {
            if groups == 0 || channels == 0 || !channels.is_multiple_of(groups) {
                return Err(ShapeError::Groups { channels, groups });
            }
        }
        let slide = Slide::new(input, window)?;
        let output = Shape { n: input.n, c: out_channels, space: slide.output };
        Ok(Self { input, output, slide, groups })
    }

    /// Shape of the output.
    pub fn output(&self) -> Shape {
        self.output
    }

    /// Number of weights, without the bias.
    pub fn weights(&self) -> usize {
        self.output.c * self.rows()
    }

    /// Weights that enter one element of the output: the fan-in.
    pub fn rows(&self) -> usize {
        self.input.c / self.groups * self.slide.window.volume()
    }

    /// Floats of workspace that each direction needs: the columns of one group, and where several
    /// images go together, their outputs side by side. One image under a kernel of one cell is
    /// its columns itself, and a depthwise convolution has none.
    pub fn workspace_floats(&self) -> usize {
        let together = self.together();
        if self.is_depthwise() || (together == 1 && self.is_pointwise()) {
            return 0;
        }
        let beside = if together == 1 { 0 } else { self.out_channels() };
        let rows = self.rows().saturating_add(beside).saturating_mul(together);
        rows.saturating_mul(self.output.plane())
    }

    /// `y = w * x + bias`.
    pub fn forward(
        &self,
        (x, w, bias): (&[f32], &[f32], Option<&[f32]>),
        y: &mut [f32],
        workspace: &mut [f32],
    ) {
        if let Some(bias) = bias {
            for (channel, y) in y.chunks_exact_mut(self.output.plane()).enumerate() {
                y.fill(bias[channel % self.output.c]);
            }
        } else if self.is_depthwise() {
            y.fill(0.0);
        }
        if self.is_depthwise() {
            return depthwise::forward(&self.slide, self.input.c, x, w, y);
        }
        let output = if bias.is_some() { Output::Accumulate } else { Output::Overwrite };
        for tile in self.tiles() {
            let w = matrix(self.weights_of(w, tile), self.out_channels());
            if tile.count == 1 {
                let columns = self.columns(x, tile, workspace);
                let y = tile.image_mut(y, self.output, 0);
                multiply(w, matrix(columns, self.rows()), y, output);
                continue;
            }
            let (columns, beside) = self.split(tile, workspace);
            self.all_columns(x, tile, columns);
            if bias.is_some() {
                tile.gather(y, self.output, beside);
            }
            multiply(w, matrix(columns, self.rows()), beside, output);
            tile.scatter(beside, self.output, y);
        }
    }

    /// The gradients of the weights and of the bias, where there is one, from the input and the
    /// gradient of the output.
    pub fn backward_weights(
        &self,
        (x, dy): (&[f32], &[f32]),
        dw: &mut [f32],
        dbias: Option<&mut [f32]>,
        workspace: &mut [f32],
    ) {
        dw.fill(0.0);
        if let Some(dbias) = dbias {
            for (channel, dbias) in dbias.iter_mut().enumerate() {
                let planes = dy.chunks_exact(self.output.plane());
                *dbias = planes.skip(channel).step_by(self.output.c).map(sum).sum::<f64>() as f32;
            }
        }
        if self.is_depthwise() {
            return depthwise::backward_weights(&self.slide, self.input.c, x, dy, dw);
        }
        let weights = self.weights() / self.groups;
        for tile in self.tiles() {
            let dw = &mut dw[tile.group * weights..][..weights];
            if tile.count == 1 {
                let columns = matrix(self.columns(x, tile, workspace), self.rows());
                let dy = matrix(tile.image(dy, self.output, 0), self.out_channels());
                multiply(dy, columns.t(), dw, Output::Accumulate);
                continue;
            }
            let (columns, beside) = self.split(tile, workspace);
            self.all_columns(x, tile, columns);
            tile.gather(dy, self.output, beside);
            let dy = matrix(beside, self.out_channels());
            multiply(dy, matrix(columns, self.rows()).t(), dw, Output::Accumulate);
        }
    }

    /// Of the squares of `dy` that enter the weights' gradient, each as often as a window reads an input, the
    /// share that meets an input that is not zero: that of such inputs, were they spread over windows evenly.
    pub fn nonzero_share(&self, (x, dy): (&[f32], &[f32])) -> f64 {
        let there: Vec<f32> = x.iter().map(|x| if *x == 0.0 { 0.0 } else { 1.0 }).collect();
        let squares: Vec<f32> = dy.iter().map(|dy| dy * dy).collect();
        let (mut met, mut workspace) =
            (vec![0.0; self.weights()], vec![0.0; self.workspace_floats()]);
        self.backward_weights((&there, &squares), &mut met, None, &mut workspace);
        let all: f64 = squares.iter().map(|square| f64::from(*square)).sum();
        let met: f64 = met.iter().map(|met| f64::from(*met)).sum();
        met / (all * self.rows() as f64)
    }

    /// The gradient of the input, from the weights and the gradient of the output.
    pub fn backward_input(&self, (w, dy): (&[f32], &[f32]), dx: &mut [f32], workspace: &mut [f32]) {
        if self.is_depthwise() {
            return depthwise::backward_input(&self.slide, self.input.c, w, dy, dx);
        }
        for tile in self.tiles() {
            let w = matrix(self.weights_of(w, tile), self.out_channels());
            let positions = self.output.plane();
            if tile.count == 1 {
                let dy = matrix(tile.image(dy, self.output, 0), self.out_channels());
                let dx = tile.image_mut(dx, self.input, 0);
                if self.is_pointwise() {
                    multiply(w.t(), dy, dx, Output::Overwrite);
                } else {
                    let columns = &mut workspace[..self.rows() * positions];
                    multiply(w.t(), dy, columns, Output::Overwrite);
                    self.slide.col2im(columns, dx, 0, positions);
                }
                continue;
            }
            let (columns, beside) = self.split(tile, workspace);
            tile.gather(dy, self.output, beside);
            multiply(w.t(), matrix(beside, self.out_channels()), columns, Output::Overwrite);
            for index in 0..tile.count {
                let dx = tile.image_mut(dx, self.input, index);
                self.slide.col2im(columns, dx, index * positions, tile.count * positions);
            }
        }
    }

    fn is_pointwise(&self) -> bool {
        self.slide.window == Window { ceil: self.slide.window.ceil, ..Window::cube(1, 1, 0) }
    }

    fn is_depthwise(&self) -> bool {
        self.groups == self.input.c && self.groups == self.output.c && self.groups > 1
    }

    fn out_channels(&self) -> usize {
        self.output.c / self.groups
    }

    /// Images whose columns are multiplied at once.
    fn together(&self) -> usize {
        (COLUMNS / self.output.plane()).clamp(1, self.input.n.max(1))
    }

    fn tiles(&self) -> impl Iterator<Item = Tile> + use<> {
        let (groups, images, together) = (self.groups, self.input.n, self.together());
        (0..images).step_by(together).flat_map(move |first| {
            let count = together.min(images - first);
            (0..groups).map(move |group| Tile { first, count, group, groups })
        })
    }

    /// The columns of a tile's only image, in `workspace` where they are not the image itself.
    fn columns<'a>(&self, x: &'a [f32], tile: Tile, workspace: &'a mut [f32]) -> &'a [f32] {
        let x = tile.image(x, self.input, 0);
        if self.is_pointwise() {
            return x;
        }
        let positions = self.output.plane();
        let columns = &mut workspace[..self.rows() * positions];
        self.slide.im2col(x, columns, 0, positions);
        columns
    }

    /// The columns of all of a tile's images, side by side.
    fn all_columns(&self, x: &[f32], tile: Tile, columns: &mut [f32]) {
        let positions = self.output.plane();
        for index in 0..tile.count {
            let x = tile.image(x, self.input, index);
            self.slide.im2col(x, columns, index * positions, tile.count * positions);
        }
    }

    /// Room for a tile's columns, and for its outputs side by side.
    fn split<'a>(&self, tile: Tile, workspace: &'a mut [f32]) -> (&'a mut [f32], &'a mut [f32]) {
        let width = tile.count * self.output.plane();
        let (columns, rest) = workspace.split_at_mut(self.rows() * width);
        (columns, &mut rest[..self.out_channels() * width])
    }

    fn weights_of<'a>(&self, w: &'a [f32], tile: Tile) -> &'a [f32] {
        let size = self.weights() / self.groups;
        &w[tile.group * size..][..size]
    }
}

#[cfg(test)]
mod tests {
    use super::super::gradient_check::{check_gradient, inner, random};
    use super::*;
    use proptest::prelude::*;

    /// The definition of a convolution, cell by cell.
    fn direct(conv: &Convolution, x: &[f32], w: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        let (i, o, window) = (conv.input, conv.output, conv.slide.window);
        let (ic, oc) = (i.c / conv.groups, o.c / conv.groups);
        let split = |index: usize, extents: [usize; 3]| {
            let (row, column) = (index / extents[2], index % extents[2]);
            [row / extents[1] % extents[0], row % extents[1], column]
        };
        let mut y = vec![0.0; o.elements()];
        for (index, y) in y.iter_mut().enumerate() {
            let position = split(index, o.space);
            let (channel, n) = (index / o.plane() % o.c, index / o.sample());
            *y = bias.map_or(0.0, |bias| bias[channel]);
            for cell in 0..conv.rows() {
                let offset = split(cell, window.kernel);
                let c = channel / oc * ic + cell / window.volume();
                let at = [0, 1, 2].map(|axis| {
                    (position[axis] * window.stride[axis] + offset[axis])
                        .wrapping_sub(window.padding[axis])
                });
                if at.iter().zip(i.space).all(|(at, extent)| *at < extent) {
                    let at = (at[0] * i.space[1] + at[1]) * i.space[2] + at[2];
                    *y += w[channel * conv.rows() + cell] * x[n * i.sample() + c * i.plane() + at];
                }
            }
        }
        y
    }

    fn forward(conv: &Convolution, x: &[f32], w: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        let mut y = vec![f32::NAN; conv.output().elements()];
        conv.forward((x, w, bias), &mut y, &mut vec![f32::NAN; conv.workspace_floats()]);
        y
    }

    fn backward(conv: &Convolution, x: &[f32], w: &[f32], dy: &[f32]) -> [Vec<f32>; 3] {
        let mut dx = vec![f32::NAN; x.len()];
        let mut dw = vec![f32::NAN; w.len()];
        let mut dbias = vec![f32::NAN; conv.output.c];
        let mut workspace = vec![f32::NAN; conv.workspace_floats()];
        conv.backward_input((w, dy), &mut dx, &mut workspace);
        conv.backward_weights((x, dy), &mut dw, Some(&mut dbias), &mut workspace);
        [dx, dw, dbias]
    }

    /// Any window over any space; a third of them depthwise.
    fn convolutions() -> impl Strategy<Value = Convolution> {
        let space = prop_oneof![
            (1usize..9).prop_map(|w| [1, 1, w]),
            (1usize..7, 1usize..7).prop_map(|(h, w)| [1, h, w]),
            (1usize..4, 1usize..5, 1usize..5).prop_map(|(d, h, w)| [d, h, w]),
        ];
        let axis = || (1usize..4, 1usize..4, 0usize..3);
        let channels = prop_oneof![
            (1usize..4, 1usize..4, 1usize..3),
            (2usize..5).prop_map(|groups| (1, 1, groups)),
        ];
        (1usize..6, channels, space, [axis(), axis(), axis()]).prop_filter_map(
            "the window fits",
            |(n, (from, to, groups), space, axes)| {
                let figure = |get: fn(&(usize, usize, usize)) -> usize, idle: usize| {
                    [0, 1, 2].map(|i| if space[i] == 1 { idle } else { get(&axes[i]) })
                };
                let (kernel, stride) = (figure(|a| a.0, 1), figure(|a| a.1, 1));
                let window = Window { kernel, stride, padding: figure(|a| a.2, 0), ceil: false };
                let input = Shape { n, c: from * groups, space };
                Convolution::new(input, to * groups, window, groups).ok()
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        #[test]
        fn forward_is_the_definition(conv in convolutions(), seed: u64, biased: bool) {
            let x = random(seed, conv.input.elements());
            let w = random(seed ^ 1, conv.weights());
            prop_assert!(conv.tiles().all(|tile| tile.count <= conv.together()));
            let bias = random(seed ^ 2, conv.output.c);
            let bias = biased.then_some(&bias[..]);
            let expected = direct(&conv, &x, &w, bias);
            for (found, expected) in forward(&conv, &x, &w, bias).iter().zip(expected) {
                prop_assert!((found - expected).abs() < 1e-4, "{found} {expected}");
            }
        }

        #[test]
        fn gradients_are_the_derivatives(conv in convolutions(), seed: u64) {
            let x = random(seed, conv.input.elements());
            let w = random(seed ^ 1, conv.weights());
            let dy = random(seed ^ 2, conv.output.elements());
            let bias = random(seed ^ 3, conv.output.c);
            let [dx, dw, dbias] = backward(&conv, &x, &w, &dy);
            let loss = |x: &[f32], w: &[f32], bias: &[f32]| {
                inner(&forward(&conv, x, w, Some(bias)), &dy)
            };
            check_gradient(&x, &dx, 0.5, |x| loss(x, &w, &bias))?;
            check_gradient(&w, &dw, 0.5, |w| loss(&x, w, &bias))?;
            check_gradient(&bias, &dbias, 0.5, |bias| loss(&x, &w, bias))?;
        }
    }

    /// Images that go together or not, and a last tile that is smaller.
    #[test]
    fn larger_batches_are_the_definition_too() {
        for (images, extent, groups) in [(5, 8, 1), (9, 11, 2), (3, 17, 1), (600, 1, 2)] {
            let input = Shape::image(images, 4, extent, extent);
            for window in [Window::square(3, 1, 1), Window::square(1, 1, 0)] {
                let conv = Convolution::new(input, 6, window, groups).unwrap();
                let (x, w) = (random(1, input.elements()), random(2, conv.weights()));
                let (bias, dy) = (random(3, 6), random(4, conv.output.elements()));
                let y = forward(&conv, &x, &w, Some(&bias));
                for (found, expected) in y.iter().zip(direct(&conv, &x, &w, Some(&bias))) {
                    assert!((found - expected).abs() < 1e-4, "{found} {expected}");
                }
                // Both gradients are linear: <dy, w * x> = <dx, x> = <dw, w>.
                let product = inner(&dy, &forward(&conv, &x, &w, None));
                let [dx, dw, _] = backward(&conv, &x, &w, &dy);
                for other in [inner(&dx, &x), inner(&dw, &w)] {
                    let size = inner(&dy, &dy).max(inner(&y, &y));
                    assert!((other - product).abs() < 1e-5 * size, "{other} {product}");
                }
            }
        }
    }

    #[test]
    fn channels_must_divide_into_groups() {
        let input = Shape::image(1, 3, 4, 4);
        let groups = |groups| Convolution::new(input, 6, Window::square(1, 1, 0), groups);
        assert!(groups(3).is_ok());
        assert_eq!(groups(2), Err(ShapeError::Groups { channels: 3, groups: 2 }));
        assert_eq!(groups(0), Err(ShapeError::Groups { channels: 3, groups: 0 }));
    }
}

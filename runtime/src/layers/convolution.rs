//! Two-dimensional convolution.

use super::im2col::{col2im, im2col};
use super::matrix::{Output, matrix, multiply};
use super::{Shape4, ShapeError, Window};

/// A two-dimensional convolution without bias, as a matrix product per image and group (im2col).
///
/// Weights are `(out channels, in channels / groups, kernel, kernel)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convolution {
    input: Shape4,
    output: Shape4,
    window: Window,
    groups: usize,
}

impl Convolution {
    /// A convolution of `input` to `out_channels` channels.
    pub fn new(
        input: Shape4,
        out_channels: usize,
        window: Window,
        groups: usize,
    ) -> Result<Self, ShapeError> {
        for channels in [input.c, out_channels] {
            if groups == 0 || !channels.is_multiple_of(groups) {
                return Err(ShapeError::Groups { channels, groups });
            }
        }
        let (h, w) = (window.positions(input.h)?, window.positions(input.w)?);
        let output = Shape4 { n: input.n, c: out_channels, h, w };
        Ok(Self { input, output, window, groups })
    }

    /// Shape of the output.
    pub fn output(&self) -> Shape4 {
        self.output
    }

    /// Number of weights.
    pub fn weights(&self) -> usize {
        self.output.c * self.rows()
    }

    /// Weights that enter one element of the output: the fan-in.
    pub fn rows(&self) -> usize {
        self.input.c / self.groups * self.window.kernel * self.window.kernel
    }

    /// Floats of workspace that either direction needs: the columns of one image and group.
    /// A kernel of one cell reads the image itself as columns.
    pub fn workspace_floats(&self) -> usize {
        if self.is_pointwise() { 0 } else { self.rows() * self.output.plane() }
    }

    /// Floating-point operations of the forward pass, and of each of the two gradients.
    pub fn flops(&self) -> u64 {
        2 * self.output.elements() as u64 * self.rows() as u64
    }

    /// `y = w * x`.
    pub fn forward(&self, x: &[f32], w: &[f32], y: &mut [f32], workspace: &mut [f32]) {
        let blocks = self.blocks(x, self.input).zip(self.blocks_mut(y, self.output));
        for ((group, x), y) in blocks {
            let w = matrix(self.group(w, group), self.output.c / self.groups);
            let columns = self.columns(x, workspace);
            multiply(w, matrix(columns, self.rows()), y, Output::Overwrite);
        }
    }

    /// The gradients of the input, where it is wanted, and of the weights, from the input, the
    /// weights and the gradient of the output.
    pub fn backward(
        &self,
        (x, w, dy): (&[f32], &[f32], &[f32]),
        mut dx: Option<&mut [f32]>,
        dw: &mut [f32],
        workspace: &mut [f32],
    ) {
        dw.fill(0.0);
        let out_channels = self.output.c / self.groups;
        let size = self.input.image() / self.groups;
        let blocks = self.blocks(x, self.input).zip(self.blocks(dy, self.output));
        for (block, ((group, x), (_, dy))) in blocks.enumerate() {
            let dy = matrix(dy, out_channels);
            let columns = matrix(self.columns(x, workspace), self.rows());
            let weights = self.weights() / self.groups;
            let dw = &mut dw[group * weights..][..weights];
            multiply(dy, columns.t(), dw, Output::Accumulate);
            if let Some(dx) = &mut dx {
                let dx = &mut dx[block * size..][..size];
                let w = matrix(self.group(w, group), out_channels);
                self.input_gradient(w, dy, dx, workspace);
            }
        }
    }

    fn input_gradient(
        &self,
        w: ndarray::ArrayView2<f32>,
        dy: ndarray::ArrayView2<f32>,
        dx: &mut [f32],
        workspace: &mut [f32],
    ) {
        if self.is_pointwise() {
            return multiply(w.t(), dy, dx, Output::Overwrite);
        }
        let columns = &mut workspace[..self.workspace_floats()];
        multiply(w.t(), dy, columns, Output::Overwrite);
        let size = (self.output.h, self.output.w);
        col2im(columns, (self.input, self.window), size, dx);
    }

    fn is_pointwise(&self) -> bool {
        self.window == Window { kernel: 1, stride: 1, padding: 0 }
    }

    /// The columns of one image and group, in `workspace` where they are not the image itself.
    fn columns<'a>(&self, x: &'a [f32], workspace: &'a mut [f32]) -> &'a [f32] {
        if self.is_pointwise() {
            return x;
        }
        let columns = &mut workspace[..self.workspace_floats()];
        im2col(x, (self.input, self.window), (self.output.h, self.output.w), columns);
        columns
    }

    /// A group's weights.
    fn group<'a>(&self, w: &'a [f32], group: usize) -> &'a [f32] {
        let size = self.weights() / self.groups;
        &w[group * size..][..size]
    }

    /// The parts of a batch that belong to one image and group, with the group.
    fn blocks<'a>(
        &self,
        data: &'a [f32],
        shape: Shape4,
    ) -> impl Iterator<Item = (usize, &'a [f32])> + use<'a> {
        assert_eq!(data.len(), shape.elements());
        let groups = self.groups;
        let blocks = data.chunks_exact(shape.image() / groups).enumerate();
        blocks.map(move |(index, block)| (index % groups, block))
    }

    fn blocks_mut<'a>(
        &self,
        data: &'a mut [f32],
        shape: Shape4,
    ) -> impl Iterator<Item = &'a mut [f32]> + use<'a> {
        assert_eq!(data.len(), shape.elements());
        data.chunks_exact_mut(shape.image() / self.groups)
    }
}

#[cfg(test)]
mod tests {
    use super::super::gradient_check::{check_gradient, inner, random};
    use super::*;
    use proptest::prelude::*;

    /// The definition of a convolution, cell by cell.
    fn direct(conv: &Convolution, x: &[f32], w: &[f32]) -> Vec<f32> {
        let (i, o, window) = (conv.input, conv.output, conv.window);
        let (ic, oc) = (i.c / conv.groups, o.c / conv.groups);
        let mut y = vec![0.0; o.elements()];
        for (index, y) in y.iter_mut().enumerate() {
            let (ox, oy) = (index % o.w, index / o.w % o.h);
            let (channel, n) = (index / o.plane() % o.c, index / o.image());
            for cell in 0..conv.rows() {
                let (kx, ky) = (cell % window.kernel, cell / window.kernel % window.kernel);
                let c = channel / oc * ic + cell / (window.kernel * window.kernel);
                let iy = (oy * window.stride + ky).checked_sub(window.padding);
                let ix = (ox * window.stride + kx).checked_sub(window.padding);
                if let (Some(iy), Some(ix)) = (iy, ix)
                    && iy < i.h
                    && ix < i.w
                {
                    *y += w[channel * conv.rows() + cell]
                        * x[n * i.image() + c * i.plane() + iy * i.w + ix];
                }
            }
        }
        y
    }

    fn forward(conv: &Convolution, x: &[f32], w: &[f32]) -> Vec<f32> {
        let mut y = vec![f32::NAN; conv.output().elements()];
        conv.forward(x, w, &mut y, &mut vec![f32::NAN; conv.workspace_floats()]);
        y
    }

    fn backward(conv: &Convolution, x: &[f32], w: &[f32], dy: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let mut dx = vec![f32::NAN; x.len()];
        let mut dw = vec![f32::NAN; w.len()];
        let mut workspace = vec![f32::NAN; conv.workspace_floats()];
        conv.backward((x, w, dy), Some(&mut dx), &mut dw, &mut workspace);
        let mut alone = vec![f32::NAN; w.len()];
        conv.backward((x, w, dy), None, &mut alone, &mut workspace);
        assert_eq!(dw, alone, "the gradient of the weights does not depend on the other");
        (dx, dw)
    }

    fn convolutions() -> impl Strategy<Value = Convolution> {
        let shape = (1usize..3, 1usize..4, 1usize..8, 1usize..8);
        let window = (1usize..4, 1usize..4, 0usize..3);
        (shape, 1usize..4, 1usize..3, window).prop_filter_map(
            "the window fits",
            |((n, c, h, w), out, groups, (kernel, stride, padding))| {
                let input = Shape4 { n, c: c * groups, h, w };
                let window = Window { kernel, stride, padding };
                Convolution::new(input, out * groups, window, groups).ok()
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn forward_is_the_definition(conv in convolutions(), seed: u64) {
            let x = random(seed, conv.input.elements());
            let w = random(seed ^ 1, conv.weights());
            for (found, expected) in forward(&conv, &x, &w).iter().zip(direct(&conv, &x, &w)) {
                prop_assert!((found - expected).abs() < 1e-4, "{found} {expected}");
            }
        }

        #[test]
        fn gradients_are_the_derivatives(conv in convolutions(), seed: u64) {
            let x = random(seed, conv.input.elements());
            let w = random(seed ^ 1, conv.weights());
            let dy = random(seed ^ 2, conv.output.elements());
            let (dx, dw) = backward(&conv, &x, &w, &dy);
            check_gradient(&x, &dx, 0.5, |x| inner(&forward(&conv, x, &w), &dy))?;
            check_gradient(&w, &dw, 0.5, |w| inner(&forward(&conv, &x, w), &dy))?;
        }

        #[test]
        fn the_same_input_gives_the_same_bits(conv in convolutions(), seed: u64) {
            let x = random(seed, conv.input.elements());
            let w = random(seed ^ 1, conv.weights());
            let dy = random(seed ^ 2, conv.output.elements());
            prop_assert_eq!(forward(&conv, &x, &w), forward(&conv, &x, &w));
            prop_assert_eq!(backward(&conv, &x, &w, &dy), backward(&conv, &x, &w, &dy));
        }
    }

    #[test]
    fn channels_must_divide_into_groups() {
        let input = Shape4 { n: 1, c: 3, h: 4, w: 4 };
        let window = Window { kernel: 1, stride: 1, padding: 0 };
        let groups = |groups| Convolution::new(input, 6, window, groups);
        assert!(groups(3).is_ok());
        assert_eq!(groups(2), Err(ShapeError::Groups { channels: 3, groups: 2 }));
        assert_eq!(groups(0), Err(ShapeError::Groups { channels: 3, groups: 0 }));
    }
}

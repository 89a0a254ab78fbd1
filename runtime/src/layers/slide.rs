//! A window that slides over one channel, as runs of cells that a loop can follow.

use super::shape::SPACE;
use super::{Shape, ShapeError, Window};

/// A window that slides over a plane (or a volume) and has one position per element of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slide {
    pub input: [usize; SPACE],
    pub output: [usize; SPACE],
    pub window: Window,
}

/// Neighbouring positions in a row at which one cell of the window lies inside the plane.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub cell: usize,
    /// The first of the positions.
    pub output: usize,
    /// The element under the cell at the first position; `stride` further at each next.
    pub input: usize,
    pub length: usize,
}

impl Slide {
    pub fn new(input: Shape, window: Window) -> Result<Self, ShapeError> {
        Ok(Self { input: input.space, output: window.positions(input.space)?, window })
    }

    /// Distance in the plane between neighbouring positions of a row.
    pub fn step(&self) -> usize {
        self.window.stride[2]
    }

    /// Calls `visit` with every run, by ascending cell, then position.
    pub fn runs(&self, mut visit: impl FnMut(Run)) {
        let ([id, ih, iw], [od, oh, ow]) = (self.input, self.output);
        let Window { kernel, stride, padding, .. } = self.window;
        let mut cell = 0;
        for k in 0..kernel[0] {
            let depths = self.window.inside(0, k, id, od);
            for i in 0..kernel[1] {
                let rows = self.window.inside(1, i, ih, oh);
                for j in 0..kernel[2] {
                    let columns = self.window.inside(2, j, iw, ow);
                    let length = columns.len();
                    for z in depths.clone().filter(|_| length > 0) {
                        let plane = (z * stride[0] + k - padding[0]) * ih;
                        for y in rows.clone() {
                            let row = (plane + y * stride[1] + i - padding[1]) * iw;
                            let input = row + columns.start * stride[2] + j - padding[2];
                            let output = (z * oh + y) * ow + columns.start;
                            visit(Run { cell, output, input, length });
                        }
                    }
                    cell += 1;
                }
            }
        }
    }

    /// Writes the columns of the channels in `image`, one plane after another, from column `first`
    /// on of a matrix with `width` columns: row `(c, cell)` holds, for every position of the
    /// window, the element of channel `c` under the window's cell, and zero where that is padding.
    pub fn im2col(&self, image: &[f32], columns: &mut [f32], first: usize, width: usize) {
        let (plane, positions, step) = (self.plane(), self.positions(), self.step());
        let rows = self.window.volume() * width;
        for (x, columns) in image.chunks_exact(plane).zip(columns.chunks_exact_mut(rows)) {
            for row in columns.chunks_exact_mut(width) {
                row[first..first + positions].fill(0.0);
            }
            self.runs(|run| {
                let start = run.cell * width + first + run.output;
                let out = &mut columns[start..start + run.length];
                if step == 1 {
                    out.copy_from_slice(&x[run.input..][..run.length]);
                } else {
                    for (out, x) in out.iter_mut().zip(x[run.input..].iter().step_by(step)) {
                        *out = *x;
                    }
                }
            });
        }
    }

    /// The transpose of [`Slide::im2col`]: adds every cell of the columns to the element that it
    /// came from.
    pub fn col2im(&self, columns: &[f32], image: &mut [f32], first: usize, width: usize) {
        let (plane, step) = (self.plane(), self.step());
        let rows = self.window.volume() * width;
        image.fill(0.0);
        for (x, columns) in image.chunks_exact_mut(plane).zip(columns.chunks_exact(rows)) {
            self.runs(|run| {
                let cells = &columns[run.cell * width + first + run.output..];
                add_scaled(cells, 1, 1.0, &mut x[run.input..], step, run.length);
            });
        }
    }

    pub fn plane(&self) -> usize {
        self.input.iter().product()
    }

    pub fn positions(&self) -> usize {
        self.output.iter().product()
    }
}

/// `to += scale from`, for `length` elements that are so many apart in either.
pub(super) fn add_scaled(
    from: &[f32],
    from_step: usize,
    scale: f32,
    to: &mut [f32],
    to_step: usize,
    length: usize,
) {
    if from_step == 1 && to_step == 1 {
        for (to, from) in to[..length].iter_mut().zip(&from[..length]) {
            *to += scale * from;
        }
    } else {
        let to = to.iter_mut().step_by(to_step);
        for (to, from) in to.zip(from.iter().step_by(from_step)).take(length) {
            *to += scale * from;
        }
    }
}

//! Convolution as a matrix product: the cells under every position of the window as columns.

use super::{Shape4, Window};

/// Writes the columns of the channels in `image` (`c * h * w` elements): row `(c, i, j)` holds,
/// for every position of the window, the pixel of channel `c` under the window's cell `(i, j)`,
/// and zero where that is padding. `columns` has `c * kernel^2` rows of `out_h * out_w`.
pub(super) fn im2col(
    image: &[f32],
    (shape, window): (Shape4, Window),
    (out_h, out_w): (usize, usize),
    columns: &mut [f32],
) {
    let Window { kernel, stride, padding } = window;
    let mut rows = columns.chunks_exact_mut(out_h * out_w);
    for plane in image.chunks_exact(shape.plane()) {
        for i in 0..kernel {
            let inside_y = window.inside(i, shape.h, out_h);
            for (j, row) in (0..kernel).zip(&mut rows) {
                let inside_x = window.inside(j, shape.w, out_w);
                for (y, out) in row.chunks_exact_mut(out_w).enumerate() {
                    if !inside_y.contains(&y) || inside_x.is_empty() {
                        out.fill(0.0);
                        continue;
                    }
                    let start = (y * stride + i - padding) * shape.w
                        + (inside_x.start * stride + j - padding);
                    out[..inside_x.start].fill(0.0);
                    out[inside_x.end..].fill(0.0);
                    let out = &mut out[inside_x.clone()];
                    if stride == 1 {
                        out.copy_from_slice(&plane[start..start + out.len()]);
                    } else {
                        for (out, pixel) in
                            out.iter_mut().zip(plane[start..].iter().step_by(stride))
                        {
                            *out = *pixel;
                        }
                    }
                }
            }
        }
    }
}

/// The transpose of [`im2col`]: adds every cell of the columns to the pixel that it came from.
pub(super) fn col2im(
    columns: &[f32],
    (shape, window): (Shape4, Window),
    (out_h, out_w): (usize, usize),
    image: &mut [f32],
) {
    let Window { kernel, stride, padding } = window;
    let mut rows = columns.chunks_exact(out_h * out_w);
    for plane in image.chunks_exact_mut(shape.plane()) {
        plane.fill(0.0);
        for i in 0..kernel {
            let inside_y = window.inside(i, shape.h, out_h);
            for (j, row) in (0..kernel).zip(&mut rows) {
                let inside_x = window.inside(j, shape.w, out_w);
                if inside_x.is_empty() {
                    continue;
                }
                for y in inside_y.clone() {
                    let cells = &row[y * out_w..][inside_x.clone()];
                    let start = (y * stride + i - padding) * shape.w
                        + (inside_x.start * stride + j - padding);
                    if stride == 1 {
                        for (pixel, cell) in plane[start..].iter_mut().zip(cells) {
                            *pixel += *cell;
                        }
                    } else {
                        for (pixel, cell) in plane[start..].iter_mut().step_by(stride).zip(cells) {
                            *pixel += *cell;
                        }
                    }
                }
            }
        }
    }
}

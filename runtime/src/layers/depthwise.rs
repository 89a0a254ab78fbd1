//! Convolution of each channel with a window of its own: sums along the rows. As matrix products
//! they would have one row and one column, and be as slow as reading memory cell by cell.

use super::slide::{Slide, add_scaled};

/// Adds `w * x` to `y`.
pub(super) fn forward(slide: &Slide, channels: usize, x: &[f32], w: &[f32], y: &mut [f32]) {
    let volume = slide.window.volume();
    let planes = x.chunks_exact(slide.plane()).zip(y.chunks_exact_mut(slide.positions()));
    for (index, (x, y)) in planes.enumerate() {
        let w = &w[index % channels * volume..][..volume];
        slide.runs(|run| {
            let y = &mut y[run.output..];
            add_scaled(&x[run.input..], slide.step(), w[run.cell], y, 1, run.length);
        });
    }
}

pub(super) fn backward_input(
    slide: &Slide,
    channels: usize,
    w: &[f32],
    dy: &[f32],
    dx: &mut [f32],
) {
    let volume = slide.window.volume();
    dx.fill(0.0);
    let planes = dx.chunks_exact_mut(slide.plane()).zip(dy.chunks_exact(slide.positions()));
    for (index, (dx, dy)) in planes.enumerate() {
        let w = &w[index % channels * volume..][..volume];
        slide.runs(|run| {
            let dx = &mut dx[run.input..];
            add_scaled(&dy[run.output..], 1, w[run.cell], dx, slide.step(), run.length);
        });
    }
}

/// Adds the gradient of the weights to `dw`.
pub(super) fn backward_weights(
    slide: &Slide,
    channels: usize,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
) {
    let volume = slide.window.volume();
    let planes = x.chunks_exact(slide.plane()).zip(dy.chunks_exact(slide.positions()));
    for (index, (x, dy)) in planes.enumerate() {
        let dw = &mut dw[index % channels * volume..][..volume];
        slide.runs(|run| {
            let x = x[run.input..].iter().step_by(slide.step());
            let products = x.zip(&dy[run.output..][..run.length]).map(|(x, dy)| x * dy);
            dw[run.cell] += products.sum::<f32>();
        });
    }
}

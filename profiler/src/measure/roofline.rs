//! How fast this machine's processor computes and moves memory, on one thread.

use std::hint::black_box;
use std::time::Instant;

use schema::BytesPerSec;

/// Roofline figures of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roofline {
    /// Operations per second of a large product of matrices of 32-bit floats.
    pub f32_flops: u64,
    /// Bytes per second, read and written, of a copy that no cache holds.
    pub memory_bandwidth: BytesPerSec,
}

const SIDE: usize = 768;
const FLOATS: usize = 16 << 20;
/// Runs of which the fastest counts: what else the machine does only adds to times.
const RUNS: usize = 5;

/// Measures this machine's processor, with the product that the host's layers use.
pub fn measure_host() -> Roofline {
    let product = runtime::layers::Linear { inputs: SIDE, outputs: SIDE, rows: SIDE };
    let (x, weights) = (vec![0.5; SIDE * SIDE], vec![0.25; SIDE * SIDE]);
    let mut y = vec![0.0; SIDE * SIDE];
    let seconds = fastest(|| product.forward(black_box(&x), black_box(&weights), None, &mut y));
    let flops = product.flops() as f64 / seconds;
    let source = vec![1.0f32; FLOATS];
    let mut target = vec![0.0f32; FLOATS];
    let seconds = fastest(|| target.copy_from_slice(black_box(&source)));
    black_box((&y, &target));
    let bytes = 2.0 * size_of_val(&source[..]) as f64;
    Roofline {
        f32_flops: (flops as u64).max(1),
        memory_bandwidth: BytesPerSec(((bytes / seconds) as u64).max(1)),
    }
}

fn fastest(mut run: impl FnMut()) -> f64 {
    let times = (0..=RUNS).map(|_| {
        let begin = Instant::now();
        run();
        begin.elapsed().as_secs_f64()
    });
    // The first one meets memory that nobody has touched yet.
    times.skip(1).fold(f64::INFINITY, f64::min).max(1e-9)
}

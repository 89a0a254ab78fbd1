//! How a speed is shown.

pub(super) fn gigabytes(speed: u64) -> String {
    format!("{:.1} GB/s", speed as f64 / 1e9)
}

//! Moving rows over the link (section 4.4).

use schema::{Bytes, BytesPerSec, Direction, Link, Nanos};

/// Bytes of the largest transaction: "Aligned memory accesses can be coalesced into a single
/// transaction of up to 128B" (section 3.2).
pub const LINE_BYTES: u64 = 128;

/// How many lines reading `bytes` touches on average over rows that begin at every `stride` bytes
/// ("aligned transfers": whole lines are read, also where a row begins or ends within one).
pub fn mean_lines(stride: u64, bytes: u64) -> f64 {
    if bytes == 0 {
        return 0.0;
    }
    // Where rows begin within a line repeats after at most 128 rows.
    let begins = (0..LINE_BYTES).map(|row| (row * (stride % LINE_BYTES)) % LINE_BYTES);
    let lines: u64 = begins.map(|begin| (begin + bytes).div_ceil(LINE_BYTES)).sum();
    lines as f64 / LINE_BYTES as f64
}

/// "CPU (Fine-grained)": one copy for each row, each with its latency.
pub(super) fn one_by_one(link: &Link, rows: f64, row_bytes: u64) -> Nanos {
    nanos(rows * link.copy_time(Direction::H2d, Bytes(row_bytes)).0 as f64)
}

/// "CPU (Bulk)": the host gathers the rows in one buffer, which is copied at once. `gather` is how
/// fast it does; without it, gathering costs nothing, which is the best that can be for this way.
pub(super) fn bulk(link: &Link, bytes: f64, gather: Option<BytesPerSec>) -> Nanos {
    let gathering = gather.map_or(0.0, |rate| bytes * 1e9 / rate.0.max(1) as f64);
    nanos(gathering) + link.copy_time(Direction::H2d, Bytes(bytes.round() as u64))
}

/// "GPU (Aligned)": the device reads lines from host memory. They keep the link as busy as a large
/// copy does ("warps in a GPU should generate maximally aligned, 128B transactions" for that,
/// section 3.2).
pub(super) fn zero_copy(link: &Link, lines: f64) -> Nanos {
    if lines == 0.0 {
        return Nanos::ZERO;
    }
    let bandwidth = link.h2d.at(Bytes(u64::MAX));
    link.latency + nanos(lines * LINE_BYTES as f64 * 1e9 / bandwidth)
}

/// The nearest whole nanosecond.
pub(super) fn nanos(nanos: f64) -> Nanos {
    // Stays below the largest number by as much as sums of a few need.
    Nanos((nanos.round() as u64).min(u64::MAX / 4))
}

#[cfg(test)]
mod tests {
    use schema::Bandwidth;

    use super::*;

    #[test]
    fn lines_depend_on_where_rows_begin() {
        // Aligned rows.
        assert_eq!(mean_lines(256, 256), 2.0);
        assert_eq!(mean_lines(256, 129), 2.0);
        assert_eq!(mean_lines(256, 128), 1.0);
        // Every other row begins in the middle of a line.
        assert_eq!(mean_lines(192, 128), 1.5);
        // Rows that begin at every byte: b bytes touch (b + 127) / 128 lines on average.
        assert_eq!(mean_lines(1, 128), 1.0 + 127.0 / 128.0);
        assert_eq!(mean_lines(1, 0), 0.0);
    }

    #[test]
    fn each_way_costs_what_its_equation_says() {
        let d2h = Bandwidth::constant(BytesPerSec(1));
        let link = Link::constant("test", BytesPerSec(1_000_000_000));
        let link = Link { d2h, latency: Nanos(1000), ..link };
        assert_eq!(one_by_one(&link, 10.0, 500), Nanos(10 * 1500));
        assert_eq!(bulk(&link, 5000.0, None), Nanos(6000));
        assert_eq!(bulk(&link, 5000.0, Some(BytesPerSec(500_000_000))), Nanos(16_000));
        assert_eq!(zero_copy(&link, 40.0), Nanos(1000 + 40 * 128));
        assert_eq!(zero_copy(&link, 0.0), Nanos(0));
        assert_eq!(bulk(&link, 0.0, None), Nanos(0));
    }
}

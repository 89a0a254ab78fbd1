//! Moving rows over the link (section 4.4).

use schema::{Bytes, BytesPerSec, Direction, Link, Nanos};

/// Bytes of the largest transaction: "Aligned memory accesses can be coalesced into a single
/// transaction of up to 128B" (section 3.2).
pub const LINE_BYTES: u64 = 128;

/// Bytes of which a line moves those that are asked for: a GPU's memory accesses are counted in
/// sectors of 32 bytes. With lines alone nothing would be gained by packing rows of 512 bytes to 449,
/// where table 1 has 1.1 times the throughput.
pub const SECTOR_BYTES: u64 = 32;

/// How fast a host gathers rows into one buffer where nobody states it: 13.5 GB/s. *PyTorch-Direct*
/// (Min et al. 2021) finds that the device's own reads take 47.1 % less time than gathering and
/// copying, over links of some 12 GB/s: gathering takes 0.89 times as long as the copy.
pub const GATHER: BytesPerSec = BytesPerSec(13_500_000_000);

/// Mean over rows that begin at every `stride` bytes; where they begin within a line repeats after
/// at most 128 of them.
fn over_begins(stride: u64, sectors: impl Fn(u64) -> u64) -> f64 {
    let begins = (0..LINE_BYTES).map(|row| (row * (stride % LINE_BYTES)) % LINE_BYTES);
    begins.map(sectors).sum::<u64>() as f64 / LINE_BYTES as f64
}

/// How many sectors reading `bytes` touches on average over rows that begin at every `stride`
/// bytes ("aligned transfers", section 4.4).
pub fn mean_sectors(stride: u64, bytes: u64) -> f64 {
    if bytes == 0 {
        return 0.0;
    }
    over_begins(stride, |begin| (begin % SECTOR_BYTES + bytes).div_ceil(SECTOR_BYTES))
}

/// The same where a warp reads 128 bytes at a time from the row's begin on, wherever that is: two
/// reads touch the sector between them ("GPU" in figure 5).
pub fn mean_unaligned_sectors(stride: u64, bytes: u64) -> f64 {
    let of = |begin: u64| (begin % SECTOR_BYTES + LINE_BYTES).div_ceil(SECTOR_BYTES);
    let rest = bytes % LINE_BYTES;
    let whole = (bytes / LINE_BYTES) as f64;
    whole * over_begins(stride, of) + mean_sectors(stride, rest)
}

/// Figure 7: at 90 % saved, what share of the throughput of transfers alone is reached, by the
/// bytes of a row (section 6.1), over a link of 25 GB/s to an A100.
pub const FIGURE_7: [(u64, f64); 3] = [(256, 0.50), (1024, 0.78), (4096, 0.86)];

/// Nanoseconds in which the paper's A100 decompresses a row: a line through what figure 7 comes to,
/// and on beyond. Transfers alone move the sectors of a tenth of a row.
pub(super) fn decompression(row_bytes: u64) -> f64 {
    let point = |(bytes, share): (u64, f64)| {
        let moved = mean_sectors(bytes, bytes / 10) * SECTOR_BYTES as f64;
        (bytes as f64, moved / LINK_OF_FIGURE_7 / share)
    };
    let points = FIGURE_7.map(point);
    let row = row_bytes as f64;
    let [low, high] =
        if row < points[1].0 { [points[0], points[1]] } else { [points[1], points[2]] };
    let slope = (high.1 - low.1) / (high.0 - low.0);
    // Rows that are smaller than any that was measured take in proportion.
    if row < low.0 { low.1 * row / low.0 } else { low.1 + slope * (row - low.0) }
}

/// Bytes per nanosecond.
const LINK_OF_FIGURE_7: f64 = 25.0;

/// Bytes per nanosecond of its memory.
pub(super) const BANDWIDTH_OF_FIGURE_7: f64 = 1555.0;

/// "CPU (Fine-grained)": one copy for each row, each with its latency.
pub(super) fn one_by_one(link: &Link, rows: f64, row_bytes: u64) -> Nanos {
    nanos(rows * link.copy_time(Direction::H2d, Bytes(row_bytes)).0 as f64)
}

/// "CPU (Bulk)": the host gathers the rows in one buffer, which is copied at once. `gather` is how
/// fast it does.
pub(super) fn bulk(link: &Link, bytes: f64, gather: BytesPerSec) -> Nanos {
    let gathering = bytes * 1e9 / gather.0.max(1) as f64;
    nanos(gathering) + link.copy_time(Direction::H2d, Bytes(bytes.round() as u64))
}

/// The device reads sectors from host memory. They keep the link as busy as a large copy does
/// ("warps in a GPU should generate maximally aligned, 128B transactions" for that, section 3.2).
/// What headers of transactions cost beside is not printed and not counted.
pub(super) fn zero_copy(link: &Link, sectors: f64) -> Nanos {
    if sectors == 0.0 {
        return Nanos::ZERO;
    }
    let bandwidth = link.h2d.at(Bytes(u64::MAX));
    link.latency + nanos(sectors * SECTOR_BYTES as f64 * 1e9 / bandwidth)
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
    fn sectors_depend_on_where_rows_begin() {
        // Aligned rows.
        assert_eq!(mean_sectors(256, 256), 8.0);
        assert_eq!(mean_sectors(256, 129), 5.0);
        // Every other row begins in the middle of a sector.
        assert_eq!(mean_sectors(48, 32), 1.5);
        // Rows that begin at every byte: b bytes touch (b + 31) / 32 sectors on average.
        assert_eq!(mean_sectors(1, 32), 1.0 + 31.0 / 32.0);
        assert_eq!(mean_sectors(1, 0), 0.0);
        // A read that does not begin with a sector touches a fifth one.
        assert_eq!(mean_unaligned_sectors(512, 512), 16.0);
        assert_eq!(mean_unaligned_sectors(48, 256), 9.0);
        assert_eq!(mean_sectors(48, 256), 8.5);
    }

    #[test]
    fn rows_are_decompressed_as_figure_7_has_it() {
        for (row_bytes, share) in FIGURE_7 {
            let alone = mean_sectors(row_bytes, row_bytes / 10) * 32.0 / 25.0;
            assert!((alone / decompression(row_bytes) - share).abs() < 1e-12, "{row_bytes}");
        }
        assert_eq!(decompression(128), decompression(256) / 2.0);
        assert!(decompression(8192) > 1.8 * decompression(4096));
    }

    #[test]
    fn each_way_costs_what_its_equation_says() {
        let d2h = Bandwidth::constant(BytesPerSec(1));
        let link = Link::constant("test", BytesPerSec(1_000_000_000));
        let link = Link { d2h, latency: Nanos(1000), ..link };
        assert_eq!(one_by_one(&link, 10.0, 500), Nanos(10 * 1500));
        assert_eq!(bulk(&link, 5000.0, BytesPerSec(u64::MAX)), Nanos(6000));
        assert_eq!(bulk(&link, 5000.0, BytesPerSec(500_000_000)), Nanos(16_000));
        assert_eq!(zero_copy(&link, 40.0), Nanos(1000 + 40 * 32));
        assert_eq!(zero_copy(&link, 0.0), Nanos(0));
        assert_eq!(bulk(&link, 0.0, GATHER), Nanos(0));
    }
}

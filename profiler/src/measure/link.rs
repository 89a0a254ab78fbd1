//! The curve of a link: how long copies of many sizes take, alone and against each other.

use schema::{Bandwidth, BandwidthPoint, Bytes, BytesPerSec, Direction, Link, Nanos};

use super::median;
use crate::error::Result;

/// What copies over a link, to be timed.
pub trait Copies {
    /// Time of one copy of `bytes` while the other direction is idle.
    ///
    /// # Errors
    /// Whatever kept the copy from being made.
    fn alone(&mut self, direction: Direction, bytes: Bytes) -> Result<Nanos>;

    /// Time until a copy of `bytes` in each direction has ended, both started at once.
    ///
    /// # Errors
    /// Whatever kept a copy from being made.
    fn both(&mut self, bytes: Bytes) -> Result<Nanos>;

    /// Time of one copy to or from memory that is not pinned, where that is another.
    ///
    /// # Errors
    /// Whatever kept the copy from being made.
    fn pageable(&mut self, _: Direction, _: Bytes) -> Result<Option<Nanos>> {
        Ok(None)
    }
}

impl Copies for runtime::device::host::LinkProbe {
    fn alone(&mut self, direction: Direction, bytes: Bytes) -> Result<Nanos> {
        Ok(Self::alone(self, direction, bytes))
    }

    fn both(&mut self, bytes: Bytes) -> Result<Nanos> {
        Ok(Self::both(self, bytes)?)
    }
}

impl Copies for runtime::cuda::CudaProbe {
    fn alone(&mut self, direction: Direction, bytes: Bytes) -> Result<Nanos> {
        Ok(Self::alone(self, direction, bytes)?)
    }

    fn both(&mut self, bytes: Bytes) -> Result<Nanos> {
        Ok(Self::both(self, bytes)?)
    }

    fn pageable(&mut self, direction: Direction, bytes: Bytes) -> Result<Option<Nanos>> {
        Ok(Some(Self::pageable(self, direction, bytes)?))
    }
}

const DIRECTIONS: [Direction; 2] = [Direction::D2h, Direction::H2d];

/// A link's curve, and how far its measurements scatter.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkCurve {
    /// The link, as machines state it.
    pub link: Link,
    /// Each copy that was timed.
    pub timed: Vec<Timed>,
}

/// Copies of one size in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timed {
    /// The direction.
    pub direction: Direction,
    /// The size.
    pub bytes: Bytes,
    /// The median of the repeats, while the other direction was idle.
    pub measured: Nanos,
    /// The same for memory that is not pinned, where that is another.
    pub pageable: Option<Nanos>,
    /// The same until both of a copy in each direction have ended, started at once.
    pub both: Nanos,
}

/// Times copies of `sizes` (ascending, at least two) in each direction alone and in both at once,
/// `repeats` times each.
///
/// Latency is what remains of the time of the smallest copy when the bandwidth between the two
/// smallest sizes is taken off; a size's bandwidth is what its median time less the latency gives.
/// How much directions slow each other is that of the largest size.
///
/// # Errors
/// Those of `copies`.
pub fn measure_link(
    copies: &mut impl Copies,
    name: &str,
    sizes: &[Bytes],
    repeats: usize,
    mut progress: impl FnMut(),
) -> Result<LinkCurve> {
    let mut timed = Vec::new();
    for bytes in sizes {
        let both = median_of(repeats, || copies.both(*bytes))?;
        for direction in DIRECTIONS {
            let measured = median_of(repeats, || copies.alone(direction, *bytes))?;
            let mut pageable = Vec::new();
            for _ in 0..repeats.max(1) {
                pageable.extend(copies.pageable(direction, *bytes)?);
            }
            let pageable = median(pageable);
            timed.push(Timed { direction, bytes: *bytes, measured, pageable, both });
            progress();
        }
    }
    // As tables have them: one direction after the other.
    timed.sort_by_key(|timed| timed.direction as usize);
    let of = |direction| timed.iter().filter(move |timed| timed.direction == direction);
    let latency = DIRECTIONS.map(|direction| latency(of(direction))).into_iter().min();
    let latency = latency.unwrap_or_default();
    let bandwidth = |direction| Bandwidth {
        pinned: of(direction).map(|timed| point(timed.bytes, timed.measured, latency)).collect(),
        pageable: of(direction)
            .filter_map(|timed| Some(point(timed.bytes, timed.pageable?, latency)))
            .collect(),
    };
    let largest = DIRECTIONS.map(|direction| of(direction).next_back().copied());
    let slower = largest.iter().flatten().map(|timed| timed.measured).max().unwrap_or_default();
    let together = largest.iter().flatten().map(|timed| timed.both).max().unwrap_or_default();
    let share = slower.ratio(together).clamp(0.1, 1.0);
    let link = Link {
        name: name.into(),
        d2h: bandwidth(Direction::D2h),
        h2d: bandwidth(Direction::H2d),
        latency,
        // What timing scatters by is no disturbance.
        both_directions: if share > 0.97 { 1.0 } else { (share * 1000.0).round() / 1000.0 },
        beside_copy: 1.0,
    };
    Ok(LinkCurve { link, timed })
}

fn median_of(repeats: usize, mut time: impl FnMut() -> Result<Nanos>) -> Result<Nanos> {
    let times = (0..repeats.max(1)).map(|_| time()).collect::<Result<Vec<_>>>()?;
    Ok(median(times).unwrap_or_default())
}

/// The time of a copy of nothing, on the line through the two smallest copies.
fn latency<'a>(mut timed: impl Iterator<Item = &'a Timed>) -> Nanos {
    let (Some(small), Some(large)) = (timed.next(), timed.next()) else { return Nanos::ZERO };
    let (short, long) = (small.measured, large.measured);
    let (small, large) = (small.bytes, large.bytes);
    let slope =
        long.saturating_sub(short).0 as f64 / (large.0.saturating_sub(small.0)).max(1) as f64;
    short.saturating_sub(Nanos((slope * small.0 as f64).round() as u64))
}

fn point(bytes: Bytes, time: Nanos, latency: Nanos) -> BandwidthPoint {
    let moving = time.saturating_sub(latency).0.max(1);
    // What a machine may state; a copy that took no time would be faster than that.
    let bytes_per_sec = (bytes.0 as f64 * 1e9 / moving as f64).round().clamp(1.0, 1e15);
    BandwidthPoint { bytes, bytes_per_sec: BytesPerSec(bytes_per_sec as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link that takes exactly what one states.
    struct Stated(Link);

    impl Copies for Stated {
        fn alone(&mut self, direction: Direction, bytes: Bytes) -> Result<Nanos> {
            Ok(self.0.copy_time(direction, bytes))
        }

        fn both(&mut self, bytes: Bytes) -> Result<Nanos> {
            let alone = self.0.copy_time(Direction::D2h, bytes).0 as f64;
            Ok(Nanos((alone / self.0.both_directions) as u64))
        }
    }

    const SIZES: [Bytes; 4] = [Bytes(4 << 10), Bytes(64 << 10), Bytes(1 << 20), Bytes(16 << 20)];

    #[test]
    fn a_link_that_keeps_to_a_line_is_found_again() {
        let h2d = Bandwidth::constant(BytesPerSec(2_000_000_000));
        let link = Link::constant("line", BytesPerSec(1_000_000_000));
        let link = Link { h2d, latency: Nanos(10_000), both_directions: 0.5, ..link };
        let curve = measure_link(&mut Stated(link.clone()), "found", &SIZES, 3, || ());
        let LinkCurve { link: found, timed } = curve.expect("it never fails");
        assert_eq!((found.latency, found.both_directions), (link.latency, 0.5));
        for (found, stated) in [(&found.d2h, &link.d2h), (&found.h2d, &link.h2d)] {
            for size in SIZES {
                let share = found.at(size) / stated.at(size);
                assert!((share - 1.0).abs() < 1e-3, "{share} at {size}");
            }
        }
        assert_eq!(timed.len(), 2 * SIZES.len());
        let stated = |timed: &Timed| link.copy_time(timed.direction, timed.bytes);
        assert!(timed.iter().all(|timed| timed.measured == stated(timed)));
    }

    #[test]
    fn copies_that_take_no_time_are_no_infinite_bandwidth() {
        let free = Link::constant("free", BytesPerSec(1_000_000_000_000_000));
        let curve = measure_link(&mut Stated(free), "found", &SIZES, 1, || ());
        let LinkCurve { link, .. } = curve.expect("it never fails");
        let points = link.d2h.pinned.iter().chain(&link.h2d.pinned);
        let mut speeds = points.map(|point| point.bytes_per_sec.0);
        assert!(speeds.all(|speed| (1..=1_000_000_000_000_000).contains(&speed)));
    }
}

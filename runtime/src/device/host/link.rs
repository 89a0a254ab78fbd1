//! Copies that take as long as over a link.
//!
//! A copy is made in pieces, each when the link would have got so far, and ends when the link would
//! be done: its latency and its bytes over the bandwidth, more slowly while the other direction is
//! busy. Waiting is sleeping, but for the last moments, which are spun away.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use schema::{Bytes, Direction, Link};

use super::gate::{Aborted, Gate};

/// What is copied at once.
const PIECE: usize = 256 << 10;
/// How far pieces may be ahead of the link: less than this is not worth a sleep.
const AHEAD: u64 = 200_000;
/// What sleeping may take too long.
const SPIN: u64 = 80_000;
/// A sleep after which a lane looks whether it is asked to stop.
const LONGEST_SLEEP: u64 = 20_000_000;
/// What a copy may make up for that the one before it took too long.
const CREDIT: u64 = 200_000;

pub(super) struct Throttle {
    link: Link,
    origin: Instant,
    directions: [Mutex<Usage>; 2],
}

#[derive(Debug, Default, Clone, Copy)]
struct Usage {
    /// Copies that are under way; codecs that move raw data are in no lane's order.
    copies: u32,
    since: u64,
    total: u64,
    /// When the last copy should have ended.
    free_from: u64,
}

impl Usage {
    fn begin(&mut self, now: u64) {
        if self.copies == 0 {
            self.since = now;
        }
        self.copies += 1;
    }

    fn end(&mut self, now: u64) {
        self.copies -= 1;
        if self.copies == 0 {
            self.total += now.saturating_sub(self.since);
        }
    }

    /// For how long the direction has been busy until now.
    fn busy(&self, now: u64) -> u64 {
        let current = if self.copies > 0 { now.saturating_sub(self.since) } else { 0 };
        self.total + current
    }
}

/// How far the link has got with a copy, in nanoseconds of the link alone.
#[derive(Debug, Clone, Copy)]
struct Progress {
    done: u64,
    at: u64,
    other_busy: u64,
    /// Share of time that is lost while the other direction is busy.
    lost: f64,
}

impl Progress {
    /// Counts the time until `now`, at which the other direction has been busy for so long in all.
    fn advance(&mut self, now: u64, other_busy: u64) {
        let passed = now.saturating_sub(self.at);
        let beside = other_busy.saturating_sub(self.other_busy).min(passed);
        self.done += passed - (beside as f64 * self.lost).round() as u64;
        (self.at, self.other_busy) = (self.at.max(now), self.other_busy.max(other_busy));
    }
}

impl Throttle {
    pub fn new(link: Link) -> Self {
        Self { link, origin: Instant::now(), directions: Default::default() }
    }

    /// Copies `from` to the front of `to`. `waited`: the copy could not start when its lane was
    /// free, so that it makes up for nothing.
    pub fn copy(
        &self,
        gate: &Gate,
        direction: Direction,
        waited: bool,
        from: &[u8],
        to: &mut [u8],
    ) -> Result<(), Aborted> {
        if from.is_empty() {
            return Ok(());
        }
        let whole = self.link.copy_time(direction, Bytes(from.len() as u64));
        let latency = self.link.latency.min(whole);
        let mut transfer = self.begin(direction, waited);
        let mut left = whole.saturating_sub(latency).0;
        let pieces = from.len().div_ceil(PIECE) as u64;
        for (number, (from, to)) in (0..pieces).zip(from.chunks(PIECE).zip(to.chunks_mut(PIECE))) {
            to[..from.len()].copy_from_slice(from);
            left -= left / (pieces - number);
            transfer.wait_for(gate, whole.0 - left, AHEAD)?;
        }
        transfer.wait_for(gate, whole.0, 0)?;
        transfer.keep_time(whole.0);
        Ok(())
    }

    fn begin(&self, direction: Direction, waited: bool) -> Transfer<'_> {
        let now = self.now();
        let other_busy = self.usage(other(direction)).busy(now);
        let mut usage = self.usage(direction);
        // What the last copy took too long, this one need not take.
        let late = if waited { 0 } else { now.saturating_sub(usage.free_from).min(CREDIT) };
        usage.begin(now);
        let lost = 1.0 - self.link.both_directions.clamp(0.0, 1.0);
        let progress = Progress { done: late, at: now, other_busy, lost };
        Transfer { throttle: self, direction, progress }
    }

    fn usage(&self, direction: Direction) -> MutexGuard<'_, Usage> {
        let usage = &self.directions[direction as usize];
        usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }
}

fn other(direction: Direction) -> Direction {
    match direction {
        Direction::D2h => Direction::H2d,
        Direction::H2d => Direction::D2h,
    }
}

struct Transfer<'t> {
    throttle: &'t Throttle,
    direction: Direction,
    progress: Progress,
}

impl Transfer<'_> {
    /// Waits until the link has got so far, or is so little behind.
    fn wait_for(&mut self, gate: &Gate, wanted: u64, behind: u64) -> Result<(), Aborted> {
        loop {
            let now = self.throttle.now();
            let other_busy = self.throttle.usage(other(self.direction)).busy(now);
            self.progress.advance(now, other_busy);
            let left = wanted.saturating_sub(self.progress.done);
            if left <= behind {
                return Ok(());
            }
            gate.check()?;
            if left > SPIN {
                // At the earliest it is there after as long again; if it is slower, once more.
                thread::sleep(Duration::from_nanos((left - SPIN).min(LONGEST_SLEEP)));
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Takes note of when the copy should have ended, for the next one.
    fn keep_time(&self, whole: u64) {
        let late = self.progress.done.saturating_sub(whole);
        self.throttle.usage(self.direction).free_from = self.progress.at.saturating_sub(late);
    }
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        let now = self.throttle.now();
        self.throttle.usage(self.direction).end(now);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use schema::{BytesPerSec, Nanos};

    use super::*;

    /// A link of so many bytes per second either way.
    pub fn link(bytes_per_sec: u64) -> Link {
        let link = Link::constant("test", BytesPerSec(bytes_per_sec));
        Link { latency: Nanos(100), both_directions: 0.5, ..link }
    }

    #[test]
    fn a_direction_counts_the_time_in_which_it_is_busy() {
        let mut usage = Usage::default();
        usage.begin(10);
        assert_eq!(usage.busy(15), 5);
        usage.begin(20);
        usage.end(30);
        assert_eq!(usage.busy(35), 25, "one of two goes on");
        usage.end(40);
        assert_eq!(usage.busy(100), 30);
        usage.begin(100);
        assert_eq!(usage.busy(101), 31);
    }

    #[test]
    fn a_copy_gets_on_more_slowly_while_the_other_direction_is_busy() {
        let mut progress = Progress { done: 0, at: 100, other_busy: 7, lost: 0.25 };
        progress.advance(200, 7);
        assert_eq!(progress.done, 100, "alone");
        progress.advance(300, 107);
        assert_eq!(progress.done, 175, "beside the other all the time");
        progress.advance(400, 127);
        assert_eq!(progress.done, 270, "beside it for a fifth");
    }

    #[test]
    fn a_copy_arrives_whole_whatever_its_size() {
        let throttle = Throttle::new(link(50_000_000_000));
        let (stop, mut to) = (crate::device::Stop::default(), vec![0; 3 * PIECE]);
        let gate = Gate::new(&stop);
        for bytes in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE] {
            let from: Vec<u8> = (0..bytes).map(|n| (n % 251 + bytes % 7) as u8).collect();
            to.fill(0);
            let copied = throttle.copy(&gate, Direction::H2d, false, &from, &mut to);
            assert_eq!(copied, Ok(()));
            assert!(to[..bytes] == from[..] && to[bytes..].iter().all(|byte| *byte == 0));
        }
        assert_eq!(throttle.usage(Direction::H2d).copies, 0);
    }

    #[test]
    fn who_is_asked_to_stop_waits_for_no_link() {
        let (throttle, stop) = (Throttle::new(link(1)), crate::device::Stop::default());
        stop.request();
        let copied = throttle.copy(&Gate::new(&stop), Direction::D2h, false, &[1; 9], &mut [0; 9]);
        assert_eq!(copied, Err(Aborted));
    }
}

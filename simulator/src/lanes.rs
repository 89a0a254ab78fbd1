//! What each lane is doing now, and when it will be done.

use schema::Lane;

const IDLE: u64 = u64::MAX;
/// A copy's work is counted in thousandths of a nanosecond, so that a speed in thousandths
/// divides it without a fraction.
const FULL_SPEED: u64 = 1000;

/// The lanes at one moment. While both copy lanes are busy each runs at a stated share of its
/// speed.
#[derive(Debug, Clone)]
pub(crate) struct Lanes {
    end: [u64; Lane::COUNT],
    /// Work left at `since`, where the directions disturb each other.
    left: [u64; Lane::COUNT],
    since: u64,
    both_directions_permille: u64,
}

impl Lanes {
    pub fn new(both_directions_permille: u16) -> Self {
        Self {
            end: [IDLE; Lane::COUNT],
            left: [0; Lane::COUNT],
            since: 0,
            both_directions_permille: u64::from(both_directions_permille),
        }
    }

    pub fn is_idle(&self, lane: Lane) -> bool {
        self.end[lane.index()] == IDLE
    }

    /// The lane that ends next and when: the first in lane order among equals. None: all idle.
    pub fn next_end(&self) -> Option<(u64, Lane)> {
        let [compute, d2h, h2d] = self.end;
        let (end, lane) = if compute <= d2h && compute <= h2d {
            (compute, Lane::Compute)
        } else if d2h <= h2d {
            (d2h, Lane::D2h)
        } else {
            (h2d, Lane::H2d)
        };
        (end != IDLE).then_some((end, lane))
    }

    pub fn start(&mut self, lane: Lane, now: u64, duration: u64) {
        if lane == Lane::Compute || self.both_directions_permille == FULL_SPEED {
            self.end[lane.index()] = now + duration;
            return;
        }
        self.advance(now);
        self.left[lane.index()] = duration * FULL_SPEED;
        self.end[lane.index()] = now;
        self.set_ends(now);
    }

    pub fn finish(&mut self, lane: Lane, now: u64) {
        if lane == Lane::Compute || self.both_directions_permille == FULL_SPEED {
            self.end[lane.index()] = IDLE;
            return;
        }
        self.advance(now);
        self.end[lane.index()] = IDLE;
        self.set_ends(now);
    }

    fn copy_speed(&self) -> u64 {
        if self.is_idle(Lane::D2h) || self.is_idle(Lane::H2d) {
            FULL_SPEED
        } else {
            self.both_directions_permille
        }
    }

    /// Takes off what the copies have done since the last change.
    fn advance(&mut self, now: u64) {
        let done = (now - self.since) * self.copy_speed();
        for lane in [Lane::D2h, Lane::H2d] {
            self.left[lane.index()] = self.left[lane.index()].saturating_sub(done);
        }
        self.since = now;
    }

    fn set_ends(&mut self, now: u64) {
        let speed = self.copy_speed();
        for lane in [Lane::D2h, Lane::H2d] {
            if !self.is_idle(lane) {
                self.end[lane.index()] = now + self.left[lane.index()].div_ceil(speed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_slow_each_other_while_both_run() {
        let mut lanes = Lanes::new(500);
        lanes.start(Lane::D2h, 0, 100);
        lanes.start(Lane::H2d, 50, 100);
        // 50 of the first copy are done; the other 50 run at half speed.
        assert_eq!(lanes.next_end(), Some((150, Lane::D2h)));
        lanes.finish(Lane::D2h, 150);
        // The second has done 50 at half speed and goes on alone.
        assert_eq!(lanes.next_end(), Some((200, Lane::H2d)));
    }

    #[test]
    fn at_full_speed_copies_do_not_disturb_each_other() {
        let mut lanes = Lanes::new(1000);
        lanes.start(Lane::D2h, 0, 100);
        lanes.start(Lane::H2d, 50, 100);
        assert_eq!(lanes.next_end(), Some((100, Lane::D2h)));
        lanes.finish(Lane::D2h, 100);
        assert_eq!(lanes.next_end(), Some((150, Lane::H2d)));
    }
}

//! What each lane is doing now, and when it will be done.

use schema::Lane;

const IDLE: u64 = u64::MAX;
/// Work is counted in thousandths of a nanosecond, so that a speed in thousandths divides it
/// without a fraction.
const FULL_SPEED: u64 = 1000;

/// How fast lanes are while others are busy, in thousandths of their speed alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Speeds {
    /// A copy's, while there is one in the other direction.
    pub both_directions_permille: u16,
    /// Compute's, while a codec runs on a lane of its own.
    pub beside_codec_permille: u16,
    /// Compute's, while a copy runs; with a codec beside it, too, it is slowed by both.
    pub beside_copy_permille: u16,
}

impl Speeds {
    /// Lanes that do not disturb each other.
    pub const ALONE: Self = Self {
        both_directions_permille: FULL_SPEED as u16,
        beside_codec_permille: FULL_SPEED as u16,
        beside_copy_permille: FULL_SPEED as u16,
    };
}

/// The lanes at one moment. Lanes come in pairs of which one may slow the other while both are
/// busy: copies out and in, compute and codecs. Copies may slow compute besides.
#[derive(Debug, Clone)]
pub(crate) struct Lanes {
    end: [u64; Lane::COUNT],
    /// Work left at `since`, of lanes whose pair is disturbed.
    left: [u64; Lane::COUNT],
    since: [u64; Lane::COUNT],
    /// Speed of each lane while its other is busy.
    beside: [u64; Lane::COUNT],
    /// Speed of compute while there is a copy.
    beside_copy: u64,
    /// Whether a lane slows another, or is slowed by it, or its other does or is.
    disturbed: [bool; Lane::COUNT],
}

/// The lane that a lane shares something with; itself, where it does with none.
fn other(lane: Lane) -> Lane {
    match lane {
        Lane::Host | Lane::Net => lane,
        Lane::Compute => Lane::Codec,
        Lane::Codec => Lane::Compute,
        Lane::D2h => Lane::H2d,
        Lane::H2d => Lane::D2h,
    }
}

impl Lanes {
    pub fn new(speeds: Speeds) -> Self {
        let copies = u64::from(speeds.both_directions_permille);
        let mut beside = [FULL_SPEED; Lane::COUNT];
        beside[Lane::Compute.index()] = u64::from(speeds.beside_codec_permille);
        beside[Lane::D2h.index()] = copies;
        beside[Lane::H2d.index()] = copies;
        let slowed = |lane: Lane| beside[lane.index()] < FULL_SPEED;
        let beside_copy = u64::from(speeds.beside_copy_permille);
        Self {
            end: [IDLE; Lane::COUNT],
            left: [0; Lane::COUNT],
            since: [0; Lane::COUNT],
            disturbed: Lane::ALL
                .map(|lane| slowed(lane) || slowed(other(lane)) || beside_copy < FULL_SPEED),
            beside,
            beside_copy,
        }
    }

    pub fn is_idle(&self, lane: Lane) -> bool {
        self.end[lane.index()] == IDLE
    }

    /// The lane that ends next and when: the first in lane order among equals. None: all idle.
    pub fn next_end(&self) -> Option<(u64, Lane)> {
        let [compute, d2h, h2d, codec, host, net] = self.end;
        let copy = if d2h <= h2d { (d2h, Lane::D2h) } else { (h2d, Lane::H2d) };
        let first = if compute <= copy.0 { (compute, Lane::Compute) } else { copy };
        let first = if first.0 <= codec { first } else { (codec, Lane::Codec) };
        let first = if first.0 <= host { first } else { (host, Lane::Host) };
        let (end, lane) = if first.0 <= net { first } else { (net, Lane::Net) };
        (end != IDLE).then_some((end, lane))
    }

    pub fn start(&mut self, lane: Lane, now: u64, duration: u64) {
        if !self.disturbed[lane.index()] {
            self.end[lane.index()] = now + duration;
            return;
        }
        self.advance_all(lane, now);
        // Only times that no device reaches saturate.
        self.left[lane.index()] = duration.saturating_mul(FULL_SPEED);
        self.end[lane.index()] = now;
        self.set_all_ends(lane, now);
    }

    pub fn finish(&mut self, lane: Lane, now: u64) {
        if !self.disturbed[lane.index()] {
            self.end[lane.index()] = IDLE;
            return;
        }
        self.advance_all(lane, now);
        self.end[lane.index()] = IDLE;
        self.set_all_ends(lane, now);
    }

    fn speed(&self, lane: Lane) -> u64 {
        let idle = self.is_idle(other(lane));
        let speed = if idle { FULL_SPEED } else { self.beside[lane.index()] };
        let copies = || !self.is_idle(Lane::D2h) || !self.is_idle(Lane::H2d);
        match lane {
            Lane::Compute if self.beside_copy < FULL_SPEED && copies() => {
                speed * self.beside_copy / FULL_SPEED
            }
            _ => speed,
        }
    }

    /// Whether compute's speed changes with what a lane does that is not of its pair.
    fn slows_compute(&self, lane: Lane) -> bool {
        self.beside_copy < FULL_SPEED && matches!(lane, Lane::D2h | Lane::H2d)
    }

    /// Before a lane starts or ends: takes off what all have done whose speed that may change.
    fn advance_all(&mut self, lane: Lane, now: u64) {
        self.advance(lane, now);
        if self.slows_compute(lane) {
            self.advance(Lane::Compute, now);
        }
    }

    /// After a lane has started or ended: says when these end now.
    fn set_all_ends(&mut self, lane: Lane, now: u64) {
        self.set_ends(lane, now);
        if self.slows_compute(lane) {
            self.set_ends(Lane::Compute, now);
        }
    }

    /// Takes off what a lane and its other have done since the last change.
    fn advance(&mut self, lane: Lane, now: u64) {
        let speeds = [lane, other(lane)].map(|lane| (lane.index(), self.speed(lane)));
        for (lane, speed) in speeds {
            let done = (now - self.since[lane]).saturating_mul(speed);
            self.left[lane] = self.left[lane].saturating_sub(done);
            self.since[lane] = now;
        }
    }

    fn set_ends(&mut self, lane: Lane, now: u64) {
        for lane in [lane, other(lane)] {
            if !self.is_idle(lane) {
                let left = self.left[lane.index()].div_ceil(self.speed(lane));
                self.end[lane.index()] = now + left;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When actions end that start on these lanes at these moments, and would take so long alone.
    fn ends(speeds: Speeds, starts: &[(Lane, u64, u64)]) -> Vec<(u64, Lane)> {
        let (mut lanes, mut starts) = (Lanes::new(speeds), starts.iter().peekable());
        let mut ends = Vec::new();
        loop {
            let next = lanes.next_end();
            let sooner = |start: &&(Lane, u64, u64)| next.is_none_or(|(end, _)| start.1 < end);
            if let Some(&(lane, at, length)) = starts.next_if(sooner) {
                lanes.start(lane, at, length);
            } else if let Some((at, lane)) = next {
                lanes.finish(lane, at);
                ends.push((at, lane));
            } else {
                return ends;
            }
        }
    }

    #[test]
    fn lanes_slow_each_other_as_the_machine_says() {
        use Lane::{Codec, Compute, D2h, H2d};
        let copies = [(D2h, 0, 100), (H2d, 50, 100)];
        // 50 of the first copy are done; the other 50, and as much of the second, at half speed.
        let both = Speeds { both_directions_permille: 500, ..Speeds::ALONE };
        assert_eq!(ends(both, &copies), [(150, D2h), (200, H2d)]);
        assert_eq!(ends(Speeds::ALONE, &copies), [(100, D2h), (150, H2d)]);
        // Codecs take the time that they take alone, and copies have nothing to do with them. Of
        // compute 20 are done alone and 50 at six tenths of its speed: 50 of 100 are left.
        let codec = Speeds { beside_codec_permille: 600, ..Speeds::ALONE };
        let beside = [(Compute, 0, 100), (Codec, 20, 50), (D2h, 70, 10)];
        assert_eq!(ends(codec, &beside), [(70, Codec), (80, D2h), (120, Compute)]);
        // 20 of compute alone, 60 at half its speed, whether beside one copy or two: 50 are left.
        let copy = Speeds { beside_copy_permille: 500, ..Speeds::ALONE };
        let beside = [(Compute, 0, 100), (D2h, 20, 40), (H2d, 40, 40)];
        assert_eq!(ends(copy, &beside), [(60, D2h), (80, H2d), (130, Compute)]);
        // The copy ends with 12 of compute done, the codec with 16 more.
        let all = Speeds { beside_codec_permille: 800, beside_copy_permille: 500, ..both };
        let beside = [(Codec, 0, 50), (Compute, 0, 100), (H2d, 0, 30)];
        assert_eq!(ends(all, &beside), [(30, H2d), (50, Codec), (122, Compute)]);
    }
}

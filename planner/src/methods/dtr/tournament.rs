//! The largest of many values that grow.

/// Values that each grow linearly from zero at a moment of their own. A kinetic tournament (Basch,
/// Guibas and Hershberger, 1997): a tree of which each node knows the largest value of its part,
/// and until when it stays the largest. The moment asked about must not go back.
#[derive(Debug, Default)]
pub(super) struct Tournament {
    leaves: usize,
    lines: Vec<Option<Line>>,
    nodes: Vec<Match>,
    /// Nodes that a search has still to look at.
    open: Vec<usize>,
    /// Matches that were decided.
    #[cfg(test)]
    pub decided: usize,
}

#[derive(Debug, Clone, Copy)]
struct Line {
    /// By how much it grows in a moment; above zero.
    speed: f64,
    /// The last moment at which it is zero.
    from: u64,
}

#[derive(Debug, Clone, Copy)]
struct Match {
    /// Whose value is the largest; nobody's where there is none.
    winner: u32,
    /// The first moment at which this may be otherwise, here or further down.
    until: u64,
}

const NOBODY: Match = Match { winner: u32::MAX, until: u64::MAX };

/// Values this much smaller than the largest may be as large, but for rounding.
const CLOSE: f64 = 1e-9;

impl Tournament {
    /// Room for this many players, none of which takes part yet.
    pub fn new(players: usize) -> Self {
        let leaves = players.next_power_of_two();
        Self {
            leaves,
            lines: vec![None; players],
            nodes: vec![NOBODY; 2 * leaves],
            open: Vec::new(),
            #[cfg(test)]
            decided: 0,
        }
    }

    /// A player takes part with a value that grows with this speed and is zero at `from`, or, with
    /// none, takes part no more.
    pub fn set(&mut self, player: u32, line: Option<(f64, u64)>, now: u64) {
        if line.is_none() && self.lines[player as usize].is_none() {
            return;
        }
        self.lines[player as usize] = line.map(|(speed, from)| Line { speed, from });
        let mut node = self.leaves + player as usize;
        let winner = if line.is_some() { player } else { u32::MAX };
        self.nodes[node] = Match { winner, until: u64::MAX };
        while node > 1 {
            node /= 2;
            self.decide(node, now);
        }
    }

    /// Those whose value is the largest now, or so close to it that rounding may hide which is
    /// larger. None, where no value is above zero.
    pub fn largest(&mut self, now: u64, mut found: impl FnMut(u32)) {
        self.advance(1, now);
        let largest = self.value(self.nodes[1].winner, now);
        if largest <= 0.0 {
            return;
        }
        let least = largest * (1.0 - CLOSE);
        self.open.push(1);
        while let Some(node) = self.open.pop() {
            let winner = self.nodes[node].winner;
            if self.value(winner, now) < least {
                continue;
            }
            if node >= self.leaves {
                found(winner);
            } else {
                self.open.extend([2 * node, 2 * node + 1]);
            }
        }
    }

    fn value(&self, player: u32, now: u64) -> f64 {
        match self.lines.get(player as usize) {
            Some(Some(line)) => line.speed * (now - line.from) as f64,
            _ => -1.0,
        }
    }

    /// Decides all matches anew whose time is over.
    fn advance(&mut self, node: usize, now: u64) {
        if self.nodes[node].until > now {
            return;
        }
        self.advance(2 * node, now);
        self.advance(2 * node + 1, now);
        self.decide(node, now);
    }

    fn decide(&mut self, node: usize, now: u64) {
        #[cfg(test)]
        {
            self.decided += 1;
        }
        let [left, right] = [self.nodes[2 * node], self.nodes[2 * node + 1]];
        let values = [left, right].map(|player| self.value(player.winner, now));
        let speed = |player: Match| match self.lines.get(player.winner as usize) {
            Some(Some(line)) => line.speed,
            _ => 0.0,
        };
        let speeds = [left, right].map(speed);
        let right_wins = (values[1], speeds[1]) > (values[0], speeds[0]);
        let (w, l) = if right_wins { (1, 0) } else { (0, 1) };
        let mut until = left.until.min(right.until);
        if speeds[l] > speeds[w] {
            let overtaken = (values[w] - values[l]) / (speeds[l] - speeds[w]);
            // Moments are whole: what is so now is so until the next.
            until = until.min(now.saturating_add((overtaken as u64).max(1)));
        }
        self.nodes[node] = Match { winner: [left, right][w].winner, until };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split_mix::SplitMix;

    /// Twice as many players, changes and searches take about twice as many matches, not four
    /// times.
    #[test]
    fn matches_grow_little_more_than_linearly() {
        let matches = |players: u32| {
            let mut random = SplitMix::new(5);
            let mut tournament = Tournament::new(players as usize);
            for now in 0..u64::from(players) {
                let player = random.below(u64::from(players)) as u32;
                tournament.set(player, Some(((1 + random.below(50)) as f64, now)), now);
                tournament.largest(now, |_| ());
            }
            tournament.decided
        };
        let (once, twice) = (matches(2000), matches(4000));
        assert!(2 * twice < 5 * once, "{once} and {twice}");
    }
}

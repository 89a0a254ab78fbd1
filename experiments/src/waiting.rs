//! What whoever waits is told: which step it is, how far that has come, and how long it has been.
//!
//! *Invariant: it knows no clock. Who shows it says what time it is.*

use std::time::Duration;

use planner::Progress;
use schema::Nanos;

/// How often a line is written where there is no terminal.
const EVERY: Duration = Duration::from_secs(10);

/// A search, or several one after another.
#[derive(Debug, Default)]
pub struct Waiting {
    name: String,
    step: String,
    /// The furthest of each phase; told last, last.
    phases: Vec<Progress>,
    best: Option<Nanos>,
    lines: u32,
}

impl Waiting {
    /// For what has this name.
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// The step that begins: a batch, a point.
    pub fn step(&mut self, name: &str) {
        *self = Self { step: name.into(), lines: self.lines, ..Self::new(&self.name) };
    }

    /// How far the step has come. Threads tell of its phases in any order, so that of each the furthest counts,
    /// and the latest end.
    pub fn proceed(&mut self, told: Progress) {
        let same = self.phases.iter().position(|before| before.phase == told.phase);
        let before = same.map_or(0, |index| self.phases.remove(index).done);
        self.phases.push(Progress { done: told.done.max(before).min(told.of), ..told });
    }

    /// A plan that could be had now.
    pub fn found(&mut self, iteration: Nanos) {
        self.best = Some(iteration);
    }

    /// How far the phase has come, and its end, where it has one.
    pub fn position(&self) -> Option<(u64, u64)> {
        let told = self.phases.last().filter(|progress| progress.of > 0);
        told.map(|progress| (progress.done, progress.of))
    }

    /// What is done: the method, the step, the phase, and the best plan so far.
    pub fn what(&self) -> String {
        let best = self.best.map(|best| format!("{best} so far"));
        let phase = self.phases.last().map(|progress| progress.phase.to_string());
        let parts = [Some(self.name.clone()), Some(self.step.clone()), phase, best];
        let parts: Vec<String> =
            parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        parts.join(", ")
    }

    /// A line, where the time for another has come since the work began.
    pub fn line(&mut self, since: Duration) -> Option<String> {
        if since < EVERY * (self.lines + 1) {
            return None;
        }
        let seconds = since.as_secs();
        self.lines = (seconds / EVERY.as_secs()) as u32;
        let position = self.position().map(|(done, of)| format!(", {done} of {of}"));
        Some(format!("{}{} ({seconds} s)\n", self.what(), position.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(phase: &'static str, done: u64, of: u64) -> Progress {
        Progress { phase, done, of }
    }

    #[test]
    fn the_end_is_known_and_nothing_goes_backward() {
        let mut waiting = Waiting::new("tide");
        assert_eq!(waiting.position(), None);
        waiting.proceed(told("looking around", 0, 0));
        assert_eq!(waiting.position(), None, "a bar of nothing is full");
        // Two threads, one of which is late, and a search that begins anew.
        for (phase, done, shown) in [
            ("sequences", 5, 5),
            ("bound", 3, 3),
            ("sequences", 4, 5),
            ("bound", 2, 3),
            ("sequences", 9, 9),
            ("sequences", 0, 9),
            ("sequences", 99, 10),
        ] {
            waiting.proceed(told(phase, done, 10));
            assert_eq!(waiting.position(), Some((shown, 10)), "{phase} {done}");
        }
        waiting.step("batch 64");
        assert_eq!(waiting.position(), None, "each step begins at its beginning");
    }

    #[test]
    fn every_ten_seconds_a_line_names_the_step() {
        let mut waiting = Waiting::new("largest");
        let mut lines = Vec::new();
        for second in 0..45 {
            match second {
                3 => waiting.step("batch 64"),
                12 => waiting.found(Nanos(1_500_000)),
                21 => waiting.step("batch 128"),
                _ => waiting.proceed(told("sequences", second, 50)),
            }
            lines.extend(waiting.line(Duration::from_secs(second)));
        }
        // Nobody told of anything for a while: one line makes up for it.
        lines.extend(waiting.line(Duration::from_secs(99)));
        assert_eq!(waiting.line(Duration::from_millis(99_900)), None);
        assert_eq!(
            lines,
            [
                "largest, batch 64, sequences, 10 of 50 (10 s)\n",
                "largest, batch 64, sequences, 1.500 ms so far, 20 of 50 (20 s)\n",
                "largest, batch 128, sequences, 30 of 50 (30 s)\n",
                "largest, batch 128, sequences, 40 of 50 (40 s)\n",
                "largest, batch 128, sequences, 44 of 50 (99 s)\n",
            ]
        );
    }
}

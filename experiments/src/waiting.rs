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
    progress: Option<Progress>,
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

    /// How far the step has come. Threads tell of it in any order, so that within a phase the furthest counts.
    pub fn proceed(&mut self, told: Progress) {
        let before =
            self.progress.filter(|before| (before.phase, before.of) == (told.phase, told.of));
        let done = told.done.max(before.map_or(0, |before| before.done));
        self.progress = Some(Progress { done: done.min(told.of), ..told });
    }

    /// A plan that could be had now.
    pub fn found(&mut self, iteration: Nanos) {
        self.best = Some(iteration);
    }

    /// How far the phase has come, and its end, where it has one.
    pub fn position(&self) -> Option<(u64, u64)> {
        self.progress
            .filter(|progress| progress.of > 0)
            .map(|progress| (progress.done, progress.of))
    }

    /// What is done: the method, the step, the phase, and the best plan so far.
    pub fn what(&self) -> String {
        let best = self.best.map(|best| format!("{best} so far"));
        let phase = self.progress.map(|progress| progress.phase.to_string());
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

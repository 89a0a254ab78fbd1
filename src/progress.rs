//! Progress on the standard error, and giving up at a signal.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use experiments::waiting::Waiting;
use indicatif::{ProgressBar, ProgressStyle};
use planner::{Monitor, Progress};
use schema::Nanos;

use crate::output::tell;
use crate::signals::{end_by_ourselves, interrupted};

static QUIET: AtomicBool = AtomicBool::new(false);

/// From here on nothing is shown of progress.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Shows how far a search is, and ends it at a signal: a bar where the standard error is a terminal, else a
/// line now and then.
pub struct Bar {
    waiting: Mutex<Waiting>,
    begin: Instant,
    /// None where nobody looks on.
    bar: Option<ProgressBar>,
    lines: bool,
}

impl Bar {
    /// A bar for one method's search, or for whatever else has a name.
    pub fn new(name: &str) -> Self {
        end_by_ourselves();
        let quiet = QUIET.load(Ordering::Relaxed);
        let terminal = std::io::stderr().is_terminal();
        let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}");
        let bar = style.ok().filter(|_| terminal && !quiet);
        let bar = bar.map(|style| ProgressBar::no_length().with_style(style));
        let waiting = Mutex::new(Waiting::new(name));
        Self { waiting, begin: Instant::now(), bar, lines: !terminal && !quiet }
    }

    fn tell(&self, what: impl FnOnce(&mut Waiting)) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        what(&mut waiting);
        if let (Some(bar), Some((done, of))) = (&self.bar, waiting.position()) {
            bar.set_length(of);
            bar.set_position(done);
            bar.set_message(waiting.what());
        }
        if self.lines
            && let Some(line) = waiting.line(self.begin.elapsed())
        {
            tell(line);
        }
    }
}

impl Monitor for Bar {
    fn proceed(&self, progress: Progress) -> bool {
        self.tell(|waiting| waiting.proceed(progress));
        !interrupted()
    }

    fn found(&self, iteration: Nanos) {
        self.tell(|waiting| waiting.found(iteration));
    }

    fn step(&self, name: &str) {
        self.tell(|waiting| waiting.step(name));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

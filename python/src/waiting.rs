//! Waiting for a search: other Python threads run, Ctrl-C ends it, and a callback hears how far it is.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use planner::{Monitor, Progress};
use pyo3::prelude::*;
use schema::Nanos;

use crate::errors::{raised, wrong};

/// How often the interpreter is asked for signals, and the callback told.
const EVERY: Duration = Duration::from_millis(50);

/// What searches say of themselves, for whoever looks.
#[derive(Default)]
pub struct Watch {
    stop: AtomicBool,
    /// The search, how far it is, and the best iteration that it has found; 0 before there is one.
    last: Mutex<Option<(&'static str, Progress)>>,
    best: AtomicU64,
}

/// One search that is watched.
pub struct Watched<'a> {
    watch: &'a Watch,
    name: &'static str,
}

impl Watch {
    /// A search that begins.
    pub fn of(&self, name: &'static str) -> Watched<'_> {
        self.best.store(0, Ordering::Relaxed);
        Watched { watch: self, name }
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn tell(&self, py: Python<'_>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((name, Progress { phase, done, of })) = last {
            let best = Some(self.best.load(Ordering::Relaxed)).filter(|best| *best > 0);
            callback.call1((format!("{name}: {phase}"), done, of, best))?;
        }
        py.check_signals()
    }
}

impl Monitor for Watched<'_> {
    fn proceed(&self, progress: Progress) -> bool {
        let mut last = self.watch.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((self.name, progress));
        !self.watch.stop.load(Ordering::Relaxed)
    }

    fn found(&self, iteration: Nanos) {
        self.watch.best.store(iteration.0, Ordering::Relaxed);
    }
}

/// Runs `search` without the interpreter's lock, on threads of its own: a process that forked has none of
/// those from before. An exception in the callback, or of a signal's handler, ends the search and is raised.
pub fn wait<T: Send>(
    py: Python<'_>,
    callback: Option<&Bound<'_, PyAny>>,
    search: impl FnOnce(&Watch) -> T + Send,
) -> PyResult<T> {
    let threads = rayon::ThreadPoolBuilder::new().build();
    let threads = threads.map_err(|error| raised(error.into()))?;
    let watch = &Watch::default();
    let callback = callback.map(|callback| callback.clone().unbind());
    let look = || {
        Python::attach(|py| match &callback {
            Some(callback) => watch.tell(py, callback.bind(py)),
            None => py.check_signals(),
        })
    };
    py.detach(|| {
        threads.in_place_scope(|scope| {
            let (sender, found) = channel();
            scope.spawn(move |_| drop(sender.send(search(watch))));
            loop {
                match found.recv_timeout(EVERY) {
                    Ok(found) => return look().map(|()| found),
                    Err(RecvTimeoutError::Timeout) => look().inspect_err(|_| watch.stop())?,
                    // The search panicked, which the end of the scope hands on.
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(wrong("the search panicked"));
                    }
                }
            }
        })
    })
}

//! Waiting for a search: other Python threads run, Ctrl-C ends it, and a callback hears how far it is.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::scope;
use std::time::Duration;

use planner::{Monitor, Progress};
use pyo3::prelude::*;
use schema::Nanos;

/// How often the interpreter is asked for signals, and the callback told.
const EVERY: Duration = Duration::from_millis(50);

/// What a search says of itself, for whoever looks.
#[derive(Default)]
pub struct Watch {
    stop: AtomicBool,
    progress: Mutex<Option<Progress>>,
    /// The best iteration so far; 0 before there is one.
    best: AtomicU64,
}

impl Monitor for Watch {
    fn proceed(&self, progress: Progress) -> bool {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
        !self.stop.load(Ordering::Relaxed)
    }

    fn found(&self, iteration: Nanos) {
        self.best.store(iteration.0, Ordering::Relaxed);
    }
}

impl Watch {
    fn tell(&self, py: Python<'_>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
        let progress = *self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Progress { phase, done, of }) = progress else { return Ok(()) };
        let best = Some(self.best.load(Ordering::Relaxed)).filter(|best| *best > 0);
        callback.call1((phase, done, of, best)).map(drop)?;
        py.check_signals()
    }
}

/// Runs `search` on a thread of its own without the interpreter's lock. An exception in the callback, or of
/// a signal's handler, ends the search and is raised.
pub fn wait<T: Send>(
    py: Python<'_>,
    callback: Option<&Bound<'_, PyAny>>,
    search: impl FnOnce(&Watch) -> T + Send,
) -> PyResult<T> {
    let watch = Watch::default();
    let callback = callback.map(|callback| callback.clone().unbind());
    let look = || {
        Python::attach(|py| match &callback {
            Some(callback) => watch.tell(py, callback.bind(py)),
            None => py.check_signals(),
        })
    };
    py.detach(|| {
        scope(|threads| {
            let (done, ended) = channel::<()>();
            let searching = threads.spawn(|| {
                let found = search(&watch);
                drop(done);
                found
            });
            let mut looked = Ok(());
            while looked.is_ok() && ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                looked = look();
            }
            watch.stop.store(looked.is_err(), Ordering::Relaxed);
            let found = searching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            looked.and_then(|()| look()).map(|()| found)
        })
    })
}

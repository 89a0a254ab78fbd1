//! When an action may start, and how lanes wait for each other.
//!
//! A lane being a total order, one counter per lane of the actions that have ended decides every
//! wait. A lane that waits spins for a moment and then parks; whoever ends an action wakes those
//! that are parked.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use schema::Lane;

use crate::device::Stop;

/// How long compute spins. Nobody wants its processor while it waits.
const COMPUTE_SPINS: Duration = Duration::from_micros(50);
/// How long other lanes spin: they may be taking compute's processor.
const OTHERS_SPIN: Duration = Duration::from_micros(5);
/// How long a lane parks before it looks whether it is asked to stop, of which nobody wakes it.
const PARKED: Duration = Duration::from_millis(20);

/// What lanes know of each other during one iteration.
pub(super) struct Gate<'a> {
    lanes: [LaneState; Lane::COUNT],
    open: AtomicBool,
    broken: AtomicBool,
    stop: &'a Stop,
}

/// On a cache line of its own: each lane writes its own and reads the others'.
#[derive(Default)]
#[repr(align(128))]
struct LaneState {
    ended: AtomicU32,
    parked: AtomicBool,
    thread: OnceLock<Thread>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Aborted;

/// An action that runs: there is one for each action and iteration, from when everything has ended
/// that the action comes after. What works on memory takes it, so that nothing else can.
pub(super) struct Turn {
    /// Whether the lane had to wait for it.
    pub waited: bool,
    _made_here: (),
}

impl<'a> Gate<'a> {
    /// The gate of an iteration that has not begun.
    pub fn new(stop: &'a Stop) -> Self {
        Self {
            lanes: Default::default(),
            open: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            stop,
        }
    }

    /// Takes note of the thread that runs a lane: the calling one.
    pub fn enter(&self, lane: Lane) {
        // A thread enters once.
        let _ = self.lanes[lane.index()].thread.set(thread::current());
    }

    /// Whether a lane's thread has entered.
    pub fn has_entered(&self, lane: Lane) -> bool {
        self.lanes[lane.index()].thread.get().is_some()
    }

    /// Lets the lanes begin.
    pub fn open(&self) {
        self.open.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Waits until the lanes may begin.
    pub fn wait_until_open(&self, lane: Lane) -> Result<(), Aborted> {
        self.wait(lane, || self.open.load(Ordering::SeqCst)).map(|_| ())
    }

    /// Waits until so many actions of each lane have ended: the turn of an action that waits for
    /// these.
    pub fn wait_for_turn(&self, lane: Lane, ended: &[u32; Lane::COUNT]) -> Result<Turn, Aborted> {
        let have_ended = || {
            let lanes = self.lanes.iter().zip(ended);
            lanes.into_iter().all(|(lane, wanted)| lane.ended.load(Ordering::SeqCst) >= *wanted)
        };
        let waited = self.wait(lane, have_ended)?;
        Ok(Turn { waited, _made_here: () })
    }

    pub fn end(&self, lane: Lane, turn: Turn) {
        let Turn { .. } = turn;
        self.lanes[lane.index()].ended.fetch_add(1, Ordering::SeqCst);
        self.wake();
    }

    /// Aborts the iteration: no lane starts another action.
    pub fn abort(&self) {
        self.broken.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Whether the iteration goes on.
    pub fn check(&self) -> Result<(), Aborted> {
        match self.broken.load(Ordering::Relaxed) || self.stop.is_requested() {
            true => Err(Aborted),
            false => Ok(()),
        }
    }

    /// Waits, and tells whether that was necessary.
    fn wait(&self, lane: Lane, is_met: impl Fn() -> bool) -> Result<bool, Aborted> {
        self.check()?;
        if is_met() {
            return Ok(false);
        }
        let spin = if lane == Lane::Compute { COMPUTE_SPINS } else { OTHERS_SPIN };
        let since = Instant::now();
        while since.elapsed() < spin {
            for _ in 0..32 {
                std::hint::spin_loop();
            }
            if is_met() {
                return Ok(true);
            }
        }
        let state = &self.lanes[lane.index()];
        loop {
            // First the announcement, then the look: whoever ends an action does it the other way
            // round, so that one of the two sees the other.
            state.parked.store(true, Ordering::SeqCst);
            let met = is_met();
            if !met && self.check().is_ok() {
                thread::park_timeout(PARKED);
            }
            state.parked.store(false, Ordering::SeqCst);
            self.check()?;
            if met || is_met() {
                return Ok(true);
            }
        }
    }

    fn wake(&self) {
        for state in &self.lanes {
            if state.parked.load(Ordering::SeqCst)
                && let Some(thread) = state.thread.get()
            {
                thread.unpark();
            }
        }
    }
}

/// Aborts the iteration if its thread panics, so that no other lane waits for ever.
pub(super) struct AbortsInPanic<'g, 'a>(pub &'g Gate<'a>);

impl Drop for AbortsInPanic<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.abort();
        }
    }
}

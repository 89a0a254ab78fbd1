//! Traces whose ops need not say how long they take.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::file::Malformed;
use crate::{Document, Nanos, Op, Trace, trace_check};

/// In place of the time of an op that says none. No reader returns a [`Trace`] that has it.
pub(crate) const NO_TIME: Nanos = Nanos(u64::MAX);

/// Whether an op says no time.
pub(crate) fn has_no_time(time: &Nanos) -> bool {
    *time == NO_TIME
}

pub(crate) fn no_time() -> Nanos {
    NO_TIME
}

/// A trace in which ops may leave `duration_ns` out, as it is read: a [`Trace`] as soon as all have a
/// time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Untimed(Trace);

impl Untimed {
    /// A trace of whose times nothing is left.
    pub fn without_times(mut trace: Trace) -> Self {
        trace.ops.iter_mut().for_each(|op| (op.duration, op.recompute) = (NO_TIME, None));
        Self(trace)
    }

    /// The network's name.
    pub fn network(&self) -> &str {
        &self.0.network
    }

    /// Whether every op says its time.
    pub fn is_timed(&self) -> bool {
        !self.0.ops.iter().any(|op| has_no_time(&op.duration))
    }

    /// The trace in which ops that say no time take what `time` says of them.
    ///
    /// # Errors
    /// If its times are more than an iteration may take.
    pub fn timed(mut self, time: impl Fn(&Trace, &Op) -> Nanos) -> Result<Trace, Malformed> {
        for index in 0..self.0.ops.len() {
            if has_no_time(&self.0.ops[index].duration) {
                let time = time(&self.0, &self.0.ops[index]);
                self.0.ops[index].duration = time.min(Nanos(NO_TIME.0 - 1));
            }
        }
        self.0.check()?;
        Ok(self.0)
    }
}

impl Document for Untimed {
    const FORMAT: &'static str = Trace::FORMAT;
    const VERSION: u32 = Trace::VERSION;

    fn check(&self) -> Result<(), Malformed> {
        trace_check::check(&self.0)
    }
}

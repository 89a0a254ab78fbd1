//! Stopping an iteration from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Asks a device to stop: every clone speaks to the same devices. Setting it is safe in a signal
/// handler.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks for the iteration that runs, and all that follow, to stop between two actions.
    pub fn request(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was asked for.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

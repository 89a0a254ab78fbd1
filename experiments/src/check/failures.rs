//! What could not be run, which ends nothing but itself, unless the device is lost.

use profiler::device::Target;

use crate::{Error, Result};

#[derive(Default)]
pub(super) struct Failures {
    errors: Vec<Error>,
    /// Why the device does not answer any more.
    lost: Option<String>,
}

impl Failures {
    /// Counts a failure on a device and returns it in words.
    ///
    /// # Errors
    /// If it is an interruption, which ends all.
    pub fn add(&mut self, error: Error, target: &Target) -> Result<String> {
        if error.is_interruption() {
            return Err(error);
        }
        if self.lost.is_none() {
            self.lost = target.lost().map(|why| why.to_string());
        }
        let words = error.in_words();
        self.errors.push(error);
        Ok(words)
    }

    /// # Errors
    /// If the device is lost: nothing else can run on it.
    pub fn unless_lost(&self) -> Result<()> {
        self.lost.clone().map_or(Ok(()), |why| Err(Error::Lost(why)))
    }

    /// # Errors
    /// If anything failed.
    pub fn end(self) -> Result<()> {
        if self.errors.is_empty() { Ok(()) } else { Err(Error::NotRun(self.errors)) }
    }
}

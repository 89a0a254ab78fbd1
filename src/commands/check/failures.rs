//! What could not be run, which ends nothing but itself, unless the device is lost.

use crate::device_args::OnDevice;
use crate::exit::{Exit, Result, WithExit};
use crate::measured::device::lost;

/// Failures so far.
pub struct Failures {
    on: OnDevice,
    count: usize,
    /// The gravest exit code among them.
    exit: Option<Exit>,
    /// Why the device does not answer any more.
    lost: Option<String>,
}

impl Failures {
    /// None yet, of this device.
    pub fn new(on: OnDevice) -> Self {
        Self { on, count: 0, exit: None, lost: None }
    }

    /// Counts a failure and returns it in words.
    ///
    /// # Errors
    /// If it is an interruption, which ends all.
    pub fn add(&mut self, error: WithExit) -> Result<String> {
        let WithExit { exit, error } = error;
        if exit == Exit::Interrupted {
            return Err(WithExit { exit, error });
        }
        self.count += 1;
        let graver = |before: &Exit| *before as u8 >= exit as u8;
        self.exit = self.exit.filter(graver).or(Some(exit));
        if self.lost.is_none() {
            self.lost = lost(self.on).map(|why| why.to_string());
        }
        Ok(format!("{error:#}"))
    }

    /// # Errors
    /// If the device is lost: nothing else can run on it.
    pub fn unless_lost(&self) -> Result {
        match &self.lost {
            None => Ok(()),
            Some(why) => {
                let error = anyhow::anyhow!("the device was lost before: {why}");
                Err(WithExit { exit: Exit::Failed, error })
            }
        }
    }

    /// # Errors
    /// If anything failed.
    pub fn end(self) -> Result {
        match self.exit {
            None => Ok(()),
            Some(exit) => {
                let error = anyhow::anyhow!(
                    "{} of the plans or networks could not be run: see above",
                    self.count
                );
                Err(WithExit { exit, error })
            }
        }
    }
}

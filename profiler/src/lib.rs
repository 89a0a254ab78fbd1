//! Where traces come from: [`import`] reads others' recordings, and the rest measures. [`device`]
//! runs plans on a device, [`profile`] times a network's ops there and what the machine does besides
//! ([`measure`]), and [`codec_samples`] times codecs.
//!
//! *Invariant: nothing is printed, and whoever waits is told of progress by a
//! [`Monitor`](planner::Monitor), which may also end the work.*

pub mod codec_samples;
pub mod codec_timers;
pub mod device;
mod error;
pub mod import;
pub mod machine;
pub mod measure;
pub mod op_times;
pub mod profile;
pub mod runs;
pub mod within;

pub use error::{Kind, MeasureError, of_kernels, of_opening, of_planning};

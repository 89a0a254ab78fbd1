//! Time models of codecs, fitted to samples.
//!
//! [`fit_times`] fits the [methods](Method) to samples of one codec, tests each on samples that it
//! has not seen and makes the best a [`schema::TimeModel`]; [`fit_size`] says
//! how small a codec makes tensors, and [`fit_coded`] how small an entropy code does by their texture. What is tested is what a plan uses: the document's lines, not
//! the regression behind them.
//!
//! Everything is a function of the samples in their order; nothing here reads a file or a clock.

mod coded;
mod document;
mod error;
mod lines;
mod method;
mod piecewise;
mod ridge;
mod sample;
mod size;
mod svm;
mod tree;
mod validate;

#[cfg(test)]
mod tests;

pub use coded::{CodedSample, fit_coded};
pub use document::{TimesFit, fit_times};
pub use error::FitError;
pub use method::Method;
pub use sample::Sample;
pub use size::fit_size;
pub use validate::{HeldOut, relative_absolute_error};

//! Why samples have no model.

/// Why samples have no model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum FitError {
    /// Too few samples.
    #[error("there are {found} samples, and a fit needs {needed}: take more")]
    TooFew { found: usize, needed: usize },
    #[error("all samples are of one size, through which no line goes: take some of another")]
    OneSize,
    /// A sample of no bytes or no time, or beyond what a document holds.
    #[error(
        "sample {index} has {what}: bytes and times must be above 0 and at most 2^50: take it away"
    )]
    BadSample { index: usize, what: String },
    /// A library that found no solution.
    #[error("{method} has no solution for these samples ({why}): use another method")]
    NoSolution { method: &'static str, why: String },
}

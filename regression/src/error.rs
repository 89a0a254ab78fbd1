//! Why samples have no model.

/// Why samples have no model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FitError {
    /// Too few samples.
    #[error("there are {found} samples, and a fit needs {needed}: take more")]
    TooFew {
        /// How many there are.
        found: usize,
        /// How many it takes.
        needed: usize,
    },
    /// All of one size.
    #[error("all samples are of one size, through which no line goes: take some of another")]
    OneSize,
    /// A sample of no bytes or no time, or beyond what a document holds.
    #[error(
        "sample {index} has {what}: bytes and times must be above 0 and at most 2^50: take it away"
    )]
    BadSample {
        /// Its position, from 1.
        index: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A library that found no solution.
    #[error("{method} has no solution for these samples ({why}): use another method")]
    NoSolution {
        /// The method.
        method: &'static str,
        /// What the library says.
        why: String,
    },
}

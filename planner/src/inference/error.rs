//! Why nothing is predicted.

use schema::Bytes;

/// Why a table's lookups cannot be predicted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum InferenceError {
    /// No rows, rows without bytes, or no row in a lookup.
    #[error("a table needs rows of at least one byte, and a lookup at least one row")]
    Empty,
    /// A packing without sampled rows, or with one that is larger than a row.
    #[error("packing {0} has no sampled row, or one that is larger than a row")]
    Sample(usize),
    /// There is nothing to choose from.
    #[error("no packing was given to choose from")]
    NoPacking,
    /// A distribution that is none.
    #[error("{0}: write uniform, or zipf:S with an exponent S between 0 and 10")]
    Access(String),
    /// More than entries of the cache can name.
    #[error("a cache of {0} is beyond the {most} that eight slabs of 40-bit offsets reach", most = super::MOST)]
    Cache(Bytes),
    /// Nobody accesses any row, or there are more counts than rows.
    #[error("{counts} access counts for {rows} rows; give at most one a row, not all of them 0")]
    Counts { counts: usize, rows: u64 },
    /// The table does not fit into host memory, packed or not.
    #[error("the table takes {needed} of host memory at least, the machine has {available}")]
    HostMemory {
        /// What it takes where it takes least.
        needed: Bytes,
        available: Bytes,
    },
}

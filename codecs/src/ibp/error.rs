//! What can go wrong.

/// Why a table could not be analysed, compressed or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum IbpError {
    /// Chunks are words.
    #[error("a chunk of {0} bytes: it must have 1, 2, 4 or 8")]
    ChunkSize(usize),
    /// A row has no bytes, or no whole number of chunks.
    #[error("a row of {row_bytes} bytes is no whole number of {chunk}-byte chunks; choose another")]
    RowBytes { row_bytes: usize, chunk: usize },
    /// The data is no whole number of rows.
    #[error("{bytes} bytes are no whole number of rows of {row_bytes} bytes")]
    Partial { bytes: usize, row_bytes: usize },
    /// There is nothing to learn invariant bits from.
    #[error("there is no row: invariant bits are learned from at least one")]
    NoRows,
    /// No cluster, or more than can be told apart.
    #[error("{0} clusters: there must be between 1 and {max}", max = super::MAX_CLUSTERS)]
    ClusterCount(usize),
    /// A row that is not in the table.
    #[error("row {row} of a table of {rows} rows")]
    NoSuchRow { row: usize, rows: usize },
    /// A buffer does not have a row's size.
    #[error("a buffer of {actual} bytes for a row of {expected}")]
    RowBuffer { expected: usize, actual: usize },
    /// Bytes that no table is written as.
    #[error("not a table of invariant bit packing: {0}; the data is damaged or of another kind")]
    Corrupt(&'static str),
}

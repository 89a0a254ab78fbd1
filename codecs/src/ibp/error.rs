//! What can go wrong.

/// Why a table could not be analysed, compressed or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum IbpError {
    #[error("a chunk of {0} bytes: it must have 1, 2, 4 or 8")]
    ChunkSize(usize),
    #[error("a row of {row_bytes} bytes is no whole number of {chunk}-byte chunks; choose another")]
    RowBytes { row_bytes: usize, chunk: usize },
    #[error("{bytes} bytes are no whole number of rows of {row_bytes} bytes")]
    Partial { bytes: usize, row_bytes: usize },
    #[error("there is no row: invariant bits are learned from at least one")]
    NoRows,
    #[error("{0} clusters: there must be between 1 and {max}", max = super::MAX_CLUSTERS)]
    ClusterCount(usize),
    #[error("row {row} of a table of {rows} rows")]
    NoSuchRow { row: usize, rows: usize },
    #[error("a buffer of {actual} bytes for a row of {expected}")]
    RowBuffer { expected: usize, actual: usize },
    #[error("not a table of invariant bit packing: {0}; the data is damaged or of another kind")]
    Corrupt(&'static str),
}

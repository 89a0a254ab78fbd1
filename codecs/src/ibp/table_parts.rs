//! A table as kernels read it: rows in host memory, all else on the device.

use super::{ChunkSize, Placement, RowCoder, Table};

/// Bytes of an access to host memory: what a warp reads at once.
pub const LINE: usize = 128;

/// The parts of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableParts<'t> {
    /// The rows, and zeros up to a whole [`LINE`]: in host memory, at a multiple of a line.
    pub rows: Vec<u8>,
    /// Where each row ends.
    pub ends: &'t [u64],
    /// Mask and Bitval of each cluster.
    pub metadata: Vec<u8>,
    /// Each row's cluster; empty where there is one only.
    pub clusters: &'t [u32],
    /// Whether each row begins where it would uncompressed; otherwise where the one before ends.
    pub in_place: bool,
    /// Bytes of an uncompressed row.
    pub row_bytes: usize,
    /// The chunks of a row.
    pub chunk: ChunkSize,
}

impl Table {
    /// The table as kernels read it.
    pub fn parts(&self) -> TableParts<'_> {
        let mut rows = self.data.clone();
        rows.resize(rows.len().next_multiple_of(LINE), 0);
        let metadata = self.coders.iter().flat_map(|coder| {
            let metadata = coder.metadata();
            metadata.mask().iter().chain(metadata.bitval()).copied()
        });
        TableParts {
            rows,
            ends: &self.ends,
            metadata: metadata.collect(),
            clusters: &self.cluster_of,
            in_place: self.placement == Placement::InPlace,
            row_bytes: self.row_bytes,
            chunk: self.coders.first().map_or(ChunkSize::One, RowCoder::chunk),
        }
    }
}

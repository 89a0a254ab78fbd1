//! What to launch for lookups in a table.

use super::Launch;
use crate::ibp::TableParts;

/// Threads of a block, in which each warp works alone.
pub(super) const THREADS: u32 = 128;
pub(super) const WARPS: u64 = THREADS as u64 / 32;

/// An argument of [`gather`]'s kernel: 8 bytes, whatever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableArgument {
    /// Address of [`TableParts::rows`], in host memory that kernels reach, at a multiple of a line.
    Rows,
    /// Address of [`TableParts::ends`].
    Ends,
    /// Address of [`TableParts::metadata`].
    Metadata,
    /// Address of [`TableParts::clusters`].
    Clusters,
    /// Address of the numbers of the rows, u64 each.
    Numbers,
    /// Address of what is written: the rows, uncompressed, one behind the other.
    Target,
    /// Address of a u64 that must be all ones before: then it is the least lookup that failed.
    Status,
    /// A number.
    Number(u64),
}

/// How so many rows of a table are looked up and decompressed, in at most so many blocks of
/// threads: a warp a row, straight from host memory.
pub fn gather(table: &TableParts<'_>, lookups: u64, most_blocks: u32) -> Launch<TableArgument> {
    use TableArgument::{Clusters, Ends, Metadata, Number, Numbers, Rows, Status, Target};
    let work = u32::try_from(lookups.div_ceil(WARPS)).unwrap_or(u32::MAX);
    let clusters = if table.clusters.is_empty() { Number(0) } else { Clusters };
    Launch {
        program: "ibp",
        kernel: "ibp_gather".into(),
        blocks: work.clamp(1, most_blocks.max(1)),
        threads: THREADS,
        arguments: vec![
            Rows,
            Ends,
            Number(table.ends.len() as u64),
            Number(table.in_place.into()),
            Number(table.row_bytes as u64),
            Number(table.chunk.bytes() as u64),
            Metadata,
            clusters,
            Numbers,
            Number(lookups),
            Target,
            Status,
        ],
    }
}

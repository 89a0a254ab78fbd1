//! Invariant Bit Packing: a lossless codec for tables of rows of one size.
//!
//! Rows of machine-learning tables (node features, embeddings, keys and values, weights) have bits
//! that are the same in most rows: signs, exponents, zeros. IBP finds them once for the table,
//! keeps them once (*Mask* says which bits, *Bitval* their values) and leaves them out of every row
//! that agrees. A row decompresses by itself, so that a lookup costs the rows that it touches and
//! no more.
//!
//! *Reducing the GPU Memory Bottleneck with Lossless Compression for ML* (Kamath et al.): section
//! 4.1 is [`analyse`], 4.2 and 4.3 the compression and decompression of a row ([`RowCoder`]), 5 the
//! two placements of a [`Table`], 6.1 the [`sample_of`], 6.5 chunks and clusters ([`clusters_of`]).
//!
//! # Bytes of a row
//!
//! A *chunk* is a little-endian word of 1, 2, 4 or 8 bytes, and a row a whole number of them. First
//! comes a participation bit per chunk, 1 for a compressed one, from the lowest bit of the first
//! word up, padded with zeros to a whole word. Then the payload, from the highest bit of each word
//! down: of a compressed chunk the bits that are not in the mask, highest first, of any other chunk
//! all bits; padded with zeros to a whole word. A row that would not become smaller stays as it is.
//! The paper ends a row at a byte, its authors' code at a word; this is the code's layout.
//!
//! # Where the kernels depart
//!
//! Decompression on a GPU reads rows by plain loads, where section 4.3 fetches the next lines asynchronously while
//! it decompresses. Of rows on the device a warp has several, whose loads overlap. Of a row in host memory it fetches as
//! many lines at once as there is room for, a kilobyte, and while it decompresses these it is other warps that fetch:
//! what fetching on would spare longer rows was not measured. Mask, Bitval and compressed rows are made on the host's
//! processor, not on the GPU (section 4.1): that is done once a table.

mod analysis;
mod clusters;
mod codec;
mod compress;
mod decompress;
mod error;
mod lanes;
mod metadata;
mod plan;
mod row;
mod rows;
mod table;
mod table_parts;

pub use analysis::{Analysis, analyse};
pub use clusters::{MAX_CLUSTERS, cluster_index_bytes, clusters_of};
pub(crate) use codec::{ALIGN, Ibp, KIND_BYTES};
pub use error::IbpError;
pub use lanes::ChunkSize;
pub use metadata::Metadata;
pub use row::RowCoder;
pub use rows::{Rows, sample_of};
pub use table::{Placement, Sizes, Table};
pub use table_parts::{LINE, TableParts};

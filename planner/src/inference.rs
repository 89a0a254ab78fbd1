//! Tables that are too large for the device: what Invariant Bit Packing makes of looking rows up.
//!
//! A table of rows (node features, embeddings, keys and values, weights) lies in host memory, a
//! part of it cached on the device. Each lookup reads rows; those that are not cached cross the
//! link. From what packing makes of a sample of the rows, [`choose`] says how to pack the table,
//! where packed rows lie, what of them to cache, and what a lookup then costs, beside what it costs
//! without.
//!
//! Sections are those of *Reducing the GPU Memory Bottleneck with Lossless Compression for ML*
//! (Kamath et al.). Like all of this crate it reads no file: the sample's sizes are its input.

mod access;
mod cache;
mod choose;
mod error;
mod transfer;

pub use access::Access;
pub use cache::{Cache, MAP_ENTRY_BYTES, MOST};
pub use choose::{
    Choice, Limit, Lookups, Packing, Placement, Prediction, Staging, choose, row_mask_bytes,
};
pub use error::InferenceError;
pub use transfer::{
    FIGURE_7, GATHER, LINE_BYTES, SECTOR_BYTES, mean_sectors, mean_unaligned_sectors,
};

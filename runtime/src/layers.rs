//! Layers on the CPU: single precision, one thread, NCHW layout.
//!
//! A layer is a value that knows its shapes, or a free function where the lengths of its slices
//! say everything. Outputs are slices that the caller provides and that the layer overwrites
//! completely, whatever they held; so is workspace, whose length the layer states. A layer
//! allocates no memory of its own, with one exception: the matrix product packs blocks of its
//! operands into a buffer of about a megabyte at most for the time of the call.
//!
//! The same input gives the same bits: every sum is formed in one fixed order.
//!
//! # Panics
//!
//! Layers panic where the length of a slice does not fit the layer's shape, as indexing does.
//! [`Network::run_op`](crate::network::Network::run_op) checks lengths before it calls a layer.

mod activation;
mod add;
mod attention;
mod average_pool;
mod batch_norm;
mod broadcast;
mod concat;
mod convolution;
mod depthwise;
pub(crate) mod dropout;
mod embedding;
#[cfg(test)]
mod gradient_check;
mod linear;
mod matrix;
mod max_pool;
mod movement;
mod optimizer;
mod product;
mod reduce;
mod rotary;
mod row_norm;
mod shape;
mod sigmoid_cross_entropy;
mod slide;
mod softmax;
mod softmax_cross_entropy;
mod tile;
mod upsample;

pub use activation::{Activation, Function};
pub use add::{add, add_assign};
pub use attention::Attention;
pub use average_pool::AveragePool;
pub use batch_norm::BatchNorm;
pub use broadcast::Broadcast;
pub use concat::{concat, split};
pub use convolution::Convolution;
pub(crate) use dropout::SEED_BITS;
pub use dropout::{Dropout, SEED_CELLS, cells_from_seed};
pub use embedding::{Embedding, TokenError};
pub use linear::Linear;
pub use max_pool::MaxPool;
pub use movement::Movement;
pub use optimizer::{Adam, Optimizer, Sgd};
pub(crate) use product::MASKED;
pub use product::Product;
pub(crate) use rotary::BASE as ROTARY_BASE;
pub use rotary::Rotary;
pub use row_norm::RowNorm;
pub use shape::{SPACE, Shape, ShapeError, Window};
pub use sigmoid_cross_entropy::SigmoidCrossEntropy;
pub use softmax::{softmax, softmax_backward};
pub use softmax_cross_entropy::{LabelError, SoftmaxCrossEntropy};
pub use upsample::Upsample;

/// Stores an index in a cell of a tensor, all of whose cells are 4 bytes. The bits of an index
/// below 2^31 - 2^23 are those of a finite float, so copying the cell cannot change them.
pub fn cell_from_index(index: u32) -> f32 {
    f32::from_bits(index)
}

/// The index that [`cell_from_index`] stored.
pub fn index_from_cell(cell: f32) -> u32 {
    cell.to_bits()
}

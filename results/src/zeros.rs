//! How much of a tensor is zero, and when.

use schema::Bytes;

use crate::cell::{Cell, Kind, Table, Value, columns};

columns! {
    /// The share of zeros of one tensor after an epoch of training.
    pub struct TensorZeros {
        /// The epoch, counted from 0.
        epoch: u32 = "epoch",
        /// The tensor's number in its trace.
        tensor: u32 = "tensor",
        /// Its name.
        name: String = "name",
        /// Its size.
        bytes: Bytes = "bytes",
        /// Share of its values that are zero, in the epoch's last iteration.
        zeros: f64 = "zeros",
    }
}

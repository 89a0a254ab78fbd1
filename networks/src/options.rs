//! What a user may choose about a network: the choices are part of documents.

pub(crate) use schema::{Activation, NetworkOptions, Optimizer};

use schema::Dtype;

/// Bytes of an element.
pub(crate) fn element_bytes(dtype: Dtype) -> u64 {
    match dtype {
        Dtype::U8 => 1,
        Dtype::F16 | Dtype::Bf16 => 2,
        Dtype::F32 | Dtype::I32 => 4,
        Dtype::F64 | Dtype::I64 => 8,
    }
}

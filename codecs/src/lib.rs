//! Codecs for tensors: one trait, one file per codec.
//!
//! [`CodecId`] names a codec and its parameter (`zvc`, `zfp:8`); [`codec`] makes it; [`Codec`]
//! compresses a [`TensorView`] into a payload of documented bytes, which a [`Seal`] knows again.
//!
//! Bytes are little-endian and the same on any number of threads. The tensor's elements are taken
//! as they lie in memory, so this is for little-endian machines, as are the GPUs it is made for.

pub mod bench;
pub mod claims;
pub mod csr;
pub mod ibp;
pub mod jpeg_act;
pub mod kernels;
pub mod layout;
pub mod lz4;
pub mod payload;
pub mod quality;
pub mod rle;
pub mod synthetic;
pub mod sz;
pub mod zfp;
#[cfg(feature = "zstd")]
pub mod zstandard;
pub mod zvc;

mod bytewise;
mod codec;
mod element;
mod error;
mod id;
mod pack;
mod registry;
mod seal;
mod texture;
mod vector;
mod words;

pub use codec::{Codec, Fidelity};
pub use error::Error;
pub use id::{CodecId, Dims, ErrorBound, Rate};
pub use layout::{Layout, TensorView};
pub use registry::{Entry, all, codec};
pub use seal::Seal;
pub use texture::texture;

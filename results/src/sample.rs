//! One sample of a codec at work.

use schema::{Bytes, Nanos};

use crate::cell::{Cell, Kind, Table, Value, columns};

columns! {
    /// One codec at work on one tensor: what it made of it, and the fastest times.
    pub struct CodecSample {
        /// What it ran on.
        device: String = "device",
        /// The codec's name without its parameter.
        codec: String = "codec",
        /// Its parameter, where it has one.
        parameter: Option<f64> = "parameter",
        /// What comes back: `lossless`, `fixed_rate` or `error_bounded`.
        fidelity: String = "fidelity",
        /// The element type.
        dtype: String = "dtype",
        /// Threads that worked on it; on a GPU blocks of threads, at most.
        threads: u32 = "threads",
        /// Runs of which these are the fastest.
        runs: u32 = "runs",
        /// Share of the tensor's values that are zero.
        sparsity: f64 = "sparsity",
        /// Size of the raw tensor.
        bytes: Bytes = "bytes",
        /// Size of its compressed form.
        compressed: Bytes = "compressed_bytes",
        /// Fastest time of making the compressed form.
        compress: Nanos = "compress_ns",
        /// Fastest time of bringing the tensor back.
        decompress: Nanos = "decompress_ns",
    }
}

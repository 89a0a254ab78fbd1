//! Tables as Parquet and CSV: the results of studies, one [`Row`] for each planned point; samples of
//! codecs, one [`CodecSample`] for each tensor; and shares of zeros, one [`crate::zeros::TensorZeros`] for each tensor
//! and epoch.
//!
//! *Invariants: only this module knows Parquet. A table is what its rows are, in their order: the same rows
//! give the same bytes. A file of an older tidegate is read as long as every column that it lacks may be
//! empty.*

mod cell;
mod error;
mod file;
mod quietly;
mod row;

use profiler::codec_samples::CodecSample;
use reports::Status;
use schema::{Bytes, BytesPerSec, Nanos};

pub(crate) use cell::{Cell, Value, table};

pub use cell::{Kind, Table};
pub use error::TableError;
pub use file::{read_parquet, write_csv, write_parquet};
pub use row::Row;

table!(Row {
    study: String = "study",
    group: String = "group",
    network: String = "network",
    batch: Option<u32> = "batch",
    options: String = "options",
    origin: String = "origin",
    machine: String = "machine",
    link: String = "link",
    bandwidth: BytesPerSec = "bandwidth_bytes_per_sec",
    budget: Bytes = "budget_bytes",
    host_budget: Bytes = "host_budget_bytes",
    answer.method: String = "method",
    decided_on: String = "decided_on",
    allowed: String = "allowed",
    codecs: Option<String> = "codecs",
    find: String = "find",
    evaluations: u64 = "evaluations",
    answer.status: Status = "status",
    answer.reason: Option<String> = "reason",
    answer.shortfall: Option<Bytes> = "shortfall_bytes",
    in_core: Nanos = "in_core_ns",
    in_core_peak: Bytes = "in_core_peak_bytes",
    answer.iteration: Option<Nanos> = "iteration_ns",
    answer.slowdown: Option<f64> = "slowdown",
    answer.gap: Option<f64> = "gap",
    answer.peak: Option<Bytes> = "peak_bytes",
    answer.arena: Option<Bytes> = "arena_bytes",
    answer.kept: Option<u64> = "kept",
    answer.swapped: Option<u64> = "swapped",
    answer.recomputed: Option<u64> = "recomputed",
    answer.compressed: Option<u64> = "compressed",
    answer.kept_bytes: Option<Bytes> = "kept_bytes",
    answer.swapped_bytes: Option<Bytes> = "swapped_bytes",
    answer.recomputed_bytes: Option<Bytes> = "recomputed_bytes",
    answer.compressed_bytes: Option<Bytes> = "compressed_bytes",
    compressed_raw: Option<Bytes> = "compressed_raw_bytes",
    compressed_small: Option<Bytes> = "compressed_small_bytes",
    answer.d2h: Option<Bytes> = "d2h_bytes",
    answer.h2d: Option<Bytes> = "h2d_bytes",
    answer.recompute: Option<Nanos> = "recompute_ns",
    answer.codec: Option<Nanos> = "codec_ns",
    answer.stall: Option<Nanos> = "stall_ns",
    answer.plan_seconds: Option<f64> = "plan_seconds",
});

table!(CodecSample {
    device: String = "device",
    codec: String = "codec",
    parameter: Option<f64> = "parameter",
    fidelity: String = "fidelity",
    dtype: String = "dtype",
    threads: u32 = "threads",
    runs: u32 = "runs",
    sparsity: f64 = "sparsity",
    bytes: Bytes = "bytes",
    compressed: Bytes = "compressed_bytes",
    compress: Nanos = "compress_ns",
    decompress: Nanos = "decompress_ns",
});

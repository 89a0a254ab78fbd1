//! A comparison as an Arrow table, which data frames take without a copy.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt64Array,
};
use reports::{MethodResult, Status};
use schema::{Bytes, Nanos};

/// The rows as one batch. Columns have the names and units of the JSON; those of scattered times are left out.
pub fn stream(
    rows: &[MethodResult],
) -> Result<FFI_ArrowArrayStream, impl std::fmt::Display + use<>> {
    type Of<T> = fn(&MethodResult) -> Option<T>;
    let text = |of: Of<String>| Arc::new(rows.iter().map(of).collect::<StringArray>()) as ArrayRef;
    let share = |of: Of<f64>| Arc::new(rows.iter().map(of).collect::<Float64Array>()) as ArrayRef;
    let count = |of: Of<u64>| Arc::new(rows.iter().map(of).collect::<UInt64Array>()) as ArrayRef;
    let bytes = |of: Of<Bytes>| {
        Arc::new(rows.iter().map(|row| Some(of(row)?.0)).collect::<UInt64Array>()) as ArrayRef
    };
    let nanos = |of: Of<Nanos>| {
        Arc::new(rows.iter().map(|row| Some(of(row)?.0)).collect::<UInt64Array>()) as ArrayRef
    };
    let status = |row: &MethodResult| {
        let name = match row.status {
            Status::Ok => "ok",
            Status::Infeasible => "infeasible",
            Status::Timeout => "timeout",
        };
        Some(name.to_string())
    };
    let columns = [
        ("method", text(|row| Some(row.method.clone()))),
        ("status", text(status)),
        ("reason", text(|row| row.reason.clone())),
        ("shortfall_bytes", bytes(|row| row.shortfall)),
        ("iteration_ns", nanos(|row| row.iteration)),
        ("slowdown", share(|row| row.slowdown)),
        ("peak_bytes", bytes(|row| row.peak)),
        ("arena_bytes", bytes(|row| row.arena)),
        ("gap", share(|row| row.gap)),
        ("plan_seconds", share(|row| row.plan_seconds)),
        ("kept", count(|row| row.kept)),
        ("swapped", count(|row| row.swapped)),
        ("recomputed", count(|row| row.recomputed)),
        ("compressed", count(|row| row.compressed)),
        ("kept_bytes", bytes(|row| row.kept_bytes)),
        ("swapped_bytes", bytes(|row| row.swapped_bytes)),
        ("recomputed_bytes", bytes(|row| row.recomputed_bytes)),
        ("compressed_bytes", bytes(|row| row.compressed_bytes)),
        ("d2h_bytes", bytes(|row| row.d2h)),
        ("h2d_bytes", bytes(|row| row.h2d)),
        ("recompute_ns", nanos(|row| row.recompute)),
        ("codec_ns", nanos(|row| row.codec)),
        ("stall_ns", nanos(|row| row.stall)),
    ];
    let columns = columns.map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).map(|batch| {
        let schema = batch.schema();
        FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema)))
    })
}

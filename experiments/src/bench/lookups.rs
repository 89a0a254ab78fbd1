//! Lookups in host memory: rows that are packed, rows that are not, and one copy of as many bytes.

use codecs::ibp::{ChunkSize, Metadata, Placement, Rows, Table, analyse};
use codecs::{Layout, TensorView};
use profiler::codec_timers::fastest;
use runtime::cuda::CudaCodecs;
use schema::{Bytes, Dtype, Nanos};
use serde::Serialize;

use super::Measured;
use super::codecs::dtype_name;
use super::speed::gigabytes;
use crate::Result;

/// Every row of a table in host memory, looked up once, in no order.
#[derive(Serialize)]
pub struct Lookups {
    /// The element type.
    pub dtype: Dtype,
    pub chunk_bytes: usize,
    /// Uncompressed over compressed bytes of the rows.
    pub ratio: f64,
    /// Uncompressed bytes per second, where rows are packed and decompressed by whoever reads them.
    pub packed_bytes_per_second: u64,
    /// The same where rows are as they are.
    pub raw_bytes_per_second: u64,
    /// One copy of all rows as they are, in order.
    pub copy_bytes_per_second: u64,
}

impl Measured for Lookups {
    const HEAD: &'static [&'static str] =
        &["rows in host memory", "type", "ratio", "packed", "as they are", "one copy"];

    fn cells(&self) -> Vec<String> {
        let name = format!("ibp:{}", self.chunk_bytes);
        let cells = [name, dtype_name(self.dtype), format!("{:.2}", self.ratio)];
        let speeds =
            [self.packed_bytes_per_second, self.raw_bytes_per_second, self.copy_bytes_per_second];
        cells.into_iter().chain(speeds.map(gigabytes)).collect()
    }
}

/// Times lookups in a tensor as a table of its rows.
pub fn time(
    device: &mut CudaCodecs,
    chunk: ChunkSize,
    layout: &Layout,
    tensor: TensorView<'_>,
    runs: u32,
) -> Result<Lookups> {
    let row_bytes = layout.bytes() / layout.folded(2)[0].max(1);
    let rows = Rows::new(tensor.bytes(), row_bytes)?;
    let packed = analyse(rows, chunk)?.metadata;
    // Nothing is the same in all rows: they stay as they are.
    let raw = Metadata::new(vec![0; row_bytes], vec![0; row_bytes])?;
    let [packed, raw] = [packed, raw].map(|metadata| -> Result<Table> {
        let table = Table::new(vec![metadata], chunk, Placement::Condensed);
        let mut table = table?;
        table.append(rows)?;
        Ok(table)
    });
    let (packed, raw) = (packed?, raw?);
    let numbers = shuffled(packed.len() as u64);
    let bytes = Bytes(layout.bytes() as u64);
    let speed = |times: Vec<Nanos>| (bytes.0 as f64 * 1e9 / fastest(&times).0 as f64) as u64;
    Ok(Lookups {
        dtype: layout.dtype(),
        chunk_bytes: chunk.bytes(),
        ratio: packed.sizes().ratio(),
        packed_bytes_per_second: speed(device.time_lookups(&packed, &numbers, runs)?),
        raw_bytes_per_second: speed(device.time_lookups(&raw, &numbers, runs)?),
        copy_bytes_per_second: speed(device.time_copies_in(bytes, runs)?),
    })
}

/// All numbers below `count`, in an order that no cache foresees, the same each time.
fn shuffled(count: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    let mut state = 1u64;
    for last in (1..numbers.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        numbers.swap(last, (state >> 33) as usize % (last + 1));
    }
    numbers
}

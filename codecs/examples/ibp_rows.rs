//! How long decompressing one row takes, over how long copying it takes.
//!
//! Rows are drawn at random from a table larger than caches, as lookups do, and from one that a cache
//! holds. 9 of 32 bits are invariant, so that a fourth of a fully compressed row is saved. Batches are
//! short and alternate, and medians are shown, so that other work on the machine does little harm.
//!
//! ```sh
//! cargo run --release -p tidegate-codecs --example ibp_rows
//! ```

use std::hint::black_box;
use std::time::Instant;

use codecs::ibp::{ChunkSize, IbpError, Metadata, Placement, Rows, Table};

const ROW_BYTES: usize = 4096;
/// What one batch copies or decompresses.
const BATCH_BYTES: usize = 256 << 10;
const BATCHES: usize = 301;

fn main() -> Result<(), IbpError> {
    println!("   table  chunk  compressed chunks   saved   copied  decompressed  ratio");
    for table_bytes in [1 << 20, 512 << 20] {
        for chunk in [ChunkSize::Four, ChunkSize::Eight] {
            for compressed_percent in [100, 70] {
                measure(table_bytes, chunk, compressed_percent)?;
            }
        }
    }
    Ok(())
}

fn measure(table_bytes: usize, chunk: ChunkSize, percent: u32) -> Result<(), IbpError> {
    let (mask, bitval) = (0x4492_1221u32, 0x4402_1020u32);
    let mut random = xorshift();
    let words = std::iter::repeat_with(|| {
        let bits = random();
        let participates = random() % 100 < percent;
        if participates { bits & !mask | bitval } else { bits }
    });
    let some: Vec<u8> = words.take(64 * ROW_BYTES / 4).flat_map(u32::to_le_bytes).collect();
    let rows = some.repeat(table_bytes / some.len());
    let repeated = |word: u32| word.to_le_bytes().repeat(ROW_BYTES / 4);
    let metadata = Metadata::new(repeated(mask), repeated(bitval))?;
    let mut table = Table::new(vec![metadata], chunk, Placement::InPlace)?;
    table.append(Rows::new(&rows, ROW_BYTES)?)?;

    let count = table.len();
    let mut out = vec![0; ROW_BYTES];
    let (mut copied, mut decompressed) = (Vec::new(), Vec::new());
    for _ in 0..BATCHES {
        copied.push(nanos_per_row(&mut random, count, |row| {
            out.copy_from_slice(&rows[row * ROW_BYTES..][..ROW_BYTES]);
            black_box(&mut out);
            Ok(())
        })?);
        decompressed.push(nanos_per_row(&mut random, count, |row| {
            table.read(row, &mut out)?;
            black_box(&mut out);
            Ok(())
        })?);
    }
    let (copied, decompressed) = (median(copied), median(decompressed));
    println!(
        "{:>4} MiB  {:>3} B  {percent:>15} %  {:>4.1} %  {copied:>5.0} ns  {decompressed:>9.0} ns  {:>5.2}",
        table_bytes >> 20,
        chunk.bytes(),
        100.0 * (1.0 - 1.0 / table.sizes().ratio()),
        decompressed / copied,
    );
    Ok(())
}

/// The mean over a batch of rows that are drawn before the clock starts.
fn nanos_per_row(
    random: &mut impl FnMut() -> u32,
    rows: usize,
    mut read: impl FnMut(usize) -> Result<(), IbpError>,
) -> Result<f64, IbpError> {
    let drawn: Vec<usize> =
        (0..BATCH_BYTES / ROW_BYTES).map(|_| random() as usize % rows).collect();
    let begin = Instant::now();
    drawn.iter().try_for_each(|&row| read(row))?;
    Ok(begin.elapsed().as_secs_f64() * 1e9 / drawn.len() as f64)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Marsaglia's generator.
fn xorshift() -> impl FnMut() -> u32 {
    let mut state = 88_172_645_463_325_252u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as u32
    }
}

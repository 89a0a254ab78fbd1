//! `tidegate bench codecs --device cuda`: what codecs' kernels make of a device's memory bandwidth.

use codecs::layout::width;
use codecs::synthetic::Recipe;
use codecs::{Codec, CodecId, Layout, TensorView};
use runtime::cuda::{CodecTimes, CudaCodecs};
use schema::{Bytes, Dtype, Nanos};

use super::Args;
use super::lookups::{self, Lookups};
use crate::codec_timers::{fastest, not_run};
use crate::exit::{Exit, OrExit, Result};
use crate::output::{Format, columns, print, print_json};

/// What was measured, as JSON has it.
#[derive(serde::Serialize)]
struct Measured {
    device: String,
    /// Blocks of threads that kernels may have.
    blocks: u32,
    /// Copies within the device's memory, each byte read and written once.
    copy_bytes_per_second: u64,
    codecs: Vec<Row>,
    /// Lookups in host memory, for each invariant bit packing and element type.
    lookups: Vec<Lookups>,
}

/// One codec and element type.
#[derive(serde::Serialize)]
pub struct Row {
    codec: String,
    dtype: Dtype,
    /// Uncompressed over compressed bytes.
    ratio: f64,
    /// Absent for what compresses on the host alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    compress: Option<Speed>,
    decompress: Speed,
}

/// How fast a kernel is.
#[derive(serde::Serialize)]
struct Speed {
    /// Uncompressed bytes.
    bytes_per_second: u64,
    /// The same over what copies move.
    over_copy: f64,
}

/// Times kernels, after their bytes were held to the processor's.
pub fn run(args: &Args) -> Result {
    let codecs = match args.codecs.as_slice() {
        [] => with_kernels()?,
        codecs => codecs.to_vec(),
    };
    let percent = args.on.codec_sms.unwrap_or(100);
    let mut device = CudaCodecs::open(0, &codecs, percent).or_exit(Exit::Failed)?;
    let copies = device.time_copies(args.size, args.runs).or_exit(Exit::Failed)?;
    let copied = speed(args.size, &copies);
    let (mut rows, mut of_tables) = (Vec::new(), Vec::new());
    for dtype in args.dtypes.iter().map(|element| Dtype::from(*element)) {
        // As on the host: rows as in a feature map.
        let elements = usize::try_from(args.size.0).or_exit(Exit::Usage)? / width(dtype);
        let (layout, tensor) = tensor(args, dtype, &[(elements / 64).max(1), 64])?;
        let tensor = TensorView::new(&layout, &tensor).or_exit(Exit::Failed)?;
        for id in &codecs {
            let codec = codecs::codec(*id).or_exit(Exit::Usage)?;
            check_odd_sizes(args, &mut device, codec.as_ref(), dtype)?;
            let times = device.time(codec.as_ref(), tensor, args.runs).map_err(not_run)?;
            rows.push(row(id.to_string(), &layout, &times, copied));
            if let CodecId::Ibp { chunk } = id {
                of_tables.push(lookups::time(&mut device, *chunk, &layout, tensor, args.runs)?);
            }
        }
    }
    let measured = Measured {
        device: device.name().into(),
        blocks: device.blocks(),
        copy_bytes_per_second: copied as u64,
        codecs: rows,
        lookups: of_tables,
    };
    match args.format {
        Format::Json => print_json(&measured),
        Format::Text => print(text(&measured, percent)),
    }
}

/// Shapes whose sizes are no multiple of anything that kernels work in.
const ODD: [&[usize]; 4] = [&[1], &[33], &[4097], &[9, 1001]];

/// Holds kernels' bytes to the processor's where sizes are odd. Nothing is timed.
fn check_odd_sizes(
    args: &Args,
    device: &mut CudaCodecs,
    codec: &dyn Codec,
    dtype: Dtype,
) -> Result {
    for shape in ODD {
        let (layout, tensor) = tensor(args, dtype, shape)?;
        let tensor = TensorView::new(&layout, &tensor).or_exit(Exit::Failed)?;
        device.time(codec, tensor, 0).map_err(not_run)?;
    }
    Ok(())
}

/// A synthetic tensor, drawn from the seed.
fn tensor(args: &Args, dtype: Dtype, shape: &[usize]) -> Result<(Layout, Vec<u8>)> {
    let layout = Layout::new(dtype, shape).or_exit(Exit::Usage)?;
    let Args { sparsity, seed, .. } = *args;
    let recipe = Recipe { layout: layout.clone(), sparsity, smoothness: 0.0, seed };
    Ok((layout, recipe.bytes().or_exit(Exit::Usage)?))
}

/// Every codec of `list codecs` that the device at least decompresses.
fn with_kernels() -> Result<Vec<CodecId>> {
    let all = codecs::all().iter().map(|entry| entry.example.parse::<CodecId>());
    let all = all.collect::<std::result::Result<Vec<_>, _>>().or_exit(Exit::Failed)?;
    let has_program = |id: &CodecId| {
        codecs::kernels::programs().iter().any(|program| program.name() == id.name())
    };
    Ok(all.into_iter().filter(has_program).collect())
}

/// What was measured of a codec on a tensor.
pub fn row(codec: String, layout: &Layout, times: &CodecTimes, copied: f64) -> Row {
    let bytes = Bytes(layout.bytes() as u64);
    let of = |times: &[Nanos]| {
        let speed = speed(bytes, times);
        Speed { bytes_per_second: speed as u64, over_copy: speed / copied }
    };
    Row {
        codec,
        dtype: layout.dtype(),
        ratio: bytes.0 as f64 / times.length.max(1) as f64,
        compress: times.compress.as_deref().map(of),
        decompress: of(&times.decompress),
    }
}

/// Bytes per second of the fastest run.
fn speed(bytes: Bytes, times: &[Nanos]) -> f64 {
    bytes.0 as f64 * 1e9 / fastest(times).0 as f64
}

fn gigabytes(speed: u64) -> String {
    format!("{:.1} GB/s", speed as f64 / 1e9)
}

/// A table of rows, with what they are of above the first column.
pub fn table(of: &str, rows: &[Row]) -> String {
    let head = [of, "type", "ratio", "compress", "/copy", "decompress", "/copy"];
    let mut table = vec![head.map(String::from).to_vec()];
    table.extend(rows.iter().map(|row| {
        let dtype = format!("{:?}", row.dtype).to_lowercase();
        let mut cells = vec![row.codec.clone(), dtype, format!("{:.2}", row.ratio)];
        for speed in [row.compress.as_ref(), Some(&row.decompress)] {
            match speed {
                Some(Speed { bytes_per_second, over_copy }) => cells
                    .extend([gigabytes(*bytes_per_second), format!("{:.1} %", 100.0 * over_copy)]),
                None => cells.extend(["host".into(), "-".into()]),
            }
        }
        cells
    }));
    columns(&table)
}

fn text(measured: &Measured, percent: u8) -> String {
    let mut of_tables = String::new();
    if !measured.lookups.is_empty() {
        let head = ["rows in host memory", "type", "ratio", "packed", "as they are", "one copy"];
        let mut table = vec![head.map(String::from).to_vec()];
        table.extend(measured.lookups.iter().map(|lookups| {
            let speeds = [
                lookups.packed_bytes_per_second,
                lookups.raw_bytes_per_second,
                lookups.copy_bytes_per_second,
            ];
            let dtype = format!("{:?}", lookups.dtype).to_lowercase();
            let cells =
                [format!("ibp:{}", lookups.chunk_bytes), dtype, format!("{:.2}", lookups.ratio)];
            cells.into_iter().chain(speeds.map(gigabytes)).collect()
        }));
        of_tables = format!("\n{}", columns(&table));
    }
    format!(
        "{}, {} blocks of threads ({percent} %); copies within its memory {}\n{}\
         speeds in uncompressed bytes; /copy: over that of copies, which read and write each byte once\n\
         every payload, tensor and row has the bytes that the processor makes, and so have those of odd \
         sizes\n{of_tables}",
        measured.device,
        measured.blocks,
        gigabytes(measured.copy_bytes_per_second),
        table("codec", &measured.codecs)
    )
}

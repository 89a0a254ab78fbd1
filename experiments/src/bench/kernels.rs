//! `tidegate bench codecs --device cuda`: what codecs' kernels make of a device's memory bandwidth.

use std::fmt;

use codecs::bench::Settings;
use codecs::layout::width;
use codecs::synthetic::Recipe;
use codecs::{Codec, CodecId, Layout, TensorView};
use profiler::codec_timers::fastest;
use runtime::cuda::{CodecTimes, CudaCodecs};
use schema::{Bytes, Dtype, Nanos};
use serde::Serialize;

use super::codecs::dtype_name;
use super::lookups::{self, Lookups};
use super::speed::gigabytes;
use super::{Measured, table};
use crate::Result;

/// What was measured, as JSON has it.
#[derive(Serialize)]
pub struct KernelSpeeds {
    device: String,
    #[serde(skip)]
    percent: u8,
    /// Blocks of threads that kernels may have.
    blocks: u32,
    /// Copies within the device's memory, each byte read and written once.
    copy_bytes_per_second: u64,
    codecs: Vec<KernelSpeed>,
    /// Lookups in host memory, for each invariant bit packing and element type.
    lookups: Vec<Lookups>,
}

/// One codec and element type.
#[derive(Serialize)]
pub struct KernelSpeed {
    codec: String,
    dtype: Dtype,
    /// Uncompressed over compressed bytes.
    ratio: f64,
    /// Absent for what compresses on the host alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    compress: Option<Speed>,
    decompress: Speed,
}

#[derive(Serialize)]
struct Speed {
    /// Uncompressed bytes.
    bytes_per_second: u64,
    /// The same over what copies move.
    over_copy: f64,
}

/// Times kernels that may fill so many percent of the multiprocessors, after their bytes were held to the
/// processor's.
///
/// # Errors
/// If there is no device, or a kernel fails or makes other bytes.
pub fn kernels(args: &Settings, percent: u8) -> Result<KernelSpeeds> {
    let (size, runs) = (Bytes(args.bytes as u64), u32::try_from(args.runs).unwrap_or(u32::MAX));
    let mut device = CudaCodecs::open(0, &args.codecs, percent)?;
    let copies = device.time_copies(size, runs)?;
    let copied = speed(size, &copies);
    let (mut rows, mut of_tables) = (Vec::new(), Vec::new());
    for dtype in args.dtypes.iter().copied() {
        // As on the host: rows as in a feature map.
        let elements = args.bytes / width(dtype);
        let (layout, tensor) = tensor(args, dtype, &[(elements / 64).max(1), 64])?;
        let tensor = TensorView::new(&layout, &tensor)?;
        for id in &args.codecs {
            let codec = codecs::codec(*id)?;
            check_odd_sizes(args, &mut device, codec.as_ref(), dtype)?;
            let times = device.time(codec.as_ref(), tensor, runs)?;
            rows.push(row(id.to_string(), &layout, &times, copied));
            if let CodecId::Ibp { chunk } = id {
                of_tables.push(lookups::time(&mut device, *chunk, &layout, tensor, runs)?);
            }
        }
    }
    Ok(KernelSpeeds {
        device: device.name().into(),
        percent,
        blocks: device.blocks(),
        copy_bytes_per_second: copied as u64,
        codecs: rows,
        lookups: of_tables,
    })
}

/// Shapes whose sizes are no multiple of anything that kernels work in.
const ODD: [&[usize]; 4] = [&[1], &[33], &[4097], &[9, 1001]];

/// Holds kernels' bytes to the processor's where sizes are odd. Nothing is timed.
fn check_odd_sizes(
    args: &Settings,
    device: &mut CudaCodecs,
    codec: &dyn Codec,
    dtype: Dtype,
) -> Result<()> {
    for shape in ODD {
        let (layout, tensor) = tensor(args, dtype, shape)?;
        let tensor = TensorView::new(&layout, &tensor)?;
        device.time(codec, tensor, 0)?;
    }
    Ok(())
}

/// A synthetic tensor, drawn from the seed.
fn tensor(args: &Settings, dtype: Dtype, shape: &[usize]) -> Result<(Layout, Vec<u8>)> {
    let layout = Layout::new(dtype, shape)?;
    let Settings { sparsity, seed, .. } = *args;
    let recipe = Recipe { layout: layout.clone(), sparsity, smoothness: 0.0, seed };
    Ok((layout, recipe.bytes()?))
}

/// Every codec of `list codecs`, or those that a CUDA device at least decompresses.
///
/// # Errors
/// Never, as a test reads their names.
pub fn all_codecs(on_host: bool) -> Result<Vec<CodecId>> {
    let all = codecs::all().iter().map(|entry| entry.example.parse::<CodecId>());
    let all = all.collect::<std::result::Result<Vec<_>, _>>()?;
    let has_program = |id: &CodecId| {
        codecs::kernels::programs().iter().any(|program| program.name() == id.name())
    };
    Ok(all.into_iter().filter(|id| on_host || has_program(id)).collect())
}

/// What was measured of a codec on a tensor.
pub fn row(codec: String, layout: &Layout, times: &CodecTimes, copied: f64) -> KernelSpeed {
    let bytes = Bytes(layout.bytes() as u64);
    let of = |times: &[Nanos]| {
        let speed = speed(bytes, times);
        Speed { bytes_per_second: speed as u64, over_copy: speed / copied }
    };
    KernelSpeed {
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

impl Measured for KernelSpeed {
    const HEAD: &'static [&'static str] =
        &["codec", "type", "ratio", "compress", "/copy", "decompress", "/copy"];

    fn cells(&self) -> Vec<String> {
        let ratio = format!("{:.2}", self.ratio);
        let mut cells = vec![self.codec.clone(), dtype_name(self.dtype), ratio];
        for speed in [self.compress.as_ref(), Some(&self.decompress)] {
            match speed {
                Some(Speed { bytes_per_second, over_copy }) => cells
                    .extend([gigabytes(*bytes_per_second), format!("{:.1} %", 100.0 * over_copy)]),
                None => cells.extend(["host".into(), "-".into()]),
            }
        }
        cells
    }
}

impl fmt::Display for KernelSpeeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} blocks of threads ({} %); copies within its memory {}\n{}\
             speeds in uncompressed bytes; /copy: over that of copies, which read and write each byte \
             once\nevery payload, tensor and row has the bytes that the processor makes, and so have \
             those of odd sizes\n",
            self.device,
            self.blocks,
            self.percent,
            gigabytes(self.copy_bytes_per_second),
            table(&self.codecs)
        )?;
        match self.lookups.as_slice() {
            [] => Ok(()),
            lookups => write!(f, "\n{}", table(lookups)),
        }
    }
}

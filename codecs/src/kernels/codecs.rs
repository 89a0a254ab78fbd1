//! What to launch for each codec.

use super::Argument::{Length, Number, Scratch, Source, Status, Target};
use super::{Argument, Launch, Launches, dtype_number, tables};
use crate::layout::width;
use crate::payload::ALIGN;
use crate::{Codec, CodecId, Dims, Error, ErrorBound, Layout, Rate};

/// Threads of a block where they work together.
const TOGETHER: u32 = 256;
/// Threads of a block where each, or each warp, works alone.
const ALONE: u32 = 128;
/// Threads of the one block that sums up a table.
const ONE_BLOCK: u32 = 1024;
const WARP: u64 = 32;

/// How a tensor of this layout is compressed, in at most so many blocks of threads.
///
/// # Errors
/// [`Error::UnsupportedDtype`]; [`Error::NoKernel`] for codecs that only decompress on a device.
pub fn compress(id: CodecId, layout: &Layout, most_blocks: u32) -> Result<Launches, Error> {
    crate::codec(id)?.check_dtype(layout.dtype())?;
    let most = most_blocks.max(1);
    match id {
        CodecId::Zvc | CodecId::Rle | CodecId::Csr => Ok(pack_compress(id, layout, most)),
        CodecId::Zfp { rate, dims } => Ok(zfp_compress(rate, dims, layout, most)),
        CodecId::Sz { bound, dims } => Ok(sz_compress(bound, dims, layout, most)),
        CodecId::Lz4
        | CodecId::Ibp { .. }
        | CodecId::Zstd
        | CodecId::Sz14 { .. }
        | CodecId::JpegAct { .. } => Err(Error::NoKernel { codec: id, what: "compress" }),
    }
}

/// How a payload of a tensor of this layout is decompressed, in at most so many blocks of threads.
///
/// Kernels stay inside of payload and tensor whatever the payload holds. They find what
/// [`Codec::decompress`](crate::Codec::decompress) finds, but for zeros that nobody reads (padding) and
/// values of IBP's bits that its Mask does not hold.
///
/// # Errors
/// [`Error::UnsupportedDtype`]; [`Error::NoKernel`] for codecs that are on the host alone.
pub fn decompress(id: CodecId, layout: &Layout, most_blocks: u32) -> Result<Launches, Error> {
    crate::codec(id)?.check_dtype(layout.dtype())?;
    let most = most_blocks.max(1);
    match id {
        CodecId::Zvc | CodecId::Rle | CodecId::Csr => Ok(pack_decompress(id, layout, most)),
        CodecId::Lz4 => Ok(lz4_decompress(layout, most)),
        CodecId::Zfp { rate, dims } => Ok(zfp_decompress(rate, dims, layout, most)),
        CodecId::Sz { bound, dims } => Ok(sz_decompress(bound, dims, layout, most)),
        CodecId::Ibp { .. } => Ok(ibp_decompress(layout, most)),
        CodecId::Zstd | CodecId::Sz14 { .. } | CodecId::JpegAct { .. } => {
            Err(Error::NoKernel { codec: id, what: "decompress" })
        }
    }
}

/// A launch of as many blocks as there are units of work, within what is allowed.
fn launch(
    program: &'static str,
    kernel: String,
    work: u64,
    most: u32,
    threads: u32,
    arguments: Vec<Argument>,
) -> Launch {
    let blocks = u32::try_from(work).unwrap_or(u32::MAX).clamp(1, most);
    Launch { program, kernel, blocks, threads, arguments }
}

/// Turns sizes in the payload's table into ends.
fn ends(program: &'static str, blocks: u64) -> Launch {
    let arguments = vec![Target, Number(blocks), Length];
    launch(program, "payload_ends".into(), 1, 1, ONE_BLOCK, arguments)
}

fn pack_compress(id: CodecId, layout: &Layout, most: u32) -> Launches {
    let (program, elements) = (id.name(), layout.elements() as u64);
    let blocks = elements.div_ceil(crate::pack::BLOCK as u64);
    let kernel = |what: &str| format!("{program}_{what}_{}", width(layout.dtype()));
    let arguments = vec![Source, Number(elements), Target];
    let launches = vec![
        launch(program, kernel("sizes"), blocks, most, TOGETHER, arguments.clone()),
        ends(program, blocks),
        launch(program, kernel("compress"), blocks, most, TOGETHER, arguments),
    ];
    Launches { launches, scratch_bytes: 0 }
}

fn pack_decompress(id: CodecId, layout: &Layout, most: u32) -> Launches {
    let (program, elements) = (id.name(), layout.elements() as u64);
    let blocks = elements.div_ceil(crate::pack::BLOCK as u64);
    let kernel = format!("{program}_decompress_{}", width(layout.dtype()));
    let arguments = vec![Source, Length, Number(elements), Target, Status];
    let launches = vec![launch(program, kernel, blocks, most, TOGETHER, arguments)];
    Launches { launches, scratch_bytes: 0 }
}

fn lz4_decompress(layout: &Layout, most: u32) -> Launches {
    let bytes = layout.bytes() as u64;
    let warps = bytes.div_ceil(crate::lz4::BLOCK_BYTES as u64);
    let work = warps.div_ceil(u64::from(ALONE) / WARP);
    let arguments = vec![Source, Length, Number(bytes), Target, Status];
    let launches = vec![launch("lz4", "lz4_decompress".into(), work, most, ALONE, arguments)];
    Launches { launches, scratch_bytes: 0 }
}

/// What kernels need to know of a field: dimensions, and arguments from the element type on.
fn zfp_field(rate: Rate, dims: Dims, layout: &Layout) -> (usize, u64, u64, Vec<Argument>) {
    let mut shape = layout.folded(dims.get());
    let rank = shape.len();
    if layout.elements() == 0 {
        shape.fill(0);
    }
    shape.reverse();
    shape.resize(3, 1);
    let sizes = shape.iter().map(|&size| size as u64);
    let blocks = sizes.clone().map(|size| size.div_ceil(4)).product();
    let zfp = crate::zfp::Zfp::new(rate, dims);
    let mut arguments = vec![Number(dtype_number(layout.dtype()))];
    arguments.extend(sizes.map(Number));
    arguments.push(Number(u64::from(zfp.block_bits(layout))));
    (rank, blocks, zfp.worst_case(layout) as u64, arguments)
}

fn zfp_compress(rate: Rate, dims: Dims, layout: &Layout, most: u32) -> Launches {
    let (rank, blocks, bytes, field) = zfp_field(rate, dims, layout);
    let clear = vec![Target, Number(bytes), Length];
    let mut arguments = vec![Source];
    arguments.extend(field);
    arguments.extend([Target, Status]);
    let work = blocks.div_ceil(u64::from(ALONE));
    let launches = vec![
        launch("zfp", "zfp_clear".into(), bytes.div_ceil(4096), most, TOGETHER, clear),
        launch("zfp", format!("zfp_compress_{rank}"), work, most, ALONE, arguments),
    ];
    Launches { launches, scratch_bytes: 0 }
}

fn zfp_decompress(rate: Rate, dims: Dims, layout: &Layout, most: u32) -> Launches {
    let (rank, blocks, bytes, field) = zfp_field(rate, dims, layout);
    let mut arguments = vec![Source, Length, Number(bytes)];
    arguments.extend(field);
    arguments.extend([Target, Status]);
    let work = blocks.div_ceil(u64::from(ALONE));
    let kernel = format!("zfp_decompress_{rank}");
    let launches = vec![launch("zfp", kernel, work, most, ALONE, arguments)];
    Launches { launches, scratch_bytes: 0 }
}

/// Blocks of a tensor, bytes of each, and the arguments that kernels begin with after what is read.
fn sz_setting(bound: ErrorBound, dims: Dims, layout: &Layout) -> (u64, u64, Vec<Argument>) {
    let sz = crate::sz::Sz::new(bound, dims);
    let setting = sz.kernel_setting(layout);
    let elements = layout.elements() as u64;
    let block_bytes = setting.block_elements * width(layout.dtype()) as u64;
    let mut arguments = vec![
        Number(elements),
        Number(setting.block_elements),
        Number(dtype_number(layout.dtype())),
        Number(setting.extents.len() as u64),
    ];
    let extents = setting.extents.iter().copied().chain([0; 3]).take(3);
    arguments.extend(extents.map(Number));
    arguments.extend(setting.steps.map(|value| Number(u64::from(value.to_bits()))));
    (elements.div_ceil(setting.block_elements), block_bytes, arguments)
}

/// Scratch bytes for quantised values, for so many blocks of threads.
fn sz_scratch(blocks: u32) -> u64 {
    u64::from(blocks) * crate::sz::BLOCK_ELEMENTS as u64 * 4
}

fn sz_compress(bound: ErrorBound, dims: Dims, layout: &Layout, most: u32) -> Launches {
    let (blocks, block_bytes, setting) = sz_setting(bound, dims, layout);
    let mut compress = launch("sz", "sz_compress".into(), blocks, most, TOGETHER, vec![Source]);
    let slots = sz_scratch(compress.blocks);
    // Bits are written three words at a time, of which the last ones may be zero.
    let slot_bytes = (block_bytes + 12).next_multiple_of(ALIGN as u64);
    compress.arguments.extend(setting);
    compress.arguments.extend([Scratch(0), Scratch(slots), Number(slot_bytes), Target]);
    let bytes = layout.bytes() as u64;
    let arguments = vec![
        Scratch(slots),
        Number(slot_bytes),
        Source,
        Number(bytes),
        Number(block_bytes),
        Target,
    ];
    let place = launch("sz", "payload_place".into(), blocks, most, TOGETHER, arguments);
    let launches = vec![compress, ends("sz", blocks), place];
    Launches { launches, scratch_bytes: slots + blocks * slot_bytes }
}

fn sz_decompress(bound: ErrorBound, dims: Dims, layout: &Layout, most: u32) -> Launches {
    let (blocks, _, setting) = sz_setting(bound, dims, layout);
    let mut decompress =
        launch("sz", "sz_decompress".into(), blocks, most, TOGETHER, vec![Source, Length]);
    decompress.arguments.extend(setting);
    decompress.arguments.extend([Scratch(0), Target, Status]);
    let scratch_bytes = sz_scratch(decompress.blocks);
    Launches { launches: vec![decompress], scratch_bytes }
}

fn ibp_decompress(layout: &Layout, most: u32) -> Launches {
    // A tensor that is no table is one that is not compressed.
    let (rows, row_bytes) = crate::ibp::Ibp::table(layout).unwrap_or((0, 0));
    let (rows, row_bytes, bytes) = (rows as u64, row_bytes as u64, layout.bytes() as u64);
    let sums = vec![Source, Length, Number(rows), Number(row_bytes), Scratch(0)];
    let mut arguments = sums.clone();
    arguments.extend([Target, Number(bytes), Status]);
    let work = rows.max(bytes.div_ceil(4096)).div_ceil(tables::WARPS);
    let launches = vec![
        launch("ibp", "ibp_sums".into(), work, most, tables::THREADS, sums),
        launch("ibp", "ibp_decompress".into(), work, most, tables::THREADS, arguments),
    ];
    let scratch_bytes = 8 * u64::from(launches[0].blocks);
    Launches { launches, scratch_bytes }
}

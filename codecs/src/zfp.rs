//! ZFP at a fixed rate, in one to three dimensions.
//!
//! Source: Lindstrom, "Fixed-Rate Compressed Floating-Point Arrays" (TVCG 2014), by the crate
//! `zfp-rs`, which writes what the C library writes. Fixed rate is the mode that CSWAP+ uses: its
//! parameter P is the bits of a 1-D block of 4 values, so `zfp:8` is P = 32 of MAX = 128.
//!
//! The payload is the C library's stream without its header: blocks of 4^d values, each of
//! rate * 4^d bits, one after the other in 64-bit little-endian words. The shape is
//! [`folded`](Layout::folded) to the codec's dimensions; a tensor of fewer is taken in its own, at the
//! nearest rate that its blocks can have. Halves are widened to f32, which is exact,
//! and rounded to nearest after decompression, but never to infinity.
//!
//! A fixed rate bounds the size, not the error: measure it. Infinities and NaNs are refused,
//! because ZFP would lose the values beside them as well.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use rayon::prelude::*;
use schema::Dtype;
use zfp_rs::{
    ZfpBitStream, ZfpConfig, ZfpDimensionality, ZfpField, ZfpFieldMut, ZfpScalarType,
    ZfpStreamAlignment,
};

use crate::layout::width;
use crate::{Codec, CodecId, Dims, Error, Fidelity, Layout, Rate, TensorView};

/// What a thread compresses at once, about.
const PART_ELEMENTS: usize = 64 << 10;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Zfp {
    rate: Rate,
    dims: Dims,
}

impl Zfp {
    /// With a rate and dimensions that [`CodecId::zfp`] accepts.
    pub(crate) fn new(rate: Rate, dims: Dims) -> Self {
        Self { rate, dims }
    }

    /// Bits of a block of a tensor of this layout.
    pub(crate) fn block_bits(&self, layout: &Layout) -> u32 {
        Parts::new(self, layout).config.map_or(0, |config| config.max_bits())
    }

    fn corrupt(&self, block: usize, reason: &'static str) -> Error {
        Error::Corrupt { codec: self.id(), block, reason }
    }
}

impl Codec for Zfp {
    fn id(&self) -> CodecId {
        CodecId::Zfp { rate: self.rate, dims: self.dims }
    }

    fn fidelity(&self) -> Fidelity {
        Fidelity::FixedRate { bits_per_value: self.rate.bits() }
    }

    fn supports(&self, dtype: Dtype) -> bool {
        matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16)
    }

    fn worst_case(&self, layout: &Layout) -> usize {
        Parts::new(self, layout).payload_bytes
    }

    fn compress(&self, input: TensorView<'_>, out: &mut [u8]) -> Result<usize, Error> {
        self.check_compress(input, out)?;
        let layout = input.layout();
        let parts = Parts::new(self, layout);
        let out = &mut out[..parts.payload_bytes];
        let bytes = parts.elements * width(layout.dtype());
        let work = input.bytes().par_chunks(bytes).zip(out.par_chunks_mut(parts.bytes));
        let one = |(index, (input, out)): (usize, (&[u8], &mut [u8]))| {
            let values = widened(layout.dtype(), input);
            if let Some(at) = values.iter().position(|value| !value.is_finite()) {
                let index = index * parts.elements + at;
                return Some(Error::NotFinite { codec: self.id(), index });
            }
            let done = parts.compress(&values, out);
            done.is_none().then(|| self.corrupt(index, "ZFP refuses the field"))
        };
        match work.enumerate().map(one).find_map_first(|error| error) {
            None => Ok(parts.payload_bytes),
            Some(error) => Err(error),
        }
    }

    fn decompress(&self, payload: &[u8], layout: &Layout, out: &mut [u8]) -> Result<(), Error> {
        self.check_decompress(layout, out)?;
        let parts = Parts::new(self, layout);
        if payload.len() != parts.payload_bytes {
            return Err(self.corrupt(0, "it is not as long as rate and shape say"));
        }
        let bytes = parts.elements * width(layout.dtype());
        let work = payload.par_chunks(parts.bytes).zip(out.par_chunks_mut(bytes));
        let one = |(index, (payload, out)): (usize, (&[u8], &mut [u8]))| {
            let mut values = vec![0.0; out.len() / width(layout.dtype())];
            if parts.decompress(payload, &mut values).is_none() {
                return Some(self.corrupt(index, "ZFP refuses it"));
            }
            narrow(layout.dtype(), &values, out);
            None
        };
        work.enumerate().map(one).find_map_first(|error| error).map_or(Ok(()), Err)
    }
}

/// How a field is cut for threads: along its outermost dimension, where the stream is at a whole
/// word, so that the parts' streams one after the other are the field's stream.
struct Parts {
    config: Option<ZfpConfig>,
    /// Dimensions inside of the outermost one, innermost first as ZFP counts.
    inner: Vec<usize>,
    /// Elements of a part, above 0; the last may have fewer.
    elements: usize,
    /// Compressed bytes of a part, above 0; the last may have fewer.
    bytes: usize,
    payload_bytes: usize,
}

impl Parts {
    fn new(codec: &Zfp, layout: &Layout) -> Self {
        let mut shape = layout.folded(codec.dims.get());
        let outer = if layout.elements() == 0 { 0 } else { shape[0] };
        let rank = shape.len();
        let inner: Vec<usize> = shape.drain(1..).rev().collect();
        let dims = [ZfpDimensionality::D1, ZfpDimensionality::D2, ZfpDimensionality::D3][rank - 1];
        let (rate, unaligned) = (codec.rate.bits(), ZfpStreamAlignment::Unaligned);
        let config = ZfpConfig::fixed_rate(rate, ZfpScalarType::F32, dims, unaligned).ok();
        let product = |dims: &mut dyn Iterator<Item = usize>| dims.fold(1, usize::saturating_mul);
        // A layer is one block thick. The shape may be one that nobody could hold.
        let layer_elements = product(&mut inner.iter().copied()).max(1).saturating_mul(4);
        let layer_blocks = product(&mut inner.iter().map(|dim| dim.div_ceil(4))).max(1);
        let block_bits = config.map_or(0, |config| config.max_bits() as usize);
        let layer_bits = layer_blocks.saturating_mul(block_bits);
        // So many layers end at a whole word.
        let whole = 64 >> layer_bits.trailing_zeros().min(6);
        let layers = (PART_ELEMENTS / layer_elements).max(1).next_multiple_of(whole);
        Self {
            config,
            inner,
            elements: layers.saturating_mul(layer_elements),
            bytes: (layers.saturating_mul(layer_bits) / 8).max(8),
            payload_bytes: outer.div_ceil(4).saturating_mul(layer_bits).div_ceil(64) * 8,
        }
    }

    fn compress(&self, values: &[f32], out: &mut [u8]) -> Option<()> {
        let field = match *self.inner.as_slice() {
            [] => ZfpField::new(values, values.len()),
            [x] => ZfpField::new(values, [x, values.len() / x]),
            [x, y] => ZfpField::new(values, [x, y, values.len() / x / y]),
            _ => return None,
        };
        let field = field.ok()?;
        let config = self.config?;
        let room = config.maximum_size(ZfpScalarType::F32, field.dims())?;
        let mut stream = ZfpBitStream::new(room).ok()?;
        stream.compress(&config, &field).ok()?;
        out.copy_from_slice(stream.as_bytes().get(..out.len())?);
        Some(())
    }

    fn decompress(&self, payload: &[u8], values: &mut [f32]) -> Option<()> {
        let len = values.len();
        let field = match *self.inner.as_slice() {
            [] => ZfpFieldMut::new(values, len),
            [x] => ZfpFieldMut::new(values, [x, len / x]),
            [x, y] => ZfpFieldMut::new(values, [x, y, len / x / y]),
            _ => return None,
        };
        let mut stream = ZfpBitStream::from_bytes(payload).ok()?;
        stream.decompress(&self.config?, &mut field.ok()?).ok()?;
        Some(())
    }
}

/// Elements as f32, which is exact.
fn widened(dtype: Dtype, bytes: &[u8]) -> Vec<f32> {
    let halves = || bytes.as_chunks().0.iter().copied();
    match dtype {
        Dtype::F16 => {
            let mut values = vec![0.0; bytes.len() / 2];
            halves().map(f16::from_le_bytes).collect::<Vec<_>>().convert_to_f32_slice(&mut values);
            values
        }
        Dtype::Bf16 => halves().map(|half| bf16::from_le_bytes(half).to_f32()).collect(),
        _ => bytes.as_chunks().0.iter().copied().map(f32::from_le_bytes).collect(),
    }
}

/// The inverse of [`widened`]: the nearest value that is not infinite.
fn narrow(dtype: Dtype, values: &[f32], out: &mut [u8]) {
    match dtype {
        Dtype::F16 => {
            let limit = f16::MAX.to_f32();
            let mut halves = vec![f16::ZERO; values.len()];
            let values: Vec<f32> = values.iter().map(|v| v.clamp(-limit, limit)).collect();
            halves.convert_from_f32_slice(&values);
            for (place, half) in out.chunks_exact_mut(2).zip(halves) {
                place.copy_from_slice(&half.to_le_bytes());
            }
        }
        Dtype::Bf16 => {
            let limit = bf16::MAX.to_f32();
            for (place, value) in out.chunks_exact_mut(2).zip(values) {
                let half = bf16::from_f32(value.clamp(-limit, limit));
                place.copy_from_slice(&half.to_le_bytes());
            }
        }
        _ => {
            for (place, value) in out.chunks_exact_mut(4).zip(values) {
                place.copy_from_slice(&value.to_le_bytes());
            }
        }
    }
}

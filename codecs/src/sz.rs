//! SZ: compression within an absolute error.
//!
//! Source: cuSZ (Tian et al., PACT 2020), the compressor that COMET (Jin et al., VLDB 2022) builds
//! on. Three steps:
//!
//! 1. *Dual quantisation*: `q = round(x / 2 eb)`, the only step that loses anything, before any
//!    prediction. What cannot be kept within the bound is an *exception* and stored as it is.
//! 2. *Lorenzo prediction* on these integers, in up to the dimensions that the codec's name gives
//!    (`sz:1e-3:2d`).
//! 3. *Huffman coding* of what the prediction leaves.
//!
//! Where this departs, and why:
//!
//! - Each block chooses how many dimensions its predictor has, none included: half-zero data whose
//!   neighbours are independent costs a third less unpredicted.
//! - The alphabet is runs of zeros and magnitude classes instead of the differences within a
//!   radius, so that small bounds need no list of those outside of it, and half-zero data no bit
//!   per zero.
//! - Each block has a Huffman code of its own, so that it depends on nothing else.
//!
//! # Promise
//!
//! - Every finite value comes back within the bound; with 16-bit types after rounding to the type.
//! - Zeros come back as zeros, and so does in a compressed block all that is within the bound of
//!   zero, subnormal numbers included. These zeros are +0.0; a block that is raw keeps -0.0. So
//!   there is nothing to mend for COMET's filter (section 3.4), which makes zeros again of what a
//!   compressor that predicts before it quantises has moved off zero.
//! - NaN, with its payload, and infinities come back bit by bit, as do numbers of more than 2^22
//!   steps of `2 eb`. With a bound under 1e-37 all numbers do.
//!
//! # Payload
//!
//! A table of blocks, as all codecs of independent blocks have. A block is a tensor of its own: as
//! many whole planes as fit 65536 elements; if none does, as many whole rows; if none does, 65536
//! elements. Planes and rows are those of the shape folded to the codec's dimensions, without
//! dimensions of 1. No neighbour lies in another block. A block of n elements in s = ceil(n / 2048)
//! segments:
//!
//! - u16: along how many axes, the last first, differences were taken;
//! - u16: the number of tokens up to the last that occurs;
//! - u16: the number of exceptions;
//! - u16: 0;
//! - s times u16: the bytes of a segment's stream;
//! - 4 bits per token, low ones first: the length of its code word, 0 if it does not occur;
//! - the streams; each begins at a byte, its first bit is the byte's lowest, and code words (of the
//!   canonical code, first bit first) are followed by their extra bits, lowest first;
//! - the exceptions' indices in the block, u16, ascending; then their values.
//!
//! Whoever writes the same bytes must also choose as this does; `lorenzo.rs` has what decides along
//! how many axes (the fewest of equal cost), `token.rs` the numbers of tokens, `huffman.rs` the
//! lengths of code words. A block whose size, with every stream's last byte counted in full, would
//! not be less than uncompressed is raw.
//!
//! # SZ as it was
//!
//! SZ 1.4 (Tao et al., IPDPS 2017) stores the first value as it is, predicts each of the others from those before as they
//! will be reconstructed, and quantises what is left. So all values lie whole steps of `2 eb` from the first, and a zero
//! comes back as what of these is nearest: within the bound, and the same wherever it stands. That is what COMET (section
//! 4.2) says of the SZ that it mends. [`CodecId::Sz14`] is here to be compared with (its figure 10), on the host alone:
//! a block begins with its first value as an f32, from which on steps are counted, and goes on as above. A tensor of
//! SZ 1.4 is one sequence, and what it could not predict begins another; here each block begins one.

mod bits;
mod block;
mod huffman;
mod lorenzo;
mod quantize;
mod token;

use half::{bf16, f16};
use schema::Dtype;

use crate::layout::width;
use crate::payload;
use crate::{Codec, CodecId, Dims, Error, ErrorBound, Fidelity, Layout, TensorView};
use block::Blocks;

pub(crate) use block::BLOCK as BLOCK_ELEMENTS;

/// What kernels need to know of this codec's bytes.
pub(crate) fn kernel_constants() -> [(&'static str, u64); 10] {
    [
        ("SZ_BLOCK", block::BLOCK as u64),
        ("SZ_HEADER", block::HEADER as u64),
        ("SZ_SEGMENT", token::SEGMENT as u64),
        ("SZ_VALUE_BITS", u64::from(token::VALUE_BITS)),
        ("SZ_RUN_BITS", u64::from(token::RUN_BITS)),
        ("SZ_RUN_TOKENS", token::RUN_TOKENS as u64),
        ("SZ_TOKENS", token::TOKENS as u64),
        ("SZ_MAX_LENGTH", u64::from(huffman::MAX_LENGTH)),
        ("SZ_LIMIT_BITS", u64::from(quantize::LIMIT.to_bits())),
        ("SZ_SHIFTER_BITS", u64::from(quantize::SHIFTER.to_bits())),
    ]
}

/// What kernels need to know of a tensor.
pub(crate) struct KernelSetting {
    pub(crate) block_elements: u64,
    /// Of each axis, from a line of neighbours to the next; there are at most three.
    pub(crate) extents: Vec<u64>,
    /// Error bound, step and its inverse; zeros where every block is raw.
    pub(crate) steps: [f32; 3],
}

/// SZ within an absolute error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sz {
    bound: ErrorBound,
    dims: Dims,
    keeps_zeros: bool,
}

impl Sz {
    /// Within this error, with a predictor of up to these dimensions.
    pub(crate) fn new(bound: ErrorBound, dims: Dims) -> Self {
        Self { bound, dims, keeps_zeros: true }
    }

    /// Within this error, with steps that are counted from the first value of each block.
    pub(crate) fn as_it_was(bound: ErrorBound) -> Self {
        Self { bound, dims: Dims::One, keeps_zeros: false }
    }

    /// What kernels need to know of a tensor of this layout.
    pub(crate) fn kernel_setting(&self, layout: &Layout) -> KernelSetting {
        let blocks = self.blocks::<f32>(layout);
        KernelSetting {
            block_elements: blocks.elements() as u64,
            extents: blocks.extents(),
            steps: blocks.steps(),
        }
    }

    fn blocks<E>(&self, layout: &Layout) -> Blocks<E> {
        let shape = layout.folded(self.dims.get());
        Blocks::new(self.id(), self.bound.get(), self.keeps_zeros, &shape)
    }
}

impl Codec for Sz {
    fn id(&self) -> CodecId {
        match self.keeps_zeros {
            true => CodecId::Sz { bound: self.bound, dims: self.dims },
            false => CodecId::Sz14 { bound: self.bound },
        }
    }

    fn fidelity(&self) -> Fidelity {
        Fidelity::Bounded { max_abs_error: self.bound.get() }
    }

    fn supports(&self, dtype: Dtype) -> bool {
        matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16)
    }

    fn worst_case(&self, layout: &Layout) -> usize {
        let elements = self.blocks::<f32>(layout).elements();
        payload::worst_case(layout.bytes(), elements * width(layout.dtype()))
    }

    fn compress(&self, input: TensorView<'_>, out: &mut [u8]) -> Result<usize, Error> {
        self.check_compress(input, out)?;
        let layout = input.layout();
        Ok(match layout.dtype() {
            Dtype::F16 => payload::compress(&self.blocks::<f16>(layout), input.bytes(), out),
            Dtype::Bf16 => payload::compress(&self.blocks::<bf16>(layout), input.bytes(), out),
            _ => payload::compress(&self.blocks::<f32>(layout), input.bytes(), out),
        })
    }

    fn decompress(&self, payload: &[u8], layout: &Layout, out: &mut [u8]) -> Result<(), Error> {
        self.check_decompress(layout, out)?;
        match layout.dtype() {
            Dtype::F16 => payload::decompress(&self.blocks::<f16>(layout), payload, out),
            Dtype::Bf16 => payload::decompress(&self.blocks::<bf16>(layout), payload, out),
            _ => payload::decompress(&self.blocks::<f32>(layout), payload, out),
        }
    }
}

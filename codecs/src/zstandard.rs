//! Zstandard in independent blocks: not meant for the hot path, but a reference for what a general
//! compressor gets out of the same bytes. Behind the cargo feature `zstd`.
//!
//! Blocks are 256 KiB of any element type, in the [table of blocks](crate::payload); each is a
//! Zstandard frame at level 3.

use schema::Dtype;

use crate::payload::{self, BlockCodec};
use crate::{Codec, CodecId, Error, Fidelity, Layout, TensorView};

const BLOCK_BYTES: usize = 256 << 10;
/// The level that the library takes by default.
const LEVEL: i32 = 3;

/// Zstandard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Zstd;

impl Codec for Zstd {
    fn id(&self) -> CodecId {
        CodecId::Zstd
    }

    fn fidelity(&self) -> Fidelity {
        Fidelity::Lossless
    }

    fn supports(&self, _: Dtype) -> bool {
        true
    }

    fn worst_case(&self, layout: &Layout) -> usize {
        payload::worst_case(layout.bytes(), BLOCK_BYTES)
    }

    fn compress(&self, input: TensorView<'_>, out: &mut [u8]) -> Result<usize, Error> {
        self.check_compress(input, out)?;
        Ok(payload::compress(self, input.bytes(), out))
    }

    fn decompress(&self, payload: &[u8], layout: &Layout, out: &mut [u8]) -> Result<(), Error> {
        self.check_decompress(layout, out)?;
        payload::decompress(self, payload, out)
    }
}

impl BlockCodec for Zstd {
    fn id(&self) -> CodecId {
        CodecId::Zstd
    }

    fn block_bytes(&self) -> usize {
        BLOCK_BYTES
    }

    fn compress_block(&self, block: &[u8], out: &mut [u8]) -> usize {
        zstd::bulk::compress_to_buffer(block, out, LEVEL).unwrap_or(usize::MAX)
    }

    fn decompress_block(&self, block: &[u8], out: &mut [u8]) -> Result<(), &'static str> {
        match zstd::bulk::decompress_to_buffer(block, out) {
            Ok(len) if len == out.len() => Ok(()),
            Ok(_) => Err("it holds less than a block"),
            Err(_) => Err("it is not a Zstandard frame"),
        }
    }
}

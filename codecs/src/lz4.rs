//! LZ4 in independent blocks.
//!
//! Blocks are 64 KiB of any element type, in the [table of blocks](crate::payload); each is an LZ4
//! block (no frame, no dictionary) as the format's specification has it.

use schema::Dtype;

use crate::payload::{self, BlockCodec};
use crate::{Codec, CodecId, Error, Fidelity, Layout, TensorView};

/// What LZ4 looks back at most, so that larger blocks would gain nothing.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;

/// LZ4.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lz4;

impl Codec for Lz4 {
    fn id(&self) -> CodecId {
        CodecId::Lz4
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

impl BlockCodec for Lz4 {
    fn id(&self) -> CodecId {
        CodecId::Lz4
    }

    fn block_bytes(&self) -> usize {
        BLOCK_BYTES
    }

    fn compress_block(&self, block: &[u8], out: &mut [u8]) -> usize {
        lz4_flex::block::compress_into(block, out).unwrap_or(usize::MAX)
    }

    fn decompress_block(&self, block: &[u8], out: &mut [u8]) -> Result<(), &'static str> {
        match lz4_flex::block::decompress_into(block, out) {
            Ok(len) if len == out.len() => Ok(()),
            Ok(_) => Err("it holds less than a block"),
            Err(_) => Err("it is not an LZ4 block"),
        }
    }
}

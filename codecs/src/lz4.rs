//! LZ4 in independent blocks.
//!
//! Blocks are 64 KiB of any element type, in the [table of blocks](crate::payload); each is an LZ4
//! block (no frame, no dictionary) as the format's specification has it.

use crate::CodecId;
use crate::bytewise::ByteCodec;

/// What LZ4 looks back at most, so that larger blocks would gain nothing.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Lz4;

impl ByteCodec for Lz4 {
    const ID: CodecId = CodecId::Lz4;
    const BLOCK_BYTES: usize = BLOCK_BYTES;
    const DAMAGED: &'static str = "it is not an LZ4 block";

    fn compress(block: &[u8], out: &mut [u8]) -> Option<usize> {
        lz4_flex::block::compress_into(block, out).ok()
    }

    fn decompress(block: &[u8], out: &mut [u8]) -> Option<usize> {
        lz4_flex::block::decompress_into(block, out).ok()
    }
}

//! Zstandard in independent blocks: not meant for the hot path, but a reference for what a general
//! compressor gets out of the same bytes. Behind the cargo feature `zstd`.
//!
//! Blocks are 256 KiB of any element type, in the [table of blocks](crate::payload); each is a
//! Zstandard frame at level 3.

use crate::CodecId;
use crate::bytewise::ByteCodec;

/// The level that the library takes by default.
const LEVEL: i32 = 3;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Zstd;

impl ByteCodec for Zstd {
    const ID: CodecId = CodecId::Zstd;
    const BLOCK_BYTES: usize = 256 << 10;
    const DAMAGED: &'static str = "it is not a Zstandard frame";

    fn compress(block: &[u8], out: &mut [u8]) -> Option<usize> {
        zstd::bulk::compress_to_buffer(block, out, LEVEL).ok()
    }

    fn decompress(block: &[u8], out: &mut [u8]) -> Option<usize> {
        zstd::bulk::decompress_to_buffer(block, out).ok()
    }
}

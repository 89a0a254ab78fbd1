//! ZVC: zero-value compression.
//!
//! Source: Rhu et al., "Compressing DMA Engine: Leveraging Activation Sparsity for Training Deep
//! Neural Networks" (HPCA 2018), section V: a bit per element says whether it is non-zero, and the
//! non-zeros follow. There each 32 elements carry their bitmap with them; here the bitmaps of a
//! block come first, so that all threads of a GPU find theirs without reading values.
//!
//! Blocks are 4096 elements of 2 or 4 bytes, in the [table of blocks](crate::payload). A block of n
//! elements:
//!
//! - ceil(n / 32) bitmaps, u32: bit i of bitmap j says that element 32 j + i has a bit set;
//! - the elements that have, in order.

use crate::CodecId;
use crate::pack::{BLOCK, LANES, bitmaps, gather, scatter};
use crate::words::{Word, WordCodec};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Zvc;

impl WordCodec for Zvc {
    const ID: CodecId = CodecId::Zvc;
    const BLOCK: usize = BLOCK;

    fn compress<W: Word>(block: &[u8], out: &mut [u8]) -> usize {
        let bitmaps = bitmaps::<W>(block);
        let (head, values) = out.split_at_mut(head_bytes::<W>(block.len()));
        for (place, bitmap) in head.chunks_exact_mut(4).zip(&bitmaps) {
            bitmap.write(place);
        }
        head.len() + gather::<W>(block, &bitmaps, values)
    }

    fn decompress<W: Word>(block: &[u8], out: &mut [u8]) -> Result<(), &'static str> {
        let Some((head, values)) = block.split_at_checked(head_bytes::<W>(out.len())) else {
            return Err("the bitmaps are cut off");
        };
        let mut bitmaps = [0; BLOCK / LANES];
        for (bitmap, bytes) in bitmaps.iter_mut().zip(head.chunks_exact(4)) {
            *bitmap = u32::read(bytes);
        }
        scatter::<W>(&bitmaps, values, out)
    }
}

/// Bytes of the bitmaps of a block of so many bytes.
fn head_bytes<W: Word>(block: usize) -> usize {
    4 * (block / W::WIDTH).div_ceil(LANES)
}

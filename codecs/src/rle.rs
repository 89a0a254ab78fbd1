//! RLE: run lengths of zeros.
//!
//! One of the two encodings that CSWAP+ (section 2.3) and cDMA (HPCA 2018, section V) set beside
//! ZVC; neither gives its bytes. Here a block is its run lengths, alternately of zeros and of
//! non-zeros, and then the non-zeros: runs and values apart, so that a GPU finds its place in both
//! by prefix sums.
//!
//! Blocks are 4096 elements of 2 or 4 bytes, in the [table of blocks](crate::payload). A block:
//!
//! - the number of runs, u32;
//! - the run lengths, u16 each: zeros, non-zeros, zeros, ...; only the first may be 0; their sum is
//!   the number of elements;
//! - zeros up to a multiple of 4;
//! - the non-zeros, in order.

use crate::CodecId;
use crate::pack::{BLOCK, Bitmaps, LANES, bitmaps, gather, scatter};
use crate::words::{Word, WordCodec};

/// Run-length encoding of zeros.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rle;

impl WordCodec for Rle {
    const ID: CodecId = CodecId::Rle;
    const BLOCK: usize = BLOCK;

    fn compress<W: Word>(block: &[u8], out: &mut [u8]) -> usize {
        let bitmaps = bitmaps::<W>(block);
        let mut edges = [0; BLOCK + 1];
        let count = edges_of(&bitmaps, block.len() / W::WIDTH, &mut edges);
        let (head, values) = out.split_at_mut(head_bytes(count));
        head.fill(0);
        (count as u32).write(&mut head[..4]);
        let mut before = 0;
        for (place, edge) in head[4..].chunks_exact_mut(2).zip(&edges[..count]) {
            (edge - before).write(place);
            before = *edge;
        }
        head.len() + gather::<W>(block, &bitmaps, values)
    }

    fn decompress<W: Word>(block: &[u8], out: &mut [u8]) -> Result<(), &'static str> {
        let elements = out.len() / W::WIDTH;
        let count = block.first_chunk().map_or(0, |count| u32::from_le_bytes(*count) as usize);
        if count > elements + 1 {
            return Err("there are more runs than elements");
        }
        let Some((head, values)) = block.split_at_checked(head_bytes(count)) else {
            return Err("the runs are cut off");
        };
        let runs = head[4..].chunks_exact(2).take(count).map(u16::read);
        scatter::<W>(&bitmaps_of(runs, elements)?, values, out)
    }
}

/// Bytes before the values of a block with so many runs.
fn head_bytes(runs: usize) -> usize {
    4 + (2 * runs).next_multiple_of(4)
}

/// Where runs end: the elements that differ from the one before, which for the first is a zero, and
/// the end of the block. Returns how many there are.
fn edges_of(bitmaps: &Bitmaps, elements: usize, edges: &mut [u16; BLOCK + 1]) -> usize {
    let (mut count, mut before) = (0, 0);
    for (index, bitmap) in bitmaps[..elements.div_ceil(LANES)].iter().enumerate() {
        let mut changes = bitmap ^ (bitmap << 1 | before);
        before = bitmap >> (LANES - 1);
        while changes != 0 {
            let edge = index * LANES + changes.trailing_zeros() as usize;
            // Behind the last element the bitmap is zero: that edge is the end of the block.
            edges[count] = edge as u16;
            count += 1;
            changes &= changes - 1;
        }
    }
    if count == 0 || usize::from(edges[count - 1]) != elements {
        edges[count] = elements as u16;
        count += 1;
    }
    count
}

/// The inverse of [`edges_of`], from run lengths.
fn bitmaps_of(runs: impl Iterator<Item = u16>, elements: usize) -> Result<Bitmaps, &'static str> {
    // One bit at each edge; then each element is the exclusive or of all edges up to it.
    let mut bitmaps = [0u32; BLOCK / LANES];
    let mut edge = 0;
    for (index, run) in runs.enumerate() {
        if run == 0 && index > 0 {
            return Err("a run has no elements");
        }
        edge += usize::from(run);
        if edge > elements {
            return Err("the runs have more elements than the block");
        }
        if edge < elements {
            bitmaps[edge / LANES] |= 1 << (edge % LANES);
        }
    }
    if edge != elements {
        return Err("the runs have fewer elements than the block");
    }
    let mut before = 0;
    for bitmap in &mut bitmaps[..elements.div_ceil(LANES)] {
        for shift in [1, 2, 4, 8, 16] {
            *bitmap ^= *bitmap << shift;
        }
        *bitmap ^= before;
        before = 0u32.wrapping_sub(*bitmap >> (LANES - 1));
    }
    // A run of non-zeros that ends the block has no edge that would end it.
    if !elements.is_multiple_of(LANES) {
        bitmaps[elements / LANES] &= (1 << (elements % LANES)) - 1;
    }
    Ok(bitmaps)
}

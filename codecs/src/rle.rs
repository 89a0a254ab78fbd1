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

use std::cmp::Ordering;

use crate::CodecId;
use crate::pack::{BLOCK, Bitmaps, LANES, Marks, NUMBERS_BYTES, bitmaps, gather, numbers, scatter};
use crate::words::{Word, WordCodec};

/// Run-length encoding of zeros.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rle;

impl WordCodec for Rle {
    const ID: CodecId = CodecId::Rle;
    const BLOCK: usize = BLOCK;

    fn compress<W: Word>(block: &[u8], out: &mut [u8]) -> usize {
        let bitmaps = bitmaps::<W>(block);
        let edges = Edges::of(&bitmaps, block.len() / W::WIDTH);
        let (head, values) = out.split_at_mut(head_bytes(edges.count));
        head.fill(0);
        let (count, runs) = head.split_at_mut(4);
        (edges.count as u32).write(count);
        for (place, run) in runs.chunks_exact_mut(2).zip(edges.runs()) {
            run.write(place);
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
        scatter::<W>(&bitmaps_of(&head[4..4 + 2 * count], elements)?, values, out)
    }
}

/// Bytes before the values of a block with so many runs.
fn head_bytes(runs: usize) -> usize {
    4 + (2 * runs).next_multiple_of(4)
}

/// Where runs end: the elements that differ from the one before, which for the first is a zero, and
/// the end of the block.
struct Edges {
    /// Two bytes each.
    bytes: [u8; NUMBERS_BYTES],
    count: usize,
}

impl Edges {
    fn of(bitmaps: &Bitmaps, elements: usize) -> Self {
        let mut changes = *bitmaps;
        for index in 0..changes.len() {
            let before = if index == 0 { 0 } else { bitmaps[index - 1] >> (LANES - 1) };
            changes[index] ^= bitmaps[index] << 1 | before;
        }
        let mut bytes = [0; NUMBERS_BYTES];
        let mut count = numbers(&changes, &mut bytes);
        // Behind the last element the bitmaps are zero: a change there is the end of the block.
        let last = count.checked_sub(1).map(|last| u16::read(&bytes[2 * last..2 * count]));
        if last.map(usize::from) != Some(elements) {
            (elements as u16).write(&mut bytes[2 * count..2 * count + 2]);
            count += 1;
        }
        Self { bytes, count }
    }

    /// From each to the next, and from 0 to the first.
    fn runs(&self) -> impl Iterator<Item = u16> {
        let edges = self.bytes.as_chunks().0[..self.count].iter().copied().map(u16::from_le_bytes);
        edges.scan(0, |before, edge| {
            let run = edge - *before;
            *before = edge;
            Some(run)
        })
    }
}

/// Bitmaps of runs, two bytes each.
fn bitmaps_of(runs: &[u8], elements: usize) -> Result<Bitmaps, &'static str> {
    let (first, others) = runs.as_chunks().0.split_first().unwrap_or((&[0; 2], &[]));
    // One bit at each edge; then each element is the exclusive or of all edges up to it.
    let mut marks = Marks::new();
    let mut edge = usize::from(u16::from_le_bytes(*first));
    let mut mark = |run: &[u8; 2]| {
        marks.set(edge);
        edge += usize::from(u16::from_le_bytes(*run));
    };
    // Eight to a turn of the loop, which would take longer than a run does.
    let (eights, rest) = others.as_chunks::<8>();
    eights.iter().for_each(|eight| eight.iter().for_each(&mut mark));
    rest.iter().for_each(mark);
    let any_empty = others.iter().fold(false, |any, run| any | (*run == [0; 2]));
    match edge.cmp(&elements) {
        Ordering::Less => return Err("the runs have fewer elements than the block"),
        Ordering::Greater => return Err("the runs have more elements than the block"),
        Ordering::Equal if any_empty => return Err("a run has no elements"),
        Ordering::Equal => {}
    }
    let mut bitmaps = marks.bitmaps();
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

//! CSR: compressed sparse rows.
//!
//! One of the codecs of CSWAP+ (section 2.3). The column indices are a byte each, in rows of 256
//! elements whatever the tensor's shape: the narrow values of Jain et al., "Gist" (ISCA 2018),
//! section IV-A, without which half-zero data would not shrink at all.
//!
//! Blocks are 4096 elements of 2 or 4 bytes (16 rows), in the [table of blocks](crate::payload). A
//! block of r rows (the last one shorter where the tensor ends):
//!
//! - r row ends, u16: how many non-zeros there are up to the end of each row;
//! - zeros up to a multiple of 4;
//! - for each non-zero a u8: its column, ascending within its row;
//! - zeros up to a multiple of 4;
//! - the non-zeros, in order.

use crate::CodecId;
use crate::pack::{BLOCK, LANES, Marks, NUMBERS_BYTES, bitmaps, gather, numbers, scatter};
use crate::words::{Word, WordCodec};

pub(crate) const ROW: usize = 256;
const ROW_MAPS: usize = ROW / LANES;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Csr;

impl WordCodec for Csr {
    const ID: CodecId = CodecId::Csr;
    const BLOCK: usize = BLOCK;

    fn compress<W: Word>(block: &[u8], out: &mut [u8]) -> usize {
        let bitmaps = bitmaps::<W>(block);
        let (ends, columns) = out.split_at_mut(ends_bytes::<W>(block.len()));
        ends.fill(0);
        let mut end = 0;
        let rows = (block.len() / W::WIDTH).div_ceil(ROW);
        for (row, place) in bitmaps.chunks(ROW_MAPS).zip(ends.chunks_exact_mut(2)).take(rows) {
            end += row.iter().map(|bitmap| bitmap.count_ones()).sum::<u32>();
            (end as u16).write(place);
        }
        let mut elements = [0; NUMBERS_BYTES];
        let count = numbers(&bitmaps, &mut elements);
        // The column is the lower byte of an element's number.
        for (column, [low, _]) in columns.iter_mut().zip(&elements.as_chunks().0[..count]) {
            *column = *low;
        }
        let padded = count.next_multiple_of(4);
        columns[count..padded].fill(0);
        ends.len() + padded + gather::<W>(block, &bitmaps, &mut columns[padded..])
    }

    fn decompress<W: Word>(block: &[u8], out: &mut [u8]) -> Result<(), &'static str> {
        let Some((ends, columns)) = block.split_at_checked(ends_bytes::<W>(out.len())) else {
            return Err("the row ends are cut off");
        };
        let rows = (out.len() / W::WIDTH).div_ceil(ROW);
        let mut marks = Marks::new();
        let mut begin = 0;
        for (row, end) in ends.chunks_exact(2).take(rows).enumerate() {
            let end = usize::from(u16::read(end));
            let columns = columns.get(begin..end).ok_or("a row lies outside of the columns")?;
            if !ascend(columns) {
                return Err("the columns of a row do not ascend");
            }
            columns.iter().for_each(|column| marks.set(row * ROW + usize::from(*column)));
            begin = end;
        }
        let values = columns.get(begin.next_multiple_of(4)..).ok_or("the columns are cut off")?;
        scatter::<W>(&marks.bitmaps(), values, out)
    }
}

/// Bytes of the row ends of a block of so many bytes.
fn ends_bytes<W: Word>(block: usize) -> usize {
    (2 * (block / W::WIDTH).div_ceil(ROW)).next_multiple_of(4)
}

/// Whether each is above the one before. All are looked at, many at a time.
fn ascend(columns: &[u8]) -> bool {
    let pairs = columns.iter().zip(columns.get(1..).unwrap_or_default());
    pairs.fold(true, |ascend, (left, right)| ascend & (left < right))
}

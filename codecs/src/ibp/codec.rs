//! IBP as a codec of tensors.

use rayon::prelude::*;
use schema::Dtype;

use super::{ChunkSize, IbpError, Metadata, RowCoder, Rows, analyse};
use crate::{Codec, CodecId, Error, Fidelity, Layout, TensorView};

/// Rows below which nothing is compressed: Mask and Bitval alone are as long as two.
const FEWEST_ROWS: usize = 8;
/// What a thread compresses at a time.
const GROUP_BYTES: usize = 256 << 10;
/// First number of a payload that holds the tensor as it is.
const RAW: u128 = 0;
/// Bytes of the first number, which otherwise is the bytes of a chunk.
pub(crate) const KIND_BYTES: usize = size_of::<u128>();
/// What follows Mask and Bitval, and what follows the table, begins at a multiple of this.
pub(crate) const ALIGN: usize = 16;

/// Invariant bit packing of a tensor as a table: the last dimension is a row, all others are
/// merged.
///
/// Payload of a tensor that becomes smaller:
///
/// - the bytes of a chunk, as a number of 16 bytes;
/// - Mask and Bitval, and zeros up to a multiple of 16;
/// - the bytes that each row takes, u32 each, and zeros up to a multiple of 16;
/// - the [rows](super), back to back. One that takes as many bytes as uncompressed is not compressed.
///
/// Of any other tensor: 0, as a number of 16 bytes; the tensor. Where a row is no whole number of
/// chunks, the chunk is halved until it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ibp {
    chunk: ChunkSize,
}

impl Ibp {
    pub(crate) fn new(chunk: ChunkSize) -> Self {
        Self { chunk }
    }

    /// Rows and bytes of a row, if there are enough rows that can be packed.
    pub(crate) fn table(layout: &Layout) -> Option<(usize, usize)> {
        let rows = layout.folded(2)[0];
        let row_bytes = layout.bytes().checked_div(rows)?;
        let fits = row_bytes > 0 && u32::try_from(row_bytes).is_ok();
        (rows >= FEWEST_ROWS && layout.folded(2).len() == 2 && fits).then_some((rows, row_bytes))
    }

    /// Writes the payload of a tensor and returns its length, unless it would be as long as the
    /// tensor.
    fn pack(&self, rows: Rows<'_>, out: &mut [u8]) -> Result<Option<usize>, IbpError> {
        let row_bytes = rows.row_bytes();
        let fits = |chunk: &&ChunkSize| row_bytes.is_multiple_of(chunk.bytes());
        let smaller = ChunkSize::ALL.iter().rev().filter(|&&chunk| chunk <= self.chunk);
        let chunk = *smaller.clone().find(fits).unwrap_or(&ChunkSize::One);
        let coder = RowCoder::new(analyse(rows, chunk)?.metadata, chunk)?;
        let group_bytes = (GROUP_BYTES / row_bytes).max(1) * row_bytes;
        let groups = rows.bytes().par_chunks(group_bytes);
        let groups: Vec<Group> = groups.map(|rows| Group::pack(&coder, rows)).collect();
        let table = KIND_BYTES + coder.metadata().bytes().next_multiple_of(ALIGN);
        let head = table + (4 * rows.len()).next_multiple_of(ALIGN);
        let bytes = head + groups.iter().map(|group| group.bytes.len()).sum::<usize>();
        if bytes >= KIND_BYTES + rows.bytes().len() {
            return Ok(None);
        }
        let (start, rest) = out.split_at_mut(head);
        let (metadata, lengths) = start.split_at_mut(table);
        metadata.fill(0);
        let fields: [&[u8]; 3] = [
            &(chunk.bytes() as u128).to_le_bytes(),
            coder.metadata().mask(),
            coder.metadata().bitval(),
        ];
        for (place, byte) in metadata.iter_mut().zip(fields.into_iter().flatten()) {
            *place = *byte;
        }
        let lengths = lengths.as_chunks_mut::<4>().0;
        lengths[rows.len()..].fill([0; 4]);
        let of_rows = groups.iter().flat_map(|group| &group.lengths);
        for (place, length) in lengths.iter_mut().zip(of_rows) {
            *place = length.to_le_bytes();
        }
        let mut rest = &mut rest[..bytes - head];
        let places = groups.iter().map(|group| {
            let (place, behind) = std::mem::take(&mut rest).split_at_mut(group.bytes.len());
            rest = behind;
            (place, group)
        });
        let places: Vec<_> = places.collect();
        places.into_par_iter().for_each(|(place, group)| place.copy_from_slice(&group.bytes));
        Ok(Some(bytes))
    }

    fn unpack(
        &self,
        payload: &[u8],
        chunk: u128,
        row_bytes: usize,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let corrupt = |row, reason| Error::Corrupt { codec: self.id(), block: row, reason };
        let rows = out.len() / row_bytes;
        let mut rest = payload;
        let mut take = |bytes: usize| {
            let (taken, behind) = rest.split_at_checked(bytes.next_multiple_of(ALIGN))?;
            rest = behind;
            let (taken, zeros) = taken.split_at(bytes);
            zeros.iter().all(|&zero| zero == 0).then_some(taken)
        };
        let head = take(2 * row_bytes).zip(take(4 * rows));
        let (metadata, lengths) = head.ok_or_else(|| corrupt(0, "the table of rows is cut off"))?;
        let (mask, bitval) = metadata.split_at(row_bytes);
        let lengths = lengths.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
        let mut packed = Vec::with_capacity(rows);
        for (row, bytes) in lengths.enumerate() {
            let Some((bytes, behind)) = rest.split_at_checked(bytes as usize) else {
                return Err(corrupt(row, "it lies outside of the payload"));
            };
            packed.push(bytes);
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(corrupt(rows, "there is more behind the last row"));
        }
        let coder = ChunkSize::from_bytes(usize::try_from(chunk).unwrap_or(0))
            .and_then(|chunk| RowCoder::new(Metadata::new(mask.to_vec(), bitval.to_vec())?, chunk));
        let coder = coder.map_err(|_| corrupt(0, "no rows have such chunks, Mask and Bitval"))?;
        let one = |(row, (bytes, out)): (usize, (&&[u8], &mut [u8]))| {
            if bytes.len() == row_bytes {
                out.copy_from_slice(bytes);
                return None;
            }
            match coder.decompress(bytes, out) {
                Ok(taken) if taken == bytes.len() => None,
                Ok(_) => Some(corrupt(row, "a row is longer than its bits")),
                Err(IbpError::Corrupt(reason)) => Some(corrupt(row, reason)),
                Err(_) => Some(corrupt(row, "a row has another size")),
            }
        };
        let rows = packed.par_iter().zip(out.par_chunks_exact_mut(row_bytes)).enumerate();
        // The first one, so that the error is the same on any number of threads.
        rows.map(one).find_map_first(|error| error).map_or(Ok(()), Err)
    }
}

/// Rows that one thread has compressed, back to back.
struct Group {
    bytes: Vec<u8>,
    lengths: Vec<u32>,
}

impl Group {
    fn pack(coder: &RowCoder, rows: &[u8]) -> Self {
        let row_bytes = coder.row_bytes();
        let count = rows.len() / row_bytes;
        let (mut bytes, mut lengths) = (Vec::with_capacity(rows.len()), Vec::with_capacity(count));
        for row in rows.chunks_exact(row_bytes) {
            let begin = bytes.len();
            if !coder.compress(row, &mut bytes) {
                bytes.extend_from_slice(row);
            }
            lengths.push((bytes.len() - begin) as u32);
        }
        Self { bytes, lengths }
    }
}

impl Codec for Ibp {
    fn id(&self) -> CodecId {
        CodecId::Ibp { chunk: self.chunk }
    }

    fn fidelity(&self) -> Fidelity {
        Fidelity::Lossless
    }

    fn supports(&self, _: Dtype) -> bool {
        true
    }

    fn worst_case(&self, layout: &Layout) -> usize {
        KIND_BYTES + layout.bytes()
    }

    fn compress(&self, input: TensorView<'_>, out: &mut [u8]) -> Result<usize, Error> {
        self.check_compress(input, out)?;
        let table = Self::table(input.layout());
        let rows = table.and_then(|(_, row_bytes)| Rows::new(input.bytes(), row_bytes).ok());
        // A table always has an analysis: its chunks fit and it has rows.
        let packed = rows.and_then(|rows| self.pack(rows, out).ok().flatten());
        let bytes = match packed {
            Some(bytes) => bytes,
            None => {
                let end = KIND_BYTES + input.bytes().len();
                out[..KIND_BYTES].copy_from_slice(&RAW.to_le_bytes());
                out[KIND_BYTES..end].copy_from_slice(input.bytes());
                end
            }
        };
        Ok(bytes)
    }

    fn decompress(&self, payload: &[u8], layout: &Layout, out: &mut [u8]) -> Result<(), Error> {
        self.check_decompress(layout, out)?;
        let corrupt = |reason| Error::Corrupt { codec: self.id(), block: 0, reason };
        let Some((kind, rest)) = payload.split_first_chunk::<KIND_BYTES>() else {
            return Err(corrupt("it does not say whether it is compressed"));
        };
        match (u128::from_le_bytes(*kind), Self::table(layout)) {
            (RAW, _) if rest.len() != out.len() => Err(corrupt("it is not as long as the tensor")),
            (RAW, _) => {
                out.copy_from_slice(rest);
                Ok(())
            }
            (chunk, Some((_, row_bytes))) => self.unpack(rest, chunk, row_bytes, out),
            (_, None) => Err(corrupt("a tensor that is no table is compressed")),
        }
    }
}

//! JPEG-ACT: what is smooth in a feature map, as JPEG keeps what is smooth in a picture.
//!
//! Source: Evans, Liu and Aamodt, "JPEG-ACT: Accelerating Deep Learning via Transform-based Lossy Compression" (ISCA
//! 2020), section III, and the tables that its authors published with their code. It binds neither the size nor an
//! absolute error. Four steps:
//!
//! 1. *Scaled fix-point precision reduction* (SFPR): channel c of a tensor in the order NCHW has the scale
//!    `s = S / max |x|`, where S is 1.125, and a value becomes `v = clip(round(128 s x))` of 8 bits. What is more than
//!    127/144 of the largest is clipped.
//! 2. *DCT*: the tensor is a picture of N C H rows and W columns, in tiles of 8 by 8, each of which is replaced by
//!    the coefficients `F = B V B'` of the orthonormal DCT-II.
//! 3. *SH*: each coefficient is divided by a power of two, `q = trunc(round(F) / 2^k)`, by the [`Table`].
//! 4. *ZVC*: a bit for each coefficient says whether it is not zero, and those that are not follow, a byte each.
//!
//! Back comes `x = v' / (128 s)`, where `v' = clip(round(B' (2^k q) B))`.
//!
//! Where this departs, and why:
//!
//! - The paper's is a unit of hardware beside the copy engine, which works in fixed point; this is software and
//!   transforms in 32-bit floats.
//! - The paper picks a way for each kind of layer, and has others for what activations and poolings make. A codec does
//!   not know what made its tensor, so that this is the way that it has for convolutions, everywhere.
//! - A table is part of the codec's name: `jpeg-act-l` has what the paper takes for the first five epochs,
//!   `jpeg-act-h` what it takes after them. Whoever trains changes from one to the other.
//! - The authors' code, of an experiment on small images, multiplies all values by 32 in place of the first step. It subtracts
//!   40 from zeros of what is nowhere negative, and cuts off what comes back negative, so that zeros mostly come back.
//!   Here they move. S, and which layers go another way, could not be looked up there, nor was the paper's text at
//!   hand: they are as it is known.
//! - Tiles are filled up with zeros below and to the right, not above and to the left.
//! - A block that does not shrink is kept after the first step, so that no payload exceeds a byte for each value by
//!   more than tables and padding.
//! - A tensor of fewer than three dimensions is one channel; one of a single dimension, of which nobody knows how it
//!   lies, is taken to have rows of eight.
//!
//! # Promise
//!
//! - Every value comes back within a share of the largest magnitude of its channel
//!   ([`Fidelity::Relative`]), with 16-bit types after rounding to the type. A coefficient is
//!   off by at most `2^k - 1/2`, so that a value v at (y, x) is off by at most the sum over all coefficients of
//!   `|B(i, y) B(j, x)| (2^k - 1/2)` and a half of rounding, all in parts of 144; clipping takes 17 of them at most.
//! - A channel of zeros stays zero. No value becomes larger than the largest of its channel.
//! - NaN and infinities are refused, as one of them would take away all others of its channel.
//!
//! # Payload
//!
//! - f32 for each channel: the largest magnitude;
//! - zeros up to a multiple of 16;
//! - the values of 8 bits in the [table of blocks](crate::payload). A block is as many whole rows of tiles as fit 16384
//!   values, at least one:
//!   - a u64 for each tile, tiles from left to right, then downwards: bit i says that coefficient i, counted along
//!     rows, is not zero;
//!   - the coefficients that are not, in the same order, a byte each.

mod table;
mod tile;

use half::{bf16, f16};
use rayon::prelude::*;
use schema::Dtype;

use crate::element::Element;
use crate::payload::{self, BlockCodec};
use crate::{Codec, CodecId, Error, Fidelity, Layout, TensorView};
pub use table::Table;
use tile::{BASIS, Tile, backward, forward};

/// 128 S: what the largest magnitude of a channel would become if nothing were clipped.
const SCALE: f32 = 144.0;
/// Values of a block, about.
const BLOCK: usize = 16 << 10;
/// What a thread takes at once of a tensor of one channel.
const PART: usize = 64 << 10;
/// Bytes of a tile's bits.
const BITS: usize = 8;

/// JPEG-ACT with one of its tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JpegAct {
    pub(crate) table: Table,
}

impl JpegAct {
    fn corrupt(&self, block: usize, reason: &'static str) -> Error {
        Error::Corrupt { codec: self.id(), block, reason }
    }

    /// The most that a value can be off, as a share of the largest magnitude of its channel.
    fn share(&self) -> f64 {
        let off = |(k, shift): (usize, &u8), at: usize| {
            let basis = BASIS[k / 8][at / 8] * BASIS[k % 8][at % 8];
            f64::from(basis.abs()) * (f64::from(1 << shift) - 0.5)
        };
        let at = |at| self.table.shifts().iter().enumerate().map(|each| off(each, at)).sum();
        let transformed = (0..64).map(at).fold(0.0, f64::max);
        let clipped = f64::from(SCALE) - 127.0;
        (transformed + 0.5 + clipped) / f64::from(SCALE)
    }

    fn compress_as<E: Element>(
        &self,
        input: TensorView<'_>,
        out: &mut [u8],
    ) -> Result<usize, Error> {
        let picture = Picture::of(input.layout());
        let largest = self.largest::<E>(&picture, input.bytes())?;
        let (head, blocks) = out.split_at_mut(picture.head_bytes());
        head.fill(0);
        for (place, largest) in head.as_chunks_mut().0.iter_mut().zip(&largest) {
            *place = largest.to_le_bytes();
        }
        let mut values = vec![0; input.layout().elements()];
        let planes = input.bytes().par_chunks(picture.plane * E::WIDTH);
        values.par_chunks_mut(picture.plane).zip(planes).enumerate().for_each(
            |(index, (out, plane))| {
                let largest = largest[index % picture.channels];
                for (out, value) in out.iter_mut().zip(E::read(plane)) {
                    // Nothing but zeros where the largest is zero, whose share of it is none.
                    let share = if largest == 0.0 { 0.0 } else { value / largest };
                    *out = ((share * SCALE).round_ties_even().clamp(-128.0, 127.0) as i8)
                        .cast_unsigned();
                }
            },
        );
        let tiles = Tiles { codec: *self, width: picture.width };
        Ok(head.len() + payload::compress(&tiles, &values, blocks))
    }

    /// The largest magnitude of each channel.
    fn largest<E: Element>(&self, picture: &Picture, bytes: &[u8]) -> Result<Vec<f32>, Error> {
        let plane = |(index, plane): (usize, &[u8])| match E::read(plane)
            .position(|value| !value.is_finite())
        {
            Some(at) => {
                Err(Error::NotFinite { codec: self.id(), index: index * picture.plane + at })
            }
            None => Ok(E::read(plane).fold(0.0, |largest, value| value.abs().max(largest))),
        };
        let planes = bytes.par_chunks(picture.plane * E::WIDTH).enumerate().map(plane);
        let planes: Vec<Result<f32, Error>> = planes.collect();
        let mut largest = vec![0f32; picture.channels];
        for (index, plane) in planes.into_iter().enumerate() {
            let of = &mut largest[index % picture.channels];
            *of = of.max(plane?);
        }
        Ok(largest)
    }

    fn decompress_as<E: Element>(
        &self,
        payload: &[u8],
        layout: &Layout,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let picture = Picture::of(layout);
        let Some((head, blocks)) = payload.split_at_checked(picture.head_bytes()) else {
            return Err(self.corrupt(0, "the channels' largest values are cut off"));
        };
        let largest = &head.as_chunks().0[..picture.channels];
        let largest = |index: usize| f32::from_le_bytes(largest[index % picture.channels]);
        if !(0..picture.channels).all(|channel| (0.0..=f32::MAX).contains(&largest(channel))) {
            return Err(self.corrupt(0, "a channel's largest value is not one"));
        }
        let mut values = vec![0; layout.elements()];
        let tiles = Tiles { codec: *self, width: picture.width };
        payload::decompress(&tiles, blocks, &mut values)?;
        let planes = out.par_chunks_mut(picture.plane * E::WIDTH);
        values.par_chunks(picture.plane).zip(planes).enumerate().for_each(
            |(index, (values, plane))| {
                let largest = largest(index);
                let value = |value: &u8| f32::from(value.cast_signed()) / SCALE * largest;
                E::write(plane, values.iter().map(value));
            },
        );
        Ok(())
    }
}

impl Codec for JpegAct {
    fn id(&self) -> CodecId {
        CodecId::JpegAct { table: self.table }
    }

    fn fidelity(&self) -> Fidelity {
        Fidelity::Relative { share: self.share() }
    }

    fn supports(&self, dtype: Dtype) -> bool {
        matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16)
    }

    fn worst_case(&self, layout: &Layout) -> usize {
        let picture = Picture::of(layout);
        let tiles = Tiles { codec: *self, width: picture.width };
        picture.head_bytes() + payload::worst_case(layout.elements(), tiles.block_bytes())
    }

    fn compress(&self, input: TensorView<'_>, out: &mut [u8]) -> Result<usize, Error> {
        self.check_compress(input, out)?;
        match input.layout().dtype() {
            Dtype::F16 => self.compress_as::<f16>(input, out),
            Dtype::Bf16 => self.compress_as::<bf16>(input, out),
            _ => self.compress_as::<f32>(input, out),
        }
    }

    fn decompress(&self, payload: &[u8], layout: &Layout, out: &mut [u8]) -> Result<(), Error> {
        self.check_decompress(layout, out)?;
        match layout.dtype() {
            Dtype::F16 => self.decompress_as::<f16>(payload, layout, out),
            Dtype::Bf16 => self.decompress_as::<bf16>(payload, layout, out),
            _ => self.decompress_as::<f32>(payload, layout, out),
        }
    }
}

/// How a tensor lies as a picture.
struct Picture {
    channels: usize,
    /// Values that follow each other in one channel, above 0; of a tensor of one channel, a part of it.
    plane: usize,
    /// Values of a row, above 0.
    width: usize,
}

impl Picture {
    fn of(layout: &Layout) -> Self {
        if layout.elements() == 0 {
            return Self { channels: 0, plane: 1, width: 1 };
        }
        match *layout.shape() {
            [_, channels, ref plane @ .., width] if channels > 1 && layout.shape().len() > 2 => {
                Self { channels, plane: plane.iter().product::<usize>() * width, width }
            }
            [_, .., width] if layout.shape().len() > 1 => Self { channels: 1, plane: PART, width },
            _ => Self { channels: 1, plane: PART, width: 8 },
        }
    }

    /// Bytes of the channels' largest values.
    fn head_bytes(&self) -> usize {
        (4 * self.channels).next_multiple_of(payload::ALIGN)
    }
}

/// Values of 8 bits, in rows that are cut into tiles.
struct Tiles {
    codec: JpegAct,
    width: usize,
}

impl Tiles {
    /// Bytes of eight rows.
    fn strip(&self) -> usize {
        self.width.saturating_mul(8)
    }

    /// Bytes of the bits of all tiles of a block of so many values.
    fn bits(&self, values: usize) -> usize {
        BITS * values.div_ceil(self.strip()) * self.width.div_ceil(8)
    }

    /// Where in its eight rows a row of a tile lies, as far as it is there.
    fn row(&self, strip: usize, left: usize, row: usize) -> std::ops::Range<usize> {
        let begin = row * self.width + left;
        let end = row * self.width + (left + 8).min(self.width);
        begin.min(strip)..end.min(strip)
    }
}

impl BlockCodec for Tiles {
    fn id(&self) -> CodecId {
        self.codec.id()
    }

    fn block_bytes(&self) -> usize {
        self.strip().saturating_mul((BLOCK / self.strip()).max(1))
    }

    fn compress_block(&self, block: &[u8], out: &mut [u8]) -> usize {
        let mut end = self.bits(block.len());
        let Some((all_bits, out)) = out.split_at_mut_checked(end) else { return usize::MAX };
        let mut all_bits = all_bits.as_chunks_mut::<BITS>().0.iter_mut();
        let mut at = 0;
        for strip in block.chunks(self.strip()) {
            for left in (0..self.width).step_by(8) {
                let mut values: Tile = [0; 64];
                for (row, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                    let there = &strip[self.row(strip.len(), left, row)];
                    values
                        .iter_mut()
                        .zip(there)
                        .for_each(|(value, byte)| *value = byte.cast_signed());
                }
                let Some(out) = out.get_mut(at..at + 64) else { return usize::MAX };
                let (mut bits, mut count) = (0u64, 0);
                for (index, kept) in forward(&values, self.codec.table).into_iter().enumerate() {
                    out[count] = kept.cast_unsigned();
                    count += usize::from(kept != 0);
                    bits |= u64::from(kept != 0) << index;
                }
                at += count;
                if let Some(place) = all_bits.next() {
                    *place = bits.to_le_bytes();
                }
            }
        }
        end += at;
        end
    }

    fn decompress_block(&self, block: &[u8], out: &mut [u8]) -> Result<(), &'static str> {
        let Some((all_bits, mut kept)) = block.split_at_checked(self.bits(out.len())) else {
            return Err("the tiles' bits are cut off");
        };
        let mut all_bits = all_bits.as_chunks::<BITS>().0.iter();
        for strip in out.chunks_mut(self.strip()) {
            let bytes = strip.len();
            for left in (0..self.width).step_by(8) {
                let mut bits = all_bits.next().map_or(0, |bits| u64::from_le_bytes(*bits));
                let Some((these, rest)) = kept.split_at_checked(bits.count_ones() as usize) else {
                    return Err("there are fewer coefficients than bits say");
                };
                kept = rest;
                let mut tile: Tile = [0; 64];
                for byte in these {
                    tile[bits.trailing_zeros() as usize] = byte.cast_signed();
                    bits &= bits - 1;
                }
                let values = backward(&tile, self.codec.table);
                for (row, values) in values.as_chunks::<8>().0.iter().enumerate() {
                    let there = &mut strip[self.row(bytes, left, row)];
                    there
                        .iter_mut()
                        .zip(values)
                        .for_each(|(byte, value)| *byte = value.cast_unsigned());
                }
            }
        }
        if kept.is_empty() { Ok(()) } else { Err("there are more coefficients than bits say") }
    }
}

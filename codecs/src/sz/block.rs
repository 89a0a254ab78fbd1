//! A block of the payload.

use std::marker::PhantomData;

use super::bits;
use super::huffman;
use super::lorenzo::{Axis, axes, cost};
use super::quantize::Quantizer;
use super::token::{SEGMENT, TOKENS, histogram, tokenize};
use crate::CodecId;
use crate::element::Element;
use crate::payload::BlockCodec;

/// Elements of a block at most, so that an index in it is a u16.
pub(crate) const BLOCK: usize = 1 << 16;

/// Bytes before the lengths of the streams.
pub(super) const HEADER: usize = 8;

/// What is the same for all blocks of a tensor of elements `E`.
pub(super) struct Blocks<E> {
    id: CodecId,
    quantizer: Option<Quantizer>,
    keeps_zeros: bool,
    axes: Vec<Axis>,
    elements: usize,
    element: PhantomData<fn() -> E>,
}

impl<E> Blocks<E> {
    /// For tensors of this shape, which has as many dimensions as the predictor may use.
    pub(super) fn new(id: CodecId, bound: f64, keeps_zeros: bool, shape: &[usize]) -> Self {
        let axes = if shape.contains(&0) { Vec::new() } else { axes(shape) };
        // Whole planes if any fit, else whole rows if any fit.
        let whole = axes.iter().map(|axis| axis.extent).filter(|extent| *extent <= BLOCK).max();
        let elements = whole.map_or(BLOCK, |whole| BLOCK / whole * whole);
        let quantizer = Quantizer::new(bound);
        Self { id, quantizer, keeps_zeros, axes, elements, element: PhantomData }
    }

    /// Of each axis, from a line of neighbours to the next.
    pub(super) fn extents(&self) -> Vec<u64> {
        self.axes.iter().map(|axis| axis.extent as u64).collect()
    }

    /// Error bound, step and its inverse; zeros where every block is raw.
    pub(super) fn steps(&self) -> [f32; 3] {
        self.quantizer.map_or([0.0; 3], Quantizer::steps)
    }

    pub(super) fn elements(&self) -> usize {
        self.elements
    }
}

impl<E: Element> BlockCodec for Blocks<E> {
    fn id(&self) -> CodecId {
        self.id
    }

    fn block_bytes(&self) -> usize {
        self.elements * E::WIDTH
    }

    fn compress_block(&self, block: &[u8], out: &mut [u8]) -> usize {
        let Some(quantizer) = self.quantizer else { return usize::MAX };
        if self.keeps_zeros {
            return self.compress_by(quantizer, block, out);
        }
        let first = E::read(block).next().filter(|x| x.is_finite()).unwrap_or(0.0);
        let (origin, out) = out.split_at_mut(ORIGIN);
        origin.copy_from_slice(&first.to_le_bytes());
        self.compress_by(quantizer.from(first), block, out).saturating_add(ORIGIN)
    }

    fn decompress_block(&self, block: &[u8], out: &mut [u8]) -> Result<(), &'static str> {
        let Some(quantizer) = self.quantizer else {
            return Err("with this error bound no block is compressed");
        };
        if self.keeps_zeros {
            return self.decompress_by(quantizer, block, out);
        }
        let (first, block) = block.split_first_chunk().ok_or("its first value is cut off")?;
        self.decompress_by(quantizer.from(f32::from_le_bytes(*first)), block, out)
    }
}

/// Bytes of the value that steps are counted from, where a block has one.
const ORIGIN: usize = 4;

impl<E: Element> Blocks<E> {
    fn compress_by(&self, quantizer: Quantizer, block: &[u8], out: &mut [u8]) -> usize {
        let mut exceptions = Vec::new();
        let mut quantized = vec![0; block.len() / E::WIDTH];
        quantizer.quantize::<E>(block, &mut quantized, &mut exceptions);
        let (order, differences) = predict(&self.axes, quantized);

        let mut tokens = vec![0; differences.len() + 1];
        let mut ends = Vec::with_capacity(differences.len().div_ceil(SEGMENT));
        let mut count = 0;
        for segment in differences.chunks(SEGMENT) {
            count += tokenize(segment, &mut tokens[count..]);
            ends.push(count);
        }
        let histogram = histogram(&tokens[..count]);
        let lengths = huffman::lengths(&histogram);
        // The lengths come from a histogram of theirs, so that they make a code.
        let Some(words) = huffman::words(&lengths) else { return usize::MAX };
        let used = lengths.iter().rposition(|length| *length > 0).map_or(0, |last| last + 1);

        let streams_at = HEADER + 2 * ends.len() + used.div_ceil(2);
        let exceptions_bytes = exceptions.len() * (2 + E::WIDTH);
        let streams_bytes = huffman::coded_bits(&histogram, &words).div_ceil(8) + ends.len();
        if streams_at + streams_bytes + exceptions_bytes >= block.len() {
            return usize::MAX;
        }

        let (head, rest) = out.split_at_mut(streams_at);
        put_u16(head, 0, order);
        put_u16(head, 2, used);
        put_u16(head, 4, exceptions.len());
        put_u16(head, 6, 0);
        for (byte, pair) in head[HEADER + 2 * ends.len()..].iter_mut().zip(lengths.chunks(2)) {
            *byte = pair[0] | pair.get(1).unwrap_or(&0) << 4;
        }
        let (mut position, mut begin) = (0, 0);
        for (stream, end) in ends.into_iter().enumerate() {
            let length = bits::write(&tokens[begin..end], &words, &mut rest[position..]);
            put_u16(head, HEADER + 2 * stream, length);
            position += length;
            begin = end;
        }
        let (indices, values) =
            rest[position..][..exceptions_bytes].split_at_mut(2 * exceptions.len());
        for (place, index) in indices.as_chunks_mut().0.iter_mut().zip(&exceptions) {
            *place = index.to_le_bytes();
        }
        for (place, index) in values.chunks_exact_mut(E::WIDTH).zip(&exceptions) {
            place.copy_from_slice(&block[usize::from(*index) * E::WIDTH..][..E::WIDTH]);
        }
        streams_at + position + exceptions_bytes
    }

    fn decompress_by(
        &self,
        quantizer: Quantizer,
        block: &[u8],
        out: &mut [u8],
    ) -> Result<(), &'static str> {
        let mut differences = vec![0; out.len() / E::WIDTH];
        let parts = Parts::parse(block, differences.len().div_ceil(SEGMENT), E::WIDTH)?;
        let axes = self.axes.get(..parts.order);
        let axes = axes.ok_or("its predictor has more dimensions than the tensor")?;
        let words = huffman::words(&parts.code_lengths)
            .ok_or("its code words are not those of any code")?;
        let segments = differences.chunks_mut(SEGMENT);
        let stream_lengths = get_u16s(parts.stream_lengths);
        if !bits::read(parts.streams, stream_lengths, segments, &huffman::table(&words)) {
            return Err("a stream does not end with its last element");
        }
        for axis in axes.iter().rev() {
            axis.accumulate(&mut differences);
        }
        quantizer.reconstruct::<E>(&differences, out);
        for (index, value) in get_u16s(parts.indices).zip(parts.values.chunks_exact(E::WIDTH)) {
            let place = out.get_mut(index * E::WIDTH..(index + 1) * E::WIDTH);
            place.ok_or("an exception lies outside of it")?.copy_from_slice(value);
        }
        Ok(())
    }
}

struct Parts<'a> {
    order: usize,
    code_lengths: [u8; TOKENS],
    stream_lengths: &'a [u8],
    streams: &'a [u8],
    indices: &'a [u8],
    values: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Takes a block of so many streams apart, or says what does not hold.
    fn parse(block: &'a [u8], streams: usize, width: usize) -> Result<Self, &'static str> {
        let (header, rest) = block.split_at_checked(HEADER).ok_or("its header is cut off")?;
        let [order, used, exceptions, _] = [0, 2, 4, 6].map(|at| get_u16(&header[at..]));
        let (stream_lengths, rest) =
            rest.split_at_checked(2 * streams).ok_or("the lengths of its streams are cut off")?;
        let (nibbles, rest) =
            rest.split_at_checked(used.div_ceil(2)).ok_or("its Huffman code is cut off")?;
        if used > TOKENS {
            return Err("its Huffman code has words for tokens that there are not");
        }
        let mut code_lengths = [0; TOKENS];
        for (token, length) in code_lengths[..used].iter_mut().enumerate() {
            *length = nibbles[token / 2] >> (token % 2 * 4) & 15;
        }
        let (streams, rest) = rest
            .split_at_checked(get_u16s(stream_lengths).sum())
            .ok_or("its streams are cut off")?;
        if rest.len() != exceptions * (2 + width) {
            return Err("it does not end with its last exception");
        }
        let (indices, values) = rest.split_at(2 * exceptions);
        Ok(Self { order, code_lengths, stream_lengths, streams, indices, values })
    }
}

/// The number of axes along which differences cost least, from none to all, and these differences.
/// Independent values, which have no neighbours to be predicted from, are best left alone.
fn predict(axes: &[Axis], quantized: Vec<i32>) -> (usize, Vec<i32>) {
    let mut best = (cost(&quantized), 0, quantized);
    let mut current = best.2.clone();
    for (axis, order) in axes.iter().zip(1..) {
        let mut differences = vec![0; current.len()];
        axis.difference(&current, &mut differences);
        let cost = cost(&differences);
        if cost < best.0 {
            best = (cost, order, differences.clone());
        }
        current = differences;
    }
    (best.1, best.2)
}

fn put_u16(bytes: &mut [u8], at: usize, value: usize) {
    bytes[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
}

/// The number at the front of at least two bytes.
fn get_u16(bytes: &[u8]) -> usize {
    bytes.first_chunk().map_or(0, |bytes| usize::from(u16::from_le_bytes(*bytes)))
}

fn get_u16s(bytes: &[u8]) -> impl Iterator<Item = usize> {
    bytes.chunks_exact(2).map(get_u16)
}

//! Streams of tokens as bits, the lowest bit of a byte first.

use super::huffman::{Entry, MAX_LENGTH, Table, Word};
use super::token::{Packed, TOKENS, extra, token};

/// Writes tokens to the front of `out` and returns how many bytes they take, the last one filled up
/// with zeros. Up to 8 bytes behind are overwritten.
pub(super) fn write(tokens: &[Packed], words: &[Word; TOKENS], out: &mut [u8]) -> usize {
    let (mut buffer, mut bits, mut position) = (0u64, 0, 0);
    for &packed in tokens {
        let word = words[token(packed)];
        buffer |= u64::from(word.bits) << bits;
        buffer |= u64::from(extra(packed)) << (bits + u32::from(word.length));
        bits += u32::from(word.length) + u32::from(word.extra_bits);
        // All 8 bytes each time: those that are not full yet are written again.
        out[position..position + 8].copy_from_slice(&buffer.to_le_bytes());
        position += (bits / 8) as usize;
        buffer >>= bits / 8 * 8;
        bits %= 8;
    }
    position + usize::from(bits > 0)
}

/// Decodes one segment of differences from a stream.
struct Reader<'a> {
    /// All streams of a block: it does not matter if bits of the next are seen.
    bytes: &'a [u8],
    position: usize,
    out: &'a mut [i32],
    done: usize,
}

impl Reader<'_> {
    /// The next [`PEEK`](super::huffman::PEEK) bits or more, with zeros behind the end.
    #[inline(always)]
    fn peek(&self) -> u64 {
        let rest = self.bytes.get(self.position / 8..).unwrap_or_default();
        let word = match rest.first_chunk::<8>() {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => last_bytes(rest),
        };
        word >> (self.position % 8)
    }

    fn is_done(&self) -> bool {
        self.done >= self.out.len()
    }

    /// Decodes one token. There is something left to decode. Each token decodes an element at
    /// least, so that damaged streams end too.
    #[inline(always)]
    fn step(&mut self, table: &Table) {
        let bits = self.peek();
        let Entry { base, length, extra_bits, is_run, sign } =
            table[bits as usize & ((1 << MAX_LENGTH) - 1)];
        let extra = (bits >> length) as u32 & ((1 << extra_bits) - 1);
        let magnitude = base + extra;
        let sign = i32::from(sign);
        self.out[self.done] = if is_run { 0 } else { (magnitude as i32 ^ sign) - sign };
        self.done += if is_run { magnitude as usize } else { 1 };
        self.position += usize::from(length) + usize::from(extra_bits);
    }

    /// Whether the segment ended where its stream does.
    fn ended_at(&self, end: usize) -> bool {
        self.done == self.out.len() && self.position.div_ceil(8) == end
    }
}

/// Out of line, because it happens at the end of a block only.
#[cold]
fn last_bytes(rest: &[u8]) -> u64 {
    rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Decodes streams that lie one behind the other, of these lengths in bytes, into segments of
/// differences, which hold zeros when it begins. Whether it could.
pub(super) fn read<'a>(
    bytes: &'a [u8],
    lengths: impl Iterator<Item = usize>,
    segments: impl Iterator<Item = &'a mut [i32]>,
    table: &Table,
) -> bool {
    let mut begin = 0;
    let mut streams = segments.zip(lengths).map(|(out, length)| {
        let reader = Reader { bytes, position: 8 * begin, out, done: 0 };
        begin += length;
        (reader, begin)
    });
    // Decoding waits for one look-up after the other. Four streams at a time wait together.
    loop {
        match [streams.next(), streams.next(), streams.next(), streams.next()] {
            [
                Some((mut a, a_end)),
                Some((mut b, b_end)),
                Some((mut c, c_end)),
                Some((mut d, d_end)),
            ] => {
                while !(a.is_done() | b.is_done() | c.is_done() | d.is_done()) {
                    a.step(table);
                    b.step(table);
                    c.step(table);
                    d.step(table);
                }
                let ends = [(a, a_end), (b, b_end), (c, c_end), (d, d_end)];
                if !ends.into_iter().all(|(reader, end)| finish(reader, end, table)) {
                    return false;
                }
            }
            last => {
                return last.into_iter().flatten().all(|(reader, end)| finish(reader, end, table));
            }
        }
    }
}

fn finish(mut reader: Reader<'_>, end: usize, table: &Table) -> bool {
    while !reader.is_done() {
        reader.step(table);
    }
    reader.ended_at(end)
}

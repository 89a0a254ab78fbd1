//! Zero-value compression as one writes it first: one element at a time, with a branch. What the
//! speed of the real one is measured by.
//!
//! Bitmaps and values lie one behind the other, for the whole tensor at once and without a table.

use crate::words::Word;

/// Compresses words of 2 or 4 bytes and returns the length. `out` has room for a bitmap of 4 bytes
/// for each 32 words and for all words.
pub fn compress(width: usize, input: &[u8], out: &mut [u8]) -> usize {
    match width {
        2 => compress_words::<u16>(input, out),
        _ => compress_words::<u32>(input, out),
    }
}

/// The inverse of [`compress`], of what it has written.
pub fn decompress(width: usize, payload: &[u8], out: &mut [u8]) {
    match width {
        2 => decompress_words::<u16>(payload, out),
        _ => decompress_words::<u32>(payload, out),
    }
}

fn compress_words<W: Word>(input: &[u8], out: &mut [u8]) -> usize {
    let (bitmaps, values) = out.split_at_mut(4 * (input.len() / W::WIDTH).div_ceil(32));
    let mut len = 0;
    for (words, place) in input.chunks(32 * W::WIDTH).zip(bitmaps.chunks_exact_mut(4)) {
        let mut bitmap = 0u32;
        for (lane, bytes) in words.chunks_exact(W::WIDTH).enumerate() {
            let word = W::read(bytes);
            if word != W::default() {
                bitmap |= 1 << lane;
                word.write(&mut values[len..len + W::WIDTH]);
                len += W::WIDTH;
            }
        }
        bitmap.write(place);
    }
    bitmaps.len() + len
}

fn decompress_words<W: Word>(payload: &[u8], out: &mut [u8]) {
    let (bitmaps, values) = payload.split_at(4 * (out.len() / W::WIDTH).div_ceil(32));
    let mut next = 0;
    for (words, bitmap) in out.chunks_mut(32 * W::WIDTH).zip(bitmaps.chunks_exact(4)) {
        let bitmap = u32::read(bitmap);
        for (lane, place) in words.chunks_exact_mut(W::WIDTH).enumerate() {
            if bitmap >> lane & 1 == 1 {
                W::read(&values[next..next + W::WIDTH]).write(place);
                next += W::WIDTH;
            } else {
                W::default().write(place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_compresses_comes_back() {
        for width in [2, 4] {
            for words in [0usize, 1, 31, 32, 33, 1000] {
                let bytes: Vec<u8> = (0..words * width)
                    .map(|at| if at / width % 3 == 0 { 0 } else { at as u8 | 1 })
                    .collect();
                let mut payload = vec![0; 2 * bytes.len() + 4];
                let len = compress(width, &bytes, &mut payload);
                let nonzeros = words - words.div_ceil(3);
                assert_eq!(len, 4 * words.div_ceil(32) + nonzeros * width);
                let mut restored = vec![0xff; bytes.len()];
                decompress(width, &payload[..len], &mut restored);
                assert_eq!(restored, bytes);
            }
        }
    }
}

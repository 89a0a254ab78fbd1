//! Canonical Huffman codes of limited length.

use super::token::{Histogram, Kind, Meaning, TOKENS, meaning};

/// How many bits of a stream can be seen at once from any position.
pub(super) const PEEK: u32 = 57;

/// No code word is longer. Then one table look-up decodes any, and the table stays in the fastest
/// cache. Words of tokens rarer than one in 2^11 become shorter than they should be, at little
/// cost.
pub(super) const MAX_LENGTH: u32 = 11;

/// The code word of a token, its first bit lowest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) bits: u16,
    /// 0 where the token has no word.
    pub(super) length: u8,
    /// How many bits follow the word.
    pub(super) extra_bits: u8,
}

/// Lengths of the words of an optimal code under [`MAX_LENGTH`]: package-merge (Larmore and
/// Hirschberg, JACM 1990). A single token has a word of one bit. Of equally rare ones a token comes
/// before a package and a lower token before a higher, so that there is one answer.
pub(super) fn lengths(histogram: &Histogram) -> [u8; TOKENS] {
    let mut lengths = [0; TOKENS];
    let mut leaves: Vec<(u32, usize)> =
        histogram.iter().zip(0..).filter(|(count, _)| **count > 0).map(|(c, t)| (*c, t)).collect();
    leaves.sort_unstable();
    if let [(_, only)] = leaves[..] {
        lengths[only] = 1;
    }
    if leaves.len() < 2 {
        return lengths;
    }
    // Each level offers the leaves and pairs ("packages") of what the level below offers, sorted by
    // weight. `levels[l][i]` says whether offer i of level l is a leaf.
    let mut levels: Vec<Vec<bool>> = Vec::new();
    let mut weights: Vec<u32> = Vec::new();
    for _ in 0..MAX_LENGTH {
        let mut packages = weights.as_chunks().0.iter().map(|[a, b]| a + b).peekable();
        let mut tokens = leaves.iter().map(|leaf| leaf.0).peekable();
        let mut offers = Vec::with_capacity(2 * leaves.len());
        let mut are_leaves = Vec::with_capacity(2 * leaves.len());
        loop {
            let leaf_first = match (tokens.peek(), packages.peek()) {
                (Some(token), Some(package)) => token <= package,
                (token, _) => token.is_some(),
            };
            let offer = if leaf_first { tokens.next() } else { packages.next() };
            let Some(offer) = offer else { break };
            offers.push(offer);
            are_leaves.push(leaf_first);
        }
        weights = offers;
        levels.push(are_leaves);
    }
    // The 2n - 2 lightest offers of the last level are the code. The leaves among them are the
    // lightest ones, and each adds a bit to its word; the packages are the lightest too, and
    // stand for twice as many offers of the level below.
    let mut taken = 2 * leaves.len() - 2;
    for level in levels.iter().rev() {
        let tokens = level[..taken].iter().filter(|is_leaf| **is_leaf).count();
        for (_, token) in &leaves[..tokens] {
            lengths[*token] += 1;
        }
        taken = 2 * (taken - tokens);
    }
    lengths
}

/// The canonical code of these lengths: words of one length ascend with the token, shorter words
/// come first. None where they make no code.
pub(super) fn words(lengths: &[u8; TOKENS]) -> Option<[Word; TOKENS]> {
    let mut counts = [0u32; MAX_LENGTH as usize + 1];
    for length in lengths {
        *counts.get_mut(usize::from(*length))? += 1;
    }
    let used = TOKENS as u32 - counts[0];
    let mut next = [0u32; MAX_LENGTH as usize + 1];
    let mut word = 0;
    for length in 1..=MAX_LENGTH as usize {
        next[length] = word << 1;
        word = next[length] + counts[length];
        if word > 1 << length {
            return None;
        }
    }
    let complete = word == 1 << MAX_LENGTH;
    if !(complete || used == 0 || (used == 1 && counts[1] == 1)) {
        return None;
    }
    let mut words = [Word::default(); TOKENS];
    for (token, (word, length)) in words.iter_mut().zip(lengths).enumerate() {
        if *length > 0 {
            let next = &mut next[usize::from(*length)];
            word.bits = (*next as u16).reverse_bits() >> (16 - length);
            word.length = *length;
            word.extra_bits = meaning(token).extra_bits as u8;
            *next += 1;
        }
    }
    Some(words)
}

/// Bits of everything that has been counted, code words and extra bits.
pub(super) fn coded_bits(histogram: &Histogram, words: &[Word; TOKENS]) -> usize {
    let each = |(count, word): (&u32, &Word)| *count as usize * word.total_bits();
    histogram.iter().zip(words).map(each).sum()
}

impl Word {
    fn total_bits(self) -> usize {
        usize::from(self.length) + usize::from(self.extra_bits)
    }
}

/// What the next [`MAX_LENGTH`] bits of a stream begin with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// Smallest magnitude or length of a run.
    pub(super) base: u32,
    pub(super) length: u8,
    /// Bits behind it that are added to `base`.
    pub(super) extra_bits: u8,
    pub(super) is_run: bool,
    /// -1 for negative values, else 0.
    pub(super) sign: i8,
}

/// For bits that no word begins: a run that no segment has room for.
const NOTHING: Entry =
    Entry { base: u32::MAX >> 1, length: 0, extra_bits: 0, is_run: true, sign: 0 };

/// A table to decode with, indexed by the next [`MAX_LENGTH`] bits.
pub(super) type Table = [Entry; 1 << MAX_LENGTH];

pub(super) fn table(words: &[Word; TOKENS]) -> Box<Table> {
    const { assert!(MAX_LENGTH + 22 <= PEEK) };
    let mut table = Box::new([NOTHING; 1 << MAX_LENGTH]);
    for (token, word) in words.iter().enumerate().filter(|(_, word)| word.length > 0) {
        let Meaning { base, extra_bits, kind } = meaning(token);
        let entry = Entry {
            base,
            length: word.length,
            extra_bits: extra_bits as u8,
            is_run: kind == Kind::Run,
            sign: if kind == Kind::Negative { -1 } else { 0 },
        };
        let places = table[usize::from(word.bits)..].iter_mut();
        for place in places.step_by(1 << word.length) {
            *place = entry;
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn histogram(counts: &[u32]) -> Histogram {
        let mut histogram = [0; TOKENS];
        histogram[..counts.len()].copy_from_slice(counts);
        histogram
    }

    fn lengths_of(counts: &[u32]) -> Vec<u8> {
        lengths(&histogram(counts))[..counts.len()].to_vec()
    }

    #[test]
    fn lengths_are_huffmans_where_the_limit_does_not_bind() {
        assert_eq!(lengths_of(&[1, 1, 2, 4, 8]), [4, 4, 3, 2, 1]);
        assert_eq!(lengths_of(&[0, 7, 0]), [0, 1, 0]);
        assert_eq!(lengths_of(&[5, 9]), [1, 1]);
        assert_eq!(lengths_of(&[0, 0]), [0, 0]);
    }

    #[test]
    fn lengths_are_limited() {
        let powers: Vec<u32> = (0..20).map(|i| 1 << i).collect();
        let lengths = lengths_of(&powers);
        assert_eq!(lengths.iter().max(), Some(&(MAX_LENGTH as u8)));
        assert_eq!(lengths[19], 1);
    }

    #[test]
    fn every_token_can_have_a_word() {
        let words = words(&lengths(&[1; TOKENS])).expect("a code");
        assert!(words.iter().all(|word| matches!(word.length, 8 | 9)));
    }

    #[test]
    fn lengths_that_make_no_code_are_refused() {
        let with = |given: &[u8]| {
            let mut lengths = [0; TOKENS];
            lengths[..given.len()].copy_from_slice(given);
            words(&lengths)
        };
        assert!(with(&[1, 2, 2]).is_some());
        assert!(with(&[]).is_some());
        assert!(with(&[1, 2]).is_none(), "incomplete");
        assert!(with(&[2]).is_none(), "incomplete");
        assert!(with(&[1, 1, 1]).is_none(), "too many");
        assert!(with(&[12]).is_none(), "too long");
    }

    /// The cost of an optimal code of at most `limit` bits for ascending counts, by trying how many
    /// nodes of each level are leaves.
    fn optimal(counts: &[u32], open: usize, level: u32) -> u64 {
        match (counts.is_empty(), open >= counts.len()) {
            (true, _) => 0,
            (_, true) => u64::from(level) * counts.iter().map(|c| u64::from(*c)).sum::<u64>(),
            _ if level == MAX_LENGTH => u64::MAX / 4,
            _ => (0..open)
                .map(|leaves| {
                    let (rest, taken) = counts.split_at(counts.len() - leaves);
                    let here = u64::from(level) * taken.iter().map(|c| u64::from(*c)).sum::<u64>();
                    here + optimal(rest, 2 * (open - leaves), level + 1)
                })
                .min()
                .unwrap_or(u64::MAX),
        }
    }

    proptest! {
        #[test]
        fn lengths_are_optimal(mut counts in prop::collection::vec(1u32..1 << 13, 2..9)) {
            counts.sort_unstable();
            let lengths = lengths_of(&counts);
            let cost: u64 = counts.iter().zip(&lengths).map(|(c, l)| u64::from(*c) * u64::from(*l)).sum();
            prop_assert_eq!(cost, optimal(&counts, 2, 1));
        }

        #[test]
        fn every_word_is_found_in_the_table(counts in prop::collection::vec(0u32..1000, 0..TOKENS)) {
            let words = words(&lengths(&histogram(&counts))).expect("a code");
            let table = table(&words);
            for (token, word) in words.iter().enumerate() {
                prop_assert_eq!(word.length > 0, counts.get(token).is_some_and(|c| *c > 0));
                if word.length > 0 {
                    let above = !0 << word.length & (table.len() - 1);
                    for bits in [usize::from(word.bits), usize::from(word.bits) | above] {
                        prop_assert_eq!(table[bits].length, word.length);
                        prop_assert_eq!(table[bits].base, meaning(token).base);
                    }
                }
            }
        }
    }
}
